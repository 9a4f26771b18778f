"""Rows as text: plain columns for the terminal, Markdown for the docs."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from calibrant.core.results import format_value

if TYPE_CHECKING:
    from calibrant.studies.frame import StudyResult

__all__ = ["markdown_table", "stamp", "study_page", "text_table"]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return format_value(value) if isinstance(value, float) else str(value)


def _cells(rows: Sequence[dict[str, Any]]) -> list[list[str]]:
    head = list(dict.fromkeys(key for row in rows for key in row))
    return [head, *([_cell(row.get(key)) for key in head] for row in rows)]


def text_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return rows as aligned columns."""
    if not rows:
        return "no rows"
    table = _cells(rows)
    widths = [max(len(line[i]) for line in table) for i in range(len(table[0]))]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in table)


def markdown_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return rows as a Markdown table."""
    if not rows:
        return ""
    head, *body = ([cell.replace("|", "\\|") for cell in line] for line in _cells(rows))
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def stamp(command: str, *packages: str) -> str:
    """Return who wrote a page, when, and with which versions (of further packages, too)."""

    def of(package: str) -> str:
        try:
            return f"{package} {version(package)}"
        except PackageNotFoundError:
            return ""

    names = ("calibrant", "numpy", "scipy", "scikit-learn", *packages)
    versions = ", ".join(filter(None, (of(name) for name in names)))
    today = datetime.now(UTC).date()
    return f"Written by `{command}` on {today}: {versions}, Python {platform.python_version()}."


def study_page(result: StudyResult, command: str) -> str:
    """Return a study as a Markdown page with finding, stamp and table."""
    title = result.name.replace("-", " ")
    return "\n\n".join(
        [f"# {title[0].upper()}{title[1:]}", stamp(command), result.finding, markdown_table(result.rows), ""]
    )
