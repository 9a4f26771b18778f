"""``calibrant summarize FILE``."""

from __future__ import annotations

from typing import Any

import click

from calibrant.cli._options import emit, emit_json, engine_options, file_options, join, json_option, rejection_options


@click.command(
    "summarize",
    epilog="Examples: calibrant summarize 'logs/2026-11-15/*.parquet' -o 2026-11-15.calsum --by model · "
    "calibrant evaluate 2026-11-15.calsum",
)
@click.argument("file", type=click.Path())
@click.option("-o", "--output", required=True, type=click.Path(), help="Where to write, ending in .calsum.")
@click.option("--by", metavar="COLUMN", help="Columns that make slices (comma-separated).")
@click.option(
    "--bins", "n_bins", type=click.IntRange(1), multiple=True, help="Further number of bins to keep (repeat)."
)
@engine_options
@rejection_options
@json_option
@file_options
def command(file: str, *, output: str, as_json: bool, **options: Any) -> None:
    """Write the predictions in FILE as cells and sums: a small file that every command takes in its place.

    Several summary files (a pattern of them) become one.
    """
    from calibrant.workflows.summarize import summarize

    done = summarize(file, output, **join(options))
    if as_json:
        emit_json(done.to_dict())
    else:
        emit(str(done))
        emit(f"Next: calibrant evaluate {output}", err=True)
