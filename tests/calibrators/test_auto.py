"""The automatic repair: gains where there is something to gain, leaves alone what is calibrated, says why."""

from __future__ import annotations

import threading
import time

import numpy as np
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.naive_bayes import GaussianNB

import calibrant
from calibrant.calibrators import (
    AutoCalibrator,
    Compose,
    Ensemble,
    Identity,
    SplineCalibration,
    TemperatureScaling,
    VectorScaling,
)
from calibrant.calibrators._choice import _taken_off, selection_luck, trust
from calibrant.calibrators._crossfit import Held, deal, default_entries, settle_rows
from calibrant.calibrators._mixture import Mixture, most_likely, prior_shares
from calibrant.calibrators._scores import Scores
from calibrant.core.links import softmax
from calibrant.core.parallel import cores, map_chunks
from calibrant.errors import InputError
from calibrant.scores import Brier, Log, ProperScore
from calibrant.scores.rules import as_score
from helpers import load_data

COLUMNS = ["method", "cv_score", "gain", "se", "low", "high", "preserves_argmax", "chosen", "weight", "fit_seconds"]


def simulate(n, k=3, seed=0, sharpen=2.5, shift=0.0):
    rng = np.random.default_rng(seed)
    logits = 1.5 * rng.normal(size=(n, k))
    y = (logits + rng.gumbel(size=(n, k))).argmax(axis=1)
    return softmax(sharpen * logits + shift * np.arange(k)), y


def nll(p, y):
    return float(-np.log(np.maximum(p[np.arange(len(y)), y], 1e-15)).mean())


@pytest.fixture(scope="module")
def fitted():
    return AutoCalibrator().fit(*simulate(500, shift=0.5))


def test_repairs_and_explains(fitted):
    p, y = simulate(4000, seed=1, shift=0.5)
    truth = nll(simulate(4000, seed=1, sharpen=1.0)[0], y)
    assert nll(fitted.predict_proba(p), y) < truth + 0.02 < nll(p, y) - 0.2
    assert isinstance(fitted.cv_results_, pl.DataFrame)
    assert fitted.cv_results_.columns == COLUMNS
    league = fitted.cv_results_
    assert league["gain"].is_sorted(descending=True)
    assert league.filter(pl.col("method") == "identity")["gain"].item() == 0
    assert league["weight"].sum() == pytest.approx(1)
    assert (league["chosen"] == (league["weight"] > 0)).all()
    assert "against the uncalibrated forecast" in fitted.reason_
    assert "NLL [−" in fitted.reason_


def test_does_nothing_when_nothing_is_wrong():
    harm = 0.0
    for seed in range(4):
        p, y = simulate(300, seed=seed, sharpen=1.0)
        new, truth = simulate(4000, seed=100 + seed, sharpen=1.0)
        cal = AutoCalibrator(fast=True, rng=0).fit(p, y)
        harm += nll(cal.predict_proba(new), truth) - nll(new, truth)
    assert harm / 4 < 0.003


def test_says_that_it_does_nothing():
    p, y = simulate(2000, seed=3, sharpen=1.0)
    cal = AutoCalibrator(fast=True).fit(p, y)
    if isinstance(cal.best_, Identity):
        assert cal.reason_.startswith("no change")
    assert nll(cal.predict_proba(p), y) <= nll(p, y) + 1e-3


def test_repeats_itself_and_ignores_row_order_and_number_of_cores(monkeypatch):
    p, y = simulate(200)
    first = AutoCalibrator(fast=True).fit(p, y)
    order = np.random.default_rng(1).permutation(200)
    again = AutoCalibrator(fast=True).fit(p[order], y[order])
    np.testing.assert_allclose(again.predict_proba(p), first.predict_proba(p), atol=1e-9)
    monkeypatch.setattr("calibrant.core.parallel.cores", lambda _=None: 1)
    one = AutoCalibrator(fast=True).fit(p, y)
    assert np.array_equal(one.predict_proba(p), first.predict_proba(p))
    assert one.reason_ == first.reason_


@pytest.mark.parametrize("preserve", ["argmax", "order"])
def test_preserve(preserve):
    p, y = simulate(400, k=4, shift=1.0)
    new = simulate(1000, k=4, seed=2, shift=1.0)[0]
    q = AutoCalibrator(preserve=preserve).fit(p, y).predict_proba(new)
    assert (q.argmax(1) == new.argmax(1)).all()
    if preserve == "order":
        by_score = np.take_along_axis(q, np.argsort(new, axis=1), axis=1)
        assert (np.diff(by_score, axis=1) >= 0).all()


