"""``calibrant compare A B``."""

from __future__ import annotations

from typing import Any

import click

from calibrant.cli._options import emit, emit_json, file_options, layout_of


@click.command(
    "compare",
    epilog="Examples: calibrant compare before.csv after.csv · calibrant compare preds.npz --calibrator cal.json · "
    "calibrant compare old_model.npz new_model.npz --measure brier --json",
)
@click.argument("before", type=click.Path())
@click.argument("after", type=click.Path(), required=False)
@click.option("--calibrator", type=click.Path(), help="Instead of AFTER: a calibrator to apply to BEFORE.")
@click.option("-m", "--measure", "measures", multiple=True, metavar="NAME", help="Measure to compare (repeat).")
@click.option("--bins", "n_bins", type=click.IntRange(1), default=15, show_default=True, help="Number of bins.")
@click.option("--level", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.95, show_default=True,
              help="Level of the intervals.")
@click.option("--groups", metavar="COLUMN", help="Column naming the cluster of each row.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@file_options
def command(before: str, after: str | None, *, calibrator: str | None, as_json: bool, **options: Any) -> None:
    """Compare two forecasts of the same rows, paired: before and after a repair, or model against model.

    With --calibrator the change of a proper score is that of its calibration error if the map is one-to-one.
    """
    from calibrant.engines.repairing import compare_files

    if (after is None) == (calibrator is None):
        raise click.UsageError("name two files, or one file and --calibrator cal.json")
    measures = [name for item in options.pop("measures") for name in item.split(",")]
    layout = layout_of(options)
    comparison = compare_files(before, after, layout, calibrator=calibrator, measures=measures or None, **options)
    if as_json:
        emit_json(comparison.to_dict())
    else:
        emit(str(comparison))
