"""``calibrant compare A B``."""

from __future__ import annotations

from typing import Any

import click

from calibrant.cli._options import (
    bins_option,
    emit,
    emit_json,
    engine_options,
    file_options,
    join,
    json_option,
    level_option,
    metric_options,
    regression_options,
    rejection_options,
    weight_kind_option,
)
from calibrant.cli._progress import progress
from calibrant.cli._text import colored


@click.command(
    "compare",
    epilog="Examples: calibrant compare before.csv after.csv · calibrant compare preds.npz --calibrator cal.json · "
    "calibrant compare old_model.npz new_model.npz --metric brier --json · "
    "calibrant compare 'logs/*.parquet' --calibrator cal.json --engine duckdb · "
    "calibrant compare 'old/*.parquet' 'new/*.parquet' --key id --engine duckdb",
)
@click.argument("before", type=click.Path())
@click.argument("after", type=click.Path(), required=False)
@click.option("--calibrator", type=click.Path(), help="Instead of AFTER: a calibrator to apply to BEFORE.")
@metric_options
@bins_option
@level_option
@click.option(
    "--key", metavar="COLUMN", help="Columns that name a row in both files (comma-separated): they are joined."
)
@engine_options
@rejection_options
@click.option("--groups", metavar="COLUMN", help="Column naming the cluster of each row.")
@weight_kind_option
@json_option
@file_options
@regression_options
def command(before: str, after: str | None, *, calibrator: str | None, as_json: bool, **options: Any) -> None:
    """Compare two forecasts of the same rows, paired: before and after a recalibration, or model against model.

    With --calibrator the change of a proper score is that of its calibration error if the map is one-to-one.
    """
    from calibrant.workflows.compare import compare

    if (after is None) == (calibrator is None):
        raise click.UsageError("name two files, or one file and --calibrator cal.json")
    with progress("comparing", after=2.0):
        comparison = compare(before, after, calibrator=calibrator, **join(options))
    if as_json:
        emit_json(comparison.to_dict())
    else:
        emit(colored(str(comparison)))