def test_a_mixture_of_maps_that_keep_the_order_says_so(tmp_path):
    p, y = simulate(600, k=4, shift=1.0)
    cal = AutoCalibrator(preserve="order").fit(p, y)
    cal.save(tmp_path / "auto.json")
    for one in (cal, cal.best_, calibrant.load(tmp_path / "auto.json")):
        assert one.preserves_argmax
        assert one.preserves_order
    assert isinstance(cal.best_, Ensemble)
    assert not AutoCalibrator().fit(p, y).best_.preserves_argmax
    free, held = SplineCalibration(keep_argmax=False), SplineCalibration()
    for pair, kept in (([held, Identity()], True), ([free, Identity()], False)):
        assert Ensemble(pair).preserves_argmax is Compose(*pair).preserves_argmax is kept
        assert (
            Ensemble(pair, weights=[1, 1]).fit(p, y).preserves_argmax
            is Compose(*pair).fit(p, y).preserves_argmax
            is kept
        )
    assert Ensemble([free, held], weights=[0, 1]).fit(p, y).preserves_argmax
    assert AutoCalibrator(preserve="argmax", candidates=[free]).fit(p, y).cv_results_["method"].to_list() == [
        "identity"
    ]


def test_the_shipped_mixture_can_be_fitted_again(fitted):
    p, y = simulate(500, shift=0.5)
    again = clone(fitted.best_).fit(p, y)
    np.testing.assert_allclose(again.predict_proba(p), fitted.best_.predict_proba(p), atol=1e-6)


def test_one_method_by_the_one_standard_error_rule():
    p, y = simulate(1500)
    cal = AutoCalibrator(mixture=False).fit(p, y)
    assert type(cal.best_) is TemperatureScaling  # the simplest that can undo a temperature
    assert cal.cv_results_.filter("chosen")["method"].to_list() == ["temperature"]
    p, y = simulate(1500, shift=1.0)
    assert type(AutoCalibrator(mixture=False, candidates=["temperature", "vector"]).fit(p, y).best_) is VectorScaling


def test_candidates_by_name_and_by_instance():
    p, y = simulate(300)
    cal = AutoCalibrator(candidates=["platt", TemperatureScaling(loss="brier")]).fit(p, y)
    assert set(cal.cv_results_["method"]) == {"identity", "platt", "temperature"}


def test_candidates_of_one_method_have_names_of_their_own():
    p, y = simulate(300)
    pair = [TemperatureScaling(), TemperatureScaling(loss="brier")]
    cal = AutoCalibrator(candidates=[*pair, "temperature"]).fit(p, y)  # the third is the first
    assert set(cal.cv_results_["method"]) == {"identity", "temperature", "temperature(loss='brier')"}
    assert cal.cv_results_["method"].len() == 3
    assert cal.cv_results_["fit_seconds"].n_unique() == 3


def test_other_scores():
    p, y = simulate(500, shift=0.5)
    cube = ProperScore.from_entropy("log again", lambda q: -(q * np.log(np.maximum(q, 1e-300))).sum(axis=1))
    for criterion in ("brier", "spherical", cube):
        cal = AutoCalibrator(criterion, fast=True).fit(p, y)
        assert nll(cal.predict_proba(p), y) < nll(p, y) - 0.1
        assert cal.best_ is not None


def test_exact_zeros_are_lifted_by_a_fitted_floor():
    rng = np.random.default_rng(0)
    votes = np.stack([rng.multinomial(5, q) for q in simulate(1200, sharpen=1.0)[0]]) / 5.0
    y = np.array([rng.choice(3, p=0.85 * v + 0.05) for v in votes])
    cal = AutoCalibrator().fit(votes[:600], y[:600])
    best = -np.log((0.85 * votes + 0.05)[np.arange(1200), y])[600:].mean()
    assert nll(cal.predict_proba(votes[600:]), y[600:]) < best + 0.03
    assert cal.predict_proba(np.eye(3)).min() > 0.005


