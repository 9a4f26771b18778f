"""Bias of estimators against a known truth: simulated, or built from the user's own forecasts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from calibrant._typing import Array, ArrayLike, Floats, Space
from calibrant.calibrators import BetaCalibration
from calibrant.core.declare import Recipe
from calibrant.core.inputs import check_forecast
from calibrant.core.links import sigmoid
from calibrant.core.options import check_count, check_counts
from calibrant.datasets import two_gaussians
from calibrant.estimators import KDE, Binned, CalibrationError, State
from calibrant.views import ClassK
from calibrant_papers.studies.arrays import forecast_of, pack
from calibrant_papers.studies.drawing import panel
from calibrant_papers.studies.frame import Cell, Row, Study, StudyResult, Tell, run_study

__all__ = ["CASES", "estimator_bias", "estimators_at"]

#: The two models of Zhang et al. (2020), section 5.1.
CASES: dict[str, tuple[float, float]] = {"case 1": (0.5, -1.5), "case 2": (0.2, -1.9)}
SIZES = (64, 128, 256, 512, 1024)


def estimators_at(n: int, order: int) -> dict[str, Recipe]:
    """Return the estimators of the paper for the probability of one class, order 1 or 2 (no root)."""
    view, sturges = ClassK(1), int(np.ceil(np.log2(n) + 1))
    found: dict[str, Recipe] = {
        "KDE": CalibrationError(view, KDE(), order, root=False),
        "15 bins": CalibrationError(view, Binned(15), order, root=False),
        "Sturges bins": CalibrationError(view, Binned(sturges), order, root=False),
    }
    if order == 2:
        found |= {
            "15 bins, debiased": CalibrationError(view, Binned(15, debias=True), 2, root=False),
            "15 mass bins, debiased": CalibrationError(view, Binned(15, "mass", debias=True), 2, root=False),
            "15 bins, debiased, may be negative": Unclipped(view, Binned(15, debias=True), 2, root=False),
            "15 mass bins, debiased, may be negative": Unclipped(view, Binned(15, "mass", debias=True), 2, root=False),
        }
    return found


class Unclipped(CalibrationError):  # noqa: N818 -- a calibration error, not an exception
    """The debiased power as it is: unbiased up to the bins, negative at times."""

    def finish(self, state: State) -> Floats:
        """Return the power without the clip at 0."""
        return self.view.join(self.estimator.power(state, self.norm), self.norm)


def estimator_bias(
    y_true: ArrayLike | None = None,
    y_proba: ArrayLike | None = None,
    *,
    sizes: Iterable[int] = SIZES,
    repeats: int = 1000,
    order: int = 1,
    space: Space = "proba",
    pairs: bool = False,
    seed: int = 0,
    folder: str | Path | None = None,
    jobs: int | None = None,
    progress: Tell | None = None,
) -> StudyResult:
    """Compare estimators of a calibration error with the truth, at growing numbers of rows.

    Without predictions: the two simulated models of Zhang et al. (2020), truth by quadrature. With predictions: their
    top-label confidences, and labels drawn from a smooth curve fitted to them (beta calibration), whose error is known.

    Parameters
    ----------
    y_true, y_proba, space, pairs : optional
        The user's predictions.
    sizes : iterable of int
        Rows of each sample.
    repeats : int, default 1000
        Samples of each size.
    order : {1, 2}, default 1
        Order of the error; order 2 has no root, as in the paper.
    seed, folder, jobs, progress
        As in `run_study`.
    """
    arrays: dict[str, Array] = {}
    models, order = list(CASES), check_count(order, "order", "estimator_bias", 1, "1 or 2")
    if y_proba is not None and y_true is not None:
        forecast = forecast_of(pack(y_true, y_proba, "estimator_bias", space=space, pairs=pairs), "estimator_bias")
        score, hit = forecast.top_score.astype(np.float64), forecast.hit
        arrays, models = {"score": score, "frequency": _smooth(score, hit)}, ["your forecasts"]
    cells: list[Cell] = [
        {"model": model, "n": n, "repeats": check_count(repeats, "repeats", "estimator_bias", 1), "order": order}
        for model in models
        for n in check_counts(sizes, "sizes", "estimator_bias")
    ]
    study = Study(f"estimator-bias-{order}", _one_size, tuple(cells), arrays, seed)
    rows = run_study(study, folder=folder, jobs=jobs, progress=progress)
    return StudyResult(study.name, tuple(rows), _finding(rows), _curves(rows))


def _smooth(score: Floats, hit: Array) -> Floats:
    p = np.clip(score, 1e-6, 1 - 1e-6)
    fitted = BetaCalibration().fit(p, hit.astype(np.int64))
    return np.asarray(fitted.predict_proba(p)[:, 1])


def _one_size(cell: Cell, arrays: Mapping[str, Array], rng: np.random.Generator) -> list[Row]:
    n, order = cell["n"], cell["order"]
    recipes = estimators_at(n, order)
    values = np.empty((cell["repeats"], len(recipes)))
    truth = _truth(cell, arrays)
    for i in range(cell["repeats"]):
        if arrays:
            chosen = rng.integers(0, len(arrays["score"]), n)
            score, label = arrays["score"][chosen], rng.random(n) < arrays["frequency"][chosen]
        else:
            label = rng.integers(0, 2, n)  # the rows of calibrant.datasets.two_gaussians, without its quadrature
            x = np.asarray(rng.standard_normal(n) + 1.0 - 2.0 * label)
            beta0, beta1 = CASES[cell["model"]]
            score = sigmoid(np.asarray(beta0 + beta1 * x))
        forecast = check_forecast(label.astype(np.int64), score, caller="estimator_bias")
        values[i] = [recipe.value(forecast) for recipe in recipes.values()]
    gap = values - truth
    return [
        {
            "model": cell["model"],
            "n": n,
            "estimator": name,
            "truth": truth,
            "mean": values[:, k].mean(),
            "bias": gap[:, k].mean(),
            "std": values[:, k].std(),
            "mean_absolute_error": np.abs(gap[:, k]).mean(),
            **{f"error q{q}": np.quantile(gap[:, k], q / 100) for q in (5, 25, 50, 75, 95)},
        }
        for k, name in enumerate(recipes)
    ]


def _truth(cell: Cell, arrays: Mapping[str, Array]) -> float:
    if arrays:
        return float((np.abs(arrays["score"] - arrays["frequency"]) ** cell["order"]).mean())
    beta0, beta1 = CASES[cell["model"]]
    errors = two_gaussians(2, beta0=beta0, beta1=beta1, rng=0).errors
    return errors["class1_ce1"] if cell["order"] == 1 else errors["class1_ce2"] ** 2


def _finding(rows: list[Row]) -> str:
    n = min(row["n"] for row in rows)
    here = [row for row in rows if row["n"] == n and row["model"] == rows[0]["model"]]
    best = min(here, key=lambda row: row["mean_absolute_error"])
    worst = max(here, key=lambda row: row["mean_absolute_error"])
    return (
        f"With {n} rows {best['estimator']} is nearest to the truth {best['truth']:.4g} (mean absolute error "
        f"{best['mean_absolute_error']:.2g}), {worst['estimator']} farthest ({worst['mean_absolute_error']:.2g})."
    )


def _curves(rows: list[Row]) -> dict[str, dict[str, list[float]]]:
    curves = {}
    for model in dict.fromkeys(row["model"] for row in rows):
        mine = [row for row in rows if row["model"] == model]
        for title, key in (("mean absolute error", "mean_absolute_error"), ("bias", "bias")):
            curves[f"{model}: {title}"] = panel(mine, "n", "estimator", key)
    return curves
