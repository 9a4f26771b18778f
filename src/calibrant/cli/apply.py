"""``calibrant apply CALIBRATOR FILE``."""

from __future__ import annotations

from typing import Any

import click

from calibrant.cli._options import emit, emit_json, engine_options, file_options, layout_of, regression_options


@click.command(
    "apply",
    epilog="Examples: calibrant apply cal.json preds.csv -o repaired.csv · "
    "calibrant apply cal.json preds.npz --part test -o repaired.npz · "
    "calibrant apply cal.json 'logs/*.parquet' -o repaired.parquet",
)
@click.argument("calibrator", type=click.Path())
@click.argument("file", type=click.Path())
@click.option("-o", "--output", required=True, type=click.Path(), help="Where to write; the suffix says the format.")
@engine_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@file_options
@regression_options
def command(calibrator: str, file: str, *, output: str, as_json: bool, **options: Any) -> None:
    """Replace the probabilities in FILE by those of CALIBRATOR; everything else passes through.

    Tables stream in bounded memory. The output appears whole or not at all.
    """
    from calibrant.engines.paths import is_many
    from calibrant.engines.repairing import apply_file

    layout = layout_of(options)
    note = apply_file(calibrator, file, output, layout, **options)
    if note:
        emit(f"Note: {note}.", err=True)
    if as_json:
        emit_json({"schema": 1, "calibrator": calibrator, "input": file, "output": output, "note": note})
    elif output != "-":
        step = f"evaluate {output}" if is_many(file) else f"compare {file} {output}"
        emit(f"Written to {output}. Next: calibrant {step}", err=True)
