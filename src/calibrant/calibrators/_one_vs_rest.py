"""One curve per class against the rest; with two classes one curve says it all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from calibrant.core.parallel import map_chunks
from calibrant.core.programs import Graph, Node

T = TypeVar("T")


def fit_each(n_classes: int, one: Callable[[int], T]) -> list[T]:
    """Fit `one(k)` for every class that needs a curve: with two, class 0 is the complement of class 1."""
    return list(map_chunks(one, range(1, 2) if n_classes == 2 else range(n_classes)))


def map_each(graph: Graph, x: Node, curves: Callable[..., Node], *tables: list[Any]) -> Node:
    """Apply fitted curves to the columns of x: nested tables, or the single table of class 1 and its complement."""
    if len(tables[0]) > 1:
        return curves(x, *tables)
    one = curves(graph.columns(x, 1, 2), *(table[0] for table in tables))
    return graph.concat([1.0 - one, one])
