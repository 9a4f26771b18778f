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
from calibrant_papers.targets.gupta_tables import MAIN, ks, proba, ranked, spline_curve
from calibrant_papers.targets.result import Finding, Line, TargetResult
from calibrant_papers.targets.sources import Split, split_of

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


#: Draws of labels from the scores: what a calibrated network would show.
DRAWS = 40
#: Figures whose caption says that the network overestimates.
OVER = {1, 3}


def repaired(split: Split, r: int, within: bool, knots: int) -> dict[str, Floats]:
    """Return the scores of both parts after the spline fitted on the calibration rows."""
    curve = spline_curve(*ranked(proba(split.cal), split.cal.labels, r, within), knots)
    parts = {"calibration": split.cal, "test": split.test}
    return {part: curve(ranked(proba(rows), rows.labels, r, within)[0]) for part, rows in parts.items()}


def calibrated_ks(score: Floats) -> float:
    """Return the largest KS error a calibrated network with these scores shows in some draws of its labels."""
    generator = np.random.default_rng(0)
    return max(ks(generator.random(len(score)) < score, score) for _ in range(DRAWS))


def _before(number: int, view: str, pairs: dict[str, tuple[Floats, Array]], errors: dict[str, float]) -> list[Finding]:
    """What the figures of the uncalibrated network show."""
    score, hit = pairs["test"]
    calm = calibrated_ks(score)
    findings = [
        Finding(
            "the two cumulative curves part further than those of a calibrated network",
            errors["test"] > calm,
            measured=f"KS {errors['test']:.3g}%; at most {calm:.2g}% in {DRAWS} draws of labels from the scores",
            novelty="miscalibration",
        )
    ]
    if number in OVER:
        gap = 100 * float(score.mean() - hit.mean())
        findings.append(
            Finding(
                f"the network overestimates the probability of its {view} label, as the caption says",
                gap > calm,
                measured=f"mean score less frequency {gap:.3g} points",
                reason="the second score of an overconfident network is too small, not too large",
                novelty="miscalibration",
            )
        )
    return findings


def _after(errors: dict[str, float], new: dict[str, float], calm: float) -> list[Finding]:
    """What the captions of the calibrated network say."""
    return [
        Finding(
            "on the calibration rows the network is as good as perfectly calibrated",
            new["calibration"] < calm,
            measured=f"KS {new['calibration']:.3g}%; a calibrated network shows up to {calm:.2g}% in {DRAWS} draws",
            novelty="spline at all",
        ),
        Finding(
            "on the test rows it is much better (KS less than half)",
            new["test"] < errors["test"] / 2,
            measured=f"{new['test']:.3g}% against {errors['test']:.3g}%",
            novelty="spline at all",
        ),
        Finding(
            "but not perfect: worse than on the calibration rows",
            new["test"] > new["calibration"],
            measured=f"{new['test']:.3g}% against {new['calibration']:.3g}%",
            reason="both are within noise of 0",
            novelty="held-out rows",
        ),
    ]


def figure(number: int, view: str, after: bool, quick: bool, data: Path | None, rng: RNG = 0) -> TargetResult:
    """Draw one view before or after the spline, calibration and test rows."""
    del rng
    r, within, knots, table, caption = VIEWS[view]
    split = split_of(data, MAIN)
    pairs = {
        part: ranked(proba(rows), rows.labels, r, within)
        for part, rows in (("calibration", split.cal), ("test", split.test))
    }
    new = repaired(split, r, within, knots)
    curves: dict[str, dict[str, list[float]]] = {}
    lines, old, fitted = [], {}, {}
    for part, (score, hit) in pairs.items():
        old[part], fitted[part] = ks(hit, score), ks(hit, new[part])
        curves |= calibration_graph(new[part] if after else score, hit, knots, part)
        lines += [Line(f"KS, {part} rows, before", old[part]), Line(f"KS, {part} rows, after", fitted[part])]
    band = None if table is None else (table - 0.002, table + 0.002)
    note = f"the caption's {caption} is DenseNet-40"
    lines[2] = Line("KS, test rows, before", old["test"], table, note, band)
    findings = _after(old, fitted, calibrated_ks(new["calibration"])) if after else _before(number, view, pairs, old)
    title = f"calibration graphs, {view}, {'after' if after else 'before'} the spline"
    return TargetResult(
        f"gupta-fig-{number}",
        "E",
        title,
        tuple(lines),
        tuple(findings),
        curves,
        quick=quick,
        data=MAIN,
        size="5,000 calibration and 10,000 test rows, split as published",
    )


#: Target name -> function (quick, data, rng).
TARGETS: dict[str, Callable[[bool, Path | None, RNG], TargetResult]] = {
    f"gupta-fig-{2 * i + 1 + after}": partial(figure, 2 * i + 1 + after, view, bool(after))
    for i, view in enumerate(VIEWS)
    for after in (0, 1)
}
