"""One look at the names of columns: which is there, how it is spelled, and what its values say."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from calibrant._typing import Space
from calibrant.errors import FileError, InputError, input_error
from calibrant.io import names as known
from calibrant.io.classes import in_order, match_classes, spelled_like
from calibrant.io.labels import flags_of, plain_name
from calibrant.io.layout import Columns, Field, Kind, Layout, listed, note

__all__ = ["NUMBERS", "Lookup", "Values", "refused"]

#: Names that an error lists at most.
MOST_LISTED = 12
#: Distinct values of a column; with True a look at the first rows is enough.
Values = Callable[[str, bool], Iterable[Any]]
#: Kinds of columns that can hold scores.
NUMBERS = ("number", "integer", "list")


def refused(argument: str, rule: str, got: str, hint: str) -> InputError:
    """Return the error of an option of reading."""
    return input_error(argument, "read", rule, got, hint)


class Lookup:
    """The columns of one source: every question about a name is asked here."""

    def __init__(
        self, fields: Mapping[str, Field], layout: Layout, source: str, things: str, values: Values | None
    ) -> None:
        self.fields, self.layout, self.source, self.things = fields, layout, source, things
        self.patterns = layout.patterns_among(fields)
        self.values = values
        #: The rows of a column, where they are in memory.
        self.rows: Any = getattr(values, "column", None)
        self.plain = {plain_name(name): name for name in reversed(list(fields))}

    def truth(
        self, names: known.Names, taken: Sequence[str | None], *, missing: bool = True, numbers: Sequence[str] = ()
    ) -> str:
        """Return the column of the truth; empty where it is neither there nor needed.

        Without a name that says so, it is the one column of text whose values the columns `numbers` are called like.
        """
        layout = self.layout
        if layout.label is not None:
            return self.there(layout.label, "the truth", "label")
        free = known.Names(*(tuple(n for n in row if self.spelled(n) not in taken) for row in names))
        found = self.pick(free, None, "the truth", "label", strict=layout.labels_needed)
        if found in names.standard and names is known.TRUTH and layout.labels_needed:
            found = self.truth_beside(found, [self.spelled(n) for n in known.PLAINLY_TRUTH if n in free.synonyms])
        if found is None and layout.labels_needed and len(numbers) > 1 and self.values is not None:
            texts = [n for n, f in self.fields.items() if f.kind == "other" and n not in taken and not self.predicts(n)]
            hits = [name for name in texts if match_classes(self.labels(name), numbers)]
            found = hits[0] if len(hits) == 1 else None
        if found is None and layout.labels_needed and missing:
            raise self.missing(
                f"{self.things.removesuffix('s')} {names.standard[0]!r}",
                self.truth_hint(taken, classes=names is known.TRUTH),
            )
        return found or ""

    def truth_beside(self, label: str, others: Sequence[str]) -> str:
        """Return the truth where a column `label` and one that is plainly the truth hold the same classes."""
        for other in others if self.rows is not None else ():
            same = other in self.fields and set(self.labels(label)) == set(self.labels(other))
            if same and (self.rows(label) != self.rows(other)).any():
                if self.spelled("score") in self.fields:  # a pipeline writes the class it predicts as label and score
                    return other
                what = f"{self.source} has several {self.things} for the truth, which differ: {label}, {other}"
                raise FileError(what, hint=f"name one with {{label={other}}}")
        return label

    def predicts(self, name: str) -> bool:
        """Whether the name of a column says that it holds the predicted class."""
        word = plain_name(name)
        known_words = {plain_name(n) for row in known.PREDICTED for n in row}
        return word.startswith("pred") or word.endswith(("_pred", "output_label", "guess")) or word in known_words

    def confidence_of(self, found: Columns) -> Columns:
        """Return pairs where one score beside a predicted class cannot be the probability of one of two labels."""
        if found.kind != "binary" or not found.label or self.layout.positive is not None or self.values is None:
            return found
        self.refuse_long(found)
        names = (*known.PREDICTED.standard, *known.PREDICTED.synonyms, "label")  # a pipeline calls its prediction so
        free = [n for n in map(self.spelled, names) if n in self.fields and n not in found.used]
        if not free or self.fields[free[0]].kind in ("list", "number"):
            return found
        said, held = ({plain_name(value) for value in self.values(name, True)} for name in (free[0], found.label))
        scores = [score for score in self.values(found.scores[0], True) if score is not None]
        least = min(scores, default=0) / (100 if max(scores, default=0) > 1.5 else 1)
        if said & held and (len(said | held) > 2 or (len(said) == 2 and least >= 0.5)):
            return replace(found, kind="pairs", predicted=free[0], classes=None, names=None, positive=None)
        return found

    def refuse_long(self, found: Columns) -> None:
        """Refuse a table with a row per class, which a column of both classes, in turn or in blocks, gives away."""
        if self.values is None or self.rows is None:
            return
        for name, field in self.fields.items():
            other = field.kind == "other" and name not in found.used and not self.predicts(name)
            if other and {*self.values(name, True)} == {*self.values(found.label, True)}:
                held = self.rows(name).tolist()
                half = len(held) // 2
                if held in (held[:2] * half, [held[0]] * half + [held[-1]] * half):
                    hint = "pivot it: one row per prediction, with one column per class"
                    raise FileError(f"{self.source} has a row per class, which {name} names", hint=hint)

    def truth_hint(self, taken: Sequence[str | None], *, classes: bool) -> str:
        """Return how to name the truth; with the column that may be it, where only one holds a few values."""
        hint = "name the truth with {label}"
        if not classes or self.values is None:
            return hint
        few = {}
        for name, field in self.fields.items():
            if name not in taken and field.kind in ("integer", "boolean", "other") and not self.predicts(name):
                held = {value for value in self.values(name, True) if value is not None}
                if 2 <= len(held) <= MOST_LISTED:
                    few[name] = listed(sorted(map(str, held)), 4)
        if len(few) != 1:
            return hint
        ((name, words),) = few.items()
        return f"{name} holds {words}: if that is the truth, {{label={name}}}"

    def with_labels(
        self, names: tuple[str, ...], space: Space, classes: tuple[Any, ...] | None, label: str, more: dict[str, Any]
    ) -> Columns:
        """Put scores and truth together: whether the labels are the names of the columns or count them."""
        if label and self.patterns and self.fields[label].kind == "number" and self.first(known.MEAN):
            raise refused(
                "proba", f"name class probabilities, and the truth {label} holds real numbers", names[0], "leave it out"
            )
        counted = None
        if label and self.layout.labels_needed and not self.patterns and self.is_real(label):
            raise FileError(
                f"{self.source} has real numbers in {label}, so {listed(names)} cannot be the probabilities of classes",
                hint="name {mean} and {variance} or {std}, or the truth with {label}",
            )
        if len(names) > 1 and label and space == "proba" and not self.layout.percent:
            names, classes = self.meant(names, classes, label)
        if classes is not None and label and self.counts(label) and not isinstance(classes[0], int):
            label = self.in_words(label, classes) or label
            if self.fields[label].kind != "other":  # indices beside named columns
                names, classes, counted = in_order(names, classes, () if len(self.patterns) > 1 else self.labels(label))
        if classes is not None and label and self.fields[label].kind == "boolean":
            classes = self.flags(classes, label)
        elif classes is not None and label and self.fields[label].kind == "other" and self.values is not None:
            classes = spelled_like(classes, self.labels(label))
        more = more | {"names": counted}
        kind: Kind = "wide" if len(names) > 1 else "list" if self.fields[names[0]].kind == "list" else "binary"
        return self.confidence_of(Columns(kind, names, label, space, classes=classes, **more))

    def in_words(self, label: str, classes: Sequence[Any]) -> str | None:
        """Return the column that spells out the numbers of a label with the names of the classes: ``label_text``."""
        if self.values is None or self.rows is None or self.layout.label:
            return None
        called = set(map(plain_name, classes))
        for name, field in self.fields.items():
            if (
                field.kind == "other"
                and not self.predicts(name)
                and {*map(plain_name, self.values(name, True))} <= called
            ):
                pairs = set(zip(self.rows(label).tolist(), self.rows(name).tolist(), strict=True))
                if 1 < len(pairs) == len(self.labels(label)) == len(self.labels(name)):
                    return name
        return None

    def counts(self, label: str) -> bool:
        """Whether labels are whole numbers; with missing ones among them pandas writes 1.0 for 1."""
        kind = self.fields[label].kind
        return kind == "integer" or (kind == "number" and self.values is not None and not self.fractions(label))

    def fractions(self, label: str) -> float:
        """Return the share of the first values of a column of numbers that are not whole."""
        seen = [] if self.values is None else self.values(label, True)
        held = [float(value) for value in seen if value is not None and value == value]  # noqa: PLR0124 -- nan
        return sum(not value.is_integer() for value in held) / max(len(held), 1)

    def meant(
        self, names: tuple[str, ...], classes: tuple[Any, ...] | None, label: str
    ) -> tuple[tuple[str, ...], tuple[Any, ...] | None]:
        """Return columns and classes of one forecast: those called like the labels, where all are too many."""
        words = self.fields[label].kind == "other"
        if self.values is None or self.fields[label].kind == "list" or (self.rows is None and not words):
            return names, classes
        labels = {plain_name(value): value for value in self.labels(label)}
        called = [plain_name(c) for c in (range(len(names)) if classes is None else classes)]
        if words and labels and not set(called) & set(labels):
            return self.one_forecast(match_classes(list(labels.values()), names)) or (names, classes)
        part = tuple(name for name, word in zip(names, called, strict=True) if word in labels)
        if part == names or self.sums_to_one(names, 1e-6) is not False or not self.probable(names):
            return names, classes
        if len(part) > 1 and self.sums_to_one(part):
            note(f"{listed(name for name in names if name not in part)}: left out, as the others sum to 1")
            return part, None if classes is None else tuple(labels[word] for word in called if word in labels)
        alone = len(names) < 7 and not part and not self.patterns and all(map(self.differs, names))
        if alone and self.sums_to_one(names) is False:
            raise FileError(
                f"{self.source} has scores in {listed(names)} that do not sum to 1 and are not called like the labels",
                hint=f"if they are of several models, name one: {{proba={names[0]}}}",
            )
        return names, classes

    def one_forecast(self, matches: Sequence[Any]) -> tuple[tuple[str, ...], tuple[Any, ...]] | None:
        """Return columns and classes of the only match; two that both hold probabilities are one too many."""
        good = [m for m in matches if m.space == "proba" and self.probable(m.columns)]
        good = [m for m in good if self.sums_to_one(m.columns) is not False] or good
        if len({match.columns for match in good}) > 1:
            what = " or ".join(listed(match.columns) for match in good)
            one = "*".join(good[0].around) if any(good[0].around) else ",".join(good[0].columns)
            hint = f"name those of one model, for example {{proba={one}}}"
            raise FileError(f"{self.source} has several {self.things} for the scores: {what}", hint=hint)
        return (good[0].columns, good[0].classes) if good else None

    def flags(self, classes: tuple[Any, ...], label: str) -> tuple[bool, bool]:
        """Return the classes as booleans, where the truth is one."""
        flags = flags_of(classes)
        if flags is None:
            raise refused(
                "label",
                f"hold names of the classes {listed(map(str, classes))}",
                f"booleans in {label!r}",
                "name it with {label}",
            )
        return flags

    def labels(self, label: str) -> list[Any]:
        """Return the distinct values of the label in sorted order, missing ones left out."""
        if self.values is None:
            return []
        return sorted({v for v in self.values(label, False) if v is not None and v == v}, key=str)  # noqa: PLR0124

    def pick(
        self, names: known.Names, given: str | None, role: str, argument: str, *, strict: bool = True
    ) -> str | None:
        """Return the column of one role: the given one, the first standard name, or the only synonym."""
        if given is not None:
            return self.there(given, role, argument)
        for name in names.standard:
            if name in self.fields:
                return name
        for name in names.standard:
            if self.spelled(name) in self.fields:
                return self.spelled(name)
        hits = list(dict.fromkeys(self.spelled(name) for name in names.synonyms if self.spelled(name) in self.fields))
        if len(hits) > 1 and strict:
            raise FileError(
                f"{self.source} has several {self.things} for {role}: {', '.join(hits)}",
                hint=f"name one with {{{argument}}}",
            )
        return hits[0] if hits else None

    def first(self, names: known.Names) -> str | None:
        """Return the first name that is there, without a word about others."""
        return next((self.spelled(name) for row in names for name in row if self.spelled(name) in self.fields), None)

    def spelled(self, name: str) -> str:
        """Return a name as the data spell it: in any case and with any signs between its words."""
        if name in self.fields:
            return name
        return self.plain.get(plain_name(name), name)

    def usable(self, name: str, row: int) -> bool:
        """Whether a column can hold scores; a standard name is taken at its word."""
        field = self.fields.get(self.spelled(name))
        if row and field is not None and field.kind == "integer" and self.values is not None and "pred" not in name:
            return max(self.values(self.spelled(name), True), default=0) > 20  # percentages; fewer may be classes
        return field is not None and (not row or field.kind in ("number", "list"))

    def matching(self, pattern: str) -> list[str]:
        """Return the columns of a pattern: as it is written, else in any case."""
        exact = [name for name in self.fields if fnmatch.fnmatchcase(name, pattern)]
        return exact or [name for name in self.fields if fnmatch.fnmatchcase(name.lower(), pattern.lower())]

    def there(self, name: str, role: str, argument: str) -> str:
        """Return a name that the caller gave, if it is there; in another case it is found as well."""
        name = self.spelled(name)
        if name not in self.fields:
            thing = self.things.removesuffix("s")
            raise self.missing(f"{thing} {name!r} for {role}", f"check {{{argument}}}")
        return name

    def missing(self, what: str, hint: str) -> FileError:
        """Return the error of something that is not there, with what is."""
        held = listed(self.fields, MOST_LISTED) or "nothing"
        return FileError(f"{self.source} has no {what}; its {self.things} are {held}", hint=hint)

    def is_real(self, label: str | None) -> bool:
        """Whether a column holds real numbers, and not classes with a few bad rows among them."""
        number = label is not None and label in self.fields and self.fields[label].kind == "number"
        return number and self.fractions(str(label)) > 0.5

    def same_stem(self, more: dict[str, Any]) -> Columns | None:
        """Find mean and spread of one stem: ``posterior_mean`` with ``posterior_variance``."""
        found = []
        label = self.layout.label or self.first(known.OUTCOME)
        if not self.is_real(label) or self.first(known.MEAN_BESIDE):
            return None
        spread = r"(?:(.+)_)?(std|sd|sigma|stddev|stdev|std_dev|var|variance)(?:_(.+))?"
        for word, name in self.plain.items():
            hit = re.fullmatch(spread, word) if self.fields[name].kind in NUMBERS else None
            if hit is None or bool(hit[1]) == bool(hit[3]):
                continue
            stem = hit[1] or hit[3]
            names = (f"{stem}_mean", f"{stem}_mu", f"mean_{stem}", f"mu_{stem}", stem)
            mean = next((self.plain[n] for n in names if n in self.plain), None)
            if mean is not None and not any(self.spelled(n) == mean for row in known.OUTCOME for n in row):
                found.append((mean, name, not hit[2].startswith("var")))
        if len(found) != 1:
            return None
        ((mean, name, std),) = found
        return Columns("regression", (mean,), str(label), variance=name, std=std, **more)

    def probable(self, names: Sequence[str]) -> bool:
        """Whether the first values of columns lie in [0, 100], as far as one may look."""
        if self.values is None:
            return True
        seen = [value for name in names for value in self.values(name, True) if isinstance(value, int | float)]
        return bool(seen) and min(seen) >= 0 and max(seen) <= 100

    def sums_to_one(self, names: Sequence[str], off: float | None = None) -> bool | None:
        """Whether the rows of columns sum to 1 (or 100), as far as rounding lets them; None without rows."""
        sums = getattr(self.values, "row_sums", None)
        if sums is None:
            return None
        found = sums(names)
        if not len(found):
            return None
        off = 0.005 * len(names) + 1e-6 if off is None else off
        return bool(abs(found - 1).max() <= off or abs(found - 100).max() <= 100 * off)

    def differs(self, name: str) -> bool:
        """Whether a column has probabilities between 0 and 1, and not classes alone."""
        if self.fields[name].kind == "list" or self.values is None:
            return self.fields[name].kind == "list"
        seen = [value for value in self.values(name, True) if value is not None]
        return bool(seen) and all(0 <= value <= 1 for value in seen) and any(0 < value < 1 for value in seen)
