"""`add_day`: add a day to a store, compare windows, and raise an alarm with a stated false-alarm rate."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from calibrant._typing import RNG, Ints
from calibrant.core.clusters import FEWEST
from calibrant.core.inputs import check_names
from calibrant.core.options import check_count, check_number, check_share
from calibrant.core.results import Record
from calibrant.core.tables import Pairs
from calibrant.core.text import count
from calibrant.errors import CalibrantError, InputError, input_error
from calibrant.inference.facts import judged
from calibrant.monitoring.openmetrics import exposition
from calibrant.monitoring.sequential import log_evalue, log_increments, threshold
from calibrant.monitoring.store import DEFAULTS, Day, Store, date_of, is_store
from calibrant.monitoring.units import UNITS, day_increments, log_detector, unit_increments
from calibrant.monitoring.windows import Window, compare_windows
from calibrant.summary.evidence import left_out_notes
from calibrant.summary.summary import Summary
from calibrant.views import TopLabel, View

__all__ = ["MonitorReport", "Window", "add_day", "check_day", "check_settings", "compare_windows", "store_view"]

SCHEMA = 1
#: Share of unusable rows, and factor of the usual number of rows, that raise an alarm of their own.
REJECTED_SHARE = 0.05
VOLUME = 4.0
#: Numbers of each day kept for charts.
CHART = ("ece", "ks", "accuracy", "confidence", "nll", "brier")


#: What the promise of an alarm rests on, by the unit of the bets.
_ASSUMED = {
    "row": "rows are taken as independent given their scores",
    "cluster": "rows of a cluster may depend on each other; clusters and days are taken as independent",
    "day": "rows of a day may depend on each other; days are taken as independent",
}


@dataclass(frozen=True)
class MonitorReport(Record):
    """State of the monitor after the latest day."""

    name: str
    n: int
    days: int
    alarm: bool
    #: First day whose e-value reached the threshold.
    since: str | None
    log_evalue: float
    log_threshold: float
    false_alarm_rate: float
    tolerance: float
    window: Window | None
    history: tuple[dict[str, Any], ...]
    #: Everything that asks for attention: ``kind`` calibration, rejected or volume, with its numbers.
    alarms: tuple[dict[str, Any], ...] = ()
    #: Rows of the latest day that could not be used, by reason.
    rejected: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    #: What a bet is made on: row (rows are taken as independent given their scores), cluster or day.
    unit: str = "row"
    #: Days that a calibrated model goes without an alarm, on average at least; None: the rate of its whole life counts.
    run_length: float | None = None
    #: The slice that this monitor watches (``{"model": "a"}``), if there are several in the store.
    by: dict[str, Any] | None = None
    #: The class the bets are on, where there are two.
    event: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the stable JSON form."""
        return {"schema": SCHEMA, **super().to_dict()}

    def to_openmetrics(self) -> str:
        """Return the state as OpenMetrics text."""
        return exposition([self])

    @property
    def promise(self) -> str:
        """How often a calibrated model raises the alarm."""
        if self.run_length is not None:
            return f"raises it on average at most once in {count(self.run_length)} days"
        return f"raises it, now or later, with probability at most {100 * self.false_alarm_rate:g}%"

    @property
    def assumption(self) -> str:
        """What that rests on."""
        return _ASSUMED[self.unit]

    def __str__(self) -> str:
        state = f"ALARM since {self.since}" if self.alarm else "no alarm"
        date = self.history[-1].get("date") if self.history else None
        name = self.name if date is None or date in self.name else f"{self.name} ({date})"
        lines = [
            f"{name}: {count(self.n)} predictions, day {self.days} of the monitor",
            (
                f"{state}: log e-value {self.log_evalue:.2f}, alarm at {self.log_threshold:.2f} "
                f"(a model calibrated within {100 * self.tolerance:g} points {self.promise}; {self.assumption})"
            ),
        ]
        lines += [alarm["text"] for alarm in self.alarms if alarm["kind"] != "calibration"]
        if self.window is not None:
            lines.append(str(self.window))
        lines += [f"Note: {note}." for note in self.notes]
        return "\n".join(lines)


