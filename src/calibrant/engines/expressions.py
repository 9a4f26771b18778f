"""Array programs as expressions of a frame: Polars, DuckDB, Spark, pandas and whatever else Narwhals knows.

A block of K columns is a list of K expressions or numbers. Values that are used again become columns, level by level,
because Spark writes an expression out wherever it is named, and Narwhals' `clip`, `log` and `sqrt` name theirs several
times; what is used once stays inside the expression that uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any, TypeAlias

import narwhals.stable.v2 as nw
import numpy as np

from calibrant.core.programs import Program, Step
from calibrant.io.layout import Columns

__all__ = ["EXPRESSIONS", "Block", "choose", "expr", "is_nan", "outside_of", "write_program"]

Block: TypeAlias = list[Any]
#: Terms of a running sum written out in one expression; then it becomes a column.
_RUN = 8


def expr(value: Any) -> nw.Expr:
    """Return an expression from itself or a number."""
    return value if isinstance(value, nw.Expr) else nw.lit(float(value))


def is_nan(value: nw.Expr, table: Any) -> nw.Expr:
    """Return whether a value is NaN, in a form that holds on every engine.

    DuckDB trusts the statistics of Parquet, which leave NaN out, and drops a test of the bare
    column; not of its ceiling.
    """
    return value.ceil().is_nan() if table.implementation.is_duckdb() else value.is_nan()


def outside_of(raw: Sequence[nw.Expr], columns: Columns, normalize: bool) -> nw.Expr:
    """Return whether a score of a row is out of range, or their sum."""
    total, tolerance = nw.sum_horizontal(*raw), columns.tolerance
    if columns.space == "logit":
        tests = [x.abs() > 1.7e308 for x in raw]
    elif normalize and columns.kind == "wide":
        tests = [*(x < 0.0 for x in raw), total <= 0.0, total > 1.7e308]
    else:
        tests = [test for x in raw for test in (x < -tolerance, x > 1.0 + tolerance)]
        tests += [(total - 1.0).abs() > tolerance] if columns.kind == "wide" else []
    return reduce(or_, tests)


def choose(values: Block, label: nw.Expr) -> nw.Expr:
    """Return values[label], as a chain of cases."""
    chosen: nw.Expr = expr(values[-1])
    for k in range(len(values) - 2, -1, -1):
        chosen = nw.when(label == float(k)).then(expr(values[k])).otherwise(chosen)
    return chosen


def _pairwise(function: Callable[[Any, Any], Any]) -> Callable[..., Block]:
    def run(_: Step, x: Block, y: Block) -> Block:
        size = max(len(x), len(y))
        return [function(x[i % len(x)], y[i % len(y)]) for i in range(size)]

    return run


def _each(function: Callable[[Any], Any]) -> Callable[..., Block]:
    return lambda _, x: [function(value) for value in x]


def _where(_: Step, test: Block, x: Block, y: Block) -> Block:
    size = max(len(test), len(x), len(y))
    return [
        nw.when(expr(test[i % len(test)])).then(expr(x[i % len(x)])).otherwise(expr(y[i % len(y)])) for i in range(size)
    ]


def _softmax(_: Step, x: Block) -> Block:
    peak = nw.max_horizontal(*map(expr, x))
    mass = nw.sum_horizontal(*((expr(value) - peak).exp() for value in x))
    return [(expr(value) - peak).exp() / mass for value in x]


def _log_softmax(_: Step, x: Block) -> Block:
    peak = nw.max_horizontal(*map(expr, x))
    mass = nw.sum_horizontal(*((expr(value) - peak).exp() for value in x)).log()
    return [expr(value) - peak - mass for value in x]


def _sigmoid(value: Any) -> nw.Expr:
    small = (expr(value).abs() * -1.0).exp()
    return nw.when(expr(value) >= 0.0).then(1.0 / (1.0 + small)).otherwise(small / (1.0 + small))


def _matmul(step: Step, x: Block) -> Block:
    matrix = step.arrays[0]
    return [
        nw.sum_horizontal(*(expr(value) * float(matrix[i, j]) for i, value in enumerate(x)))
        for j in range(matrix.shape[1])
    ]


#: Steps that every engine can take as an expression; maps that sort or search rows are not among them.
EXPRESSIONS: dict[str, Callable[..., Block]] = {
    "constant": lambda step: [float(value) for value in np.atleast_1d(step.arrays[0]).ravel()],
    "add": _pairwise(lambda x, y: expr(x) + expr(y)),
    "sub": _pairwise(lambda x, y: expr(x) - expr(y)),
    "mul": _pairwise(lambda x, y: expr(x) * expr(y)),
    "div": _pairwise(lambda x, y: expr(x) / expr(y)),
    "greater": _pairwise(lambda x, y: expr(x) > expr(y)),
    "not_less": _pairwise(lambda x, y: expr(x) >= expr(y)),
    "maximum": _pairwise(lambda x, y: nw.max_horizontal(expr(x), expr(y))),
    "minimum": _pairwise(lambda x, y: nw.min_horizontal(expr(x), expr(y))),
    "exp": _each(lambda x: expr(x).exp()),
    "log": _each(lambda x: expr(x).log()),
    "sqrt": _each(lambda x: expr(x).sqrt()),
    "sigmoid": _each(_sigmoid),
    "where": _where,
    "sum": lambda _, x: [nw.sum_horizontal(*map(expr, x))],
    "max": lambda _, x: [nw.max_horizontal(*map(expr, x))],
    "cumsum": lambda _, x: x,  # written level by level below
    "flip": lambda _, x: x[::-1],
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "matmul": _matmul,
    "columns": lambda step, x: x[step.options["start"] : step.options["stop"]],
    "concat": lambda _, *parts: [value for part in parts for value in part],
    "pick": lambda _, x, label: [choose(x, label[0])],
}
#: Steps that only rearrange columns.
_MOVES = frozenset(("columns", "concat", "flip"))
#: Steps whose operands are named more than once by some engine.
_NAMERS = frozenset(("log", "sqrt", "sigmoid", "softmax", "log_softmax", "pick", "matmul", "cumsum"))


class _Writer:
    """Columns to add, by level: a column of level n reads columns of lower levels only."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.levels: dict[int, list[nw.Expr]] = {}
        self.count = 0

    def column(self, value: Any, level: int) -> nw.Expr:
        name = f"__{self.prefix}{self.count}"
        self.count += 1
        self.levels.setdefault(level, []).append(expr(value).alias(name))
        return nw.col(name)


