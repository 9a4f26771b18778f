"""What a number of rows can resolve: below it an ECE is noise."""

from __future__ import annotations

from collections.abc import Iterable

from calibrant._typing import ArrayLike, Space
from calibrant.core.options import check_numbers
from calibrant.inference.bias import expected_ece, required_sample_size
from calibrant_papers.studies.arrays import log_sizes
from calibrant_papers.studies.frame import StudyResult

__all__ = ["resolution"]


def resolution(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    errors: Iterable[float] = (0.05, 0.02, 0.01, 0.005, 0.001),
    n_bins: int = 15,
    space: Space = "proba",
) -> StudyResult:
    """Say which ECE these rows can resolve, and how many rows a given error needs.

    An error is resolved when noise alone gives an expected ECE of at most half of it (as in
    `calibrant.inference.required_sample_size`); the expected ECE of a calibrated model with these confidences is the
    folded normal mean [1].

    Parameters
    ----------
    y_true, y_proba, space
        The predictions.
    errors : iterable of float
        Errors to find the number of rows for.
    n_bins : int, default 15
        Bins of the ECE.

    References
    ----------
    [1] Gruber & Buettner (2022), "Better Uncertainty Calibration via Proper Scores", NeurIPS, proposition 3.3.
    """
    n = len(y_true)
    sizes = sorted({*log_sizes(max(10 * n, 1000)), n})
    floors = expected_ece(sizes, y_true, y_proba, n_bins=n_bins, space=space, calibrated=True)
    shown = expected_ece(sizes, y_true, y_proba, n_bins=n_bins, space=space)
    rows = [
        {"n": size, "noise": float(floor), "resolves": 2 * float(floor), "expected_ece": float(value)}
        for size, floor, value in zip(sizes, floors, shown, strict=True)
    ]
    own = next(row for row in rows if row["n"] == n)
    needs = ", ".join(
        f"{100 * error:g} points: {required_sample_size(error, y_true, y_proba, n_bins=n_bins, space=space)} rows"
        for error in check_numbers(errors, "errors", "resolution")
    )
    finding = f"Your {n} rows cannot resolve an ECE below {100 * own['resolves']:.2g} points. Rows needed for {needs}."
    curves = {
        "expected ECE": {
            "n": [float(size) for size in sizes],
            "if calibrated": floors.tolist(),
            "this model": shown.tolist(),
        }
    }
    return StudyResult("resolution", tuple(rows), finding, curves)
