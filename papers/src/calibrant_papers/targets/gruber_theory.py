"""Theory of Gruber & Buettner (2022) on known laws: theorem 3.1, propositions 3.2 and D.2, appendix E, figure 2.

References
----------
[1] Gruber & Buettner (2022), "Better Uncertainty Calibration via Proper Scores for Classification and Beyond", NeurIPS.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np

from calibrant import metrics
from calibrant._typing import RNG, Array, Floats
from calibrant.core.inputs import Forecast, check_forecast
from calibrant.core.links import softmax
from calibrant.core.options import check_rng
from calibrant.core.tables import Pairs
from calibrant.datasets import SimulatedForecast, accuracy_replaced, collapsed, hidden_miscalibration
from calibrant.inference.bias import folded_mean
from calibrant.metrics.taxonomy import BOUNDS
from calibrant.views import Classwise, TopLabel
from calibrant_papers.hundred_classes import hundred_classes
from calibrant_papers.measures import ks_by_predicted_class
from calibrant_papers.studies.arrays import log_sizes
from calibrant_papers.targets.result import MIN_SEEDS, Finding, Line, TargetResult
from calibrant_papers.variance_regression import one_thread

__all__ = ["TARGETS"]


def _by_score(pairs: Pairs, p: float) -> float:
    """E |s − E[t | s]|^p with every distinct score its own group."""
    _, group = np.unique(np.round(pairs.score, 12), return_inverse=True)
    w = np.ones(len(group)) if pairs.weight is None else pairs.weight
    count = np.bincount(group, w)
    gap = np.abs(np.bincount(group, w * pairs.score) - np.bincount(group, w * pairs.outcome)) / count
    return float((count / count.sum() * gap**p).sum())


def _taxonomy(y: Array, proba: Floats, weight: Floats | None = None) -> dict[str, float]:
    """Return every error of the taxonomy on the empirical distribution (each distinct forecast its own group)."""
    forecast = check_forecast(y, proba, caller="reproduce", sample_weight=weight)
    _, group = np.unique(np.round(proba, 12), axis=0, return_inverse=True)
    group = group.reshape(-1)
    w = np.ones(len(y)) if weight is None else weight / weight.sum() * len(y)
    k = proba.shape[1]
    onehot = np.eye(k)[y] * w[:, None]
    mean = np.stack([np.bincount(group, onehot[:, j]) for j in range(k)], 1) / np.bincount(group, w)[:, None]
    gap, top, found = np.abs(proba - mean[group]), TopLabel().pairs(forecast), {}
    for p in (1, 2):
        found[f"CE{p}"] = float(np.average((gap**p).sum(axis=1), weights=w) ** (1 / p))
        found[f"TCE{p}"] = _by_score(top, p) ** (1 / p)
        found[f"CWCE{p}"] = sum(_by_score(pairs, p) for pairs in Classwise().groups(forecast)) ** (1 / p)
    found |= {
        "RBS": metrics.root_brier_score(y, proba, sample_weight=weight),
        "ECE": metrics.expected_calibration_error(y, proba, sample_weight=weight),
        "KS": metrics.kolmogorov_smirnov_error(y, proba, sample_weight=weight),
        "MMCE": metrics.maximum_mean_calibration_error(y, proba, sample_weight=weight),
        "KCE": _kce(proba, proba - mean[group], w),
        "KS by class": ks_by_predicted_class(y, proba, sample_weight=weight),
    }
    return found


def _kce(proba: Floats, gap: Floats, w: Floats) -> float:
    """KCE [1] (definition C.4) with the kernel exp(−‖p − p′‖), by distinct forecasts."""
    distinct, first, group = np.unique(np.round(proba, 12), axis=0, return_index=True, return_inverse=True)
    share = np.bincount(group.reshape(-1), w) / w.sum()
    kernel = np.exp(-np.linalg.norm(distinct[:, None] - distinct[None], axis=2))
    weighted = share[:, None] * gap[first]
    return math.sqrt(max(float(np.einsum("ik,ij,jk", weighted, kernel, weighted)), 0.0))


#: Theorem 3.1 as pairs (upper, lower) of the names above; each is also in `calibrant.metrics.taxonomy.BOUNDS`.
ORDER = (
    ("RBS", "CE2"),
    ("CE1", "CWCE1"),
    ("CE2", "CWCE2"),
    ("CE1", "TCE1"),
    ("CE2", "TCE2"),
    ("TCE2", "TCE1"),
    ("TCE1", "ECE"),
    ("TCE1", "KS"),
    ("TCE1", "MMCE"),
    ("CE2", "KCE"),
)


def _stated() -> bool:
    """Whether each pair of `ORDER`, its order written as p, is one of `BOUNDS` (TCE₁ stands for itself)."""

    def written(name: str) -> set[str]:
        letters = name.rstrip("12")
        return {name, letters, f"{letters}_p", letters + {"1": "₁", "2": "₂"}.get(name[-1], "")}

    known = [(bound.upper, bound.lower) for bound in BOUNDS]
    return all(any(u in written(upper) and w in written(lower) for u, w in known) for upper, lower in ORDER)


def _random_model(generator: np.random.Generator) -> tuple[int, dict[str, float]]:
    """Return the number of classes and every error of a random finite model."""
    k, m, n = int(generator.integers(2, 6)), int(generator.integers(1, 9)), int(generator.integers(5, 400))
    distinct = generator.dirichlet(np.full(k, 0.7), m)
    law = generator.dirichlet(np.full(k, 0.7), m)
    which = generator.integers(0, m, n)
    y = (law[which].cumsum(axis=1) <= generator.random(n)[:, None]).sum(axis=1).clip(0, k - 1)
    return k, _taxonomy(y, distinct[which])


def theorem_3_1(quick: bool, data: Path | None = None, rng: RNG = 0) -> TargetResult:
    """All inequalities of the taxonomy on random finite models (`data` is not needed)."""
    del data
    models = 8 if quick else 100
    slacks, norms, above = [], [], []
    example: dict[str, float] = {}
    for generator in check_rng(rng, "reproduce").spawn(MIN_SEEDS):
        slack, norm, by_class = dict.fromkeys(ORDER, math.inf), math.inf, math.inf
        for _ in range(models):
            k, found = _random_model(generator)
            for pair in ORDER:
                slack[pair] = min(slack[pair], found[pair[0]] - found[pair[1]])
            norm = min(norm, math.sqrt(k) * found["CE2"] - found["CE1"], math.sqrt(2) - found["RBS"])
            by_class = min(by_class, found["TCE1"] - found["KS by class"])
            example = found
        slacks.append(slack)
        norms.append(norm)
        above.append(by_class)
    lines = [
        Line(f"smallest {upper} − {lower}", min(s[upper, lower] for s in slacks), note="over all models")
        for upper, lower in ORDER
    ]
    lines += [Line(f"{name} of the last model", value) for name, value in example.items()]
    findings = (
        Finding.over(
            f"all inequalities of the taxonomy, {models} random models per seed",
            [all(value >= -1e-9 for value in slack.values()) for slack in slacks],
            measured=f"smallest difference {min(min(s.values()) for s in slacks):.2g}",
            novelty="order of the taxonomy",
        ),
        Finding.over(
            "CE₁ ≤ √K·CE₂ and RBS ≤ √2",
            [value >= -1e-9 for value in norms],
            measured=f"smallest difference {min(norms):.2g}",
            novelty="order of the taxonomy",
        ),
        Finding.over(
            "TCE₁ is above KS averaged over the predicted class, as definition C.2 writes it",
            [value >= -1e-9 for value in above],
            measured=f"TCE₁ less KS of definition C.2 is {min(above):.2g} at worst",
            reason="C.2 sums class k over all rows, also those where another class is on top; the KS of the spline "
            "paper, over the top label, is bounded",
            novelty="order of the taxonomy",
        ),
        Finding(
            "every inequality has its place among the bounds the library states",
            _stated(),
            exact=True,
            novelty="bounds",
        ),
    )
    values = sorted(example.items(), key=lambda item: -item[1])
    curves = {
        "one model: " + " ≥ ".join(name for name, _ in values): {
            "class": [float(i) for i in range(len(values))],
            "error": [value for _, value in values],
        }
    }
    return TargetResult(
        "gruber-theorem-3-1",
        "S",
        "the taxonomy of calibration errors",
        tuple(lines),
        findings,
        curves,
        quick=quick,
        data="random finite models",
        size=f"{MIN_SEEDS} × {models} models of 2 to 5 classes, 5 to 400 rows",
    )


def prop_3_2(quick: bool, data: Path | None = None, rng: RNG = 0) -> TargetResult:
    """Every weak error vanishes while CE₂ does not."""
    del data, rng
    lines, weak, exact, grown = [], 0.0, 0.0, []
    for k in (3, 4, 5) if quick else (3, 4, 5, 10, 20):
        for alpha in (0.6, 0.7, 0.9):
            law = hidden_miscalibration(n_classes=k, alpha=alpha)
            found = _taxonomy(law.y_true, law.y_proba, law.sample_weight)
            formula = math.sqrt(1 - 1 / (k - 1)) * (1 - alpha)
            weak = max(weak, *(found[name] for name in ("TCE1", "TCE2", "CWCE1", "CWCE2", "ECE", "KS", "MMCE")))
            exact = max(exact, abs(found["CE2"] - formula))
            grown += [found["CE2"]] if alpha == 0.6 else []
            lines.append(
                Line(
                    f"CE₂, K = {k}, α = {alpha}",
                    found["CE2"],
                    formula,
                    "√(1 − 1/(K−1))·(1 − α)",
                    (formula - 1e-9, formula + 1e-9),
                )
            )
    findings = (
        Finding("TCE, CWCE, ECE, KS and MMCE are all 0", weak < 1e-9, exact=True, novelty="the construction"),
        Finding("CE₂ equals the formula for every K and α", exact < 1e-9, exact=True, novelty="canonical errors"),
        Finding(
            "CE₂ grows with the number of classes",
            all(b > a for a, b in pairwise(grown)),
            exact=True,
            novelty="canonical errors",
        ),
    )
    return TargetResult(
        "gruber-prop-3-2",
        "S",
        "weak errors miss an error of any size",
        tuple(lines),
        findings,
        quick=quick,
        data="a known distribution",
    )


def prop_d_2(quick: bool, data: Path | None = None, rng: RNG = 0) -> TargetResult:
    """The map that replaces the top probability by the accuracy fools all top-label errors."""
    del data, rng
    law = accuracy_replaced()
    after = _taxonomy(law.y_true, law.y_proba, law.sample_weight)
    before = _taxonomy(law.y_true, np.asarray(law.before), law.sample_weight)
    fooled = ("ECE", "KS", "TCE1", "TCE2", "MMCE")
    lines = [Line(f"{name} after the map", after[name]) for name in (*fooled, "CE2", "RBS")]
    lines += [Line(f"{name} before the map", before[name]) for name in ("CE2", "RBS")]
    same = metrics.accuracy(law.y_true, law.y_proba, sample_weight=law.sample_weight)
    findings = (
        Finding(
            "ECE, KS, TCE and MMCE call the mapped model perfect",
            max(after[name] for name in fooled) < 1e-9,
            exact=True,
            novelty="the construction",
        ),
        Finding(
            "CE₂ does not: it rises from 0",
            before["CE2"] < 1e-9 and after["CE2"] > 0.1,
            exact=True,
            novelty="canonical errors",
        ),
        Finding("RBS does not: it rises", after["RBS"] > before["RBS"] + 1e-3, exact=True, novelty="canonical errors"),
        Finding("the accuracy is kept", abs(same - 0.75) < 1e-9, exact=True, novelty="the construction"),
    )
    return TargetResult(
        "gruber-prop-d-2",
        "S",
        "the accuracy-replacing map",
        tuple(lines),
        findings,
        quick=quick,
        data="a known distribution",
    )


def appendix_e(quick: bool, data: Path | None = None, rng: RNG = 0) -> TargetResult:
    """Calibrated accuracy-preserving maps lose sharpness (proposition E.2)."""
    del data, rng
    from calibrant.scores import decomposition

    law = collapsed()
    weight = law.sample_weight
    parts = {
        name: decomposition(law.y_true, p, recalibrator="plug-in", sample_weight=weight)
        for name, p in (("before", np.asarray(law.before)), ("after", law.y_proba))
    }
    lines = []
    for name, part in parts.items():
        truth = law.errors[f"sharpness_{name}"]
        lines += [
            Line(f"sharpness {name}", part.sharpness, truth, "closed form", (truth - 1e-9, truth + 1e-9)),
            Line(f"calibration error {name}", part.calibration),
            Line(f"Brier score {name}", part.score),
        ]
    accuracy = [metrics.accuracy(law.y_true, np.asarray(p), sample_weight=weight) for p in (law.before, law.y_proba)]
    findings = (
        Finding(
            "the map keeps calibration (error 0 before and after)",
            max(p.calibration for p in parts.values()) < 1e-9,
            exact=True,
            novelty="the construction",
        ),
        Finding(
            "the map keeps the accuracy", abs(accuracy[0] - accuracy[1]) < 1e-9, exact=True, novelty="the construction"
        ),
        Finding(
            "sharpness is lost",
            parts["after"].sharpness < parts["before"].sharpness - 1e-3,
            exact=True,
            novelty="the map",
        ),
        Finding(
            "the proper score shows the whole loss",
            abs((parts["after"].score - parts["before"].score) - (parts["before"].sharpness - parts["after"].sharpness))
            < 1e-9,
            exact=True,
            novelty="the construction",
        ),
    )
    return TargetResult(
        "gruber-appendix-e",
        "S",
        "calibrated by forgetting",
        tuple(lines),
        findings,
        quick=quick,
        data="a known distribution",
    )


# -- figure 2 -------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _hundred() -> tuple[SimulatedForecast, SimulatedForecast]:
    with one_thread():  # many small decompositions: waiting for other threads costs more than it saves
        return hundred_classes(part="cal"), hundred_classes(part="test")


def _level(base: SimulatedForecast, scale: float) -> tuple[Forecast, Floats]:
    """Return the forecast at one calibration level and the true chance that its top label is right."""
    law = np.asarray(base.truth)
    p = softmax(scale * np.log(np.maximum(law, np.finfo(np.float64).tiny))) if scale != 1 else law
    forecast = check_forecast(base.y_true, p, caller="reproduce")
    return forecast, np.asarray(law[np.arange(len(law)), forecast.top])


def figure_2(quick: bool, data: Path | None = None, rng: RNG = 0) -> TargetResult:
    """ECE against n at three calibration levels, with the formula of proposition 3.3 on top."""
    del data
    cal, test = _hundred()
    accuracy = metrics.accuracy(cal.y_true, cal.y_proba)
    lines = [Line("accuracy, seed 1, calibration part", accuracy, 0.8763, band=(0.87625, 0.87635))]
    curves, off = {}, np.full(MIN_SEEDS, True)
    gaps: dict[str, Floats] = {}
    sizes = (100, 300, 1000, 3000) if quick else log_sizes(len(test.y_true))[:-1]
    generators = check_rng(rng, "reproduce").spawn(MIN_SEEDS)
    for scale, name in ((1.0, "calibrated"), (1.5, "mediocre"), (2.5, "bad")):
        forecast, chance = _level(test, scale)
        index = np.clip(np.ceil((forecast.top_score - 2.0**-24) * 15) - 1, 0, 14).astype(int)
        means = np.empty((MIN_SEEDS, len(sizes)))
        formulas = []
        for j, size in enumerate(sizes):
            repeats = max(12 if quick else 200, min(80 if quick else 800, 20_000 // size))
            formulas.append(_expected(index, forecast.top_score, chance, size))
            for i, generator in enumerate(generators):
                values = np.empty(repeats)
                for k in range(repeats):
                    rows = generator.integers(0, forecast.n, size)
                    values[k] = _ece_of(index[rows], forecast.top_score[rows], generator.random(size) < chance[rows])
                means[i, j] = values.mean()
                if size >= 300:
                    error = values.std(ddof=1) / math.sqrt(repeats)
                    off[i] &= abs(means[i, j] - formulas[j]) <= max(0.03 * formulas[j], 3 * error)
            note = "published column: formula of proposition 3.3, with V^acc + V^conf"
            lines.append(Line(f"{name}, n = {size}", float(means[:, j].mean()), formulas[j], note))
        curves[f"{name} (logits × {scale:g})"] = {
            "n": [float(v) for v in sizes],
            "simulated": means.mean(axis=0).tolist(),
            "formula": formulas,
        }
        gaps[name] = means
    calm, bad = gaps["calibrated"], gaps["bad"]
    findings = (
        Finding.over(
            "the formula is within 3% or 3 standard errors from n = 300 on", off.tolist(), novelty="proposition 3.3"
        ),
        Finding.over(
            "the ECE of the calibrated model falls with n: noise alone",
            [bool((np.diff(row) < 0).all()) for row in calm],
            novelty="sampling noise",
        ),
        Finding.over(
            "at the smallest n the calibrated model's ECE is more than three times its value at the largest",
            [bool(row[0] > 3 * row[-1]) for row in calm],
            measured=f"{(calm[:, 0] / calm[:, -1]).mean():.2g} times",
            novelty="sampling noise",
        ),
        Finding.over(
            "bias is less than half for the badly calibrated model",
            [bool(a < b / 2) for a, b in zip(bad[:, 0] / bad[:, -1], calm[:, 0] / calm[:, -1], strict=True)],
            measured=f"{(bad[:, 0] / bad[:, -1]).mean():.3g} against {(calm[:, 0] / calm[:, -1]).mean():.3g} times",
            novelty="calibration levels",
        ),
    )
    return TargetResult(
        "gruber-fig-2",
        "S",
        "ECE against n, 100 classes",
        tuple(lines),
        findings,
        curves,
        quick=quick,
        data="100 classes, simulated",
        size=f"{sizes[0]} … {sizes[-1]:,} of 10,000 rows",
    )


def _ece_of(index: Array, score: Array, label: Array) -> float:
    return float(np.abs(np.bincount(index, label - score, 15)).sum() / len(index))


def _expected(index: Array, score: Array, chance: Floats, n: int) -> float:
    """Proposition 3.3: given the bin counts, the expected ECE is a sum of folded normal means."""
    count = np.bincount(index, minlength=15)
    safe = np.where(count > 0, count, 1)
    rate, mean = np.bincount(index, chance, 15) / safe, np.bincount(index, score, 15) / safe
    spare = np.bincount(index, score.astype(np.float64) ** 2, 15) / safe - mean**2  # V^conf: scores inside a bin
    spread = np.sqrt((rate * (1 - rate) + np.maximum(spare, 0.0)) / (n * safe / len(index)))  # V^acc + V^conf
    return float((count / len(index) * folded_mean(rate - mean, spread)).sum())  # [1] proposition 3.3


#: Target name -> function (quick, data, rng).
TARGETS: dict[str, Callable[[bool, Path | None, RNG], TargetResult]] = {
    "gruber-theorem-3-1": theorem_3_1,
    "gruber-prop-3-2": prop_3_2,
    "gruber-prop-d-2": prop_d_2,
    "gruber-fig-2": figure_2,
    "gruber-appendix-e": appendix_e,
}
