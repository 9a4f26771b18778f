"""What the resolver takes and gives: names and types of columns, what the caller said of them, and their roles."""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Literal

from calibrant.core.arguments import check_arguments
from calibrant.core.inputs import TOLERANCE
from calibrant.core.text import count
from calibrant.errors import FileError
from calibrant.io import names as known

if TYPE_CHECKING:
    from calibrant._typing import Array, Space  # brings NumPy, which the help of the command line does without

_log = logging.getLogger("calibrant.read")

__all__ = [
    "Columns", "Field", "Layout", "array_fields", "choose_part", "listed", "note", "say", "table_fields"
]  # fmt: skip

FieldKind = Literal["integer", "number", "boolean", "other", "list"]
Kind = Literal["wide", "binary", "list", "pairs", "regression", "top-k", "quantiles"]


@dataclass(frozen=True)
class Layout:
    """Where things are, as far as the caller says so; None means the names of `calibrant.io.names`.

    Attributes
    ----------
    proba : str or sequence of str, optional
        Column, array, pattern (``prob_*``), or several of them (comma-separated in one string).
    label, weight : str, optional
        Truth and frequencies; the weight ``"none"`` leaves a column of that name alone.
    space : {"proba", "logit"}, optional
        What the scores are, when their names do not say.
    mean, variance, std : str, optional
        Regression: the mean, and its variance or standard deviation.
    part, default_part : str
        Suffix of the arrays of an ``.npz`` file to use (``cal``, ``test``).
    labels_needed : bool
        Whether the truth must be there.
    positive : str or number, optional
        Of two labels the one that a single score speaks of.
    percent : bool
        The scores are percentages, 0 to 100.
    confidence, correct : str, optional
        Confidence of the top label, and whether it was right.
    classes : tuple, optional
        Names of the classes where the truth is not there to say them.
    """

    proba: str | Sequence[str] | None = None
    label: str | None = None
    weight: str | None = None
    space: Space | None = None
    mean: str | None = None
    variance: str | None = None
    std: str | None = None
    part: str | None = None
    default_part: str = "test"
    labels_needed: bool = True
    positive: Any = None
    percent: bool = False
    confidence: str | None = None
    correct: str | None = None
    #: Names of the classes as a calibrator or another file knows them, for columns called like them.
    classes: tuple[Any, ...] | None = None
    #: From the names of the scores to how far they may miss their bounds, where files declare less precise types.
    declared: Callable[[Sequence[str]], float] | None = None

    def __post_init__(self) -> None:
        check_arguments(type(self).__annotations__, vars(self), "Layout")

    @property
    def patterns(self) -> tuple[str, ...]:
        """Names and patterns of the scores, if the caller gave any."""
        return self.patterns_among(())

    def patterns_among(self, names: Container[str]) -> tuple[str, ...]:
        """Return names and patterns of the scores; a comma inside a name that is there does not divide it.

        Examples
        --------
        >>> Layout(proba="P(a,b),c").patterns_among(["P(a,b)", "c"]), Layout(proba="a,b").patterns_among(["c"])
        (('P(a,b)', 'c'), ('a', 'b'))
        """
        given = (self.proba,) if isinstance(self.proba, str) else () if self.proba is None else tuple(self.proba)
        found = []
        for item in given:
            parts = item.split(",")
            while parts:
                sizes = range(len(parts), 0, -1)
                size = next((n for n in sizes if ",".join(parts[:n]).strip() in names), 1)
                found.append(",".join(parts[:size]).strip())
                del parts[:size]
        return tuple(filter(None, found))


@dataclass(frozen=True)
class Columns:
    """Where things are: what the resolver found.

    `kind` is ``"wide"`` (one column per class), ``"binary"`` (one column: class 1), ``"list"`` (one list per row, or
    a matrix), ``"pairs"`` (confidence and correct) or ``"regression"`` (mean and variance). `label` is empty where
    the truth is neither there nor needed.
    """

    kind: Kind
    scores: tuple[str, ...]
    label: str
    space: Space = "proba"
    weight: str | None = None
    by: tuple[str, ...] = ()
    classes: tuple[Any, ...] | None = None
    #: Regression: column of the variance (or, with `std`, of the standard deviation).
    variance: str | None = None
    std: bool = False
    #: Pairs: column of the predicted class, where `label` holds the true class.
    predicted: str | None = None
    #: The label that the score speaks of, where the labels say it.
    positive: Any = None
    #: Names of the classes in the columns, where the labels count the columns instead.
    names: tuple[Any, ...] | None = None
    #: Top-k: column of the labels beside the scores.
    top_labels: str | None = None
    #: Levels of the quantiles.
    levels: tuple[float, ...] = ()
    #: How far probabilities may miss 0, 1 and a sum of 1, by the types that were declared.
    tolerance: float = TOLERANCE["float64"]

    @property
    def used(self) -> tuple[str, ...]:
        """All columns that are read."""
        named = (*self.scores, self.variance, self.label, self.predicted, self.top_labels, self.weight, *self.by)
        return tuple(dict.fromkeys(name for name in named if name))

    @property
    def what(self) -> str:
        """What the columns hold, where it is not probabilities."""
        return "logits of " if self.space == "logit" else ""

    def sentence(self, n: int | None = None) -> str:
        """Return in one line what was read as what: ``label = target · classes cat, dog · 4,000 rows``."""
        parts = [f"label = {self.label}"] if self.label else []
        if self.kind == "regression":
            parts.append(f"mean = {self.scores[0]} · {'std' if self.std else 'variance'} = {self.variance}")
        elif self.kind == "pairs":
            parts = [f"correct = {self.label}"] if self.label and not self.predicted else parts
            parts += [f"predicted = {self.predicted}"] if self.predicted else []
            parts.append(f"confidence = {self.scores[0]}")
        elif self.kind == "top-k":
            parts.append(f"best classes = {self.scores[0]}, {self.top_labels}: the first of them is judged")
        elif self.kind == "quantiles":
            parts.append(f"quantiles = {listed(f'{level:g}' for level in self.levels)}")
        elif self.kind == "binary" and self.classes is not None:
            word = "logit" if self.space == "logit" else "probability"
            parts.append(f"{word} = {self.scores[0]} · classes {listed(map(str, self.classes))}")
        elif self.classes is not None:
            parts.append(f"{self.what}classes {listed(map(str, self.classes))}")
        elif self.names is not None:
            parts.append(f"{self.what}classes {listed(map(str, self.names))}, counted from 0 by the label")
        else:
            what = "logits" if self.space == "logit" else "probabilities"
            parts.append(f"{what} = {listed(self.scores)}")
        if self.positive is not None:
            parts.append(f"positive = {self.positive}")
        if self.weight:
            parts.append(f"rows weighted by {self.weight}")
        return " · ".join([*parts, *([] if n is None else [f"{count(n)} rows"])])


