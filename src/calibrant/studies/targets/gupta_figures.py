"""Splines, Gupta et al. (2021): figures 1 to 10, the four-panel calibration graphs.

The paper draws DenseNet-40; we draw ResNet-110 on CIFAR-10, whose logits are public, and its KS errors are those
of tables 1, 2 and 4.

References
----------
[1] Gupta et al. (2021), "Calibration of Neural Networks using Splines", ICLR, section 3 and figures 1-10.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from calibrant._typing import RNG, Array, Floats
from calibrant.core.links import softmax
from calibrant.studies.targets.gupta_tables import MAIN, ks, ranked, spline_curve
from calibrant.studies.targets.result import Finding, Line, TargetResult
from calibrant.studies.targets.sources import split_of

__all__ = ["TARGETS", "calibration_graph"]

#: (r, within, knots, KS before as in the tables, KS before of DenseNet-40 in the caption).
VIEWS: dict[str, tuple[int, bool, int, float | None, float]] = {
    "top-1": (1, False, 6, 4.750, 5.493),
    "top-2": (2, False, 14, 3.011, 3.343),
    "top-3": (3, False, 14, None, 1.277),
    "within-2": (2, True, 14, 1.805, 2.256),
    "within-3": (3, True, 14, None, 0.983),
}
POINTS = 200


def calibration_graph(score: Floats, hit: Array, knots: int, where: str) -> dict[str, dict[str, list[float]]]:
    """Return the four panels of one set of rows, thinned to 200 points."""
    order = np.argsort(score, kind="stable")
    s, t = score[order], hit[order].astype(np.float64)
    n = len(s)
    kept = np.unique(np.linspace(0, n - 1, POINTS).astype(int))
    fractile = ((kept + 1) / n).tolist()
    total, hits = np.cumsum(s)[kept] / n, np.cumsum(t)[kept] / n  # [1] eq. (11)
    rate = spline_curve(score, hit, knots)(s[kept])  # [1] section 4: the slope of the cumulative hits
    return {
        f"{where}: cumulative": {"fractile": fractile, "score": total.tolist(), "probability": hits.tolist()},
        f"{where}: warped": {"cumulative score": total.tolist(), "score": total.tolist(), "probability": hits.tolist()},
        f"{where}: against fractile": {"fractile": fractile, "score": s[kept].tolist(), "probability": rate.tolist()},
        f"{where}: against score": {
            "score": s[kept].tolist(),
            "identity": s[kept].tolist(),
            "probability": rate.tolist(),
        },
    }


def figure(number: int, view: str, after: bool, quick: bool, data: Path | None, rng: RNG = 0) -> TargetResult:
    """Draw one view before or after the spline, calibration and test rows."""
    del rng
    r, within, knots, table, caption = VIEWS[view]
    split = split_of(data, MAIN)
    pairs = {
        part: ranked(softmax(rows.scores), rows.labels, r, within)
        for part, rows in (("calibration", split.cal), ("test", split.test))
    }
    repair = spline_curve(*pairs["calibration"], knots)
    curves: dict[str, dict[str, list[float]]] = {}
    lines, errors = [], {}
    for part, (score, hit) in pairs.items():
        new = repair(score)
        errors[part] = (ks(hit, score), ks(hit, new))
        curves |= calibration_graph(new if after else score, hit, knots, part)
        lines += [Line(f"KS, {part} rows, before", errors[part][0]), Line(f"KS, {part} rows, after", errors[part][1])]
    band = None if table is None else (table - 0.002, table + 0.002)
    note = f"the caption's {caption} is DenseNet-40"
    lines[2] = Line("KS, test rows, before", errors["test"][0], table, note, band)
    if after:
        findings: tuple[Finding, ...] = (
            Finding(
                "on the calibration rows the repaired scores are almost perfect (KS below 0.5 %)",
                errors["calibration"][1] < 0.5,
            ),
            Finding(
                "on the test rows they are not perfect but much better (KS less than half)",
                errors["test"][1] < errors["test"][0] / 2,
            ),
        )
    else:
        score, hit = pairs["test"]
        gap = abs(float(score.mean() - hit.mean()))
        findings = (
            Finding(
                "before, the cumulative curves separate: KS above 0.5 % on both parts",
                min(e[0] for e in errors.values()) > 0.5,
            ),
            Finding("KS is at least the gap of mean score and frequency", errors["test"][0] >= 100 * gap - 1e-9),
        )
    title = f"calibration graphs, {view}, {'after' if after else 'before'} the spline"
    return TargetResult(f"gupta-fig-{number}", "E", title, tuple(lines), findings, curves, quick=quick)


#: Target name -> function (quick, data, rng).
TARGETS: dict[str, Callable[[bool, Path | None, RNG], TargetResult]] = {
    f"gupta-fig-{2 * i + 1 + after}": partial(figure, 2 * i + 1 + after, view, bool(after))
    for i, view in enumerate(VIEWS)
    for after in (0, 1)
}
