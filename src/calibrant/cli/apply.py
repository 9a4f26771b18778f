"""``calibrant apply CALIBRATOR FILE``."""

from __future__ import annotations

from pathlib import Path
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
    from calibrant.workflows.apply import apply

    done = apply(calibrator, file, output, **join(options))
    if done.note:
        emit(f"Note: {done.note}.", err=True)
    if done.left_out:
        emit(f"Note: {done.left_out}.", err=True)
    step = f"calibrant {_next(calibrator, file, output, options, seen=done.in_sample is not None)}"
    if as_json:
        emit_json(done.to_dict() | {"calibrator": calibrator, "next": step})
    elif output != "-":
        emit(str(done))
        if done.in_sample is not None:
            emit(f"Note: {done.in_sample.sentence}", err=True)
        emit(f"Next: {step}", err=True)


def _next(calibrator: str, file: str, output: str, options: dict[str, Any], *, seen: bool) -> str:
    """Return the command that shows what it helped; the output is read like the file where it is of its kind."""
    from calibrant.io.paths import is_many
    from calibrant.workflows.next_step import quoted, reading_words

    logits = options.get("space") == "logit" or any("logit" in name for name in options.get("proba") or ())
    if is_many(file):
        kept = {name: value for name, value in options.items() if not (logits and name in ("space", "proba"))}
        return f"evaluate {quoted(output)}{reading_words(kept, output)}"
    words = reading_words(options, command="compare")
    if seen or logits or Path(file).suffix.lower() != Path(output).suffix.lower():
        return f"compare {quoted(file)}{words} --calibrator {quoted(calibrator)}"
    return f"compare {quoted(file)} {quoted(output)}{words}"
