"""``calibrant monitor STORE FILE``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from calibrant.cli._options import emit, emit_json, engine_options, file_options, layout_of


@click.command(
    "monitor",
    epilog="Examples: calibrant monitor watch/ 'logs/2026-11-15/*.parquet' --name 2026-11-15 --tolerance 0.02 · "
    "calibrant monitor watch/ --json",
)
@click.argument("store", type=click.Path())
@click.argument("file", type=click.Path(), required=False)
@click.option("--name", metavar="DAY", help="Name of the day; default: the file's name.")
@click.option(
    "--window", type=click.IntRange(1), default=7, show_default=True, help="Days compared with as many before."
)
@click.option("--alpha", type=float, help="False-alarm rate over the life of the watch (first day only; default 0.01).")
@click.option("--tolerance", type=float, help="Error still allowed, 0.02 = two points (first day only; default 0).")
@click.option("--restart", is_flag=True, help="Begin a new watch with this day, after a repair.")
@engine_options
@click.option("--strict", is_flag=True, help="Fail when a row is missing a value or out of range.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the window's p-value.")
@click.option("--report", "page", type=click.Path(dir_okay=False), help="Write the course of the watch as a page.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@file_options
def command(store: str, file: str | None, *, as_json: bool, page: str | None, **options: Any) -> None:
    """Add the predictions in FILE to STORE as one day; exit 3 when calibration has broken."""
    from calibrant.engines.monitor import monitor
    from calibrant.engines.paths import summarize_any

    engine, master, strict = (options.pop(name) for name in ("engine", "master", "strict"))
    normalize, input_format, seed = (options.pop(name) for name in ("normalize", "input_format", "seed"))
    layout = layout_of(options)
    name = options.pop("name")
    summary = None
    if file is not None:
        summary = summarize_any(
            file, layout, engine=engine, master=master, strict=strict, normalize=normalize, input_format=input_format
        )
        name = name or Path(file).stem
    report = monitor(store, summary, name=name, rng=seed, **options)
    if page is not None:
        from calibrant.reporting.monitoring import report_monitor

        report_monitor(report).save(page)
    if as_json:
        emit_json(report.to_dict())
    else:
        emit(str(report))
    if report.alarm:
        raise SystemExit(3)
