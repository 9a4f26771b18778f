"""Regression calibrators: optimum against brute force, contract, artifacts, league."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.base import clone

import calibrant
from calibrant import regression as room
from calibrant.errors import FileError, InputError, NotFittedError
from calibrant.testing import check_calibrator

LISTING = calibrant.list_calibrators("regression")
KINDS = [LISTING[name] for name in LISTING]


def rows(n=400, seed=0, scale=3.0, offset=0.5, shift=0.0):
    rng = np.random.default_rng(seed)
    mean, variance = rng.normal(size=n), rng.gamma(1.0, 1.0, n) + 1e-3
    y = mean + np.sqrt(scale * variance + offset) * (shift + rng.standard_normal(n))
    return mean, variance, y


def dss_at(w, b, mean, variance, y, weights=None):
    v = w * variance + b
    return np.average((y - mean) ** 2 / v + np.log(v), weights=weights)


@pytest.mark.parametrize("seed", range(12))
def test_variance_scaling_is_the_global_optimum(seed):
    """Brute force: a fine polar grid, polished by a general optimizer from its best points."""
    rng = np.random.default_rng(seed)
    mean, variance, y = rows(60, seed, scale=rng.gamma(0.5), offset=rng.choice([0, 0.01, 1.0]))
    if seed % 3 == 0:
        y = mean + rng.standard_t(1.5, 60) * rng.gamma(0.3, 1.0, 60)  # nothing like the model: several minima
    method = room.VarianceScaling().fit(mean, variance, y)
    got = dss_at(method.scale_, method.offset_, mean, variance, y)
    assert method.scale_ >= 0
    assert method.offset_ >= 0
    angles = np.concatenate([[0, np.pi / 2], np.arctan(np.exp(np.linspace(-14, 14, 1500)))])
    best = []
    for angle in angles:
        w, b = np.cos(angle), np.sin(angle)
        u = w * variance + max(b, 0)
        c = np.mean((y - mean) ** 2 / u)
        best.append((dss_at(c * w, c * b, mean, variance, y), c * w, c * b))
    best.sort()
    assert got <= best[0][0] + 1e-12
    polished = minimize(
        lambda p: dss_at(p[0], p[1], mean, variance, y),
        best[0][1:],
        method="L-BFGS-B",
        bounds=[(1e-12, None)] * 2,
        options={"ftol": 1e-15, "gtol": 1e-12},
    )
    assert got <= polished.fun + 1e-10
    assert got == pytest.approx(polished.fun, abs=1e-5)


def test_variance_scaling_finds_the_truth_and_its_edges():
    method = room.VarianceScaling().fit(*rows(200_000))
    assert method.scale_ == pytest.approx(3.0, rel=0.03)
    assert method.offset_ == pytest.approx(0.5, rel=0.05)
    mean, variance, y = rows(500, offset=0.0)
    pure = room.VarianceScaling().fit(mean, np.full(500, 2.0), y)
    assert pure.offset_ == 0
    assert pure.scale_ == pytest.approx(np.mean((y - mean) ** 2) / 2)
    flat = room.VarianceScaling().fit(mean, variance, mean + np.where(np.arange(500) % 2, 1.0, -1.0))
    assert flat.scale_ == 0  # the error does not depend on the variance at all
    assert flat.offset_ == pytest.approx(1.0)


def test_one_factor_makes_the_ratio_one():
    mean, variance, y = rows()
    after = room.StdScaling().fit(mean, variance, y).predict(mean, variance)
    assert room.se_variance_ratio(y, *after) == pytest.approx(1)
    both = room.VarianceScaling().fit(mean, variance, y).predict(mean, variance)
    assert room.se_variance_ratio(y, *both) == pytest.approx(1)  # stationary in the common factor
    assert room.dss(y, *both) <= room.dss(y, *after) <= room.dss(y, mean, variance)


def test_isotonic_quantiles_repair_shape_and_shift():
    rng = np.random.default_rng(0)
    mean, variance = rng.normal(size=4000), rng.gamma(2.0, 1.0, 4000) + 0.1
    y = mean + np.sqrt(variance) * (rng.gamma(1.0, 1.0, 4000) - 0.5)  # skewed and shifted
    cal, test = slice(0, 2000), slice(2000, None)
    method = room.IsotonicQuantiles().fit(mean[cal], variance[cal], y[cal])
    law = method.predict_distribution(mean[test], variance[test])
    assert room.pit_ks(y[test], mean[test], variance[test]) > 0.2
    assert room.pit_ks_test(y[test], law, rng=0).pvalue > 0.01
    new = method.predict(mean[test], variance[test])
    assert np.mean((y[test] - new[0]) / np.sqrt(new[1])) == pytest.approx(0, abs=0.1)
    assert room.se_variance_ratio(y[test], *new) == pytest.approx(1, abs=0.15)
    assert room.crps(y[test], law) < room.crps(y[test], *new) < room.crps(y[test], mean[test], variance[test])
    levels = [0.1, 0.5, 0.9]
    quantiles = method.predict_quantiles(mean[test], variance[test], levels=levels)
    assert (y[test][:, None] <= quantiles).mean(axis=0) == pytest.approx(levels, abs=0.03)


def test_isotonic_quantiles_do_not_saturate():
    """A model that is overconfident by a factor of a hundred: the PIT is 0 or 1 in double precision."""
    mean, variance, y = rows(300, scale=1e4, offset=0.0)
    method = room.IsotonicQuantiles().fit(mean, variance, y)
    assert room.se_variance_ratio(y, *method.predict(mean, variance)) == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("kind", KINDS)
def test_public_contract(kind):
    check_calibrator(kind)


class Moves(room.Identity):
    """Says it keeps the mean, and moves it."""

    def _predict(self, mean, variance):
        return mean + 1, variance


class Deaf(room.StdScaling):
    """Does not hear weights."""

    def _fit(self, mean, variance, y, weights):
        super()._fit(mean, variance, y, np.ones_like(weights))


@pytest.mark.parametrize(("kind", "words"), [(Moves, "mean is kept"), (Deaf, "whole weights")])
def test_the_suite_catches_a_broken_method(kind, words):
    with pytest.raises(AssertionError, match=f"{kind.__name__} breaks the contract: .*{words}"):
        check_calibrator(kind)


def test_one_listing():
    assert calibrant.calibrators.get_calibrator("std-scaling") is room.StdScaling
    assert calibrant.calibrators.get_calibrator("identity") is not room.Identity
    assert calibrant.calibrators.get_calibrator("identity", task="regression") is room.Identity
    frame = calibrant.list_calibrators(None).to_frame()
    assert set(frame["task"]) == {"classes", "regression"}
    assert calibrant.list_calibrators("regression")["StdScaling"] is room.StdScaling


@pytest.mark.parametrize("kind", KINDS)
def test_contract(kind, tmp_path):
    mean, variance, y = rows()
    method = kind()
    with pytest.raises(NotFittedError, match=r"predict needs a fitted calibrator"):
        method.predict(mean, variance)
    assert method.fit(mean, variance, y) is method
    first = method.predict(mean, variance)
    again = clone(method).fit(mean.tolist(), variance, y).predict(mean, variance)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert (first[1] > 0).all()
    if kind.keeps_mean:
        assert np.array_equal(first[0], mean)
    quantiles = method.predict_quantiles(mean, variance, levels=[0.1, 0.5])
    assert quantiles.shape == (400, 2)
    assert (quantiles[:, 0] < quantiles[:, 1]).all()
    path = tmp_path / "cal.json"
    method.save(path)
    loaded = calibrant.load(path)
    assert type(loaded) is kind
    assert all(np.array_equal(a, b) for a, b in zip(first, loaded.predict(mean, variance), strict=True))
    payload = json.loads(path.read_text(encoding="utf-8"))
    assert payload["schema"] == 1
    assert payload["task"] == "regression"
    path.write_text(json.dumps({**payload, "kind": "Other"}), encoding="utf-8")
    with pytest.raises(FileError, match="checksum"):
        calibrant.load(path)
    with pytest.raises(InputError, match=r"variance of .*\.fit must be positive; got 0 at row 3"):
        kind().fit(mean, np.where(np.arange(400) == 3, 0.0, variance), y)


@pytest.mark.parametrize("kind", [room.StdScaling, room.VarianceScaling, room.IsotonicQuantiles])
def test_weights_repeat_rows(kind):
    data = rows(80)
    weights = np.random.default_rng(1).integers(0, 4, 80)
    a = kind().fit(*data, weights).predict(data[0], data[1])
    b = kind().fit(*(np.repeat(column, weights) for column in data)).predict(data[0], data[1])
    for x, z in zip(a, b, strict=True):
        assert x == pytest.approx(z, rel=1e-9)


@pytest.mark.parametrize("n", [20, 80])
def test_the_choice_counts_weights_as_repeated_rows(n):
    data = rows(n, scale=4.0)
    weights = np.full(n, 5) if n == 20 else np.random.default_rng(1).integers(0, 4, n)
    weighted = room.AutoVarianceCalibrator().fit(*data, weights)
    repeated = room.AutoVarianceCalibrator().fit(*(np.repeat(column, weights) for column in data))
    assert weighted.records_ == repeated.records_ != []
    assert weighted.reason_ == repeated.reason_
    assert repr(weighted.best_) == repr(repeated.best_)


def test_the_choice_ignores_the_order_of_rows():
    data = rows(200, scale=1.3)
    order = np.random.default_rng(1).permutation(200)
    first, second = (room.AutoVarianceCalibrator().fit(*(column[take] for column in data)) for take in (order, ...))
    assert first.records_ == second.records_
    assert first.reason_ == second.reason_


def test_no_residual_is_refused():
    for kind in (room.StdScaling, room.VarianceScaling, room.IsotonicQuantiles):
        with pytest.raises(InputError, match="y of"):
            kind().fit([1.0, 2.0], [1.0, 2.0], [1.0, 2.0])


@pytest.mark.parametrize(
    ("options", "winner"),
    [
        ({"scale": 1.0, "offset": 0.0}, "identity"),
        ({"scale": 4.0, "offset": 0.0}, "std-scaling"),
        ({"scale": 0.5, "offset": 2.0}, "variance-scaling"),
        ({"scale": 1.0, "offset": 0.0, "shift": 1.5}, "isotonic-quantiles"),
    ],
)
def test_league_takes_the_simplest_map_that_suffices(options, winner):
    chosen = [room.AutoVarianceCalibrator().fit(*rows(1000, seed, **options)).best_.short_name for seed in range(5)]
    assert chosen.count(winner) >= 4


def test_league_explains_itself_and_never_harms():
    method = room.AutoVarianceCalibrator(criterion="crps").fit(*rows(500, scale=9.0))
    assert set(method.cv_results_.columns) == {"method", "crps", "gain", "gain_se", "chosen"}
    assert "lowers the held-out crps" in method.reason_
    few = room.AutoVarianceCalibrator().fit(*rows(20))
    assert few.best_.short_name == "identity"
    assert "too few" in few.reason_
    harmed = 0
    for seed in range(40):  # calibrated models: the map must not cost anything beyond noise
        method = room.AutoVarianceCalibrator().fit(*rows(200, seed, scale=1.0, offset=0.0))
        mean, variance, y = rows(5000, 1000 + seed, scale=1.0, offset=0.0)
        harmed += room.compare(y, (mean, variance), method.predict(mean, variance))["dss"].change < -0.02
    assert harmed <= 2
