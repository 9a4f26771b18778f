"""What the page on class probabilities shows, section by section, from the same results as terminal and JSON."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from calibrant._typing import RNG
from calibrant.core.moments import wilson
from calibrant.core.options import check_rng
from calibrant.core.tables import Table
from calibrant.core.text import count, first_upper, percent, points
from calibrant.errors import InputError
from calibrant.inference.evaluation import Evaluation
from calibrant.inference.facts import decisive, judged, judged_name
from calibrant.inference.slices import Slice
from calibrant.inference.verdict import first_lower
from calibrant.reporting import diagram, words
from calibrant.reporting.cumulative import Curves, added_up
from calibrant.reporting.decisions import decisions
from calibrant.reporting.diagram import Layer
from calibrant.reporting.downloads import Download
from calibrant.reporting.gaps import class_section, class_sums, group_section
from calibrant.reporting.glossary import glossary
from calibrant.reporting.risk import risk_section
from calibrant.reporting.scoreboard import method_section, metric_section
from calibrant.reporting.steps import Group, fewest, group_edges, groups_of
from calibrant.reporting.svg import WIDTHS
from calibrant.reporting.words import GLYPHS, Language, language_of, share, smallest_gap, tile

__all__ = ["State", "class_page", "day_in_words", "state_boxes"]

STATES = diagram.STATES


@dataclass(frozen=True)
class State:
    """One judged state of the predictions: as delivered, or after a repair."""

    kind: str
    evidence: Any
    evaluation: Evaluation
    slices: Sequence[Slice]

    @property
    def name(self) -> str:
        """The state in words."""
        return STATES[self.kind]

    @property
    def table(self) -> Table:
        """Scores and outcomes of what is judged."""
        table: Table = self.evidence.tables(judged(self.evidence))[0]
        return table


def day_in_words(date: str) -> str:
    """Return a date as people write it.

    Examples
    --------
    >>> day_in_words("2026-11-16")
    'November 16, 2026'
    """
    day = dt.date.fromisoformat(date)
    return f"{day:%B} {day.day}, {day.year}"


def class_page(
    states: Sequence[State],
    *,
    repair: Mapping[str, Any] | None,
    comparison: Any | None,
    level: float,
    n_resamples: int,
    rng: RNG,
    date: str,
) -> dict[str, Any]:
    """Return every section of the page on class probabilities or top-label pairs."""
    before = states[0]
    after = states[1] if len(states) > 1 else None
    language = language_of(before.evaluation.facts)
    tables = {state.kind: state.table for state in states}
    edges = group_edges(list(tables.values()), risk=language.risk)
    layers = [Layer(state.kind, tables[state.kind], groups_of(tables[state.kind], edges, level)) for state in states]
    names = before.evidence.classes or tuple(range(before.evidence.n_classes))
    sums = {state.kind: class_sums(state.evidence) for state in states}
    known = {kind: one for kind, one in sums.items() if one is not None}
    classes = class_section(known, names, level, language) if len(known) == len(states) else None
    groups = group_section({state.kind: state.slices for state in states}, before.evidence.n, language)
    methods = method_section(repair, (repair or {}).get("method") if after is not None else None)
    decided = decisions(tables, language, level)
    name = (repair or {}).get("title") or "the repair" if after is not None else ""
    first = before.evaluation
    second = None if after is None else after.evaluation
    todo = words.what_to_do(
        first, second, None if methods is None else methods["best"], None if classes is None else classes["watch"]
    )
    if (
        language.risk
        and after is not None
        and decided is not None
        and decided["price"] is not None
        and todo[0].startswith("Use the rep")
    ):
        todo = (todo[0], f"Move your thresholds: {decided['price']['lines'][-1]}")
    page: dict[str, Any] = {
        "headline": words.headline(first, second, language),
        "lead": words.lead(first, second, language, name, _changed(before, after)),
        "kick": _kick(before, date),
        "states": state_boxes(states, language, level, name),
        "todo": {"words": todo[0], "line": todo[1]},
        "tiles": _tiles(states, language, level),
        "diagram": _diagram(layers, language, states),
        "decisions": decided,
        "classes": classes,
        "groups": groups,
        "metrics": metric_section({s.kind: s.evaluation for s in states}, comparison, level, risk=language.risk),
        "risk": risk_section({s.kind: s.evaluation.risk for s in states}, level),
        "added": _added(states, tables, language, n_resamples, rng),
        "methods": methods,
        "read": glossary(language, None if after is None else name, name),
        "language": language,
        "several": after is not None,
        "level": f"{100 * level:g}",
    }
    page["contents"] = _contents(page)
    return page


def _contents(page: Mapping[str, Any]) -> list[tuple[str, str]]:
    links = (
        ("diagram", "Diagram"),
        ("decisions", "Decisions"),
        ("classes", "Classes"),
        ("groups", "Groups"),
        ("metrics", "Metrics"),
        ("risk", "Slope"),
        ("added", "Added-up gap"),
        ("methods", "Repairs"),
        ("read", "How to read"),
    )
    return [*((key, words_) for key, words_ in links if page[key]), ("method", "Methods and data")]


def _kick(state: State, date: str) -> str:
    evaluation = state.evaluation
    weighted = " (weighted)" if evaluation.weighted else ""
    parts = [f"{count(evaluation.n)} predictions{weighted}"]
    event = evaluation.facts.event
    if evaluation.n_classes > 2:
        parts.append(f"{count(evaluation.n_classes)} classes")
    elif event is not None:
        table = state.table
        parts.append(f"{count(round(float(table.wt.sum()), 1))} events ({language_of(evaluation.facts).event})")
    return " · ".join([*parts, day_in_words(date)])


def _changed(before: State, after: State | None) -> int | None:
    """Return how many predicted classes a repair changes; None where rows are not known one by one."""
    if after is None or not all(getattr(state.evidence, "has_vectors", False) for state in (before, after)):
        return None
    return int((before.evidence.top != after.evidence.top).sum())


def state_boxes(states: Sequence[State], language: Language, level: float, name: str) -> list[dict[str, str]]:
    """Return one box per state: its verdict in words, and the line under them."""
    boxes = []
    for state in states:
        verdict = state.evaluation.verdict
        boxes.append(
            {
                "kind": state.kind,
                "label": "As delivered" if state.kind == "before" else f"After {first_lower(name)}",
                "glyph": GLYPHS[verdict.status],
                "words": words.state_word(verdict, after=state.kind == "after"),
                "line": words.state_line(verdict, language, level, short=state.kind == "after"),
            }
        )
    return boxes


def _tiles(states: Sequence[State], language: Language, level: float) -> list[dict[str, Any]]:
    """Return the four numbers under the verdict, each with its interval."""
    first, last = states[0].evaluation.facts, states[-1].evaluation.facts
    many = len(states) > 1
    n = states[0].evidence.total
    counts = states[0].evidence.counts
    low, high = (float(end) for end in wilson(last.observed, max(n, 1.0), level))
    digits = 2 if language.risk and min(first.observed, first.predicted, last.predicted) < 0.05 else 1
    ends = f" ({percent(low, digits)} to {percent(high, digits)})" if counts else ""
    hits = count(round(last.observed * n)) if counts else ""
    changes = many and not language.risk and abs(first.observed - last.observed) > 1e-12
    foot = f"{hits} of {count(n)} predictions{ends}." if counts else f"of the weight of {count(first.n)} predictions."
    if many and not language.risk:
        foot += "" if changes else " The repair does not change it."
    between = "No interval: weights are not counts." if not counts else "No interval: no test was made."
    if (gap := last.gap) is not None:
        start = "Now between" if many else "Between"
        between = (
            f"{start} {language.signed(gap.low)} and {language.signed(gap.high)} points ({100 * level:g}% interval)."
        )
    names = ("Right", "Claims to be right (average confidence)", "claimed minus right")
    means = "How sure the model says it is, averaged over all predictions."
    if language.risk:
        names = ("Happens", "Predicted, on average", "predicted minus happens")
        means = "Average risk the model gives to a prediction."
    shown = (first, last) if many else (first,)
    observed = [percent(f.observed, digits) for f in ((first, last) if changes else (last,))]
    tiles = [
        tile(names[0], observed, "", foot, plain=not changes),
        tile(names[1], [percent(f.predicted, digits) for f in shown], "", means),
        tile(f"Gap: {names[2]}", [language.signed(f.bias) for f in shown], "points", between),
    ]
    if first.resolvable is not None:
        size = points(first.resolvable) if language.decimals == 1 else language.points(first.resolvable)
        tiles.append(smallest_gap(size, first.n))
    return tiles


def _diagram(layers: Sequence[Layer], language: Language, states: Sequence[State]) -> dict[str, Any]:
    state = states[0]
    axis = diagram.axis_range(layers, language)
    title = f"Reliability diagram: {language.x_axis.lower()} against {language.y_axis.lower()}"
    gaps = {one.kind: one.evaluation.verdict.found or one.evaluation.facts.pvalue is None for one in states}
    found = [
        f"{la.name}, {diagram.finding(la.groups, language, repaired=la.kind == 'after', found=gaps[la.kind])}"
        for la in layers
    ]
    desc = ". ".join(found) + "."
    if state.evaluation.verdict.status == "cannot tell":
        found[0] = f"With {count(state.evaluation.n)} rows, chance could explain all of this"
    heading = ". ".join(found) + "." if len(layers) > 1 else f"{first_upper(found[0].removeprefix('As delivered, '))}."
    what = "risk" if language.risk else "confidence"
    sub = (
        f"Each dot is a group of predictions with similar {what}; larger dots hold more predictions. On the diagonal, "
        f"{'prediction and outcome' if language.risk else 'claim and truth'} agree. The gray band is where 95% of a "
        "calibrated model’s dots would fall."
    )
    if axis.high < 0.995:
        sub += f" Both axes stop at {share(axis.high)}: no group lies higher."
    elif axis.low > 0:
        sub += f" Both axes start at {share(axis.low)}: no group lies lower."
    end = diagram.crowded_end(layers, axis) if language.risk else None
    section: dict[str, Any] = {
        "title": heading,
        "sub": sub,
        "pictures": [
            diagram.draw(layers, language, axis, narrow=narrow, title=title, desc=desc) for narrow in (False, True)
        ],
        "notes": [
            note for layer in layers if (note := _note(layer, language, many=len(layers) > 1, found=gaps[layer.kind]))
        ],
        "where": _where(layers, axis, language),
        "zoom": None,
        "steps": step_words([group for layer in layers for group in layer.groups], fewest(layers[0].table)),
        "download": Download.of(
            "diagram",
            ["state", "from", "to", "n", "mean_score", "rate", "low", "high", "band_low", "band_high"],
            [
                [layer.kind, g.low, g.high, g.n, g.score, g.rate, g.least, g.most, g.band_low, g.band_high]
                for layer in layers
                for g in layer.groups
            ],
        ),
    }
    if end is not None:
        inside = float(layers[-1].table.w[layers[-1].table.score <= end].sum()) / layers[-1].table.total
        section["zoom"] = {
            "title": f"Low risks, enlarged (0% to {share(end)})",
            "line": f"{share(inside)} of predictions lie here{' after the repair' if len(layers) > 1 else ''}.",
            "picture": diagram.enlarge(layers, language, end, "The low risks, enlarged"),
        }
    return section


def _note(layer: Layer, language: Language, *, many: bool, found: bool) -> dict[str, str] | None:
    """Return what stands beside the diagram about one state."""
    group = diagram.callout_group(layer.groups)
    outside = [g for g in layer.groups if g.outside]
    k = len(layer.groups)
    start = f"{layer.name}: " if many else ""
    if group is None:
        text = f"{'The one dot lies' if k == 1 else f'All {k} dots lie'} inside the gray band."
        return {"kind": layer.kind, "title": first_upper(f"{start}within chance"), "text": text}
    over = sum(g.gap > 0 for g in outside)
    place = "outside" if 0 < over < len(outside) else "below" if over else "above"
    lie = "lies" if len(outside) == 1 else "lie"
    side = f"{'The one dot lies' if k == 1 else f'{len(outside)} of {k} dots {lie}'} {place} the gray band"
    ends = f"{_edge(group.low)} to {_edge(group.high)}"
    which = f"predictions {f'with a risk of {ends}' if language.risk else f'that claim {ends}'}"
    seen = (
        f"{'it happens in' if language.risk else ''} {share(group.rate)}{'' if language.risk else ' are right'}".strip()
    )
    text = f"{side}. Of the {count(round(group.n))} {which}, {seen} ({share(group.least)} to {share(group.most)})."
    word = language.side(sum(g.gap * g.n for g in outside)).lower()
    title = f"{start}{'mostly ' if 0 < over < len(outside) else ''}{word}"
    if not found:  # the verdict finds no gap: one group near the band does not contradict it
        fewer = sum(math.comb(k, i) * 0.05**i * 0.95 ** (k - i) for i in range(len(outside)))
        usual = 1 - fewer >= 0.05 and not any(g.far for g in outside)
        title = f"{start}{'mostly within chance' if usual else f'some {language.claims} off'}"
    return {"kind": layer.kind, "title": first_upper(title), "text": text}


def _edge(value: float) -> str:
    return f"{100 * value:g}%"


def _where(layers: Sequence[Layer], axis: diagram.Range, language: Language) -> str:
    if language.risk:
        words_, limit = "have a risk above", 0.1 if axis.high > 0.2 else axis.high / 2
    else:
        words_, limit = "claim more than", 0.95
    shares = [float(la.table.w[la.table.score > limit].sum()) / la.table.total for la in layers]
    text = f"{share(shares[0])} of predictions {words_} {share(limit)}"
    if len(layers) > 1:
        text = f"As delivered, {text}. After repair, {share(shares[1])} do"
    return f"{text}."


def _added(
    states: Sequence[State], tables: Mapping[str, Table], language: Language, n_resamples: int, rng: RNG
) -> dict[str, Any]:
    curves = [(state.kind, state.name, Curves.of(tables[state.kind])) for state in states]
    limit = _limit(states[-1], n_resamples, rng)
    sizes = [language.points(c.ks) for _, _, c in curves]
    ends = ("lowest risk", "highest risk") if language.risk else ("least sure", "most sure")
    leaves = limit is not None and curves[-1][2].ks > limit
    if len(curves) > 1:
        first, last = curves[0][2].ks, curves[1][2].ks
        verb = "cuts" if last < 0.9 * first else "leaves" if last <= 1.1 * first else "raises"
        title = f"The repair {verb} the added-up gap from {sizes[0]} to {sizes[1]} points"
        if limit is not None:
            title += ", inside the calibrated range" if not leaves else ""
    elif limit is None:
        title = f"The gap adds up to {sizes[0]} points"
    else:
        title = f"The added-up gap {'leaves the calibrated range' if leaves else 'stays inside the calibrated range'}"
    what = "predicted minus happened" if language.risk else "claimed minus right"
    up, down = ("overstated", "understated") if language.risk else ("too sure", "too cautious")
    sub = (
        f"Predictions in order of {'risk' if language.risk else 'confidence'}; the line adds up {what}. A rising line "
        f"means {up}, a falling line {down}. A calibrated model stays inside the gray band."
    )
    rows = []
    for kind, _, c in curves:
        keep = c.thin(100)
        rows += [[kind, float(c.fractile[i]), float(c.gap[i])] for i in keep]
    return {
        "title": title,
        "sub": sub if limit is not None else sub.replace(" A calibrated model stays inside the gray band.", ""),
        "pictures": [added_up(curves, limit, ends, width, language.points) for width in WIDTHS],
        "limit": limit,
        "download": Download.of("added-up-gap", ["state", "fraction", "added_up_gap"], rows),
    }


def _limit(state: State, n_resamples: int, rng: RNG) -> float | None:
    """Return what 95% of calibrated models stay below: the border of the test of the largest added-up gap."""
    if state.evaluation.facts.pvalue is None or n_resamples < 1:
        return None
    recipes = decisive(state.evidence)
    name = judged_name(state.evidence)
    try:
        null = state.evidence.null_draws({name: recipes[name]}, n_resamples, check_rng(rng, "report"))[name]
    except (InputError, KeyError):
        return None
    quantile = getattr(null, "quantile", None)
    return None if quantile is None else float(quantile(0.95))


def step_words(groups: Sequence[Group], least: float) -> str:
    """Return how the groups of the diagram were made."""
    top = any(abs(group.low - 0.99) < 1e-9 for group in groups)
    rare = any(abs(group.high - 0.005) < 1e-9 for group in groups)
    text = "Steps of 10 points"
    if rare:
        text = "Narrow steps at the low end (0.5, 1, 2, 3, 5, 7.5, 10, 15, 20, 30%), then steps of 10 points"
    elif top:
        text += "; the top step is split at 95% and 99% because it holds most rows"
    return f"{text}; steps with fewer than {least:.0f} rows are joined. An upper edge belongs to its group."
