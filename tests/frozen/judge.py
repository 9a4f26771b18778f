"""How answers are stored and compared.

Stored are JSON documents. A number that is the same for ten seeds is exact: it must come again to the case's tolerance
(1e-9; 1e-7 for fits), relative or absolute. Another one is *drawn* and is stored with the range of the ten,
``{"~": [seed 0, lowest, highest]}``:

- a drawn p-value must lie within 4·√((p(1−p) + 1/B)/B) of that of seed 0, four standard errors of B draws;
- every other drawn number within the range of the ten, widened by its own width on each side. The plain range would be too
  narrow: an eleventh value that is as good as the ten lies outside of it in 2 of 11 cases.

Strings, keys, booleans and the lengths of lists must be the same; a key that is new is a difference like one that is
gone. A string that differs between the ten seeds is stored with its variants and judged by its words; its numbers must
lie in the widened range, or stay where no seed moved them. A status or a sentence beside a
drawn p-value may change if that may lie on either side of 0.05.

Masked are, by value, what no two runs share: the folder of the inputs, the time, today's date, versions, addresses.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

SEEDS = range(10)
#: Longer lists of numbers are stored as their length, ends and a sum that sees their order.
LONG = 40
#: Keys that mark what is drawn.
NUMBER, WORDS, ANY = "~", "~words", "~any"

_DIGITS = re.compile(r"(?<![\w.])[-+−]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e[-+]?\d+)?", re.IGNORECASE)
_CLOCK = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|[+-]\d\d:?\d\d)?")
_HASH = re.compile(r"[0-9a-f]{16,64}")
#: Keys of words that follow from a p-value.
_JUDGED = re.compile(r"status|direction|headline|sentence|verdict|next(_step)?|advice|answer|passed")
_PVALUE = re.compile(r"(.*_)?(pvalue|corrected)s?(_max|_min)?")


class Moved(NamedTuple):
    """One place where an answer is another one now."""

    path: tuple[str | int, ...]
    old: Any
    new: Any

    @property
    def where(self) -> str:
        return ".".join(map(str, self.path))


#: Stands for a key, or a case, that is not there.
class Absent:
    """What is not there prints as a dash."""

    def __repr__(self) -> str:
        return "(absent)"


ABSENT = Absent()


# -- what is stored


def clean(value: Any, folder: Path | str = "") -> Any:
    """Return an answer as JSON: numbers to 12 significant digits, and nothing that only this run has."""
    if isinstance(value, Mapping):
        found = {str(_text(str(key), folder)): clean(item, folder) for key, item in value.items()}
        return {key: "…" if key.endswith("seconds") and is_number(item) else item for key, item in found.items()}
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        if len(value) > LONG and all(is_number(item) for item in value):
            numbers = np.array(value, dtype=float)
            finite = numbers[np.isfinite(numbers)]
            turned = float(np.dot(finite, np.cos(np.arange(len(finite)))))
            ends = [float(finite.min()), float(finite.max())] if len(finite) else []
            return {"#": len(value), "finite": len(finite), "turned sum": clean(turned), "ends": clean(ends)}
        return [clean(item, folder) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return float(f"{value:.12g}") if math.isfinite(value) else str(value)
    if value is None or isinstance(value, bool | int):
        return value
    return _text(str(value), folder)


def _text(text: str, folder: Path | str) -> str:
    for path in dict.fromkeys((str(folder), str(Path(folder).resolve()))) if str(folder) else ():
        text = text.replace(path + "/", "…/").replace(path, "…")
    text = re.sub(r"\b0x[0-9a-f]{6,}\b", "(address)", _CLOCK.sub("(time)", text))
    for day in {dt.datetime.now(dt.UTC).date(), dt.datetime.now(dt.UTC).astimezone().date()}:
        text = text.replace(day.isoformat(), "(today)")
    return _VERSIONS.sub("(version)", text)


def _versions() -> re.Pattern[str]:
    found = {platform.python_version()}
    for name in (
        "calibrant",
        "numpy",
        "scipy",
        "scikit-learn",
        "polars",
        "narwhals",
        "torch",
        "onnx",
        "duckdb",
        "pyspark",
    ):
        try:
            found.add(metadata.version(name))
        except metadata.PackageNotFoundError:
            continue
    words = "|".join(re.escape(word) for word in sorted(found, key=len, reverse=True))
    return re.compile(rf"(?<![\w.])v?(?:{words})(?![\w.])")


_VERSIONS = _versions()


def is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool | np.bool_)


def pool(answers: Sequence[Any]) -> Any:
    """Return one stored answer from the answers of several seeds, with what is drawn marked as such."""
    first = answers[0]
    if all(_same(one, first) for one in answers):
        return first
    if all(isinstance(one, dict) for one in answers) and all(one.keys() == first.keys() for one in answers):
        return {key: pool([one[key] for one in answers]) for key in first}
    if all(isinstance(one, list) for one in answers) and len({len(one) for one in answers}) == 1:
        return [pool(items) for items in zip(*answers, strict=True)]
    if all(is_number(one) for one in answers):
        return {NUMBER: [first, min(answers), max(answers)]}
    if all(isinstance(one, str) for one in answers):
        return {WORDS: _grouped(list(dict.fromkeys(answers)))}
    return {ANY: [json.loads(text) for text in dict.fromkeys(json.dumps(one, sort_keys=True) for one in answers)]}


def _same(one: Any, two: Any) -> bool:
    return json.dumps(one, sort_keys=True) == json.dumps(two, sort_keys=True)


def is_drawn(stored: Any) -> bool:
    return isinstance(stored, dict) and len(stored) == 1 and next(iter(stored)) in (NUMBER, WORDS, ANY)


def shown(stored: Any) -> Any:
    """Return the value of seed 0."""
    if not is_drawn(stored):
        return stored
    kind, values = next(iter(stored.items()))
    return values[0][0] if kind == WORDS else values[0]


# -- what moved


def differences(old: Any, new: Any, draws: int = 0, tolerance: float = 1e-9) -> list[Moved]:
    """Return every place where `new` is not what was stored in `old`."""
    return list(_Judge(draws, tolerance).compare(old, new, (), may_change=False))


class _Judge(NamedTuple):
    draws: int
    tolerance: float

    def compare(self, old: Any, new: Any, path: tuple[str | int, ...], *, may_change: bool) -> Iterator[Moved]:
        if is_drawn(old):
            if not self.drawn(old, new, path) and not (may_change and isinstance(new, str | bool)):
                yield Moved(path, shown(old), new)
        elif isinstance(old, dict) and isinstance(new, dict):
            on_the_line = self.on_the_line(old)
            for key in dict.fromkeys((*old, *new)):
                if key not in new or key not in old:
                    yield Moved((*path, key), old.get(key, ABSENT), new.get(key, ABSENT))
                else:
                    may = on_the_line and _JUDGED.fullmatch(key) is not None
                    yield from self.compare(old[key], new[key], (*path, key), may_change=may)
        elif isinstance(old, list) and isinstance(new, list):
            if len(old) == len(new):
                for place, (one, two) in enumerate(zip(old, new, strict=True)):
                    yield from self.compare(one, two, (*path, place), may_change=may_change)
            else:
                yield from self._lists(old, new, path)
        elif is_number(old) and is_number(new):
            if not self.close(old, new) and not (self.counted(old, path) and self.near(old, new)):
                yield Moved(path, old, new)
        elif isinstance(old, str) and isinstance(new, str):
            if not self.says_the_same(old, new) and not may_change:
                yield Moved(path, old, new)
        elif isinstance(old, bool) and isinstance(new, bool):
            if old is not new and not may_change:
                yield Moved(path, old, new)
        elif type(old) is not type(new) or old != new:
            yield Moved(path, old, new)

    def _lists(self, old: list[Any], new: list[Any], path: tuple[str | int, ...]) -> Iterator[Moved]:
        """Yield the first place where lists of different lengths part, and the lengths."""
        for place, (one, two) in enumerate(zip(old, new, strict=False)):
            first = next(iter(self.compare(one, two, (*path, place), may_change=False)), None)
            if first is not None:
                yield first
                break
        yield Moved((*path, "(length)"), len(old), len(new))

    def close(self, old: float, new: float) -> bool:
        return math.isclose(old, new, rel_tol=self.tolerance, abs_tol=self.tolerance)

    def near(self, old: float, new: float) -> bool:
        """Whether two p-values of B draws may differ so much by chance."""
        return abs(old - new) <= self.width(old)

    def width(self, p: float) -> float:
        inside = min(max(p, 0.0), 1.0)
        return 4.0 * math.sqrt((inside * (1.0 - inside) + 1.0 / self.draws) / self.draws)

    def counted(self, p: float, path: tuple[str | int, ...]) -> bool:
        """Whether a p-value is (draws that reached the value + 1)/(B + 1): drawn, though ten seeds agree on it."""
        times = p * (self.draws + 1)
        return self.draws > 0 and is_pvalue(path) and abs(times - round(times)) < 1e-6 and 0 < p <= 1

    def on_the_line(self, answer: dict[str, Any]) -> bool:
        """Whether a drawn p-value of this object, or of one right below it, may lie on either side of 0.05."""
        children = [item for item in answer.values() if isinstance(item, dict) and not is_drawn(item)]
        for one in (answer, *children):
            for key, stored in one.items():
                p = shown(stored)
                drawn = (
                    self.draws and is_number(p) and is_pvalue((key,)) and (is_drawn(stored) or self.counted(p, (key,)))
                )
                if drawn and self.near(p, 0.05):
                    return True
        return False

    def drawn(self, old: dict[str, Any], new: Any, path: tuple[str | int, ...]) -> bool:
        kind, values = next(iter(old.items()))
        if kind == NUMBER:
            first, low, high = values
            if not is_number(new):
                return False
            within = low - (high - low) <= new <= high + (high - low)
            return self.near(first, new) if is_pvalue(path) else within or self.close(first, new)
        if kind == WORDS:
            return isinstance(new, str) and any(_worded(new, *group) for group in values)
        masked = [_masked(one) for one in values]
        return _masked(new) in masked

    def says_the_same(self, old: str, new: str) -> bool:
        """Whether two texts are the same, or the same but for digits beyond the tolerance."""
        if old == new:
            return True
        if words(old) != words(new) or _DIGITS.sub("#", old) != _DIGITS.sub("#", new):
            # a hash of fitted numbers is another one on another processor
            return self.tolerance > 1e-8 and bool(
                _HASH.fullmatch(old) and _HASH.fullmatch(new) and len(old) == len(new)
            )
        pairs = zip(_numbers(old), _numbers(new), strict=True)
        return all(self.close(one, two) for one, two in pairs)


def is_pvalue(path: tuple[str | int, ...]) -> bool:
    keys = [part for part in path if isinstance(part, str)]
    return bool(keys) and _PVALUE.fullmatch(keys[-1]) is not None


def words(text: str) -> str:
    """Return a text with its numbers masked and its white space folded (columns move with the digits)."""
    return re.sub(r"[\s─-]+", " ", _DIGITS.sub("#", text))


def _number(text: str) -> float:
    return float(text.replace(",", "").replace("−", "-"))


def _numbers(text: str) -> list[float]:
    return [_number(found) for found in _DIGITS.findall(text)]


def _grouped(texts: list[str]) -> list[list[Any]]:
    """Return texts as [the first one of the same words, {place of a number: [lowest, highest]}]; one alone has no ranges."""
    found: dict[str, list[str]] = {}
    for text in texts:
        found.setdefault(words(text), []).append(text)
    groups: list[list[Any]] = []
    for alike in found.values():
        columns = list(zip(*map(_numbers, alike), strict=True))
        ranges = {str(place): [min(seen), max(seen)] for place, seen in enumerate(columns) if min(seen) < max(seen)}
        groups.append([alike[0], ranges] if len(alike) > 1 else [alike[0]])
    return groups


def _worded(new: str, old: str, ranges: dict[str, list[float]] | None = None) -> bool:
    """Whether a text has the words of another, and numbers as the seeds gave them, as far as the seeds agree."""
    if words(new) != words(old):
        return False
    if ranges is None:
        return True
    for place, (mine, theirs) in enumerate(zip(_DIGITS.findall(new), _numbers(old), strict=True)):
        low, high = ranges.get(str(place), (theirs, theirs))
        slack = (high - low) + 1e-9
        if not low - slack <= _number(mine) <= high + slack:
            return False
    return True


def _masked(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _masked(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_masked(item) for item in value]
    if isinstance(value, str):
        return words(value)
    return "#" if is_number(value) else value
