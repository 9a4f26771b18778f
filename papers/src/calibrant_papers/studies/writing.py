"""Rows as text: plain columns for the terminal, Markdown for the docs."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import calibrant
from calibrant.core.text import significant, table

if TYPE_CHECKING:
    from calibrant_papers.studies.frame import StudyResult

__all__ = ["made", "markdown", "markdown_table", "stamp", "study_page", "text_table"]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return significant(value) if isinstance(value, float) else str(value)


def _cells(rows: Sequence[dict[str, Any]]) -> list[list[str]]:
    head = list(dict.fromkeys(key for row in rows for key in row))
    return [head, *([_cell(row.get(key)) for key in head] for row in rows)]


def text_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return rows as aligned columns."""
    if not rows:
        return "no rows"
    return "\n".join(table(_cells(rows)))


def markdown_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return rows as a Markdown table."""
    return "\n".join(markdown(_cells(rows))) if rows else ""


def markdown(cells: Iterable[Sequence[str]], *, right_from: int | None = None) -> list[str]:
    """Return rows of text cells as the lines of a Markdown table, the header being the first row.

    Columns from number `right_from` on are aligned to the right.

    Examples
    --------
    >>> markdown([("metric", "value"), ("ece", "4.75%")], right_from=1)
    ['| metric | value |', '| --- | ---: |', '| ece | 4.75% |']
    """
    head, *body = ([cell.replace("|", "\\|") for cell in row] for row in cells)
    rule = ["---" if right_from is None or i < right_from else "---:" for i in range(len(head))]
    return ["| " + " | ".join(line) + " |" for line in (head, rule, *body)]


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


@lru_cache(maxsize=1)
def made() -> dict[str, str]:
    """Return date, version and a digest of the code of calibrant: what a number that is kept was made with."""
    digest = sha256()
    for path in sorted(Path(calibrant.__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    code = digest.hexdigest()[:7]
    return {"date": str(datetime.now(UTC).date()), "version": calibrant.__version__, "code": code}


def study_page(result: StudyResult, command: str) -> str:
    """Return a study as a Markdown page with finding, stamp and table."""
    title = result.name.replace("-", " ")
    head = [f"# {title[0].upper()}{title[1:]}", stamp(command), result.finding]
    if not result.tables:
        return "\n\n".join([*head, markdown_table(result.rows), ""])
    return "\n\n".join([*head, *(f"{name}:\n\n{markdown_table(rows)}" for name, rows in result.tables.items()), ""])
