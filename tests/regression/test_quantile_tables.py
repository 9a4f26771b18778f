"""Tables of quantiles are judged at the levels they state, and at no other."""

from __future__ import annotations

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.special import ndtri

from calibrant.cli import cli
from calibrant.regression import Quantiles, evaluate, pit_values


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