def test_zeros_that_never_came_true_are_lifted_a_little():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 400)
    p[:80, 2], p[:80, 1] = 0.0, p[:80, 1] + p[:80, 2]
    y = (rng.random(400)[:, None] > np.cumsum(p, axis=1)).sum(axis=1)  # calibrated, so no zero is ever true
    cal = AutoCalibrator().fit(p, y)
    assert 0 < cal.predict_proba([[0.5, 0.5, 0.0]])[0, 2] < 0.01
    before = -np.log(p[np.arange(400), y]).mean()
    assert -np.log(cal.predict_proba(p)[np.arange(400), y]).mean() < before + 0.02 / 400


def test_evidence_decides_how_much_is_shipped():
    log = as_score("nll", "test")
    assert trust(0.015, 9.0, 200, log) == pytest.approx(0.5)  # three nats, whatever the standard error
    assert trust(0.05, 1.0, 200, log) == pytest.approx(1 / (1 + np.exp(-3.5)))
    assert trust(-5.0, 1.0, 1e9, log) < 1e-300
    brier = as_score("brier", "test")
    assert trust(0.08, 0.1, 200, brier) == 0.0
    assert trust(0.16, 0.1, 200, brier) == pytest.approx(0.75)
    assert trust(0.41, 0.1, 200, brier) == 1.0


def test_the_field_depends_on_classes_and_rows():
    def names(*shape):
        return {entry.name for entry in default_entries(*shape, fast=False)}

    assert "platt" in names(2, 200)
    assert names(10, 200) >= {"identity", "structured-matrix", "order-preserving"}
    assert "platt" not in names(10, 200)
    assert names(10, 1000) - names(10, 999) == {"isotonic"}
    assert "dirichlet" in names(30, 200)
    assert "dirichlet" not in names(31, 200)


def test_weights_of_any_size_give_one_choice():
    rng = np.random.default_rng(3)
    p = rng.uniform(size=600)
    y = (rng.uniform(size=600) < 0.25 + 0.5 * p).astype(int)
    whole = AutoCalibrator().fit(p, y).predict_proba(p)
    shares = AutoCalibrator().fit(p, y, sample_weight=np.full(600, 1 / 600)).predict_proba(p)
    np.testing.assert_allclose(shares, whole, atol=0.02)


def test_saved_loaded_exported(fitted, tmp_path):
    p = simulate(50, seed=4)[0]
    fitted.save(tmp_path / "auto.json")
    loaded = calibrant.load(tmp_path / "auto.json")
    assert np.array_equal(loaded.predict_proba(p), fitted.predict_proba(p))
    assert loaded.reason_ == fitted.reason_
    assert loaded.cv_results_.drop("fit_seconds").equals(fitted.cv_results_.drop("fit_seconds"))
    assert fitted.can_export
    np.testing.assert_allclose(
        calibrant.predict_from_json(tmp_path / "auto.json", p), fitted.predict_proba(p), atol=1e-9
    )


def test_progress_is_told():
    seen = []
    AutoCalibrator(fast=True).on_progress(lambda done, total: seen.append((done, total))).fit(*simulate(100))
    assert sorted(seen)[-1] == (12, 12)


def test_classifier_by_default():
    X, y = make_classification(n_samples=600, n_features=10, n_redundant=6, random_state=0)
    model = calibrant.CalibratedClassifier(GaussianNB()).fit(X[:400], y[:400])
    before = nll(GaussianNB().fit(X[:400], y[:400]).predict_proba(X[400:]), y[400:])
    assert nll(model.predict_proba(X[400:]), y[400:]) < before


def test_every_fold_starts_from_the_first_fit_of_its_method():
    starts, fits = {}, []

    class Watched(VectorScaling):
        def _fit(self, scores, codes, weights):
            super()._fit(scores, codes, weights)
            if not fits:
                time.sleep(0.3)  # the folds of the other methods are done by then
            fits.append(self)
            starts[id(self)] = self._warm

    AutoCalibrator(candidates=[Watched(), TemperatureScaling()], cv=5).fit(*simulate(3000))
    cold = [one for one in fits if starts[id(one)] is None]
    assert len(fits) == 6
    assert len(cold) == 2  # the first fold and all rows
    assert {id(start) for start in starts.values() if start is not None} == {id(fits[0])}


