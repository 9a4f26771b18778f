"""Label noise: how well each metric follows the true error of the whole vector as outcomes become random.

Nixon et al. (2019), figure 8, has no printed protocol; ours: logits z of ten classes, outcomes from softmax(z/x) with
noise x, and a family of wrong models softmax((a·z + b)/x) with random slope a and random class shifts b, whose true
error, the mean over classes of E|p_k − q_k|, is known. A metric is good when it ranks the models as the truth does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from calibrant._typing import Array, ArrayLike, Floats, Space
from calibrant.core.inputs import check_forecast
from calibrant.core.links import softmax
from calibrant.core.options import check_count, check_numbers
from calibrant.datasets import draw_labels
from calibrant.errors import input_error
from calibrant_papers.studies.arrays import build, pack
from calibrant_papers.studies.drawing import panel
from calibrant_papers.studies.frame import Cell, Row, Study, StudyResult, Tell, run_study
from calibrant_papers.studies.temperature_sweep import as_logits

__all__ = ["NOISE", "label_noise"]

NOISE = (0.25, 0.5, 1.0, 2.0, 4.0)
MEASURES = {"ECE": "ece", "SCE": "sce", "ACE": "ace", "TACE": "tace", "CWCE₁": "cwce:norm=1"}


def label_noise(
    y_true: ArrayLike | None = None,
    y_proba: ArrayLike | None = None,
    *,
    noise: Iterable[float] = NOISE,
    models: int = 60,
    n: int = 2000,
    n_classes: int = 10,
    space: Space = "proba",
    seed: int = 0,
    folder: str | Path | None = None,
    jobs: int | None = None,
    progress: Tell | None = None,
) -> StudyResult:
    """Rank random wrong models by every metric and by their true error, at growing label noise.

    Parameters
    ----------
    y_true, y_proba, space : optional
        Predictions whose logits take the place of the simulated ones.
    noise : iterable of float
        x: outcomes follow softmax(z/x), deterministic as x → 0, uniform as x → ∞.
    models : int, default 60
        Wrong models per noise level.
    n : int, default 2000
        Rows.
    n_classes : int, default 10
        Classes of the simulation.
    seed, folder, jobs, progress
        As in `run_study`.
    """
    arrays: dict[str, Array] = {}
    if y_proba is not None and y_true is not None:
        packed = pack(y_true, y_proba, "label_noise", space=space)
        arrays = {"z": as_logits(packed)}
        if arrays["z"].ndim == 1:
            raise input_error("y_proba", "label_noise", "have a column per class", "one column", "pass (n, K)")
    for argument, value, least in (("models", models, 2), ("n", n, 1), ("n_classes", n_classes, 2)):
        check_count(value, argument, "label_noise", least, "the default")
    cells: list[Cell] = [
        {"noise": x, "models": models, "n": n, "classes": n_classes, "seed": seed}
        for x in check_numbers(noise, "noise", "label_noise")
    ]
    study = Study("label-noise", _one_level, tuple(cells), arrays, seed)
    rows = run_study(study, folder=folder, jobs=jobs, progress=progress)
    return StudyResult("label-noise", tuple(rows), _finding(rows), _curves(rows))


def _one_level(cell: Cell, arrays: Mapping[str, Array], rng: np.random.Generator) -> list[Row]:
    recipes = {name: build(spec) for name, spec in MEASURES.items()}
    k = arrays["z"].shape[1] if arrays else cell["classes"]
    values, truths = np.empty((cell["models"], len(recipes))), np.empty(cell["models"])
    for i in range(cell["models"]):
        z: Floats = 2.0 * rng.standard_normal((cell["n"], k))
        if arrays:
            z = arrays["z"][rng.integers(0, len(arrays["z"]), cell["n"])]
        slope, shift = np.exp(0.5 * rng.standard_normal()), rng.exponential(1.0) * rng.standard_normal(k)
        law, forecast = softmax(z / cell["noise"]), softmax((slope * z + shift) / cell["noise"])
        truths[i] = np.abs(forecast - law).mean()
        checked = check_forecast(draw_labels(law, rng), forecast, caller="label_noise")
        values[i] = [recipe.value(checked) for recipe in recipes.values()]
    from scipy.stats import spearmanr

    return [
        {
            "noise": cell["noise"],
            "measure": name,
            "rank_correlation": float(spearmanr(values[:, j], truths)[0]) if np.ptp(values[:, j]) > 0 else 0.0,
            "mean": values[:, j].mean(),
            "true_error": truths.mean(),
        }
        for j, name in enumerate(recipes)
    ]


def _finding(rows: list[Row]) -> str:
    top = max(row["noise"] for row in rows)
    here = sorted((r for r in rows if r["noise"] == top), key=lambda r: r["rank_correlation"])
    return (
        f"At the largest noise {here[-1]['measure']} follows the true error best (rank correlation "
        f"{here[-1]['rank_correlation']:.2f}), {here[0]['measure']} worst ({here[0]['rank_correlation']:.2f})."
    )


def _curves(rows: list[Row]) -> dict[str, dict[str, list[float]]]:
    drawn = panel(rows, "noise", "measure", "rank_correlation", "label noise")
    return {"rank correlation with the true error": drawn}
