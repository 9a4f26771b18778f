"""``calibrant merge FILES``."""

from __future__ import annotations

import click

from calibrant.cli._options import emit, emit_json, json_option


@click.command("merge", epilog="Example: calibrant merge 'days/2026-11-*.calsum' -o november.calsum")
@click.argument("files", type=click.Path(), nargs=-1, required=True)
@click.option("-o", "--output", required=True, type=click.Path(), help="Where to write, ending in .calsum.")
@json_option
def command(files: tuple[str, ...], *, output: str, as_json: bool) -> None:
    """Add up summary FILES (paths or patterns) with the same slices; the order makes no difference."""
    from calibrant.workflows.summarize import merge

    done = merge(files, output)
    if as_json:
        emit_json(done.to_dict())
    else:
        emit(str(done))
