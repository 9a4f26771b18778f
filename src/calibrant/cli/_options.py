"""Options that several commands share, and how their answers are written."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from calibrant.engines.files import Layout

F = TypeVar("F", bound=Callable[..., Any])

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


def file_options(command: F) -> F:
    """Add the options that say where things are in a file."""
    for option in reversed(
        [
            click.option(
                "--proba", metavar="NAME", help="Column pattern or array of the probabilities, e.g. 'prob_*'."
            ),
            click.option(
                "--label", metavar="NAME", help="Column or array of the truth (or labels.npy beside probs.npy)."
            ),
            click.option("--weight", metavar="NAME", help="Column or array of weights (frequencies)."),
            click.option(
                "--space", type=click.Choice(["proba", "logit"]), help="What the scores are, if the names do not say."
            ),
            click.option("--part", metavar="NAME", help="Suffix of the arrays to use: cal, test, …"),
            click.option("--normalize", is_flag=True, help="Rescale rows to sum 1 (decimals rounded in a file)."),
            click.option(
                "--input-format",
                type=click.Choice(["csv", "tsv", "parquet", "arrow", "jsonl", "npz", "npy"]),
                help="Format when the suffix does not say (standard input: csv).",
            ),
        ]
    ):
        command = option(command)
    return command


def engine_options(command: F) -> F:
    """Add the options that say which engine works through tables larger than memory."""
    for option in reversed(
        [
            click.option(
                "--engine",
                type=click.Choice(["auto", "polars", "duckdb", "spark"]),
                help="Work on files larger than memory; FILE may be a pattern or a directory (auto: Polars).",
            ),
            click.option("--master", default="local[*]", show_default=True, metavar="URL", help="Spark master."),
        ]
    ):
        command = option(command)
    return command


def regression_options(command: F) -> F:
    """Add the options that name means and variances."""
    variance = click.option("--variance", metavar="NAME", help="Column of predicted variances (regression).")
    return click.option("--mean", metavar="NAME", help="Column of predicted means (regression).")(variance(command))


def layout_of(options: dict[str, Any], **more: Any) -> Layout:
    """Take the file options out of a command's options."""
    names = ("proba", "label", "weight", "space", "part", "mean", "variance")
    return Layout(**{name: options.pop(name) for name in names if name in options}, **more)


def jsonable(value: Any) -> Any:
    """Replace infinite and undefined numbers by strings, so that the output is valid JSON always."""
    if isinstance(value, dict):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value


def emit_json(document: dict[str, Any]) -> None:
    """Write one JSON document to standard output."""
    click.echo(json.dumps(jsonable(document), ensure_ascii=True))


def emit(text: str, *, err: bool = False) -> None:
    """Write text, in plain ASCII when the terminal cannot show more."""
    stream = sys.stderr if err else sys.stdout
    try:
        text.encode(stream.encoding or "utf-8")
    except UnicodeEncodeError:
        text = text.translate(_ASCII).encode("ascii", "replace").decode("ascii")
    click.echo(text, err=err)


def terminal_width() -> int | None:
    """Return the width of the terminal, None when the output goes elsewhere."""
    if not sys.stdout.isatty():
        return None
    import shutil

    return max(80, shutil.get_terminal_size().columns)
