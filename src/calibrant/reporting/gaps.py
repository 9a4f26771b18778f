"""Gaps of classes and of groups, before and after, with intervals, words and one scale per table."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from calibrant._typing import Floats
from calibrant.core.counts import family_pvalues
from calibrant.core.moments import wilson
from calibrant.core.results import Interval
from calibrant.core.text import count, first_upper, percent, points
from calibrant.inference.slices import Slice
from calibrant.inference.verdict import ALPHA, rates, signed
from calibrant.reporting.diagram import HEADLINE
from calibrant.reporting.downloads import Download
from calibrant.reporting.funnel import LIMITS, funnel
from calibrant.reporting.svg import WIDTHS
from calibrant.reporting.tracks import Mark, Scale, scale_of
from calibrant.reporting.words import Language, joined

__all__ = ["MANY", "ClassSums", "class_section", "class_sums", "group_section"]

#: Classes above which a funnel takes the place of the whole table, and the rows that stay.
MANY = 20
_FARTHEST = 8


@dataclass(frozen=True)
class ClassSums:
    """Rows, claims and hits of each class: those it was predicted for, or its own probability over all rows."""

    n: Floats
    said: Floats
    seen: Floats
    #: Σ s(1 − s): the variance of the hits of a calibrated model.
    noise: Floats
    #: Rows likelier than not, the misses expected among them and their variance (see `ClassCounts`).
    likely: Floats
    #: Whether rows are counted by predicted class.
    predicted: bool

    @property
    def gap(self) -> Floats:
        """What was said minus what was seen, per row."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.n > 0, (self.said - self.seen) / self.n, 0.0)

    @property
    def mean_noise(self) -> float:
        """Mean of s(1 − s) over all rows."""
        return float(self.noise.sum() / self.n.sum())

    def ends(self, level: float) -> tuple[Floats, Floats]:
        """Return the ends of the interval of each gap: Wilson's interval of the rate around the mean claim."""
        n = np.where(self.n > 0, self.n, 1.0)  # classes without rows are not shown
        low, high = wilson(np.clip(self.seen / n, 0.0, 1.0), n, level)
        return self.said / n - high, self.said / n - low

    def found(self) -> frozenset[int]:
        """Return the classes whose gap chance does not explain, corrected for their number."""
        used = np.flatnonzero(self.n > 0)
        pvalues = family_pvalues(self.said[used], self.noise[used], self.seen[used], likely=self.likely[:, used])
        return frozenset(used[pvalues < ALPHA].tolist())


def class_sums(evidence: Any) -> ClassSums | None:
    """Collect the classes of evidence; None where they are not known one by one."""
    k = evidence.n_classes
    if k < 3:
        return None
    if getattr(evidence, "has_vectors", False) and evidence.counts:
        w = np.ones(evidence.n) if evidence.weights is None else evidence.weights
        s, hit, top = evidence.top_score.astype(np.float64), evidence.hit, evidence.top
        sure = w * (s > 0.5)
        columns = (w, w * s, w * hit, w * s * (1 - s), sure, sure * (1 - s), sure * (1 - s) * s)
        n, said, seen, noise, *likely = (np.bincount(top, values, k).astype(np.float64) for values in columns)
        return ClassSums(n, said, seen, noise, np.array(likely), predicted=True)
    counts = evidence.class_counts()
    if counts is None:
        return None
    total = np.full(k, float(evidence.total))
    return ClassSums(total, counts.expected, counts.observed, counts.variance, counts.likely, predicted=False)


def _verdict(gap: float, low: float, high: float, *, found: bool, language: Language, after: bool) -> tuple[str, bool]:
    """Return the words for a row, and whether they are news; a direction only if the interval excludes 0."""
    around = low <= 0 <= high
    if not found:
        return ("No gap found" if around else "Could be chance"), False
    if around:
        return "Mixed", True
    side = language.side(gap)
    return (f"Still {side.lower()}" if after and gap > 0 and not language.risk else side), True


def _sides(rows: Sequence[Mapping[str, Any]]) -> set[int]:
    """Return the directions of rows that are off: 1 too much, −1 too little, 0 mixed."""
    return {0 if row["verdict"] == "Mixed" else 1 if row["gap"] > 0 else -1 for row in rows}


