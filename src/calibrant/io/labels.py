"""Two classes without names: which of two labels the score speaks of.

Rows and engines ask the same function, so that ``yes`` and ``no`` beside a score mean the same wherever they are read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from calibrant.errors import input_error
from calibrant.io.layout import Columns, Field

__all__ = ["flags_of", "plain_name", "positive_of", "two_labels"]

#: Labels that say which of two is the positive one, in any case.
POSITIVE = frozenset(
    ("yes", "true", "1", "positive", "pos", "y", "t", "+1", "+", "1.0", "case", "event", "wahr", "ja", "vrai", "oui",
     "verdadero", "vero", "sí", "si", "c", "correct", "right")
)  # fmt: skip
NEGATIVE = frozenset(
    ("no", "false", "0", "negative", "neg", "n", "f", "-1", "-", "0.0", "control", "none", "falsch", "nein", "faux",
     "non", "falso", "i", "incorrect", "wrong")
)  # fmt: skip
#: Labels that an error lists at most.
MOST_LISTED = 5


def plain_name(name: Any) -> str:
    """Return a name without case and signs: R and SQL turn ``New York`` into ``New.York`` and ``new_york``.

    Examples
    --------
    >>> plain_name("New York"), plain_name("new.york"), plain_name(2.0)
    ('new_york', 'new_york', '2')
    """
    if isinstance(name, float) and name.is_integer():
        name = int(name)
    return re.sub(r"[^\w]+|_+", "_", str(name).strip().casefold()).strip("_")


def positive_of(first: Any, second: Any) -> Any:
    """Return the positive one of two labels: by its name, otherwise the later in sorted order.

    Examples
    --------
    >>> positive_of("yes", "no"), positive_of("benign", "malignant"), positive_of(1, -1)
    ('yes', 'malignant', 1)
    """
    words = {str(label).strip().lower(): label for label in (first, second)}
    named = [label for word, label in words.items() if word in POSITIVE]
    if len(named) == 1:
        return named[0]
    against = [label for word, label in words.items() if word in NEGATIVE]
    if len(against) == 1:
        return second if against[0] == first else first
    return max(first, second)


def flags_of(classes: Sequence[Any]) -> tuple[bool, bool] | None:
    """Return which column of two named classes a true label means; None where the names do not say.

    Examples
    --------
    >>> flags_of(("no", "yes")), flags_of(("true", "false")), flags_of(("cat", "dog"))
    ((False, True), (True, False), None)
    """
    words = [str(name).strip().lower() for name in classes]
    if len(words) != 2 or not (set(words) & (POSITIVE | NEGATIVE)):
        return None
    first = positive_of(*words) == words[0]
    return first, not first


def two_labels(
    found: Columns, field: Field, values: Callable[[str, bool], Iterable[Any]], positive: Any = None
) -> Columns:
    """Return the columns with the names of two classes where the labels, not 0 and 1, have to say them.

    Parameters
    ----------
    found : Columns
        What the resolver found.
    field : Field
        Type of the label.
    values : callable
        Returns the distinct values of a column; with True a look at the first rows is enough.
    positive : optional
        The label that the score speaks of, as the caller says it.
    """
    if positive is not None:
        return _said(found, values, positive)
    two = found.kind == "binary" or (found.kind == "wide" and len(found.scores) == 2)
    if not two or found.classes is not None or field.kind in ("boolean", "list"):
        return found
    if field.kind in ("integer", "number"):  # 0 and 1 need no look at all rows; −1 is seen early
        seen = {value for value in values(found.label, True) if value is not None}
        if seen <= {0, 1} or len(seen) != 2 or (found.kind == "wide" and seen != {-1, 1}):
            return found
        seen = {value for value in values(found.label, False) if value is not None}
        two_whole = len(seen) == 2 and all(float(value).is_integer() for value in seen)
        return replace(found, classes=tuple(sorted(seen)), positive=max(seen)) if two_whole else found
    labels = sorted({value for value in values(found.label, False) if value is not None}, key=str)
    if len(labels) == 1 and str(labels[0]).strip().lower() in POSITIVE | NEGATIVE:
        labels = sorted([*labels, "0" if str(labels[0]).strip().lower() in POSITIVE else "1"], key=str)
    if len(labels) != 2:
        shown = ", ".join(map(repr, labels[:MOST_LISTED])) + (", …" if len(labels) > MOST_LISTED else "")
        rule = "hold two labels beside the score of one class"
        hint = "name the truth with {label}, or give one column per class (a row per class: pivot them first)"
        raise input_error("label", "read", rule, f"{len(labels)} in {found.label!r}: {shown}", hint)
    positive = positive_of(*labels)
    negative = labels[0] if positive == labels[1] else labels[1]
    return replace(found, classes=(negative, positive), positive=positive)


def _said(found: Columns, values: Callable[[str, bool], Iterable[Any]], positive: Any) -> Columns:
    """Return the columns with the positive class last, as the caller says it."""
    held = sorted({value for value in values(found.label, False) if value is not None}, key=str)
    names = list(found.classes or found.names or held)
    mine = [name for name in names if _word(name) == _word(positive)]
    if len(mine) != 1 or len(names) > 2:
        if len(names) == 1 and not mine and found.kind == "binary":
            return replace(found, classes=(names[0], positive), positive=positive)
        shown = ", ".join(map(repr, names[:MOST_LISTED])) + (", …" if len(names) > MOST_LISTED else "")
        rule = f"be one of the two labels of {found.label!r}"
        raise input_error("positive", "read", rule, f"{positive!r} beside {shown}", "name one of them")
    other = [name for name in names if name != mine[0]]
    classes = (*(other or ["other"]), mine[0])
    if found.kind != "wide":
        return replace(found, classes=classes, positive=mine[0], names=None)
    order = [names.index(name) for name in classes]
    scores = tuple(found.scores[place] for place in order)
    if found.classes is None and found.names is not None:  # labels that count the columns
        counted = tuple(order)
        return replace(found, scores=scores, classes=counted, names=None, positive=mine[0])
    return replace(found, scores=scores, classes=classes, positive=mine[0])


def _word(name: Any) -> str:
    if isinstance(name, float) and name.is_integer():
        name = int(name)
    return str(name).strip().lower()
