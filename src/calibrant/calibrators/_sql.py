"""The same steps as a query: readable SQL, one named step after the other, for engines where the rows already are."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant._typing import Floats, Space
from calibrant.calibrators.application import check_applicable, input_program
from calibrant.core.inputs import TOLERANCE, check_names, check_words
from calibrant.core.options import check_share
from calibrant.core.programs import Program, Step
from calibrant.errors import input_error

if TYPE_CHECKING:
    from calibrant.calibrators._base import Calibrator

__all__ = ["DIALECTS", "to_sql"]

#: Characters of a query that every service takes.
LONGEST = 1_000_000
_ELSE = "calibrant apply runs it on every engine"
#: Cases in a row; more are halved first, so that a long table is searched and not walked through.
_CASES = 16
#: How the names of the steps begin: a table of the user must not be called like one of them.
_STEP = "calibrant_"
_WORD = re.compile(r"[a-z]\w*")


@dataclass(frozen=True)
class SqlDialect:
    """How an engine quotes a name, calls numbers of 64 bits and writes them."""

    quote: str
    double: str
    infinity: str
    #: What stands before a quote inside a name, and after a number that would else be a decimal.
    escape: str
    suffix: str = ""

    def name(self, text: str) -> str:
        """Return a name of the user's, quoted."""
        text = text.replace(self.escape, 2 * self.escape)
        text = text if self.escape == self.quote else text.replace(self.quote, self.escape + self.quote)
        return self.quote + text + self.quote

    def number(self, value: float) -> str:
        """Return a number of 64 bits."""
        text = repr(float(value))
        text = (text if "e" in text else f"{text}e0") + self.suffix
        return f"({text})" if text.startswith("-") else text


