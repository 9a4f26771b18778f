"""``calibrant explain NAME``."""

from __future__ import annotations

import click

from calibrant.cli._options import emit, emit_json


@click.command(
    "explain",
    epilog="Examples: calibrant explain ece · calibrant explain crps · calibrant explain temperature · "
    "calibrant explain taxonomy",
)
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Machine-readable answer.")
def command(name: str | None, *, as_json: bool) -> None:
    """Say what a metric or method is: what it estimates, bounds, weaknesses, paper, cost.

    Without NAME all metrics and methods are listed; 'taxonomy' prints who bounds whom.
    """
    from calibrant.cli._errors import usage
    from calibrant.workflows.explain import explain

    with usage(command):
        answer = explain(name)
    if as_json:
        emit_json(answer.to_dict())
    else:
        emit(str(answer))
