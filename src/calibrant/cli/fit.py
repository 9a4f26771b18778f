"""``calibrant fit FILE``."""

from __future__ import annotations

from typing import Any

import click

from calibrant.cli._options import emit, emit_json, engine_options, file_options, layout_of, regression_options
from calibrant.cli._progress import progress


@click.command(
    "fit",
    epilog="Examples: calibrant fit preds.npz -o cal.json · calibrant fit cal.csv --method temperature -o cal.json · "
    "calibrant fit preds.npz --preserve argmax --fast --json · "
    "calibrant fit 'logs/*.parquet' --method temperature -o cal.json",
)
@click.argument("file", type=click.Path())
@click.option("--method", default="auto", show_default=True, metavar="NAME",
              help="Short name of a method (calibrant explain lists them); auto tries many and pools the best.")
@click.option("-o", "--output", type=click.Path(dir_okay=False), default="cal.json", show_default=True,
              help="Where to write the calibrator.")
@click.option("--criterion", type=click.Choice(["nll", "brier", "spherical", "rps"]), default="nll", show_default=True,
              help="Proper score that decides.")
@click.option("--preserve", type=click.Choice(["argmax", "order"]), help="Keep the predicted class, or every ranking.")
@click.option("--candidate", "candidates", multiple=True, metavar="NAME", help="Method in the league (repeat).")
@click.option("--max-seconds", "max_fit_seconds", type=click.FloatRange(0, min_open=True),
              help="Leave out methods that would take longer together.")
@click.option("--fast", is_flag=True, help="Fewer methods and folds: about a tenth of the time.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the folds, and of a sample.")
@engine_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@file_options
@regression_options
def command(file: str, *, output: str, method: str, as_json: bool, seed: int, **options: Any) -> None:
    """Fit a calibrator on the calibration rows of FILE (part cal) and save it as JSON.

    Methods are compared on held-out rows; the table shows their gain over doing nothing. On an engine temperature,
    vector, isotonic, histogram, spline, Platt and beta are fitted on all rows, the others on a random sample.
    """
    from calibrant.calibrators import by_short_name
    from calibrant.engines.paths import is_many
    from calibrant.engines.repairing import fit_file, fit_paths
    from calibrant.errors import InputError

    try:
        by_short_name(method, "fit")
        for name in options["candidates"]:
            by_short_name(name, "fit")
    except InputError as error:
        raise click.UsageError(str(error)) from error
    layout = layout_of(options, default_part="cal")
    options["candidates"] = list(options["candidates"]) or None
    engine, master = options.pop("engine"), options.pop("master")
    with progress("fitting") as tell:
        if engine or is_many(file):
            options.pop("input_format")
            where = {"engine": engine or "auto", "master": master}
            repair = fit_paths(file, layout, method=method, rng=seed, tell=tell, **where, **options)
        else:
            repair = fit_file(file, layout, method=method, rng=seed, tell=tell, **options)
    repair.calibrator.save(output)
    left_out = ", ".join(f"{count} {reason}" for reason, count in repair.rejected.items() if count)
    if left_out:
        emit(f"Note: {sum(repair.rejected.values())} rows were left out ({left_out}).", err=True)
    if as_json:
        emit_json(repair.to_dict() | {"output": output})
    else:
        emit(str(repair))
        emit(f"Written to {output}. Next: calibrant apply {output} FILE -o OUT", err=True)
