"""All races, and the table they make: text for a terminal, Markdown for the docs, a dict for JSON."""

from __future__ import annotations

import os
import pkgutil
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import calibrant_benchmarks
from calibrant.core.inputs import check_names
from calibrant.core.text import table
from calibrant_benchmarks.frame import Outcome, Race, Verdict, run_race
from calibrant_papers.studies.writing import markdown

__all__ = ["BenchReport", "list_races", "run"]

#: Distributions whose versions stand in the header when they are installed.
PACKAGES = (
    "calibrant",
    "numpy",
    "scipy",
    "scikit-learn",
    "torch",
    "netcal",
    "torchmetrics",
    "uncertainty-calibration",
    "relplot",
    "probmetrics",
    "KDEpy",
    "betacal",
    "venn-abers",
    "pycalib",
    "probcal",
    "MAPIE",
)
#: Headers of the two tables.
GOALS = ("task", "goal", "measured", "met")
TIMES = ("task", "entrant", "median", "best", "against ours", "CPU", "memory")


def list_races() -> dict[str, tuple[Race, ...]]:
    """Return the races of every family, by the name of its module."""
    found = {}
    for module in pkgutil.iter_modules(calibrant_benchmarks.__path__):
        races = getattr(import_module(f"calibrant_benchmarks.{module.name}"), "RACES", None)
        if races:
            found[module.name] = tuple(races)
    return found


def run(
    only: Sequence[str] = (),
    *,
    quick: bool = False,
    rounds: int = 5,
    budget: float = 12.0,
    progress: Callable[[str], None] | None = None,
    save: Callable[[BenchReport], None] | None = None,
) -> BenchReport:
    """Run the races and collect what they gave.

    Parameters
    ----------
    only : sequence of str
        Families or beginnings of race names; empty means all.
    quick : bool
        One round on arrays a fiftieth of the size: shows that everything runs, proves no goal.
    rounds : int
        Turns of every entrant.
    budget : float
        Seconds after which an entrant of a race takes no further turn.
    progress : callable or None
        Called with the name of each race before it starts.
    save : callable or None
        Called with what there is after each race, so that a run that is stopped leaves a result.
    """
    families = list_races()
    names = [race.name for races in families.values() for race in races]
    for word in only:
        if not any(name.startswith(word) for name in names):
            check_names(word, (*families, *names), "only", "bench")
    outcomes = []
    for family, races in families.items():
        for race in races:
            if only and not any(family == word or race.name.startswith(word) for word in only):
                continue
            if progress is not None:
                progress(race.name)
            outcomes.append((family, _run(race, quick, rounds, budget)))
            if save is not None:
                save(_report(outcomes, quick))
    return _report(outcomes, quick)


def _run(race: Race, quick: bool, rounds: int, budget: float) -> Outcome:
    """Run a race; one that fails as a whole is told as absent, and the others still run."""
    try:
        return run_race(race, quick=quick, rounds=rounds, budget=budget)
    except Exception as error:
        text = (str(error).splitlines() or [""])[0][:80]
        verdicts = tuple(Verdict(str(goal), None, None) for goal in race.goals)
        gone = f"the whole race (failed: {type(error).__name__}: {text})"
        return Outcome(race.name, race.title, (), (gone,), verdicts)


def _report(outcomes: Sequence[tuple[str, Outcome]], quick: bool) -> BenchReport:
    return BenchReport(tuple(outcomes), quick, _versions(), _machine(), datetime.now(UTC).date().isoformat())


def _versions() -> dict[str, str | None]:
    found: dict[str, str | None] = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return found


def _machine() -> str:
    return f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}"


