"""A fitted map or a row score written down once as a short list of array operations.

A calibrator describes its map by calling the methods of `Graph`; the resulting `Program` is plain
data. NumPy runs it here (and in `calibrant.predict_from_json`); `_export` turns the same list into an ONNX
graph or a torch module, `engines.expressions` into expressions of a frame. Every value is a float64 block of shape
(n, K) or (n, 1), or an index block. Row scores are described on a `calibrant.core.row_scores.ScoreGraph`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calibrant._typing import Array, Floats
from calibrant.core.links import log_softmax, sigmoid, softmax


@dataclass
class Step:
    """One operation: its name, the steps it reads, its constants and whole-number options."""

    op: str
    inputs: tuple[int, ...] = ()
    arrays: tuple[Floats, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)


@dataclass
class Program:
    """Steps in order; step 0 is the input, the last step is the answer."""

    steps: list[Step]

    def run(self, x: Array, sources: Mapping[str, Callable[[], Any]] | None = None) -> Floats:
        """Apply the map to a block of scores (n, K) with NumPy in float64; `sources` gives further inputs by name."""
        values: list[Any] = []
        for step in self.steps:
            if step.op == "input":
                values.append(np.asarray(x, dtype=np.float64))
            elif sources is not None and step.op in sources:
                values.append(sources[step.op]())
            else:
                with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
                    values.append(NUMPY_OPS[step.op](step, *[values[i] for i in step.inputs]))
        return np.asarray(values[-1])


class Node:
    """A value inside a graph; arithmetic with nodes, numbers and constant arrays records steps."""

    __array_ufunc__ = None  # NumPy arrays on the left hand over to the methods below

    def __init__(self, graph: Graph, index: int) -> None:
        self.graph = graph
        self.index = index

    def __add__(self, other: Any) -> Node:
        return self.graph._binary("add", self, other)

    def __radd__(self, other: Any) -> Node:
        return self.graph._binary("add", other, self)

    def __sub__(self, other: Any) -> Node:
        return self.graph._binary("sub", self, other)

    def __rsub__(self, other: Any) -> Node:
        return self.graph._binary("sub", other, self)

    def __mul__(self, other: Any) -> Node:
        return self.graph._binary("mul", self, other)

    def __rmul__(self, other: Any) -> Node:
        return self.graph._binary("mul", other, self)

    def __truediv__(self, other: Any) -> Node:
        return self.graph._binary("div", self, other)

    def __rtruediv__(self, other: Any) -> Node:
        return self.graph._binary("div", other, self)

    def __neg__(self) -> Node:
        return self.graph._binary("mul", self, -1.0)

    def __gt__(self, other: Any) -> Node:
        return self.graph._binary("greater", self, other)

    def __ge__(self, other: Any) -> Node:
        return self.graph._binary("not_less", self, other)


class Graph:
    """Records a map. `x` is the input block (n, K); constants broadcast against it as in NumPy."""

    def __init__(self) -> None:
        self.steps: list[Step] = [Step("input")]
        self.x = Node(self, 0)

    def program(self, answer: Node) -> Program:
        """Close the graph at `answer`, keeping only the steps it needs, in order."""
        needed = {answer.index}
        for index in range(answer.index, 0, -1):
            if index in needed:
                needed.update(self.steps[index].inputs)
        keep = sorted(needed | {0})
        place = {old: new for new, old in enumerate(keep)}
        steps = [self.steps[i] for i in keep]
        return Program([Step(s.op, tuple(place[i] for i in s.inputs), s.arrays, s.options) for s in steps])

    def _add(self, op: str, inputs: Sequence[Any] = (), arrays: Sequence[Any] = (), **options: Any) -> Node:
        nodes = tuple(self._node(value).index for value in inputs)
        constants = tuple(np.asarray(a, dtype=np.float64) for a in arrays)
        self.steps.append(Step(op, nodes, constants, options))
        return Node(self, len(self.steps) - 1)

    def _node(self, value: Any) -> Node:
        return value if isinstance(value, Node) else self.constant(value)

    def _binary(self, op: str, left: Any, right: Any) -> Node:
        return self._add(op, (left, right))

    def constant(self, value: Any) -> Node:
        """Return a constant: a number, (K,) per column, or any shape that broadcasts."""
        return self._add("constant", (), (value,))

    def exp(self, x: Node) -> Node:
        """Return e to the power x."""
        return self._add("exp", (x,))

    def log(self, x: Node) -> Node:
        """Return the natural logarithm."""
        return self._add("log", (x,))

    def sqrt(self, x: Node) -> Node:
        """Return the square root."""
        return self._add("sqrt", (x,))

    def sigmoid(self, x: Node) -> Node:
        """Return 1/(1 + exp(−x))."""
        return self._add("sigmoid", (x,))

    def maximum(self, x: Any, y: Any) -> Node:
        """Return the larger of two values, entry by entry."""
        return self._add("maximum", (x, y))

    def minimum(self, x: Any, y: Any) -> Node:
        """Return the smaller of two values, entry by entry."""
        return self._add("minimum", (x, y))

    def where(self, condition: Node, x: Any, y: Any) -> Node:
        """Choose entry by entry."""
        return self._add("where", (condition, x, y))

    def sum(self, x: Node) -> Node:
        """Sum of each row, shape (n, 1)."""
        return self._add("sum", (x,))

    def max(self, x: Node) -> Node:
        """Largest value of each row, shape (n, 1)."""
        return self._add("max", (x,))

    def cumsum(self, x: Node) -> Node:
        """Return the running sum along each row."""
        return self._add("cumsum", (x,))

    def flip(self, x: Node) -> Node:
        """Return the columns from last to first."""
        return self._add("flip", (x,))

    def softmax(self, x: Node) -> Node:
        """Softmax of each row."""
        return self._add("softmax", (x,))

    def log_softmax(self, x: Node) -> Node:
        """Log-softmax of each row."""
        return self._add("log_softmax", (x,))

    def matmul(self, x: Node, matrix: Array) -> Node:
        """Return x @ matrix with a constant matrix (columns in, columns out)."""
        return self._add("matmul", (x,), (matrix,))

    def columns(self, x: Node, start: int, stop: int) -> Node:
        """Return columns start … stop−1."""
        return self._add("columns", (x,), start=start, stop=stop)

    def concat(self, parts: Sequence[Node]) -> Node:
        """Put blocks side by side."""
        return self._add("concat", parts)

    def order(self, x: Node) -> Node:
        """Return the indices that sort each row from large to small (ties: lower index first)."""
        return self._add("order", (x,))

    def rank(self, x: Node) -> Node:
        """Place of each entry in its row, 0 = largest (ties: lower index first), as an index block."""
        return self._add("rank", (x,))

    def take(self, x: Node, index: Node) -> Node:
        """Entries of each row at an index block; ``take(take(x, order), rank)`` is x again."""
        return self._add("take", (x, index))

    def search(self, x: Node, knots: Any, side: str = "right") -> Node:
        """Count the sorted knots ≤ x ("right") or < x ("left"); knots (m,) or one list per column."""
        return self._add("search", (x,), (_pad(knots, np.inf),), side=side)

    def lookup(self, table: Any, index: Node) -> Node:
        """Read table[index] (m,), or table[column][index] when there is one list per column."""
        return self._add("lookup", (index,), (_pad(table, None),))

    def interp(self, x: Node, knots: Any, values: Any) -> Node:
        """Piecewise linear through (knots, values), ends held; one pair of lists per column if nested."""
        base, height, slope = [], [], []
        nested = not np.isscalar(knots[0]) and np.ndim(knots[0]) > 0
        for k, v in zip(knots if nested else [knots], values if nested else [values], strict=True):
            xs, ys = np.asarray(k, dtype=np.float64), np.asarray(v, dtype=np.float64)
            width = np.diff(xs)
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                rise = np.diff(ys) / width
            rise = np.where(np.isfinite(rise), rise, 0.0)
            base.append(np.concatenate([xs[:1], xs]))
            height.append(np.concatenate([ys[:1], ys]))
            slope.append(np.concatenate([[0.0], rise, [0.0]]))
        if not nested:
            base, height, slope = base[0], height[0], slope[0]  # type: ignore[assignment]  # one list for all columns
        index = self.search(x, knots)
        return self.lookup(height, index) + self.lookup(slope, index) * (x - self.lookup(base, index))

    def normalize(self, x: Node) -> Node:
        """Divide each row by its sum."""
        return x / self.sum(x)


def _pad(rows: Any, fill: float | None) -> Floats:
    """Stack lists of different length, filled at the end (None repeats the last value)."""
    if isinstance(rows, np.ndarray) or np.ndim(rows[0]) == 0:
        return np.asarray(rows, dtype=np.float64)
    width = max(len(row) for row in rows)
    return np.stack(
        [np.concatenate([row, np.full(width - len(row), row[-1] if fill is None else fill)]) for row in rows]
    ).astype(np.float64)


def _search(step: Step, x: Floats) -> Array:
    knots, side = step.arrays[0], step.options["side"]
    if knots.ndim == 1:
        return np.searchsorted(knots, x, side=side)
    return np.stack([np.searchsorted(row, column, side=side) for row, column in zip(knots, x.T, strict=True)], axis=1)


def _lookup(step: Step, index: Array) -> Floats:
    table = step.arrays[0]
    return np.asarray(table[index] if table.ndim == 1 else table[np.arange(len(table)), index])


def _order(x: Floats) -> Array:
    return np.argsort(-x, axis=1, kind="stable")


NUMPY_OPS: dict[str, Callable[..., Any]] = {
    "constant": lambda step: step.arrays[0],
    "add": lambda _, x, y: x + y,
    "sub": lambda _, x, y: x - y,
    "mul": lambda _, x, y: x * y,
    "div": lambda _, x, y: x / y,
    "greater": lambda _, x, y: x > y,
    "not_less": lambda _, x, y: x >= y,
    "exp": lambda _, x: np.exp(x),
    "log": lambda _, x: np.log(x),
    "sqrt": lambda _, x: np.sqrt(x),
    "sigmoid": lambda _, x: sigmoid(x),
    "maximum": lambda _, x, y: np.maximum(x, y),
    "minimum": lambda _, x, y: np.minimum(x, y),
    "where": lambda _, c, x, y: np.where(c, x, y),
    "sum": lambda _, x: np.einsum("ij->i", x)[:, None],  # a third of the time of x.sum for short rows
    "max": lambda _, x: x.max(axis=1, keepdims=True),
    "cumsum": lambda _, x: np.cumsum(x, axis=1),
    "flip": lambda _, x: x[:, ::-1],
    "softmax": lambda _, x: softmax(x),
    "log_softmax": lambda _, x: log_softmax(x),
    "matmul": lambda step, x: x @ step.arrays[0],
    "columns": lambda step, x: x[:, step.options["start"] : step.options["stop"]],
    "concat": lambda _, *parts: np.concatenate(parts, axis=1),
    "order": lambda _, x: _order(x),
    "rank": lambda _, x: np.argsort(_order(x), axis=1, kind="stable"),
    "take": lambda _, x, index: np.take_along_axis(x, index, axis=1),
    "pick": lambda _, x, label: np.take_along_axis(np.broadcast_to(x, (len(label), x.shape[-1])), label, axis=1),
    "search": _search,
    "lookup": _lookup,
}
