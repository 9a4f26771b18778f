"""Which views a `Summary` keeps, which follow from them, and what to say about those that do not."""

from __future__ import annotations

from typing import Any

from calibrant.core.tables import Table
from calibrant.engines.cells import cut
from calibrant.errors import InputError, input_error
from calibrant.views import Canonical, TopLabel, TopR, View


def kept_view(view: View, pairs: bool) -> View:
    """Check a view at construction."""
    if isinstance(view, Canonical):
        raise needs_rows("the canonical view")
    if pairs and not view.top_label_only:
        raise input_error("views", "Summary", "be top-1 for pairs", view.name, "keep the probability vectors")
    if getattr(view, "threshold", None) is not None:
        raise input_error(
            "views",
            "Summary",
            "have no threshold: it is applied to the cells later",
            repr(view),
            f"keep {view.name} and give the threshold to the measure",
        )
    return TopLabel() if isinstance(view, TopR) and view.r == 1 else view


def plain_view(view: View) -> tuple[Any, ...]:
    """What tells kept pairs apart: not how groups are joined, nor which cells are read."""
    facts = {k: v for k, v in vars(view).items() if k not in ("reduce", "threshold")}
    return (view.name, *facts.values())


def above(table: Table, threshold: float) -> Table:
    """Keep the cells above a threshold that lies on a cell border."""
    cells = threshold * table.grid
    if abs(cells - round(cells)) > 1e-9 * table.grid:
        raise input_error(
            "threshold", "Summary", f"be a multiple of 1/{table.grid}", str(threshold), "take for example 0.01 or 0.05"
        )
    return cut(table, round(cells))


def needs_rows(what: str) -> InputError:
    """Return the refusal of what cells cannot answer, with the alternative."""
    return InputError(
        f"{what[0].upper()}{what[1:]} needs the rows, which a Summary does not keep. Hint: take a sample of rows and "
        "use calibrant.measure there, for kernel measures skce with estimator='block'."
    )


def difference(one: tuple[Any, ...], other: tuple[Any, ...]) -> str:
    """Say what keeps two summaries from adding up."""
    names = ("n_classes", "classes", "views", "n_bins", "coarse")
    for name, mine, yours in zip(names, one, other, strict=True):
        if mine != yours:
            return f"{name} {mine!r} and {yours!r}"
    return "the same"
