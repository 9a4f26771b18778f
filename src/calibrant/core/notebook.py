"""How a result shows itself in a notebook: verdict first, then the numbers, in the report's look."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

#: Inline, because a notebook keeps no stylesheet; colours are inherited, so dark themes work.
_BOX = "font-variant-numeric:tabular-nums;max-width:1080px"
_DATA = "opacity:.75;margin:0 0 4px"
_VERDICT = "font-size:1.2em;line-height:1.35;margin:0 0 12px;max-width:70ch"
_TABLE = "border-collapse:collapse;margin:0"
_HEAD = "text-align:left;padding:4px 16px 4px 0;border-bottom:1px solid #9ca3af;font-size:.9em;opacity:.75"
_CELL = "text-align:left;padding:4px 16px 4px 0;border-bottom:1px solid #9ca3af55"


def notebook_html(headline: str, verdict: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return headline, verdict and table as HTML; everything is escaped.

    Examples
    --------
    >>> "&lt;b&gt;" in notebook_html("3 rows", "<b>", ["a"], [["1"]])
    True
    """

    def line(cells: Sequence[str], tag: str, style: str) -> str:
        return "<tr>" + "".join(f'<{tag} style="{style}">{escape(cell)}</{tag}>' for cell in cells) + "</tr>"

    body = "".join(line(row, "td", _CELL) for row in rows)
    return (
        f'<div style="{_BOX}"><p style="{_DATA}">{escape(headline)}</p><p style="{_VERDICT}">{escape(verdict)}</p>'
        f'<table style="{_TABLE}"><thead>{line(heads, "th", _HEAD)}</thead><tbody>{body}</tbody></table></div>'
    )
