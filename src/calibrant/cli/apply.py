"""``calibrant apply CALIBRATOR FILE``."""

from __future__ import annotations

from collections.abc import Mapping
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
)


@click.command(
    "apply",
    epilog="Examples: calibrant apply cal.json preds.csv -o calibrated.csv · "
    "calibrant apply cal.json preds.npz --part test -o calibrated.npz · "
    "calibrant apply cal.json 'logs/*.parquet' -o calibrated.parquet",
)
@click.argument("calibrator", type=click.Path())
@click.argument("file", type=click.Path())
@click.option("-o", "--output", required=True, type=click.Path(), help="Where to write; the suffix says the format.")
@click.option("--partition-by", metavar="COLUMN", help="Write a directory of Parquet per value (comma-separated).")
@engine_options
@rejection_options
@json_option
@file_options
@regression_options
def command(calibrator: str, file: str, *, output: str, as_json: bool, **options: Any) -> None:
    """Replace the probabilities in FILE by those of CALIBRATOR; everything else passes through.

    Tables stream in bounded memory. The output appears whole or not at all. A row whose scores cannot be used gives
    NULL and is counted.
    """
    from calibrant.io.paths import is_many
    from calibrant.workflows.apply import apply
    from calibrant.workflows.next_step import quoted, reading_words

    done = apply(calibrator, file, output, **join(options))
    if done.note:
        emit(f"Note: {done.note}.", err=True)
    if done.left_out:
        emit(f"Note: {done.left_out}.", err=True)
    if as_json:
        emit_json(done.to_dict() | {"calibrator": calibrator})
    elif output != "-":
        words = reading_words({name: value for name, value in options.items() if name in _kept(options)})
        step = f"evaluate {quoted(output)}" if is_many(file) else f"compare {quoted(file)} {quoted(output)}{words}"
        emit(str(done))
        if done.in_sample is not None:
            emit(f"Note: {done.in_sample.sentence}", err=True)
            step = f"compare {quoted(file)}{reading_words(options)} --calibrator {quoted(calibrator)}"
        emit(f"Next: calibrant {step}", err=True)


def _kept(options: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the options of reading that the output needs as well; columns of logits have another name there."""
    named = options.get("proba") or ()
    logits = any(name.startswith("logit") for name in ((named,) if isinstance(named, str) else named))
    kept = ("label", "positive", "percent", "confidence", "correct", "weight", "mean", "variance", "std")
    return kept if logits or options.get("space") == "logit" else (*kept, "proba")
