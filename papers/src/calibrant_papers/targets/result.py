"""What a target of the papers gives back: our numbers beside the published ones, and a verdict for every claim.

Four verdicts. *exact*: the printed digits (or the theorem) come out on the paper's own data, nothing is random.
*confirmed*: the claim shows, in k of m seeds where something is random. *not confirmed*: it does not; the numbers and
the likely reason stand beside it. *no data*: it cannot be judged here; what would be needed stands beside it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from calibrant.core.results import Record
from calibrant.core.text import significant

__all__ = ["MIN_SEEDS", "VERDICTS", "Finding", "Kind", "Line", "Outcome", "TargetResult", "Verdict"]

#: E exact numbers, P same protocol on data we have, S simulation with known truth.
Kind = Literal["E", "P", "S"]
Verdict = Literal["exact", "confirmed", "not confirmed", "no data"]
VERDICTS: tuple[Verdict, ...] = ("exact", "confirmed", "not confirmed", "no data")
#: Seeds a random claim is judged on, at least, and the share of them in which it must show.
MIN_SEEDS = 5
SHARE = 0.8


@dataclass(frozen=True)
class Line(Record):
    """One number of a table: ours, the published one where there is one, and the band ours must lie in (kind E).

    `reason` says why ours is known to lie outside its band; the line still counts as missed.
    """

    label: str
    ours: float
    published: float | None = None
    note: str = ""
    band: tuple[float, float] | None = None
    reason: str = ""

    @property
    def difference(self) -> float | None:
        """Ours less published."""
        return None if self.published is None else self.ours - self.published

    @property
    def hit(self) -> bool | None:
        """Whether ours lies in its band; None without one."""
        return None if self.band is None else self.band[0] <= self.ours <= self.band[1]


@dataclass(frozen=True)
class Finding(Record):
    """A claim of the paper about our numbers, and whether it shows.

    Parameters
    ----------
    text : str
        The claim.
    holds : bool or None
        Whether it shows; None where it cannot be judged without other data.
    shown, seeds : int, optional
        In how many of how many seeds it shows; None where nothing is random.
    exact : bool
        Nothing is random and the data are the paper's own (or the truth is known).
    measured : str
        The numbers it was judged by.
    reason : str
        Likely reason of what is not confirmed, or what would be needed where there are no data.
    novelty : str
        What the claim rests on; a test replaces it by its baseline and the claim must fail.
    """

    text: str
    holds: bool | None
    shown: int | None = None
    seeds: int | None = None
    exact: bool = False
    measured: str = ""
    reason: str = ""
    novelty: str = ""

    @classmethod
    def over(cls, text: str, shown: Any, **details: Any) -> Finding:
        """Judge a random claim by its seeds (one truth value each): it shows in at least four of five."""
        found = [bool(value) for value in shown]
        k, m = sum(found), len(found)
        return cls(text, k >= math.ceil(SHARE * m - 1e-9), k, m, **details)

    @classmethod
    def no_data(cls, text: str, needed: str) -> Finding:
        """State a claim that nothing at hand can judge."""
        return cls(text, None, reason=needed)

    @property
    def verdict(self) -> Verdict:
        """One of the four verdicts."""
        if self.holds is None:
            return "no data"
        if not self.holds:
            return "not confirmed"
        return "exact" if self.exact else "confirmed"

    @property
    def judged(self) -> str:
        """The verdict in words, with seeds, numbers and reason."""
        seen = "seen in" if self.verdict == "not confirmed" else "in"
        head = self.verdict if self.seeds is None else f"{self.verdict}, {seen} {self.shown} of {self.seeds} seeds"
        if self.holds is None:
            return f"{head}: needs {self.reason}"
        tail = "; ".join(filter(None, (self.measured, "" if self.holds else self.reason)))
        return f"{head} ({tail})" if tail else head


@dataclass(frozen=True)
class TargetResult(Record):
    """One table or figure; `curves` holds what a figure draws: panel -> series name -> values.

    `data` and `size` say what it was made from; `seeds` how many seeds (None: those of its findings).
    """

    name: str
    kind: Kind
    title: str
    lines: tuple[Line, ...] = ()
    findings: tuple[Finding, ...] = ()
    curves: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    quick: bool = False
    data: str = ""
    size: str = ""
    seeds: int | None = None

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> TargetResult:
        """Return the result that `to_dict` (and JSON) described."""
        values = dict(fields)
        values["lines"] = tuple(Line(**(line | _numbers(line))) for line in values["lines"])
        values["findings"] = tuple(Finding(**finding) for finding in values["findings"])
        values["notes"] = tuple(values["notes"])
        values["curves"] = {
            panel: {name: [float(v) for v in series] for name, series in panels.items()}
            for panel, panels in values["curves"].items()
        }
        return cls(**values)

    @property
    def missed(self) -> tuple[Line, ...]:
        """Lines outside their band."""
        return tuple(line for line in self.lines if line.hit is False)

    @property
    def unconfirmed(self) -> tuple[Finding, ...]:
        """Claims that are not confirmed."""
        return tuple(finding for finding in self.findings if finding.verdict == "not confirmed")

    @property
    def verdict(self) -> Verdict:
        """The weakest verdict among claims and bands; claims without data count only where there is nothing else."""
        if self.missed or self.unconfirmed:
            return "not confirmed"
        judged = [finding for finding in self.findings if finding.holds is not None]
        if not judged and not any(line.hit for line in self.lines):
            return "no data"
        return "exact" if all(finding.exact for finding in judged) else "confirmed"

    @property
    def holds(self) -> bool:
        """Whether every band is hit and every claim that can be judged shows (name of version 0.1)."""
        return self.verdict in ("exact", "confirmed")

    @property
    def summary(self) -> str:
        """The verdict, with the fewest seeds of a claim, or with what is not confirmed."""
        if self.verdict == "not confirmed":
            lines = [f"{line.label} outside its band" for line in self.missed]
            return "not confirmed: " + "; ".join([*lines, *(finding.text for finding in self.unconfirmed)])
        seeded = [(f.shown, f.seeds) for f in self.findings if f.seeds is not None and f.shown is not None]
        if not seeded:
            return self.verdict
        k, m = min(seeded, key=lambda pair: pair[0] / pair[1])
        return f"{self.verdict} ({k} of {m} seeds)"

    @property
    def made_from(self) -> str:
        """Data, size and seeds in words."""
        m = self.seeds or max((f.seeds for f in self.findings if f.seeds), default=None)
        return "; ".join(filter(None, (self.data, self.size, f"{m} seeds" if m else "nothing random")))

    def rows(self) -> list[dict[str, Any]]:
        """Return the lines as rows of a table."""
        return [
            {
                "number": line.label,
                "ours": line.ours,
                "published": line.published,
                "difference": line.difference,
                "band": "" if line.band is None else f"{line.band[0]:.4g} … {line.band[1]:.4g}",
                "verdict": {None: "", True: "hit", False: "missed"}[line.hit],
                "note": "; ".join(filter(None, (line.note, line.reason))),
            }
            for line in self.lines
        ]

    def __str__(self) -> str:
        lines = [f"{self.name} ({self.kind}) {self.title}", f"  {self.summary}", f"  {self.made_from}"]
        for line in self.lines:
            published = "" if line.published is None else f"   published {significant(line.published)}"
            note = f"   {line.note}" if line.note else ""
            lines.append(f"  {line.label}: {significant(line.ours)}{published}{note}")
        lines += [f"  {finding.text}: {finding.judged}" for finding in self.findings]
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])


@dataclass(frozen=True, eq=False)
class Outcome(Record):
    """What became of a target: its result, or why there is none (no data, no torch), and how it was made."""

    name: str
    result: TargetResult | None
    reason: str = ""
    quick: bool = False
    seconds: float | None = None
    date: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    absent: str = "no data"

    @property
    def kind(self) -> str:
        """E, P or S; empty without a result."""
        return "" if self.result is None else self.result.kind

    @property
    def verdict(self) -> str:
        """One of the four verdicts, or "not run" where a package is absent."""
        return self.absent if self.result is None else self.result.verdict

    @property
    def summary(self) -> str:
        """The verdict in words: with seeds, with what is not confirmed, or with what would be needed."""
        return f"{self.absent}: {self.reason}" if self.result is None else self.result.summary


def _numbers(line: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers of a line as written in JSON, where infinite ones are words."""
    band = line.get("band")
    return {"ours": float(line["ours"]), "band": None if band is None else (float(band[0]), float(band[1]))}
