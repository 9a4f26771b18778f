"""Tables of quantiles are judged at the levels they state, and at no other."""

from __future__ import annotations

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.special import ndtri

from calibrant.cli import cli
from calibrant.core.rows import check_rows
from calibrant.errors import InputError
from calibrant.regression import Quantiles, evaluate, interval, interval_score, pinball, pit_values
from calibrant.reporting import report_evidence


def table(rng, n, levels, spread=1.0):
    """Return outcomes that are normal around known means, and their true quantiles (wrong by `spread`)."""
    mean, std = rng.normal(size=n), np.exp(0.4 * rng.normal(size=n))
    z = ndtri(np.asarray(levels))
    return mean + spread * std * rng.normal(size=n), Quantiles(levels, mean[:, None] + std[:, None] * z)


@pytest.mark.parametrize("levels", [(0.1, 0.5, 0.9), (0.25, 0.5, 0.9), (0.05, 0.95), (0.5,)])
def test_right_quantiles_are_not_called_wrong(levels):
    """Between three levels nothing is stated: a straight line there would be rejected in every one of these."""
    rng = np.random.default_rng(5)
    false = 0
    for _ in range(40):
        y, forecast = table(rng, 3000, levels)
        false += evaluate(y, forecast, rng=0).verdict.status in ("miscalibrated", "right on average", "small gap")
    assert false <= 6  # 2 of 40 expected at 5%; above 6 has probability 0.3%


def test_narrow_quantiles_are_found_with_the_interval_that_is_stated():
    y, forecast = table(np.random.default_rng(0), 2000, (0.1, 0.5, 0.9), spread=1.5)
    found = evaluate(y, forecast, rng=0)
    assert found.verdict.status == "miscalibrated"
    assert found.verdict.direction == "over"
    assert "meant to contain 80%" in found.verdict.text
    assert found.facts.meant == 0.8
    inside = np.mean((y > forecast.values[:, 0]) & (y <= forecast.values[:, 2]))
    assert found.facts.inside == pytest.approx(inside)
    assert found.facts.ratio is None  # no variance is stated


def test_quantiles_without_an_interval_name_the_worst_level():
    y, forecast = table(np.random.default_rng(1), 2000, (0.5, 0.9), spread=2.0)
    found = evaluate(y, forecast, rng=0)
    assert found.verdict.headline == "Quantiles in the wrong place"
    assert "below the 90% quantile" in found.verdict.text


def test_pit_lies_between_the_levels_around_the_outcome():
    forecast = Quantiles([0.1, 0.5, 0.9], np.tile([[0.0, 1.0, 2.0]], (6, 1)))
    pit = pit_values([-1.0, 0.5, 1.5, 3.0, 1.0, 0.0], forecast, rng=0)
    low, high = [0.0, 0.1, 0.5, 0.9, 0.5, 0.1], [0.1, 0.5, 0.9, 1.0, 0.5, 0.1]
    assert (np.array(low) <= pit).all()
    assert (pit <= np.array(high)).all()


def test_equal_quantiles_share_their_outcome():
    forecast = Quantiles([0.2, 0.4, 0.6], np.zeros((4000, 3)))
    pit = pit_values(np.zeros(4000), forecast, rng=0)
    assert pit.min() >= 0.2
    assert pit.max() <= 0.6
    assert pit.mean() == pytest.approx(0.4, abs=0.01)


def test_every_command_sees_the_same_table(tmp_path):
    y, forecast = table(np.random.default_rng(2), 300, (0.1, 0.5, 0.9), spread=1.3)
    path = tmp_path / "quantiles.csv"
    rows = [",".join(map(repr, (float(a), *map(float, q)))) for a, q in zip(y, forecast.values, strict=True)]
    path.write_text("\n".join(["y,q10,q50,q90", *rows]))
    page = tmp_path / "page.html"
    first, again = (CliRunner().invoke(cli, ["evaluate", str(path)]) for _ in range(2))
    shown = CliRunner().invoke(cli, ["report", str(path), "-o", str(page)])
    assert first.exit_code == again.exit_code == shown.exit_code == 0, shown.output
    assert first.stdout == again.stdout
    verdict = next(line for line in first.stdout.splitlines() if line.startswith("Verdict: "))
    assert verdict.removeprefix("Verdict: ") in shown.output
    assert "how errors grow" not in page.read_text()  # a table states no variance


def test_fit_refuses_quantiles(tmp_path):
    path = tmp_path / "quantiles.csv"
    path.write_text("y,q10,q90\n" + "0.1,-1,1\n" * 20)
    done = CliRunner().invoke(cli, ["fit", str(path), "-o", str(tmp_path / "cal.json")])
    assert "quantiles cannot be recalibrated" in str(done.exception)


def test_levels_that_a_table_does_not_state_are_refused():
    y, forecast = table(np.random.default_rng(0), 200, (0.25, 0.5, 0.75))
    with pytest.raises(
        InputError, match=r"^level of interval_score must be .*\(0\.5\); got 0\.9\. Hint: pass level=0\.5"
    ):
        interval_score(y, forecast)
    with pytest.raises(InputError, match=r"^levels of pinball must be .*\(0\.25, 0\.5, 0\.75\); got 0\.01"):
        pinball(y, forecast)
    with pytest.raises(InputError, match=r"^levels of pinball"):
        evaluate(y, forecast, metrics=["pinball"])
    with pytest.raises(InputError, match=r"^levels of pinball"):
        interval("pinball", y, forecast)
    gap = y - forecast.values[:, 1]
    assert pinball(y, forecast, levels=[0.5]) == pytest.approx(np.abs(gap).mean() / 2)
    assert interval_score(y, forecast, level=0.5) > 0
    with pytest.raises(InputError, match=r"they state no central interval; got 0\.9"):
        interval_score(*table(np.random.default_rng(0), 200, (0.25, 0.5)))


def test_sets_of_metrics_hold_what_the_table_states():
    rng = np.random.default_rng(0)
    names = [result.name for result in evaluate(*table(rng, 200, (0.25, 0.5, 0.75)), rng=0)]
    assert names == ["crps", "pit-ks", "qce"]
    every = {result.name for result in evaluate(*table(rng, 200, (0.25, 0.5, 0.75)), metrics="all", rng=0)}
    assert not every & {"pinball", "interval-score", "dss"}
    y, forecast = table(rng, 200, np.arange(1, 100) / 100)
    assert {"pinball", "interval-score"} <= {result.name for result in evaluate(y, forecast, metrics="all", rng=0)}


def test_report_judges_a_table_with_a_constant_row():
    y, forecast = table(np.random.default_rng(0), 200, (0.1, 0.5, 0.9))
    forecast.values[3] = 1.0
    page = report_evidence(check_rows(y, forecast, caller="report"), rng=0, n_resamples=50)
    changed = Quantiles(forecast.levels, forecast.values + np.array([0.0, 0.0, 1.0]))
    checks = {check_rows(y, one, caller="report").checksum() for one in (forecast, changed)}
    assert len(checks) == 2
    assert page.summary["method"]["checksum"] in checks
