"""How a case asks: calls and commands as JSON, with what they warn of and how they refuse."""

from __future__ import annotations

import json
import os
import re
import warnings
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from acceptance.runner import run
from calibrant.errors import CalibrantError

#: Resamples of every case that draws.
B = 200


def asked(call: Callable[[], Any]) -> Any:
    """Return what a call gives, as JSON; a refusal is its one line, and warnings stand beside the answer."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            found = call()
        except CalibrantError as error:
            found = {"error": f"{type(error).__name__}: {error}"}
    found = found.to_dict() if hasattr(found, "to_dict") and not hasattr(found, "iloc") else found
    ours = [f"{one.category.__name__}: {one.message}" for one in said if not _foreign(one)]
    return {"answer": found, "warnings": list(dict.fromkeys(ours))} if ours else found


def _foreign(warning: warnings.WarningMessage) -> bool:
    """Whether a warning is of another library, or that a file was left open."""
    return issubclass(warning.category, ResourceWarning | DeprecationWarning) and "calibrant" not in str(
        warning.message
    )


def commanded(folder: Path, *argv: Any) -> dict[str, Any]:
    """Run ``calibrant argv`` in the folder; return exit code and both streams, line by line or as the JSON document."""
    os.environ["COLUMNS"] = "80"  # help is wrapped to the terminal
    code, out, err = run(tuple(map(str, argv)), folder)
    return {"exit": code, "out": _document(out), "err": err.splitlines()}


def _document(out: str) -> Any:
    if out.startswith("{"):
        try:
            return json.loads(out)
        except ValueError:
            pass
    return out.splitlines()


class _Seen(HTMLParser):
    """The words of a page, block by block, and for every picture its elements and the sum of its coordinates."""

    HIDDEN = ("script", "style", "head")
    INLINE = ("b", "i", "em", "strong", "span", "a", "code", "sub", "sup", "small", "tspan", "abbr", "var")
    PLACES = frozenset(
        ["d", "points", "x", "y", "cx", "cy", "r", "x1", "x2", "y1", "y2", "width", "height", "transform"]
    )

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = [""]
        self.pictures: list[dict[str, Any]] = []
        self.hidden = 0
        self.open = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.hidden += tag in self.HIDDEN
        if tag not in self.INLINE:
            self.lines.append("")
        if tag == "svg":
            self.open += 1
            self.pictures.append({"(words)": []})
        if self.open:
            found = self.pictures[-1].setdefault(tag, [0, 0.0])
            found[0] += 1
            for name, value in attrs:
                if name in self.PLACES:
                    found[1] += sum(map(float, re.findall(r"-?\d+(?:\.\d+)?", value or "")))

    def handle_endtag(self, tag: str) -> None:
        self.hidden -= tag in self.HIDDEN
        self.open -= tag == "svg"
        if tag not in self.INLINE:
            self.lines.append("")

    def handle_data(self, data: str) -> None:
        if self.open and data.strip():
            self.pictures[-1]["(words)"].append(data.strip())
        elif not self.hidden:
            self.lines[-1] += data


def seen(html: str) -> dict[str, Any]:
    """Return what a reader sees of a page: its lines of text, and a digest of every picture."""
    parser = _Seen()
    parser.feed(html)
    lines = [" ".join(line.split()) for line in parser.lines]
    for picture in parser.pictures:
        picture["(words)"] = " · ".join(picture["(words)"])  # one string: ticks come and go with the draws
    return {"text": [line for line in lines if line], "pictures": parser.pictures}
