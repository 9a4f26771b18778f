"""How errors and improvements move with the size of the test set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from calibrant._typing import Array, ArrayLike, Space
from calibrant.core.inputs import check_words
from calibrant.core.options import check_count, check_counts
from calibrant_papers.studies.arrays import build, forecast_of, log_sizes, pack, repeats_for
from calibrant_papers.studies.drawing import panel
from calibrant_papers.studies.frame import Cell, Row, Study, StudyResult, Tell, run_study

__all__ = ["GRUBER", "sample_size"]

#: The estimators of Gruber & Buettner (2022), figures 1, 3, 5-7: name -> metric.
GRUBER: dict[str, str] = {
    "RBS": "rbs",
    "ECE": "ece",
    "TCE₂ 100 bins": "tce:n_bins=100",
    "TCE₂ 15 bins, debiased": "tce:bins=mass,debias=True",
    "CWCE₂ 15 bins": "cwce",
    "CWCE₂ 100 bins": "cwce:n_bins=100",
    "KDE TCE₂": "kde:norm=2",
    "KS": "ks",
}
#: Rows of predictions a cell works through: small enough to balance two cores, large enough to hide their start.
_CELL_ROWS = 400_000


def sample_size(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    after: ArrayLike | None = None,
    *,
    metrics: Mapping[str, str] | Iterable[str] | None = None,
    sizes: Iterable[int] | None = None,
    repeats: int = 10_000,
    space: Space = "proba",
    after_space: Space = "proba",
    pairs: bool = False,
    seed: int = 0,
    folder: str | Path | None = None,
    jobs: int | None = None,
    progress: Tell | None = None,
) -> StudyResult:
    """Measure subsamples of growing size, drawn without replacement, and compare with the whole set.

    Parameters
    ----------
    y_true, y_proba : array-like
        The test set.
    after : array-like, optional
        The same rows after a repair: the study then also follows the improvement.
    metrics : mapping or iterable, optional
        Title -> metric (``"tce:n_bins=100"``), or metrics; default those of Gruber & Buettner (2022).
    sizes : iterable of int, optional
        Default ten sizes from 100 to n, equally spaced in logarithms.
    repeats : int, default 10000
        Draws of the smallest size; larger sizes get fewer, as published (…, 144, 1).
    space, after_space, pairs
        What the forecasts hold; `pairs` for (correct, confidence).
    seed, folder, jobs, progress
        As in `run_study`.

    Returns
    -------
    StudyResult
        Rows: size, metric, mean, standard deviation over draws, relative = mean over value of the whole set, the
        mean of the square, and the same for the change before − after.

    References
    ----------
    [1] Gruber & Buettner (2022), "Better Uncertainty Calibration via Proper Scores", NeurIPS, section 5.
    """
    arrays = pack(y_true, y_proba, "sample_size", space=space, pairs=pairs)
    if after is not None:
        arrays |= pack(y_true, after, "sample_size", space=after_space, pairs=pairs, name="after ")
    n = len(next(iter(arrays.values())))
    wanted = log_sizes(n) if sizes is None else sorted({min(m, n) for m in check_counts(sizes, "sizes", "sample_size")})
    specs = _specs(metrics, pairs)
    cells: list[Cell] = []
    for size, count in zip(
        wanted, repeats_for(len(wanted), check_count(repeats, "repeats", "sample_size", 1)), strict=True
    ):
        parts = max(1, round(size * count / _CELL_ROWS))
        share = np.diff(np.rint(np.linspace(0, count, parts + 1)).astype(int))
        cells += [{"n": size, "part": part, "repeats": int(share[part]), "measures": specs} for part in range(parts)]
    study = Study("sample-size", _subsamples, tuple(cells), arrays, seed)
    parts_found = run_study(study, folder=folder, jobs=jobs, progress=progress)
    rows = _collect(parts_found)
    return StudyResult("sample-size", tuple(rows), _finding(rows), _curves(rows))


def _specs(metrics: Mapping[str, str] | Iterable[str] | None, pairs: bool) -> dict[str, str]:
    if metrics is None:
        return {k: v for k, v in GRUBER.items() if not pairs or build(v).top_label_only}
    names = check_words(metrics, "metrics", "sample_size", 1)
    return dict(metrics) if isinstance(metrics, Mapping) else {name: name for name in names}


def _subsamples(cell: Cell, arrays: Mapping[str, Array], rng: np.random.Generator) -> list[Row]:
    """Draw subsamples of one size and sum up every metric, before and after."""
    recipes = {name: build(spec) for name, spec in cell["measures"].items()}
    forecasts = [forecast_of(arrays, "sample_size")]
    if any(name.startswith("after ") for name in arrays):
        forecasts.append(forecast_of(arrays, "sample_size", "after "))
    for forecast in forecasts:  # once, so that subsamples take it along
        _ = forecast.top_score, forecast.hit
    n, size = forecasts[0].n, cell["n"]
    values = np.empty((cell["repeats"], len(forecasts), len(recipes)))
    for i in range(cell["repeats"]):
        chosen = np.sort(rng.choice(n, size, replace=False, shuffle=False)) if size < n else np.arange(n)
        for j, forecast in enumerate(forecasts):
            part = forecast.take(chosen)
            values[i, j] = [recipe.value(part) for recipe in recipes.values()]
    rows = []
    for k, name in enumerate(recipes):
        before = values[:, 0, k]
        square = before**2
        row: Row = {
            "n": size,
            "measure": name,
            "repeats": cell["repeats"],
            "sum": before.sum(),
            "squares": square.sum(),
            "fourths": (square**2).sum(),
        }
        if len(forecasts) == 2:
            for key, change in (("change", before - values[:, 1, k]), ("square_change", square - values[:, 1, k] ** 2)):
                row |= {f"{key}_sum": change.sum(), f"{key}_squares": (change**2).sum()}
        rows.append(row)
    return rows


def _collect(parts: list[Row]) -> list[Row]:
    """Join the parts of each size; compare with the whole set."""
    sums: dict[tuple[int, str], dict[str, float]] = {}
    for part in parts:
        here = sums.setdefault((part["n"], part["measure"]), {})
        for key, value in part.items():
            if key not in ("n", "measure"):
                here[key] = here.get(key, 0.0) + value
    largest = max(size for size, _ in sums)
    rows = []
    for (size, name), total in sums.items():
        count, whole = total["repeats"], sums[largest, name]
        mean = total["sum"] / count
        row: Row = {
            "n": size,
            "measure": name,
            "repeats": int(count),
            "mean": mean,
            "std": _spread(mean, total["squares"] / count),
            "relative": _ratio(mean, whole["sum"] / whole["repeats"]),
            "mean_square": total["squares"] / count,
            "square_std": _spread(total["squares"] / count, total.get("fourths", np.nan) / count),
            "relative_square": _ratio(total["squares"] / count, whole["squares"] / whole["repeats"]),
        }
        for key in ("change", "square_change") if "change_sum" in total else ():
            change = total[f"{key}_sum"] / count
            row |= {
                key: change,
                f"{key}_std": _spread(change, total.get(f"{key}_squares", np.nan) / count),
                f"relative_{key}": _ratio(change, whole[f"{key}_sum"] / whole["repeats"]),
            }
        rows.append(row)
    return rows


def _spread(mean: float, square: float) -> float:
    """Return the standard deviation of draws from their mean and the mean of their squares (nan: kept by 0.1)."""
    return float(np.sqrt(np.maximum(square - mean**2, 0.0)))


def _ratio(a: float, b: float) -> float:
    return a / b if b else float("nan")


def _finding(rows: list[Row]) -> str:
    small = min(row["n"] for row in rows)
    whole = max(row["n"] for row in rows)
    first = [row for row in rows if row["n"] == small]
    worst = max(first, key=lambda row: abs(row["relative"] - 1.0))
    best = min(first, key=lambda row: abs(row["relative"] - 1.0))
    return (
        f"At {small} rows {worst['measure']} reads {worst['relative']:.2f} times its value at {whole} rows; "
        f"{best['measure']} reads {best['relative']:.2f} times."
    )


def _curves(rows: list[Row]) -> dict[str, dict[str, list[float]]]:
    panels = {"error": "mean", "relative to the whole set": "relative"}
    if "change" in rows[0]:
        panels |= {"improvement": "change"}
    return {title: panel(rows, "n", "measure", key) for title, key in panels.items()}
