"""Bets on whole days and clusters, and the e-detector that finds a late break as fast as an early one."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import calibrant
from calibrant.errors import InputError
from calibrant.monitoring.sequential import log_evalue, log_increments
from calibrant.monitoring.units import UNIT_BETS, day_increments, log_detector, unit_increments
from calibrant.summary.summary import Summary


def repeated(rng, rows=40, times=5):
    """Calibrated rows that come several times each."""
    score = np.repeat(rng.uniform(0.5, 1.0, rows), times)
    return np.repeat(rng.random(rows), times) < score, score, np.repeat(np.arange(rows), times)


def test_a_bet_on_a_unit_is_fair_whatever_its_rows_do():
    """The mean of every bet is 1: over rows that move as one, and over all outcomes of one row."""
    rng = np.random.default_rng(0)
    wealth = np.zeros(len(UNIT_BETS))
    for _ in range(4000):
        right, score, unit = repeated(rng, 3, 4)
        wealth += np.exp(unit_increments(score, right * 1.0, np.ones(12), unit))
    assert wealth / 4000 == pytest.approx(np.ones(len(UNIT_BETS)), abs=0.08)
    one = [np.exp(unit_increments(np.array([0.8]), np.array([t]), np.ones(1), np.zeros(1, int))) for t in (0.0, 1.0)]
    assert 0.2 * one[0] + 0.8 * one[1] == pytest.approx(np.ones(len(UNIT_BETS)))


def test_a_tolerated_gap_never_makes_a_bet_favorable():
    score = np.linspace(0.55, 0.95, 9)
    for gap in (-0.05, 0.05):
        mean = np.zeros(len(UNIT_BETS))
        for t in range(2**3):  # all outcomes of three rows that are one unit
            hits = np.array([t & 1, t >> 1 & 1, t >> 2 & 1], dtype=float)
            chance = np.prod(np.where(hits == 1, score[:3] + gap, 1 - score[:3] - gap))
            mean += chance * np.exp(unit_increments(score[:3], hits, np.ones(3), np.zeros(3, int), 0.05))
        assert mean.max() <= 1 + 1e-12


def test_cells_and_rows_of_a_day_agree():
    right, score, _ = repeated(np.random.default_rng(1), 60, 3)
    cells = day_increments(Summary(pairs=True).update(right, score).tables("top-1")[0])
    rows = unit_increments(score, right * 1.0, np.ones(180), np.zeros(180, int))
    assert cells == pytest.approx(rows, abs=1e-3)


def test_repeated_rows_alarm_only_where_rows_are_the_unit(tmp_path):
    stores = {"row": {}, "day": {"unit": "day"}, "cluster": {}}
    for day in range(8):
        right, score, unit = repeated(np.random.default_rng(day), 100, 8)
        for name, options in stores.items():
            more = {"groups": unit} if name == "cluster" else options
            report = calibrant.monitor(tmp_path / name, right, score, pairs=True, name=f"day{day}", **more)
            stores[name] = {} if name == "cluster" else options if day == 0 else {}
            assert report.unit == name
            assert {"row": "independent given their scores", "day": "rows of a day", "cluster": "rows of a cluster"}[
                name
            ] in str(report)
            if day == 7:
                assert report.alarm == (name == "row")


def test_a_late_break_is_found_as_fast_as_an_early_one():
    def gains(quiet, rng):
        out = []
        for day in range(quiet + 12):
            score = rng.uniform(0.5, 1.0, 150)
            right = rng.random(150) < score - 0.08 * (day >= quiet)
            out.append(log_increments(Summary(pairs=True).update(right, score).tables("top-1")[0]))
        return out

    late, early = gains(99, np.random.default_rng(0)), gains(0, np.random.default_rng(1))

    def delay(path, quiet, limit):
        return int(np.flatnonzero(path[quiet:] >= np.log(limit))[0]) + 1

    assert delay(log_detector(late), 99, 1000) <= delay(log_detector(early), 0, 1000)
    assert delay(log_evalue(late), 99, 100) > delay(log_evalue(early), 0, 100)  # money held back for a hundred days


def test_run_length_and_clusters_of_a_file(tmp_path):
    right, score, unit = repeated(np.random.default_rng(3))
    path = tmp_path / "2026-11-15.csv"
    pl.DataFrame({"correct": right, "confidence": score, "patient": unit}).write_csv(path)
    report = calibrant.monitor(tmp_path / "store", path, groups="patient", run_length=1000)
    assert (report.unit, report.run_length, report.log_threshold) == ("cluster", 1000, pytest.approx(np.log(1000)))
    assert "at most once in 1,000 days" in str(report)
    assert report.to_dict()["unit"] == "cluster"
    with pytest.raises(InputError, match="bets per cluster"):
        calibrant.monitor(tmp_path / "store", path, name="next")
    with pytest.raises(InputError, match="stay"):
        calibrant.monitor(tmp_path / "store", path, name="next", groups="patient", run_length=50)
    calibrant.monitor(tmp_path / "rows", path)
    with pytest.raises(InputError, match="unit"):
        calibrant.monitor(tmp_path / "rows", path, name="next", groups="patient")
    with pytest.raises(InputError, match="run_length"):
        calibrant.monitor(tmp_path / "rows", path, name="next", run_length=0.5)


def two_classes(rng, n=400, gap=0.0):
    """Two classes whose errors about one half cancel in the confidence of the top label."""
    p = np.where(rng.random(n) < 0.5, rng.uniform(0.1, 0.45, n), rng.uniform(0.55, 0.9, n))
    return (rng.random(n) < p + gap).astype(int), p


def test_two_classes_are_watched_by_the_positive_class(tmp_path):
    """A shift that raises one class and lowers the other leaves the confidence right, and is found."""
    rng = np.random.default_rng(0)
    for day in range(6):
        y, p = two_classes(rng, gap=0.08)
        found = calibrant.monitor(tmp_path / "new", y, p, name=f"day{day}")
        clustered = calibrant.monitor(tmp_path / "units", y, p, name=f"day{day}", groups=np.arange(400) // 2)
    assert found.alarm
    assert clustered.alarm
    assert found.window.ks_pvalue > 0.001  # nothing changed between the windows


def test_a_store_of_an_earlier_version_goes_on_with_the_top_label(tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "store.json").write_text('{"schema": 1, "alpha": 0.01, "tolerance": 0.0}')
    for day in range(6):
        y, p = two_classes(rng, gap=0.08)
        old = calibrant.monitor(tmp_path / "old", y, p, name=f"day{day}")
        pairs = calibrant.monitor(
            tmp_path / "pairs", y == (p > 0.5), np.maximum(p, 1 - p), pairs=True, name=f"day{day}"
        )
    assert old.log_evalue == pytest.approx(pairs.log_evalue, abs=1e-6)
    assert not old.alarm


def test_calibrated_two_classes_raise_no_alarm(tmp_path):
    alarms = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        for day in range(3):
            report = calibrant.monitor(
                tmp_path / str(seed), *two_classes(rng), name=f"day{day}", **({"alpha": 0.05} if day == 0 else {})
            )
        alarms += report.alarm
    assert alarms <= 3