DIALECTS = {
    "duckdb": SqlDialect('"', "DOUBLE", "'Infinity'", '"'),
    "spark": SqlDialect("`", "DOUBLE", "'Infinity'", "`"),
    "bigquery": SqlDialect("`", "FLOAT64", "'inf'", "\\"),
    "snowflake": SqlDialect('"', "DOUBLE", "'inf'", '"', "::DOUBLE"),
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
    tolerance: float = TOLERANCE["float32"],
) -> str:
    """Return the map as a query; see `Calibrator.to_sql`."""
    check_share(tolerance, "tolerance", "to_sql", "1e-4")
    kept = check_words(keep, "keep", "to_sql")
    check_names(dialect, tuple(DIALECTS), "dialect", "to_sql")
    space = calibrator.input_space if space is None else space
    check_names(space, ("proba", "logit"), "space", "to_sql")
    check_applicable(calibrator, space, caller="to_sql")
    program = input_program(calibrator, space)
    for step in program.steps:
        if step.op != "input" and step.op not in _OPS:
            what = f"{type(calibrator).__name__}, whose map sorts every row ({step.op})"
            raise input_error("calibrator", "to_sql", "have a map of arithmetic and lookups", what, _ELSE)
    classes = [str(name) for name in np.asarray(calibrator.classes_).tolist()]
    given = [f"{'p' if space == 'proba' else 'logit'}_{name}" for name in classes]
    given = given if columns is None else check_words(columns, "columns", "to_sql")
    single = len(given) == 1 and len(classes) == 2
    if len(given) != len(classes) and not single:
        rule, hint = f"name {len(classes)} columns, one a class", "in the order of classes_"
        raise input_error("columns", "to_sql", rule, str(len(given)), hint)
    new = [f"p_{name}" for name in classes] if columns is None or space == "logit" else given
    new = ["p_" + classes[1] if space == "logit" else given[0]] if single else new
    twice = next((name for name in (*kept, *new) if [*kept, *new].count(name) > 1), None)
    if twice is not None:
        hint = f"give another name in table='(SELECT {twice} AS …) AS t'"
        raise input_error("keep", "to_sql", "have other names than the columns of the result", repr(twice), hint)
    writer = _Writer(DIALECTS[dialect])
    answer = writer.write(program, writer.scores(table, given, kept, space, tolerance))
    title = f"-- {type(calibrator).__name__}: {len(classes)} classes, {space} in, calibrated probabilities out"
    query = writer.query(title, kept, dict(zip(new, answer[1:] if single else answer, strict=True)))
    if len(query) > LONGEST:
        rule = f"have a map that fits into {LONGEST:,} characters"
        raise input_error("calibrator", "to_sql", rule, f"{len(query):,}", _ELSE)
    return query


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
        self.number = dialect.number
        self.steps: list[tuple[str, str]] = []
        self.counts: dict[str, int] = {}
        #: Columns that need none of each other share a step: a hundred steps inside each other are too deep for Spark.
        self.levels: list[tuple[str, list[str]]] = []
        self.level_of: dict[str, int] = {}

    def text(self, value: Value) -> str:
        """Return a value as an expression."""
        if isinstance(value, _Place):
            return self.cases(value, [float(i) for i in range(len(value.knots) + 1)])
        if isinstance(value, str):
            return value
        if np.isinf(value):
            infinite = f"CAST({self.dialect.infinity} AS {self.dialect.double})"
            return infinite if value > 0 else f"(-{infinite})"
        return self.number(value)

    def cases(self, place: _Place, table: Sequence[float]) -> str:
        """Return the entry of a table at a place."""
        sign = "<" if place.side == "right" else "<="
        known = int(np.isfinite(place.knots).sum())  # lists of different length are filled with infinity

        def between(low: int, high: int) -> str:
            if low == high:
                return self.number(table[low])
            if high - low > _CASES:
                middle = (low + high) // 2
                test = f"{place.x} {sign} {self.number(place.knots[middle])}"
                return f"CASE WHEN {test} THEN {between(low, middle)} ELSE {between(middle + 1, high)} END"
            tests = [
                f"WHEN {place.x} {sign} {self.number(place.knots[i])} THEN {self.number(table[i])}"
                for i in range(low, high)
            ]
            return f"CASE {' '.join(tests)} ELSE {self.number(table[high])} END"

        return between(0, known)

    def scores(self, table: str, columns: list[str], keep: list[str], space: str, tolerance: float) -> Block:
        """Read the scores as numbers of 64 bits, and say which rows can be used.

        Columns of the user keep none of their names: they may be ours, or those of a later step.
        """
        one, zero, single = self.number(1.0), self.number(0.0), len(columns) == 1
        raw = [f"raw_{i + single}" for i in range(len(columns))]
        lines = [f"{self.dialect.name(name)} AS key_{i}" for i, name in enumerate(keep)]
        lines += [
            f"CAST({self.dialect.name(column)} AS {self.dialect.double}) AS {name}"
            for column, name in zip(columns, raw, strict=True)
        ]
        self.steps.append((f"{_STEP}scores", f"SELECT\n      {_listed(lines)}\n    FROM {table}"))
        total = " + ".join(raw)
        if space == "logit":
            tests = [f"ABS({name}) <= {self.number(1.7e308)}" for name in raw]
            values = raw
        else:  # NaN fails them, also where an engine trusts statistics that leave it out
            tests = [f"ABS({name} - {self.number(0.5)}) <= {self.number(0.5 + tolerance)}" for name in raw]
            tests += [] if single else [f"ABS({total} - {one}) <= {self.number(tolerance)}"]
            loose = tolerance > TOLERANCE["float32"] and not single  # as `apply` does with decimals of a few digits
            values = [f"{name} / ({total})" if loose else name for name in raw]
            values = [f"LEAST(GREATEST({value}, {zero}), {one})" for value in values]
        test = "\n        AND ".join(tests)
        usable = f"CASE\n        WHEN {test}\n        THEN 1 ELSE 0\n      END AS usable"
        self.steps.append((f"{_STEP}checked", f"SELECT\n      *,\n      {usable}\n    FROM {_STEP}scores"))
        if single:
            values = [zero if space == "logit" else f"{one} - {values[0]}", *values]
        lines = [f"CASE WHEN usable = 1 THEN {value} END AS x_{i}" for i, value in enumerate(values)]
        self.steps.append((f"{_STEP}usable", f"SELECT\n      *,\n      {_listed(lines)}\n    FROM {_STEP}checked"))
        return [f"x_{i}" for i in range(len(values))]

    def add(self, name: str, values: Sequence[Value]) -> Block:
        """Add one column per value, in the first step that has what they need before it."""
        number = self.counts[name] = self.counts.get(name, 0) + 1
        step = f"{name}_{number}"
        columns = [step] if len(values) == 1 else [f"{step}_{i}" for i in range(len(values))]
        texts = [_bare(self.text(value)) for value in values]
        level = max((self.level_of.get(word, 0) for text in texts for word in _WORD.findall(text)), default=0)
        if level == len(self.levels):
            self.levels.append((step, []))
        self.levels[level][1].extend(f"{text} AS {column}" for text, column in zip(texts, columns, strict=True))
        self.level_of |= dict.fromkeys(columns, level + 1)
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
        for name, columns in self.levels:
            before = self.steps[-1][0]
            self.steps.append((f"{_STEP}{name}", f"SELECT\n      *,\n      {_listed(columns)}\n    FROM {before}"))
        steps = ",\n".join(f"  {name} AS (\n    {body}\n  )" for name, body in self.steps)
        lines = [f"key_{i} AS {self.dialect.name(name)}" for i, name in enumerate(keep)]
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
    one = sql.number(1.0)
    return [f"CASE WHEN {a} >= 0 THEN {one} / ({one} + {b}) ELSE {b} / ({one} + {b}) END" for a, b in both]


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
        [f"{sql.text(value)} * {sql.number(matrix[i, j])}" for i, value in enumerate(x) if matrix[i, j] != 0.0]
        for j in range(matrix.shape[1])
    )
    return [f"({' + '.join(each)})" if each else 0.0 for each in terms]


def _search(sql: _Writer, step: Step, x: Block) -> Block:
    knots, side = step.arrays[0], step.options["side"]
    names = x if all(isinstance(value, str) and value.isidentifier() for value in x) else sql.add("score", x)
    return [_Place(sql.text(name), knots if knots.ndim == 1 else knots[i], side) for i, name in enumerate(names)]


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
