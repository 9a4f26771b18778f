"""The adversarial grid: coverage of the intervals of `evaluate` where few events, ties or sharp scores break theory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from calibrant._typing import Array, Floats
from calibrant.workflows.evaluate import evaluate
from calibrant_papers.studies.frame import Cell, Row, Study, StudyResult, Tell, run_study
from calibrant_papers.validation.generators import GENERATORS, draw, truth

__all__ = ["GRID_SIZES", "adversarial"]

GRID_SIZES = (100, 300, 1000, 5000)
#: Smallest coverage in percent that is good enough for an interval of 95%, and largest share of false verdicts.
COVERAGE, SIZE = 93.0, 6.0
RESAMPLES = 199
_SUMS = ("samples", "shown", "hits", "below", "above", "width", "contradictions")
_ERRORS = ("ece", "ks", "tce", "mmce")


def adversarial(
    *,
    sizes: Iterable[int] = GRID_SIZES,
    models: Iterable[str] = tuple(GENERATORS),
    repeats: int = 400,
    parts: int = 4,
    seed: int = 0,
    folder: str | Path | None = None,
    jobs: int | None = None,
    progress: Tell | None = None,
) -> StudyResult:
    """Simulate the intervals and verdicts of `evaluate` on every generator of `calibrant_papers.validation.generators`.

    Parameters
    ----------
    sizes, models, repeats, parts, seed, folder, jobs, progress
        As in `coverage`; a quarter of the repeats at 5,000 rows and above.

    Returns
    -------
    StudyResult
        Rows: model, metric, n, samples, shown (percent of samples with an interval), rate (coverage of the shown ones
        in percent), below, above, width, contradictions (percent of samples where the interval excludes 0 beside
        p > 0.1), kept; and one row per model and n for the verdict, with the percent of samples where a gap was found.
    """
    cells: list[Cell] = [
        {
            "model": model,
            "n": int(n),
            "part": part,
            "repeats": max(1, (repeats // 4 if n >= 5000 else repeats) // parts),
        }
        for n in sizes
        for model in models
        for part in range(parts)
    ]
    study = Study("coverage-adversarial", _one_cell, tuple(cells), {}, seed)
    rows = _collect(run_study(study, folder=folder, jobs=jobs, progress=progress))
    return StudyResult("coverage-adversarial", tuple(rows), _finding(rows), tables=_tables(rows))


def _one_cell(cell: Cell, arrays: Mapping[str, Array], rng: np.random.Generator) -> list[Row]:  # noqa: ARG001
    known = truth(cell["model"])
    sums = {name: np.zeros(len(_SUMS)) for name in (*known, "verdict")}
    for _ in range(cell["repeats"]):
        rows = draw(cell["model"], cell["n"], rng)
        found: Any = evaluate(rows.labels(rng), rows.forecast, metrics=list(known), n_resamples=RESAMPLES, rng=rng)
        for name, value in known.items():
            if np.isfinite(value):
                sums[name] += _one(found[name], value, zero=name.partition("@")[0] in _ERRORS)
        sums["verdict"] += np.array([1.0, 1.0, float(found.verdict.found), 0.0, 0.0, 0.0, 0.0])
    return [
        {"model": cell["model"], "metric": name, "n": cell["n"], **dict(zip(_SUMS, values.tolist(), strict=True))}
        for name, values in sums.items()
        if values[0]
    ]


def _one(result: Any, value: float, *, zero: bool) -> Floats:
    span = result.interval
    if span is None:
        return np.array([1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    below, above = value < span.low - 1e-9, value > span.high + 1e-9
    odd = zero and span.low > 1e-9 and result.pvalue is not None and result.pvalue > 0.1
    return np.array([1.0, 1.0, not (below or above), below, above, span.high - span.low, odd], dtype=np.float64)


def _collect(found: list[Row]) -> list[Row]:
    sums: dict[tuple[Any, ...], Floats] = {}
    for row in found:
        key = (row["model"], row["metric"], row["n"])
        sums[key] = sums.get(key, np.zeros(len(_SUMS))) + np.array([row[name] for name in _SUMS])
    rows: list[Row] = []
    for (model, metric, n), (samples, shown, hits, below, above, width, odd) in sums.items():
        line: Row = {"model": model, "metric": metric, "n": n, "samples": int(samples)}
        line["shown"] = round(100 * shown / samples, 1)
        line["rate"] = round(100 * hits / shown, 1) if shown else None
        noise = 200 * np.sqrt(0.05 * 0.95 / max(shown, 1.0))
        if metric == "verdict":
            line["kept"] = line["rate"] <= SIZE + noise if "calibrated" in model else None
        else:
            line |= {
                "below": round(100 * below / max(shown, 1), 1),
                "above": round(100 * above / max(shown, 1), 1),
                "width": width / max(shown, 1),
                "contradictions": round(100 * odd / samples, 1),
                "kept": not shown or bool(line["rate"] >= COVERAGE - noise and odd == 0),
            }
        rows.append(line)
    return rows


def _finding(rows: list[Row]) -> str:
    judged = [row for row in rows if row["kept"] is not None]
    broken = [row for row in judged if not row["kept"]]
    text = f"{len(judged) - len(broken)} of {len(judged)} cells are within their bound (two standard errors allowed)."
    spans = [row for row in rows if row["metric"] != "verdict" and row["rate"] is not None]
    if spans:
        worst = min(spans, key=lambda row: row["rate"])
        text += f" The lowest coverage of a shown interval is {worst['rate']:.1f}% "
        text += f"({worst['metric']}, {worst['model']}, n = {worst['n']})."
    return text


def _tables(rows: list[Row]) -> dict[str, tuple[Row, ...]]:
    """Return the grid as pages show it: a line per model and n, a column per metric."""
    lines: dict[tuple[str, int], Row] = {}
    for row in rows:
        line = lines.setdefault(
            (row["model"], row["n"]), {"model": row["model"], "n": row["n"], "samples": row["samples"]}
        )
        text = "–" if row["rate"] is None else f"{row['rate']:.1f}"
        if row["rate"] is not None and row["shown"] < 100:
            text += f" ({row['shown']:.0f}% shown)"
        name = "gap found" if row["metric"] == "verdict" else row["metric"]
        line[name] = text if row["kept"] in (True, None) else f"**{text}**"
    broken = tuple(row for row in rows if row["kept"] is False)
    title = "Coverage in percent of the shown intervals; – where a dash is shown; bold where the bound is broken"
    return {title: tuple(lines.values())} | ({"Cells outside their bound": broken} if broken else {})