def class_section(
    states: Mapping[str, ClassSums], names: Sequence[Any], level: float, language: Language
) -> dict[str, Any] | None:
    """Return the section on classes: a table with intervals, or a funnel and the farthest ones."""
    last_kind, last = list(states.items())[-1]
    used = np.flatnonzero(last.n > 0)
    if not len(used):
        return None
    ends = {kind: sums.ends(level) for kind, sums in states.items()}
    found = last.found()
    noise = np.where(last.n > 0, np.sqrt(last.noise) / np.maximum(last.n, 1e-300), 0.0)
    rows: list[dict[str, Any]] = []
    for i in map(int, used):
        gap, low, high = float(last.gap[i]), float(ends[last_kind][0][i]), float(ends[last_kind][1][i])
        words, news = _verdict(gap, low, high, found=i in found, language=language, after="after" in states)
        rows.append(
            {
                "index": i,
                "name": str(names[i]),
                "short": _short(str(names[i])),
                "n": float(last.n[i]),
                "rate": float(last.seen[i] / last.n[i]),
                "gaps": {kind: float(sums.gap[i]) for kind, sums in states.items()},
                "low": {kind: float(ends[kind][0][i]) for kind in states},
                "high": {kind: float(ends[kind][1][i]) for kind in states},
                "gap": gap,
                "band": (-1.96 * float(noise[i]), 1.96 * float(noise[i])),
                "verdict": words,
                "outside": news,
            }
        )
    far = sorted(rows, key=lambda r: -abs(r["gap"]) / (noise[r["index"]] or 1e-9))
    many = len(used) > MANY
    shown = far[:_FARTHEST] if many else sorted(rows, key=lambda r: -r["gap"])
    section: dict[str, Any] = {
        "title": _funnel_title(rows, last, after="after" in states)
        if many and last.predicted
        else _class_title(far, len(used), after="after" in states),
        "sub": _class_sub(last, len(used), many=many),
        "many": many,
        "heading": f"The {_FARTHEST} classes farthest outside" if many else None,
        "first": "When it predicts" if last.predicted else "Class",
        "counted": "Predictions" if last.predicted else "Rows",
        "rate": "Right" if last.predicted else "Happens",
        "states": list(states),
        "key_band": True,
        "skipped": len(names) - len(used),
        "all_rows": rows,
        "watch": _watch(rows, language) if "after" in states else None,
        "download": _class_download(rows, states),
        **_table(shown, list(states), language),
    }
    if many and last.predicted:
        for row in rows:
            row["title"] = f"{row['name']}: {count(row['n'])} predictions, gap {signed(row['gap'])} points"
        kind, title = last_kind, "Gap of each predicted class against its number of predictions"
        section["funnel"] = [funnel(rows, last.mean_noise, kind, width=width, title=title) for width in WIDTHS]
    return section


def _short(name: str, most: int = 24) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"


def _quoted(rows: Sequence[dict[str, Any]]) -> str:
    return joined([f"“{_short(row['name'])}”" for row in rows])


def _class_title(far: Sequence[dict[str, Any]], k: int, *, after: bool) -> str:
    off = [row for row in far if row["outside"]]
    still = " after the repair" if after else ""
    if not off:
        return f"No class is off by more than chance allows{still}"
    if len(off) > 3:
        return f"{count(len(off))} of {count(k)} classes are off by more than chance allows{still}"
    sides = _sides(off)
    be = ("stays" if after else "is") if len(off) == 1 else ("stay" if after else "are")
    word = "too sure" if sides == {1} else "too cautious" if sides == {-1} else "off"
    return f"{_quoted(off)} {be} {word}{still}"


def _funnel_title(rows: Sequence[dict[str, Any]], sums: ClassSums, *, after: bool) -> str:
    """Return how many of many classes leave the outer limits, beside how many would by chance; mark them."""
    limit, k = LIMITS[0][0] * sums.mean_noise**0.5, len(rows)
    for row in rows:
        row["beyond"] = abs(row["gap"]) > limit / row["n"] ** 0.5
    off, by_chance = sum(row["beyond"] for row in rows), 0.002 * k
    still = " after the repair" if after else ""
    if not any(row["outside"] for row in rows) and off <= max(1, 0.005 * k):
        return f"No class is off by more than chance allows{still}"
    usual = "fewer than 1" if by_chance < 1 else f"about {count(round(by_chance))}"
    return f"{count(off)} of {count(k)} classes leave the 99.8% limits{still}; by chance {usual} would"