def add_day(
    store: str | Path,
    summary: Summary | None = None,
    *,
    name: str | None = None,
    window: int = 7,
    alpha: float | None = None,
    tolerance: float | None = None,
    unit: str | None = None,
    run_length: float | None = None,
    clusters: tuple[Pairs, Ints] | None = None,
    restart: bool = False,
    date: str | None = None,
    replace: bool = False,
    rng: RNG = 0,
) -> MonitorReport:
    """Add a day's summary to a store and say how things stand; without a summary only say it.

    Parameters
    ----------
    store : str or Path
        Directory of the monitor; made on the first day.
    summary : Summary, optional
        The day's predictions.
    name : str, optional
        Name of the day, unique in the store; needed with `summary`.
    window : int, default 7
        Days compared with as many days before them.
    alpha : float, optional
        False-alarm rate over the whole life of the monitor, fixed when the store is made; default 0.01.
    tolerance : float, optional
        Miscalibration of any score that is still allowed (0.02 = two points), fixed when the store is made;
        default 0. No real model is perfect: with millions of rows a day set it to what you can accept.
    unit : {"row", "day", "cluster"}, optional
        What a bet is made on, fixed when the store is made; default rows, taken as independent given their scores.
        Whole days may hold rows that depend on each other in any way; so may clusters, which `clusters` names.
    run_length : float, optional
        Days that a calibrated model goes without an alarm, on average at least, fixed when the store is made. Then the
        alarm is that of an e-detector: a break on day 100 is found as fast as one on day 1. Default: the false-alarm
        rate of the whole life, `alpha`.
    clusters : pair of Pairs and array, optional
        Pairs of the day's rows in the store's view (`store_view`) and the number of the cluster of each, for
        ``unit="cluster"``.
    restart : bool, default False
        Start anew with this day (after a recalibration); it has its own false-alarm rate, and it may have other
        classes than the days before.
    date : str, optional
        When the predictions were made, in ISO form; default the date in `name`, if it holds one. Windows and history
        are in the order of dates, so a late day takes its own place; the e-value takes days as they arrive, because
        its promise holds for what was known when.
    replace : bool, default False
        Take the place of the day of this name, if the store holds it with other predictions.
    rng : None, int or Generator
        Randomness of the window's p-value.

    Returns
    -------
    MonitorReport
        ``.alarm`` is what the command line turns into exit code 3.

    Notes
    -----
    Two classes are judged by the probability of class 1, more and pairs by the top label, like everywhere; a store of
    an earlier version goes on with the top label, on which its bets began.

    44 bets (a shift or a slope of the log-odds, small to large, both signs), each starting on every day with
    a fraction fixed beforehand, hold all the wealth; the e-value is its sum. If t given s is Bernoulli(p) with
    abs(p − s) ≤ tolerance, it is a supermartingale and P(ever ≥ 1/α) ≤ α (Ville's inequality), whatever the
    number and the size of the days.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from calibrant import Summary
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(1000)
    >>> day = Summary(2).update(rng.random(1000) < p, p)
    >>> add_day(tempfile.mkdtemp(), day, name="monday").alarm
    False
    """
    check_settings(alpha, tolerance, unit, run_length, window)
    given = (("alpha", alpha), ("tolerance", tolerance), ("unit", unit), ("run_length", run_length))
    wishes = {key: value for key, value in given if value is not None}
    fresh = not is_store(store)
    book = Store(store, DEFAULTS | wishes if fresh else wishes)
    settings = book.settings
    if summary is not None:
        name, when = _checked_name(name, summary), None if date is None else _checked_date(date)
        book.add(name, partial(_made, summary, book, name, when, clusters, restart), date=when, replace_day=replace)
    days = book.ordered()
    if not days:
        raise input_error("store", "monitor", "hold at least one day", "none", "give a file to add")
    told = next((day for day in days if day.name == name), days[-1])
    return _report(days, settings, window, rng, told)


def _made(
    summary: Summary, book: Store, name: str, when: str | None, clusters: tuple[Pairs, Ints] | None, restart: bool
) -> tuple[Summary, dict[str, Any]]:
    if not restart:
        summary = _fitting(summary, book, name, when)
        restart = any(day.name == name and day.facts["restart"] for day in book.days())  # it may be replaced
    return summary, _facts(summary, book.settings, clusters, restart=restart)


def store_view(settings: dict[str, Any] | str | Path, evidence: Any) -> View:
    """Return the view a store (perhaps not there yet) bets on: the judged one, or the top label if it began so."""
    if not isinstance(settings, dict):
        settings = Store(settings).settings if is_store(settings) else {"view": "judged"}
    return judged(evidence) if settings.get("view") == "judged" else TopLabel()


