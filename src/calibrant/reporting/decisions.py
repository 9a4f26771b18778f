"""What the probabilities mean for a decision: errors promised and made above a threshold, before and after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.core.moments import wilson
from calibrant.core.tables import SLACK, Table
from calibrant.core.text import count, percent
from calibrant.reporting.diagram import HEADLINE
from calibrant.reporting.downloads import Download
from calibrant.reporting.svg import Picture, tag
from calibrant.reporting.words import Language, share

__all__ = ["decisions"]

#: Thresholds offered, and how many of them a table shows.
_ACCEPT = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999)
_FLAG = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
_SHOWN = 4
#: Rows above a threshold without which it is not spoken of.
_FEWEST = 30


@dataclass(frozen=True)
class Above:
    """The rows whose score is a threshold or more."""

    n: float
    promised: float
    made: float
    total: float

    def per_thousand(self, value: float) -> float:
        """Return how many of 1,000 such rows."""
        return 1000 * value / self.n if self.n else 0.0

    @property
    def fraction(self) -> float:
        """Fraction of all rows."""
        return self.n / self.total


def _above(table: Table, threshold: float, *, risk: bool) -> Above:
    """Count rows at a threshold or above: events for a risk, errors for a confidence."""
    kept = table.score >= threshold - SLACK
    n, said, hit = (float(values[kept].sum()) for values in (table.w, table.ws, table.wt))
    return Above(n, said if risk else n - said, hit if risk else n - hit, table.total)


def _thresholds(tables: Sequence[Table], *, risk: bool) -> list[float]:
    """Return up to four thresholds above which there are enough, but not all, of the rows."""
    kept = []
    for threshold in _FLAG if risk else _ACCEPT:
        sizes = [_above(table, threshold, risk=risk).n for table in tables]
        if min(sizes) >= _FEWEST and not (risk and sizes[0] > 0.8 * tables[0].total):
            kept.append(threshold)
    return kept[-_SHOWN:]


def _main(thresholds: Sequence[float], tables: Sequence[Table], *, risk: bool) -> float:
    """Return the threshold the title speaks of."""
    if risk:
        return min(thresholds, key=lambda t: abs(np.log(_above(tables[0], t, risk=True).fraction / 0.06)))
    busy = [t for t in thresholds if t <= 0.99 and _above(tables[0], t, risk=False).fraction >= HEADLINE]
    return busy[-1] if busy else thresholds[0]


def decisions(tables: dict[str, Table], language: Language, level: float) -> dict[str, Any] | None:
    """Return the section on decisions: pictures of 1,000 rows, and a table by threshold; None with too few rows."""
    risk, states = language.risk, list(tables.values())
    thresholds = _thresholds(states, risk=risk)
    if not thresholds:
        return None
    main = _main(thresholds, states, risk=risk)
    panels = [_panel(kind, table, main, language, level) for kind, table in tables.items()]
    rows = [_row(threshold, tables, language) for threshold in thresholds]
    named = share(main) if risk else _limit(main)
    event = language.event or ""
    return {
        "title": _title(panels, named, language),
        "sub": f"1,000 predictions flagged at a risk of {named} or more. Large dots are events ({event})."
        if risk
        else f"1,000 predictions with a confidence of {named} or more. Each dot is one; large dots are wrong.",
        "panels": panels,
        "price": _price(tables, main, language),
        "heading": "If you flag above a threshold" if risk else "If you accept predictions above a threshold",
        "caption": "Events predicted → found, of predictions flagged"
        if risk
        else "Errors promised → made, of predictions accepted",
        "heads": ("Flagged", "Predicted", "Found") if risk else ("Accepted", "Errors promised", "Errors made"),
        "first": "Flag when risk is" if risk else "Accept when confidence is",
        "states": list(tables),
        "rows": rows,
        "moved": risk and len(tables) > 1,
        "practice": _practice(tables, main, named, language),
        "download": Download.of(
            "decisions",
            ["threshold", *(f"{kind}_{what}" for kind in tables for what in ("above", "promised", "made"))],
            [[t, *(v for s in states for v in _values(_above(s, t, risk=risk)))] for t in thresholds],
        ),
    }


def _values(part: Above) -> tuple[float, float, float]:
    return part.n, part.promised, part.made


def _limit(threshold: float) -> str:
    return f"{100 * threshold:g}%"


def _some(value: float) -> str:
    """Return a count of a thousand in words a reader takes in."""
    return "fewer than 1" if 0 < value < 0.5 else count(round(value))


def _panel(kind: str, table: Table, threshold: float, language: Language, level: float) -> dict[str, Any]:
    part = _above(table, threshold, risk=language.risk)
    made, promised = part.per_thousand(part.made), part.per_thousand(part.promised)
    low, high = (1000 * float(end) for end in wilson(part.made / part.n, part.n, level))
    what = "found" if language.risk else "wrong"
    state = "as delivered" if kind == "before" else "after repair"
    unit = "flags" if language.risk else "predictions"
    return {
        "kind": kind,
        "made": made,
        "promised": promised,
        "caption": f"{_some(made)} {what} {state}",
        "detail": f"{_some(promised).capitalize()} promised. {100 * level:g}% interval {low:.0f} to {high:.0f}; "
        f"{count(round(part.made, 1))} of {count(round(part.n, 1))} {unit}.",
        "picture": thousand(round(made), kind, f"{_some(made)} of 1,000 {what}"),
    }


def thousand(large: int, kind: str, label: str) -> Picture:
    """Return 1,000 dots, the first ones large: two patterns, not a thousand nodes."""

    def pattern(name: str, class_: str, radius: float) -> str:
        dot = tag("circle", cx=3, cy=3, r=radius, class_=class_)
        return tag("pattern", dot, id=name, width=6, height=6, patternUnits="userSpaceOnUse")

    full, rest = divmod(min(max(large, 0), 1000), 50)
    outline = (f"M0 0H300V{6 * full}H0Z" if full else "") + (
        f"M0 {6 * full}H{6 * rest}V{6 * full + 6}H0Z" if rest else ""
    )
    small, big = f"dots-{kind}-small", f"dots-{kind}-large"
    parts = [
        tag("defs", pattern(small, "off", 1.7), pattern(big, "on", 2.5)),
        tag("rect", width=300, height=120, fill=f"url(#{small})"),
    ]
    if outline:
        parts += [tag("path", d=outline, class_="clear"), tag("path", d=outline, fill=f"url(#{big})")]
    return Picture(
        tag("svg", tag("title", label), *parts, viewBox=f"0 0 {300} {120}", role="img", class_=f"icons {kind}")
    )


def _title(panels: Sequence[dict[str, Any]], named: str, language: Language) -> str:
    first, last = panels[0], panels[-1]
    if language.risk:
        text = (
            f"Flagging at {named} promises {_some(first['promised'])} per 1,000 flags and finds {_some(first['made'])}"
        )
        if len(panels) > 1:
            past = text.replace("promises", "promised").replace("finds", "found")
            text = f"{past}. Now it promises {_some(last['promised'])} and finds {_some(last['made'])}"
        return f"{text}."
    instead = "almost none" if first["promised"] < 1 else _some(first["promised"])
    if len(panels) > 1:
        return (
            f"“{named} or more” made {_some(first['made'])} errors in 1,000 instead of {instead}. "
            f"Now it promises {_some(last['promised'])} and makes {_some(last['made'])}."
        )
    return f"“{named} or more” promises {_some(first['promised'])} errors in 1,000 and makes {_some(first['made'])}."


def _row(threshold: float, tables: dict[str, Table], language: Language) -> dict[str, Any]:
    parts = {kind: _above(table, threshold, risk=language.risk) for kind, table in tables.items()}
    row: dict[str, Any] = {
        "threshold": _limit(threshold),
        "cells": {
            kind: {
                "n": count(round(part.n, 1)),
                "promised": "under 1" if 0 < part.promised < 0.5 else count(round(part.promised)),
                "made": count(round(part.made)),
            }
            for kind, part in parts.items()
        },
        "same": None,
    }
    if language.risk and "after" in tables:
        row["same"] = _limit_of(_same(tables, threshold))
    return row


def _same(tables: dict[str, Table], threshold: float) -> float:
    """Return the threshold after the repair above which as many rows lie as above this one before."""
    wanted = _above(tables["before"], threshold, risk=True).n
    after = tables["after"]
    reached = np.cumsum(after.w[::-1])
    at = min(int(np.searchsorted(reached, wanted - 1e-9)), len(after) - 1)
    return float(after.score[::-1][at])


def _limit_of(value: float) -> str:
    return percent(value, 1 if value >= 0.0095 else 2)


def auc(table: Table) -> float:
    """Return the probability that an event scores higher than a row without it; ties count half."""
    hits, misses = table.wt, table.w - table.wt
    below = np.cumsum(misses) - misses
    pairs = float(hits.sum() * misses.sum())
    return float((hits * (below + 0.5 * misses)).sum() / pairs) if pairs else float("nan")


def _price(tables: dict[str, Table], main: float, language: Language) -> dict[str, Any] | None:
    """Return the third column: what a repair costs, or which threshold does the old job."""
    named = _limit(main)
    if "after" not in tables:
        part = _above(tables["before"], main, risk=language.risk)
        doing = f"{percent(part.fraction, 0 if part.fraction > 0.02 else 1)} of predictions"
        verb = "are flagged" if language.risk else "pass"
        return {
            "title": f"{doing} {verb}",
            "lines": [f"{count(round(part.n))} of {count(round(part.total))} reach {named}."],
        }
    before, after = (_above(table, main, risk=language.risk) for table in tables.values())
    if language.risk:
        ranks = [auc(table) for table in tables.values()]
        same = abs(ranks[0] - ranks[1]) < 0.0005
        order = (
            f"The repair changes the numbers, not the order (AUC {ranks[0]:.3f} before and after)."
            if same
            else f"The repair changes the order too (AUC {ranks[0]:.3f} before, {ranks[1]:.3f} after)."
        )
        moved = f"{named} becomes {_limit_of(_same(tables, main))}: as many predictions are flagged as before."
        return {"title": "Move your thresholds", "lines": [order, moved]}
    fewer = after.fraction < before.fraction
    lines = [
        (
            f"As delivered, {share(before.fraction)} of predictions claimed {named} or more. "
            f"After repair, {share(after.fraction)} do."
        )
    ]
    if fewer:
        lines.append("The others were never that certain. The model only said so.")
    return {"title": "The price: fewer pass" if fewer else "More predictions pass", "lines": lines}


def _practice(tables: dict[str, Table], main: float, named: str, language: Language) -> str | None:
    """Return the rule in one sentence of natural counts."""
    if language.risk or "after" not in tables:
        return None
    before, after = (_above(table, main, risk=False) for table in tables.values())
    return (
        f"a rule “accept at {named} or more” took {count(round(before.n))} predictions, promised "
        f"{_some(before.promised)} errors, and made {count(round(before.made))}. With repaired confidence it takes "
        f"{count(round(after.n))}, promises {_some(after.promised)}, and makes {count(round(after.made))}; the other "
        f"{count(round(after.total - after.n))} go to a person."
    )