def _class_sub(sums: ClassSums, k: int, *, many: bool) -> str:
    if many and sums.predicted:
        return (
            "Each dot is one predicted class: average confidence minus fraction right, against the number of "
            "predictions. Small classes scatter more, so the limits widen to the left. Among so many classes some look "
            "far off by luck alone; a verdict on a single class allows for that."
        )
    what = (
        "For each predicted class: average confidence minus fraction right"
        if sums.predicted
        else "For each class: its average probability minus how often it happens"
    )
    return (
        f"{what}, in percentage points. With {count(k)} classes, an interval can miss zero by chance, so verdicts are "
        "corrected for that."
    )


def _watch(rows: Sequence[dict[str, Any]], language: Language) -> str | None:
    """Return the line of the recommendation that names up to three classes to check by hand."""
    off = sorted((row for row in rows if row["outside"]), key=lambda row: -abs(row["gap"]))
    if not off or len(off) > 3:
        return None
    sizes = sorted(abs(row["gap"]) for row in off)
    low, high = points(sizes[0]), points(sizes[-1])
    size = f"{low} points" if low == high else f"{low} to {high} points"
    word = language.side(off[0]["gap"]).lower() if _sides(off) in ({1}, {-1}) else "off"
    they = "it stays" if len(off) == 1 else "they stay"
    return f"Check predictions of {_quoted(off)} by hand: {they} {size} {word}."


def _table(rows: Sequence[dict[str, Any]], states: Sequence[str], language: Language) -> dict[str, Any]:
    """Return rows ready to print, with their bars on one scale."""
    values = [value for row in rows for value in row["gaps"].values()]
    ends = sorted(abs(end) for row in rows for end in (*row["low"].values(), *row["high"].values()))
    usual = ends[int(0.9 * (len(ends) - 1))] if ends else 0.0
    inside = [end for row in rows for end in (*row["low"].values(), *row["high"].values()) if abs(end) <= usual]
    bands = [end for row in rows for end in row.get("band") or () if abs(end) <= max(usual, *map(abs, values))]
    scale = scale_of([*values, *inside, *bands])
    digits = 2 if language.risk and all(abs(value) < 0.1 for value in values) else 1
    return {"rows": [_printed(row, states, scale, digits) for row in rows], "scale": scale}


def _gap(value: float, digits: int) -> str:
    """Return a gap in points with its sign and a fixed number of decimals."""
    text = f"{100 * value:+.{digits}f}"
    return text.lstrip("+-") if float(text) == 0 else text.replace("-", "−")


def _printed(row: Mapping[str, Any], states: Sequence[str], scale: Scale, digits: int) -> dict[str, Any]:
    last = states[-1]
    marks = [Mark(row["gaps"][kind], row["low"][kind], row["high"][kind], kind) for kind in states]
    return {
        **row,
        "count": count(round(row["n"], 1)),
        "rate_text": percent(row["rate"], 1) if row.get("rate") is not None else "",
        "before": _gap(row["gaps"][states[0]], digits),
        "now": _gap(row["gaps"][last], digits),
        "span": f"{_gap(row['low'][last], digits)} to {_gap(row['high'][last], digits)}",
        "track": scale.track(marks, row.get("band")),
    }


def _class_download(rows: Sequence[Mapping[str, Any]], states: Mapping[str, ClassSums]) -> Download:
    columns = [
        "class",
        "n",
        "rate",
        *(f"gap_{kind}{end}" for kind in states for end in ("", "_low", "_high")),
        "verdict",
    ]
    return Download.of(
        "classes",
        columns,
        [
            [
                row["name"],
                row["n"],
                row["rate"],
                *(v for kind in states for v in (row["gaps"][kind], row["low"][kind], row["high"][kind])),
                row["verdict"],
            ]
            for row in rows
        ],
    )


#: From facts to what was observed, what was predicted, and the interval of their difference.
Read: TypeAlias = Callable[[Any], tuple[float, float, Interval | None]]


def _read(facts: Any) -> tuple[float, float, Interval | None]:
    return facts.observed, facts.predicted, facts.gap


