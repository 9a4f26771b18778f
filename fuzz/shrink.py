"""Make a case smaller as long as it shows the same finding: fewer rows, edits, words and options."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

__all__ = ["shrink"]


def _without(n: int) -> Iterator[list[int]]:
    """Yield what may stay of n things: one half, the other, all but one."""
    if n > 2:
        yield list(range(n // 2))
        yield list(range(n // 2, n))
    if n > 1:
        for i in range(n):
            yield [j for j in range(n) if j != i]


def _take(column: Any, keep: list[int]) -> Any:
    if column is None:
        return None
    return column[keep] if isinstance(column, np.ndarray) else [column[i] for i in keep]


def _smaller(case: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield cases one step smaller: "rows" are columns of one length, lists lose items, dictionaries keys."""
    for name, value in case.items():
        if name == "rows":
            n = max((len(column) for column in value.values() if column is not None), default=0)
            for keep in _without(n):
                yield case | {"rows": {key: _take(column, keep) for key, column in value.items()}}
            for key, column in value.items():
                if column is not None and key.startswith("w"):
                    yield case | {"rows": value | {key: None}}
        elif isinstance(value, list):
            for keep in _without(len(value)):
                yield case | {name: [value[i] for i in keep]}
        elif isinstance(value, dict):
            for key in value:
                yield case | {name: {other: value[other] for other in value if other != key}}


def shrink(case: dict[str, Any], same: Callable[[dict[str, Any]], bool], tries: int = 300) -> dict[str, Any]:
    """Return the smallest case found that is the same finding."""
    again = True
    while again and tries > 0:
        again = False
        for smaller in _smaller(case):
            tries -= 1
            if tries <= 0:
                break
            if same(smaller):
                case, again = smaller, True
                break
    return case
