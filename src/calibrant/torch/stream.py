"""The sums behind streaming metrics: one flat float64 state, filled on its device, finished by the library."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

import calibrant.metrics  # noqa: F401  # importing the package declares the metrics
from calibrant.calibrators._torch_module import run_torch
from calibrant.core.declare import Recipe, lookup
from calibrant.core.programs import Program
from calibrant.core.row_scores import program
from calibrant.core.tables import DEEPEST, NUDGE, PARTS, PER_OCTAVE, SLACK, Table
from calibrant.errors import input_error
from calibrant.metrics.recipes import MeanScore, ScoreSums
from calibrant.torch.batch import IGNORE, check_batch, check_word
from calibrant.views import View, as_view

#: Sums of each cell: Σw, Σw·s, Σw·t, Σw·e; with weights also the count and Σw².
SUMS, WEIGHTED_SUMS = 4, 6


def grid_size(m: int) -> int:
    """Return the number of keys a grid of `m` cells can take: inner cells once, the two end cells by octave."""
    return m - 2 + 2 * PARTS


def cell_index(score: Tensor, m: int) -> Tensor:
    """Return the position of each float64 score in the dense row of keys; the rule of `calibrant.core.tables`."""
    score = score.nan_to_num(0.5)  # NaN is counted in some cell, whose sums then are NaN
    cell = (((score - SLACK) * m).ceil() - 1).clamp(0, m - 1).long()
    inner = cell + (PARTS - 1)
    first, last = _depth(score), m - 3 + 2 * PARTS - _depth(1.0 - score)
    return torch.where(cell == 0, first, torch.where(cell == m - 1, last, inner))


def _depth(distance: Tensor) -> Tensor:
    rank = (PER_OCTAVE * (distance.log2() + DEEPEST) + NUDGE).floor() + 1
    return rank.clamp(0, PARTS - 1).long()


def _keys(m: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    ends = np.arange(PARTS)
    return np.concatenate([ends, np.arange(1, m - 1) * PARTS, (m - 1) * PARTS + ends])


class Stream:
    """Which sums a set of metrics needs, where they stand in one flat state, and how they become numbers."""

    def __init__(
        self,
        n_classes: int,
        metrics: Sequence[str],
        space: Literal["logit", "proba"],
        caller: str,
        *,
        ignore_index: int = IGNORE,
        weighted: bool = False,
    ) -> None:
        if n_classes < 2:
            raise input_error("n_classes", caller, "be at least 2", repr(n_classes), "count columns")
        check_word(space, ("logit", "proba"), "space", caller, "choose one")
        self.n_classes, self.space, self.metrics, self.caller = int(n_classes), space, tuple(metrics), caller
        self.ignore_index, self.weighted = int(ignore_index), bool(weighted)
        self.per_cell = WEIGHTED_SUMS if weighted else SUMS
        recipes = self.recipes()
        means = [recipe for recipe in recipes.values() if isinstance(recipe, MeanScore)]
        self.top_scores, self.scores = (
            tuple(dict.fromkeys(recipe.score for recipe in means if recipe.pairs_suffice is pairs))
            for pairs in (True, False)
        )
        self.size = 1 + len(self.top_scores) + len(self.scores)
        wanted = ((self.top_scores, 2), (self.scores, self.n_classes))
        self._programs = [program(scores, k, null=False) if scores else None for scores, k in wanted]
        self.blocks: dict[View, tuple[int, int]] = {}  # view → (start, groups) of its cells in the state
        for name, recipe in recipes.items():
            view = _view_of(name, recipe, self.n_classes, caller)
            if view is not None and view not in self.blocks:
                groups = view.group_count(self.n_classes)
                self.blocks[view] = (self.size, groups)
                self.size += groups * self.per_cell * grid_size(view.grid())

    def recipes(self) -> dict[str, Recipe]:
        """Return what each metric is made of."""
        return {name: lookup(name, self.caller).build() for name in self.metrics}

    def same_as(self, other: Stream) -> bool:
        """Whether two states can be added."""
        mine, theirs = ((s.n_classes, s.blocks, s.top_scores, s.scores, s.weighted) for s in (self, other))
        return mine == theirs

    def add(self, state: Tensor, preds: Tensor, target: Tensor, sample_weight: Tensor | None = None) -> None:
        """Add one batch to a state, on the state's device; rows that do not count are masked, never looked for."""
        if sample_weight is not None and not self.weighted:
            raise input_error(
                "sample_weight", self.caller, "be left out", "weights", "build the meter with {weighted=True}"
            )
        if not preds.numel():
            return
        with torch.no_grad(), torch.autocast(preds.device.type, enabled=False):
            rows, codes, weight = self._rows(preds.detach(), target, sample_weight, state.device)
            self._add(state, rows, codes, weight)

    def _rows(
        self, preds: Tensor, target: Tensor, sample_weight: Tensor | None, where: torch.device
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        classes = 2 if preds.ndim == 1 else max(preds.shape[1], 2)
        if classes != self.n_classes:
            raise input_error(
                "preds",
                self.caller,
                f"have shape (batch, {self.n_classes}) or (batch, {self.n_classes}, …)",
                f"shape {tuple(preds.shape)}",
                "classes stand in dimension 1, as in torch: preds.movedim(-1, 1)",
            )
        if target.is_floating_point():
            raise input_error(
                "target", self.caller, "hold class indices", f"dtype {target.dtype}", "use target.argmax(dim=1)"
            )
        preds, target = preds.to(where), target.to(where)
        weight = None if sample_weight is None else sample_weight.to(where)
        if weight is not None or self.space == "proba":  # logits are widened as they are shifted
            preds = preds.double()
        batch = check_batch(preds, target, self.caller, ignore_index=self.ignore_index, sample_weight=weight)
        rows = batch.logits
        if self.space == "proba":
            if preds.ndim == 1 or preds.shape[1] == 1:  # one column: the probability of class 1
                rows = torch.stack([1.0 - rows[:, 1], rows[:, 1]], dim=1)
            if batch.outer is not None:  # any row of probabilities will do where the weight is 0
                rows = torch.where(batch.outer[:, None] > 0, rows, 1.0 / self.n_classes)
        return rows, batch.target, None if batch.outer is None else batch.outer.double()

    def _add(self, state: Tensor, wide: Tensor, target: Tensor, weight: Tensor | None) -> None:
        rows = _logits(wide) if self.space == "logit" else _probabilities(wide)
        proba, label, top = rows.proba, target[:, None], rows.top[:, 0]
        best, hit = proba.gather(1, rows.top), rows.top == label
        pair = torch.cat([1.0 - best, best], dim=1)
        scores = torch.cat(
            [
                torch.ones_like(best),
                _row_scores(self._programs[0], pair, pair.log, lambda: pair.gather(1, hit.long()).log(), hit.long()),
                _row_scores(self._programs[1], proba, rows.log_proba, lambda: rows.log_of(label), label),
            ],
            dim=1,
        )
        if weight is not None:
            scores = torch.where(weight[:, None] > 0, scores, 0.0) * weight[:, None]
        state[: scores.shape[1]] += scores.sum(dim=0)
        batch = _Batch(proba, target, top, rows.nats)
        for view in self.blocks:
            found = view.select(batch)
            if found is not None:
                self._count(state, view, found, weight)

    def _count(self, state: Tensor, view: View, pairs: _Pairs, weight: Tensor | None) -> None:
        """Count pairs into the cells of a view."""
        start, groups = self.blocks[view]
        m = view.grid()
        size = groups * grid_size(m)
        index = cell_index(pairs.score, m)
        if groups > 1 and pairs.group is not None:
            index = index + pairs.group * grid_size(m)
        if weight is None:
            w = torch.ones_like(pairs.score)
        else:
            w = weight.reshape(-1, *[1] * (pairs.score.ndim - 1)).expand_as(pairs.score)
        values = [w, w * pairs.score, w * pairs.outcome, w * pairs.expected]
        if self.weighted:
            values += [(w > 0).to(w.dtype), w * w]
        index = index.flatten()
        for i, part in enumerate(values):
            state[start + i * size : start + (i + 1) * size].index_add_(0, index, part.flatten())

    def finish(self, sums: np.ndarray[Any, Any]) -> dict[str, float]:
        """Return every metric of a state that was brought to the CPU."""
        if not sums[0]:
            return dict.fromkeys(self.metrics, math.nan)
        return {name: self._finish(recipe, sums) for name, recipe in self.recipes().items()}

    def _finish(self, recipe: Any, sums: np.ndarray[Any, Any]) -> float:
        if isinstance(recipe, MeanScore):
            place = 1 + (*self.top_scores, *self.scores).index(recipe.score)
            return float(recipe.finish(ScoreSums(float(sums[0]), float(sums[place]))))
        view: View = recipe.view  # all others were refused by `_view_of`
        tables = view.occupied(view.derive(view.plain(), self.tables(view.plain(), sums)))
        seen = sum(float(table.ws.sum()) for table in tables)
        return math.nan if math.isnan(seen) else float(recipe.from_tables(tables))

    def tables(self, view: View | str, sums: np.ndarray[Any, Any]) -> tuple[Table, ...]:
        """Return the occupied cells of a view as the library's tables."""
        view = as_view(view, self.caller).plain()
        start, groups = self.blocks[view]
        m = view.grid()
        block = sums[start : start + groups * self.per_cell * grid_size(m)].reshape(self.per_cell, groups, grid_size(m))
        keys, tables = _keys(m), []
        for group in range(groups):
            w, ws, wt, we = block[:4, group]
            n, w2 = block[4:, group] if self.weighted else (w, w)
            kept = w != 0  # a cell that met NaN stays, and says so
            cells = (part[kept].copy() for part in (n, w, ws, wt, we, w2))
            tables.append(Table(m, keys[kept], *cells))
        return tuple(tables)


@dataclass(frozen=True)
class _Rows:
    """Probabilities of a batch and their logarithms, each computed when it is asked for."""

    proba: Tensor  # (batch, K)
    top: Tensor  # (batch, 1), the first of equals
    log_proba: Callable[[], Tensor]  # (batch, K)
    log_of: Callable[[Tensor], Tensor]  # of classes (batch, 1)
    nats: Callable[[], Tensor]  # (batch,), the entropy


def _logits(wide: Tensor) -> _Rows:
    high, top = wide.max(dim=1, keepdim=True)
    below = wide - high.double()
    proba = below.exp()
    total = proba.sum(dim=1, keepdim=True)
    proba, log_total = proba.div_(total), total.log()

    def nats() -> Tensor:  # log Σe^z − Σpz; a class of logit −∞ adds 0
        return log_total[:, 0] - torch.linalg.vecdot(proba, below.clamp_min(torch.finfo(below.dtype).min))

    return _Rows(proba, top, lambda: below - log_total, lambda label: below.gather(1, label) - log_total, nats)


def _probabilities(wide: Tensor) -> _Rows:
    return _Rows(
        wide,
        wide.max(dim=1, keepdim=True).indices,
        wide.log,
        lambda label: wide.gather(1, label).log(),
        lambda: -torch.xlogy(wide, wide).sum(dim=1),
    )


def _row_scores(
    scores: Program | None,
    proba: Tensor,
    log_proba: Callable[[], Tensor],
    log_truth: Callable[[], Tensor],
    label: Tensor,
) -> Tensor:
    """Return the observed scores of a batch, (batch, number of scores), by the programs that rows use."""
    if scores is None:
        return proba.new_zeros((len(proba), 0))
    found = run_torch(
        scores,
        proba,
        {
            "log_input": log_proba,
            "truth": lambda: proba.gather(1, label),
            "log_truth": log_truth,
            "label": lambda: label,
        },
    )
    return found.expand(len(proba), -1)


@dataclass(frozen=True)
class _Pairs:
    """Scores with outcome and what the forecast expects of it, shape (batch,) or (batch, groups)."""

    score: Tensor
    outcome: Tensor
    expected: Tensor
    group: Tensor | None = None


@dataclass(frozen=True)
class _Batch:
    """One batch as a source of pairs (`calibrant.views.PairSource`)."""

    proba: Tensor
    target: Tensor
    predicted: Tensor
    nats: Callable[[], Tensor]

    @property
    def n_classes(self) -> int:
        return int(self.proba.shape[1])

    def top(self) -> _Pairs:
        best = self.proba.gather(1, self.predicted[:, None])[:, 0]
        return _Pairs(best, (self.predicted == self.target).double(), best)

    def one_class(self, k: int) -> _Pairs:
        return _Pairs(self.proba[:, k], (self.target == k).double(), self.proba[:, k])

    def classes(self) -> _Pairs:
        truth = nn.functional.one_hot(self.target, self.n_classes).double()
        return _Pairs(self.proba, truth, self.proba, torch.arange(self.n_classes, device=self.proba.device))

    def entropy(self, *, by_predicted: bool) -> _Pairs:
        top = self.top()
        normal = (self.nats() / math.log(self.n_classes)).clamp(0, 1).round(decimals=12)
        return _Pairs(normal, 1 - top.outcome, 1 - top.score, self.predicted if by_predicted else None)


def _view_of(name: str, recipe: Any, n_classes: int, caller: str) -> View | None:
    """Return the view whose cells a metric reads; None for score sums; refuse what has no streaming form."""
    if isinstance(recipe, MeanScore):
        return None
    if recipe.on_tables and recipe.estimator.from_tables:
        row = torch.full((1, n_classes), 1.0 / n_classes, dtype=torch.float64)
        zero = torch.zeros(1, dtype=torch.long)
        plain: View = recipe.view.plain()
        if plain.select(_Batch(row, zero, zero, lambda: row[:, 0])) is not None:
            return plain
    raise input_error(
        "metrics",
        caller,
        "have a form that adds up over batches",
        repr(name),
        "keep the logits and use calibrant.metric for this one",
    )