def _group_rows(states: Mapping[str, Sequence[Slice]], language: Language, read: Read) -> list[dict[str, Any]]:
    kinds = list(states)
    rows = []
    for parts in zip(*states.values(), strict=True):
        last: Slice = parts[-1]
        seen = {kind: read(part.evaluation.facts) for kind, part in zip(kinds, parts, strict=True)}
        gaps = {kind: predicted - observed for kind, (observed, predicted, _) in seen.items()}
        lows = {kind: gaps[kind] if one[2] is None else one[2].low for kind, one in seen.items()}
        highs = {kind: gaps[kind] if one[2] is None else one[2].high for kind, one in seen.items()}
        now = kinds[-1]
        found = last.corrected is not None and last.corrected < ALPHA
        ends = (-math.inf, math.inf) if seen[now][2] is None else (lows[now], highs[now])
        words, news = _verdict(gaps[now], *ends, found=found, language=language, after="after" in states)
        rows.append(
            {
                "name": ", ".join(f"{first_upper(str(key))}: {value}" for key, value in last.by.items()),
                "short": ", ".join(str(value) for value in last.by.values()),
                "n": float(last.evaluation.facts.n),
                "rate": seen[now][0],
                "gap": gaps[now],
                "gaps": gaps,
                "low": lows,
                "high": highs,
                "band": None,
                "verdict": "Not tested" if last.corrected is None else words,
                "outside": news,
                "observed": seen[now][0],
                "predicted": {kind: one[1] for kind, one in seen.items()},
                "corrected": last.corrected,
            }
        )
    return rows


def group_section(
    states: Mapping[str, Sequence[Slice]], total: float, language: Language, read: Read = _read
) -> dict[str, Any] | None:
    """Return the section on groups: a dot plot with intervals; `states` holds the slices before and after."""
    first = next(iter(states.values()))
    if not first:
        return None
    kinds = list(states)
    rows = _group_rows(states, language, read)
    columns = list(dict.fromkeys(", ".join(map(str, part.by)) for part in first))
    tested = any(row["corrected"] is not None for row in rows)
    correction = f" Verdicts are corrected for looking at {count(len(rows))} groups." if tested else ""
    what = "Predicted minus happens" if language.risk else "Gap"
    download = Download.of(
        "groups",
        [
            "group",
            "n",
            "observed",
            *(f"{k}_{v}" for k in kinds for v in ("predicted", "gap", "gap_low", "gap_high")),
            "corrected_p",
        ],
        [
            [r["name"], r["n"], r["observed"]]
            + [v for k in kinds for v in (r["predicted"][k], r["gaps"][k], r["low"][k], r["high"][k])]
            + [r["corrected"]]
            for r in rows
        ],
    )
    section: dict[str, Any] = {
        "title": _group_title(rows, total, language, after="after" in states),
        "sub": f"{what} in percentage points for the groups in {'column' if len(columns) == 1 else 'columns'} "
        f"{joined(columns)}. All groups share one scale.{correction}",
        "first": "Group",
        "counted": "Predictions",
        "rate": "Inside" if language.claims == "intervals" else "Happens" if language.risk else "Right",
        "states": kinds,
        "key_band": False,
        "download": download,
        "more": 0,
    }
    order = rows if len(rows) <= 40 else sorted(rows, key=lambda r: (not r["outside"], -abs(r["gap"])))
    section["more"] = max(0, len(rows) - 40)
    section |= _table(order[:40], kinds, language)
    if language.risk:
        for row in section["rows"]:
            row["rate_text"] = rates(row["observed"], row["predicted"][kinds[-1]])[0]
    return section


def _group_title(rows: Sequence[dict[str, Any]], total: float, language: Language, *, after: bool) -> str:
    off = sorted((row for row in rows if row["outside"]), key=lambda row: -abs(row["gap"]))
    still = " after the repair" if after else ""
    if not off:
        return f"No group is off by more than chance allows{still}"
    large = [row for row in off if row["n"] >= HEADLINE * total]
    if not large:
        small = off[0]
        more = f" and {count(len(off) - 1)} more" if len(off) > 1 else ""
        return f"Off{still}: a small group, “{_short(small['short'])}” ({count(small['n'])} predictions){more}"
    if len(off) == len(rows) and _sides(off) in ({1}, {-1}) and len(rows) > 1:
        return f"Every group is {language.side(off[0]['gap']).lower()}{still}"
    top = large[0]
    more = "" if len(off) == 1 else f"; {count(len(off))} of {count(len(rows))} groups are off"
    if 1 < len(off) <= 3:
        names = [
            f"“{_short(row['short'])}”" + ("" if row in large else f" ({count(row['n'])} predictions)") for row in off
        ]
        return f"{len(off)} of {count(len(rows))} groups are off{still}: {joined(names)}"
    how = f"{language.side(top['gap']).lower()} by {points(top['gap'])} points"
    if _sides([top]) == {0}:
        how = "right only on average"
    return f"“{_short(top['short'])}” is {how}{still}{more}"
