"""How a race is run: every entrant on the same arrays, one after the other in each round; medians are judged."""

from __future__ import annotations

import ctypes
import gc
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from calibrant_benchmarks import arrays

__all__ = [
    "Absent",
    "Build",
    "Entrant",
    "Goal",
    "Outcome",
    "Race",
    "Seconds",
    "Timing",
    "Used",
    "floor",
    "load",
    "ours",
    "peer",
    "recipe",
    "run_race",
]

Role = Literal["ours", "peer", "floor", "recipe"]
#: Imports and conversions that are not timed, returning the function that is.
Build: TypeAlias = Callable[[], Callable[[], Any]]


class Absent(Exception):  # noqa: N818 -- a state of affairs, not a mistake
    """An entrant cannot start: its library, or our part, is not there."""


class Seconds(float):
    """A time that the entrant measured by itself (for example in a fresh interpreter)."""


class Used(NamedTuple):
    """Largest memory and processor time of a process that the entrant started; its clock time is taken outside."""

    megabytes: float
    cpu: float


def load(module: str) -> Any:
    """Import a peer by name; any failure means that it is absent."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return import_module(module)
    except Exception as error:  # foreign code may fail in any way while it is imported
        raise Absent(f"{module}: {type(error).__name__}: {error}") from error


@dataclass(frozen=True)
class Entrant:
    """One runner of a race.

    Parameters
    ----------
    name : str
        Shown in the table: library and function.
    role : {"ours", "peer", "floor", "recipe"}
        Ours, a function of another library, the memory floor (a plain pass over the
        same arrays), or lines written by hand around a library that has no such function (shown, not judged).
    build : callable
        Does the imports and conversions that are not timed, and returns the function that is.
    share : float
        Part of the whole work that one run does (0.01: a hundredth); times are divided by it.
    rounds : int or None
        At most so many runs, for slow entrants; None follows the race.
    """

    name: str
    role: Role
    build: Build
    share: float = 1.0
    rounds: int | None = None


def ours(name: str, function: Callable[[], Any]) -> Entrant:
    """Return our own entrant."""
    return Entrant(name, "ours", lambda: function)


def floor(name: str, function: Callable[[], Any], rounds: int | None = None) -> Entrant:
    """Return a plain pass over the same arrays."""
    return Entrant(name, "floor", lambda: function, rounds=rounds)


def recipe(name: str, build: Build, rounds: int | None = None) -> Entrant:
    """Return hand-written lines around a library."""
    return Entrant(name, "recipe", build, rounds=rounds)


def peer(name: str, build: Build, rounds: int | None = None, share: float = 1.0) -> Entrant:
    """Return an entrant of another library."""
    return Entrant(name, "peer", build, share, rounds)


@dataclass(frozen=True)
class Goal:
    """What a race must show.

    Parameters
    ----------
    kind : {"faster", "within", "seconds", "memory"}
        At least `bound` times faster than the fastest peer (or than `against`); at most `bound` times the
        time of `against`; less than `bound` seconds; at most `bound` megabytes on top of the input.
    """

    kind: Literal["faster", "within", "seconds", "memory"]
    bound: float
    against: str = ""

    def __str__(self) -> str:
        """Say the goal in words."""
        other = self.against or "the fastest peer"
        return {
            "faster": f"≥ {self.bound:g}× faster than {other}",
            "within": f"≤ {self.bound:g}× the time of {other}",
            "seconds": f"< {self.bound:g} s",
            "memory": f"< {self.bound:g} MB on top of the input",
        }[self.kind]


@dataclass(frozen=True)
class Race:
    """One comparison: a name, what is computed, the entrants on given arrays, and the goals."""

    name: str
    title: str
    entrants: Callable[[bool], Sequence[Entrant]]
    goals: tuple[Goal, ...] = ()


@dataclass(frozen=True)
class Timing:
    """Times of one entrant in seconds, scaled to the whole work.

    `cpu` is the least processor time of all its threads: on a busy machine it tells more than the clock.
    """

    name: str
    role: Role
    best: float
    median: float
    cpu: float
    rounds: int
    share: float = 1.0
    #: Whether it refuses a row that holds no probability; None where nobody asked.
    checks: bool | None = None
    #: Largest resident memory of one more run, on top of what was there; None where the system does not tell.
    memory_mb: float | None = None


@dataclass(frozen=True)
class Verdict:
    """One goal, what was measured for it, and whether it is met (None: nothing to compare with)."""

    goal: str
    measured: float | None
    met: bool | None


@dataclass(frozen=True)
class Outcome:
    """What one race gave."""

    name: str
    title: str
    timings: tuple[Timing, ...]
    absent: tuple[str, ...]
    verdicts: tuple[Verdict, ...]

    @property
    def ours(self) -> Timing | None:
        """Our own time."""
        return next((t for t in self.timings if t.role == "ours"), None)


def run_race(race: Race, *, quick: bool = False, rounds: int = 5, budget: float = 12.0) -> Outcome:
    """Run a race and judge its goals.

    Entrants take turns, so that a busy moment of the machine hits all of them; one that has used `budget`
    seconds stops taking part.
    """
    absent: list[str] = []
    runners: list[tuple[Entrant, Callable[[], Any]]] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for entrant in _with_yardstick(race.entrants(quick)):
            try:
                runners.append((entrant, entrant.build()))
            except (Absent, ImportError, AttributeError) as error:
                absent.append(f"{entrant.name} ({str(error).splitlines()[0]})")
        times: dict[str, list[tuple[float, float]]] = {entrant.name: [] for entrant, _ in runners}
        for turn in range(1 if quick else rounds):
            for entrant, run in list(runners):
                taken = times[entrant.name]
                if turn and (sum(clock for clock, _ in taken) > budget or turn >= (entrant.rounds or rounds)):
                    continue
                try:
                    taken.append(_time(run))
                except Exception as error:  # foreign code may fail in any way; the others still race
                    text = str(error).splitlines() or [""]
                    absent.append(f"{entrant.name} (failed: {type(error).__name__}: {text[0][:80]})")
                    runners.remove((entrant, run))
                    del times[entrant.name]
        timings = tuple(_timing(entrant, times[entrant.name]) for entrant, _ in runners)
        soon = [timing.best * timing.share < _SOON for timing in timings]
        peaks = [_peak_megabytes(run) if fine else None for (_, run), fine in zip(runners, soon, strict=True)]
    checks = {} if quick else checking(race)
    timings = tuple(
        replace(timing, checks=checks.get(timing.name), memory_mb=peak)
        for timing, peak in zip(timings, peaks, strict=True)
    )
    verdicts = tuple(_judge(goal, timings) for goal in race.goals)
    return Outcome(race.name, race.title, timings, tuple(absent), verdicts)


def _with_yardstick(entrants: Sequence[Entrant]) -> Sequence[Entrant]:
    """Add a sort where we run alone, so that a later run on another machine has something to be compared with."""
    if any(entrant.role != "ours" for entrant in entrants):
        return entrants
    values = np.random.default_rng(0).random(1_000_000)
    return [*entrants, floor("np.sort of 10⁶ numbers", lambda: np.sort(values))]


def checking(race: Race) -> dict[str, bool]:
    """Return which entrants refuse a row with nan: the others do less work for their time, and are marked.

    Entrants are built once more on short arrays of which one row is broken; a pass over memory is not asked.
    """
    found: dict[str, bool] = {}
    with warnings.catch_warnings(), arrays.broken() as used:
        warnings.simplefilter("ignore")
        for entrant in race.entrants(True):
            if entrant.role == "floor" or not used():
                continue
            try:
                run = entrant.build()
            except Exception:  # noqa: S112 -- absent, and said elsewhere
                continue
            try:
                run()
            except Exception:  # refusing in any way counts
                found[entrant.name] = True
            else:
                found[entrant.name] = False
    return found


def _time(run: Callable[[], Any]) -> tuple[float, float]:
    """Return clock and processor time of one run."""
    gc.collect()
    gc.disable()
    try:
        start, processor = time.perf_counter(), time.process_time()
        result = run()
        taken, used = time.perf_counter() - start, time.process_time() - processor
    finally:
        gc.enable()
    if isinstance(result, Seconds):
        return float(result), float(result)
    return taken, result.cpu if isinstance(result, Used) else used


def _timing(entrant: Entrant, taken: list[tuple[float, float]]) -> Timing:
    share, clock = entrant.share, [best for best, _ in taken]
    cpu = min(used for _, used in taken) / share
    return Timing(entrant.name, entrant.role, min(clock) / share, _median(clock) / share, cpu, len(taken), share)


def _median(values: list[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


#: Seconds below which an entrant runs once more, for its memory.
_SOON = 8.0


def _peak_megabytes(run: Callable[[], Any]) -> float | None:
    """Largest resident memory of one run on top of what there was, whoever allocated it; None off Linux."""
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)  # what earlier runs left must not hide what this one takes
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # forget the highest mark
        before = _kilobytes("VmRSS")
    except (OSError, AttributeError):
        return None
    try:
        result = run()
    except Exception:  # foreign code may fail in any way; its times stand
        return None
    return result.megabytes if isinstance(result, Used) else max(_kilobytes("VmHWM") - before, 0) * 1024 / 1e6


def _kilobytes(name: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))


def _judge(goal: Goal, timings: Sequence[Timing]) -> Verdict:
    mine = next((t.median for t in timings if t.role == "ours"), None)
    if goal.kind == "memory":
        peak = next((t.memory_mb for t in timings if t.role == "ours"), None)
        return Verdict(str(goal), peak, None if peak is None else peak < goal.bound)
    if mine is None:
        return Verdict(str(goal), None, None)
    if goal.kind == "seconds":
        return Verdict(str(goal), mine, mine < goal.bound)
    named = [t for t in timings if (t.name.startswith(goal.against) if goal.against else t.role == "peer")]
    if not named:
        return Verdict(str(goal), None, None)
    other = min(named, key=lambda t: t.median)
    if goal.kind == "faster":
        ratio = other.median / mine
        return Verdict(f"{goal} ({other.name})", ratio, ratio >= goal.bound)
    ratio = mine / other.median
    return Verdict(str(goal), ratio, ratio <= goal.bound)
