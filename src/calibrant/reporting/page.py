"""The dictionary of `summarize` as one self-contained page, as Markdown or as JSON."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from calibrant.core.atomic import write_text
from calibrant.core.notebook import OPTION
from calibrant.core.options import check_path
from calibrant.core.text import count, pvalue
from calibrant.core.text import table as text_table
from calibrant.errors import input_error
from calibrant.inference import wording
from calibrant.reporting.cells import ViewCells
from calibrant.reporting.svg import Markup, Picture, markup
from calibrant.reporting.words import in_sample_page

#: The key of what only the page needs; JSON leaves it out.
PAGE = "page"


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
        script = _asset("report.js")
        return template.render(
            **self._shown(),
            style=_asset("style.css") + _asset("page.css"),
            script=script,
            policy=_policy(script),
            data=self._embedded(),
        )

    @property
    def markdown(self) -> str:
        """The same content as Markdown, without pictures."""
        return _environment().get_template(f"{self.kind}.md.j2").render(**self.summary)

    @property
    def text(self) -> str:
        """The same content for a terminal: verdict first, then the table."""
        summary = self.summary
        heads = wording.heads(wording.HEADERS, float(summary["level"]) / 100)
        keys = ("name", "value", "null", "pvalue", "interval", "meaning")
        table = text_table([heads, *(tuple(row[key] for key in keys) for row in summary["metrics"])])
        comparison, repair = summary.get("comparison"), summary.get("repair")
        lines = [summary["title"], summary["headline"], *table, f"Verdict: {summary['verdict']}"]
        lines += [comparison["verdict"]] if comparison else [summary["next"]] if "next" in summary else []
        lines += [repair["sentence"]] if repair and repair.get("reason") else []
        return "\n".join([*lines, *([summary["size"]["text"]] if "size" in summary else [])])

    def __str__(self) -> str:
        return self.text

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers and sentences as plain values."""
        return dict(_plain(self.summary))

    def save(self, path: str | Path) -> Path:
        """Write the page to a temporary file and rename it, so that no half-written file is ever seen."""
        if Path(path).suffix.lower() in {".pdf", ".json", ".md", ".txt"}:
            raise input_error("output", "report", "end in .html", str(path), "a browser prints the page as PDF")
        write_text(check_path(path, "output", "report"), self.html)
        return Path(path)

    def _repr_html_(self) -> str:
        return _environment().get_template("notebook.html.j2").render(**self._shown(), style=_asset("style.css"))

    def _shown(self) -> dict[str, Any]:
        """Return what the page shows: in-sample, nothing that the numbers would seem to prove."""
        if "in_sample" not in self.summary:
            return self.summary
        comparison = self.summary.get("comparison")
        sentence = str(comparison["verdict"] if comparison else self.summary["verdict"])
        return self.summary | {PAGE: in_sample_page(self.summary[PAGE], sentence)}

    def _embedded(self) -> str:
        """Cells for the script; `<` is escaped so that no content can close the element."""
        payload = {
            "views": [view.to_json() for view in self.summary.get("views", [])],
            "after": [view.to_json() for view in self.summary.get("views_after", [])],
            "bins": self.summary.get("bin_counts", []),
        }
        return json.dumps(payload, separators=(",", ":")).replace("<", "\\u003c")


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
    environment.filters["command"] = _options
    environment.filters["short"] = lambda value: f"{value:.6g}"
    environment.filters["signed"] = lambda value, digits: f"{100 * value:+.{digits}f}".replace("-", "−")
    environment.filters["pct"] = lambda value, digits=1: f"{100 * value:.{digits}f}"
    environment.filters["count"] = count
    environment.filters["pvalue"] = pvalue
    return environment


#: A command inside a sentence.
_COMMAND = re.compile(r"calibrant fit .*?-o \S+\w|calibrant (?:check|monitor)\b|(?<= )--[a-z]+")


def _unbroken(value: object) -> Markup:
    """Keep numbers and their units on one line, and show commands as code."""
    text = re.sub(r"(?<=\d) (?=%|points|\d{3}\b)", "\u00a0", str(value))
    text = re.sub(r"\bp ([<=]) (?=\d)", "p\u00a0\\1\u00a0", text)
    text = markup(re.sub(r" ?± ?", "\u00a0±\u00a0", text))
    text = text.replace("added-up", '<span class="one">added-up</span>')
    return Markup(_COMMAND.sub(lambda found: f"<code>{_options(found.group())}</code>", text))


def _options(command: object) -> Markup:
    """Return a command whose options stay in one piece when a line ends."""
    return Markup(OPTION.sub(r'<span class="one">\g<0></span>', markup(str(command))))


def _markdown(value: object) -> str:
    """Escape what would start HTML, code, emphasis, a link or a picture, or end a table cell or a line."""
    text = str(value).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return " ".join(re.sub(r"([\\`*\[\]|])", r"\\\1", text).splitlines())


def _policy(script: str) -> str:
    """Return the content security policy: nothing is fetched, and our one script alone may run, known by its hash."""
    checksum = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    allowed = f"style-src 'unsafe-inline'; script-src 'sha256-{checksum}'; img-src data:"
    return f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"


def _asset(name: str) -> str:
    return (files("calibrant.reporting") / "assets" / name).read_text(encoding="utf-8")


def _is_picture(value: Any) -> bool:
    """Whether a value is a figure or a list of figures."""
    if isinstance(value, list):
        return bool(value) and all(isinstance(item, Picture) for item in value)
    return isinstance(value, Picture)


def _plain(value: Any) -> Any:
    if isinstance(value, ViewCells):
        return value.to_json()
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items() if key != PAGE and not _is_picture(item)}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