def write_program(program: Program, frame: Any, inputs: Mapping[str, Block], prefix: str = "step") -> tuple[Any, Block]:
    """Return the frame with the columns a program needs, and its answer as expressions.

    `inputs` holds "input" and the further sources of the program, as columns of the frame.
    """
    steps = program.steps
    uses = np.zeros(len(steps), dtype=int)
    named = np.zeros(len(steps), dtype=bool)
    for number in range(len(steps) - 1, -1, -1):
        step = steps[number]
        for i in step.inputs:
            uses[i] += max(uses[number], 1) if step.op in _MOVES else 1
            named[i] |= named[number] if step.op in _MOVES else step.op in _NAMERS
    writer = _Writer(prefix)
    values: list[tuple[Block, int]] = []
    for number, step in enumerate(steps):
        if step.op in inputs:
            values.append((inputs[step.op], 0))
            continue
        operands = [values[i] for i in step.inputs]
        level = max((at for _, at in operands), default=0)
        if step.op == "cumsum":
            values.append(_running_sums(writer, operands[0][0], level))
            continue
        block = EXPRESSIONS[step.op](step, *(block for block, _ in operands))
        again = uses[number] > 1 or named[number] or len(block) == 1
        if again and step.op not in _MOVES and any(isinstance(value, nw.Expr) for value in block):
            level += 1
            block = [writer.column(value, level) for value in block]
        values.append((block, level))
    for level in sorted(writer.levels):
        frame = frame.with_columns(*writer.levels[level])
    return frame, values[-1][0]


def _running_sums(writer: _Writer, block: Block, level: int) -> tuple[Block, int]:
    out: Block = []
    base: nw.Expr | None = None
    for start in range(0, len(block), _RUN):
        level += 1
        for value in block[start : start + _RUN]:
            base = expr(value) if base is None else base + expr(value)
            out.append(writer.column(base, level))
        base = out[-1]
    return out, level
