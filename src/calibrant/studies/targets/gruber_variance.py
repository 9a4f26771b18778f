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

from calibrant._typing import RNG
from calibrant.studies.targets.result import Finding, Line, TargetResult
from calibrant.studies.variance_regression import PUBLISHED, Curves, Protocol, friedman, residential

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

#: How often all findings held over eight seeds (21-28) of the full run that were not looked at while the bands were
#: chosen. Seed 0, the default, was; its success alone proves little.
SEED_NOTES = {
    "gruber-table-1": "Findings over 8 seeds set aside, full run: all hold in 8.",
    "gruber-table-2": (
        "Findings over 8 seeds set aside, full run: all hold in 4. The recalibrated ratio left 0.5 - 1.5 in 3 (a few "
        "large ratios decide it), the standardised ratio did not come nearer to 1 in 1; the others held in all."
    ),
    "gruber-fig-4": (
        "Findings over 8 seeds set aside: all hold in 7. In one single run recalibrated DSS was not lower everywhere."
    ),
    "gruber-fig-8": "Findings over 8 seeds set aside, full run: all hold in 8.",
    "gruber-fig-9": (
        "Findings over 8 seeds set aside, full run: all hold in 5. The level recalibrated variance failed in 3, the "
        "falling plain variance in 2; everything about DSS, MSE, SKCE and the misplaced map held in all."
    ),
}
QUICK_NOTE = (
    "Quick run: one to three networks only; on seeds 11-15 (set aside too) 8 of 20 quick runs of tables 1-2 and "
    "figures 4 and 9 missed at least one finding."
)


def _notes(name: str, flaw: str, quick: bool) -> tuple[str, ...]:
    return (flaw, SEED_NOTES[name], *((QUICK_NOTE,) if quick else ()))


def _both(quick: bool, data: Path | None, rng: RNG, seeds: int = 5, every: int = 250) -> dict[Protocol, Curves]:
    """Run the published and the standardised protocol; the same integer seed is run once for all targets."""
    return (_kept if isinstance(rng, int) else _run)(quick, data, rng, seeds, every)


def _run(quick: bool, data: Path | None, rng: RNG, seeds: int, every: int) -> dict[Protocol, Curves]:
    count = min(seeds, 2) if quick else seeds
    protocols: tuple[Protocol, Protocol] = ("raw", "standardised")
    return {kind: residential(data, protocol=kind, seeds=count, every=every, rng=rng) for kind in protocols}


_kept = lru_cache(maxsize=8)(_run)


def _falls(values: list[float]) -> bool:
    return all(b < a for a, b in pairwise(values))


def table_1(quick: bool, data: Path | None, rng: RNG = 0) -> TargetResult:
    """Mean squared error against average variance, before and after recalibration, over training."""
    both = _both(quick, data, rng)
    raw, mended = both["raw"], both["standardised"]
    lines = [
        Line(f"{series} at {i} (1e6)", raw.at(series, i) / MILLION, PUBLISHED[series][i])
        for series in ("mse", "variance_after", "variance_before") for i in TABLE_1
    ]
    lines += [
        Line(f"{series} at {i}, standardised", mended.at(series, i))
        for series in ("mse", "variance_after", "variance_before") for i in TABLE_1
    ]
    mse, before, after = ([raw.at(s, i) for i in TABLE_1] for s in ("mse", "variance_before", "variance_after"))
    findings = (
        Finding("the mean squared error falls over training", _falls(mse)),
        Finding("the uncalibrated variance hardly moves (within 10 %)", max(before) < 1.1 * min(before)),
        Finding(
            "the uncalibrated variance is at most half the error at every iteration",
            all(v < 0.5 * e for v, e in zip(before, mse, strict=True)),
        ),
        Finding(
            "only after recalibration the average variance is of the size of the error (within a factor of 3)",
            all(1 / 3 < v / e < 3 for v, e in zip(after, mse, strict=True)),
        ),
        Finding(
            "flaw: with raw inputs the error stays above the variance of the target itself",
            min(mse) > raw.target_variance,
        ),
        Finding(
            "standardised inputs beat a constant, and recalibration brings the variance nearer to the error there too",
            mended.at("mse", 2000) < mended.target_variance
            and abs(np.log(mended.at("variance_after", 2000) / mended.at("mse", 2000)))
            < abs(np.log(mended.at("variance_before", 2000) / mended.at("mse", 2000))),
        ),
    )
    return TargetResult(
        "gruber-table-1", "P", "MSE and average variance before and after variance scaling, Residential Building",
        tuple(lines), findings, notes=_notes("gruber-table-1", RAW_NOTE, quick), quick=quick,
    )


