"""How far the number of bins decides the answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from calibrant._typing import Array, ArrayLike, Space
from calibrant.core.declare import Recipe
from calibrant.core.options import check_count, check_counts
from calibrant.core.tables import Bins
from calibrant.estimators import Binned, CalibrationError
from calibrant.inference.null import null_distribution
from calibrant.views import TopLabel
from calibrant_papers.studies.arrays import build, forecast_of, pack
from calibrant_papers.studies.frame import Cell, Row, Study, StudyResult, Tell, run_study

__all__ = ["BINS", "binned_measures", "bins"]

BINS = (5, 10, 15, 20, 25, 30, 40, 50, 75, 100)


def binned_measures(n_bins: int, *, pairs: bool = False) -> dict[str, Recipe]:
    """Return the binned metrics with this many bins."""
    found: dict[str, Recipe] = {
        "ECE": build(f"ece:n_bins={n_bins}"),
        "top-label ACE": CalibrationError(TopLabel(), Binned(n_bins, "mass"), 1),
        "TCE₂": build(f"tce:n_bins={n_bins}"),
        "TCE₂ debiased": build(f"tce:n_bins={n_bins},bins=mass,debias=True"),
    }
    if not pairs:
        found |= {
            "UCE": build(f"uce:n_bins={n_bins}"),
            "SCE": build(f"sce:n_bins={n_bins}"),
            "ACE": build(f"ace:n_bins={n_bins}"),
            "CWCE₂": build(f"cwce:n_bins={n_bins}"),
        }
    return found


def bins(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    numbers: Iterable[int] = BINS,
    n_resamples: int = 200,
    space: Space = "proba",
    pairs: bool = False,
    seed: int = 0,
    folder: str | Path | None = None,
    jobs: int | None = None,
    progress: Tell | None = None,
) -> StudyResult:
    """Measure every binned error with different numbers of bins, beside what a calibrated model would score.

    Parameters
    ----------
    y_true, y_proba, space, pairs
        The predictions.
    numbers : iterable of int
        Numbers of bins.
    n_resamples : int, default 200
        Label resamplings of the if-calibrated column.
    seed, folder, jobs, progress
        As in `run_study`.
    """
    arrays = pack(y_true, y_proba, "bins", space=space, pairs=pairs)
    cells: list[Cell] = [
        {"bins": number, "resamples": check_count(n_resamples, "n_resamples", "bins", usual="200")}
        for number in check_counts(numbers, "numbers", "bins")
    ]
    rows = run_study(
        Study("bins", _one_number, tuple(cells), arrays, seed), folder=folder, jobs=jobs, progress=progress
    )
    return StudyResult("bins", tuple(rows), _finding(rows), _curves(rows))


def _one_number(cell: Cell, arrays: Mapping[str, Array], rng: np.random.Generator) -> list[Row]:
    forecast = forecast_of(arrays, "bins")
    recipes = binned_measures(cell["bins"], pairs="confidence" in arrays)
    nulls = null_distribution(recipes, forecast, cell["resamples"], rng)
    rows = []
    for name, recipe in recipes.items():
        state = recipe.fill(forecast)
        occupied = state.w[0] if isinstance(state, Bins) else np.zeros(0)
        rows.append(
            {
                "bins": cell["bins"],
                "measure": name,
                "value": recipe.value(forecast),
                "if_calibrated": nulls[name].mean if name in nulls else None,
                "occupied": int((occupied > 0).sum()),
            }
        )
    return rows


def _finding(rows: list[Row]) -> str:
    spread = {}
    for name in dict.fromkeys(row["measure"] for row in rows):
        values = [row["value"] for row in rows if row["measure"] == name]
        spread[name] = max(values) / max(min(values), 1e-4)  # an error below 0.01 points counts as that
    worst, best = max(spread, key=lambda k: spread[k]), min(spread, key=lambda k: spread[k])
    return f"{worst} changes by a factor of {spread[worst]:.2f} with the number of bins, {best} by {spread[best]:.2f}."


def _curves(rows: list[Row]) -> dict[str, dict[str, list[float]]]:
    curves: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        drawn = {"bins": float(row["bins"]), "value": row["value"], "if calibrated": row["if_calibrated"]}
        for name, value in drawn.items():
            if value is not None:
                curves.setdefault(row["measure"], {}).setdefault(name, []).append(value)
    return curves
