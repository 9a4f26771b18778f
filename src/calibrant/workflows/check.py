"""`check`: a gate for releases: limits on metrics, judged line by line."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from calibrant.core.arguments import check_options
from calibrant.core.declare import lookup
from calibrant.core.inputs import check_names
from calibrant.core.notebook import notebook_html
from calibrant.core.options import check_path, check_share, listed
from calibrant.core.pipes import read_bytes
from calibrant.core.results import Record
from calibrant.core.text import DASH, count, first_upper, percent, significant, table
from calibrant.errors import FileError, InputError, input_error
from calibrant.inference.corrections import holm_known
from calibrant.inference.facts import JUDGED
from calibrant.inference.limits import UNDECIDED, Answer, Side, decide
from calibrant.inference.slices import FileEvaluation, JointLevel, Slice
from calibrant.inference.verdict import Verdict, event_name
from calibrant.workflows.evaluate import evaluate

__all__ = ["Gate", "Limits", "Line", "check"]

#: Name under which a p-value alone is asked for.
KS_TEST = "ks"
#: Resamplings that a limit on a p-value may ask for.
_MOST_DRAWS = 10_000
#: Limits as words or as a mapping; "5%" is 0.05.
Given = str | Iterable[str] | Mapping[str, float | str] | None


@dataclass(frozen=True)
class Limits:
    """Largest and smallest values of metrics, and smallest p-values; a limit itself is allowed."""

    most: Mapping[str, float] = field(default_factory=dict)
    least: Mapping[str, float] = field(default_factory=dict)
    pvalues: Mapping[str, float] = field(default_factory=dict)

    @staticmethod
    def read(path: str | Path) -> Limits:
        """Read limits from a TOML file with tables ``[max]``, ``[min]`` and ``[min-pvalue]``.

        ``min-pvalue = 0.01`` as a plain number means the KS test.
        """
        try:
            content = tomllib.loads(read_bytes(path).decode())
        except OSError as error:
            raise FileError(f"{path} cannot be read: {error.strerror or error}", hint="check the path") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise FileError(f"{path} is not TOML: {error}", hint="write [max] and below it ks = 0.02") from error
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
        return Limits(*({name: _limit(name, value) for name, value in limits.items()} for limits in tables))

    def with_words(self, most: Given = None, least: Given = None, pvalues: Given | float = None) -> Limits:
        """Return these limits with others on top, as mappings or as words ``name=value``.

        A p-value alone means the KS test.
        """
        joined = Limits(
            {**self.most, **_pairs(most, "max_values")},
            {**self.least, **_pairs(least, "min_values")},
            {**self.pvalues, **_pairs(pvalues, "min_pvalues", KS_TEST)},
        )
        if not (joined.most or joined.least or joined.pvalues):
            hint = "for example {max_values=ks=0.02} or {min_values=accuracy=0.9}"
            raise input_error("max_values", "check", "name at least one limit", "none", hint)
        for argument, given in (
            ("max_values", joined.most),
            ("min_values", joined.least),
            ("min_pvalues", joined.pvalues),
        ):
            for name, limit in given.items():
                try:
                    metric = lookup(name.partition("@")[0], "check")
                except InputError as error:
                    raise error.renamed(argument=argument) from None
                low, high = (0.0, 1.0) if argument == "min_pvalues" else metric.range
                if not low <= limit <= high:
                    what = "a p-value" if argument == "min_pvalues" else name
                    rule = f"lie in the range of {what}, {low:g} to {high:g}"
                    hint = "a limit nothing can break holds nobody; 5% is 0.05"
                    raise input_error(argument, "check", rule, f"{name}={limit:g}", hint)
        most = {_judged(name): limit for name, limit in joined.most.items()}
        for name, limit in joined.least.items():
            if limit > most.get(_judged(name), math.inf):
                rule = f"be at most the largest value allowed, {most[_judged(name)]:g}"
                raise input_error("min_values", "check", rule, f"{name}={limit:g}", "change one of the two limits")
        return joined

    @property
    def names(self) -> list[str]:
        """Metrics that are needed, each through a view: that of the verdict unless another is named."""
        return list(dict.fromkeys(_judged(name) for name in (*self.most, *self.least, *self.pvalues)))


def _judged(name: str) -> str:
    return name.lower() if "@" in name else f"{name.lower()}@{JUDGED}"


def _limit(name: str, value: Any) -> float:
    """Return a limit of the file as a number: 0.05 and "5%" are the same."""
    try:
        return _number(value)
    except ValueError:
        hint = 'write ks = 0.02 or ks = "2%"'
        raise input_error("config", "check", "give numbers as limits", f"{name} = {value!r}", hint) from None


def _number(value: Any) -> float:
    """Return a number, or a percentage as a fraction; raise ValueError for anything else."""
    if isinstance(value, str) and value.strip().endswith("%"):
        number = float(value.strip()[:-1]) / 100
    elif isinstance(value, bool):
        raise ValueError(value)
    else:
        number = float(value)
    if math.isnan(number):
        raise ValueError(value)
    return number


def _pairs(given: Given | float, option: str, default: str = "") -> dict[str, float]:
    if given is None:
        return {}
    if isinstance(given, Mapping):
        words = [f"{name}={value}" for name, value in given.items()]
    else:
        single = isinstance(given, str | float | int)
        words = [str(word) for word in ([given] if single else listed(given, option, "check"))]
    return dict(_pair(word if "=" in word or not default else f"{default}={word}", option) for word in words)


def _pair(word: str, option: str) -> tuple[str, float]:
    name, sign, value = word.rpartition("=")
    try:
        if not sign or not name.strip():
            raise ValueError(word)
        return name.strip().lower(), _number(value)
    except ValueError:
        raise input_error(option, "check", "read NAME=VALUE", repr(word), f"write {{{option}=ks=0.02}}") from None


@dataclass(frozen=True)
class Line:
    """One limit on one set of rows: the value, its interval, the answer, and whether it counts as kept."""

    by: dict[str, Any]
    name: str
    rule: str
    limit: float
    value: float | None
    passed: bool
    #: ``"within"``, ``"beyond"`` or ``"undecided"``; p-values are never undecided.
    answer: Answer = "within"
    low: float | None = None
    high: float | None = None
    #: Rows that would decide, if the value stayed as it is.
    rows: int | None = None
    #: What an undecided limit needs, in words.
    need: str = ""
    #: The metric as `evaluate` names it: of two classes ks is ks@class-1.
    metric: str = ""

    @property
    def as_percent(self) -> bool:
        """Whether the metric is shown in percent, as `evaluate` shows it."""
        return self.rule != "min-pvalue" and lookup(self.name.partition("@")[0], "check").percent

    def shown(self, value: float | None) -> str:
        """Return a value of this metric in the units of `evaluate`."""
        return percent(value) if self.as_percent else significant(value)

    def to_dict(self) -> dict[str, Any]:
        """Return the stable JSON form."""
        return {
            "by": self.by or None,
            "name": self.name,
            "metric": self.metric,
            "rule": self.rule,
            "limit": self.limit,
            "value": self.value,
            "passed": self.passed,
            "answer": self.answer,
            "low": self.low,
            "high": self.high,
            "rows_needed": self.rows,
        }


@dataclass(frozen=True)
class Gate(Record):
    """All limits held against predictions; `passed` when every one is kept; `str()` is the terminal text."""

    n: int
    lines: tuple[Line, ...]
    #: The verdict on the whole, the same as that of `calibrant.evaluate`.
    verdict: Verdict
    #: What an undecided limit does: goes by the value, passes, fails.
    undecided: str = "point"
    #: The table behind the gate.
    evaluation: Any = field(default=None, repr=False, compare=False)

    def __getitem__(self, name: str) -> Line:
        for line in self.lines:
            if line.name == name.lower() and not line.by:
                return line
        raise KeyError(f"{name!r} has no limit; there are {', '.join(line.name for line in self.lines)}")

    def __repr__(self) -> str:
        broken = [line.name for line in self.lines if not line.passed]
        return f"Gate(n={self.n:,}, {'passed' if self.passed else 'broken: ' + ', '.join(broken)})"

    @property
    def in_sample(self) -> bool:
        """Whether the rows were those of the fit, so that no limit can be kept."""
        whole = getattr(self.evaluation, "whole", self.evaluation)
        return getattr(whole, "in_sample", None) is not None

    @property
    def passed(self) -> bool:
        """Whether every limit is kept."""
        return all(line.passed for line in self.lines)

    def to_dict(self) -> dict[str, Any]:
        """Return the stable JSON form."""
        whole = getattr(self.evaluation, "whole", self.evaluation)
        return {
            "schema": 1,
            "n": self.n,
            "passed": self.passed,
            "undecided": self.undecided,
            "checks": [line.to_dict() for line in self.lines],
            "verdict": str(self.verdict),
            "judgment": self.verdict.to_dict(),
            "rejected": dict(getattr(whole, "rejected", {})),
            "skipped_files": list(getattr(whole, "skipped", ())),
        }

    def _repr_html_(self) -> str:
        head, (heads, *rows), tail = self._shown()
        return notebook_html(head, "", heads, rows, first_upper(head.rpartition(" · ")[2]), tail)

    def __str__(self) -> str:
        head, rows, tail = self._shown()
        return "\n".join([head, *table(rows), *tail])

    def _shown(self) -> tuple[str, list[tuple[str, ...]], list[str]]:
        """Return what a person sees: the first line, the table, and the lines under it."""
        failed = [line for line in self.lines if not line.passed]
        unsure = [line for line in self.lines if line.answer == "undecided"]
        head = f"{count(self.n)} predictions · {len(self.lines)} limit{'s' * (len(self.lines) > 1)} · "
        head += "all kept" if not failed else f"{len(failed)} broken"
        head += f" ({len(unsure)} undecided)" if unsure else ""
        rows: list[tuple[str, ...]] = [("", "rows", "metric", "value", "interval", "limit", "answer")]
        for line in sorted(self.lines, key=lambda line: line.passed):
            label = ", ".join(f"{key}={value}" for key, value in line.by.items()) or "all"
            sign = "≤" if line.rule == "max" else "≥"
            name = f"p-value of {line.metric}" if line.rule == "min-pvalue" else line.metric
            shown, low, high = (line.shown(value) for value in (line.value, line.low, line.high))
            span = DASH if line.low is None else f"[{low}, {high}]"
            limit = f"{sign} {f'{100 * line.limit:g}%' if line.as_percent else f'{line.limit:g}'}"
            rows.append(("ok" if line.passed else "FAILED", label, name, shown, span, limit, line.answer))
        tail = [f"Undecided at this n, {_BECAUSE[self.undecided]}:"] if unsure else []
        for line in unsure:
            label = ", ".join(f"{key}={value}" for key, value in line.by.items())
            tail.append(f"  {line.metric}{f' ({label})' if label else ''}: {line.need}.")
        if any(line.by and line.low is not None for line in self.lines):
            tail.append("Intervals of slices hold for all slices together.")
        if any(line.metric != line.name for line in self.lines):
            event = event_name(getattr(self.evaluation, "whole", self.evaluation).facts.event)
            tail.append(f"Errors are those of the probability of {event}; NAME@top-1 is that of the top label.")
        tail += [f"Verdict: {self.verdict}"] if failed and (self.in_sample or self.verdict.pvalue is not None) else []
        return head, rows, tail


#: Why an undecided limit counts as kept or broken.
_BECAUSE = {
    "point": "so the value decides whether the limit is kept",
    "pass": "which counts as kept",
    "fail": "which counts as broken",
}


def check(
    y_true: Any,
    y_proba: Any = None,
    *,
    max_values: Given = None,
    min_values: Given = None,
    min_pvalues: Given | float = None,
    config: str | Path | None = None,
    undecided: str = "point",
    n_resamples: int = 1000,
    **options: Any,
) -> Gate:
    """Return whether predictions keep limits, line by line: within a limit, beyond it, or undecided at this n.

    Parameters
    ----------
    y_true, y_proba
        As in `calibrant.evaluate`: arrays, or a path, pattern or frame.
    max_values, min_values : mapping of str to float, or words such as ``"ks=0.02"`` or ``"ks=2%"``, optional
        Largest and smallest values allowed, by the short name of a metric. A value is within its limit when the whole
        95% interval is, and beyond it when the whole interval is; between the two the rows do not decide. A calibration
        error is that of the view of the verdict: class 1 of two classes, else the top label; ``"ks@top-1"`` names one.
        Intervals of slices hold for all slices together: a limit that every slice meets is beyond in at most 5%.
    min_pvalues : mapping, words, or a float, optional
        Smallest p-values allowed; a number alone is that of the KS test. p-values of slices are corrected
        for the number of slices: that of ks is the test behind the verdict on the slice, as `evaluate` prints it.
    config : path, optional
        TOML file with tables ``[max]``, ``[min]`` and ``[min-pvalue]``; limits given here win.
    undecided : {"point", "pass", "fail"}
        What an undecided limit does: the value decides (default), it counts as kept, or as broken.
    n_resamples : int, default 1000
        Label resamplings behind p-values and the verdict; as many more as a limit on a p-value needs to be broken.
    **options
        Further options of `calibrant.evaluate`: by, n_bins, groups, engine, label and the like.

    Returns
    -------
    Gate
        ``.passed``, ``.lines``, ``.to_dict()``; ``str()`` is the terminal text.

    Examples
    --------
    >>> gate = check([1, 0, 1, 1], [0.9, 0.2, 0.8, 0.6], max_values={"brier": 0.2}, min_values="accuracy=0.9")
    >>> gate.passed, [line.name for line in gate.lines]
    (True, ['brier', 'accuracy'])
    """
    check_options(check, locals())
    check_names(undecided, UNDECIDED, "undecided", "check")
    limits = (Limits() if config is None else Limits.read(check_path(config, "config", "check"))).with_words(
        max_values, min_values, min_pvalues
    )
    for name in ("metrics", "view"):
        if options.pop(name, None) is not None:
            raise input_error(name, "check", "be left out: the limits name the metrics", "some", "leave it out")
    options["level"] = JointLevel(check_share(options.get("level", 0.95), "level", "check"))
    found = evaluate(y_true, y_proba, metrics=limits.names, n_resamples=_draws(limits.pvalues, n_resamples), **options)
    done = found if isinstance(found, FileEvaluation) else FileEvaluation(found)
    alone = {name: done.whole[_judged(name)].pvalue for name in limits.pvalues}
    lines = _lines({}, done.whole, limits, alone, undecided)
    corrected = {name: _corrected(done.slices, name) for name in limits.pvalues}
    for i, part in enumerate(done.slices):
        pvalues = {name: every[i] for name, every in corrected.items()}
        lines += _lines(part.by, part.evaluation, limits, pvalues, undecided)
    if done.whole.in_sample is not None:  # a limit kept on rows that were fitted on proves nothing
        lines = [replace(line, passed=False) for line in lines]
    return Gate(done.whole.n, tuple(lines), done.whole.verdict, undecided, found)


def _draws(pvalues: Mapping[str, float], n_resamples: int) -> int:
    """Return how many resamplings can break every limit on a p-value; those of mean scores need none."""
    drawn = {
        name: limit for name, limit in pvalues.items() if not lookup(name.partition("@")[0], "check").build().is_mean
    }
    for name, limit in drawn.items():
        if 0 < limit < 1 / _MOST_DRAWS:
            rule = f"be at least {1 / _MOST_DRAWS:g}: a smaller p-value takes more resamplings than are made"
            raise input_error("min_pvalues", "check", rule, f"{name}={limit:g}", "raise the limit")
    return max(n_resamples, *(math.floor(1 / limit) for limit in drawn.values() if limit), 0) if n_resamples else 0


def _corrected(slices: Sequence[Slice], name: str) -> list[float | None]:
    """Return the p-values of one metric corrected for the number of slices."""
    if name == KS_TEST:
        return [part.corrected for part in slices]
    return holm_known([part.evaluation[_judged(name)].pvalue for part in slices])


def _lines(
    by: dict[str, Any], evaluation: Any, limits: Limits, pvalues: Mapping[str, float | None], undecided: str
) -> list[Line]:
    sides: tuple[tuple[Side, Mapping[str, float]], ...] = (("max", limits.most), ("min", limits.least))
    lines = [
        _line(by, evaluation[_judged(name)], name, side, limit, undecided)
        for side, given in sides
        for name, limit in given.items()
    ]
    for name, limit in limits.pvalues.items():
        value, metric = pvalues[name], evaluation[_judged(name)].name
        kept = value is not None and value >= limit  # no p-value keeps no limit
        lines.append(Line(by, name, "min-pvalue", limit, value, kept, "within" if kept else "beyond", metric=metric))
    return lines


def _line(by: dict[str, Any], result: Any, name: str, side: Side, limit: float, undecided: str) -> Line:
    found = decide(result, limit, side)
    span = found.interval
    low, high = (None, None) if span is None else (span.low, span.high)
    passed, value = found.passes(undecided), float(result.value)
    return Line(by, name, side, limit, value, passed, found.answer, low, high, found.rows, found.need, result.name)
