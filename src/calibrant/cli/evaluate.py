"""``calibrant evaluate FILE``."""

from __future__ import annotations

from typing import Any

import click

from calibrant.cli._options import (
    emit,
    emit_json,
    engine_options,
    file_options,
    layout_of,
    regression_options,
    terminal_width,
)


@click.command(
    "evaluate",
    epilog="Examples: calibrant evaluate preds.npz · calibrant evaluate preds.csv --measure ks --view top-2 · "
    "calibrant evaluate preds.parquet --by day --json · "
    "calibrant evaluate 'logs/*.parquet' --engine polars --by model,day",
)
@click.argument("file", type=click.Path())
@click.option(
    "-m",
    "--measure",
    "measures",
    multiple=True,
    metavar="NAME",
    help="Measure to show (repeat for more; 'all' for every one).",
)
@click.option(
    "--view", metavar="VIEW", help="View of those measures: top-R, within-R, class-K, classwise, pooled, entropy."
)
@click.option("--bins", "n_bins", type=click.IntRange(1), default=15, show_default=True, help="Number of bins.")
@click.option("--by", metavar="COLUMN", help="One result per value of these columns (comma-separated).")
@engine_options
@click.option("--strict", is_flag=True, help="Fail when a row is missing a value or out of range (engines).")
@regression_options
@click.option(
    "--level",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.95,
    show_default=True,
    help="Level of the intervals.",
)
@click.option(
    "--resamples",
    "n_resamples",
    type=click.IntRange(0),
    default=1000,
    show_default=True,
    help="Label resamplings; 0 gives values alone.",
)
@click.option("--groups", metavar="COLUMN", help="Column naming the cluster of each row (intervals resample clusters).")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the resampling.")
@click.option("--json", "as_json", is_flag=True, help="Short for --format json.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "md", "html"]),
    default="text",
    show_default=True,
    help="Form of the answer.",
)
@file_options
def command(file: str, *, as_json: bool, form: str, **options: Any) -> None:
    """Measure calibration of the predictions in FILE and say how sure that is."""
    from calibrant.engines.evaluating import evaluate_file
    from calibrant.engines.paths import evaluate_files, is_many

    measures: list[str] = [name for item in options.pop("measures") for name in item.split(",")]
    view = options.pop("view")
    if view:
        measures = [f"{name}@{view}" for name in measures or ["ece", "ks"]]
    layout = layout_of(options)
    engine = {name: options.pop(name) for name in ("engine", "master", "strict")}
    if engine["engine"] or is_many(file):
        options.pop("input_format")
        engine["engine"] = engine["engine"] or "auto"
        outcome = evaluate_files(file, layout, measures=measures or None, **engine, **options)
    else:
        outcome = evaluate_file(file, layout, measures=measures or None, **options)
    if as_json or form == "json":
        emit_json(outcome.to_dict())
    elif form == "text":
        emit(outcome.to_text(width=terminal_width()))
    else:
        emit(outcome.to_markdown() if form == "md" else outcome.to_html())