def check_settings(
    alpha: float | None, tolerance: float | None, unit: str | None, run_length: float | None, window: int
) -> None:
    """Refuse settings that no monitor has."""
    for label, value in (("alpha", alpha), ("tolerance", tolerance)):
        rule, hint = "lie between 0 and 1", "for example alpha=0.01"
        if value is not None and not (label == "tolerance" and check_number(value, label, "monitor", rule, hint) == 0):
            check_share(value, label, "monitor", "0.01")
    check_count(window, "window", "monitor", 1, "7")
    if unit is not None:
        check_names(unit, UNITS, "unit", "monitor")
    if run_length is not None:
        rule, hint = "be a number of days above 1", "for example 1000"
        if not check_number(run_length, "run_length", "monitor", rule, hint) > 1:
            raise input_error("run_length", "monitor", rule, repr(run_length), hint)


def check_day(
    store: Path | None, summary: Summary, *, name: str, date: str | None, restart: bool, replace: bool
) -> None:
    """Refuse what `add_day` would refuse, before anything is written; `store` is None for one that is not there yet."""
    _checked_name(name, summary)
    when = None if date is None else _checked_date(date)
    if store is None or not (store / "store.json").exists():
        return
    book = Store(store)
    book.twin(name, summary if restart else _fitting(summary, book, name, when), replace_day=replace)


def _checked_name(name: str | None, summary: Summary) -> str:
    if not name:
        raise input_error("name", "monitor", "name the day", repr(name), "for example {name=2026-11-15}")
    if summary.fractional:
        raise input_error(
            "sample_weight", "monitor", "be whole numbers: the test counts rows", "fractional weights", "drop them"
        )
    return name


def _checked_date(date: str) -> str:
    found = date_of(date)
    if found is None:
        raise input_error("date", "monitor", "be an ISO date or time", repr(date), "for example 2026-11-15")
    return found


def _fitting(summary: Summary, book: Store, name: str, when: str | None) -> Summary:
    """Return the summary with its classes in the order of the day that it repeats, or else follows.

    Other classes are refused before writing. A night from before a restart may come late, or again.
    """
    days, date = book.ordered(), when or date_of(name)
    others = [day for day in days if day.name != name]
    before = [day for day in others if not (date and day.date and day.date > date)] or others[:1]
    known = (day.summary() for day in [*(day for day in days if day.name == name), *before[-1:]])
    return fitting(summary, known, must=bool(before))


def fitting(summary: Summary, known: Iterable[Summary], *, must: bool = True) -> Summary:
    """Return the summary with its classes in the order of the first known one that has them; none has: refused."""
    for one in known:
        try:
            return summary.aligned(one)
        except InputError as error:
            problem, rule = error, f"have the classes of the store ({_classes(one)})"
    if not must:
        return summary
    raise input_error("data", "monitor", rule, _classes(summary), "{restart} with this day") from problem


def _classes(summary: Summary) -> str:
    if summary.pairs:
        return "top-label pairs"
    return ", ".join(map(str, summary.classes)) if summary.classes else f"{summary.n_classes} numbered classes"


def _facts(
    summary: Summary, settings: dict[str, Any], clusters: tuple[Pairs, Ints] | None, *, restart: bool
) -> dict[str, Any]:
    if not summary.n:
        raise input_error("summary", "monitor", "hold at least one row", "none", "check the day's file")
    (table,) = summary.tables(store_view(settings, summary))
    unit, tolerance = settings.get("unit", "row"), settings["tolerance"]
    if (unit == "cluster") != (clusters is not None):
        rule = "name the clusters of rows" if unit == "cluster" else "be left out"
        got = "none" if clusters is None else "some"
        raise input_error("groups", "monitor", f"{rule}: this store bets per {unit}", got, "or start a new store")
    if clusters is not None:
        pairs, numbers = clusters
        weight = np.ones(len(numbers)) if pairs.weight is None else pairs.weight
        gains = unit_increments(pairs.score.astype(np.float64), weight * pairs.outcome, weight, numbers, tolerance)
    else:
        gains = day_increments(table, tolerance) if unit == "day" else log_increments(table, tolerance)
    kept = [m for m in CHART if not (summary.pairs and m in ("nll", "brier"))]
    values = {m: summary.metric(m) for m in kept}
    event = {}
    if not store_view(settings, summary).top_label_only:  # of two classes the bets are on the event
        event = {"event": str((summary.classes or (0, 1))[1])}
        values |= {"predicted": float(table.ws.sum() / table.total), "observed": float(table.wt.sum() / table.total)}
    return {
        "gains": gains.tolist(),
        "values": {m: value if math.isfinite(value) else None for m, value in values.items()},
        "rejected": summary.rejected,
        **({"skipped": list(summary.skipped)} if summary.skipped else {}),
        "restart": restart,
        **event,
    }