def test_a_method_that_fails_ends_the_comparison_and_frees_the_threads():
    class Failing(VectorScaling):
        def _fit(self, scores, codes, weights):
            time.sleep(0.3)  # its other folds are waiting by then
            raise ArithmeticError("no fit")

    with pytest.raises(ArithmeticError, match="no fit"):
        AutoCalibrator(candidates=[Failing(), TemperatureScaling()]).fit(*simulate(300))
    meet = threading.Barrier(cores(), timeout=20)
    assert len(list(map_chunks(lambda _: meet.wait(), range(cores())))) == cores()


@pytest.mark.parametrize("options", [{"criterion": "ece"}, {"preserve": "all"}, {"cv": 1}])
def test_wrong_options(options):
    with pytest.raises(InputError, match="must"):
        AutoCalibrator(**options).fit(*simulate(50))


def test_folds_deal_weighted_rows_like_repeated_ones():
    codes = np.repeat([0, 1], [7, 5])
    for weights in (np.ones(12), np.arange(1.0, 13.0), np.full(12, 0.01), np.linspace(0.3, 7.2, 12)):
        splits = deal(codes, weights, 5, np.random.default_rng(0))
        held = np.zeros((5, 12))
        for index, split in enumerate(splits):
            held[index, split.held] = split.held_weights
            np.testing.assert_allclose(np.bincount(split.fit, split.fit_weights, 12), weights - held[index], atol=1e-9)
        np.testing.assert_allclose(held.sum(axis=0), weights)
        unit = min(1.0, weights.mean())
        assert np.ptp(held.sum(axis=1)) <= unit * (1 + 1e-9)
    whole = deal(codes, np.full(12, 5.0), 5, np.random.default_rng(0))
    assert [float(split.held_weights.sum()) for split in whole] == [12.0] * 5
    assert any(len(split.held) < 12 for split in whole)  # copies fall as they may: even ones would hide chance
    rare = deal(np.repeat([0, 1], [40, 3]), np.ones(43), 5, np.random.default_rng(0))
    assert all((split.fit >= 40).sum() >= 2 for split in rare)  # a class with fewer rows than folds is dealt by itself


def test_folds_do_not_share_the_chance_of_class_counts():
    """Dealt class by class, a held-out part has the very frequencies a method has learned, and chance looks like gain."""
    rng = np.random.default_rng(0)
    gains = []
    for _ in range(200):
        codes = (rng.random(60) < 0.5).astype(int)
        for split in deal(codes, np.ones(60), 5, rng):
            share = codes[split.fit].mean()
            gains.append(np.log(2 * np.where(codes[split.held] == 1, share, 1 - share)).sum())
    assert (
        -1.4 < 5 * np.mean(gains) < -0.3
    )  # one number learned from 48 rows costs 0.6 nats on 60; class by class: −0.1


def test_ties_do_not_hide_rare_events_from_a_fold():
    rng = np.random.default_rng(0)
    p = rng.integers(0, 11, size=4000) / 10
    y = (rng.uniform(size=4000) < 0.02 + 0.9 * p).astype(int)  # a forecast of 0 still happens
    cal = AutoCalibrator().fit(p[:2000], y[:2000])
    best = np.where(y == 1, 0.02 + 0.9 * p, 0.98 - 0.9 * p)[2000:]
    assert nll(cal.predict_proba(p[2000:]), y[2000:]) < -np.log(best).mean() + 0.01


def test_mixture_weights_are_the_optimum():
    rng = np.random.default_rng(0)
    truth = rng.uniform(0.05, 1, size=(3000, 3))
    prior = prior_shares(np.array([0.0, 0.5, 0.0]))
    assert prior.sum() == pytest.approx(1)
    w = most_likely(truth, np.ones(3000), prior)
    grid = rng.dirichlet(np.ones(3), size=4000)
    losses = -np.log(truth @ grid.T).mean(axis=0)
    assert -np.log(truth @ w).mean() <= losses.min() + 2e-5  # the pull is worth 20 of 3,000 rows
    forecasts = rng.dirichlet(np.ones(3), size=(2, 2000))
    codes = rng.integers(3, size=2000)
    truth = forecasts[:, np.arange(2000), codes].T
    held = Held(
        truth, forecasts, codes, np.ones(2000), np.arange(2000) % 5, np.arange(2000), np.zeros(2000, int), np.zeros(2)
    )
    for score in (Brier(), Log()):
        pool = Mixture(held, score, np.array([0.5, 0.5]))
        rows = np.ones(2000, dtype=bool)
        best = pool.losses(pool.weights(rows), rows).mean()
        assert best <= min(pool.losses(np.array([s, 1 - s]), rows).mean() for s in np.linspace(0.01, 0.99, 99)) + 1e-4


