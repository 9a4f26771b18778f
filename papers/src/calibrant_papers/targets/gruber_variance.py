"""Variance regression of Gruber & Buettner (2022): tables 1-2, figures 4, 8 and 9.

References
----------
[1] Gruber & Buettner (2022), "Better Uncertainty Calibration via Proper Scores for Classification and Beyond", NeurIPS,
    section 5 and appendix G.5.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np

from calibrant._typing import RNG, Floats
from calibrant_papers.targets.result import MIN_SEEDS, Finding, Line, TargetResult
from calibrant_papers.variance_regression import PUBLISHED, Curves, Protocol, friedman, residential

__all__ = ["TARGETS"]

#: The published tables count squared units in millions.
MILLION = 1e6
TABLE_1 = (500, 750, 1000, 1250, 1500, 1750, 2000)
TABLE_2 = (500, 1000, 1500, 2000)
RAW_NOTE = (
    "Published protocol: inputs up to 2.6e6 go in unscaled, so the variance output stays near its start (0.8e6) while "
    "the target's variance is 2.6e4: predicting a constant beats the published network. The text says sales price, the "
    "published code predicts construction cost (V-10)."
)
BUG_NOTE = (
    "The published notebook gave the test rows the scaled variances of the calibration rows (both have 100 rows); that "
    "curve is shown as 'after, misplaced'."
)

SIZE = "100 training, 100 calibration and 172 test rows, split at random; 2,000 steps"


def _over(text: str, curves: Curves, shows: Callable[[Callable[[str], Floats]], bool], **details: str) -> Finding:
    """Judge a claim on every network by itself; `shows` gets a function from a series to its values over training."""
    seeds = range(curves.series["mse"].shape[0])
    return Finding.over(text, [shows(lambda name, i=i: curves.series[name][i]) for i in seeds], **details)  # type: ignore[misc]


def _pick(curves: Curves, iterations: tuple[int, ...]) -> list[int]:
    return [curves.iterations.index(i) for i in iterations]


def _both(data: Path | None, rng: RNG, seeds: int = MIN_SEEDS, every: int = 250) -> dict[Protocol, Curves]:
    """Run the published and the standardized protocol; the same integer seed is run once for all targets."""
    return (_kept if isinstance(rng, int) else _run)(data, rng, seeds, every)


def _run(data: Path | None, rng: RNG, seeds: int, every: int) -> dict[Protocol, Curves]:
    protocols: tuple[Protocol, Protocol] = ("raw", "standardized")
    return {kind: residential(data, protocol=kind, seeds=seeds, every=every, rng=rng) for kind in protocols}


_kept = lru_cache(maxsize=8)(_run)


def _falls(values: Floats) -> bool:
    return all(b < a for a, b in pairwise(values))


def _gap(a: float, b: float) -> float:
    return float(abs(np.log(a / b)))


def table_1(quick: bool, data: Path | None, rng: RNG = 0) -> TargetResult:
    """Mean squared error against average variance, before and after recalibration, over training."""
    both = _both(data, rng)
    raw, mended = both["raw"], both["standardized"]
    lines = [
        Line(f"{series} at {i} (1e6)", raw.at(series, i) / MILLION, PUBLISHED[series][i])
        for series in ("mse", "variance_after", "variance_before")
        for i in TABLE_1
    ]
    lines += [
        Line(f"{series} at {i}, standardized", mended.at(series, i))
        for series in ("mse", "variance_after", "variance_before")
        for i in TABLE_1
    ]
    at = _pick(raw, TABLE_1)
    ratio = raw.series["variance_after"][:, at] / raw.series["mse"][:, at]
    findings = (
        _over("the mean squared error falls over training", raw, lambda of: _falls(of("mse")[at]), novelty="training"),
        _over(
            "the uncalibrated variance hardly moves (within 10%)",
            raw,
            lambda of: bool(max(of("variance_before")[at]) < 1.1 * min(of("variance_before")[at])),
            novelty="raw inputs",
        ),
        _over(
            "the uncalibrated variance is at most half the error at every iteration",
            raw,
            lambda of: bool((of("variance_before")[at] < 0.5 * of("mse")[at]).all()),
            novelty="raw inputs",
        ),
        _over(
            "only after recalibration the average variance is of the size of the error (within a factor of 2)",
            raw,
            lambda of: bool((np.abs(np.log(of("variance_after")[at] / of("mse")[at])) < np.log(2)).all()),
            measured=f"variance over error between {ratio.min():.2g} and {ratio.max():.2g}",
            reason="100 calibration rows: a few large errors decide the fitted variance and the error of the test rows",
            novelty="recalibration",
        ),
        _over(
            "flaw: with raw inputs the error stays above the variance of the target itself",
            raw,
            lambda of: bool(min(of("mse")[at]) > raw.target_variance),
            novelty="raw inputs",
        ),
        _over(
            "standardized inputs beat a constant, and recalibration brings the variance nearer to the error there too",
            mended,
            lambda of: (
                bool(of("mse")[-1] < mended.target_variance)
                and _gap(of("variance_after")[-1], of("mse")[-1]) < _gap(of("variance_before")[-1], of("mse")[-1])
            ),
            reason="one network of the five decides by its few largest errors",
            novelty="recalibration",
        ),
    )
    return TargetResult(
        "gruber-table-1",
        "P",
        "MSE and average variance before and after variance scaling, Residential Building",
        tuple(lines),
        findings,
        notes=(RAW_NOTE,),
        quick=quick,
        data="residential_building",
        size=SIZE,
    )


def table_2(quick: bool, data: Path | None, rng: RNG = 0) -> TargetResult:
    """Squared error over variance, before and after recalibration, over training."""
    both = _both(data, rng)
    raw, mended = both["raw"], both["standardized"]
    lines = []
    for series in ("ratio_after", "ratio_before"):
        for i in TABLE_2:
            note = f"± {raw.at(series + '_std', i):.3g} over rows (published ± {PUBLISHED[series + '_std'][i]})"
            lines.append(Line(f"{series} at {i}", raw.at(series, i), PUBLISHED[series][i], note))
    for series in ("ratio_after", "ratio_before"):
        lines += [Line(f"{series} at {i}, standardized", mended.at(series, i)) for i in TABLE_2]
    at = _pick(raw, TABLE_2)
    before, after = raw.series["ratio_before"][:, at], raw.series["ratio_after"][:, at]
    findings = (
        _over(
            "uncalibrated variances are overconfident by a factor above 3 at every iteration",
            raw,
            lambda of: bool(min(of("ratio_before")[at]) > 3),
            measured=f"smallest {before.min():.2g}, mean {before.mean():.2g}",
            reason="the size of the error depends on the random split",
            novelty="raw inputs",
        ),
        _over(
            "that overconfidence falls as the error falls",
            raw,
            lambda of: _falls(of("ratio_before")[at]),
            novelty="training",
        ),
        _over(
            "recalibrated ratios lie between 0.5 and 1.5",
            raw,
            lambda of: bool(((of("ratio_after")[at] > 0.5) & (of("ratio_after")[at] < 1.5)).all()),
            measured=f"between {after.min():.2g} and {after.max():.2g}",
            reason="a few large ratios of 172 rows decide the mean",
            novelty="recalibration",
        ),
        _over(
            "with standardized inputs recalibration also brings the ratio nearer to 1",
            mended,
            lambda of: bool((np.abs(np.log(of("ratio_after")[at])) < np.abs(np.log(of("ratio_before")[at]))).all()),
            reason="a few large ratios of 172 rows decide the mean",
            novelty="recalibration",
        ),
    )
    return TargetResult(
        "gruber-table-2",
        "P",
        "squared error over variance before and after variance scaling, Residential Building",
        tuple(lines),
        findings,
        notes=(RAW_NOTE,),
        quick=quick,
        data="residential_building",
        size=SIZE,
    )


def _panels(curves: Curves, names: tuple[str, ...]) -> dict[str, dict[str, list[float]]]:
    """One panel per quantity: iteration, mean over seeds before and after, and their spread."""
    out: dict[str, dict[str, list[float]]] = {}
    for name in names:
        panel: dict[str, list[float]] = {"iteration": [float(i) for i in curves.iterations]}
        for label in ("before", "after"):
            series = curves.series[f"{name}_{label}"]
            panel[label] = series.mean(axis=0).tolist()
            panel[f"{label} low"], panel[f"{label} high"] = series.min(axis=0).tolist(), series.max(axis=0).tolist()
        out[f"{curves.name}: {name}"] = panel
    return out


def _figure_residential(name: str, seeds: int, quick: bool, data: Path | None, rng: RNG) -> TargetResult:
    both = _both(data, rng, seeds, every=250)
    raw, mended = both["raw"], both["standardized"]
    panels: dict[str, dict[str, list[float]]] = {}
    for curves in both.values():
        panels |= _panels(curves, ("variance", "dss", "skce", "skce_median"))
    findings = (
        _over(
            "recalibrated variance is high at the start and falls as the fit improves",
            raw,
            lambda of: bool(of("variance_after")[0] > 2 * of("variance_after")[-1]),
            novelty="recalibration",
        ),
        _over(
            "DSS shows the repair at every iteration",
            raw,
            lambda of: bool((of("dss_after") < of("dss_before")).all()),
            novelty="recalibration",
        ),
        _over(
            "SKCE as published (length 1) ignores the repair: it stays below 1e-3 before and after",
            raw,
            lambda of: bool(max(np.abs(of("skce_after")).max(), np.abs(of("skce_before")).max()) < 1e-3),
            reason="some pairs of rows lie nearer than the length scale",
            novelty="length scale of 1",
        ),
        _over(
            "that is the length scale's doing: with the median heuristic SKCE is over a hundred times larger",
            raw,
            lambda of: bool(of("skce_median_before").min() > 100 * np.abs(of("skce_before")).max()),
            reason="some pairs of rows lie nearer than the length scale",
            novelty="length scale of 1",
        ),
        _over(
            "with standardized inputs and the median heuristic SKCE sees the repair at every iteration",
            mended,
            lambda of: bool((of("skce_median_after") < of("skce_median_before")).all()),
            reason="SKCE of 172 rows is noisy",
            novelty="recalibration",
        ),
    )
    lines = tuple(
        Line(f"{curves.name}: {series} at {i}", curves.at(series, i))
        for curves in both.values()
        for series in ("dss_before", "dss_after")
        for i in (500, 1000, 2000)
    )
    form = "single runs" if name == "gruber-fig-4" else "range of the runs"
    title = f"variance, DSS and SKCE over training, Residential Building, {form}"
    return TargetResult(
        name, "P", title, lines, findings, panels, (RAW_NOTE,), quick, data="residential_building", size=SIZE
    )


def figure_4(quick: bool, data: Path | None, rng: RNG = 0) -> TargetResult:
    """Variance, DSS and SKCE over training, as in a single run: every run is judged by itself."""
    return _figure_residential("gruber-fig-4", MIN_SEEDS, quick, data, rng)


def figure_8(quick: bool, data: Path | None, rng: RNG = 0) -> TargetResult:
    """Variance, DSS and SKCE over training, five seeds with their range."""
    return _figure_residential("gruber-fig-8", 5, quick, data, rng)


def figure_9(quick: bool, data: Path | None = None, rng: RNG = 0) -> TargetResult:
    """DSS, variance, SKCE and MSE over training on Friedman-1, recalibrated or not (`data` is not needed)."""
    del data
    seeds, every = MIN_SEEDS, 50 if quick else 10
    right = friedman(seeds=seeds, every=every, rng=rng)
    misplaced = friedman(seeds=seeds, every=every, misplaced=True, rng=rng)
    panels = _panels(right, ("dss", "variance", "skce", "skce_median"))
    for name in ("dss", "variance", "skce", "skce_median"):
        panels[f"{right.name}: {name}"]["after, misplaced"] = misplaced.mean(f"{name}_after").tolist()
    panels[f"{right.name}: mse"] = {
        "iteration": [float(i) for i in right.iterations],
        "before": right.mean("mse").tolist(),
    }
    half = len(right.iterations) // 2

    def late(of: Callable[[str], Floats], name: str) -> Floats:
        """A series from the minimum of the plain DSS on."""
        return of(name)[int(of("dss_before").argmin()) :]

    pairs = [(right.series["dss_after"][i], misplaced.series["dss_after"][i]) for i in range(seeds)]
    moves = {}
    for name in ("variance_before", "variance_after"):
        rows = zip(right.series[name], right.series["dss_before"].argmin(axis=1), strict=True)
        moves[name] = "end over start " + ", ".join(f"{values[-1] / values[start]:.2f}" for values, start in rows)
    above = right.series["dss_after"] >= right.series["dss_before"]
    last = max((right.iterations[i] for i in np.flatnonzero(above.any(axis=0))), default=0)
    findings = (
        _over(
            "DSS of the plain model overfits: it ends more than 1 above its minimum",
            right,
            lambda of: bool(of("dss_before")[-1] > of("dss_before").min() + 1),
            novelty="training",
        ),
        _over(
            "recalibrated DSS stays within 0.5 of its minimum",
            right,
            lambda of: bool(of("dss_after")[-1] < of("dss_after").min() + 0.5),
            novelty="recalibration",
        ),
        _over(
            "recalibrated DSS is lower at every iteration",
            right,
            lambda of: bool((of("dss_after") < of("dss_before")).all()),
            measured=f"not lower at {', '.join(str(n) for n in above.sum(axis=1))} of {above.shape[1]} looks, the last "
            f"at step {last:,} of {right.iterations[-1]:,}",
            reason="where the plain model is at its best there is little to repair, and 100 rows decide the map",
            novelty="recalibration",
        ),
        _over(
            "the plain variance keeps falling after that point (by more than a tenth)",
            right,
            lambda of: bool(late(of, "variance_before")[-1] < 0.9 * late(of, "variance_before")[0]),
            measured=moves["variance_before"],
            reason="the mean over rows falls, in some runs by less than a tenth",
            novelty="training",
        ),
        _over(
            "the recalibrated variance stays level (within 25%)",
            right,
            lambda of: bool(0.75 < late(of, "variance_after")[-1] / late(of, "variance_after")[0] < 1.25),
            measured=moves["variance_after"],
            reason="the map is refitted on 100 rows whose errors grow as the mean overfits",
            novelty="recalibration",
        ),
        _over(
            "the mean is not overfitted: MSE ends within 25% of its minimum",
            right,
            lambda of: bool(of("mse")[-1] < 1.25 * of("mse").min()),
            novelty="a mean that is not overfitted",
        ),
        _over(
            "SKCE falls at the start of training and moves little afterwards, while DSS explodes",
            right,
            lambda of: bool(late(of, "skce_median_before").max() < 0.1 * of("skce_median_before")[0]),
            novelty="training",
        ),
        Finding.over(
            "flaw: the published recalibration, misplaced, is worse than the right one in the second half",
            [bool((wrong[half:] > good[half:]).all()) for good, wrong in pairs],
            novelty="recalibration",
        ),
    )
    lines = tuple(
        Line(f"{series} at {i}", right.at(series, i))
        for series in ("dss_before", "dss_after", "variance_before", "variance_after", "mse")
        for i in (200, 500, 1000)
    )
    title = "DSS, variance, SKCE and MSE over training, Friedman-1"
    size = f"100, 100 and 100 rows, 1,000 steps, looked at every {every}"
    return TargetResult(
        "gruber-fig-9", "S", title, lines, findings, panels, (BUG_NOTE,), quick, data="Friedman 1, simulated", size=size
    )


#: Target name -> function (quick, data, rng).
TARGETS: dict[str, Callable[[bool, Path | None, RNG], TargetResult]] = {
    "gruber-table-1": table_1,
    "gruber-table-2": table_2,
    "gruber-fig-4": figure_4,
    "gruber-fig-8": figure_8,
    "gruber-fig-9": figure_9,
}