def _report(days: Sequence[Day], settings: dict[str, Any], window: int, rng: RNG, told: Day) -> MonitorReport:
    """Say how things stand; rows left out are told of the day that was added, be it late, or else of the latest."""
    start = max([i for i, day in enumerate(days) if day.facts["restart"]], default=0)
    watch = days[start:]
    arrived = sorted(watch, key=lambda day: day.number)
    run_length = settings.get("run_length")
    wealth = log_evalue if run_length is None else log_detector
    path = wealth([np.array(day.facts["gains"]) for day in arrived])
    evalues = {day.name: float(value) for day, value in zip(arrived, path, strict=True)}
    limit = threshold(settings["alpha"] if run_length is None else 1.0 / run_length)
    crossed = np.flatnonzero(path >= limit)
    since = arrived[int(crossed[0])].name if len(crossed) else None
    history = tuple(
        {
            "name": day.name,
            "date": day.date,
            "n": day.n,
            "log_evalue": evalues[day.name],
            "rejected": sum(day.facts.get("rejected", {}).values()),
            **day.facts["values"],
        }
        for day in watch
    )
    compared, notes = _window(watch, window, settings, rng)
    left = left_out_notes(told.facts.get("rejected", {}), told.facts.get("skipped", ()))
    notes = (*(f"{told.name}: {note}" for note in left), *notes)
    calibration = {
        "kind": "calibration",
        "since": since,
        "value": float(path[-1]),
        "limit": limit,
        "text": f"ALARM since {since}: calibration has broken ({_ASSUMED[settings.get('unit', 'row')]})",
    }
    return MonitorReport(
        watch[-1].name,
        watch[-1].n,
        len(watch),
        since is not None,
        since,
        float(path[-1]),
        limit,
        settings["alpha"],
        settings["tolerance"],
        compared,
        history,
        (*([] if since is None else [calibration]), *data_alarms(history)),
        dict(watch[-1].facts.get("rejected", {})),
        notes,
        settings.get("unit", "row"),
        run_length,
        event=watch[-1].facts.get("event"),
    )


def data_alarms(history: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what is odd about the rows of the latest day: too many that cannot be used, far fewer or more than usual.

    Volume is compared with the median of the days before it (up to 28, at least three).

    Examples
    --------
    >>> days = [{"name": str(i), "n": 1000, "rejected": 0} for i in range(4)]
    >>> [alarm["kind"] for alarm in data_alarms([*days, {"name": "x", "n": 100, "rejected": 20}])]
    ['rejected', 'volume']
    """
    last = history[-1]
    rows = last["n"] + last["rejected"]
    share = last["rejected"] / rows if rows else 0.0
    found = []
    if share > REJECTED_SHARE:
        text = f"ALARM: {100 * share:.1f}% of the rows of {last['name']} cannot be used"
        found.append({"kind": "rejected", "since": last["name"], "value": share, "limit": REJECTED_SHARE, "text": text})
    before = [day["n"] + day["rejected"] for day in history[-29:-1]]
    usual = float(np.median(before)) if len(before) >= 3 else 0.0
    if usual and not usual / VOLUME <= rows <= usual * VOLUME:
        text = f"ALARM: {last['name']} has {count(rows)} rows, the days before {count(round(usual))} each"
        found.append({"kind": "volume", "since": last["name"], "value": rows / usual, "limit": VOLUME, "text": text})
    return found


def _window(
    watch: Sequence[Day], window: int, settings: dict[str, Any], rng: RNG
) -> tuple[Window | None, tuple[str, ...]]:
    """Compare the latest days with those before; None with a note where they do not add up."""
    if len(watch) < 2:
        return None, ()
    size = min(window, len(watch) // 2)
    current, reference = watch[-size:], watch[-2 * size : -size]
    try:
        new, old = _sum(current), _sum(reference)
        new = new.aligned(old)
        names = [d.name for d in reference], [d.name for d in current]
        alone = settings.get("unit", "row") == "row"
        days = [[] if alone else [day.summary().aligned(old) for day in side] for side in (reference, current)]
        few = not alone and 2 * size < FEWEST
        note = (f"{2 * size} days are too few to test the window: at least {FEWEST} are needed",) * few
        return compare_windows(old, new, *names, view=store_view(settings, new), days=(days[0], days[1]), rng=rng), note
    except CalibrantError as error:
        return None, (f"no window: the days do not add up ({str(error).rstrip('.')})",)


def _sum(days: Sequence[Day]) -> Summary:
    total = days[0].summary()
    for day in days[1:]:
        total = total + day.summary().aligned(total)
    return total
