"""Found by new generators: short windows of rare events, days that move together, restarts, gates of many slices."""

import numpy as np
import pandas as pd
from scipy.special import ndtr

from calibrant import Summary, check, evaluate
from calibrant.monitoring import add_day, compare_windows
from calibrant.monitoring.family import add_models
from calibrant.monitoring.windows import curve_test
from calibrant.views import ClassK


def rare_rows(rng, n):
    p = np.clip(0.01 * np.exp(0.8 * rng.standard_normal(n)), 1e-5, 0.9)
    return Summary(2).update(rng.random(n) < p, p)


def moving_day(rng, n, likeness):
    """A day whose rows move together, calibrated on average."""
    p = rng.beta(0.5, 0.5, n)
    noise = np.sqrt(likeness) * rng.standard_normal() + np.sqrt(1 - likeness) * rng.standard_normal(n)
    return Summary(2).update(ndtr(noise) < p, p)


def added(parts):
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def test_a_short_window_without_events_has_not_changed():
    rng = np.random.default_rng(11)
    false = {"accuracy": 0, "brier": 0, "nll": 0, "confidence": 0}
    for seed in range(60):
        window = compare_windows(rare_rows(rng, 1400), rare_rows(rng, 100), view=ClassK(1), n_resamples=9, rng=seed)
        for change in window.changes:
            assert (change.pvalue < 0.05) == (0 not in change.interval)
            false[change.name] += change.pvalue < 0.05
    assert max(false.values()) <= 8, false
    moved = compare_windows(rare_rows(rng, 1400), moving_day(rng, 400, 0.0), view=ClassK(1), n_resamples=9, rng=0)
    assert max(change.pvalue for change in moved.changes) < 1e-4


def test_a_night_of_few_rows_is_not_compared():
    rng = np.random.default_rng(12)
    changes = compare_windows(rare_rows(rng, 500), rare_rows(rng, 29), n_resamples=9, rng=0).changes
    assert [(change.interval, change.pvalue) for change in changes] == [(None, None)] * 4


def test_the_curve_of_days_that_move_together_has_not_moved():
    rng = np.random.default_rng(13)
    false = 0
    for _ in range(60):
        old, new = ([moving_day(rng, 600, 0.6).tables(ClassK(1))[0] for _ in range(7)] for _ in range(2))
        false += curve_test(added(old), added(new), 99, rng, [old, new])[1] <= 0.05
    assert false <= 7


def test_a_backfill_restarts_once(tmp_path):
    rng = np.random.default_rng(14)
    nights = [(f"2026-01-{day:02d}", None, {("a",): rare_rows(rng, 300)}) for day in range(1, 8)]
    add_models(tmp_path / "s", nights[:3], by=["model"])
    (model,) = add_models(tmp_path / "s", nights[3:], by=["model"], restart=True).models
    assert model.days == 4
    (model,) = add_models(tmp_path / "s", nights[3:], by=["model"], restart=True).models  # a retry changes nothing
    assert model.days == 4


def test_a_known_day_can_be_made_a_restart(tmp_path):
    rng = np.random.default_rng(15)
    days = [rare_rows(rng, 300) for _ in range(3)]
    for number, day in enumerate(days, start=1):
        add_day(tmp_path / "s", day, name=f"2026-01-{number:02d}")
    assert add_day(tmp_path / "s", days[1], name="2026-01-02", restart=True).days == 2
    assert add_day(tmp_path / "s", days[1], name="2026-01-02").days == 2


# -- gates of slices ------------------------------------------------------------------------------


def sliced_rows(rng, slices, n, accuracy=0.8):
    p = rng.choice([0.2, 0.8], slices * n)
    right = rng.random(slices * n) < np.where(np.arange(slices * n) % slices == 0, accuracy, 0.8)
    return pd.DataFrame(
        {"y": np.where(right, p > 0.5, p < 0.5).astype(int), "p": p, "part": np.arange(slices * n) % slices}
    )


def test_a_limit_that_every_slice_meets_is_rarely_beyond():
    rng = np.random.default_rng(16)
    how = {"label": "y", "by": "part", "min_values": {"accuracy": 0.8}, "undecided": "pass", "n_resamples": 9, "rng": 0}
    gates = [check(sliced_rows(rng, 30, 100), **how) for _ in range(12)]
    assert sum(any(line.by and line.answer == "beyond" for line in gate.lines) for gate in gates) <= 2
    assert "Intervals of slices hold for all slices together." in str(gates[0])
    broken = check(sliced_rows(rng, 30, 100, 0.5), **how).lines
    assert [line.by for line in broken if line.by and line.answer == "beyond"] == [{"part": 0}]


# -- counts ---------------------------------------------------------------------------------------


def test_rows_needed_are_those_of_the_table_written_out(tmp_path):
    rng = np.random.default_rng(17)
    p = rng.uniform(0.1, 0.6, 300).round(2)
    y, count = (rng.random(300) < p).astype(int), rng.integers(1, 5, 300)
    how = {"max_values": {"ece": 0.05, "brier": 0.43}, "n_resamples": 99, "rng": 0}
    packed = check(y, p, sample_weight=count, **how)
    written = check(np.repeat(y, count), np.repeat(p, count), **how)
    assert any(line.rows for line in written.lines)
    assert [(line.answer, line.rows) for line in packed.lines] == [(line.answer, line.rows) for line in written.lines]
    days = [Summary(2).update(y, p, sample_weight=count), Summary(2).update(np.repeat(y, count), np.repeat(p, count))]
    packed, written = (add_day(tmp_path / str(i), day, name="2026-01-01") for i, day in enumerate(days))
    assert packed.n == written.n == count.sum()


# -- weights --------------------------------------------------------------------------------------


def test_the_gap_covers_where_the_heavy_rows_show_no_surprise():
    rng = np.random.default_rng(18)
    covered = 0
    for seed in range(40):
        p = np.clip(0.05 * np.exp(0.7 * rng.standard_normal(400)), 1e-4, 0.9)
        weight = np.where(rng.random(400) < 0.05, 20.37, 1.01)
        gap = evaluate(rng.random(400) < p, p, sample_weight=weight, metrics="brier", n_resamples=9, rng=seed).facts.gap
        covered += gap is None or 0 in gap
    assert covered >= 36
