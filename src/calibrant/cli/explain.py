"""``calibrant explain NAME``."""

from __future__ import annotations

from typing import Any

import click

from calibrant.cli._options import emit, emit_json
from calibrant.errors import InputError


@click.command(
    "explain",
    epilog="Examples: calibrant explain ece · calibrant explain temperature · calibrant explain taxonomy",
)
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Machine-readable answer.")
def command(name: str | None, *, as_json: bool) -> None:
    """Say what a measure or method is: what it estimates, bounds, weaknesses, paper, cost.

    Without NAME all measures and methods are listed; 'taxonomy' prints who bounds whom.
    """
    from calibrant.listing import list_measures
    from calibrant.metrics.taxonomy import BOUNDS, taxonomy_text

    if name == "taxonomy":
        if as_json:
            emit_json({"schema": 1, "bounds": [{"upper": b.upper, "lower": b.lower, "why": b.why} for b in BOUNDS]})
        else:
            emit(taxonomy_text())
        return
    from calibrant.calibrators import by_short_name, list_calibrators

    if name is None:
        if as_json:
            emit_json({"schema": 1, "measures": list(list_measures()), "calibrators": list(list_calibrators())})
        else:
            emit(f"{list_measures()!r}\n\n{list_calibrators()!r}")
        return
    try:
        facts = _measure(name) if name in list_measures() else _calibrator(by_short_name(name))
    except InputError as error:
        known = ", ".join([*list_measures(), *(by_class.short_name for by_class in _classes())])
        raise click.UsageError(f"nothing is called {name!r}; known names: {known}") from error
    if as_json:
        emit_json({"schema": 1, "name": name, **facts})
        return
    title, summary = facts.pop("title"), facts.pop("summary")
    width = max(len(key) for key in facts)
    rows = [f"{key.replace('_', ' '):<{width}}  {value}" for key, value in facts.items() if value not in (None, "", ())]
    emit("\n".join([f"{name}: {title}", summary, "", *rows]))


def _classes() -> list[Any]:
    import calibrant.calibrators as room

    return [getattr(room, name) for name in room.list_calibrators()]


def _measure(name: str) -> dict[str, Any]:
    from calibrant import metrics
    from calibrant.core.declare import lookup
    from calibrant.metrics.taxonomy import bounds_above, bounds_below

    measure = lookup(name)
    function = getattr(metrics, measure.function, None)
    direction = {True: "smaller is better", False: "larger is better", None: "neither direction is better"}
    side = {"lower": "a lower bound of ", "upper": "an upper bound of "}.get(measure.bound or "", "")
    parameters = ", ".join(f"{p.name}={p.default!r}" for p in measure.parameters().values())
    above = "; ".join(f"{b.upper} (because {b.why})" for b in bounds_above(name))
    below = "; ".join(f"{b.lower} (because {b.why})" for b in bounds_below(name))
    return {
        "title": measure.title,
        "summary": ((function.__doc__ or "").strip().splitlines() or [""])[0],
        "notion": measure.notion,
        "estimates": side + measure.estimates,
        "bounded_by": above,
        "bounds": below,
        "direction": direction[measure.smaller_is_better],
        "perfect": "–" if measure.perfect is None else f"{measure.perfect:g}",
        "range": f"{measure.range[0]:g} … {measure.range[1]:g}",
        "proper": "yes" if measure.proper else "no",
        "weakness": measure.weakness,
        "sample_size": "calibrant study resolution FILE says which errors your n can resolve" if name == "ece" else "",
        "cost": measure.cost,
        "parameters": parameters,
        "function": f"calibrant.metrics.{measure.function}",
        "paper": measure.paper,
    }


def _calibrator(kind: Any) -> dict[str, Any]:
    def yes(flag: bool) -> str:
        return "yes" if flag else "no"

    return {
        "title": kind.title,
        "summary": ((kind.__doc__ or "").strip().splitlines() or [""])[0],
        "when": kind.when,
        "keeps_argmax": yes(kind.preserves_argmax),
        "keeps_order": yes(kind.preserves_order),
        "injective": yes(kind.injective),
        "may_saturate": yes(kind.may_saturate),
        "exports": yes(bool(kind.exports)),
        "class": f"calibrant.calibrators.{kind.__name__}",
        "paper": kind.paper,
    }
