"""Calibration measures while training: constant memory, the library's own cells, one all-reduce."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

import calibrant.metrics  # noqa: F401  # importing the room declares the measures
from calibrant.core.declare import Recipe, lookup
from calibrant.core.edges import COARSE, DEEPEST, FINE, NUDGE, PARTS, PER_OCTAVE, SLACK
from calibrant.core.tables import Bins, Table
from calibrant.errors import input_error
from calibrant.estimators import Binned
from calibrant.metrics.recipes import CalibrationError, MeanScore, ScoreSums
from calibrant.torch.batch import check_target
from calibrant.views import Classwise, Entropy, TopLabel

CALLER = "StreamingCalibration"
#: Row scores whose sums are kept, in this order.
SCORES = ("accuracy", "confidence", "brier", "nll", "entropy")
#: Measures that read another one's sums.
SAME_SUMS = {"rbs": "brier"}
#: Sums of each cell: Σw, Σw·s, Σw·t, Σw·e.
SUMS = 4


def grid_size(m: int) -> int:
    """Return the number of keys a grid of `m` cells can take: inner cells once, the two end cells by octave."""
    return m - 2 + 2 * PARTS


def cell_index(score: Tensor, m: int) -> Tensor:
    """Return the position of each float64 score in the dense row of keys; the rule of `calibrant.core.edges`."""
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


class StreamingCalibration(nn.Module):  # type: ignore[misc]  # torch is untyped here
    """Any one-dimensional measure of the library over a stream of batches.

    Parameters
    ----------
    n_classes : int
        K.
    measures : sequence of str, default=("accuracy", "ece", "ks", "uce", "brier", "nll")
        Short names, see `calibrant.list_measures`; measures that need all rows are refused by name.
    space : {"logit", "proba"}, default="logit"
        What `update` is given; networks give logits.

    Notes
    -----
    The state is one flat float64 buffer on the model's device: a fine table (76 800 cells, the end cells split by
    octave) for the top label and for the entropy, a coarse one for each class where a measure asks for it, and
    score sums; `update` adds to it by counting on the device, `compute` finishes it with the same estimators as
    `calibrant.evaluate`. Equal-width bins, accuracy and proper scores are exact; KS, MMCE, KDE and equal-mass bins
    err by a cell. Under torch.distributed `compute` makes one all-reduce of the buffer; every process gets the same
    numbers. Update, compute, merge_state and reset as in torchmetrics.

    Examples
    --------
    >>> import torch
    >>> meter = StreamingCalibration(2, ["ece", "accuracy"], space="proba")
    >>> meter.update(torch.tensor([[0.1, 0.9], [0.1, 0.9]]), torch.tensor([1, 0]))
    >>> meter.update(torch.tensor([[0.4, 0.6], [0.4, 0.6]]), torch.tensor([1, 1]))
    >>> meter.compute()
    {'ece': 0.4, 'accuracy': 0.75}
    """

    state: Tensor

    def __init__(
        self, n_classes: int, measures: Sequence[str] = ("accuracy", "ece", "ks", "uce", "brier", "nll"),
        space: Literal["logit", "proba"] = "logit",
    ) -> None:
        super().__init__()
        if n_classes < 2:
            raise input_error("n_classes", CALLER, "be at least 2", repr(n_classes), "count columns")
        if space not in ("logit", "proba"):
            raise input_error("space", CALLER, "be 'logit' or 'proba'", repr(space), "choose one")
        self.n_classes = int(n_classes)
        self.space = space
        self.measures = tuple(measures)
        self._recipes: dict[str, Recipe] = {name: lookup(name, CALLER).build() for name in self.measures}
        self._blocks: dict[str, tuple[int, int]] = {}  # view → (start, groups) of its cells in the buffer
        size = len(SCORES) * 2 + 1
        for name, recipe in self._recipes.items():
            view = _view_of(name, recipe)
            if view is not None and view not in self._blocks:
                groups = self.n_classes if view == "classwise" else 1
                self._blocks[view] = (size, groups)
                size += groups * SUMS * grid_size(_grid(view))
        self.register_buffer("state", torch.zeros(size, dtype=torch.float64), persistent=False)

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Add one batch: scores (batch, K) and class indices (batch,)."""
        if preds.ndim != 2 or preds.shape[1] != self.n_classes:
            raise input_error(
                "preds", CALLER, f"have shape (batch, {self.n_classes})", f"shape {tuple(preds.shape)}",
                "flatten leading axes first",
            )
        if not len(preds):
            return
        check_target(target, len(preds), self.n_classes, CALLER)
        with torch.no_grad():
            self._add(preds.detach().double(), target.long())

    forward = update

    def _add(self, wide: Tensor, target: Tensor) -> None:
        if self.space == "logit":
            log_proba = torch.log_softmax(wide, dim=1)
            proba = log_proba.exp()
        else:
            proba = wide
            log_proba = proba.clamp_min(1e-300).log()
        top = wide.max(dim=1).indices[:, None]
        best, hit = proba.gather(1, top)[:, 0], top[:, 0] == target
        true = proba.gather(1, target[:, None])[:, 0]
        entropy = -(proba * log_proba).sum(dim=1)
        brier = proba.square().sum(dim=1) - 2 * true + 1
        nll = -log_proba.gather(1, target[:, None])[:, 0]
        if self.space == "proba":
            nll = torch.where(true > 0, nll, torch.inf)  # an exact zero on the truth is infinite, never hidden
        rows = torch.stack([hit.double(), best, brier, nll, entropy])
        self.state[0] += len(target)
        self.state[1 : 1 + len(SCORES)] += rows.sum(dim=1)
        self.state[1 + len(SCORES) : 1 + 2 * len(SCORES)] += rows.square().sum(dim=1)
        if "top-1" in self._blocks:
            self._count("top-1", best, hit.double(), best)
        if "entropy" in self._blocks:
            normal = (entropy / math.log(self.n_classes)).clamp(0, 1).round(decimals=12)
            self._count("entropy", normal, (~hit).double(), 1 - best)
        if "classwise" in self._blocks:
            truth = nn.functional.one_hot(target, self.n_classes).double()
            self._count("classwise", proba, truth, proba)

    def _count(self, view: str, score: Tensor, outcome: Tensor, expected: Tensor) -> None:
        """Count scores (batch,) or (batch, groups) into the cells of a view."""
        start, groups = self._blocks[view]
        m = _grid(view)
        size = grid_size(m)
        index = cell_index(score, m)
        if groups > 1:
            index = index + torch.arange(groups, device=index.device) * size
        index = index.flatten()
        for i, values in enumerate((None, score, outcome, expected)):
            part = self.state[start + i * groups * size : start + (i + 1) * groups * size]
            part += torch.bincount(index, None if values is None else values.flatten(), groups * size)

    def compute(self) -> dict[str, float]:
        """Return every measure by its short name, over all processes."""
        state = self.state
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            state = state.clone()
            torch.distributed.all_reduce(state)
        sums = state.cpu().numpy()
        if not sums[0]:
            return dict.fromkeys(self.measures, math.nan)
        return {name: self._finish(name, recipe, sums) for name, recipe in self._recipes.items()}

    def _finish(self, name: str, recipe: Recipe, sums: np.ndarray[Any, Any]) -> float:
        if isinstance(recipe, MeanScore):
            i = 1 + SCORES.index(SAME_SUMS.get(name, name))
            return float(recipe.finish(ScoreSums(sums[0], sums[i], sums[i + len(SCORES)])))
        if not isinstance(recipe, CalibrationError):
            raise TypeError(f"{name} has no streaming form")
        tables = self.tables(str(_view_of(name, recipe)), sums)
        if isinstance(recipe.view, Classwise) and recipe.view.threshold is not None:
            tables = tuple(_above(table, recipe.view.threshold) for table in tables)
        estimator = recipe.estimator
        if isinstance(estimator, Binned):
            width = estimator.bins == "width"
            parts = [t.bins(estimator.n_bins) if width else t.mass_bins(estimator.n_bins) for t in tables]
            return float(recipe.finish(Bins.stack(parts)))
        return float(recipe.finish(tables))

    def tables(self, view: str, sums: np.ndarray[Any, Any] | None = None) -> tuple[Table, ...]:
        """Return the occupied cells of a view ("top-1", "entropy", "classwise") as the library's tables."""
        start, groups = self._blocks[view]
        m = _grid(view)
        flat = self.state.cpu().numpy() if sums is None else sums
        block = flat[start : start + groups * SUMS * grid_size(m)].reshape(SUMS, groups, grid_size(m))
        keys, tables = _keys(m), []
        for group in range(groups):
            n, ws, wt, we = block[:, group]
            kept = n > 0
            count = n[kept].copy()
            tables.append(Table(m, keys[kept], count, count, ws[kept].copy(), wt[kept].copy(), we[kept].copy(), count))
        return tuple(tables)

    def merge_state(self, other: StreamingCalibration) -> None:
        """Add another meter's state to this one; the other stays as it is."""
        if not isinstance(other, StreamingCalibration) or other._blocks != self._blocks:
            raise input_error(
                "other", CALLER, "hold the same measures and classes", repr(other), "build both alike"
            )
        self.state += other.state.to(self.state.device)

    def reset(self) -> None:
        """Forget everything."""
        self.state.zero_()

    def extra_repr(self) -> str:
        """Show what is measured."""
        return f"n_classes={self.n_classes}, measures={list(self.measures)}, space={self.space!r}"


def _grid(view: str) -> int:
    return COARSE if view == "classwise" else FINE


def _view_of(name: str, recipe: Recipe) -> str | None:
    """Name the cells a measure reads; None for score sums; refuse what has no streaming form."""
    if isinstance(recipe, MeanScore) and SAME_SUMS.get(name, name) in SCORES:
        return None
    if isinstance(recipe, CalibrationError):
        view = recipe.view
        if isinstance(view, TopLabel | Classwise) or (isinstance(view, Entropy) and view.by is None):
            return view.name
    raise input_error(
        "measures", CALLER, "have a form that adds up over batches", repr(name),
        "keep the logits and use calibrant.measure for this one",
    )


def _above(table: Table, threshold: float) -> Table:
    """Keep the cells above a threshold (the cell that holds it by its mean score)."""
    kept = table.score > threshold
    columns = (table.key, table.n, table.w, table.ws, table.wt, table.we, table.w2)
    return Table(table.grid, *(column[kept] for column in columns))
