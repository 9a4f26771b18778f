"""Slices: rows with one combination of values, evaluated each and tested together, whoever asks.

Rows and cells give one and the same test: every slice is tested on the cells of the coarse grid, with the same draws
for the same seed. `correct` is the only place where p-values of slices are corrected for their number.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import tee
from typing import Any

import numpy as np

from calibrant._typing import RNG, Array, Ints
from calibrant.core.cells import evened
from calibrant.core.clusters import TableSigns, cluster_numbers, few_clusters, signs
from calibrant.core.inputs import to_array
from calibrant.core.jsonable import jsonable
from calibrant.core.notebook import notebook_html
from calibrant.core.options import check_rng
from calibrant.core.parallel import map_chunks
from calibrant.core.resampling import SharedOrder, draw_outcomes
from calibrant.core.tables import SLICE_STEPS, TEST_STEPS
from calibrant.core.text import count, markdown_table, percent, pvalue, pvalue_phrase, table
from calibrant.errors import input_error
from calibrant.evidence import Evidence
from calibrant.inference.corrections import holm_known, step_down, tail_scores
from calibrant.inference.evaluation import Built, Evaluation, evaluate_evidence
from calibrant.inference.facts import judged
from calibrant.inference.joint import JointTest, clustered_joint, joint_of, shared_joint
from calibrant.inference.verdict import ALPHA, Verdict

__all__ = [
    "FileEvaluation", "Slice", "correct", "evaluate_parts", "evaluate_slices", "slice_tests", "split",
    "split_column", "with_groups"
]  # fmt: skip

#: Slices up to which every metric of every slice gets a null distribution and an interval of its own.
DETAILED = 50
#: Slices that share the order of their draws: what all share makes all of them too sure, or too careful, at once.
SHARING = 25
#: Slices a set of rows may be cut into.
MOST = 5_000


@dataclass(frozen=True)
class Slice:
    """The rows with one combination of values, and their evaluation."""

    by: dict[str, Any]
    evaluation: Evaluation
    #: p-value of the test of the slice, corrected for the number of slices.
    corrected: float | None

    @property
    def label(self) -> str:
        """The values in words: ``site=A, year=2024``."""
        return ", ".join(f"{key}={value}" for key, value in self.by.items())

    def _repr_html_(self) -> str:
        head = f"{self.label} · corrected {pvalue_phrase(self.corrected)}"
        return f"{notebook_html(head, '', (), ())}{self.evaluation.to_html()}"


def _named(part: Slice) -> str:
    return f"“{', '.join(str(value) for value in part.by.values())}”"


def _faults(off: Sequence[Slice]) -> str:
    """Return what slices get wrong; too much or too little only where the interval of the gap excludes 0."""
    facts = {_named(part): part.evaluation.facts for part in off}
    sides = {name: one for name, one in facts.items() if one.gap is not None and not one.gap.low <= 0 <= one.gap.high}
    mixed = " and ".join(name for name in facts if name not in sides)
    sizes = " and ".join(
        f"{100 * abs(one.bias):.1f} points too {'much' if one.bias > 0 else 'little'} for {name}"
        for name, one in sides.items()
    )
    verb = "claims" if off[0].evaluation.facts.event is None else "predicts"
    faults = [f"{verb} {sizes}"] * bool(sizes) + [f"is right only on average for {mixed}"] * bool(mixed)
    return " and ".join(faults)


def with_groups(evaluation: Evaluation, slices: Sequence[Slice]) -> Evaluation:
    """Return the evaluation of the whole with a verdict that names the slices whose gaps the whole hides.

    A whole that is fine, or has a small gap, is right on average only where a slice fails its corrected test.
    """
    verdict = evaluation.verdict
    off = [part for part in slices if part.corrected is not None and part.corrected < ALPHA]
    off.sort(key=lambda part: -abs(part.evaluation.facts.bias))
    if evaluation.task == "regression" or not off or verdict.status in ("miscalibrated", "right on average"):
        return evaluation
    more = "" if len(off) < 3 else f"; {len(off) - 2} more groups are off"
    sentence = f"{verdict.sentence} But it {_faults(off[:2])}{more}."
    head = f"Right overall, {len(off)} {'group' if len(off) == 1 else 'groups'} off"
    where = " or ".join(_named(part) for part in off[:2])
    fields = {
        **{name: getattr(verdict, name) for name in ("gap", "detectable", "tolerance", "pvalue")},
        "status": "right on average",
        "direction": "mixed",
        "headline": head,
        "sentence": sentence,
        "next_step": "repair",
        "advice": "repair it; fit each group by itself (calibrant fit GROUP.csv -o GROUP.json), and until then "
        f"do not rely on it for {where}",
    }
    return replace(evaluation, verdict=Verdict(f"{head}. {sentence}", **fields))


@dataclass(frozen=True)
class FileEvaluation:
    """What predictions show: the whole, and the slices if asked for; `str()` is the terminal text."""

    whole: Evaluation
    slices: tuple[Slice, ...] = ()

    @property
    def verdict(self) -> Any:
        """The verdict on the whole."""
        return self.whole.verdict

    def to_dict(self) -> dict[str, Any]:
        """Return the stable JSON form, with slices if there are any."""
        document: dict[str, Any] = self.whole.to_dict()
        if self.slices:
            document["slices"] = [
                {
                    "by": jsonable(part.by),
                    "n": part.evaluation.n,
                    "metrics": part.evaluation.to_dict()["metrics"],
                    "verdict": str(part.evaluation.verdict),
                    "judgment": part.evaluation.verdict.to_dict(),
                    "corrected_pvalue": part.corrected,
                    "notes": list(part.evaluation.notes),
                    "rejected": dict(part.evaluation.rejected),
                }
                for part in self.slices
            ]
        return document

    def __str__(self) -> str:
        return self.to_text()

    def to_text(self, *, width: int | None = None) -> str:
        """Return the terminal text; slices as a table, worst first."""
        lines = [self.whole.to_text(width=width)]
        if self.slices:
            lines += ["", *table(self._slice_cells())]
        return "\n".join(lines)

    def _slice_cells(self) -> list[tuple[str, ...]]:
        ordered = sorted(self.slices, key=lambda part: (part.corrected is None, part.corrected, -part.evaluation.n))
        rows: list[tuple[str, ...]]
        if self.whole.task == "regression":
            meant = f"inside {100 * self.whole.facts.meant:g}%"
            rows = [("slice", "n", meant, "squared error / variance", "corrected p")]
            for part in ordered:
                facts = part.evaluation.facts
                ratio = "–" if facts.ratio is None else f"{facts.ratio:.3g}"
                inside = percent(facts.inside, 1)
                rows.append((part.label, count(facts.n), inside, ratio, pvalue(part.corrected)))
            return rows
        event = self.whole.facts.event is not None
        heads = ("happens", "predicts") if event else ("accuracy", "confidence")
        rows = [("slice", "n", *heads, "ks", "corrected p")]
        for part in ordered:
            facts = part.evaluation.facts
            shown = (percent(facts.observed, 1), percent(facts.predicted, 1), percent(facts.ks))
            rows.append((part.label, count(facts.n), *shown, pvalue(part.corrected)))
        return rows

    def to_markdown(self) -> str:
        """Return headline, table and verdict as Markdown; slices as a table, worst first."""
        slices = ["", *markdown_table(self._slice_cells())] if self.slices else []
        return "\n".join([self.whole.to_markdown(), *slices])

    def to_html(self) -> str:
        """Return a plain HTML fragment (the full page is ``calibrant report``)."""
        body = self.whole.to_html()
        if self.slices:
            heads, *rows = self._slice_cells()
            body += notebook_html("", "", heads, rows)
        return body

    _repr_html_ = to_html


def split(evidence: Evidence, columns: Mapping[str, Any]) -> dict[tuple[Any, ...], Evidence]:
    """Return the parts of evidence by the combinations of values of columns, in the order of the values."""
    return {key: evidence.take(rows) for key, rows in _places(columns, evidence.n, evidence.caller).items()}


def split_column(column: Array, columns: Mapping[str, Any]) -> dict[tuple[Any, ...], Array]:
    """Return a column cut like `split` cuts evidence."""
    return {key: column[rows] for key, rows in _places(columns, len(column), "evaluate").items()}


def _places(columns: Mapping[str, Any], n: int, caller: str) -> dict[tuple[Any, ...], Ints]:
    """Return the rows of each combination of values."""
    arrays = []
    for name, column in columns.items():
        array = to_array(column, name, caller)
        if array.shape != (n,):
            got = f"shape {array.shape} for {name!r}"
            raise input_error("by", caller, f"have one value per row ({n})", got, "give whole columns")
        arrays.append(array)
    keys, where = unique_rows(arrays)
    if len(keys) > MOST:
        raise input_error(
            "by", caller, f"give at most {count(MOST)} slices", f"{len(keys)} of them", "use {engine=polars}"
        )
    order = np.argsort(where, kind="stable")
    borders = np.searchsorted(where[order], np.arange(len(keys) + 1))
    return {key: order[borders[i] : borders[i + 1]] for i, key in enumerate(keys)}


def unique_rows(columns: Sequence[Array]) -> tuple[list[tuple[Any, ...]], Array]:
    """Return the distinct combinations of several columns, None where a value is missing, and that of each row."""
    codes = np.zeros(len(columns[0]), dtype=np.int64)
    values = []
    for column in columns:
        words = column.astype(str) if column.dtype == object else column
        missing = words != words  # noqa: PLR0124 -- nan and NaT
        if column.dtype == object:
            missing = np.isin(words, ("None", "nan", "<NA>", "NaT")) & [not isinstance(one, str) for one in column]
        distinct, code = np.unique(words, return_inverse=True)
        if missing.any():
            code, distinct = np.where(missing, len(distinct), code), np.array([*distinct.tolist(), None], dtype=object)
        values.append(distinct)
        codes = codes * len(distinct) + code
    present, where = np.unique(codes, return_inverse=True)
    keys = []
    for packed in present.tolist():
        key, code = [], packed
        for distinct in reversed(values):
            code, position = divmod(code, len(distinct))
            key.append(distinct[position].item() if hasattr(distinct[position], "item") else distinct[position])
        keys.append(tuple(reversed(key)))
    return keys, where


def slice_tests(
    parts: Sequence[Any], n_resamples: int, rng: RNG = None, groups: Sequence[Any] | None = None
) -> list[JointTest | None]:
    """Return the joint test of every slice by its judged view, on the coarse grid of cells.

    The draws depend on the seed and on the position of the slice alone, so rows and engines give the same test. Many
    slices share the order of their draws in blocks; a cluster that reaches into several has one sign in all of them.
    """
    return list(_tests(parts, n_resamples, rng, groups))


def _tests(parts: Sequence[Any], n_resamples: int, rng: RNG, groups: Any) -> Iterator[JointTest | None]:
    """Yield the tests of `slice_tests` as they are made: whoever takes them works while others are drawn."""
    generator = check_rng(rng, "evaluate")
    if n_resamples < 1:
        yield from [None] * len(parts)
        return
    shared = None if groups is None else _shared_signs(groups, n_resamples, generator)
    many = len(parts) > DETAILED and shared is None

    def run(job: Any, order: SharedOrder | None, room: Array | None) -> JointTest | None:
        i, part, own = job
        view = judged(part)
        table = evened(part.coarse_table(view), TEST_STEPS if order is None else SLICE_STEPS)
        clusters = part.own_clusters() if shared is None else shared[i][0]
        if few_clusters(clusters) or (clusters is None and not part.counts):
            return None
        if clusters is not None:
            given = None if shared is None else shared[i][1].astype(np.float64)
            return clustered_joint(table, TableSigns(table, part.pairs_of(view), clusters), n_resamples, own, given)
        if order is None or room is None:
            return joint_of(table, draw_outcomes(table, n_resamples, own) - table.we)
        found = shared_joint(table, order, own, room)
        return replace(found, scores=np.append(found.scores[:1], own.permutation(found.scores[1:])))

    def run_block(block: Sequence[Any]) -> list[JointTest | None]:
        room = np.empty((SLICE_STEPS, n_resamples + 1)) if many else None
        order = SharedOrder(SLICE_STEPS, n_resamples, block[0][2].spawn(1)[0]) if many else None
        return [run(job, order, room) for job in block]

    jobs = list(zip(range(len(parts)), parts, generator.spawn(len(parts)), strict=True))
    blocks = [jobs[start : start + SHARING] for start in range(0, len(jobs), SHARING)]
    for block in map_chunks(run_block, blocks):
        yield from block


def _shared_signs(groups: Sequence[Any], n_resamples: int, rng: np.random.Generator) -> list[tuple[Ints, Array]]:
    """Return the clusters of every slice numbered from 0, and the signs drawn for them, shape (draws, clusters)."""
    borders = np.cumsum([len(column) for column in groups])[:-1]
    where = cluster_numbers(np.concatenate([np.asarray(column) for column in groups]))
    drawn = signs(n_resamples, int(where.max()) + 1, rng).astype(np.int8)
    out = []
    for column in np.split(where, borders):
        used, numbers = np.unique(column, return_inverse=True)
        out.append((numbers, drawn[:, used]))
    return out


def correct(tests: Sequence[JointTest | None]) -> list[float | None]:
    """Return the p-values of slices corrected for their number: the one correction of slices.

    Notes
    -----
    Step-down maxT over the joint draws of all slices, each by how rare it is in its own slice. The smallest
    corrected p-value is 1/(B + 1) whatever the number of slices; Holm's would be m/(B + 1).
    """
    made = [test for test in tests if test is not None]
    if not made:
        return [None] * len(tests)
    scores = np.stack([test.scores for test in made])
    corrected = iter(step_down(*tail_scores(scores[:, 0], scores[:, 1:])).tolist())
    return [None if test is None else max(float(next(corrected)), test.pvalue) for test in tests]


def _with_classes(corrected: float | None, facts: Any, slices: int) -> float | None:
    """Return the corrected p-value of a slice where its classes are tested too, each at its part of the error rate."""
    if corrected is None:
        return None
    found = [gap.pvalue * slices for gap in facts.class_gaps]
    return min(corrected / facts.share, *found, 1.0)


class JointLevel(float):
    """A level that the intervals of all slices keep together: each takes its part of the error rate."""


def evaluate_parts(
    parts: Mapping[tuple[Any, ...], Evidence],
    by: Sequence[str],
    *,
    metrics: Iterable[str] | str | None = None,
    n_resamples: int = 1000,
    slice_resamples: int | None = None,
    groups: Mapping[tuple[Any, ...], Array] | None = None,
    rng: RNG = None,
    **settings: Any,
) -> tuple[Slice, ...]:
    """Return the evaluation of every slice with its corrected p-value.

    `parts` is evidence by the values of the columns `by`, `groups` the clusters of their rows; the settings are those
    of `evaluate_evidence`. Metrics of a slice rest on `slice_resamples` draws: by default `n_resamples` up to fifty,
    none beyond; tests of slices always take `n_resamples`.
    """
    filled = {key: part for key, part in parts.items() if part.n}
    if isinstance(level := settings.get("level"), JointLevel):
        settings["level"] = 1.0 - (1.0 - level) / max(len(filled), 1)
    judged_by_draws = all(part.task != "regression" for part in filled.values())
    if slice_resamples is None:
        slice_resamples = n_resamples if len(filled) <= DETAILED or not judged_by_draws else 0
    clusters = None if groups is None else [groups[key] for key in filled]
    drawn = n_resamples if judged_by_draws else 0
    made, tests = tee(_tests(list(filled.values()), drawn, rng, clusters))  # one keeps them for the correction
    kept = Built()
    evaluated = [
        evaluate_evidence(
            part,
            kept=kept,
            metrics=metrics,
            n_resamples=slice_resamples,
            groups=None if groups is None else groups[key],
            fewest_groups=1,
            rng=rng,
            test=test,
            **settings,
        )
        for (key, part), test in zip(filled.items(), made, strict=True)
    ]
    if judged_by_draws:
        joint = zip(correct(list(tests)), evaluated, strict=True)
        corrected = [_with_classes(p, one.facts, len(evaluated)) for p, one in joint]
    else:
        corrected = holm_known([one.facts.pvalue for one in evaluated])
    return tuple(
        Slice(dict(zip(by, key, strict=True)), one, p) for key, one, p in zip(filled, evaluated, corrected, strict=True)
    )


def evaluate_slices(
    whole: Evidence,
    parts: Mapping[tuple[Any, ...], Evidence],
    by: Sequence[str],
    *,
    groups: Any = None,
    part_groups: Mapping[tuple[Any, ...], Array] | None = None,
    slice_resamples: int | None = None,
    **settings: Any,
) -> FileEvaluation:
    """Evaluate the whole and every slice; the settings are those of `evaluate_evidence`.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.core.inputs import check_forecast
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(1000)
    >>> rows = check_forecast(rng.random(1000) < p, p, caller="evaluate")
    >>> parts = {("a",): rows.take(np.arange(500)), ("b",): rows.take(np.arange(500, 1000))}
    >>> len(evaluate_slices(rows, parts, ["site"], n_resamples=100, rng=0).slices)
    2
    """
    evaluation = evaluate_evidence(whole, groups=groups, **settings)
    enabled = gc.isenabled()
    gc.disable()  # results have no cycles, and the search for them takes a tenth of the time of a thousand slices
    try:
        slices = evaluate_parts(parts, by, groups=part_groups, slice_resamples=slice_resamples, **settings)
    finally:
        if enabled:
            gc.enable()
    return FileEvaluation(evaluation, slices)
