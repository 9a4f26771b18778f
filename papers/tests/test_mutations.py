"""A claim must fail when what it is about is replaced by its baseline.

Every claim names its novelty; `MUTATIONS` says what replaces it. A claim that stays green under its mutation proves
nothing, and the test says which. To add one: a function that patches, and its entry.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from calibrant.calibrators._base import Calibrator
from calibrant.core.curves import local_curve
from calibrant.core.links import softmax
from calibrant.core.tables import width_bins
from calibrant.metrics import uncertainty_calibration_error
from calibrant.views import Pooled
from calibrant_papers import list_targets, reproduce, variance_regression
from calibrant_papers.studies.learning_curves import make_method
from calibrant_papers.studies.sample_size import GRUBER
from calibrant_papers.targets import (
    gruber_sizes,
    gruber_theory,
    gruber_variance,
    gupta_figures,
    gupta_tables,
    nixon,
    uce,
    zhang_estimators,
)
from helpers import data_path

Patch = Callable[[pytest.MonkeyPatch], None]


# -- how to replace ---------------------------------------------------------------------------------


def _modules():
    return [
        m
        for name, m in list(sys.modules.items())
        if name.startswith(("calibrant_papers.", "calibrant_papers.studies."))
    ]


def everywhere(patch, name, old, new):
    """Replace a function in every module that imported it."""
    found = [module for module in _modules() if getattr(module, name, None) is old]
    assert found, name
    for module in found:
        patch.setattr(module, name, new)


def forget():
    """Empty the caches of the targets: what is kept there was made by the other function."""
    for module in _modules():
        if module.__name__.startswith("calibrant_papers."):
            for value in list(vars(module).values()):
                if hasattr(value, "cache_clear") and getattr(value, "__name__", "") not in ("_load", "list_targets"):
                    value.cache_clear()


class Unchanged:
    """A calibrator that learns nothing."""

    def __init__(self, space):
        self.space = space

    def fit(self, X, y):
        return self

    def predict_proba(self, X):
        return softmax(X) if self.space == "logit" else np.asarray(X, dtype=np.float64)


def methods(**instead: str | None) -> Patch:
    """Fit another method under the same name; None: none at all. `_` stands for a hyphen."""

    def patch(monkeypatch):
        forget()
        names = {old.replace("_", "-"): new for old, new in instead.items()}

        def made(name, space) -> Calibrator | Unchanged:
            new = names.get(name, names.get("*", name))
            return Unchanged(space) if new is None else make_method(new, space)

        everywhere(monkeypatch, "make_method", make_method, made)

    return patch


#: Forecasts of baselines by method and rows: several tables ask for the same.
_FITTED: dict[tuple, np.ndarray] = {}


def spline_by(name: str) -> Patch:
    """Replace the spline by another method on splits as published, by nothing on random ones; "" by nothing at all."""

    def forecast(split, rows):
        if name == "" or (name != "ts-nll" and split.note != "split as published"):
            return gupta_tables.proba(rows)
        key = (name, split.cal.scores.shape, float(split.cal.scores.sum()), float(rows.scores.sum()))
        if key not in _FITTED:
            fitted = make_method(name, split.cal.space).fit(split.cal.scores, split.cal.labels)
            _FITTED[key] = fitted.predict_proba(rows.scores)
        return _FITTED[key]

    def scores(split, r, within, knots, kind="linear"):
        score, hit = gupta_tables.ranked(forecast(split, split.test), split.test.labels, r, within)
        return hit, score

    def repaired(split, r, within, knots):
        parts = {"calibration": split.cal, "test": split.test}
        return {k: gupta_tables.ranked(forecast(split, rows), rows.labels, r, within)[0] for k, rows in parts.items()}

    def patch(monkeypatch):
        everywhere(monkeypatch, "spline_scores", gupta_tables.spline_scores, scores)
        everywhere(monkeypatch, "repaired", gupta_figures.repaired, repaired)
        if name == "":
            same = gupta_tables.spline_curve
            everywhere(monkeypatch, "spline_curve", same, lambda score, hit, knots: lambda new: new)

    return patch


def splits(change: Callable) -> Patch:
    """Change the calibration and test rows."""

    def patch(monkeypatch):
        forget()
        true = gupta_tables.split_of
        everywhere(monkeypatch, "split_of", true, lambda *args: change(true(*args)))

    return patch


def _shuffled(rows):
    return rows._replace(labels=np.random.default_rng(0).permutation(rows.labels))


def _calibrated(rows):
    """Labels drawn from the forecasts themselves."""
    p = gupta_tables.proba(rows)
    drawn = (p.cumsum(axis=1) < np.random.default_rng(1).random(len(p))[:, None]).sum(axis=1)
    return rows._replace(labels=np.minimum(drawn, p.shape[1] - 1))


def curves(change: Callable) -> Patch:
    """Change the series of every trained variance network."""

    def patch(monkeypatch):
        forget()
        for name in ("residential", "friedman"):
            true = _trained(name)
            monkeypatch.setattr(
                gruber_variance,
                name,
                lambda *args, true=true, **options: replace(
                    found := true(*args, **options), series=change(dict(found.series))
                ),
            )

    return patch


@cache
def _trained(name):
    return cache(getattr(variance_regression, name))


def _standardized(monkeypatch):
    forget()
    true = _trained("residential")
    monkeypatch.setattr(
        gruber_variance, "residential", lambda data, **options: true(data, **(options | {"protocol": "standardized"}))
    )


def measures(**instead: str) -> Patch:
    """Measure something else under the names of the sample-size study; `others` stands for all but RBS."""

    def patch(monkeypatch):
        forget()
        for name in GRUBER:
            new = instead.get("RBS" if name == "RBS" else "others")
            if new:
                monkeypatch.setitem(GRUBER, name, new)

    return patch


def attribute(module, name: str, new) -> Patch:
    """Replace one function or constant of a module."""

    def patch(monkeypatch):
        forget()
        monkeypatch.setattr(module, name, new)

    return patch


def _reversed_order(y, proba, weight=None, true=gruber_theory._taxonomy):
    return {name: -value for name, value in true(y, proba, weight).items()}


def _without_noise(index, score, chance, n):
    return float(np.abs(np.bincount(index, chance - score, 15)).sum() / len(index))


def _laws(monkeypatch):
    """Constructions whose forecasts speak of the classes in reverse order."""
    for name in ("hidden_miscalibration", "accuracy_replaced", "collapsed"):
        true = getattr(gruber_theory, name)
        monkeypatch.setattr(
            gruber_theory,
            name,
            lambda *args, true=true, **options: replace(
                found := true(*args, **options), y_proba=np.asarray(found.y_proba)[:, ::-1]
            ),
        )


def _no_map(monkeypatch):
    true = gruber_theory.collapsed
    monkeypatch.setattr(gruber_theory, "collapsed", lambda: replace(found := true(), y_proba=np.asarray(found.before)))


def _weak_only(y, proba, weight=None, true=gruber_theory._taxonomy):
    found = true(y, proba, weight)
    return found | {"CE2": found["TCE2"], "RBS": found["TCE2"]}


def item(mapping: dict, **instead: str) -> Patch:
    """Measure something else under the same name."""

    def patch(monkeypatch):
        forget()
        for name, new in instead.items():
            monkeypatch.setitem(mapping, name, new)

    return patch


def _flat(split):
    """Forecasts that are hardly sure of anything."""
    scores = split.test.scores * 0.1 if split.test.space == "logit" else split.test.scores**0.1
    if split.test.space == "proba":
        scores = scores / scores.sum(axis=1, keepdims=True)
    return split._replace(test=split.test._replace(scores=scores))


def sweeps(change: Callable) -> Patch:
    """Change the rows of a sweep over temperatures."""

    def patch(monkeypatch):
        forget()
        true = uce._sweep
        monkeypatch.setattr(uce, "_sweep", lambda *args: tuple(change(list(true(*args)))))

    return patch


def _one_temperature(rows):
    """Every temperature gives the forecasts of T = 1."""
    one = min(rows, key=lambda row: abs(row["temperature"] - 1))
    return [one | {"temperature": row["temperature"]} for row in rows]


def _sharpness(rows):
    """A metric that looks at forecasts alone."""
    return [row | {"ECE": 1 / row["temperature"]} for row in rows]


def _reversed_classes(*args, true=uce._proba):
    y, p = true(*args)
    return y, p[:, ::-1]


def estimators(names: dict[str, str], sign: float = 1.0) -> Patch:
    """Read other rows of the estimator study."""

    def patch(monkeypatch):
        true = zhang_estimators._at
        monkeypatch.setattr(
            zhang_estimators,
            "_at",
            lambda rows, model, n, name, *key: sign * true(rows, model, n, names.get(name, name), *key),
        )

    return patch


def _same_rows(monkeypatch):
    true = zhang_estimators._at
    monkeypatch.setattr(zhang_estimators, "_at", lambda rows, model, n, *rest: true(rows, model, 64, *rest))


#: Mutations that change nothing which is kept.
KEEPS = ("spline", "KDE", "histograms", "more rows")
#: What a claim is about -> what it is replaced by.
MUTATIONS: dict[str, Patch] = {
    "ETS": methods(ets="ts"),
    "ETS fits at all": methods(ets=None),
    "IRM": methods(irm="irova"),
    "IRM by TS": methods(irm="ts"),
    "IROvA": methods(irova="ts"),
    "IROvA-TS": methods(irova_ts="irova"),
    "IROvA in IROvA-TS": methods(irova_ts="ts"),
    "TS": methods(ts="irova"),
    "accuracy-preserving maps": methods(ts="irova", ets="irova", irm="irova"),
    "calibration": methods(**{"*": None}),
    "calibration gain": methods(ets=None, irova_ts=None),
    "spline": spline_by("ts-nll"),
    "spline at all": spline_by(""),
    "spline, not vector scaling": spline_by("vs"),
    "spline, not MS-ODIR": spline_by("ms-odir"),
    "spline, not Dir-ODIR": spline_by("dir-odir"),
    "calibration labels": splits(lambda split: split._replace(cal=_shuffled(split.cal))),
    "miscalibration": splits(lambda split: split._replace(test=_calibrated(split.test))),
    "held-out rows": splits(lambda split: split._replace(test=split.cal)),
    "KDE": estimators(
        {"KDE": "15 bins", "15 bins": "KDE", "15 bins, debiased": "KDE", "15 bins, debiased, may be negative": "KDE"}
    ),
    "histograms": estimators({}, sign=-1.0),
    "more rows": _same_rows,
    "recalibration": curves(lambda s: {k: s[k.replace("_after", "_before")] for k in s}),
    "training": curves(lambda s: {k: np.repeat(v[:, :1], v.shape[1], axis=1) for k, v in s.items()}),
    "a mean that is not overfitted": curves(lambda s: s | {"mse": s["mse"] * np.linspace(1, 9, s["mse"].shape[1])}),
    "raw inputs": _standardized,
    "length scale of 1": curves(
        lambda s: s | {f"skce_{part}": s[f"skce_median_{part}"] for part in ("before", "after")}
    ),
    "RBS": measures(RBS="cwce:n_bins=100"),
    "biased estimators": measures(others="rbs"),
    "KDE CE₂": attribute(gruber_sizes, "CANONICAL", "rbs"),
    "order of the taxonomy": attribute(gruber_theory, "_taxonomy", _reversed_order),
    "bounds": attribute(gruber_theory, "BOUNDS", ()),
    "the construction": _laws,
    "the map": _no_map,
    "canonical errors": attribute(gruber_theory, "_taxonomy", _weak_only),
    "proposition 3.3": attribute(gruber_theory, "_expected", _without_noise),
    "sampling noise": attribute(gruber_theory, "_ece_of", lambda index, score, label: 0.01),
    "calibration levels": attribute(
        gruber_theory, "_level", lambda base, scale, true=gruber_theory._level: true(base, 1.0)
    ),
    "adaptive ranges": attribute(nixon, "mass_bins", nixon.width_bins),
    "threshold of ranges": attribute(nixon, "Pooled", lambda *threshold: Pooled()),
    "test labels": splits(lambda split: split._replace(test=_shuffled(split.test))),
    "decay": attribute(nixon, "local_curve", lambda score, w, wt, decay: local_curve(score, w, wt, 0.8)),
    "confident forecasts": splits(_flat),
    "more simulated rows": attribute(
        nixon, "_simulated", lambda n, generator, true=nixon._simulated: true(100, generator)
    ),
    "all classes, simulated": item(nixon.MEASURES, ACE="ece", TACE="ece"),
    "all classes under noise": item(sys.modules[nixon.label_noise.__module__].MEASURES, ACE="ece", TACE="ece"),
    "normalized entropy": item(uce.SPECS, UCE="ece"),
    "normalized entropy, not ACE": attribute(uce, "paper_ace", lambda y, p, m: uncertainty_calibration_error(y, p)),
    "adaptive bins": attribute(uce, "mass_bins", width_bins),
    "class frequencies": attribute(uce, "CONSTANT", (0.7, 0.3)),
    "temperature": sweeps(_one_temperature),
    "calibration metrics": sweeps(_sharpness),
    "accuracy": attribute(uce, "_proba", _reversed_classes),
}

# -- every claim ------------------------------------------------------------------------------------

#: Tested with mutations of their own (test_trained.py).
TRAINED = {
    *("nixon-table-1", "nixon-table-2", *(f"nixon-fig-{i}" for i in (3, 5, 6, 9, 10))),
    *("uce-table-1", "uce-table-2", *(f"uce-fig-{i}" for i in (2, 7, 8, 9))),
}
#: A few seconds for all their mutations; the others belong to the slow tests.
SWIFT = {
    *(f"gupta-fig-{i}" for i in range(1, 11)),
    *("gruber-theorem-3-1", "gruber-prop-3-2", "gruber-prop-d-2", "gruber-appendix-e"),
    *("zhang-fig-7", "zhang-fig-8", "zhang-fig-9"),
    *(f"nixon-fig-{i}" for i in (1, 2, 4, 7, 8, 11)),
    *(f"uce-fig-{i}" for i in (1, 3, 4, 5, 6, 10)),
}


def _targets():
    for name in list_targets():
        if name not in TRAINED:
            yield name if name in SWIFT else pytest.param(name, marks=pytest.mark.slow)


def green_under_mutation(name, claims):
    """Return the claims that their own mutation does not turn red."""
    folder = data_path("cifar10_resnet110").parent
    still = []
    for novelty in dict.fromkeys(claim.novelty for claim in claims):
        with pytest.MonkeyPatch.context() as monkeypatch:
            MUTATIONS[novelty](monkeypatch)
            after = {f.text: f.verdict for f in reproduce(name, data=folder, quick=True).findings}
        if not novelty.startswith(KEEPS):
            forget()
        still += [
            f"{claim.text} ({novelty})"
            for claim in claims
            if claim.novelty == novelty and after[claim.text] != "not confirmed"
        ]
    return still


@pytest.mark.parametrize("name", list(_targets()))
def test_every_claim_fails_without_its_novelty(name, quick):
    data_path("cifar10_resnet110")
    judged = [f for f in quick(name).findings if f.holds is not None]
    assert judged
    assert not [f.text for f in judged if f.novelty not in MUTATIONS], "claims without a mutation"
    confirmed = [f for f in judged if f.holds]
    assert not green_under_mutation(name, confirmed)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [n for n in list_targets() if n.startswith(("zhang-table", "zhang-fig-1", "zhang-fig-6"))]
)
def test_with_ets_and_irm_replaced_by_temperature_scaling(name, quick):
    """The mutation of the whole paper: no target may keep all its confirmed claims."""
    folder = data_path("cifar10_resnet110").parent
    before = {f.text for f in quick(name).findings if f.holds}
    with pytest.MonkeyPatch.context() as monkeypatch:
        methods(ets="ts", irm="ts", irova_ts="ts")(monkeypatch)
        after = {f.text for f in reproduce(name, data=folder, quick=True).findings if f.holds}
    forget()
    assert before - after


@pytest.mark.parametrize(
    "name",
    [
        *("gupta-fig-3", "gupta-fig-4"),
        *(pytest.param(f"gupta-table-{i}", marks=pytest.mark.slow) for i in (1, 4)),
    ],
)
def test_with_the_ks_error_replaced_by_a_binned_one(name, quick, monkeypatch):
    """The printed numbers are KS errors: a binned error must miss bands that the KS error hits.

    Where all bins err to the same side both agree: the other figures and tables 2 and 6 print nothing else that is hit.
    """
    folder = data_path("cifar10_resnet110").parent
    hit = {line.label for line in quick(name).lines if line.hit}
    everywhere(monkeypatch, "ks", gupta_tables.ks, gupta_tables.ece25)
    result = reproduce(name, data=folder, quick=True)
    assert hit & {line.label for line in result.missed}
    assert result.verdict == "not confirmed"


def test_a_claim_that_cannot_fail_is_found(monkeypatch):
    """The test itself must be able to fail."""
    from calibrant_papers import reproduction
    from calibrant_papers.targets.result import Finding, TargetResult

    always = Finding("anything goes", True, novelty="spline")
    run = reproduction.Target("gupta-fig-1", "p", lambda *_: TargetResult("gupta-fig-1", "S", "t", (), (always,)))
    monkeypatch.setattr(reproduction, "list_targets", lambda: {"gupta-fig-1": run})
    assert green_under_mutation("gupta-fig-1", [always]) == ["anything goes (spline)"]
