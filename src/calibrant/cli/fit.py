"""``calibrant fit FILE``."""

from __future__ import annotations

from typing import Any

import click

from calibrant.cli._options import (
    emit,
    emit_json,
    engine_options,
    file_options,
    join,
    json_option,
    regression_options,
    rejection_options,
    shown,
    weight_kind_option,
)
from calibrant.cli._progress import progress
from calibrant.cli._text import colored
from calibrant.core.text import count, reasons

#: Scores that decide between maps of means and variances; naming them here spares --help scikit-learn.
REGRESSION = ("dss", "crps")


class Criterion(click.Choice):  # type: ignore[type-arg]  # generic only in newer versions
    """One of the proper scores in the registry, asked for when it is needed."""

    @property
    def choices(self) -> tuple[str, ...]:
        """Names of the scores."""
        from calibrant.metrics.recipes import criteria

        return (*criteria(), *REGRESSION)

    @choices.setter
    def choices(self, _: object) -> None:
        """Take no list: the registry has it."""


@click.command(
    "fit",
    epilog="Examples: calibrant fit preds.npz -o cal.json · calibrant fit cal.csv --method temperature -o cal.json · "
    "calibrant fit preds.npz --preserve argmax --fast --json · "
    "calibrant fit 'logs/*.parquet' --method temperature -o cal.json",
)
@click.argument("file", type=click.Path())
@click.option(
    "--method",
    default="auto",
    show_default=True,
    metavar="NAME",
    help="Short name of a method (calibrant explain lists them); auto tries many and pools the best.",
)
@shown("-o", "--output", click.Path(dir_okay=False), "cal.json", "Where to write the calibrator.")
@click.option(
    "--criterion", type=Criterion(()), help="Proper score that decides.  [default: nll; for means and variances dss]"
)
@click.option("--preserve", type=click.Choice(["argmax", "order"]), help="Keep the predicted class, or every ranking.")
@click.option("--candidate", "candidates", multiple=True, metavar="NAME", help="Method to compare (repeat).")
@click.option("--fast", is_flag=True, help="Fewer methods and folds: about a tenth of the time.")
@click.option(
    "--holdout",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    metavar="SHARE",
    help="Fit on the rest of the rows and prove the gain on this share of them, e.g. 0.3.",
)
@weight_kind_option
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the folds, and of a sample.")
@engine_options
@rejection_options
@json_option
@file_options
@regression_options
def command(file: str, *, output: str, method: str, as_json: bool, **options: Any) -> None:
    """Fit a calibrator on the calibration rows of FILE (part cal) and save it as JSON.

    Methods are compared on held-out rows; the table shows their gain over the uncalibrated forecast. On an engine
    temperature, vector, isotonic, histogram, spline, Platt and beta are fitted on all rows, the others on a random
    sample.
    """
    from calibrant.calibrators import get_calibrator
    from calibrant.cli._errors import usage
    from calibrant.workflows.fit import fit

    with usage(command):
        for name in (method, *options["candidates"]):
            get_calibrator(name, "fit")
    options = join(options) | {"candidates": list(options["candidates"]) or None}
    with progress("fitting") as bar:
        done = fit(file, method=method, progress=bar, **options)
    done.save(output)
    if why := reasons(done.rejected):
        emit(f"Note: {count(sum(done.rejected.values()))} rows were left out ({why}).", err=True)
    if as_json:
        emit_json(done.to_dict() | {"output": output})
    else:
        emit(colored(str(done)))
        emit(f"Written to {output}.\nNext: {_next(done, file, output, options)}", err=True)


def _next(done: Any, file: str, output: str, options: dict[str, Any]) -> str:
    """Return the command for the case at hand."""
    from calibrant.workflows.next_step import has_parts, is_one, quoted, reading_words, repaired_name

    words = reading_words(options, file)
    if done.changes_nothing and done.method == "auto":
        return f"nothing to apply: no method was proven to help. To see why: calibrant report {quoted(file)}{words}"
    scores = reading_words(options, file, "apply")
    if done.proof is not None:
        return f"calibrant apply {quoted(output)} {quoted(file)}{scores} -o {quoted(repaired_name(file))}"
    if has_parts(file):
        words = reading_words(options, file, "compare")
        return f"calibrant compare {quoted(file)}{words} --calibrator {quoted(output)}"
    if is_one(file) and not file.endswith(".calsum"):  # cells cannot be split
        words += "" if done.method == "auto" else f" --method {done.method}"
        prove = f"calibrant fit {quoted(file)}{words} --holdout 0.3 -o {quoted(output)}"
        return f"prove the gain on rows of their own: {prove}"
    data = "FILE" if file.endswith(".calsum") else quoted(file)
    return f"calibrant apply {quoted(output)} {data}{scores} -o calibrated.parquet"
