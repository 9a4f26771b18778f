"""One store, many models: every model has days and e-values of its own, and all of them share one false-alarm rate."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from calibrant._typing import RNG
from calibrant.core.arguments import check_options
from calibrant.core.results import Record
from calibrant.core.text import count
from calibrant.core.weights import observations
from calibrant.errors import FileError, InputError, input_error
from calibrant.monitoring.days import SCHEMA, MonitorReport, add_day, check_day, check_settings, fitting
from calibrant.monitoring.openmetrics import exposition
from calibrant.monitoring.store import FAMILY, Store, is_store, link
from calibrant.summary.evidence import left_out_notes
from calibrant.summary.keys import from_typed, order, typed
from calibrant.summary.summary import REASONS, Summary

__all__ = ["FamilyReport", "add_models", "family_columns"]

#: Models that the text names at most.
_NAMED = 20


@dataclass(frozen=True)
class FamilyReport(Record):
    """State of the monitors of many models after the latest day."""

    name: str
    n: int
    by: tuple[str, ...]
    #: Whether any model has broken; the rate below is that of one false alarm or more among all of them.
    alarm: bool
    false_alarm_rate: float
    models: tuple[MonitorReport, ...]
    #: Everything that asks for attention, with the model it is about.
    alarms: tuple[dict[str, Any], ...] = ()
    #: Models of the store without rows on this day.
    absent: tuple[dict[str, Any], ...] = ()
    notes: tuple[str, ...] = ()
    #: Rows of the days just added, or else of the latest, that could not be used, by reason.
    rejected: dict[str, int] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the stable JSON form."""
        models = [model.to_dict() for model in self.models]
        return {"schema": SCHEMA, **super().to_dict(), "models": models}

    def to_openmetrics(self) -> str:
        """Return the state as OpenMetrics text, one sample a model."""
        return exposition(self.models)

    def __str__(self) -> str:
        broken = [model for model in self.models if model.alarm]
        head = f"{self.name}: {count(self.n)} predictions of {count(len(self.models))} models by {', '.join(self.by)}"
        state = f"ALARM: {count(len(broken))} of them broken" if broken else "no alarm"
        rate = f"at most {100 * self.false_alarm_rate:g}% in all, as much again after a restart"
        promise = f"calibrated models ever raise one with probability {rate}"
        lines = [head, f"{state} ({promise})"]
        lines += [f"  {_shown(alarm['by'])}: {alarm['text']}" for alarm in self.alarms[:_NAMED]]
        if len(self.alarms) > _NAMED:
            lines.append(f"  and {count(len(self.alarms) - _NAMED)} more alarms (JSON holds all)")
        if self.absent:
            more = ", …" if len(self.absent) > _NAMED else ""
            lines.append(f"Without rows: {', '.join(map(_shown, self.absent[:_NAMED]))}{more}")
        return "\n".join([*lines, *(f"Note: {note}." for note in self.notes)])


def _shown(by: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in by.items())


def family_columns(store: str | Path) -> tuple[str, ...]:
    """Return the columns that name the models of a store; none for a store of one model or a new one."""
    return tuple(Store(store).settings.get("by", ())) if is_store(store) else ()


def share_of(alpha: float, place: int) -> float:
    """Return the false-alarm rate of the model that came as number `place`; those of all, however many, add to alpha.

    Examples
    --------
    >>> [round(share_of(0.01, place), 6) for place in (1, 2, 3)]
    [0.005, 0.001667, 0.000833]
    """
    return alpha / (place * (place + 1.0))


class _Family:
    """The models of a store in the order in which they came: one small file and one folder of days each."""

    def __init__(self, store: str | Path, settings: dict[str, Any]) -> None:
        self.store = Store(store, settings)
        self.path = self.store.path / FAMILY
        self.settings = self.store.settings

    def models(self) -> dict[tuple[Any, ...], int]:
        """Return the place of every model."""
        found: dict[tuple[Any, ...], int] = {}
        for file in sorted(self.path.glob("[0-9]*.model")):
            try:
                key = tuple(from_typed(value) for value in json.loads(file.read_text(encoding="utf-8"))["key"])
                found.setdefault(key, int(file.stem))
            except (OSError, LookupError, TypeError, ValueError) as error:
                raise FileError(f"{file} is damaged ({error})", hint="restore it from a copy") from error
        return found

    def place(self, key: tuple[Any, ...]) -> int:
        """Return the place of a model, the next free one if it is new."""
        self.path.mkdir(exist_ok=True)
        data = json.dumps({"key": [typed(value) for value in key]}, ensure_ascii=True).encode()
        while True:
            known = self.models()
            if key in known:
                return known[key]
            number = max(known.values(), default=0) + 1
            if link(data, self.path / f"{number:08d}.model"):
                return number

    def folder(self, place: int) -> Path:
        """Return the store of a model."""
        return self.path / f"{place:08d}"

    def options(self, place: int) -> dict[str, Any]:
        """Return what the store of a model is made with."""
        kept: dict[str, Any] = {name: self.settings[name] for name in ("tolerance", "unit") if name in self.settings}
        return {"alpha": share_of(self.settings["alpha"], place), **kept}

    def report(self, key: tuple[Any, ...], place: int, window: int, rng: RNG) -> MonitorReport:
        """Return how a model stands."""
        made = add_day(self.folder(place), window=window, rng=rng)
        return replace(made, by=dict(zip(self.settings["by"], key, strict=True)))


