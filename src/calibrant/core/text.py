"""How numbers read: counts, percentages, points, p-values, and the one text table.

Everything a person sees (terminal, report, errors) writes its numbers here, so that one number reads the same
everywhere: 10,000 rows, 95%, 4.8 points, p < 0.001.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

__all__ = [
    "DASH", "count", "first_upper", "markdown_table", "percent", "plus_minus", "points", "proportion", "pvalue",
    "pvalue_phrase", "significant", "span", "table"
]  # fmt: skip

#: What stands where nothing applies.
DASH = "–"


def count(n: float) -> str:
    """Return a count with commas: ``10,000``; weighted counts keep one decimal only when they have one."""
    return f"{n:,.0f}" if float(n).is_integer() else f"{n:,.1f}"


def reasons(found: Mapping[str, float]) -> str:
    """Return how often each reason was met, without those that never were.

    Examples
    --------
    >>> reasons({"missing": 1200, "negative": 0, "outside [0, 1]": 3})
    '1,200 missing, 3 outside [0, 1]'
    """
    return ", ".join(f"{count(times)} {reason}" for reason, times in found.items() if times)


def significant(value: float | None, digits: int = 4) -> str:
    """Return a number with four significant digits, or a dash.

    Examples
    --------
    >>> significant(0.123456), significant(None), significant(float("inf"))
    ('0.1235', '–', 'inf')
    """
    if value is None:
        return DASH
    if math.isnan(value):
        return "nan"
    return f"{value:.{digits}g}"


def percent(value: float | None, decimals: int = 2) -> str:
    """Return a proportion as a percentage: ``4.75%``.

    Examples
    --------
    >>> percent(0.0475), percent(0.936, 1), percent(None), percent(float("nan"))
    ('4.75%', '93.6%', '–', 'nan')
    """
    if value is None:
        return DASH
    return f"{100 * value:.{decimals}f}%" if math.isfinite(value) else significant(value)


def proportion(value: float) -> str:
    """Return a percentage with as many decimals as its distance from 0 and 1 needs: ``96%``, ``99.9%``, ``1.6%``.

    Examples
    --------
    >>> proportion(0.9213), proportion(0.9991), proportion(0.016), proportion(0.00042)
    ('92.1%', '99.9%', '1.6%', '0.042%')
    """
    edge = min(value, 1.0 - value)
    if edge >= 0.1 or edge <= 0:
        return f"{100 * value:.0f}%"
    decimals = min(4, max(1, 1 - math.floor(math.log10(100 * edge)))) if value < 0.5 else 1
    return f"{100 * value:.{decimals}f}".rstrip("0").rstrip(".") + "%"


def points(value: float) -> str:
    """Return the size of a difference of percentages in points, with two significant digits: ``4.8``; rounding is 0.

    Examples
    --------
    >>> points(0.0475), points(-0.104), points(0.0004), points(5.6e-16)
    ('4.8', '10', '0.04', '0')
    """
    size = 100 * abs(value) if abs(value) > 1e-12 else 0.0
    if size < 0.095:
        return f"{size:.2f}" if size >= 0.005 else f"{size:.2g}"
    return f"{size:.0f}" if size >= 9.95 else f"{size:.1f}"


def pvalue(value: float | None, draws: int | None = None) -> str:
    """Return a p-value as a table shows it; a bound where it is small or none of the `draws` reached the value.

    Examples
    --------
    >>> pvalue(0.0123), pvalue(0.0001), pvalue(0.0014), pvalue(1 / 41, 40), pvalue(1 / 1001, 1000)
    ('0.012', '< 0.001', '< 0.002', '< 0.025 (40 draws)', '< 0.001')
    """
    if value is None:
        return DASH
    if draws is None and not value < 0.002:
        return f"{value:.3f}"
    few = f" ({count(draws)} draws)" if draws is not None and value >= 0.002 else ""
    return f"< {(math.floor(1000 * value) + 1) / 1000:.3f}{few}"


def pvalue_phrase(value: float | None, draws: int | None = None) -> str:
    """Return a p-value as a sentence needs it: ``p = 0.012`` or ``p < 0.001``.

    Examples
    --------
    >>> pvalue_phrase(0.0123), pvalue_phrase(0.0001), pvalue_phrase(None)
    ('p = 0.012', 'p < 0.001', 'p –')
    """
    text = pvalue(value, draws)
    return f"p {text}" if text.startswith(("<", DASH)) else f"p = {text}"


def plus_minus(mean: float | None, std: float | None, *, as_percent: bool) -> str:
    """Return mean and standard deviation: ``0.27% ± 0.07%`` or ``0.0245 ± 0.001``.

    Examples
    --------
    >>> plus_minus(0.0027, 0.0007, as_percent=True), plus_minus(0.02454, 0.00102, as_percent=False)
    ('0.27% ± 0.07%', '0.02454 ± 0.001')
    """
    if mean is None or std is None:
        return DASH
    return f"{percent(mean)} ± {percent(std)}" if as_percent else f"{mean:.4g} ± {std:.1g}"


def span(low: float | None, high: float | None, *, as_percent: bool, signed: bool = False) -> str:
    """Return the two ends of an interval: ``4.21% to 5.18%`` or ``0.1022 to 0.1186``.

    Examples
    --------
    >>> span(0.0421, 0.0518, as_percent=True), span(-0.01, 0.02, as_percent=False, signed=True)
    ('4.21% to 5.18%', '-0.01 to +0.02')
    """
    if low is None or high is None:
        return DASH
    sign = "+" if signed else ""
    if as_percent:
        return f"{100 * low:{sign}.2f}% to {100 * high:{sign}.2f}%"
    return f"{low:{sign}.4g} to {high:{sign}.4g}"


def first_upper(text: str) -> str:
    """Return the text with its first letter raised, the rest as it is."""
    return text[:1].upper() + text[1:]


def table(rows: Iterable[Sequence[str]], *, columns: int | None = None, right_from: int | None = None) -> list[str]:
    """Return rows of text cells as aligned lines, the header being the first row.

    Only the first `columns` are kept (narrow terminals); those from number `right_from` on are aligned to the right.

    Examples
    --------
    >>> table([("metric", "value"), ("ece", "4.75%")])
    ['metric  value', 'ece     4.75%']
    >>> table([("metric", "value"), ("ece", "4.75%"), ("nll", "1")], right_from=1)
    ['metric  value', 'ece     4.75%', 'nll         1']
    """
    cells = [tuple(row)[:columns] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    signs = ["<" if right_from is None or i < right_from else ">" for i in range(len(widths))]
    forms = [f"{sign}{width}" for sign, width in zip(signs, widths, strict=True)]
    return ["  ".join(format(cell, form) for cell, form in zip(row, forms, strict=True)).rstrip() for row in cells]


def markdown_table(rows: Iterable[Sequence[str]]) -> list[str]:
    r"""Return rows of text cells as the lines of a Markdown table, the header being the first row.

    Examples
    --------
    >>> markdown_table([("slice", "n"), ("a|b", "10")])
    ['| slice | n |', '|---|---|', '| a\\|b | 10 |']
    """
    cells = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    head, *body = [f"| {' | '.join(row)} |" for row in cells]
    return [head, "|" + "---|" * len(cells[0]), *body]