@dataclass(frozen=True)
class BenchReport:
    """Outcomes of all races with versions, machine and date."""

    outcomes: tuple[tuple[str, Outcome], ...]
    quick: bool
    versions: dict[str, str | None]
    machine: str
    date: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {
            "schema": 1,
            "date": self.date,
            "machine": self.machine,
            "quick": self.quick,
            "versions": self.versions,
            "races": [{"family": family, **asdict(outcome)} for family, outcome in self.outcomes],
        }

    def goals(self) -> list[tuple[str, str, str, str]]:
        """Return one row per goal: race, goal, measured, met."""
        rows = []
        for _, outcome in self.outcomes:
            for verdict in outcome.verdicts:
                unit = "MB" if " MB " in verdict.goal else "s" if verdict.goal.endswith(" s") else "×"
                measured = "–" if verdict.measured is None else f"{verdict.measured:.3g} {unit}"
                met = {True: "yes", False: "no", None: "–"}[verdict.met]
                rows.append((outcome.title, verdict.goal, measured, met if not self.quick else f"({met})"))
        return rows

    def times(self) -> list[tuple[str, ...]]:
        """Return one row per entrant: race, entrant, median, best, median against ours, processor time, memory."""
        rows: list[tuple[str, ...]] = []
        for _, outcome in self.outcomes:
            ours = outcome.ours
            most = max((timing.rounds for timing in outcome.timings), default=0)
            for timing in outcome.timings:
                ratio = "" if ours is None or timing is ours else f"{timing.median / ours.median:.3g} ×"
                part = "" if timing.share == 1 else f" (from {timing.share:.3g} of the work)"
                part += " (unchecked)" if timing.checks is False else ""
                part += f" ({timing.rounds} of {most} rounds)" if timing.rounds < most else ""
                clock = _seconds(timing.median), _seconds(timing.best)
                memory = "–" if timing.memory_mb is None else f"{timing.memory_mb:.3g} MB"
                rows.append((outcome.title, timing.name + part, *clock, ratio, _seconds(timing.cpu), memory))
            rows += [(outcome.title, name, "absent", "", "", "", "") for name in outcome.absent]
        return rows

    def to_markdown(self) -> str:
        """Return the page ``docs/tables/bench.md``."""
        head = ", ".join(f"{name} {number}" for name, number in self.versions.items() if number)
        gone = ", ".join(name for name, number in self.versions.items() if not number)
        note = (
            "One quick round on small arrays: no goal is proven by it."
            if self.quick
            else (
                "Entrants take turns on the same arrays; medians are compared, above 1 is slower than calibrant. "
                "*Unchecked* entrants take a row of nan for a forecast. Slow ones take fewer rounds, as said beside "
                "them. Memory is the largest resident size of one more run on top of the inputs, for runs under 8 s; "
                "for a whole command that of its process. `calibrant bench --growth` shows rows and classes growing."
            )
        )
        return "\n".join(
            [
                "# Speed beside other libraries",
                "",
                f"Made by `calibrant bench` on {self.date} ({self.machine}). {note}",
                "",
                f"Versions: {head}." + (f" Not installed: {gone}." if gone else ""),
                "",
                "## Goals",
                "",
                *markdown(_cells(GOALS, self.goals())),
                "",
                "## Times",
                "",
                *markdown(_cells(TIMES, self.times())),
                "",
            ]
        )

    def losses(self, before: Mapping[str, Any], limit: float = 0.2) -> dict[str, str]:
        """Return the races in which we fell behind the stored ratios by more than `limit`, by name, in words.

        A ratio is the median time of another entrant (or a pass over the same arrays) over ours, in one run; the median
        over all entrants that both runs have counts, so neither a faster machine nor one odd entrant decides.
        """
        found = {}
        old = {race["name"]: race for race in before["races"]}
        for _, outcome in self.outcomes:
            stored, now = old.get(outcome.name, {"timings": []})["timings"], [asdict(t) for t in outcome.timings]
            earlier, after = _ratios(stored), _ratios(now)
            changes = sorted(after[name] / earlier[name] for name in earlier.keys() & after.keys())
            if changes and (change := changes[len(changes) // 2]) < 1 - limit:
                found[outcome.name] = f"{outcome.title}: {change:.2f} times the stored ratio"
            elif earlier and not after:
                found[outcome.name] = f"{outcome.title}: no time of ours ({'; '.join(outcome.absent)})"
        return found

    def against_yardstick(self, stored: Mapping[str, Any]) -> list[tuple[str, ...]]:
        """Return our times over those of ``benchmarks/yardstick.json``: race, best time, processor time, memory."""
        rows = []
        for _, outcome in self.outcomes:
            before = stored["races"].get(outcome.name)
            if outcome.ours is None or before is None:
                continue
            now = asdict(outcome.ours)
            ratios = (f"{now[key] / before[key]:.2f} ×" for key in ("best", "cpu"))
            used = [value for value in (before["memory_mb"], now["memory_mb"]) if value is not None]
            rows.append((outcome.title, *ratios, " → ".join(f"{value:.3g} MB" for value in used)))
        return rows

    def __str__(self) -> str:
        """Return both tables as aligned text."""
        return "\n".join(
            [
                f"calibrant bench · {self.date} · {self.machine}" + (" · quick: proves no goal" if self.quick else ""),
                "",
                *table(_cells(TIMES, self.times())),
                "",
                *table(_cells(GOALS, self.goals())),
            ]
        )


def _ratios(timings: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return how many times longer than ours every other entrant takes."""
    ours = next((t["median"] for t in timings if t["role"] == "ours"), None)
    return {} if not ours else {t["name"]: t["median"] / ours for t in timings if t["role"] != "ours"}


def _seconds(value: float) -> str:
    return f"{value:.3g} s" if value >= 1 else f"{value * 1e3:.3g} ms" if value >= 1e-3 else f"{value * 1e6:.3g} µs"


def _cells(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return header and rows; a task that goes on is named once."""
    out, last = [head], None
    for row in rows:
        out.append(("", *row[1:]) if row[0] == last else row)
        last = row[0]
    return out
