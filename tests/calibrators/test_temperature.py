"""Temperature scaling and its ensemble: the papers' anchors, exact optima, degenerate rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from calibrant.calibrators import EnsembleTemperatureScaling, TemperatureScaling
from calibrant.core.links import log_softmax, softmax
from calibrant.errors import ConvergenceWarning


def nll(p, y):
    return -np.log(p[np.arange(len(p)), y]).mean()


def brier(p, y):
    return ((p - np.eye(p.shape[1])[y]) ** 2).sum(axis=1).mean()


def ece15(p, y):
    confidence, hit = p.max(axis=1), p.argmax(axis=1) == y
    cell = np.clip(np.ceil(confidence * 15) - 1, 0, 14).astype(int)
    return np.abs(np.bincount(cell, hit - confidence, 15)).sum() / len(y)


def ks(p, y):
    confidence, hit = p.max(axis=1), p.argmax(axis=1) == y
    order = np.argsort(confidence, kind="stable")
    return np.abs(np.cumsum((hit - confidence)[order])).max() / len(y)


# official-code-facts, section 10: T, then ECE15%, KS %, Brier, NLL on the test part
@pytest.mark.parametrize(
    ("loss", "temperature", "row"),
    [
        ("nll", 2.39501, (1.132, 0.917, 0.09785, 0.2093)),
        ("brier", 2.52450, (0.582, 0.392, 0.09759, 0.2089)),
    ],
)
@pytest.mark.parametrize("space", ["proba", "logit"])
def test_published_row(cifar, loss, temperature, row, space):
    given = (lambda z: z) if space == "logit" else softmax
    cal = TemperatureScaling(loss=loss, space=space).fit(given(cifar["logits_cal"]), cifar["labels_cal"])
    assert cal.temperature_ == pytest.approx(temperature, abs=6e-6)
    p, y = cal.predict_proba(given(cifar["logits_test"])), cifar["labels_test"]
    found = (100 * ece15(p, y), 100 * ks(p, y), brier(p, y), nll(p, y))
    assert np.all(np.abs(np.subtract(found, row)) <= [6e-4, 6e-4, 6e-6, 6e-5])
    assert (p.argmax(axis=1) == y).mean() == pytest.approx(0.9356)


def test_ensemble_weights_and_row(cifar):
    cal = EnsembleTemperatureScaling(space="logit").fit(cifar["logits_cal"], cifar["labels_cal"])
    assert cal.weights_ == pytest.approx([1, 0, 0], abs=1e-8)
    assert cal.temperature_ == pytest.approx(2.52450, abs=6e-6)
    p, y = cal.predict_proba(cifar["logits_test"]), cifar["labels_test"]
    assert 100 * ece15(p, y) == pytest.approx(0.582, abs=6e-4)
    assert nll(p, y) == pytest.approx(0.2089, abs=6e-5)


@pytest.mark.parametrize("loss", ["nll", "brier"])
def test_optimum_equals_bounded_search(toy, loss):
    z, y = toy
    score = nll if loss == "nll" else brier
    reference = minimize_scalar(
        lambda b: score(softmax(b * z), y), bounds=(0.05, 5), method="bounded", options={"xatol": 1e-10}
    )
    cal = TemperatureScaling(loss=loss, space="logit").fit(z, y)
    assert 1 / cal.temperature_ == pytest.approx(reference.x, rel=1e-6)
    assert score(cal.predict_proba(z), y) <= reference.fun + 1e-14


@pytest.mark.parametrize("loss", ["nll", "brier"])
def test_derivatives_match_differences(toy, loss):
    from calibrant.calibrators import _newton

    z, y = toy
    kernel = _newton.nll_sums if loss == "nll" else _newton.brier_sums
    w = np.linspace(0.5, 2, len(y))
    for smooth in (0.0, 0.1):
        low, mid, high = (kernel(z, y, w, smooth, b) for b in (0.7 - 1e-5, 0.7, 0.7 + 1e-5))
        assert mid.slope == pytest.approx((high.loss - low.loss) / 2e-5, rel=1e-6)
        assert mid.curve == pytest.approx((high.slope - low.slope) / 2e-5, rel=1e-6)
        if loss == "nll":
            above, below = np.array([high.curve, *high.more]), np.array([low.curve, *low.more])
            assert len(mid.more) == _newton.ORDER - 2
            np.testing.assert_allclose((above - below)[:-1] / 2e-5, mid.more, rtol=1e-4)


def test_a_series_needs_few_passes(toy, monkeypatch):
    from calibrant.calibrators import _newton

    z, y = np.tile(toy[0], (12, 1)), np.tile(toy[1], 12)
    rows, plain = [], _newton.total_sums
    monkeypatch.setattr(_newton, "total_sums", lambda scores, *a, **k: rows.append(scores.n) or plain(scores, *a, **k))
    TemperatureScaling(space="logit").fit(z, y)
    assert rows.count(len(z)) == 1
    assert sum(rows) < 1.5 * len(z)


def test_sample_start_does_not_change_the_answer(toy):
    z, y = toy
    many, codes = np.tile(z, (13, 1)), np.tile(y, 13)
    assert TemperatureScaling(space="logit").fit(many, codes).temperature_ == pytest.approx(
        TemperatureScaling(space="logit").fit(z, y).temperature_, rel=1e-9
    )


@pytest.mark.parametrize(("sizes", "wrong", "deepest"), [((0.02, 20.0), 0.3, 0), ((20.0, 0.02), 0.6, 1)])
def test_squared_error_has_its_deepest_valley_from_all_rows(sizes, wrong, deepest):
    """Two kinds of rows, two valleys; a sample of every 20th row would hold one kind only."""
    rng = np.random.default_rng(0)
    z, n = rng.normal(size=(2600, 3)), 2600
    y, sampled = z.argmax(axis=1), np.arange(n) % (n // 128) == 0
    y[rng.random(n) < np.where(sampled, wrong, 0.4)] = 0
    z *= np.where(sampled, *sizes)[:, None]
    cal = TemperatureScaling(loss="brier", space="logit").fit(z, y)
    grid = np.geomspace(1e-4, 1e4, 400)
    losses = np.array([brier(softmax(beta * z), y) for beta in grid])
    valleys = grid[1:-1][(losses[1:-1] < losses[2:]) & (losses[1:-1] < losses[:-2])]
    assert len(valleys) == 2
    assert brier(cal.predict_proba(z), y) <= losses.min() + 1e-12
    assert 1 / cal.temperature_ == pytest.approx(valleys[deepest], rel=0.05)


def test_errors_of_doubled_slopes(toy):
    from calibrant.calibrators import _newton
    from calibrant.calibrators._scores import Scores

    z, y, w = *toy, np.linspace(0.5, 2, len(toy[1]))
    for smooth in (0.0, 0.1):
        found = _newton.doubled_errors(1e-3, Scores(z, "logit", "logit"), y, w, smooth)
        plain = [_newton.brier_sums(z, y, w, smooth, beta).loss for beta in 1e-3 * 2.0 ** np.arange(len(found))]
        np.testing.assert_allclose(np.diff(found), np.diff(plain), rtol=1e-9, atol=1e-9 * w.sum())


def test_separable_rows_are_reported_and_finite(toy):
    z, _ = toy
    with pytest.warns(ConvergenceWarning, match="every row is right"):
        cal = TemperatureScaling(space="logit").fit(z, z.argmax(axis=1))
    assert 0 < cal.temperature_ < 1


def test_useless_scores_are_reported(toy):
    z, _ = toy
    with pytest.warns(ConvergenceWarning, match="say nothing"):
        cal = TemperatureScaling(space="logit").fit(z, z.argmin(axis=1))
    assert np.isfinite(cal.temperature_)
    assert cal.predict_proba(z).max() < 0.26
    with pytest.warns(ConvergenceWarning, match="equal"):
        assert TemperatureScaling(space="logit").fit(np.zeros((5, 3)), [0, 1, 2, 0, 1]).temperature_ == 1.0


def test_extreme_logits_stay_finite():
    z = np.array([[1e4, 0.0, -1e4], [0.0, 1e4, 5.0], [3.0, 2.0, 1e4], [1e4, 0.0, 0.0]])
    p = TemperatureScaling(space="logit").fit(z, [0, 1, 2, 1]).predict_proba(z)
    assert np.isfinite(p).all()


def test_floor_is_fitted_only_when_zeros_occur(toy):
    z, y = toy
    p = softmax(z)
    assert TemperatureScaling().fit(p, y).floor_ == 0.0
    votes = np.round(p, 1)
    votes[:, 0] += 1 - votes.sum(axis=1)
    votes = np.clip(votes, 0, None)
    votes /= votes.sum(axis=1, keepdims=True)
    cal = TemperatureScaling().fit(votes, y)
    assert 0 < cal.floor_ < 1
    best = nll(cal.predict_proba(votes), y)
    for floor in (1e-12, 1e-6, 1e-3, 0.3):
        assert best <= nll(TemperatureScaling(floor=floor).fit(votes, y).predict_proba(votes), y) + 1e-6
    with pytest.raises(ValueError, match="exact zeros"):
        TemperatureScaling(floor=None).fit(votes, y)


def test_zero_first_met_in_predict_takes_the_smallest_seen():
    p = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.25, 0.05, 0.7], [0.6, 0.3, 0.1]])
    cal = TemperatureScaling().fit(p, [0, 1, 2, 1])
    with_zero, with_least = cal.predict_proba([[0.5, 0.5, 0.0]]), cal.predict_proba([[0.475, 0.475, 0.05]])
    z = np.log([[0.5, 0.5, 0.05]]) / cal.temperature_
    assert with_zero == pytest.approx(softmax(z), abs=1e-12)
    assert with_zero != pytest.approx(with_least)
    tiny = cal.predict_proba([[0.9, 0.1 - 1e-9, 1e-9], [0.9, 0.1, 0.0]])
    assert (np.diff(tiny, axis=1) < 0).all()  # a zero never overtakes a positive value of its row


def test_joint_ensemble_never_ends_above_the_published_one(toy):
    z, y = toy
    rng = np.random.default_rng(1)
    y = np.where(rng.random(len(y)) < 0.15, rng.integers(0, 4, len(y)), y)
    for loss, score in (("brier", brier), ("nll", nll)):
        stepwise = EnsembleTemperatureScaling(space="logit", loss=loss).fit(z, y)
        joint = EnsembleTemperatureScaling(space="logit", loss=loss, joint=True).fit(z, y)
        more = EnsembleTemperatureScaling(space="logit", loss=loss, n_components=2).fit(z, y)
        values = [score(c.predict_proba(z), y) for c in (stepwise, joint, more)]
        assert values[1] <= values[0] + 1e-12
        assert values[2] <= values[1] + 1e-6
        assert more.weights_.shape == (4,)
        assert stepwise.weights_.sum() == pytest.approx(1)


def test_ensemble_weights_are_optimal_on_the_simplex(toy):
    z, y = toy
    cal = EnsembleTemperatureScaling(space="logit").fit(z, y)
    members = np.stack([softmax(z / cal.temperature_), softmax(z), np.full(z.shape, 0.25)])
    best = brier(np.tensordot(cal.weights_, members, 1), y)
    for w in np.random.default_rng(0).dirichlet(np.ones(3), 500):
        assert best <= brier(np.tensordot(w, members, 1), y) + 1e-12


def test_temperature_of_log_probabilities_equals_logits(toy):
    z, y = toy
    a = TemperatureScaling(space="logit").fit(z, y).temperature_
    assert TemperatureScaling().fit(softmax(z), y).temperature_ == pytest.approx(a, rel=1e-9)
    assert TemperatureScaling(space="logit").fit(log_softmax(z), y).temperature_ == pytest.approx(a, rel=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "k"), [(7, 5), (50, 32), (2100, 40), (3, 40_000)])
def test_sums_of_derivatives_are_those_of_the_definition(n, k, dtype):
    """Rows that fill no whole block, short and long ones, with peaks that are known and not."""
    from calibrant.calibrators import _newton

    rng = np.random.default_rng(k)
    z, y, w = rng.normal(0, 3, (n, k)).astype(dtype), rng.integers(0, k, n), rng.uniform(0.5, 2, n)
    for smooth in (0.0, 0.1):
        d = z.astype(np.float64) - z.max(axis=1, keepdims=True)
        q = np.exp(0.7 * d)
        mass = q.sum(axis=1)
        q /= mass[:, None]
        target = (1 - smooth) * d[np.arange(n), y] + smooth * d.mean(axis=1)
        mean = (q * d).sum(axis=1)
        central = [(q * (d - mean[:, None]) ** p).sum(axis=1) for p in (2, 3)]
        known = [np.log(mass) - 0.7 * target, mean - target, *central]
        for peaks in (None, z.max(axis=1)):
            found = _newton.nll_sums(z, y, w, smooth, 0.7, peaks)
            np.testing.assert_allclose([found.loss, found.slope, found.curve, found.more[0]], known @ w, rtol=1e-9)


@pytest.mark.parametrize("n_classes", [4, 70])
def test_rows_of_weight_zero_leave_what_the_check_saw_in_order(n_classes):
    rng = np.random.default_rng(n_classes)
    z = rng.normal(0, 3, (400, n_classes)).astype(np.float32)
    y = np.where(rng.random(400) < 0.7, z.argmax(axis=1), rng.integers(0, n_classes, 400))
    w = rng.integers(0, 3, 400)
    left = TemperatureScaling(space="logit").fit(z, y, sample_weight=w)
    kept = TemperatureScaling(space="logit").fit(z[w > 0], y[w > 0], sample_weight=w[w > 0])
    assert left.temperature_ == pytest.approx(kept.temperature_, rel=1e-12)
    assert left.fitted_on_["total"] == kept.fitted_on_["total"]
