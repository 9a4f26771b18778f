"""The same steps as a query: readable SQL, one named step after the other, for engines where the rows already are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant._typing import Floats, Space
from calibrant.calibrators.application import check_applicable, input_program
from calibrant.core.inputs import check_names
from calibrant.core.programs import Program, Step
from calibrant.errors import input_error

if TYPE_CHECKING:
    from calibrant.calibrators._base import Calibrator

__all__ = ["DIALECTS", "to_sql"]

#: Characters of a query that every service takes.
LONGEST = 1_000_000
#: How far probabilities may miss 0, 1 and a sum of 1: as far as numbers of 32 bits may.
_TOLERANCE = 1e-4
#: Cases in a row; more are halved first, so that a long table is searched and not walked through.
_CASES = 16


@dataclass(frozen=True)
class SqlDialect:
    """How an engine quotes a name and calls numbers of 64 bits."""

    quote: str
    double: str
    infinity: str

    def name(self, text: str) -> str:
        """Return a name of the user's, quoted."""
        return self.quote + text.replace(self.quote, 2 * self.quote) + self.quote


DIALECTS = {
    "duckdb": SqlDialect('"', "DOUBLE", "'Infinity'"),
    "spark": SqlDialect("`", "DOUBLE", "'Infinity'"),
    "bigquery": SqlDialect("`", "FLOAT64", "'inf'"),
    "snowflake": SqlDialect('"', "DOUBLE", "'inf'"),
}


@dataclass(frozen=True)
class _Place:
    """A position among sorted knots: known by comparison, written out where a table is read at it."""

    x: str
    knots: Floats
    side: str


#: Text of an expression, a number, or a place in a table.
Value = str | float | _Place
Block = list[Value]


def to_sql(
    calibrator: Calibrator,
    dialect: str = "duckdb",
    *,
    table: str = "predictions",
    columns: Sequence[str] | None = None,
    keep: Sequence[str] = (),
    space: Space | None = None,
) -> str:
    """Return the map as a query; see `Calibrator.to_sql`."""
    check_names(dialect, tuple(DIALECTS), "dialect", "to_sql")
    space = calibrator.input_space if space is None else space
    check_names(space, ("proba", "logit"), "space", "to_sql")
    check_applicable(calibrator, space, caller="to_sql")
    program = input_program(calibrator, space)
    for step in program.steps:
        if step.op != "input" and step.op not in _OPS:
            raise input_error(
                "calibrator",
                "to_sql",
                "have a map of arithmetic and lookups",
                f"{type(calibrator).__name__}, whose map sorts every row ({step.op})",
                "calibrant apply runs it on every engine",
            )
    classes = [str(name) for name in np.asarray(calibrator.classes_).tolist()]
    given = [f"{'p' if space == 'proba' else 'logit'}_{name}" for name in classes] if columns is None else list(columns)
    single = len(given) == 1 and len(classes) == 2
    if len(given) != len(classes) and not single:
        raise input_error(
            "columns",
            "to_sql",
            f"name {len(classes)} columns, one a class",
            str(len(given)),
            "in the order of classes_",
        )
    new = [f"p_{name}" for name in classes] if columns is None or space == "logit" else given
    new = ["p_" + classes[1] if space == "logit" else given[0]] if single else new
    writer = _Writer(DIALECTS[dialect])
    answer = writer.write(program, writer.scores(table, given, list(keep), space, single))
    title = f"-- {type(calibrator).__name__}: {len(classes)} classes, {space} in, calibrated probabilities out"
    query = writer.query(title, list(keep), dict(zip(new, answer[1:] if single else answer, strict=True)))
    if len(query) > LONGEST:
        raise input_error(
            "calibrator",
            "to_sql",
            f"have a map that fits into {LONGEST:,} characters",
            f"{len(query):,}",
            "calibrant apply runs it on every engine",
        )
    return query


def _number(value: float) -> str:
    """Return a number that every engine reads as one of 64 bits, not as a decimal."""
    text = repr(float(value))
    text = text if "e" in text else f"{text}e0"
    return f"({text})" if text.startswith("-") else text


