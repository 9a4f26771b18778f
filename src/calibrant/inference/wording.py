"""How an evaluation and a comparison read: the terminal text, the cells of a table, a plain HTML table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibrant.core.declare import Metric, lookup
from calibrant.core.notebook import notebook_html
from calibrant.core.results import Difference, Result
from calibrant.core.text import DASH, count, percent, plus_minus, pvalue, significant, span, table
from calibrant.inference.error_bars import regression_headline
from calibrant.inference.verdict import rates

if TYPE_CHECKING:
    from calibrant.inference.comparison import Comparison
    from calibrant.inference.evaluation import Evaluation

HEADERS = ("metric", "value", "if calibrated", "p-value", "{level} interval", "estimates")
COMPARISON_HEADERS = ("metric", "before", "after", "change", "{level} interval", "p-value", "")
#: Facts of the first line; they need no row of their own.
_IN_HEADER = ("accuracy", "confidence")


def heads(headers: tuple[str, ...], level: float) -> tuple[str, ...]:
    """Return the heads of a table with the level of its intervals."""
    return tuple(head.format(level=f"{100 * level:g}%") for head in headers)


def number(value: float, *, as_percent: bool) -> str:
    """Return a value: a percentage with two decimals, else four significant digits."""
    return percent(value) if as_percent else significant(value)


def headline(evaluation: Evaluation) -> str:
    """Return the first line: size, task, and what the predictions show on average."""
    facts = evaluation.facts
    if evaluation.task == "regression":
        return regression_headline(facts)
    weighted = " (weighted)" if evaluation.weighted else ""
    what = f"{count(evaluation.n_classes)} classes" if evaluation.n_classes else "top-label pairs"
    start = (
        f"{count(evaluation.n)} predictions{weighted} · {what} · accuracy {percent(facts.accuracy, 1)}"
        f" · mean confidence {percent(facts.confidence, 1)}"
    )
    if facts.event is not None:
        predicted, observed = rates(facts.predicted, facts.observed)
        return f"{start} · predicts {predicted}, happens {observed}"
    bias = 100 * facts.bias
    if abs(bias) <= 0.05:
        return f"{start} → confidence matches accuracy"
    return f"{start} → {'overconfident' if bias > 0 else 'too cautious'} by {abs(bias):.1f} points"


def _metric(name: str, task: str) -> Metric:
    return lookup(name.partition("@")[0], task=task)


def cells(result: Result, task: str = "classes") -> tuple[str, str, str, str, str, str]:
    """Return the six cells of a row of an evaluation."""
    as_percent = _metric(result.name, task).percent
    interval = result.interval
    return (
        result.name,
        number(result.value, as_percent=as_percent),
        plus_minus(result.null_mean, result.null_std, as_percent=as_percent),
        pvalue(result.pvalue, result.draws),
        DASH if interval is None else span(interval.low, interval.high, as_percent=as_percent),
        meaning(result, task),
    )


def meaning(result: Result, task: str = "classes") -> str:
    """Return what the value shows, in plain words."""
    _, _, view = result.name.partition("@")
    plain = _metric(result.name, task).plain
    return f"{plain} ({view})" if view else plain


def rows(evaluation: Evaluation) -> list[tuple[str, ...]]:
    """Return the cells of the table, without what the first line says."""
    return [cells(result, evaluation.task) for result in evaluation.results if result.name not in _IN_HEADER]


def next_step(evaluation: Evaluation) -> str:
    """Return the one thing to do next."""
    advice = evaluation.next_step or evaluation.verdict.advice
    return f"Next: {advice}" if ": calibrant " in advice else f"Next: {advice}."  # a command ends without a period


def evaluation_text(evaluation: Evaluation, *, width: int | None = None) -> str:
    """Return the terminal text; on a narrow terminal the last column goes."""
    body = [heads(HEADERS, evaluation.level), *rows(evaluation)]
    lines = table(body)
    if width is not None and max(map(len, lines)) > width:
        lines = table(body, columns=5)
    if evaluation.risk is not None:
        lines += str(evaluation.risk).splitlines()
    lines = [evaluation.headline, *lines, f"Verdict: {evaluation.verdict}", next_step(evaluation)]
    return "\n".join([*lines, *(f"Note: {note}." for note in evaluation.notes)])


def evaluation_html(evaluation: Evaluation) -> str:
    """Return headline, verdict and table for notebooks; text from users is escaped."""
    return notebook_html(
        evaluation.headline, evaluation.verdict, list(heads(HEADERS, evaluation.level)), rows(evaluation)
    )


def comparison_cells(result: Difference, task: str = "classes") -> tuple[str, ...]:
    """Return the cells of one compared metric; a positive change is an improvement."""
    as_percent = _metric(result.name, task).percent
    interval = result.interval
    change = f"{round(100 * result.change, 2) + 0.0:+.2f}%" if as_percent else f"{result.change + 0.0:+.4g}"
    return (
        result.name,
        number(result.before, as_percent=as_percent),
        number(result.after, as_percent=as_percent),
        change,
        DASH if interval is None else span(interval.low, interval.high, as_percent=as_percent, signed=True),
        pvalue(result.pvalue),
        "= change of the calibration error" if result.exact else "",
    )


def comparison_text(comparison: Comparison) -> str:
    """Return the terminal text of a comparison."""
    body = [comparison_cells(result, comparison.task) for result in comparison.results]
    lines = table([heads(COMPARISON_HEADERS, comparison.level), *body])
    return "\n".join([_compared(comparison), *lines, f"Verdict: {comparison.verdict}"])


def comparison_html(comparison: Comparison) -> str:
    """Return the comparison for notebooks."""
    body = (comparison_cells(result, comparison.task) for result in comparison.results)
    return notebook_html(
        _compared(comparison), comparison.verdict, list(heads(COMPARISON_HEADERS, comparison.level)), body
    )


def _compared(comparison: Comparison) -> str:
    return f"{count(comparison.n)} predictions · before against after, paired (positive change = improved)"
