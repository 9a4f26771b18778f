"""How an evaluation reads: the terminal text and a plain HTML table."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from calibrant.core.declare import lookup
from calibrant.core.notebook import notebook_html
from calibrant.core.results import Difference, Result

if TYPE_CHECKING:
    from calibrant.inference.comparison import Comparison
    from calibrant.inference.evaluation import Evaluation

HEADERS = ("measure", "value", "if calibrated", "p-value", "{level} interval", "estimates")
#: Facts of the first line; they need no row of their own.
_IN_HEADER = ("accuracy", "confidence")


def count(n: int) -> str:
    """Write a count with thin groups: 10 000."""
    return f"{n:,}".replace(",", " ")


def number(value: float, *, percent: bool) -> str:
    """Write a value: percent with two decimals, else four significant digits."""
    if math.isinf(value) or math.isnan(value):
        return "inf" if value > 0 else "-inf" if value < 0 else "nan"
    return f"{100 * value:.2f} %" if percent else f"{value:.4g}"


def headline(evaluation: Evaluation) -> str:
    """Return the first line: size, classes, accuracy, confidence and their difference."""
    facts = evaluation.facts
    lean = 100 * (facts.confidence - facts.accuracy)
    direction = (
        f"over-confident by {lean:.1f} points"
        if lean > 0.05
        else f"under-confident by {-lean:.1f} points"
        if lean < -0.05
        else "claims what it reaches"
    )
    classes = f" · {count(evaluation.n_classes)} classes" if evaluation.n_classes else " · top-label pairs"
    weighted = " (weighted)" if evaluation.weighted else ""
    return (
        f"{count(evaluation.n)} predictions{weighted}{classes} · accuracy {100 * facts.accuracy:.1f} %"
        f" · mean confidence {100 * facts.confidence:.1f} % → {direction}"
    )


def cells(result: Result) -> tuple[str, str, str, str, str, str]:
    """Return the six cells of a row."""
    measure = lookup(result.name.partition("@")[0])
    percent = measure.percent
    null = "–"
    if result.null_mean is not None and result.null_std is not None:
        null = (
            f"{100 * result.null_mean:.2f} ± {100 * result.null_std:.2f} %"
            if percent
            else f"{result.null_mean:.4g} ± {result.null_std:.1g}"
        )
    pvalue = "–" if result.pvalue is None else "< 0.001" if result.pvalue < 0.001 else f"{result.pvalue:.3f}"
    interval = "–"
    if result.interval is not None:
        low, high = result.interval.low, result.interval.high
        interval = f"{100 * low:.2f} – {100 * high:.2f} %" if percent else f"{low:.4g} – {high:.4g}"
    return result.name, number(result.value, percent=percent), null, pvalue, interval, meaning(result)


def meaning(result: Result) -> str:
    """Return what the value estimates, with the side of the bound."""
    _, _, view = result.name.partition("@")
    estimates = f"the {view} error" if view else (result.estimates or "–")
    side = {"lower": "lower bound of ", "upper": "upper bound of "}.get(result.bound or "", "")
    return side + estimates


def table(evaluation: Evaluation, *, width: int | None = None) -> list[str]:
    """Return the lines of the table; on a narrow terminal the last column goes."""
    rows = [cells(result) for result in evaluation.results if result.name not in _IN_HEADER]
    heads = tuple(head.format(level=f"{100 * evaluation.level:g} %") for head in HEADERS)
    sizes = [max(len(row[i]) for row in [heads, *rows]) for i in range(6)]
    last = 6 if width is None or sum(sizes) + 10 <= width else 5
    return ["  ".join(row[i].ljust(sizes[i]) for i in range(last)).rstrip() for row in [heads, *rows]]


def next_step(evaluation: Evaluation) -> str:
    """Return the one thing to do next."""
    if evaluation.verdict.startswith(("Not calibrated", "Top label calibrated, classes not")):
        return "Next: repair it on held-out calibration rows: calibrant fit FILE -o cal.json (names the best method)."
    if evaluation.verdict.startswith("Cannot tell"):
        return "Next: collect more labelled rows; calibrant explain ece says how many a given error needs."
    return "Next: nothing to repair; keep watching it with calibrant check or calibrant monitor."


def evaluation_text(evaluation: Evaluation, *, width: int | None = None) -> str:
    """Return the terminal text."""
    lines = [
        headline(evaluation),
        *table(evaluation, width=width),
        f"Verdict: {evaluation.verdict}",
        next_step(evaluation),
    ]
    lines += [f"Note: {note}." for note in evaluation.notes]
    return "\n".join(lines)


def evaluation_html(evaluation: Evaluation) -> str:
    """Return headline, verdict and table for notebooks; text from users is escaped."""
    heads = [head.format(level=f"{100 * evaluation.level:g} %") for head in HEADERS]
    rows = (cells(result) for result in evaluation.results if result.name not in _IN_HEADER)
    return notebook_html(headline(evaluation), evaluation.verdict, heads, rows)


COMPARISON_HEADERS = ("measure", "before", "after", "change", "{level} interval", "p-value", "")


def comparison_cells(result: Difference) -> tuple[str, ...]:
    """Return the cells of one compared measure; a positive change is an improvement."""
    percent = lookup(result.name.partition("@")[0]).percent
    interval = "–"
    if result.interval is not None:
        low, high = result.interval.low, result.interval.high
        interval = f"{100 * low:+.2f} – {100 * high:+.2f}" if percent else f"{low:+.4g} – {high:+.4g}"
    pvalue = "–" if result.pvalue is None else "< 0.001" if result.pvalue < 0.001 else f"{result.pvalue:.3f}"
    change = f"{round(100 * result.change, 2) + 0.0:+.2f}" if percent else f"{result.change + 0.0:+.4g}"
    note = "= change of the calibration error" if result.exact else ""
    before, after = (number(v, percent=percent) for v in (result.before, result.after))
    return result.name, before, after, change, interval, pvalue, note


def comparison_text(comparison: Comparison) -> str:
    """Return the terminal text of a comparison."""
    rows = [comparison_cells(result) for result in comparison.results]
    heads = tuple(head.format(level=f"{100 * comparison.level:g} %") for head in COMPARISON_HEADERS)
    sizes = [max(len(row[i]) for row in [heads, *rows]) for i in range(len(heads))]
    lines = [
        "  ".join(cell.ljust(size) for cell, size in zip(row, sizes, strict=True)).rstrip() for row in [heads, *rows]
    ]
    return "\n".join([_compared(comparison), *lines, f"Verdict: {comparison.verdict}"])


def comparison_html(comparison: Comparison) -> str:
    """Return the comparison for notebooks."""
    heads = [head.format(level=f"{100 * comparison.level:g} %") for head in COMPARISON_HEADERS]
    rows = (comparison_cells(result) for result in comparison.results)
    return notebook_html(_compared(comparison), comparison.verdict, heads, rows)


def _compared(comparison: Comparison) -> str:
    return f"{count(comparison.n)} predictions · before against after, paired (positive change = improved)"
