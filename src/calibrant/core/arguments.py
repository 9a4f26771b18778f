"""Types of options by their annotations: flags, words, names of columns, paths and functions, checked in one place.

Numbers have rules of their own (`calibrant.core.options`). No NumPy here: the help of the command line does without it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from calibrant.errors import input_error

__all__ = ["check_arguments", "check_options"]


def _names(value: Any) -> bool:
    listed = isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)
    return listed and getattr(value, "ndim", 1) == 1 and all(isinstance(name, str) for name in value)


#: Parts of an annotation → what a value must be, in words and as a test. Options with any other part are left alone.
_PARTS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "None": ("", lambda value: value is None),
    "bool": ("True or False", lambda value: isinstance(value, bool) or type(value).__name__ in ("bool", "bool_")),
    "str": ("text", lambda value: isinstance(value, str)),
    "Space": ("text", lambda value: isinstance(value, str)),
    "Path": ("a path", lambda value: isinstance(value, os.PathLike)),
    "Sequence[str]": ("a list of names", _names),
    "Mapping[str, ArrayLike]": ("a mapping of names to columns", lambda value: isinstance(value, Mapping)),
    "Callable": ("a function", callable),
    "Progress": ("a function", callable),
}


def check_arguments(annotations: Mapping[str, Any], values: Mapping[str, Any], caller: str) -> None:
    """Refuse values whose types are not those of the annotations, as far as `_PARTS` knows them.

    Examples
    --------
    >>> check_arguments({"label": "str | None", "strict": "bool"}, {"label": "y", "strict": True}, "evaluate")
    >>> check_arguments({"label": "str | None"}, {"label": 3}, "evaluate")
    Traceback (most recent call last):
        ...
    calibrant.errors.InputError: label of evaluate must be text; got 3. Hint: see its help.
    """
    for name, value in values.items():
        annotation = str(annotations.get(name, "Any"))
        parts = ["Callable", "None"] if annotation.startswith("Callable[") else annotation.split(" | ")
        rules = [_PARTS.get(part) for part in parts]
        if not all(rules) or any(test(value) for _, test in filter(None, rules)):
            continue
        words = dict.fromkeys(word for word, _ in filter(None, rules) if word)
        if "a path" in words:  # which text is too
            words.pop("text", None)
        hint = "pass one of the two" if annotation == "bool" else "see its help"
        raise input_error(name, caller, f"be {' or '.join(words)}", repr(value)[:200], hint)


def check_options(function: Callable[..., Any], values: Mapping[str, Any]) -> None:
    """Check the arguments of a public function (its first ``locals()``) by its own annotations."""
    check_arguments(function.__annotations__, values, function.__name__)
