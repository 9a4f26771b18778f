"""What a target of the papers gives back: our numbers beside the published ones, and the findings they must show."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from calibrant.core.results import Record, format_value

__all__ = ["Finding", "Line", "TargetResult"]

#: E exact numbers, P same protocol on data we have, S simulation with known truth.
Kind = Literal["E", "P", "S"]


@dataclass(frozen=True)
class Line(Record):
    """One number of a table: ours, the published one where there is one, and the band ours must lie in (kind E)."""

    label: str
    ours: float
    published: float | None = None
    note: str = ""
    band: tuple[float, float] | None = None

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
    """A sentence of the paper as a claim about our numbers."""

    text: str
    holds: bool


@dataclass(frozen=True)
class TargetResult(Record):
    """One table or figure; `curves` holds what a figure draws: panel -> series name -> values."""

    name: str
    kind: Kind
    title: str
    lines: tuple[Line, ...] = ()
    findings: tuple[Finding, ...] = ()
    curves: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    quick: bool = False

    @property
    def verdict(self) -> str:
        """Say "holds", or name the findings that do not."""
        missed = [f"{line.label} outside its band" for line in self.lines if line.hit is False]
        missing = [finding.text for finding in self.findings if not finding.holds]
        return "holds" if not missing + missed else "does not show: " + "; ".join(missed + missing)

    @property
    def holds(self) -> bool:
        """Whether every band is hit and every finding shows."""
        return self.verdict == "holds"

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
                "note": line.note,
            }
            for line in self.lines
        ]

    def __str__(self) -> str:
        lines = [f"{self.name} ({self.kind}) {self.title}"]
        for line in self.lines:
            published = "" if line.published is None else f"   published {format_value(line.published)}"
            note = f"   {line.note}" if line.note else ""
            lines.append(f"  {line.label}: {format_value(line.ours)}{published}{note}")
        lines += [f"  [{'x' if finding.holds else ' '}] {finding.text}" for finding in self.findings]
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])
