"""Sums of row scores over a batch of columns by one compiled loop: programs of `calibrant.core.row_scores` as a tape.

Every step of a program becomes instructions on single columns, a few hundred rows at a time, so that nothing leaves the
cache. The queries of `FrameRows.sums` are the reference and do the work where there is no compiled loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from calibrant._typing import Array, Floats, Ints
from calibrant.core import fast
from calibrant.core.programs import Program
from calibrant.core.row_scores import depends_on_truth, infinite_at_zero, program
from calibrant.engines.frame_rows import _NULL, _POWERS, LABEL, OUTCOME, SCORE, TINY, FrameRows, _log, _named, _p

__all__ = ["Tape"]

_OPS = ("add", "sub", "mul", "div", "greater", "not_less", "maximum", "minimum", "where", "exp", "log", "sqrt", "equal")
#: Rows worked on at once.
_TILE = 512


class Tape:
    """The instructions that give the sums of the scores of prepared rows."""

    def __init__(self, prepared: FrameRows) -> None:
        self.names = prepared.summed
        self.code: list[list[int]] = []
        self.constants: dict[float, int] = {}
        self.count = len(self.names)
        self.outputs: dict[str, int] = {}
        at = {name: place for place, name in enumerate(self.names)}
        top, vector = prepared.recipes()
        if top:
            miss = self._emit("sub", self._constant(1.0), at[SCORE])
            right = self._emit("greater", at[OUTCOME], self._constant(0.5))
            truth = self._emit("where", right, at[SCORE], miss)
            self._write(prepared, top, {"input": [miss, at[SCORE]], "label": [at[OUTCOME]], "truth": [truth]})
            if any(infinite_at_zero(one.score) for one in top.values()):
                self._count_zeros("sure", [miss, at[SCORE]])
        if vector:
            ps = [at[_p(k)] for k in range(prepared.n_classes)]
            if prepared.logits:
                logs = [at[_log(k)] for k in range(prepared.n_classes)]
            else:
                logs = [self._emit("log", self._emit("maximum", p, self._constant(TINY))) for p in ps]
            truth = self._choose(ps, at[LABEL])
            known = {"input": ps, "log_input": logs, "truth": [truth], "label": [at[LABEL]]}
            self._write(prepared, vector, known | {"log_truth": [self._choose(logs, at[LABEL])]})
            if not prepared.logits:
                self.outputs[_named("infinite", "_n")] = self._emit("not_less", self._constant(0.0), truth)
                self._count_zeros("zero", ps)
        self._pack()

    def _count_zeros(self, name: str, ps: list[int]) -> None:
        least = ps[0]
        for p in ps[1:]:
            least = self._emit("minimum", least, p)
        self.outputs[_named(name, "_n")] = self._emit("not_less", self._constant(0.0), least)

    def _emit(self, op: str, *operands: int) -> int:
        self.code.append([_OPS.index(op), self.count, *operands, *[0] * (3 - len(operands))])
        self.count += 1
        return self.count - 1

    def _constant(self, value: float) -> int:
        if value not in self.constants:
            self.constants[value] = self.count
            self.count += 1
        return self.constants[value]

    def _choose(self, values: list[int], label: int) -> int:
        chosen = values[-1]
        for k in range(len(values) - 2, -1, -1):
            chosen = self._emit("where", self._emit("equal", label, self._constant(float(k))), values[k], chosen)
        return chosen

    def _write(self, prepared: FrameRows, recipes: Mapping[str, Any], known: Mapping[str, list[int]]) -> None:
        steps = program(tuple(recipe.score for recipe in recipes.values()), len(known["input"]), null=True)
        block = self._run(steps, known)
        for i, (name, recipe) in enumerate(recipes.items()):
            gap = self._emit("sub", block[4 * i], self._constant(prepared.references.get(name, 0.0)))
            square = self._emit("mul", gap, gap)
            found = dict(zip(_POWERS, (gap, square, self._emit("mul", square, gap)), strict=True))
            if depends_on_truth(recipe.score):
                found |= dict(zip(_NULL, block[4 * i + 1 : 4 * i + 4], strict=True))
            self.outputs |= {_named(name, suffix): place for suffix, place in found.items()}

    def _run(self, steps: Program, known: Mapping[str, list[int]]) -> list[int]:
        values: list[list[int]] = []
        for step in steps.steps:
            parts = [values[i] for i in step.inputs]
            if step.op in known:
                made = known[step.op]
            elif step.op == "constant":
                made = [self._constant(float(value)) for value in np.atleast_1d(step.arrays[0]).ravel()]
            elif step.op in ("sum", "max"):
                made = parts[0][:1]
                for place in parts[0][1:]:
                    made = [self._emit("add" if step.op == "sum" else "maximum", made[0], place)]
            elif step.op == "columns":
                made = parts[0][step.options["start"] : step.options["stop"]]
            elif step.op in ("concat", "flip"):
                made = parts[0][::-1] if step.op == "flip" else [place for part in parts for place in part]
            elif step.op == "pick":
                made = [self._choose(parts[0], parts[1][0])]
            elif step.op == "cumsum":
                made = parts[0][:1]
                for place in parts[0][1:]:
                    made = [*made, self._emit("add", made[-1], place)]
            else:
                size = max(map(len, parts))
                made = [self._emit(step.op, *(part[i % len(part)] for part in parts)) for i in range(size)]
            values.append(made)
        return values[-1]

    def _pack(self) -> None:
        """Give every value a row of the working memory; rows are used again when their value is."""
        last = {place: len(self.code) for place in (*self.outputs.values(), *self.constants.values())}
        last |= {place: -1 for place in range(len(self.names)) if place not in last}
        for number, line in enumerate(self.code):
            for place in line[2:]:
                last[place] = max(last.get(place, -1), number)
        rows = {place: place for place in range(len(self.names))}
        rows |= {place: len(rows) + i for i, place in enumerate(self.constants.values())}
        free: list[int] = []
        self.size = len(rows)
        for number, line in enumerate(self.code):
            operands = [rows[place] for place in line[2:]]
            if not free:
                free.append(self.size)
                self.size += 1
            rows[line[1]] = free.pop()
            free += [rows[p] for p in {*line[2:]} if last[p] == number and p >= len(self.names)]
            line[1:] = [rows[line[1]], *operands]
        self.program: Ints = np.array(self.code, dtype=np.int64).reshape(-1, 5)
        self.held = {rows[place]: value for value, place in self.constants.items()}
        self.sums: Ints = np.array([rows[place] for place in self.outputs.values()], dtype=np.int64)

    def _matrix(self, batch: Mapping[str, Array]) -> Floats:
        """Return the columns of a batch as one array; they mostly are the first rows of one."""
        held, size = batch[self.names[0]].base, len(self.names)
        if isinstance(held, np.ndarray) and held.ndim == 2 and held.flags.c_contiguous and len(held) >= size:
            starts = [batch[name].__array_interface__["data"][0] for name in self.names]
            if starts == [held[i].__array_interface__["data"][0] for i in range(size)]:
                return held[:size]
        return np.stack([batch[name] for name in self.names])

    def add(
        self, batch: Mapping[str, Array], total: dict[str, Floats], slots: Ints | None = None, room: int = 1
    ) -> bool:
        """Add the sums of a batch, by the slots of its rows, to a total; False where no compiled loop is at hand."""
        n = len(batch[self.names[0]])
        kernel = fast.kernel("tape_pass", n * len(self.names), 2.0)
        if kernel is None:
            return False
        work, found = np.empty((self.size, _TILE)), np.zeros((room, len(self.sums)))
        for row, value in self.held.items():
            work[row] = value
        columns = self._matrix(batch)
        places = np.zeros(0, dtype=np.int64) if slots is None else slots
        kernel(self.program, columns, work, self.sums, places, found)
        rows = np.array([n]) if slots is None else np.bincount(slots, minlength=room)
        for name, values in zip((*self.outputs, "__n_n"), (*found.T, rows), strict=True):
            total[name] = total.get(name, np.zeros(room)) + values
        return True
