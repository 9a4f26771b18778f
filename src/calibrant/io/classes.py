"""Columns called like the classes: which columns carry the values of the label in their names.

``cat, dog`` beside a label with cat and dog, or with any words around them: ``.pred_cat``, ``P (Class=cat)``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from calibrant.io.labels import flags_of, plain_name

__all__ = ["Match", "in_order", "match_classes", "spelled_like"]

#: Names before and after a class that say that a column holds log-odds.
_LOGIT = re.compile("logit|log_?p|rawformula", re.IGNORECASE)


class Match(NamedTuple):
    """Columns of all classes, the names of the classes as the label spells them, and what stands around them."""

    columns: tuple[str, ...]
    classes: tuple[Any, ...]
    around: tuple[str, str]

    @property
    def space(self) -> str:
        """What the names around the class say the columns hold."""
        return "logit" if _LOGIT.search("".join(self.around)) else "proba"


def in_order(
    columns: tuple[str, ...], classes: tuple[Any, ...], labels: Sequence[Any]
) -> tuple[tuple[str, ...], tuple[Any, ...] | None, tuple[Any, ...] | None]:
    """Return columns in the order in which labels 0, 1, 2 count them, the labels where they differ, and the names.

    The names say it where they end in the numbers of the labels or mean no and yes; otherwise the columns stay.

    Examples
    --------
    >>> in_order(("b", "a"), ("class_1", "class_0"), [0, 1]), in_order(("a", "b"), ("yes", "no"), [0, 1])
    ((('a', 'b'), None, ('class_0', 'class_1')), (('b', 'a'), None, ('no', 'yes')))
    """
    parts = [re.fullmatch(r"(\D*)(\d+)(?:\.0)?", str(name)) for name in classes]
    flags = flags_of(classes)
    numbers = [int(part[2]) for part in parts if part] if len({part and part[1] for part in parts}) == 1 else []
    numbers = numbers or ([] if flags is None else [int(flag) for flag in flags])
    if not numbers or not labels or not {*labels} <= {*numbers}:
        return columns, None, classes
    order = sorted(range(len(classes)), key=numbers.__getitem__)
    columns, classes = tuple(columns[i] for i in order), tuple(classes[i] for i in order)
    if sorted(numbers) == list(range(len(numbers))):
        return columns, None, classes
    return columns, tuple(sorted(numbers)), None


def spelled_like(names: Sequence[Any], labels: Iterable[Any]) -> tuple[Any, ...]:
    """Return names of classes as the labels spell them, where they differ in case and signs alone.

    Examples
    --------
    >>> spelled_like(("new_york", "rome"), ["New York", "Rome"])
    ('New York', 'Rome')
    """
    labels = list(labels)
    if set(map(str, labels)) <= set(map(str, names)):
        same = {str(label): label for label in labels}
        text = bool(labels) and all(isinstance(label, str) for label in labels)
        return tuple(same.get(str(name), str(name) if text else name) for name in names)
    known: dict[str, list[Any]] = {}
    for label in labels:
        known.setdefault(plain_name(label), []).append(label)
    new = tuple(known[plain_name(name)][0] if len(known.get(plain_name(name), ())) == 1 else name for name in names)
    return new if len(set(map(str, new))) == len(names) else tuple(names)


def match_classes(labels: Sequence[Any], columns: Sequence[str]) -> list[Match]:
    """Return every set of columns whose names carry all labels; the plain names come first.

    Examples
    --------
    >>> match_classes(["cat", "dog"], ["id", "dog", "cat"])[0]
    Match(columns=('dog', 'cat'), classes=('dog', 'cat'), around=('', ''))
    >>> match_classes(["cat", "dog"], ["P (c=cat)", "P (c=dog)", "P (c=fox)"])[0].classes
    ('cat', 'dog', 'fox')
    """
    for key in (_text, plain_name):
        found = _matches(labels, columns, key)
        if found:
            return found
    return []


def _text(name: Any) -> str:
    return str(int(name)) if isinstance(name, float) and name.is_integer() else str(name).strip()


def _matches(labels: Sequence[Any], columns: Sequence[str], key: Any) -> list[Match]:
    words = {key(label): label for label in labels}
    names: dict[str, str] = {}
    for column in columns:
        names.setdefault(key(column), column)
    if len(words) < 2 or len(words) != len(labels) or "" in words:
        return []
    longest = max(words, key=len)
    found = []
    for name in names:
        at = name.find(longest)
        while at >= 0:
            head, tail = name[:at], name[at + len(longest) :]
            at = name.find(longest, at + 1)
            if not all(head + word + tail in names for word in words) or _runs_on(head, tail, words):
                continue
            own = {head + word + tail: label for word, label in words.items()}
            if head or tail:  # the same words around another name: a class that does not occur
                for other in names:
                    inside = other[len(head) : len(other) - len(tail)]
                    long = len(other) > len(head) + len(tail)
                    if long and other.startswith(head) and other.endswith(tail) and other not in own:
                        own[other] = _like(inside, labels)
            order = [other for other in names if other in own]
            found.append(Match(tuple(names[o] for o in order), tuple(own[o] for o in order), (head, tail)))
    found.sort(key=lambda match: len("".join(match.around)))
    return list(dict.fromkeys(found))


def _runs_on(head: str, tail: str, words: Iterable[str]) -> bool:
    """Whether digits stand beside digits, so that 1 would be found in 12."""
    digits = all(word.lstrip("-").isdigit() for word in words)
    return digits and (head[-1:].isdigit() or tail[:1].isdigit())


def _like(inside: str, labels: Sequence[Any]) -> Any:
    """Return the name of a class of the kind that the labels have."""
    whole = all(isinstance(label, int | float) and not isinstance(label, bool) for label in labels)
    return int(inside) if whole and inside.lstrip("-").isdigit() else inside
