"""``calibrant check FILE``: a gate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from calibrant.cli._options import emit, emit_json, file_options, layout_of


@click.command(
    "check",
    epilog="Examples: calibrant check preds.npz --max ks=0.02 --min accuracy=0.9 · "
    "calibrant check preds.csv --min-pvalue 0.01 --by country · calibrant check preds.npz --config gate.toml --json",
)
@click.argument("file", type=click.Path())
@click.option("--max", "most", multiple=True, metavar="NAME=VALUE", help="Largest value allowed (repeat for more).")
@click.option("--min", "least", multiple=True, metavar="NAME=VALUE", help="Smallest value allowed (repeat for more).")
@click.option("--min-pvalue", "pvalues", multiple=True, metavar="[NAME=]VALUE",
              help="Smallest p-value allowed: of the top-label KS test, or of a measure.")
@click.option("--config", type=click.Path(dir_okay=False), help="TOML file with tables [max], [min], [min-pvalue].")
@click.option("--bins", "n_bins", type=click.IntRange(1), default=15, show_default=True, help="Number of bins.")
@click.option("--by", metavar="COLUMN", help="Every slice must pass as well (comma-separated columns).")
@click.option("--resamples", "n_resamples", type=click.IntRange(1), default=1000, show_default=True,
              help="Label resamplings behind a p-value.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the resampling.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@file_options
def command(file: str, *, as_json: bool, most: tuple[str, ...], least: tuple[str, ...], pvalues: tuple[str, ...],
            config: str | None, **options: Any) -> None:
    """Gate: exit 0 when FILE keeps every limit, 3 when it does not, with a table of what failed.

    A limit itself is allowed. With --config, limits on the command line win.
    """
    from calibrant.engines.gating import Limits, check_file
    from calibrant.errors import InputError

    try:
        limits = Limits.read(Path(config)) if config else Limits()
        limits = limits.with_words(most, least, pvalues)
    except InputError as error:
        raise click.UsageError(str(error)) from error
    layout = layout_of(options)
    gate = check_file(file, limits, layout, **options)
    if as_json:
        emit_json(gate.to_dict())
    else:
        emit(str(gate))
    if not gate.passed:
        raise SystemExit(3)