@dataclass(frozen=True)
class Field:
    """What the resolver knows of one column or array: its type, not its values."""

    #: ``"list"`` is for lists and matrices, ``"other"`` for text, dates and the like.
    kind: FieldKind


def table_fields(schema: Mapping[str, Any]) -> dict[str, Field]:
    """Return the fields of a Polars or Narwhals schema."""

    def kind(dtype: Any) -> FieldKind:
        if type(dtype).__name__ in ("List", "Array", "Object"):  # pandas keeps lists as objects
            return "list"
        if type(dtype).__name__ == "Boolean":
            return "boolean"
        return "integer" if dtype.is_integer() else "number" if dtype.is_numeric() else "other"

    return {name: Field(kind(dtype)) for name, dtype in schema.items()}


def array_fields(arrays: Mapping[str, Array]) -> dict[str, Field]:
    """Return the fields of NumPy arrays."""

    def kind(array: Array) -> FieldKind:
        if array.ndim > 1:
            return "list"
        kinds: dict[str, FieldKind] = {"i": "integer", "u": "integer", "f": "number", "b": "boolean"}
        return kinds.get(array.dtype.kind, "other")

    return {name: Field(kind(array)) for name, array in arrays.items()}


def choose_part(names: Iterable[str], layout: Layout, source: str) -> dict[str, str]:
    """Return the arrays of one part: plain name → name in the file (``probs`` → ``probs_test``).

    Arrays of other parts are left out, arrays without a part stay.
    """
    every = list(names)
    plain = {name for name in every if name in _WHOLE_NAMES or _is_top(name, every)}
    split = {name: name.rpartition("_") for name in every if name not in plain}
    parts = sorted({tail for head, _, tail in split.values() if head in known.PART_STEMS})
    part = layout.part or layout.default_part
    if layout.part is not None and part not in parts:
        have = f"it has {', '.join(parts)}" if parts else "its arrays have no parts"
        raise FileError(f"{source} has no part {part!r}; {have}", hint="choose one with {part}")
    chosen: dict[str, str] = {}
    for name in every:
        head, _, tail = split.get(name, ("", "", ""))
        if head and tail == part:
            chosen[head] = name
        elif not (head and tail in parts):
            chosen.setdefault(name, name)
    if parts and part not in parts and not any(name in known.PART_STEMS for name in chosen):
        raise FileError(f"{source} has no part {part!r}; it has {', '.join(parts)}", hint="choose one with {part}")
    return chosen


def say(found: Columns, n: int | None = None, *, told: bool = False) -> None:
    """Say what was read as what; the command line shows it, a program may listen to the logger `calibrant.read`."""
    _log.info("%s", found.sentence(n))
    if found.weight and not told:
        note(f"every row counts by the column {found.weight}; if it is a feature of the rows, say --weight none")


def note(text: str) -> None:
    """Say something the user should know about what was read; heard like `say`, with the mark of a note."""
    _log.info("%s", text, extra={"note": True})


def listed(names: Iterable[str], most: int = 6) -> str:
    """Return names in one line, the first few of many."""
    every = list(names)
    return ", ".join(every[:most]) + (f", … ({len(every)} in all)" if len(every) > most else "")


def _is_top(name: str, every: Iterable[str]) -> bool:
    """Whether an array belongs to the scores and labels of the few best classes, so that top5 is no part."""
    scores, labels = (
        any(fnmatchcase(one, pattern) for one in every for pattern in patterns)
        for patterns in (known.TOP_SCORES, known.TOP_LABELS)
    )
    return scores and labels and any(fnmatchcase(name, p) for p in (*known.TOP_SCORES, *known.TOP_LABELS))


_WHOLE_NAMES = frozenset(
    name
    for names in (known.TRUTH, known.OUTCOME, known.WEIGHT, known.CONFIDENCE, known.CORRECT, known.PREDICTED)
    for row in names
    for name in row
) | {name for row in known.SINGLE for name, _ in row}
