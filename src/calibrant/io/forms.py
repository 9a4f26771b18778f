"""Forms that are found last: columns called like the labels, one column of two, quantiles, the few best classes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from calibrant._typing import Space
from calibrant.errors import FileError
from calibrant.io import names as known
from calibrant.io.classes import match_classes, spelled_like
from calibrant.io.labels import NEGATIVE, plain_name, positive_of
from calibrant.io.layout import Columns
from calibrant.io.lookup import NUMBERS, Lookup

__all__ = ["Forms"]


class Forms(Lookup):
    """Forms that need a look at values, or names that may mean several things."""

    def called_like_labels(self, more: dict[str, Any]) -> Columns | None:
        """Find columns that are called like the values of the label, or like the classes of a calibrator."""
        numbers = [name for name, field in self.fields.items() if field.kind in ("number", "integer")]
        label = self.truth(known.TRUTH, taken=(more["weight"],), missing=False, numbers=numbers)
        labels: Sequence[Any] = self.labels(label) if label and self.fields[label].kind != "list" else ()
        numbers = [name for name in numbers if name != label]
        asked = (self.layout.classes or (), labels) if not label else (labels, self.layout.classes or ())
        for words in asked:
            matches = match_classes(list(words), numbers) if len(words) > 1 else []
            found = self.one_forecast(matches)
            if found is not None:
                names, classes = found
                if matches[0].around == ("", ""):
                    names, classes = self.with_others(names, classes, numbers)
                return self.with_labels(names, self.layout.space or "proba", counted_names(classes), label, more)
            for match in matches:
                if match.space == "logit":
                    return self.with_labels(match.columns, "logit", counted_names(match.classes), label, more)
        return None

    def with_others(
        self, names: tuple[str, ...], classes: tuple[Any, ...], numbers: Sequence[str]
    ) -> tuple[tuple[str, ...], tuple[Any, ...]]:
        """Add the columns of classes that do not occur: those between the first and the last that make the sum 1."""
        if self.sums_to_one(names) is not False:
            return names, classes
        floats = [name for name in numbers if self.fields[name].kind == "number" and name not in names]
        every = tuple(name for name in self.fields if name in names or name in floats)
        if floats and self.sums_to_one(every):
            known_names = dict(zip(names, classes, strict=True))
            return every, tuple(known_names.get(name, name) for name in every)
        return names, classes

    def numbered(self) -> list[tuple[tuple[str, ...], Space | None, tuple[Any, ...] | None]]:
        """Return columns of classes with a number and no sign before it: ``p0``, ``p1``."""
        found: list[tuple[tuple[str, ...], Space | None, tuple[Any, ...] | None]] = []
        for stem in known.NUMBERED:
            numbers = {
                name: int(name[len(stem) :])
                for name, field in self.fields.items()
                if re.fullmatch(rf"(?i){stem}\d+", name) and field.kind in NUMBERS
            }
            first = min(numbers.values(), default=9)
            if len(numbers) > 1 and first <= 1 and set(numbers.values()) == set(range(first, first + len(numbers))):
                order = sorted(numbers, key=numbers.__getitem__)
                found.append((tuple(order), "proba", None if first == 0 else tuple(numbers[name] for name in order)))
        return found

    def last(self, more: dict[str, Any]) -> Columns | None:
        """Find one column for one of two classes: ``p_yes`` alone, or a name that may hold anything."""
        for pattern, space in (*known.WIDE.standard, *known.WIDE.synonyms):
            if "log" in pattern and "logit" not in pattern:
                continue  # a log-probability alone is no log-odds
            hits = [name for name in self.matching(pattern) if self.fields[name].kind in ("number", "integer")]
            if len(hits) == 1:
                return self.one_of_two(hits[0], self.layout.space or space or "proba", pattern, more)
        numbered = [n for n in self.fields if re.fullmatch(rf"(?i)({'|'.join(known.NUMBERED)})[01]", n)]
        if len(numbered) == 1:
            return self.one_of_two(numbered[0], self.layout.space or "proba", numbered[0][:-1] + "*", more)
        hits = [self.spelled(n) for n in known.LAST if self.usable(n, 1) and self.differs(self.spelled(n))]
        if len(hits) > 1:
            raise FileError(
                f"{self.source} has several {self.things} for the scores: {', '.join(hits)}",
                hint="name one with {proba}",
            )
        if not hits:
            hits = [n for n, f in self.fields.items() if "prob" in n.lower() and f.kind == "number" and self.differs(n)]
            if len(hits) == 1:
                return self.one_of_two(hits[0], self.layout.space or "proba", re.sub(r"[01]$", "*", hits[0]), more)
        if len(hits) != 1:
            return None
        label = self.truth(known.TRUTH, taken=(*hits, more["weight"]))
        if label and self.fields[label].kind == "number" and not all(float(v).is_integer() for v in self.labels(label)):
            return None  # the truth is no class
        return self.with_labels((hits[0],), self.layout.space or "proba", None, label, more)

    def one_of_two(self, name: str, space: Space, pattern: str, more: dict[str, Any]) -> Columns:
        """Return one column whose name says of which of two labels it speaks."""
        label = self.truth(known.TRUTH, taken=(name, more["weight"]))
        found = self.with_labels((name,), space, None, label, more)
        head, _, tail = pattern.partition("*")
        word = name[len(head) : len(name) - len(tail)]
        labels = self.labels(label) if label and self.fields[label].kind != "list" else []
        mine = [value for value in labels if spelled_like((word,), [value]) == (value,) or str(value) == word]
        mine = mine or [value for value in labels if isinstance(value, float) and word == f"{value:.0f}"]
        number = re.fullmatch(r"(?:class|label)_?(\d+)", word.lower())
        mine = mine or [value for value in labels if number and plain_name(value) == number[1]]
        if not mine and len(labels) == 2 and len(word) > 1 and word.lower() in NEGATIVE:
            mine = [value for value in labels if value != positive_of(*labels)]
        if self.layout.positive is None and len(mine) == 1 and len(labels) == 2:
            other = labels[0] if labels[1] == mine[0] else labels[1]
            return replace(found, classes=(other, mine[0]), positive=mine[0])
        return found

    def quantiles(self, more: dict[str, Any]) -> Columns | None:
        """Find columns of quantiles: ``q0.1``, ``q_10``, ``p10`` and ``p90``, ``quantile_0.5``."""
        form = re.compile(
            r"(?i)(?:q|quantile|pctl|percentile|p)[-_. ]?(0?\.\d+|\d{1,2}(?:\.\d+)?)%?|(?P<plain>0\.\d{1,3})|"
            r"(?P<percent>\d{1,2}(?:\.\d+)?)[ ]?%"
        )
        levels = {
            name: form.fullmatch(name) for name, field in self.fields.items() if field.kind in ("number", "integer")
        }
        found = {}
        for name, hit in levels.items():
            if hit is not None:
                word = hit["plain"] or hit["percent"] or hit[1]
                level = float(word)
                found[name] = level if level < 1 and "." in word and not hit["percent"] else level / 100
        found = found or self.interval_ends()
        if any(level != level for level in found.values()):  # noqa: PLR0124 -- no level is said
            return None
        by_p = all(name[:1] in "pP" for name in found)
        if len(set(found.values())) < len(found):
            raise FileError(
                f"{self.source} has several {self.things} for one quantile: {', '.join(found)}",
                hint="leave those of one model in the file",
            )
        if len(found) < 2 or min(found.values()) <= 0 or (by_p and sorted(found.values())[0] < 0.05):
            return None
        order = sorted(found, key=found.__getitem__)
        label = self.truth(known.OUTCOME, taken=(*order, more["weight"]))
        if label and not self.is_real(label) and len(self.labels(label)) <= 2:
            return None  # classes, and q1 and q2 are questions
        return Columns("quantiles", tuple(order), label, levels=tuple(found[name] for name in order), **more)

    def interval_ends(self) -> dict[str, float]:
        """Return the ends of an interval with their levels, ``lower_90`` and ``upper_90``; nan where none is said."""
        form = re.compile(r"(?i)(?:.*[-_. ])?(lower|lo|lwr|upper|hi|upr)(?:[-_. ]?(\d{2})%?)?")
        ends = {}
        for name, field in self.fields.items():
            hit = form.fullmatch(name) if field.kind in ("number", "integer") else None
            if hit is not None:
                half = float(hit[2]) / 200 if hit[2] else float("nan")
                ends[name] = (0.5 - half) if hit[1].lower().startswith("l") else (0.5 + half)
        return ends if len(ends) > 1 else {}

    def top_k(self, more: dict[str, Any]) -> Columns | None:
        """Find the scores and labels of the few best classes."""
        scores, labels = (
            next((n for p in patterns for n in self.matching(p) if self.fields[n].kind == "list"), None)
            for patterns in (known.TOP_SCORES, known.TOP_LABELS)
        )
        if scores is None or labels is None:
            return None
        label = self.truth(known.TRUTH, taken=(scores, labels, more["weight"]))
        return Columns("top-k", (scores,), label, top_labels=labels, **more)


def counted_names(classes: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Return the names of classes; None for 0, 1, 2 and so on in their order, which need none."""
    return None if list(map(str, classes)) == [str(k) for k in range(len(classes))] else classes
