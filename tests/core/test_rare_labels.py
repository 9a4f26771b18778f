"""Labels drawn only where a row may be surprising have the law of labels drawn for every row."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant import metrics as _metrics  # noqa: F401  -- declares every metric
from calibrant.core import resampling
from calibrant.core.declare import lookup
from calibrant.core.inputs import check_forecast
from calibrant.core.resampling import class_outcomes, draw_labels, replicate_labels
from calibrant.core.surprises import RareLabels, _successes

SIZE = 20_000


def confident(n, k, dtype=np.float64, seed=0):
    """Forecasts that are mostly sure of one class, among them a sure row, an even one and one that is nearly sure."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet([0.3] * k, n) * (10.0 ** rng.uniform(-5, -1, n))[:, None]
    p[np.arange(n), rng.integers(k, size=n)] += 1.0
    p[0], p[1] = np.eye(k)[k - 1], 1.0
    p[2], p[2, 0] = 1e-9, 1.0
    p /= p.sum(axis=1, keepdims=True)
    return check_forecast(np.zeros(n, int), p.astype(dtype), caller="test")


@pytest.mark.parametrize(("k", "dtype"), [(2, np.float64), (4, np.float32), (12, np.float64)])
def test_every_row_and_class_has_its_own_chance(k, dtype):
    forecast = confident(80, k, dtype)
    labels = np.stack(list(RareLabels.law(forecast)(SIZE, np.random.default_rng(1))))
    shares = np.stack([(labels == j).mean(axis=0) for j in range(k)], axis=1)
    p = forecast.proba() / forecast.proba().sum(axis=1, keepdims=True)
    assert (np.abs(shares - p) < 5 * np.sqrt(p * (1 - p) / SIZE) + 8 / SIZE).all()
    assert (labels[:, 0] == k - 1).all()


def test_rows_and_draws_are_independent():
    """The number of surprises varies as that of independent rows does, and neighboring draws know nothing of another."""
    forecast = confident(200, 5, seed=3)
    drawn = RareLabels.law(forecast)(SIZE, np.random.default_rng(2))
    risk = 1.0 - forecast.top_score
    number = np.bincount(drawn.draw, minlength=SIZE)
    assert number.mean() == pytest.approx(risk.sum(), abs=5 * np.sqrt(risk.sum() / SIZE))
    assert number.var() == pytest.approx(float(risk @ (1.0 - risk)), rel=0.06)
    assert abs(np.corrcoef(number[1:], number[:-1])[0, 1]) < 5 / np.sqrt(SIZE)
    assert len(np.unique(drawn.draw * forecast.n + drawn.row)) == len(drawn.row)  # one label each


def test_trials_succeed_alike_to_the_last_one():
    rng = np.random.default_rng(0)
    for trials, chance in ((7, 0.3), (1, 0.5), (40, 1.0), (3, 2.0**-30)):
        found = [_successes(trials, chance, rng) for _ in range(4000)]
        shares = np.bincount(np.concatenate(found).astype(int), minlength=trials) / 4000
        assert len(shares) == trials
        assert np.abs(shares - chance).max() <= 5 * np.sqrt(chance * (1 - chance) / 4000)


@pytest.mark.parametrize("kind", ["width", "mass"])
def test_counts_by_class_and_bin_are_those_of_whole_labels(kind):
    forecast = confident(4000, 6, np.float32)
    drawn = RareLabels.law(forecast)(7, np.random.default_rng(4))
    outcomes = class_outcomes(forecast, 15, kind)
    np.testing.assert_array_equal(outcomes(drawn), outcomes(np.stack(list(drawn))))


@pytest.mark.parametrize("name", ["cwce", "sce", "tace"])
def test_null_distributions_agree(name, monkeypatch):
    """The same metric, its labels drawn in both ways; `tace` takes label after label."""
    forecast = confident(400, 4, seed=5)
    found = []
    for most in (0, 10**12):
        monkeypatch.setattr(resampling, "MANY_DRAWS", most)
        found.append(replicate_labels({name: lookup(name).build()}, forecast, 1500, np.random.default_rng(6))[name])
    rare, whole = found
    assert not np.array_equal(rare.values, whole.values)
    assert abs(rare.mean - whole.mean) < 5 * np.hypot(rare.std, whole.std) / np.sqrt(1500)
    assert rare.std == pytest.approx(whole.std, rel=0.12)


def test_uncertain_forecasts_draw_every_row():
    p = np.random.default_rng(0).dirichlet([1] * 4, 100)
    assert RareLabels.law(check_forecast(np.zeros(100, int), p, caller="test")) is None


def test_few_draws_stay_as_they_were(monkeypatch):
    """Below the border the labels are those of `draw_labels`, so that stored answers hold."""
    forecast = confident(300, 4)
    recipe = lookup("cwce").build()
    monkeypatch.setattr(RareLabels, "law", lambda _: pytest.fail("drawn in the other way"))
    found = replicate_labels({"cwce": recipe}, forecast, 50, np.random.default_rng(7))["cwce"]
    labels = draw_labels(forecast, 50, np.random.default_rng(7).spawn(1)[0])
    np.testing.assert_array_equal(found.values, recipe.label_values(forecast)(labels))
