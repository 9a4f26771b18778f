"""How a result shows itself in a notebook: verdict first, then the numbers, in the report's look."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import TypeAlias

__all__ = ["OPTION", "notebook_html", "text_html"]

#: The texts of one row of a table.
Row: TypeAlias = Sequence[str]
#: An option of a command, which must not be broken after its hyphens when a line ends.
OPTION = re.compile(r"(?<!\S)--?[a-z][\w-]*")
#: Inline, because a notebook keeps no stylesheet; sizes and lines are the report's, colors are inherited, so that dark
#: themes work.
_FONT = 'font-family:-apple-system,BlinkMacSystemFont,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif'
_BOX = f"{_FONT};font-variant-numeric:tabular-nums lining-nums;max-width:1080px;padding:12px 0"
_DATA = "opacity:.75;margin:0 0 8px;font-size:14px"
_TITLE = "font-size:26px;line-height:1.15;font-weight:700;letter-spacing:-.01em;margin:0 0 6px"
_VERDICT = "font-size:16px;line-height:1.45;margin:0 0 8px;max-width:76ch"
_TODO = "border-left:4px solid currentColor;padding:4px 12px;margin:0 0 16px;font-size:14px;max-width:76ch"
_TABLE = "border-collapse:collapse;margin:0;font-size:15px"
_HEAD = (
    "text-align:left;padding:8px 16px 8px 0;border-bottom:1px solid #7a8494;font-size:14px;font-weight:600;opacity:.75"
)
_CELL = "text-align:left;padding:8px 16px 8px 0;border-bottom:1px solid #7a849455"
_NOTE = "margin:8px 0 0;font-size:14px;max-width:76ch"
_TEXT = "font:14px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;white-space:pre-wrap;margin:0"


def notebook_html(head: str, verdict: str, heads: Row, rows: Iterable[Row], title: str = "", notes: Row = ()) -> str:
    """Return first line, verdict, table and the lines under it as HTML; everything is escaped.

    A verdict with fields of its own shows its few words large, its sentence, and what to do; else `title` is large.

    Examples
    --------
    >>> "&lt;b&gt;" in notebook_html("3 rows", "<b>", ["a"], [["1"]])
    True
    """

    def line(cells: Row, tag: str, style: str) -> str:
        scope = ' scope="col"' if tag == "th" else ""
        return "<tr>" + "".join(f'<{tag}{scope} style="{style}">{escape(cell)}</{tag}>' for cell in cells) + "</tr>"

    def part(style: str, text: str) -> str:
        whole = OPTION.sub(r'<span style="white-space:nowrap">\g<0></span>', escape(text))
        return f'<p style="{_quoted(style)}">{whole}</p>' if text else ""

    body = "".join(line(row, "td", _CELL) for row in rows)
    words, advice = getattr(verdict, "headline", title), getattr(verdict, "advice", "")
    todo = f"What to do: {advice}." if advice else ""
    table = f'<table style="{_TABLE}"><thead>{line(heads, "th", _HEAD)}</thead><tbody>{body}</tbody></table>'
    return (
        f'<div style="{_quoted(_BOX)}">{part(_DATA, head)}{part(_TITLE, words)}{part(_VERDICT, str(verdict))}'
        f"{part(_TODO, todo)}{table if heads else ''}{''.join(part(_NOTE, note) for note in notes)}</div>"
    )


def text_html(text: str) -> str:
    """Return the text of a result as HTML in the report's look; it is escaped.

    Examples
    --------
    >>> "p &lt; 0.001" in text_html("ks test: p < 0.001")
    True
    """
    return f'<div style="{_quoted(_BOX)}"><pre style="{_TEXT}">{escape(text)}</pre></div>'


def _quoted(style: str) -> str:
    return escape(style, quote=True)
