"""``calibrant check FILE``: a gate."""

from __future__ import annotations

from typing import Any

import click

from calibrant.cli._options import (
    bins_option,
    emit,
    emit_json,
    engine_options,
    file_options,
    join,
    json_option,
    regression_options,
    rejection_options,
    repeated,
    shown,
    weight_kind_option,
)
from calibrant.cli._progress import progress
from calibrant.cli._text import colored

#: What an undecided limit does to the gate (`calibrant.inference.limits`, which loads only when it runs).
UNDECIDED = ("point", "pass", "fail")


@click.command(
    "check",
    epilog="Examples: calibrant check preds.npz --max ks=0.02 --min accuracy=0.9 · "
    "calibrant check preds.csv --min-pvalue 0.01 --by country · calibrant check preds.npz --config gate.toml --json",
)
@click.argument("file", type=click.Path())
@repeated("--max", "max_values", "NAME=VALUE", "Largest value allowed (repeat for more).")
@repeated("--min", "min_values", "NAME=VALUE", "Smallest value allowed (repeat for more).")
@repeated("--min-pvalue", "min_pvalues", "[NAME=]VALUE", "Smallest p-value allowed: of the KS test, or of a metric.")
@click.option("--config", type=click.Path(dir_okay=False), help="TOML file with tables [max], [min], [min-pvalue].")
@shown(
    "--undecided", click.Choice(UNDECIDED), "point",
    "Where the interval holds the limit: the value decides, the limit counts as kept, or as broken.",
)  # fmt: skip
@bins_option
@click.option("--groups", metavar="COLUMN", help="Column naming the cluster of each row.")
@weight_kind_option
@click.option("--by", metavar="COLUMN", help="Every slice must pass as well (comma-separated columns).")
@engine_options
@rejection_options
@shown("--resamples", "n_resamples", click.IntRange(1), 1000, "Label resamplings behind a p-value.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the resampling.")
@json_option
@file_options
@regression_options
def command(file: str, *, as_json: bool, config: str | None, **options: Any) -> None:
    """Gate: exit 0 when FILE keeps every limit, 3 when it does not, with a table of what failed.

    Within a limit: the whole 95% interval is. Beyond it: the whole interval is. Else undecided: the rows needed are
    named, and --undecided says what follows. A limit itself is allowed; 5% is 0.05. Limits given here win over a file.
    Errors of two classes are those of class 1 (--positive), of more the top label's; ks@top-1 names a view.
    """
    from calibrant.cli._errors import usage
    from calibrant.workflows.check import Limits, check

    options = join(options)
    given = [options.pop(name) for name in ("max_values", "min_values", "min_pvalues")]
    with usage(command):
        limits = (Limits.read(config) if config else Limits()).with_words(*given)
    chosen: dict[str, Any] = {"max_values": limits.most, "min_values": limits.least, "min_pvalues": limits.pvalues}
    with progress("checking", after=2.0):
        gate = check(file, **chosen, **options)
    if as_json:
        emit_json(gate.to_dict())
    else:
        emit(colored(str(gate)))
    if not gate.passed:
        raise SystemExit(3)
