"""``calibrant monitor STORE FILE``."""

from __future__ import annotations

from typing import Any

import click

from calibrant.cli._options import emit, emit_json, engine_options, file_options, join, json_option, rejection_options
from calibrant.cli._progress import progress


@click.command(
    "monitor",
    epilog="Examples: calibrant monitor store/ 'logs/2026-11-15/*.parquet' --name 2026-11-15 --tolerance 0.02 · "
    "calibrant monitor store/ --json",
)
@click.argument("store", type=click.Path())
@click.argument("file", type=click.Path(), required=False)
@click.option("--name", metavar="DAY", help="Name of the day; default: the file's name.")
@click.option(
    "--window", type=click.IntRange(1), default=7, show_default=True, help="Days compared with as many before."
)
@click.option("--alpha", type=float, help="False-alarm rate over the life of the store (first day only; default 0.01).")
@click.option("--tolerance", type=float, help="Error still allowed, 0.02 = two points (first day only; default 0).")
@click.option(
    "--unit",
    type=click.Choice(["row", "day", "cluster"]),
    help="What a bet is made on: independent rows, or days or clusters of rows that are not (first day only).",
)
@click.option(
    "--run-length",
    metavar="DAYS",
    type=float,
    help="Days without a false alarm, on average at least: an e-detector in place of --alpha (first day only).",
)
@click.option("--groups", metavar="COLUMN", help="Column that names the cluster of each row: bets on whole clusters.")
@click.option("--restart", is_flag=True, help="Start anew with this day, after a recalibration.")
@click.option("--date", metavar="DATE", help="When the predictions were made; default: the date in the day's name.")
@click.option("--replace", is_flag=True, help="Take the place of the day of this name.")
@click.option("--by", metavar="COLUMN", help="Columns that name a model: one store watches all (comma-separated).")
@click.option("--days", metavar="COLUMN", help="Column that names the day, with --by: a backfill adds all of them.")
@engine_options
@rejection_options
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the window's p-value.")
@click.option("--report", "page", type=click.Path(dir_okay=False), help="Write the history as a page.")
@click.option("--openmetrics", type=click.Path(dir_okay=False), help="Write the state as OpenMetrics text.")
@json_option
@file_options
def command(
    store: str, file: str | None, *, as_json: bool, page: str | None, openmetrics: str | None, **options: Any
) -> None:
    """Add the predictions in FILE to STORE as one day; exit 3 when calibration has broken or rows are amiss."""
    from calibrant.errors import input_error
    from calibrant.monitoring.family import family_columns
    from calibrant.workflows.monitor import monitor

    if page is not None and (options["by"] or family_columns(store)):
        raise input_error("report", "monitor", "be left out for many models", page, "use {json} or {openmetrics}")
    with progress("monitoring", after=2.0):
        report = monitor(store, file, **join(options))
    if page is not None:
        from calibrant.reporting.monitoring import report_monitor

        report_monitor(report).save(page)  # type: ignore[arg-type]  # of one model, as said above
    if openmetrics is not None:
        from calibrant.core.atomic import atomic_path

        with atomic_path(openmetrics) as temporary:
            temporary.write_text(report.to_openmetrics(), encoding="utf-8")
    if as_json:
        emit_json(report.to_dict())
    else:
        emit(str(report))
    if report.alarms:
        raise SystemExit(3)
