"""How answers are written: data to standard output, the rest to standard error, ASCII where nothing else is shown."""

from __future__ import annotations

import os
import re
import shutil
import sys
from typing import Any

import click

from calibrant.core.jsonable import dumps

__all__ = ["colored", "emit", "emit_json", "silence", "terminal_width"]

_ASCII = str.maketrans(
    {
        "→": ">",
        "·": "|",
        "±": "+",
        "–": "-",
        "−": "-",
        "₁": "1",
        "₂": "2",
        "²": "2",
        "√": "sqrt ",
        "≥": ">=",
        "≤": "<=",
        "…": "...",
        "■": "#",
        "█": "#",
        "Σ": "sum",
        "’": "'",
    }
)


#: What would move the cursor, ring, or turn the direction of writing; our own colors pass.
_UNSEEN = re.compile(r"\x1b(?!\[[\d;]*m)|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def emit_json(document: dict[str, Any]) -> None:
    """Write one JSON document to standard output."""
    click.echo(dumps(document))


def emit(text: str, *, err: bool = False) -> None:
    """Write text, in plain ASCII when the terminal cannot show more; names cannot steer the terminal."""
    text = _UNSEEN.sub(lambda found: repr(found[0])[1:-1], text)
    stream = sys.stderr if err else sys.stdout
    try:
        text.encode(stream.encoding or "utf-8")
    except UnicodeEncodeError:
        text = text.translate(_ASCII).encode("ascii", "replace").decode("ascii")
    try:
        click.echo(text, err=err)
    except OSError:
        if not err:
            raise
        silence(sys.stderr)


def silence(stream: Any) -> None:
    """Let a stream that nobody can read (a closed pipe, a full disk) take what still comes, so that work goes on."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def terminal_width() -> int | None:
    """Return the width of the terminal, None when the output goes elsewhere."""
    return max(80, shutil.get_terminal_size().columns) if sys.stdout.isatty() else None


#: Beginnings of verdicts by color: what is wrong, what is right, what is open.
_COLORS = {
    "red": ("Not calibrated", "Worse", "Small gap", "FAILED", "Alarm"),
    "green": ("Calibrated", "Better", "No gap found", "ok "),
    "yellow": ("In-sample", "Cannot tell", "No difference", "Right on average", "Undecided", "undecided"),
}


def colored(text: str) -> str:
    """Return text with its verdict in color on a terminal; as it is in a pipe, or where NO_COLOR is set."""
    if not sys.stdout.isatty() or "NO_COLOR" in os.environ:
        return text
    return "\n".join(map(_colored_line, text.split("\n")))


def _colored_line(line: str) -> str:
    head, mark, rest = line.partition("Verdict: ")
    body = rest if mark else line
    for color, starts in _COLORS.items():
        if body.startswith(starts) and (mark or body.startswith(("FAILED", "ok ", "undecided"))):
            if not mark:
                word, _, others = body.partition(" ")
                return f"{click.style(word, fg=color, bold=True)} {others}"
            end = min(at for at in (body.find(". "), body.find(": "), len(body) - 1) if at >= 0) + 1
            return head + mark + click.style(body[:end], fg=color, bold=True) + body[end:]
    return line