def _bare(text: str) -> str:
    """Drop brackets around a whole expression."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for place, sign in enumerate(text):
        depth += (sign == "(") - (sign == ")")
        if depth == 0:
            return text[1:-1] if place == len(text) - 1 else text
    return text


class _Writer:
    """Steps of a query: each adds columns to those before it."""

    def __init__(self, dialect: SqlDialect) -> None:
        self.dialect = dialect
        self.steps: list[tuple[str, str]] = []
        self.counts: dict[str, int] = {}

    def text(self, value: Value) -> str:
        """Return a value as an expression."""
        if isinstance(value, _Place):
            return self.cases(value, [float(i) for i in range(len(value.knots) + 1)])
        if isinstance(value, str):
            return value
        if np.isinf(value):
            infinite = f"CAST({self.dialect.infinity} AS {self.dialect.double})"
            return infinite if value > 0 else f"(-{infinite})"
        return _number(value)

    def cases(self, place: _Place, table: Sequence[float]) -> str:
        """Return the entry of a table at a place."""
        sign = "<" if place.side == "right" else "<="
        known = int(np.isfinite(place.knots).sum())  # lists of different length are filled with infinity

        def between(low: int, high: int) -> str:
            if low == high:
                return _number(table[low])
            if high - low > _CASES:
                middle = (low + high) // 2
                test = f"{place.x} {sign} {_number(place.knots[middle])}"
                return f"CASE WHEN {test} THEN {between(low, middle)} ELSE {between(middle + 1, high)} END"
            tests = [
                f"WHEN {place.x} {sign} {_number(place.knots[i])} THEN {_number(table[i])}" for i in range(low, high)
            ]
            return f"CASE {' '.join(tests)} ELSE {_number(table[high])} END"

        return between(0, known)

    def scores(self, table: str, columns: list[str], keep: list[str], space: str, single: bool) -> Block:
        """Read the scores as numbers of 64 bits, and say which rows can be used."""
        quoted = [self.dialect.name(name) for name in columns]
        numbers = [f"CAST({name} AS {self.dialect.double})" for name in quoted]
        raw = [f"raw_{i + (1 if single else 0)}" for i in range(len(columns))]
        lines = [*(self.dialect.name(name) for name in keep)]
        lines += [f"{number} AS {name}" for number, name in zip(numbers, raw, strict=True)]
        self.steps.append(("scores", f"SELECT\n      {_listed(lines)}\n    FROM {table}"))
        if space == "logit":
            tests = [f"ABS({name}) <= {_number(1.7e308)}" for name in raw]
        else:  # NaN fails them, also where an engine trusts statistics that leave it out
            tests = [f"ABS({name} - {_number(0.5)}) <= {_number(0.5 + _TOLERANCE)}" for name in raw]
            if not single:
                tests.append(f"ABS({' + '.join(raw)} - {_number(1.0)}) <= {_number(_TOLERANCE)}")
        test = "\n        AND ".join(tests)
        usable = f"CASE\n        WHEN {test}\n        THEN 1 ELSE 0\n      END AS usable"
        self.steps.append(("checked", f"SELECT\n      *,\n      {usable}\n    FROM scores"))
        values = [f"CASE WHEN usable = 1 THEN {name} END AS x{name[3:]}" for name in raw]
        if single:
            values.append(f"CASE WHEN usable = 1 THEN {'1.0e0 - raw_1' if space == 'proba' else '0.0e0'} END AS x_0")
        self.steps.append(("usable_rows", f"SELECT\n      *,\n      {_listed(values)}\n    FROM checked"))
        return [f"x_{i}" for i in range(max(len(columns), 2))]

    def add(self, name: str, values: Sequence[Value]) -> Block:
        """Add a step of one column per value."""
        number = self.counts[name] = self.counts.get(name, 0) + 1
        step = f"{name}_{number}"
        columns = [step] if len(values) == 1 else [f"{step}_{i}" for i in range(len(values))]
        before = self.steps[-1][0]
        lines = [f"{_bare(self.text(value))} AS {column}" for value, column in zip(values, columns, strict=True)]
        self.steps.append((f"step_{step}", f"SELECT\n      *,\n      {_listed(lines)}\n    FROM {before}"))
        return list(columns)

    def write(self, program: Program, inputs: Block) -> Block:
        """Write the steps of a program; what is used again becomes a step of the query."""
        uses = np.zeros(len(program.steps), dtype=int)
        for number in range(len(program.steps) - 1, -1, -1):
            later = program.steps[number]
            for i in later.inputs:
                uses[i] += (max(uses[number], 1) if later.op in _MOVES else 1) + (later.op in _NAMERS)
        values: list[Block] = []
        for number, step in enumerate(program.steps):
            if step.op == "input":
                values.append(inputs)
                continue
            block = _OPS[step.op](self, step, *(values[i] for i in step.inputs))
            written = any(isinstance(value, str) for value in block)
            if written and step.op not in _MOVES and (uses[number] > 1 or len(block) == 1):
                block = self.add(_NAMES.get(step.op, step.op), block)
            values.append(block)
        return values[-1]

    def query(self, title: str, keep: list[str], answer: dict[str, Value]) -> str:
        """Return the whole query; rows that cannot be used give NULL."""
        steps = ",\n".join(f"  {name} AS (\n    {body}\n  )" for name, body in self.steps)
        lines = [self.dialect.name(name) for name in keep]
        lines += [
            f"CASE WHEN usable = 1 THEN {_bare(self.text(value))} END AS {self.dialect.name(name)}"
            for name, value in answer.items()
        ]
        body = ",\n  ".join(lines)
        return f"{title}\nWITH\n{steps}\nSELECT\n  {body}\nFROM {self.steps[-1][0]}\n"


def _listed(lines: Sequence[str]) -> str:
    return ",\n      ".join(lines)


Op = Callable[..., Block]


def _pairwise(form: str) -> Op:
    def run(sql: _Writer, _: Step, x: Block, y: Block) -> Block:
        size = max(len(x), len(y))
        return [form.format(sql.text(x[i % len(x)]), sql.text(y[i % len(y)])) for i in range(size)]

    return run


def _each(form: str) -> Op:
    def run(sql: _Writer, _: Step, x: Block) -> Block:
        return [form.format(_bare(sql.text(value))) for value in x]

    return run


def _sum(sql: _Writer, _: Any, x: Block) -> Block:
    return [f"({' + '.join(map(sql.text, x))})"]


def _max(sql: _Writer, _: Any, x: Block) -> Block:
    return [x[0] if len(x) == 1 else f"GREATEST({', '.join(map(sql.text, x))})"]


def _where(sql: _Writer, _: Step, test: Block, x: Block, y: Block) -> Block:
    size = max(len(test), len(x), len(y))
    parts = ([sql.text(block[i % len(block)]) for block in (test, x, y)] for i in range(size))
    return [f"CASE WHEN {_bare(a)} THEN {_bare(b)} ELSE {_bare(c)} END" for a, b, c in parts]


def _sigmoid(sql: _Writer, _: Step, x: Block) -> Block:
    names = sql.add("odds", x)
    small = sql.add("small", [f"EXP(-ABS({name}))" for name in names])
    both = zip(names, small, strict=True)
    return [f"CASE WHEN {a} >= 0 THEN 1.0e0 / (1.0e0 + {b}) ELSE {b} / (1.0e0 + {b}) END" for a, b in both]


def _shares(sql: _Writer, x: Block) -> tuple[Block, str, str]:
    """Return x, its largest value and the sum of exp(x − largest) as columns."""
    names = sql.add("exponent", x)
    (peak,) = sql.add("peak", _max(sql, None, names))
    (mass,) = sql.add("mass", _sum(sql, None, [f"EXP({name} - {peak})" for name in names]))
    return names, str(peak), str(mass)


def _softmax(sql: _Writer, _: Step, x: Block) -> Block:
    names, peak, mass = _shares(sql, x)
    return [f"(EXP({name} - {peak}) / {mass})" for name in names]


def _log_softmax(sql: _Writer, _: Step, x: Block) -> Block:
    names, peak, mass = _shares(sql, x)
    return [f"({name} - {peak} - LN({mass}))" for name in names]


def _matmul(sql: _Writer, step: Step, x: Block) -> Block:
    matrix = step.arrays[0]
    terms = (
        [f"{sql.text(value)} * {_number(matrix[i, j])}" for i, value in enumerate(x) if matrix[i, j] != 0.0]
        for j in range(matrix.shape[1])
    )
    return [f"({' + '.join(each)})" if each else 0.0 for each in terms]


def _search(sql: _Writer, step: Step, x: Block) -> Block:
    knots, side = step.arrays[0], step.options["side"]
    names = x if all(_is_name(value) for value in x) else sql.add("score", x)
    return [_Place(sql.text(name), knots if knots.ndim == 1 else knots[i], side) for i, name in enumerate(names)]


def _is_name(value: Value) -> bool:
    return isinstance(value, str) and value.isidentifier()


def _lookup(sql: _Writer, step: Step, place: Block) -> Block:
    table = step.arrays[0]
    rows = [table if table.ndim == 1 else table[i] for i in range(len(place))]
    both = zip(place, rows, strict=True)
    return [sql.cases(at, row.tolist()) for at, row in both if isinstance(at, _Place)]


_OPS: dict[str, Op] = {
    "constant": lambda _, step: [float(value) for value in np.atleast_1d(step.arrays[0]).ravel()],
    "add": _pairwise("({} + {})"),
    "sub": _pairwise("({} - {})"),
    "mul": _pairwise("({} * {})"),
    "div": _pairwise("({} / {})"),
    "greater": _pairwise("({} > {})"),
    "not_less": _pairwise("({} >= {})"),
    "maximum": _pairwise("GREATEST({}, {})"),
    "minimum": _pairwise("LEAST({}, {})"),
    "exp": _each("EXP({})"),
    "log": _each("LN({})"),
    "sqrt": _each("SQRT({})"),
    "sigmoid": _sigmoid,
    "where": _where,
    "sum": _sum,
    "max": _max,
    "cumsum": lambda sql, _, x: [f"({' + '.join(map(sql.text, x[: i + 1]))})" for i in range(len(x))],
    "flip": lambda _, __, x: x[::-1],
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "matmul": _matmul,
    "columns": lambda _, step, x: x[step.options["start"] : step.options["stop"]],
    "concat": lambda _, __, *parts: [value for part in parts for value in part],
    "search": _search,
    "lookup": _lookup,
}
#: Steps that only rearrange columns, or that are written where a table is read.
_MOVES = frozenset(("columns", "concat", "flip", "search", "constant"))
#: Steps that name their operands more than once.
_NAMERS = frozenset(("sigmoid", "matmul", "cumsum"))
#: What a step is called in the query.
_NAMES = {"add": "sum", "sub": "difference", "mul": "product", "div": "quotient", "where": "chosen", "log": "log"}
