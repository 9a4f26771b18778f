"""``calibrant report FILE``."""

from __future__ import annotations

import shlex
import sys
from typing import Any

import click

from calibrant.cli._options import emit, emit_json, file_options, layout_of


@click.command(
    "report",
    epilog="Examples: calibrant report preds.npz -o report.html · "
    "calibrant report preds.csv --calibrator cal.json --by day -o report.html",
)
@click.argument("file", type=click.Path())
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False),
    default="report.html",
    show_default=True,
    help="Where to write the page.",
)
@click.option("--calibrator", type=click.Path(dir_okay=False), help="Calibrator (JSON) for before/after.")
@click.option("--by", metavar="COLUMN", help="Columns that make slices (comma-separated).")
@click.option("--title", default=None, help="Title of the page.")
@click.option("--no-league", is_flag=True, help="Do not compare repairs by cross-validation.")
@click.option(
    "--resamples", "n_resamples", type=click.IntRange(0), default=1000, show_default=True, help="Label resamplings."
)
@click.option(
    "--level",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.95,
    show_default=True,
    help="Level of the intervals.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the resampling.")
@click.option("--mean", metavar="NAME", help="Column of predicted means (regression).")
@click.option("--variance", metavar="NAME", help="Column of predicted variances (regression).")
@click.option("--json", "as_json", is_flag=True, help="Short for --format json.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["html", "md", "json", "text"]),
    default="html",
    show_default=True,
    help="html writes a page; the others go to standard output.",
)
@file_options
def command(file: str, **options: Any) -> None:
    """Write one self-contained page about the predictions in FILE."""
    from pathlib import Path

    from calibrant.engines.evaluating import to_forecast
    from calibrant.engines.files import read_predictions
    from calibrant.errors import FileError
    from calibrant.reporting import report_forecast

    form = "json" if options.pop("as_json") else options.pop("form")
    options.pop("form", None)
    layout = layout_of(options)
    predictions = read_predictions(file, layout, input_format=options["input_format"])
    if predictions.kind == "regression":
        from calibrant.reporting.regression import report_regression

        page = report_regression(
            predictions, title=options["title"] or f"Calibration of {Path(file).name}", rng=options["seed"]
        )
    else:
        forecast = to_forecast(predictions, caller="report", normalize=options["normalize"])
        calibrator = None
        if options["calibrator"]:
            import calibrant

            calibrator = calibrant.load(options["calibrator"])
        by = {}
        for name in [part.strip() for part in (options["by"] or "").split(",") if part.strip()]:
            if name not in predictions.columns:
                have = ", ".join(predictions.columns) or "none"
                raise FileError(f"there is no column {name!r} to slice by; there are: {have}. Hint: check the name.")
            by[name] = predictions.columns[name]
        page = report_forecast(
            forecast,
            calibrator=calibrator,
            league=not options["no_league"],
            by=by,
            title=options["title"] or f"Calibration of {Path(file).name}",
            source=Path(file).name,
            command="calibrant " + " ".join(shlex.quote(Path(a).name if a == file else a) for a in sys.argv[1:]),
            level=options["level"],
            n_resamples=options["n_resamples"],
            rng=options["seed"],
        )
    if form == "html":
        path = page.save(options["output"])
        emit(f"{page.summary['verdict']}\nwrote {path} ({path.stat().st_size / 1000:.0f} kB)", err=True)
    elif form == "text":
        emit(page.text)
    elif form == "json":
        emit_json({"schema": 1, **page.to_dict()})
    else:
        emit(page.markdown)
