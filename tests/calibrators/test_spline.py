"""Spline calibration: published numbers, exact least squares, the quadratic program, and the capped vectors."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from calibrant.calibrators import SplineCalibration
from calibrant.calibrators._natural_spline import MAX_POINTS, NaturalBasis, fit_curve
from calibrant.calibrators._scores import Scores
from calibrant.calibrators.spline import share, target_pairs
from calibrant.core.links import softmax
from calibrant.core.pav import pool_ties
from calibrant.core.programs import Graph
from calibrant.errors import InputError
from calibrant.metrics import accuracy, expected_calibration_error, kolmogorov_smirnov_error
from calibrant.testing import check_calibrator
from helpers import load_data


@pytest.fixture(scope="module")
def cifar():
    data = load_data("cifar10_resnet110")
    return {part: (data[f"logits_{part}"], data[f"labels_{part}"].astype(np.int64)) for part in ("cal", "test")}


def ranked(p, y):
    """Scores from large to small and where the truth is among them."""
    order = np.argsort(-p, axis=1, kind="stable")
    return np.take_along_axis(p, order, axis=1), order == y[:, None]


def ks(hit, score):
    return 100 * kolmogorov_smirnov_error(hit.astype(int), score, view="class-1")


# -- the paper's tables ---------------------------------------------------------------------------


def test_top_score_alone(cifar):
    """Table 1: 0.643 with swapped weights; independent code gives 0.650-0.652 with the weights the right way round."""
    (logits, labels), (new, truth) = cifar["cal"], cifar["test"]
    fitted = SplineCalibration().fit(softmax(logits), labels)
    score, hit = ranked(softmax(new), truth)
    assert 0.6495 <= ks(hit[:, 0], fitted.recalibrate(score[:, 0])) <= 0.6525


def test_ece_with_thirteen_knots(cifar):
    """Table 6: 1.011; independent code 1.008-1.158 over tie orders."""
    (logits, labels), (new, truth) = cifar["cal"], cifar["test"]
    score, hit = ranked(softmax(new), truth)
    fitted = SplineCalibration(n_knots=13).fit(softmax(logits), labels)
    error = expected_calibration_error(
        hit[:, 0].astype(int), fitted.recalibrate(score[:, 0]), n_bins=25, view="class-1"
    )
    assert 1.008 <= 100 * error <= 1.158


def test_within_two_with_fourteen_knots(cifar):
    """Table 4: 0.277 with float32 sums, tied in 73% of the rows; their procedure without ties gives 0.300."""
    (logits, labels), (new, truth) = cifar["cal"], cifar["test"]
    score, hit = ranked(softmax(new), truth)
    fitted = SplineCalibration(n_knots=14, target="within-2", space="logit")
    mapped = fitted.fit(logits, labels).recalibrate(score[:, :2].sum(axis=1))
    assert ks(hit[:, :2].any(axis=1), mapped) == pytest.approx(0.300, abs=3e-3)


def test_full_vectors(cifar):
    """The new top score stands: KS 0.65 ± 0.01%, accuracy untouched; free classes move the argmax and the error."""
    (logits, labels), (new, truth) = cifar["cal"], cifar["test"]
    q = SplineCalibration(space="logit").fit(logits, labels).predict_proba(new)
    assert 100 * kolmogorov_smirnov_error(truth, q) == pytest.approx(0.65, abs=0.01)
    assert accuracy(truth, q) == 0.9356
    np.testing.assert_array_equal(q.argmax(axis=1), new.argmax(axis=1))
    free = SplineCalibration(space="logit", keep_argmax=False).fit(logits, labels).predict_proba(new)
    assert 100 * kolmogorov_smirnov_error(truth, free) > 1.0


def test_vectors_are_as_good_as_the_score_alone(cifar):
    (logits, labels), (new, truth) = cifar["cal"], cifar["test"]
    fitted = SplineCalibration(target="within-2", n_knots=14, space="logit").fit(logits, labels)
    q = fitted.predict_proba(new)
    np.testing.assert_array_equal(q.argmax(axis=1), new.argmax(axis=1))
    before = kolmogorov_smirnov_error(truth, new, view="within-2", space="logit")
    after = kolmogorov_smirnov_error(truth, q, view="within-2")
    score, hit = ranked(softmax(new), truth)
    alone = fitted.recalibrate(score[:, :2].sum(axis=1))
    assert 100 * after == pytest.approx(ks(hit[:, :2].any(axis=1), alone), abs=0.05)
    assert after < before / 3


@pytest.mark.parametrize("target", ["classwise", "all-ranks"])
def test_curves_per_class_and_rank_repair_their_columns(cifar, target):
    (logits, labels), (new, truth) = cifar["cal"], cifar["test"]
    fitted = SplineCalibration(target=target, space="logit", n_knots=14).fit(logits, labels)
    np.testing.assert_array_equal(fitted.predict_proba(new).argmax(axis=1), new.argmax(axis=1))
    p = softmax(new)
    scores, hits = ranked(p, truth) if target == "all-ranks" else (p, truth[:, None] == np.arange(10))
    after = fitted.recalibrate(scores)
    errors = [(ks(hits[:, k], scores[:, k]), ks(hits[:, k], after[:, k])) for k in range(10)]
    assert np.mean([new for _, new in errors]) < 0.75 * np.mean([old for old, _ in errors])


# -- the fit --------------------------------------------------------------------------------------


def test_exact_least_squares_equal_a_fine_grid():
    """The integrals by parts equal a brute-force least squares fit on a fine grid of fractiles."""
    rng = np.random.default_rng(0)
    score = rng.random(200).round(2)
    hit = rng.random(200) < score**2
    weight = rng.random(200) + 0.1
    table = pool_ties(score, hit, weight)
    border = np.append(0.0, np.cumsum(table.weight) / table.weight.sum())
    grid = (np.arange(200_000) + 0.5) / 200_000
    gap = np.append(0.0, np.cumsum((table.hits / table.weight - table.first) * np.diff(border)))
    brute = np.linalg.lstsq(NaturalBasis(6).spline(grid), np.interp(grid, border, gap), rcond=None)[0]
    np.testing.assert_allclose(fit_curve(table, 6, monotone=False)[2], brute, atol=1e-8)


def test_mean_is_moved_by_the_spline_alone():
    """Σ w·(new − old) is the rise of the spline: the mean slopes are exact for any stretch of fractiles."""
    rng = np.random.default_rng(1)
    score = np.concatenate([rng.random(50), np.full(400, 0.97)])
    hit = rng.random(450) < 0.8
    table = pool_ties(score, hit, rng.random(450))
    old, new, knots = fit_curve(table, 7, monotone=False)
    share = table.weight / table.weight.sum()
    assert share @ (new - old) == pytest.approx(knots[-1] - knots[0], abs=1e-12)


def test_weights_repeat_and_rows_may_come_in_any_order():
    rng = np.random.default_rng(2)
    p = softmax(3 * rng.normal(size=(150, 3))).round(2)
    p[:, 0] += 1 - p.sum(axis=1)
    p = np.abs(p) / np.abs(p).sum(axis=1, keepdims=True)
    y = rng.integers(0, 3, 150)
    count = rng.integers(0, 4, 150)
    order = rng.permutation(count.sum())
    for options in ({}, {"monotone": True}, {"target": "all-ranks"}, {"target": "within-2"}):
        weighted = SplineCalibration(**options).fit(p, y, sample_weight=count).predict_proba(p)
        repeated = SplineCalibration(**options).fit(np.repeat(p, count, axis=0)[order], np.repeat(y, count)[order])
        np.testing.assert_allclose(weighted, repeated.predict_proba(p), atol=1e-10)


def test_monotone_fit_solves_the_quadratic_program():
    rng = np.random.default_rng(3)
    score = np.sort(rng.random(120))
    hit = rng.random(120) < np.where(score < 0.5, 0.7, 0.3)  # falling: the constraints bind
    table = pool_ties(score, hit)
    old, new, knots = fit_curve(table, 6, monotone=True)
    _, _, free = fit_curve(table, 6, monotone=False)
    assert (np.diff(new) >= 0).all()
    assert new.min() >= 0
    assert new.max() <= 1
    basis = NaturalBasis(6)
    rows = basis.mean_slope(np.arange(121) / 120)
    assert np.diff(old + rows @ free).min() < -1e-6
    reference = minimize(
        lambda c: (c - free) @ basis.gram @ (c - free),
        np.zeros(6),
        jac=lambda c: 2 * basis.gram @ (c - free),
        method="SLSQP",
        options={"ftol": 1e-16, "maxiter": 1000},
        constraints=[
            {"type": "ineq", "fun": lambda c: np.diff(old + rows @ c), "jac": lambda c: np.diff(rows, axis=0)},
            {"type": "ineq", "fun": lambda c: (old + rows @ c)[[0]], "jac": lambda c: rows[:1]},
            {"type": "ineq", "fun": lambda c: 1 - (old + rows @ c)[[-1]], "jac": lambda c: -rows[-1:]},
        ],
    )
    np.testing.assert_allclose((knots - free) @ basis.gram @ (knots - free), reference.fun, rtol=1e-4)
    np.testing.assert_allclose(new, np.maximum.accumulate(old + rows @ reference.x), atol=1e-3)


def test_large_tables_are_stored_at_a_fixed_number_of_scores():
    rng = np.random.default_rng(4)
    p = rng.random(60_000)
    y = (rng.random(60_000) < p).astype(int)
    fitted = SplineCalibration().fit(p, y)
    assert len(fitted.thresholds_[0]) <= MAX_POINTS
    query = np.linspace(0.5, 1, 5000)
    exact = fit_curve(pool_ties(np.maximum(p, 1 - p), (p > 0.5) == y), 6, monotone=False)
    np.testing.assert_allclose(fitted.recalibrate(query), np.clip(np.interp(query, *exact[:2]), 0, 1), atol=1e-4)


# -- vectors --------------------------------------------------------------------------------------


def shared(row, total, **bounds):
    graph = Graph()
    nodes = {name: graph.constant(value) for name, value in bounds.items()}
    return graph.program(share(graph, graph.x, graph.constant(total), len(row), **nodes)).run(np.array([row]))[0]


def test_shares_by_hand():
    np.testing.assert_allclose(shared([0.6, 0.3, 0.1], 0.5), [0.3, 0.15, 0.05])
    np.testing.assert_allclose(shared([0.6, 0.3, 0.1], 0.5, cap=0.4), [0.3, 0.15, 0.05])  # the cap does not bind
    np.testing.assert_allclose(shared([0.1, 0.6, 0.2], 0.7, cap=0.3), [0.4 / 3, 0.3, 0.8 / 3])
    np.testing.assert_allclose(shared([0.7, 0.0, 0.0], 0.7, cap=0.3), [0.3, 0.2, 0.2])
    np.testing.assert_allclose(shared([0.5, 0.4, 0.1], 0.5, cap=0.1), [0.1, 0.1, 0.1])  # as much as the cap allows
    np.testing.assert_allclose(shared([0.6, 0.3, 0.1], 1.0, floor=0.2), [1.6 / 3, 0.8 / 3, 0.2])
    np.testing.assert_allclose(shared([0.9, 0.1, 0.0], 0.9, floor=0.2), [0.5, 0.2, 0.2])


@pytest.mark.parametrize("target", ["top-1", "within-2", "within-3"])
def test_vectors_carry_the_new_score_and_keep_the_ranks(target):
    rng = np.random.default_rng(5)
    logits = 2 * rng.normal(size=(400, 4))
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    p = softmax(2 * logits)
    fitted = SplineCalibration(target=target).fit(p, y)
    q = np.take_along_axis(fitted.predict_proba(p), np.argsort(-p, axis=1, kind="stable"), axis=1)
    kind, r = target.split("-")
    r = int(r)
    ((score, _),) = target_pairs(Scores(p, "proba", "proba"), y, kind, r)
    new = fitted.recalibrate(score)
    np.testing.assert_allclose(q[:, :r].sum(axis=1), np.maximum(new, r / 4), atol=1e-8)
    assert (q[:, :r].min(axis=1) >= q[:, r:].max(axis=1) - 1e-12).all()


def test_target_pairs_follow_the_views():
    p = np.array([[0.5, 0.3, 0.2], [0.2, 0.2, 0.6], [0.4, 0.4, 0.2]])
    scores = Scores(p, "proba", "proba")
    y = np.array([1, 1, 1])
    ((score, hit),) = target_pairs(scores, y, "top", 1)
    np.testing.assert_allclose(score, [0.5, 0.6, 0.4])
    assert hit.tolist() == [False, False, False]  # ties: the lower index ranks first
    ((score, hit),) = target_pairs(scores, y, "within", 2)
    np.testing.assert_allclose(score, [0.8, 0.8, 0.8])
    assert hit.tolist() == [True, False, True]
    assert len(target_pairs(scores, y, "all-ranks", 1)) == len(target_pairs(scores, y, "classwise", 1)) == 3


@pytest.mark.parametrize(
    "options",
    [{"monotone": True}, {"target": "classwise"}, {"target": "all-ranks"}, {"target": "within-1", "n_knots": 2}],
)
def test_options_keep_the_contract(options):
    check_calibrator(SplineCalibration(**options))


def test_options_are_checked():
    for options in (
        {"n_knots": 1},
        {"target": "top-0"},
        {"target": "top"},
        {"target": "top-2"},
        {"target": "within-3"},
    ):
        with pytest.raises(InputError, match=next(iter(options))):
            SplineCalibration(**options).fit(np.full((4, 3), 1 / 3), [0, 1, 2, 0])
    fitted = SplineCalibration().fit([0.2, 0.8, 0.6], [0, 1, 0])
    with pytest.raises(InputError, match="shape"):
        fitted.recalibrate([[0.5, 0.5]])
    with pytest.raises(InputError, match="finite"):
        fitted.recalibrate([np.nan])
    columns = SplineCalibration(target="classwise").fit([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]], [2, 0])
    assert columns.recalibrate(np.full((5, 3), 0.4)).shape == (5, 3)
