"""``calibrant report FILE``."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import click

from calibrant.cli._options import (
    emit,
    emit_json,
    engine_options,
    file_options,
    join,
    level_option,
    regression_options,
    rejection_options,
    shown,
    tolerance_option,
    weight_kind_option,
)
from calibrant.cli._progress import progress


@click.command(
    "report",
    epilog="Examples: calibrant report preds.npz -o report.html · "
    "calibrant report preds.csv --calibrator cal.json --by day -o report.html · "
    "calibrant report 'logs/*.parquet' -o report.html",
)
@click.argument("file", type=click.Path())
@shown("-o", "--output", click.Path(dir_okay=False), "report.html", "Where to write the page.")
@click.option("--calibrator", type=click.Path(dir_okay=False), help="Calibrator (JSON) for before/after.")
@click.option("--by", metavar="COLUMN", help="Columns that make slices (comma-separated).")
@click.option("--groups", metavar="COLUMN", help="Column naming the cluster of each row (they vary as a whole).")
@weight_kind_option
@click.option("--title", default=None, help="Title of the page.")
@click.option("--no-compare", is_flag=True, help="Do not compare methods of recalibration by cross-validation.")
@click.option("--no-league", is_flag=True, hidden=True, help="The old name of --no-compare.")
@shown("--resamples", "n_resamples", click.IntRange(0), 1000, "Label resamplings.")
@level_option
@tolerance_option
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the resampling.")
@regression_options
@engine_options
@rejection_options
@click.option("--json", "as_json", is_flag=True, help="Short for --format json.")
@shown(
    "--format", "form", click.Choice(["html", "md", "json", "text"]), "html",
    "html writes a page; the others go to standard output.",
)  # fmt: skip
@file_options
def command(
    file: str, *, output: str, as_json: bool, form: str, no_compare: bool, no_league: bool, **options: Any
) -> None:
    """Write one self-contained page about the predictions in FILE."""
    from calibrant.workflows.report import report

    line = "calibrant " + " ".join(shlex.quote(Path(word).name if word == file else word) for word in sys.argv[1:])
    with progress("writing the report", after=2.0):
        page = report(file, compare_methods=not (no_compare or no_league), command=line, **join(options))
    for note in page.summary.get("notes", ()):
        emit(f"Note: {note}.", err=True)
    form = "json" if as_json else form
    if form == "html":
        path = page.save(output)
        emit(f"{page.summary['verdict']}\nwrote {path} ({path.stat().st_size / 1000:.0f} kB)", err=True)
    elif form == "text":
        emit(page.text)
    elif form == "json":
        emit_json({"schema": 1, **page.to_dict()})
    else:
        emit(page.markdown)
