"""Which columns of a frame hold scores, truth, weights and slices: the layouts of files, read from a schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from calibrant._typing import Space
from calibrant.engines.files import Layout, _score_columns
from calibrant.errors import FileError, input_error

#: Above this many wide columns expressions outgrow the engines; a list column goes by batches.
MOST_COLUMNS = 64


@dataclass(frozen=True)
class Columns:
    """Where things are in a frame.

    `kind` is ``"wide"`` (one column per class), ``"binary"`` (one column: class 1), ``"list"`` (one list per
    row) or ``"pairs"`` (confidence and correct).
    """

    kind: str
    scores: tuple[str, ...]
    label: str
    space: Space = "proba"
    weight: str | None = None
    by: tuple[str, ...] = ()
    classes: tuple[Any, ...] | None = None

    @property
    def used(self) -> tuple[str, ...]:
        """All columns that are read."""
        weight = () if self.weight is None else (self.weight,)
        return tuple(dict.fromkeys((*self.scores, self.label, *weight, *self.by)))


def find_columns(schema: Mapping[str, Any], layout: Layout, by: Sequence[str] = ()) -> Columns:
    """Find the columns in a Narwhals schema by the names of the file layouts."""
    names = list(schema)

    def there(name: str, what: str, hint: str) -> str:
        if name not in names:
            raise FileError(
                f"There is no column {name!r} for the {what}; there are: {', '.join(names[:12])}. Hint: {hint}."
            )
        return name

    for name in by:
        there(name, "slices", "check --by")
    weight = layout.weight or ("weight" if "weight" in names else None)
    if layout.weight:
        there(layout.weight, "weights", "name them with --weight")
    found = _score_columns(names, layout)
    if found is None:
        if "confidence" not in names:
            raise FileError(
                f"There are no probabilities; the columns are {', '.join(names[:12])}. Hint: columns p_* or logit_*, a "
                "list column probs, score, or name them with --proba 'prob_*'."
            )
        label = there(layout.label or "correct", "truth", "name it with --label")
        return Columns("pairs", ("confidence",), label, weight=weight, by=tuple(by))
    scores, space, classes = found
    label = there(layout.label or "label", "truth", "name it with --label")
    kind = "wide" if len(scores) > 1 else "list" if _nested(schema[scores[0]]) else "binary"
    if kind == "wide" and len(scores) > MOST_COLUMNS:
        raise input_error(
            "proba",
            "evaluate",
            f"be at most {MOST_COLUMNS} wide columns on an engine",
            f"{len(scores)}",
            "store them as one list column probs (or logits)",
        )
    if classes is not None and schema[label].is_integer() and not isinstance(classes[0], int):
        classes = None  # indices beside named columns
    return Columns(kind, tuple(scores), label, space, weight, tuple(by), classes)


def _nested(dtype: Any) -> bool:
    return type(dtype).__name__ in ("List", "Array", "Object")  # pandas keeps lists as objects
