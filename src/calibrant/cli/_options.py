"""Options that several commands share, under the names of the library's own arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click

from calibrant.cli._text import emit, emit_json, terminal_width
from calibrant.io.layout import Layout

__all__ = [
    "bins_option", "emit", "emit_json", "engine_options", "file_options", "join", "json_option", "layout_of",
    "level_option", "metric_options", "regression_options", "rejection_options", "repeated", "shown",
    "terminal_width", "tolerance_option", "weight_kind_option", "words"
]  # fmt: skip

F = TypeVar("F", bound=Callable[..., Any])


def _several(*options: Any) -> Callable[[F], F]:
    def add(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def shown(*given: Any) -> Callable[[F], F]:
    """Return an option that shows its default: names, type, default, help."""
    return click.option(*given[:-3], type=given[-3], default=given[-2], show_default=True, help=given[-1])


def repeated(*given: str) -> Callable[[F], F]:
    """Return an option that may be given often: names, what it takes, help."""
    return click.option(*given[:-2], multiple=True, metavar=given[-2], help=given[-1])


_SHARE = click.FloatRange(0, 1, min_open=True, max_open=True)
#: Where things are in a file.
file_options = _several(
    repeated(
        "--proba", "NAME", "Column, array or pattern of the probabilities, e.g. 'prob_*' or cat,dog,bird (repeat)."
    ),
    click.option("--label", metavar="NAME", help="Column or array of the truth (or labels.npy beside probs.npy)."),
    click.option("--weight", metavar="NAME", help="Column or array of weights (frequencies); none for no weights."),
    click.option(
        "--space", type=click.Choice(["proba", "logit"]), help="What the scores are, if the names do not say."
    ),
    click.option("--positive", metavar="LABEL", help="Of two labels the one that the score speaks of."),
    click.option("--percent", is_flag=True, help="The scores are percentages, 0 to 100."),
    click.option("--confidence", metavar="NAME", help="Column of the confidence in the top label."),
    click.option("--correct", metavar="NAME", help="Column that says whether the top label was right."),
    click.option("--part", metavar="NAME", help="Suffix of the arrays to use: cal, test, …"),
    click.option("--normalize", is_flag=True, help="Rescale rows to sum 1 (decimals rounded in a file)."),
    click.option(
        "--input-format",
        type=click.Choice(["csv", "tsv", "parquet", "arrow", "jsonl", "json", "eval", "npz", "npy"]),
        help="Format when the suffix does not say (standard input: csv).",
    ),
)
#: Which engine works through tables larger than memory.
engine_options = _several(
    click.option(
        "--engine",
        type=click.Choice(["auto", "polars", "duckdb", "spark"]),
        help="Work on files larger than memory; FILE may be a pattern or a directory (auto: Polars).",
    ),
    click.option("--master", metavar="URL", help="Spark master.  [default: local[*]]"),
)
#: What becomes of rows and files that cannot be used.
rejection_options = _several(
    click.option("--strict", is_flag=True, help="Fail when a row is missing a value or out of range (engines)."),
    click.option(
        "--max-rejected", metavar="SHARE", help="Largest share of unusable rows, say 1%, that is no error (engines)."
    ),
    click.option("--skip-bad-files", is_flag=True, help="Count and leave out files that cannot be read (engines)."),
)
#: Names of means and variances.
regression_options = _several(
    click.option("--mean", metavar="NAME", help="Column of predicted means (regression)."),
    click.option("--variance", metavar="NAME", help="Column of predicted variances (regression)."),
    click.option("--std", metavar="NAME", help="Column of predicted standard deviations (regression)."),
)
metric_options = repeated("-m", "--metric", "metrics", "NAME", "Metric to show (repeat; 'all' for every one).")
bins_option = click.option("--bins", "n_bins", type=click.IntRange(1), help="Number of bins.  [default: 15]")
level_option = shown("--level", _SHARE, 0.95, "Level of the intervals.")
_FAR = "How far predicted and observed frequency may differ and still count as calibrated."
tolerance_option = shown("--tolerance", _SHARE, 0.02, _FAR)
weight_kind_option = click.option(
    "--weight-kind",
    type=click.Choice(["frequency", "importance"]),
    help="What weights are: counts of rows, or how much each row matters.  [default: counts if whole]",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


def words(given: Iterable[str]) -> list[str]:
    """Return names of repeated options, each of which may hold several with commas between."""
    return [name.strip() for item in given for name in item.split(",") if name.strip()]


def join(options: dict[str, Any]) -> dict[str, Any]:
    """Put options into the form the library takes: no empty tuples, metrics under one name."""
    if "proba" in options:
        options["proba"] = options["proba"] or None
    if "metrics" in options:
        given = options.pop("metrics")
        options["metrics"] = words(given) or None
        if given and options["metrics"] is None:
            raise click.UsageError("--metric must name a metric. Hint: calibrant explain lists them.")
        if options["metrics"] == ["all"]:
            options["metrics"] = "all"
    if "seed" in options:
        options["rng"] = options.pop("seed")
    return options


def layout_of(options: dict[str, Any], **more: Any) -> Layout:
    """Take the file options out of a command's options."""
    every = ("proba", "label", "weight", "space", "part", "mean", "variance", "std")
    names = (*every, "positive", "percent", "confidence", "correct")
    found = {name: options.pop(name) for name in names if name in options}
    return Layout(**found | {"proba": found.get("proba") or None}, **more)
