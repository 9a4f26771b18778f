"""The report on means and variances: verdict, PIT histogram, variance against error, table, slices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from calibrant._typing import RNG, Array
from calibrant.core.moments import wilson
from calibrant.core.rows import Rows
from calibrant.core.tables import Table
from calibrant.core.text import count, first_upper, points
from calibrant.inference.comparison import compare_evidence
from calibrant.inference.evaluation import Evaluation, evaluate_evidence
from calibrant.inference.verdict import TOLERANCE, first_lower
from calibrant.regression import compute_pit, compute_variance_table
from calibrant.reporting import diagram, words
from calibrant.reporting.content import State, day_in_words, state_boxes
from calibrant.reporting.decisions import _some, thousand
from calibrant.reporting.downloads import Download
from calibrant.reporting.gaps import group_section
from calibrant.reporting.glossary import error_bar_glossary, provenance
from calibrant.reporting.scoreboard import metric_section
from calibrant.reporting.spread import pit_figure, variance_figure
from calibrant.reporting.steps import Group
from calibrant.reporting.summary import Parts, advised, changes, frame, slices_of
from calibrant.reporting.words import ErrorBars, near, smallest_gap, tile

__all__ = ["summarize_rows"]

CONVENTIONS = "A calibrated model: truths are normal with the forecast’s mean and variance, row by row."


def summarize_rows(
    rows: Rows,
    *,
    after: Rows | None = None,
    repair: Mapping[str, Any] | None = None,
    by: Mapping[str, Array] | None = None,
    parts: tuple[Sequence[str], Parts] | None = None,
    title: str = "Calibration report",
    source: str | None = None,
    command: str | None = None,
    level: float = 0.95,
    n_resamples: int = 1000,
    tolerance: float = TOLERANCE,
    rng: RNG = 0,
    groups: Array | None = None,
    advise: Callable[[str], str] = str,
) -> dict[str, Any]:
    """Return the content of a report on rows of means and variances; the settings are those of `summarize`."""
    settings: dict[str, Any] = {"level": level, "n_resamples": n_resamples, "tolerance": tolerance, "rng": rng}
    states = []
    for kind, one, own in (("before", rows, parts), ("after", after, None)):
        if one is not None:
            judged = advised(evaluate_evidence(one, groups=groups, **settings), advise)
            states.append(State(kind, one, judged, slices_of(one, by or {}, own, settings, groups)))
    evaluation, slices = states[0].evaluation, states[0].slices
    comparison = None
    if after is not None:
        kept = bool((repair or {}).get("injective"))
        comparison = compare_evidence(rows, after, injective=kept, level=level, groups=groups, rng=rng)
    pits = {s.kind: compute_pit(rows.y, s.evidence.forecast, sample_weight=rows.weights, rng=rng) for s in states}
    ranges = {
        s.kind: compute_variance_table(rows.y, s.evidence.forecast, sample_weight=rows.weights)
        for s in states
        if rows.table is None
    }
    summary = {
        **frame(
            evaluation,
            rows,
            title=title,
            source=source,
            command=command,
            n_resamples=n_resamples,
            rng=rng,
            conventions=CONVENTIONS,
        ),
        **changes(comparison, states[-1].evaluation, repair),
        "slices": [
            {
                "name": part.label,
                "n": part.evaluation.n,
                "inside": part.evaluation.facts.inside,
                "ratio": part.evaluation.facts.ratio,
                "corrected": part.corrected,
            }
            for part in slices
        ],
        "pit_table": pits["before"].to_dict(),
        "variance_table": ranges["before"].to_dict() if ranges else None,
        "pit": [pit_figure(pits, narrow=narrow) for narrow in (False, True)],
        "variance": [variance_figure(ranges, narrow=narrow) for narrow in (False, True)] if ranges else None,
    }
    summary["page"] = _page(states, repair, comparison, level, summary["date"]) | {
        "prove": advise(words.PROVE),
        "provenance": provenance(
            summary["method"],
            data=f"{source + ': ' if source else ''}{count(rows.n)} rows of "
            + ("means and variances" if ranges else "quantiles"),
            repair=repair,
            rows=[("Intervals", "{level}%. Fractions: Wilson. Means: corrected for skewness.")],
            limits="How the model behaves on data unlike these rows, or later in time.",
            level=f"{100 * level:g}",
        ),
    }
    return summary


#: Levels of the diagram, and those of the table.
_LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
_SHOWN = (0.5, 0.8, 0.9, 0.95, 0.99)


def _page(
    states: Sequence[State], repair: Mapping[str, Any] | None, comparison: Any | None, level: float, date: str
) -> dict[str, Any]:
    """Return the sections of the page."""
    language, first = ErrorBars(), states[0].evaluation
    second = states[1].evaluation if len(states) > 1 else None
    name = "" if repair is None else str(repair["title"])
    groups = {state.kind: _coverage(state.evidence, level) for state in states}
    todo = words.what_to_do(first, second, None, None)
    parts = {state.kind: state.slices for state in states}
    page: dict[str, Any] = {
        "headline": words.headline(first, second, language),
        "lead": words.lead(first, second, language, name, None),
        "kick": f"{count(first.n)} predictions · {day_in_words(date)}",
        "date": day_in_words(date),
        "states": state_boxes(states, language, level, name),
        "todo": {"words": todo[0], "line": todo[1]},
        "tiles": _tiles(states, level),
        "language": language,
        "diagram": _diagram(groups, language) if groups["before"] else None,
        "decisions": _decisions(groups, states, level) if first.facts.inside is not None else None,
        "groups": group_section(parts, first.n, language, lambda f: (f.inside, f.meant, f.gap))
        if all(part.evaluation.facts.inside is not None for part in states[0].slices)
        else None,
        "metrics": metric_section({state.kind: state.evaluation for state in states}, comparison, level),
        "spread": _spread(states[-1].evaluation, after=len(states) > 1),
        "read": error_bar_glossary(),
    }
    links = (
        ("diagram", "Diagram"),
        ("decisions", "Decisions"),
        ("groups", "Groups"),
        ("metrics", "Metrics"),
        ("spread", "Errors"),
        ("read", "How to read"),
    )
    page["contents"] = [*((key, name) for key, name in links if page[key]), ("method", "Methods and data")]
    return page


def _coverage(rows: Rows, level: float) -> list[Group]:
    """Return what lies inside the central intervals of each level; nothing where no interval is stated."""
    groups = []
    for meant in rows.central_levels(_LEVELS):
        inside = rows.inside(meant)
        low, high = (float(end) for end in wilson(inside, rows.total, level))
        half = 1.96 * float(np.sqrt(meant * (1 - meant) / rows.total))
        band = max(0.0, meant - half), min(1.0, meant + half)
        groups.append(Group(meant, meant, float(rows.total), meant, float(inside), low, high, *band))
    return groups


def _finding(groups: Sequence[Group]) -> str:
    """Return what the intervals of one state show: the rest of the sentence "As delivered, …"."""
    outside = [group for group in groups if group.outside]
    side = {group.gap > 0 for group in outside}
    if not outside:
        return "intervals contain what they promise, within chance"
    if len(side) > 1:
        return "some intervals are too narrow, others too wide"
    k = len(outside)
    start = (
        "every interval is" if k >= 0.8 * len(groups) else f"{k} of {len(groups)} intervals {'are' if k > 1 else 'is'}"
    )
    return f"{start} too {'narrow' if side == {True} else 'wide'}"


def _diagram(groups: Mapping[str, Sequence[Group]], language: ErrorBars) -> dict[str, Any]:
    layers = [diagram.Layer(kind, Table.empty(), found) for kind, found in groups.items()]
    title = f"{first_upper(_finding(layers[0].groups))}."
    if len(layers) > 1:
        title = " ".join(f"{layer.name}, {_finding(layer.groups)}." for layer in layers)
    name = "Coverage: fraction of outcomes inside each interval against the fraction meant"
    return {
        "title": title,
        "sub": "Each dot is one kind of interval. On the diagonal, intervals contain as many outcomes "
        "as they promise. The gray band is where 95% of a calibrated model’s dots would fall.",
        "pictures": [
            diagram.draw(layers, language, diagram.Range(0.0, 1.0), narrow=narrow, title=name, desc=title)
            for narrow in (False, True)
        ],
        "download": Download.of(
            "coverage",
            ["state", "meant", "inside", "low", "high", "band_low", "band_high"],
            [[la.kind, g.score, g.rate, g.least, g.most, g.band_low, g.band_high] for la in layers for g in la.groups],
        ),
    }


def _spread(evaluation: Evaluation, *, after: bool) -> dict[str, str]:
    """Return title and caption of the pictures of the errors."""
    facts, found = evaluation.facts, evaluation.verdict.found
    ratio = facts.ratio if found and "ratio" in facts.clear else None
    title = "Where truths fall" if found else "Truths fall where they should, within chance"
    if ratio is not None:
        title = f"Truths fall too {'often near the middle' if ratio < 1 else 'far from the middle'} of their forecasts"
    title = f"After the repair, {first_lower(title)}" if after and title != "Where truths fall" else title
    second = "" if facts.levels else " The second picture: the actual error of rows with similar error bars."
    sub = (
        f"Where the truth falls in its own forecast; flat inside the gray band is right, a pile in the middle means "
        f"error bars that are too wide, piles at both ends too narrow.{second}"
    )
    return {"title": title, "sub": sub}


def _ends(low: float, high: float) -> str:
    ends = near(low), near(high)
    return f"above {ends[0].removeprefix('>')}" if ends[0] == ends[1] and ends[0].startswith(">") else " to ".join(ends)


def _decisions(groups: Mapping[str, Sequence[Group]], states: Sequence[State], level: float) -> dict[str, Any]:
    meant, total = states[0].evaluation.facts.meant, states[0].evidence.total
    panels, contain = [], []
    for state in states:
        main = next(group for group in groups[state.kind] if group.score == meant)
        missed, few = 1000 * (1 - main.rate), _some(1000 * (1 - main.rate))
        of = "" if len(states) == 1 else f" {state.name.lower()}"
        contain.append("almost all" if 0.995 <= main.rate < 1 else f"{100 * main.rate:.0f}")
        panels.append(
            {
                "kind": state.kind,
                "picture": thousand(round(missed), state.kind, f"{few} of 1,000 intervals miss the truth"),
                "caption": first_upper(f"{few} {'miss' if few.endswith(' 1') or few == '1' else 'misses'}{of}"),
                "detail": f"{1000 * (1 - meant):.0f} promised. {100 * level:g}% interval {1000 * (1 - main.most):.0f} "
                f"to {1000 * (1 - main.least):.0f}.",
            }
        )
    shown = [
        dict(zip(groups, found, strict=True))
        for found in zip(*groups.values(), strict=True)
        if found[0].score in (*_SHOWN, meant)
    ]
    now = "" if len(contain) == 1 else f" After repair, {contain[1]} do."
    return {
        "title": f"Of 100 intervals at {100 * meant:g}%, {contain[0]} contain the truth.{now}",
        "sub": f"1,000 intervals meant to contain the truth in {1000 * meant:.0f} cases. Each dot is one; large dots "
        "miss it.",
        "panels": panels,
        "states": list(groups),
        "rows": [
            {
                "meant": f"{100 * row['before'].score:g}%",
                "promised": count(round((1 - row["before"].score) * total)),
                "cells": {
                    kind: {
                        "inside": near(group.rate),
                        "ends": _ends(group.least, group.most),
                        "made": count(round((1 - group.rate) * total)),
                        "off": group.outside,
                    }
                    for kind, group in row.items()
                },
            }
            for row in shown
        ],
        "download": Download.of(
            "intervals",
            ["state", "meant", "inside", "low", "high"],
            [[kind, g.score, g.rate, g.least, g.most] for row in shown for kind, g in row.items()],
        ),
    }


def _tiles(states: Sequence[State], level: float) -> list[dict[str, Any]]:
    tiles: list[dict[str, Any]] = []
    language, total = ErrorBars(), states[0].evidence.total
    facts = [state.evaluation.facts for state in states]
    first, last = facts[0], facts[-1]
    if first.inside is not None:
        low, high = (float(end) for end in wilson(last.inside, total, level))
        inside = f"{count(round(last.inside * total))} of {count(total)} outcomes"
        gap, between = last.gap, "No interval: weights are not counts."
        if gap is not None:
            start = "Now between" if len(facts) > 1 else "Between"
            between = f"{start} {language.signed(gap.low)} and {language.signed(gap.high)} points"
            between += f" ({100 * level:g}% interval)."
        meant, foot = f"{100 * first.meant:g}%", f"{inside} ({_ends(low, high)})."
        tiles += [
            tile(f"Inside the {meant} interval", [near(f.inside) for f in facts], "", foot, plain=len(facts) == 1),
            tile("Meant to be inside", [meant], "", "What the error bars promise.", plain=True),
            tile("Gap: meant minus inside", [language.signed(language.size(f)) for f in facts], "points", between),
        ]
    return [*tiles, smallest_gap(points(first.resolvable), first.n)]
