"""``calibrant evaluate FILE``."""

from __future__ import annotations

import os
from typing import Any

import click

from calibrant.cli._options import (
    bins_option,
    emit,
    emit_json,
    engine_options,
    file_options,
    join,
    level_option,
    metric_options,
    regression_options,
    rejection_options,
    shown,
    terminal_width,
    tolerance_option,
    weight_kind_option,
)
from calibrant.cli._progress import progress
from calibrant.cli._text import colored


@click.command(
    "evaluate",
    epilog="Examples: calibrant evaluate preds.npz · calibrant evaluate preds.csv --metric ks --view rank-2 · "
    "calibrant evaluate preds.parquet --by day --json · "
    "calibrant evaluate 'logs/*.parquet' --engine polars --by model,day",
)
@click.argument("file", type=click.Path())
@metric_options
@click.option(
    "--view", metavar="VIEW", help="View of those metrics: rank-R, within-R, class-K, classwise, pooled, entropy."
)
@bins_option
@click.option(
    "--by", metavar="COLUMN", help="One result per value of these columns (comma-separated); _file: per file."
)
@engine_options
@rejection_options
@regression_options
@level_option
@shown("--resamples", "n_resamples", click.IntRange(0), 1000, "Label resamplings; 0 gives values alone.")
@click.option("--groups", metavar="COLUMN", help="Column naming the cluster of each row (they vary as a whole).")
@weight_kind_option
@click.option("--risk", is_flag=True, help="Two classes: calibration slope, intercept and observed/expected as well.")
@tolerance_option
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the resampling.")
@click.option("--json", "as_json", is_flag=True, help="Short for --format json.")
@shown("--format", "form", click.Choice(["text", "json", "md", "html"]), "text", "Form of the answer.")
@file_options
def command(file: str, *, as_json: bool, form: str, **options: Any) -> None:
    """Measure calibration of the predictions in FILE and say how sure that is."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # rows are the parallel work; idle threads of BLAS spin
    from calibrant.workflows.evaluate import evaluate

    with progress("evaluating", after=2.0):
        outcome = evaluate(file, **join(options))
    if as_json or form == "json":
        emit_json(outcome.to_dict())
    elif form == "text":
        emit(colored(outcome.to_text(width=terminal_width())))
    else:
        emit(outcome.to_markdown() if form == "md" else outcome.to_html())