def table_2(quick: bool, data: Path | None, rng: RNG = 0) -> TargetResult:
    """Squared error over variance, before and after recalibration, over training."""
    both = _both(quick, data, rng)
    raw, mended = both["raw"], both["standardised"]
    lines = []
    for series in ("ratio_after", "ratio_before"):
        for i in TABLE_2:
            note = f"± {raw.at(series + '_std', i):.3g} over rows (published ± {PUBLISHED[series + '_std'][i]})"
            lines.append(Line(f"{series} at {i}", raw.at(series, i), PUBLISHED[series][i], note))
    for series in ("ratio_after", "ratio_before"):
        lines += [Line(f"{series} at {i}, standardised", mended.at(series, i)) for i in TABLE_2]
    before, after = ([raw.at(series, i) for i in TABLE_2] for series in ("ratio_before", "ratio_after"))
    findings = (
        Finding("uncalibrated variances are over-confident by a factor above 3 at every iteration", min(before) > 3),
        Finding("that over-confidence falls as the error falls", _falls(before)),
        Finding("recalibrated ratios lie between 0.5 and 1.5", all(0.5 < r < 1.5 for r in after)),
        Finding(
            "with standardised inputs recalibration also brings the ratio nearer to 1",
            all(
                abs(np.log(mended.at("ratio_after", i))) < abs(np.log(mended.at("ratio_before", i))) for i in TABLE_2
            ),
        ),
    )
    return TargetResult(
        "gruber-table-2", "P", "squared error over variance before and after variance scaling, Residential Building",
        tuple(lines), findings, notes=_notes("gruber-table-2", RAW_NOTE, quick), quick=quick,
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
    both = _both(quick, data, rng, seeds, every=250 if quick else 25)
    raw, mended = both["raw"], both["standardised"]
    panels: dict[str, dict[str, list[float]]] = {}
    for curves in both.values():
        panels |= _panels(curves, ("variance", "dss", "skce", "skce_median"))
    variance = raw.mean("variance_after")
    change = np.abs(raw.mean("skce_after") - raw.mean("skce_before"))
    findings = (
        Finding(
            "recalibrated variance is high at the start and falls as the fit improves",
            bool(variance[0] > 2 * variance[-1]),
        ),
        Finding(
            "DSS shows the repair at every iteration", bool((raw.mean("dss_after") < raw.mean("dss_before")).all())
        ),
        Finding(
            "SKCE as published (length 1) ignores the repair: it stays below 1e-3 before and after",
            float(change.max()) < 1e-3 and float(np.abs(raw.mean("skce_before")).max()) < 1e-3,
        ),
        Finding(
            "that is the length scale's doing: with the median heuristic SKCE is over a hundred times larger",
            float(raw.mean("skce_median_before").min()) > 100 * float(np.abs(raw.mean("skce_before")).max()),
        ),
        Finding(
            "with standardised inputs and the median heuristic SKCE sees the repair at every iteration",
            bool((mended.mean("skce_median_after") < mended.mean("skce_median_before")).all()),
        ),
    )
    lines = tuple(
        Line(f"{curves.name}: {series} at {i}", curves.at(series, i))
        for curves in both.values() for series in ("dss_before", "dss_after") for i in (500, 1000, 2000)
    )
    title = f"variance, DSS and SKCE over training, Residential Building, {raw.series['mse'].shape[0]} seed(s)"
    return TargetResult(name, "P", title, lines, findings, panels, _notes(name, RAW_NOTE, quick), quick)


def figure_4(quick: bool, data: Path | None, rng: RNG = 0) -> TargetResult:
    """Variance, DSS and SKCE over training, one run."""
    return _figure_residential("gruber-fig-4", 1, quick, data, rng)


def figure_8(quick: bool, data: Path | None, rng: RNG = 0) -> TargetResult:
    """Variance, DSS and SKCE over training, five seeds with their range."""
    return _figure_residential("gruber-fig-8", 5, quick, data, rng)


def figure_9(quick: bool, data: Path | None = None, rng: RNG = 0) -> TargetResult:
    """DSS, variance, SKCE and MSE over training on Friedman-1, recalibrated or not (`data` is not needed)."""
    del data
    seeds, every = (3, 50) if quick else (5, 10)
    right = friedman(seeds=seeds, every=every, rng=rng)
    misplaced = friedman(seeds=seeds, every=every, misplaced=True, rng=rng)
    panels = _panels(right, ("dss", "variance", "skce", "skce_median"))
    for name in ("dss", "variance", "skce", "skce_median"):
        panels[f"{right.name}: {name}"]["after, misplaced"] = misplaced.mean(f"{name}_after").tolist()
    panels[f"{right.name}: mse"] = {
        "iteration": [float(i) for i in right.iterations], "before": right.mean("mse").tolist(),
    }
    before, after, mse = right.mean("dss_before"), right.mean("dss_after"), right.mean("mse")
    trough = int(before.argmin())
    late = slice(trough, None)
    spread_before, spread_after = right.mean("variance_before")[late], right.mean("variance_after")[late]
    findings = (
        Finding(
            "DSS of the plain model overfits: it ends more than 1 above its minimum",
            bool(before[-1] > before[trough] + 1),
        ),
        Finding("recalibrated DSS stays within 0.5 of its minimum", float(after[-1]) < float(after.min()) + 0.5),
        Finding("recalibrated DSS is lower at every iteration", bool((after < before).all())),
        Finding("the plain variance keeps falling after that point", bool(spread_before[-1] < 0.9 * spread_before[0])),
        Finding(
            "the recalibrated variance stays level: it moves clearly less (in logs) than the plain one",
            abs(float(np.log(spread_after[-1] / spread_after[0])))
            < 0.7 * abs(float(np.log(spread_before[-1] / spread_before[0]))),
        ),
        Finding(
            "the mean is not overfitted: MSE ends within 25 % of its minimum",
            float(mse[-1]) < 1.25 * float(mse.min()),
        ),
        Finding(
            "SKCE falls at the start of training and moves little afterwards, while DSS explodes",
            float(right.mean("skce_median_before")[late].max()) < 0.1 * float(right.mean("skce_median_before")[0]),
        ),
        Finding(
            "flaw: the published recalibration, misplaced, is worse than the right one in the second half",
            bool((misplaced.mean("dss_after")[len(mse) // 2 :] > after[len(mse) // 2 :]).all()),
        ),
    )
    lines = tuple(
        Line(f"{series} at {i}", right.at(series, i))
        for series in ("dss_before", "dss_after", "variance_before", "variance_after", "mse") for i in (200, 500, 1000)
    )
    title = "DSS, variance, SKCE and MSE over training, Friedman-1"
    notes = _notes("gruber-fig-9", BUG_NOTE, quick)
    return TargetResult("gruber-fig-9", "S", title, lines, findings, panels, notes, quick)


#: Target name -> function (quick, data, rng).
TARGETS: dict[str, Callable[[bool, Path | None, RNG], TargetResult]] = {
    "gruber-table-1": table_1,
    "gruber-table-2": table_2,
    "gruber-fig-4": figure_4,
    "gruber-fig-8": figure_8,
    "gruber-fig-9": figure_9,
}