#: One day: its name, its date, and the summary of every model.
Night = tuple[str, str | None, Mapping[tuple[Any, ...], Summary]]


def add_models(
    store: str | Path,
    nights: Sequence[Night] = (),
    *,
    by: Sequence[str],
    window: int = 7,
    alpha: float | None = None,
    tolerance: float | None = None,
    unit: str | None = None,
    restart: bool = False,
    replace: bool = False,
    rng: RNG = 0,
) -> FamilyReport:
    """Add days of many models to a store and say how all of them stand; without days only say it.

    Parameters
    ----------
    store : str or Path
        Directory of the monitor; made on the first day.
    nights : sequence of (name, date, summaries by key)
        Days in the order in which they count. All are checked before the first is written.
    by : sequence of str
        Columns that name a model, fixed when the store is made.
    window, alpha, tolerance, unit, restart, replace, rng
        As in `add_day`, with the unit "row" or "day"; `alpha` is the probability that any of the models ever raises a
        false alarm.

    Notes
    -----
    The model that came as number j is tested at α/(j(j + 1)), fixed when it comes. These add to α over any number of
    models, so P(any calibrated model ever alarms) ≤ α by the union bound, whatever the dependence between them and
    however many come later. The price is small, because the limit is a logarithm: log(j(j + 1)), 14 for the 1,000th.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from calibrant import Summary
    >>> p = np.random.default_rng(0).random(500)
    >>> y = np.random.default_rng(1).random(500) < p
    >>> night = ("2026-11-16", "2026-11-16", {("a",): Summary(2).update(y, p), ("b",): Summary(2).update(y, p)})
    >>> with tempfile.TemporaryDirectory() as store:
    ...     report = add_models(store, [night], by=["model"])
    >>> len(report.models)
    2
    """
    check_options(add_models, locals())
    check_settings(alpha, tolerance, unit, None, window)
    if unit == "cluster":
        raise input_error("unit", "monitor", "be row or day with {by}", repr(unit), "give every model a store")
    given = (("alpha", alpha), ("tolerance", tolerance), ("unit", unit))
    wishes = {name: value for name, value in given if value is not None}
    fresh = not is_store(store)
    settings = {"alpha": 0.01, "tolerance": 0.0, **wishes} if fresh else wishes
    family = _Family(store, {**settings, "by": list(by)})
    empty, last = [], dict[tuple[Any, ...], Summary]()  # the night before, of every model
    anew = set[tuple[str, tuple[Any, ...]]]()  # a restart is that of a model's first night, and of other classes
    with family.store.alone():  # what was checked is what is there when it is written
        known = family.models()
        for name, date, parts in nights:
            for key, summary in parts.items():
                if summary.n:
                    folder = family.folder(known[key]) if key in known else None
                    check_day(folder, summary, name=name, date=date, restart=restart, replace=replace)
                    try:  # a store that is there has its own days before each night
                        fitting(summary, [last[key]], must=restart or folder is None)
                    except (KeyError, InputError):
                        if restart:
                            anew.add((name, key))
                        elif key in last:
                            raise
                    last[key] = summary
        for name, date, parts in nights:
            for key in sorted(parts, key=order):
                if not parts[key].n:
                    empty.append((name, key, sum(parts[key].rejected.values())))
                    continue
                place = family.place(key)
                options = {**family.options(place), "date": date, "restart": (name, key) in anew, "replace": replace}
                add_day(family.folder(place), parts[key], name=name, window=window, rng=rng, **options)
    places = sorted(family.models().items(), key=lambda item: order(item[0]))
    if not places:
        raise input_error("store", "monitor", "hold at least one model with usable rows", "none", "give a file to add")
    present = {key for key, _ in places} if not nights else set(nights[-1][2])
    stands = {key: family.report(key, place, window, rng) for key, place in places}
    absent = tuple(dict(zip(by, key, strict=True)) for key in stands if key not in present)
    alarms = [{**alarm, "by": report.by} for report in stands.values() for alarm in report.alarms]
    alarms += [
        {
            "kind": "rejected",
            "since": name,
            "value": 1.0,
            "limit": 0.0,
            "text": f"ALARM: none of the {count(rows)} rows of {name} can be used",
            "by": dict(zip(by, key, strict=True)),
        }
        for name, key, rows in empty
    ]
    latest = nights[-1][0] if nights else max(report.name for report in stands.values())
    counted = [report.n for report in stands.values() if report.name == latest]
    held = [part.rejected for _, _, parts in nights for part in parts.values()]
    held = held or [report.rejected for report in stands.values() if report.name == latest]
    rejected = {reason: sum(one.get(reason, 0) for one in held) for reason in REASONS}
    skipped = {name for _, _, parts in nights for part in parts.values() for name in part.skipped}
    return FamilyReport(
        latest,
        sum(map(observations, nights[-1][2].values()) if nights else counted),  # an older night has rows too
        tuple(by),
        any(report.alarm for report in stands.values()),
        family.settings["alpha"],
        tuple(stands.values()),
        tuple(alarms),
        absent,
        tuple(left_out_notes(rejected, skipped)),
        rejected,
    )
