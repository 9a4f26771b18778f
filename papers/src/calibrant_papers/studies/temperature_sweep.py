"""Every metric against the softmax temperature."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from calibrant._typing import Array, ArrayLike, Floats, Space
from calibrant.core.declare import Recipe
from calibrant.core.inputs import check_forecast
from calibrant.core.links import softmax
from calibrant.core.options import check_numbers
from calibrant.estimators import Binned, CalibrationError
from calibrant.views import TopLabel
from calibrant_papers.studies.arrays import build, pack
from calibrant_papers.studies.frame import Cell, Row, Study, StudyResult, Tell, run_study

__all__ = ["TEMPERATURES", "temperature_sweep"]

TEMPERATURES = tuple(np.round(np.geomspace(0.25, 6.0, 25), 4).tolist())


def measures() -> dict[str, Recipe]:
    """Return the metrics of the UCE paper's figures, with the top-label ACE it calls ACE."""
    return {
        "ECE": build("ece"),
        "top-label ACE": CalibrationError(TopLabel(), Binned(15, "mass"), 1),
        "UCE": build("uce"),
        "MMCE": build("mmce"),
        "KS": build("ks"),
        "Brier": build("brier"),
        "NLL": build("nll"),
    }


def temperature_sweep(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    temperatures: Iterable[float] = TEMPERATURES,
    space: Space = "proba",
    seed: int = 0,
    folder: str | Path | None = None,
    jobs: int | None = None,
    progress: Tell | None = None,
) -> StudyResult:
    """Divide the logits by each temperature and measure; says where every metric has its minimum.

    Parameters
    ----------
    y_true, y_proba, space
        The predictions; probabilities are turned into logits by their logarithm.
    temperatures : iterable of float
        What the logits are divided by.
    seed, folder, jobs, progress
        As in `run_study`.
    """
    arrays = pack(y_true, y_proba, "temperature_sweep", space=space)
    cells: list[Cell] = [{"temperature": t} for t in check_numbers(temperatures, "temperatures", "temperature_sweep")]
    study = Study("temperature", _one_temperature, tuple(cells), arrays, seed)
    rows = run_study(study, folder=folder, jobs=jobs, progress=progress)
    return StudyResult("temperature", tuple(rows), _finding(rows), _curves(rows))


def as_logits(arrays: Mapping[str, Array]) -> Floats:
    """Return logits as they are, or the logarithms of probabilities (never minus infinity)."""
    if "logits" in arrays:
        return arrays["logits"].astype(np.float64)
    p = arrays["probs"].astype(np.float64)
    p = np.stack([1 - p, p], axis=1) if p.ndim == 1 else p
    return np.asarray(np.log(np.maximum(p, np.finfo(np.float64).tiny)))


def _one_temperature(cell: Cell, arrays: Mapping[str, Array], rng: np.random.Generator) -> list[Row]:  # noqa: ARG001
    logits = as_logits(arrays)
    if logits.ndim == 1:
        logits = np.stack([np.zeros_like(logits), logits], axis=1)
    forecast = check_forecast(arrays["labels"], softmax(logits / cell["temperature"]), caller="temperature_sweep")
    return [{"temperature": cell["temperature"], **{name: r.value(forecast) for name, r in measures().items()}}]


def _finding(rows: list[Row]) -> str:
    best = {
        name: min(rows, key=lambda row, name=name: row[name])["temperature"]  # type: ignore[misc]  # bound early
        for name in rows[0]
        if name != "temperature"
    }
    low, high = min(best.values()), max(best.values())
    where = ", ".join(f"{name} {value:.3g}" for name, value in best.items())
    return f"The best temperature lies between {low:.3g} and {high:.3g}: {where}."


def _curves(rows: list[Row]) -> dict[str, dict[str, list[float]]]:
    x = [row["temperature"] for row in rows]
    return {name: {"temperature": x, name: [row[name] for row in rows]} for name in rows[0] if name != "temperature"}