def test_real_network_beats_every_single_method_in_its_league():
    data = load_data("cifar10_resnet110")
    rows = np.random.default_rng(0).permutation(5000)[:1000]
    cal = AutoCalibrator(space="logit").fit(data["logits_cal"][rows], data["labels_cal"][rows])
    got = nll(cal.predict_proba(data["logits_test"]), data["labels_test"])
    temperature = TemperatureScaling(space="logit").fit(data["logits_cal"][rows], data["labels_cal"][rows])
    assert got < nll(temperature.predict_proba(data["logits_test"]), data["labels_test"])
    assert got < 0.212


@pytest.mark.parametrize("gain", [0.0, 0.5, 1.0, 2.0])
def test_a_gain_told_only_where_it_passes_a_limit_is_told_without_its_luck(gain):
    """Normal gains that pass 0.2, in units of their error: told as they are they are too large on average."""
    seen = np.random.default_rng(0).normal(gain, 1.0, 4000)
    passed = seen[seen > 0.2]
    told = np.array([value - selection_luck(value, 1.0, 0.2) for value in passed])
    bias, before = (told - gain).sum() / 4000, (passed - gain).sum() / 4000
    assert before > (0.2 if gain < 2 else 0.05)
    assert -0.25 < bias < 0.5 * before  # errs towards too little where the gain is clear
    assert gain > 0 or abs(bias) < 0.1  # nothing to gain, nothing claimed on average
    assert selection_luck(10.0, 1.0, 0.2) == pytest.approx(0.0, abs=1e-9)


def test_a_claim_counts_as_far_as_it_is_believed():
    """The claim is the gain of the shipped map, less the luck of passing the limit, times the evidence for it."""
    clear = _taken_off((0.2, 0.01), (0.2, 0.01), 1.0, 0.01)
    assert clear == pytest.approx(0.0, abs=1e-9)
    far = _taken_off((0.02, 0.001), (0.05, 0.0025), 0.4, 0.0)
    assert far == pytest.approx(0.6 * 0.02, rel=1e-6)
    near, luck = _taken_off((0.004, 0.004), (0.008, 0.008), 0.5, 0.004), 0.5 * selection_luck(0.008, 0.008, 0.004)
    assert 0.004 - near == pytest.approx(0.5 * (0.004 - luck))
    assert _taken_off((0.1, 0.0), (0.1, 0.0), 0.5, 0.0) == pytest.approx(0.05)  # equal rows: no error, no luck


def test_a_claim_whose_interval_reaches_zero_says_so(fitted):
    shipped = 0
    for seed in range(8):  # a gap too small to be seen with so few rows
        rng = np.random.default_rng(seed)
        odds = 1.3 * rng.standard_normal(200)
        y = (rng.random(200) < 1 / (1 + np.exp(-odds))).astype(int)
        shy = AutoCalibrator(fast=True).fit(1 / (1 + np.exp(-1.8 * odds)), y)
        shipped += 0 < shy.gain_[0] < 1.96 * shy.gain_[1]
        assert (
            not 0 < shy.gain_[0] < 1.96 * shy.gain_[1]
            or "against the uncalibrated forecast, which may be nothing" in shy.reason_
        )
    assert shipped
    assert "which may be nothing" not in fitted.reason_


def test_rows_are_one_only_where_every_column_agrees():
    """Two columns order rows that they tell apart; rows that agree in these must not be joined for it."""
    p = np.array([[0.2, 0.3, 0.4, 0.1], [0.2, 0.3, 0.1, 0.4], [0.2, 0.3, 0.4, 0.1], [0.1, 0.2, 0.3, 0.4]])
    scores, codes, weights = settle_rows(Scores(p, "proba", "raw"), np.array([1, 1, 1, 0]), np.ones(4))
    np.testing.assert_array_equal(scores.matrix, p[[3, 1, 0]])
    assert (codes.tolist(), weights.tolist()) == ([0, 1, 1], [1.0, 1.0, 2.0])
