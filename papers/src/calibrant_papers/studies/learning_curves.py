"""How much calibration data each method needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

import calibrant.calibrators as rooms
from calibrant._typing import Array, ArrayLike, Space
from calibrant.calibrators import get_calibrator
from calibrant.calibrators._base import Calibrator
from calibrant.core.inputs import check_forecast, check_words
from calibrant.core.options import check_count, check_counts
from calibrant.errors import input_error
from calibrant_papers.studies.arrays import build, pack
from calibrant_papers.studies.drawing import panel
from calibrant_papers.studies.frame import Cell, Row, Study, StudyResult, Tell, run_study

__all__ = ["METHODS", "learning_curves", "make_method"]

#: Methods that are not a class of their own: short name -> how to make them.
METHODS = ("ts", "ets", "irm", "irova", "irova-ts")
MEASURES = {"KDE ECE": "kde", "ECE": "ece", "accuracy": "accuracy", "Brier": "brier"}


def make_method(name: str, space: Space) -> Calibrator:
    """Return an unfitted calibrator: a paper's abbreviation, or any short name of `calibrant.calibrators`."""
    if name == "ts":  # squared error, as Zhang et al. (2020) fit it
        return rooms.TemperatureScaling(loss="brier", space=space)
    if name == "irova-ts":
        return rooms.Compose(
            rooms.TemperatureScaling(loss="brier", space=space), rooms.IsotonicOneVsRest(), space=space
        )
    short = {
        "ets": "EnsembleTemperatureScaling",
        "irm": "IsotonicMulticlass",
        "irova": "IsotonicOneVsRest",
        "vs": "VectorScaling",
        "ms-odir": "MatrixScaling",
        "dir-odir": "DirichletCalibration",
        "gpc": "GaussianProcessCalibration",
        "diag": "OrderPreserving",
        "spline": "SplineCalibration",
        "ts-nll": "TemperatureScaling",
    }.get(name)
    kind = getattr(rooms, short) if short else get_calibrator(name)
    made: Calibrator = kind(space=space)
    return made


def learning_curves(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    methods: Iterable[str] = METHODS,
    sizes: Iterable[int] | None = None,
    repeats: int = 10,
    n_test: int | None = None,
    space: Space = "proba",
    seed: int = 0,
    folder: str | Path | None = None,
    jobs: int | None = None,
    progress: Tell | None = None,
) -> StudyResult:
    """Fit each method on growing random parts of the rows and measure it on the rest.

    Parameters
    ----------
    y_true, y_proba : array-like
        All labeled rows; each repeat splits them anew into `n_test` test rows and calibration rows.
    methods : iterable of str
        ``ts``, ``ets``, ``irm``, ``irova``, ``irova-ts`` or short names of `calibrant.calibrators`.
    sizes : iterable of int, optional
        Calibration rows; default powers of two from 128 to what is there.
    repeats : int, default 10
        Random splits.
    n_test : int, optional
        Test rows of each split; default a third.
    space, seed, folder, jobs, progress
        As in `run_study`.

    Returns
    -------
    StudyResult
        Rows: method, calibration rows, and mean and standard deviation of every metric on the test rows.

    References
    ----------
    [1] Zhang, Kailkhura & Han (2020), "Mix-n-Match", ICML, section 5.2 and appendix F.
    """
    arrays = pack(y_true, y_proba, "learning_curves", space=space)
    n = len(arrays["labels"])
    test = (
        max(1, n // 3) if n_test is None else check_count(n_test, "n_test", "learning_curves", 1, "a third of the rows")
    )
    if not 0 < test < n:
        raise input_error("n_test", "learning_curves", f"lie between 1 and {n - 1}", repr(n_test), "use a third")
    if sizes is None:
        sizes = [128 * 2**i for i in range(20) if 128 * 2**i < n - test] + [n - test]
    wanted = sorted({min(size, n - test) for size in check_counts(sizes, "sizes", "learning_curves")})
    names = ["none", *(name for name in check_words(methods, "methods", "learning_curves", 1) if name != "none")]
    cells: list[Cell] = [
        {"rows": size, "repeat": r, "methods": names, "test": test, "space": space}
        for r in range(check_count(repeats, "repeats", "learning_curves", 1, "10"))
        for size in wanted
    ]
    found = run_study(
        Study("learning-curves", _one_split, tuple(cells), arrays, seed), folder=folder, jobs=jobs, progress=progress
    )
    rows = _collect(found)
    return StudyResult("learning-curves", tuple(rows), _finding(rows), _curves(rows))


def _one_split(cell: Cell, arrays: Mapping[str, Array], rng: np.random.Generator) -> list[Row]:
    """Split once, fit every method, measure it."""
    space: Space = cell["space"]
    scores, labels = arrays["logits" if space == "logit" else "probs"], arrays["labels"]
    order = rng.permutation(len(labels))
    test, cal = order[: cell["test"]], order[cell["test"] : cell["test"] + cell["rows"]]
    recipes = {name: build(spec) for name, spec in MEASURES.items()}
    rows = []
    for name in cell["methods"]:
        if name == "none":
            forecast = check_forecast(labels[test], scores[test], caller="learning_curves", space=space)
        else:
            fitted = make_method(name, space).fit(scores[cal], labels[cal])
            after = fitted.predict_proba(scores[test])
            forecast = check_forecast(labels[test], after, caller="learning_curves")
        rows.append(
            {
                "method": name,
                "rows": cell["rows"],
                "repeat": cell["repeat"],
                **{title: recipe.value(forecast) for title, recipe in recipes.items()},
            }
        )
    return rows


def _collect(found: list[Row]) -> list[Row]:
    groups: dict[tuple[str, int], list[Row]] = {}
    for row in found:
        groups.setdefault((row["method"], row["rows"]), []).append(row)
    out = []
    for (method, size), members in groups.items():
        line: Row = {"method": method, "rows": size, "repeats": len(members)}
        for title in MEASURES:
            values = np.array([member[title] for member in members])
            line |= {title: float(values.mean()), f"{title} std": float(values.std(ddof=1)) if len(values) > 1 else 0.0}
        out.append(line)
    return out


def _finding(rows: list[Row]) -> str:
    largest, smallest = max(row["rows"] for row in rows), min(row["rows"] for row in rows)
    best = {size: min((r for r in rows if r["rows"] == size), key=lambda r: r["Brier"]) for size in (smallest, largest)}
    return (
        f"By Brier score {best[smallest]['method']} is best with {smallest} calibration rows, "
        f"{best[largest]['method']} with {largest}."
    )


def _curves(rows: list[Row]) -> dict[str, dict[str, list[float]]]:
    return {title: panel(rows, "rows", "method", title, "n calibration rows") for title in MEASURES}
