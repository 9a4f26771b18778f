"""A gate for releases: limits on measures, the verdict line by line."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from calibrant.engines.evaluating import evaluate_file
from calibrant.engines.files import Layout
from calibrant.errors import FileError, input_error

__all__ = ["Gate", "Limits", "Line", "check_file"]

#: Name under which the p-value of the top-label KS test is asked for.
KS_TEST = "ks"


@dataclass(frozen=True)
class Limits:
    """Largest and smallest values of measures, and smallest p-values; a limit itself is allowed."""

    most: Mapping[str, float] = field(default_factory=dict)
    least: Mapping[str, float] = field(default_factory=dict)
    pvalues: Mapping[str, float] = field(default_factory=dict)

    @staticmethod
    def read(path: Path) -> Limits:
        """Read limits from a TOML file with tables ``[max]``, ``[min]`` and ``[min-pvalue]``.

        ``min-pvalue = 0.01`` as a plain number means the top-label KS test.
        """
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise FileError(f"{path} cannot be read: {error.strerror or error}. Hint: check the path.") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise FileError(f"{path} is not TOML: {error}. Hint: write [max] and below it ks = 0.02.") from error
        content = {key.replace("_", "-"): value for key, value in content.items()}
        unknown = set(content) - {"max", "min", "min-pvalue"}
        if unknown:
            raise input_error(
                "config", "check", "hold max, min and min-pvalue only", ", ".join(sorted(unknown)), "check the names"
            )
        pvalues = content.get("min-pvalue", {})
        if not isinstance(pvalues, dict):
            pvalues = {KS_TEST: pvalues}
        tables = [content.get("max", {}), content.get("min", {}), pvalues]
        for table in tables:
            for name, value in table.items():
                if isinstance(value, bool) or not isinstance(value, int | float):
                    got = f"{name} = {value!r}"
                    raise input_error("config", "check", "give numbers as limits", got, "write ks = 0.02")
        return Limits(*tables)

    def with_words(self, most: Iterable[str], least: Iterable[str], pvalues: Iterable[str]) -> Limits:
        """Add limits written as ``name=value``; a p-value alone means the top-label KS test."""
        from calibrant.core.declare import lookup

        joined = Limits(
            {**self.most, **dict(_pair(word, "max") for word in most)},
            {**self.least, **dict(_pair(word, "min") for word in least)},
            {**self.pvalues, **dict(_pair(w if "=" in w else f"{KS_TEST}={w}", "min-pvalue") for w in pvalues)},
        )
        if not (joined.most or joined.least or joined.pvalues):
            raise input_error("limits", "check", "name at least one limit", "none", "add --max ks=0.02")
        from calibrant import metrics  # noqa: F401  -- declares every measure

        for name in joined.names:
            lookup(name.partition("@")[0], "check")
        return joined

    @property
    def names(self) -> list[str]:
        """Measures that are needed."""
        return list(dict.fromkeys([*self.most, *self.least, *self.pvalues]))


def _pair(word: str, option: str) -> tuple[str, float]:
    name, sign, value = word.partition("=")
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not sign or not name or math.isnan(number):
        raise input_error(option, "check", "read NAME=VALUE", repr(word), f"write --{option} ks=0.02")
    return name.strip(), number


@dataclass(frozen=True)
class Line:
    """One limit on one set of rows."""

    by: dict[str, Any]
    name: str
    rule: str
    limit: float
    value: float | None
    passed: bool


@dataclass(frozen=True)
class Gate:
    """All limits held against a file; `passed` when every one is kept."""

    n: int
    lines: tuple[Line, ...]
    verdict: str

    @property
    def passed(self) -> bool:
        """Whether every limit is kept."""
        return all(line.passed for line in self.lines)

    def to_dict(self) -> dict[str, Any]:
        """Return the stable JSON form."""
        checks = [
            {"by": line.by or None, "name": line.name, "rule": line.rule, "limit": line.limit, "value": line.value,
             "passed": line.passed}
            for line in self.lines
        ]
        return {"schema": 1, "n": self.n, "passed": self.passed, "checks": checks, "verdict": self.verdict}

    def __str__(self) -> str:
        failed = [line for line in self.lines if not line.passed]
        head = f"{self.n:,} predictions · {len(self.lines)} limits · ".replace(",", " ")
        head += "all kept" if not failed else f"{len(failed)} broken"
        rows = [("", "rows", "measure", "value", "limit")]
        for line in sorted(self.lines, key=lambda line: line.passed):
            label = ", ".join(f"{key}={value}" for key, value in line.by.items()) or "all"
            sign = "≤" if line.rule == "max" else "≥"
            name = f"p-value of {line.name}" if line.rule == "min-pvalue" else line.name
            shown = "–" if line.value is None else f"{line.value:.4g}"
            rows.append(("ok" if line.passed else "FAILED", label, name, shown, f"{sign} {line.limit:g}"))
        sizes = [max(len(row[i]) for row in rows) for i in range(5)]
        table = ["  ".join(cell.ljust(size) for cell, size in zip(row, sizes, strict=True)).rstrip() for row in rows]
        tail = [] if not failed else [f"Verdict: {self.verdict}"]
        return "\n".join([head, *table, *tail])


def check_file(path: str | Path, limits: Limits, layout: Layout | None = None, *, n_resamples: int = 1000,
               **options: Any) -> Gate:
    """Hold a file against limits.

    Parameters
    ----------
    path, layout
        The predictions.
    limits : Limits
        At least one.
    n_resamples : int
        Label resamplings behind p-values; none are drawn when no p-value is asked for.
    **options
        Options of `evaluate_file`: by, n_bins, seed, normalize, input_format.
    """
    outcome = evaluate_file(
        path, layout, measures=limits.names, n_resamples=n_resamples if limits.pvalues else 0, **options
    )
    lines = _lines({}, outcome.whole, limits)
    for part in outcome.slices:
        lines += _lines(part.by, part.evaluation, limits)
    return Gate(outcome.whole.n, tuple(lines), str(getattr(outcome.whole, "verdict", "")))


def _lines(by: dict[str, Any], evaluation: Any, limits: Limits) -> list[Line]:
    found = evaluation.to_dict()["measures"]
    lines = []
    for rule, wanted in (("max", limits.most), ("min", limits.least), ("min-pvalue", limits.pvalues)):
        for name, limit in wanted.items():
            value = found[name]["pvalue" if rule == "min-pvalue" else "value"]
            number = math.nan if value is None else float(value)
            passed = number <= limit if rule == "max" else number >= limit  # nan keeps no limit
            lines.append(Line(by, name, rule, limit, None if value is None else number, passed))
    return lines
