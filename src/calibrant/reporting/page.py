"""The dictionary of `summarize` as one self-contained page, as Markdown or as JSON."""

from __future__ import annotations

import json
import math
import os
import re
import tempfile
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from calibrant.reporting.cells import ViewCells

#: Entries of a summary that hold SVG: pages show them, `to_dict` leaves them out.
PICTURES = ("reliability", "ks", "chart", "spark", "bullet", "pit", "variance")


@dataclass(frozen=True)
class Report:
    """A finished report: `html`, `markdown`, `to_dict()`, `save(path)`; shows itself in a notebook."""

    summary: dict[str, Any]
    #: Which templates are used: "report" or "regression".
    kind: str = "report"

    @property
    def html(self) -> str:
        """The whole page in one string; it fetches nothing."""
        template = _environment().get_template(f"{self.kind}.html.j2")
        return template.render(
            **self.summary, style=_asset("style.css"), script=_asset("report.js"), data=self._embedded()
        )

    @property
    def markdown(self) -> str:
        """The same content as Markdown, without pictures."""
        return _environment().get_template(f"{self.kind}.md.j2").render(**self.summary)

    @property
    def text(self) -> str:
        """The same content for a terminal: verdict first, then the table."""
        summary = self.summary
        heads = ("measure", "value", "if calibrated", "p-value", f"{summary['level']} % interval", "estimates")
        keys = ("name", "value", "null", "pvalue", "interval", "meaning")
        rows = [heads, *(tuple(row[key] for key in keys) for row in summary["measures"])]
        sizes = [max(len(row[i]) for row in rows) for i in range(len(heads))]
        table = ["  ".join(cell.ljust(size) for cell, size in zip(row, sizes, strict=True)).rstrip() for row in rows]
        comparison, repair = summary.get("comparison"), summary.get("repair")
        told = [summary["headline"], *table, f"Verdict: {summary['verdict']}"]
        told += [comparison["verdict"]] if comparison else [summary["next"]] if "next" in summary else []
        told += [repair["sentence"]] if repair and repair.get("reason") else []
        return "\n".join([summary["title"], *told, *([summary["size"]["text"]] if "size" in summary else [])])

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers and sentences as plain values."""
        return {key: _plain(value) for key, value in self.summary.items() if key not in PICTURES}

    def save(self, path: str | Path) -> Path:
        """Write the page aside and rename it, so that no half-written file is ever seen."""
        return write_text(Path(path), self.html)

    def _repr_html_(self) -> str:
        return _environment().get_template("notebook.html.j2").render(**self.summary, style=_asset("style.css"))

    def _embedded(self) -> str:
        """Cells for the script; `<` is escaped so that no content can close the element."""
        payload = {
            "views": [view.to_json() for view in self.summary.get("views", [])],
            "after": [view.to_json() for view in self.summary.get("views_after", [])],
            "bins": self.summary.get("bin_counts", []),
        }
        return json.dumps(payload, separators=(",", ":")).replace("<", "\\u003c")


def write_text(path: Path, content: str) -> Path:
    """Write text aside and rename it into place."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, aside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(content)
        Path(aside).chmod(0o644)
        os.replace(aside, path)  # noqa: PTH105 -- the atomic rename on every system
    except BaseException:
        Path(aside).unlink(missing_ok=True)
        raise
    return path


@cache
def _environment() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    # class names and titles come from users: pages escape everything, Markdown through its own filter
    environment = Environment(
        loader=PackageLoader("calibrant.reporting"),
        autoescape=lambda name: name is None or name.endswith(".html.j2"),  # noqa: S701 -- Markdown has `md`
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["md"] = _markdown
    environment.filters["nice"] = _unbroken
    environment.filters["short"] = lambda value: f"{value:.6g}"
    environment.filters["signed"] = lambda value, digits: f"{100 * value:+.{digits}f}".replace("-", "−")
    environment.filters["pct"] = lambda value, digits=1: f"{100 * value:.{digits}f}"
    environment.filters["count"] = lambda value: f"{value:,}".replace(",", " ")
    return environment


def _unbroken(value: object) -> str:
    """Keep numbers and their units on one line."""
    text = re.sub(r"(?<=\d) (?=%|points|\d{3}\b)", "\u00a0", str(value))
    return re.sub(r" ?± ?", "\u00a0±\u00a0", text)


def _markdown(value: object) -> str:
    """Escape what would start HTML or end a table cell."""
    text = str(value).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return text.replace("|", "\\|").replace("\n", " ")


def _asset(name: str) -> str:
    return (files("calibrant.reporting") / "assets" / name).read_text(encoding="utf-8")


def _plain(value: Any) -> Any:
    if isinstance(value, ViewCells):
        return value.to_json()
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items() if key not in PICTURES}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
