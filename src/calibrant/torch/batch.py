"""What every loss shares: one batch of rows, its mask and weights, its precision, and the reduction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar

import torch
from torch import Tensor

from calibrant.calibrators._torch_module import WideStates
from calibrant.core.docstrings import fill
from calibrant.errors import InputError, input_error

Reduction: TypeAlias = Literal["mean", "sum", "none"]
#: torch's own mark of a row that does not count: padding, unlabeled pixels.
IGNORE = -100
_Loss = TypeVar("_Loss")
#: What every function of a loss takes and returns; it describes only what it does otherwise.
_SHARED = """
Parameters
----------
logits : Tensor of shape (batch, K) or (batch, K, …)
    Raw scores, any float type; one logit, (batch,) or (batch, 1), stands for two classes.
target : Tensor of shape (batch,) or (batch, …)
    Class indices, or soft labels of the shape of the logits.
reduction : {"mean", "sum", "none"}, default="mean"
    What to do with the rows.
ignore_index : int, default=-100
    Rows with this label do not count.
class_weight : Tensor of shape (K,), optional
    As `weight` of torch's cross-entropy.
sample_weight : Tensor of the target's shape, optional
    Weight of each row.

Returns
-------
Tensor
    A scalar, or one value per row.
"""


def document(function: _Loss) -> _Loss:
    """Complete the docstring of a loss (a decorator)."""
    return fill(function, _SHARED)


@dataclass
class LossBatch:
    """Rows of logits with what is true of them; a row that does not count has logits 0, label 0 and weight 0."""

    logits: Tensor  # (rows, K), float32 or float64
    target: Tensor | None  # (rows,) class indices; None for soft labels
    truth: Any  # Tensor (rows, K) of soft labels; None for class indices
    weight: Tensor | None  # (rows,) mask · sample weight · class weight; None when every row counts once
    outer: Tensor | None  # (rows,) the same without the class weight
    class_weight: Tensor | None  # (K,)
    shape: torch.Size  # of one value per row, as the caller's target
    _log_proba: Tensor | None = field(default=None, init=False)

    def log_proba(self) -> Tensor:
        """Return log p of each class, computed once for all losses of the batch."""
        if self._log_proba is None:
            self._log_proba = torch.log_softmax(self.logits, dim=1)
        return self._log_proba

    def chance(self, top: Tensor) -> Tensor:
        """Return the chance that the classes `top` are right: 0 or 1 for class indices."""
        if self.truth is None:
            return (top == self.target).to(self.logits.dtype)
        return self.truth.gather(1, top[:, None])[:, 0]

    def miss(self, top: Tensor) -> Tensor:
        """Return the chance that the classes `top` are wrong."""
        return (top != self.target).to(self.logits.dtype) if self.truth is None else 1 - self.chance(top)

    def weights(self) -> Tensor:
        """Return the weight of each row."""
        return self.logits.new_ones(len(self.logits)) if self.weight is None else self.weight

    def reduce(self, rows: Tensor, reduction: Reduction, *, classes_inside: bool = False) -> Tensor:
        """Turn one value per row into the asked form; means divide as torch's cross-entropy does.

        With `classes_inside` the rows hold their class weights already. A batch without any row that counts is 0,
        with slope 0.
        """
        weight = self.outer if classes_inside else self.weight
        if weight is not None:
            rows = rows * weight
        if reduction == "none":
            return rows.reshape(self.shape)
        if reduction == "sum":
            return rows.sum()
        total = self.outer if classes_inside and self.target is None else self.weight
        if total is None:
            return rows.mean()
        return rows.sum() / total.sum().clamp_min(torch.finfo(rows.dtype).tiny)


def check_batch(
    logits: Tensor,
    target: Tensor,
    caller: str,
    ignore_index: int = IGNORE,
    class_weight: Tensor | None = None,
    sample_weight: Tensor | None = None,
) -> LossBatch:
    """Check shapes and labels and return the batch as rows, the logits in float32 or better.

    Classes stand in dimension 1, as in torch: (batch, K) or (batch, K, …) with targets (batch, …). One logit, (batch,)
    or (batch, 1, …), becomes two columns. Nothing is looked at on a device or while compiling, so rows are never
    dropped: they are masked.
    """
    for name, value in (("logits", logits), ("target", target)):
        if not isinstance(value, Tensor):
            raise input_error(name, caller, "be a tensor", type(value).__name__, "use torch.as_tensor")
    if not logits.is_floating_point():
        raise input_error("logits", caller, "be floating point", f"dtype {logits.dtype}", "pass the model's raw output")
    if logits.ndim == 0 or logits.numel() == 0:
        got = "an empty batch" if logits.ndim else "one number"
        raise input_error("logits", caller, "hold at least one row", got, "skip empty batches")
    spots = logits.shape if logits.ndim == 1 else logits.shape[:1] + logits.shape[2:]
    looks = may_look(target)
    single = logits.ndim == 1 or logits.shape[1] == 1
    if single:
        target = _one_column(target, spots, logits, caller)
        column = widen(logits).reshape(-1)
        rows = torch.stack([torch.zeros_like(column), column], dim=1)
    else:
        rows = as_rows(widen(logits))
    n_classes = rows.shape[1]
    index, truth, keep = None, None, None
    if target.is_floating_point():
        truth, keep = _soft(target, logits, rows, single, ignore_index, looks, caller)
    else:
        index, keep = _indices(target, spots, n_classes, ignore_index, looks, caller)
    outer = None if sample_weight is None else check_weights(sample_weight, spots, caller).to(rows.dtype)
    if keep is not None:
        rows = rows.masked_fill(~keep[:, None], 0.0)  # a padded row may hold anything, NaN included
        outer = keep.to(rows.dtype) if outer is None else torch.where(keep, outer, 0.0)
    weight = outer
    if class_weight is not None:
        class_weight = _check_class_weight(class_weight, n_classes, caller).to(rows)
        own = class_weight[index] if truth is None else truth @ class_weight
        weight = own if outer is None else own * outer
    return LossBatch(rows, index, truth, weight, outer, class_weight, spots)


def may_look(values: Tensor) -> bool:
    """Whether values may steer the program: free on the CPU, impossible while compiling and under torch.func.vmap."""
    return bool(
        values.device.type == "cpu"
        and not torch.compiler.is_compiling()
        and not torch._C._are_functorch_transforms_active()  # torch has no public word for it
    )


def as_rows(values: Tensor) -> Tensor:
    """Return (batch, K, …) as rows (batch · …, K)."""
    return values if values.ndim == 2 else values.movedim(1, -1).reshape(-1, values.shape[1])


def _one_column(target: Tensor, spots: Any, logits: Tensor, caller: str) -> Tensor:
    if target.shape not in (spots, logits.shape):
        raise _bad_target(target, spots, logits.shape, caller)
    target = target.reshape(spots)
    return target.long() if target.dtype == torch.bool else target


def _soft(
    target: Tensor, logits: Tensor, rows: Tensor, single: bool, ignore_index: int, looks: bool, caller: str
) -> tuple[Tensor, Tensor | None]:
    """Return soft labels (rows, K), and for one logit the mask of rows that count."""
    if single:
        keep: Tensor | None = target.reshape(-1) != ignore_index
        positive = torch.where(keep, target.reshape(-1), 0.0).to(rows.dtype)
        truth = torch.stack([1 - positive, positive], dim=1)
    elif target.shape == logits.shape:
        keep, truth = None, as_rows(target).to(rows.dtype)
    else:
        raise _bad_target(target, logits.shape[:1] + logits.shape[2:], logits.shape, caller)
    if looks:
        off = (truth.amin(dim=1) < 0) | ((truth.sum(dim=1) - 1).abs() > 0.02)
        if bool(off.any()):
            row = int(off.nonzero()[0])
            raise input_error(
                "target",
                caller,
                "hold probabilities that sum to 1 when it is floating point",
                f"{truth[row].tolist()[:4]} at row {row}",
                "pass class indices as integers, or soft labels of the same shape as the logits",
            )
    return truth, keep


def _indices(
    target: Tensor, spots: Any, n_classes: int, ignore_index: int, looks: bool, caller: str
) -> tuple[Tensor, Tensor | None]:
    """Return class indices (rows,), 0 where the row does not count, and the mask when one may be needed."""
    if target.shape != spots or target.dtype == torch.bool:
        raise _bad_target(target, spots, (spots[0], n_classes, *spots[1:]), caller)
    index = target if target.ndim == 1 and target.dtype == torch.long else target.reshape(-1).long()
    if looks:
        low, high = (int(end) for end in torch.aminmax(index))
        if low < 0 or high >= n_classes:
            bad = ((index < 0) | (index >= n_classes)) & (index != ignore_index)
            if bool(bad.any()):
                row = int(bad.nonzero()[0])
                raise input_error(
                    "target",
                    caller,
                    f"hold class indices 0 … {n_classes - 1}",
                    f"{int(index[row])} at row {row}",
                    f"mark rows that do not count with ignore_index={ignore_index}",
                )
        if not low <= ignore_index <= high:
            return index, None
    keep = index != ignore_index
    return torch.where(keep, index, 0), keep


def _bad_target(target: Tensor, spots: Any, shape: Any, caller: str) -> InputError:
    n = math.prod(spots)
    hint = "turn one-hot rows into indices with target.argmax(dim=1)"
    if target.ndim == len(shape) - 1 > 1 and target.shape == shape[:-1]:
        hint = "classes stand in dimension 1, as in torch: pass logits.movedim(-1, 1)"
    elif target.is_floating_point():
        hint = "soft labels have the shape of the logits; class indices are integers"
    return input_error(
        "target",
        caller,
        f"hold {n} integer class indices of shape {tuple(spots)}, or soft labels of shape {tuple(shape)}",
        f"shape {tuple(target.shape)}, dtype {target.dtype}",
        hint,
    )


def check_weights(sample_weight: Tensor, spots: Any, caller: str) -> Tensor:
    """Return one weight per row, flat; their sign only where looking is free."""
    if tuple(sample_weight.shape) != tuple(spots):
        raise input_error(
            "sample_weight",
            caller,
            f"have shape {tuple(spots)}",
            f"shape {tuple(sample_weight.shape)}",
            "give one weight per row, of the shape of the target",
        )
    flat = sample_weight.detach().reshape(-1)
    if may_look(flat) and not bool((flat >= 0).all()):
        row = int((~(flat >= 0)).nonzero()[0])
        raise input_error(
            "sample_weight", caller, "be at least 0", f"{flat[row].item()} at row {row}", "use 0 to leave a row out"
        )
    return flat


def _check_class_weight(class_weight: Tensor, n_classes: int, caller: str) -> Tensor:
    if tuple(class_weight.shape) != (n_classes,):
        raise input_error(
            "class_weight",
            caller,
            f"have shape ({n_classes},)",
            f"shape {tuple(class_weight.shape)}",
            "give one weight per class, as for torch.nn.CrossEntropyLoss",
        )
    return class_weight


class BatchLoss(WideStates):
    """What the classes of losses share: the mark of rows that do not count, and class weights (always float32)."""

    #: The function of the same loss, which errors name.
    caller: str
    #: Options that its line in a printed network shows.
    shown: ClassVar[tuple[str, ...]] = ()

    def __init__(self, ignore_index: int, class_weight: Tensor | None) -> None:
        super().__init__()
        self.ignore_index = int(ignore_index)
        if class_weight is not None:
            self.add_wide("class_weight", torch.as_tensor(class_weight, dtype=torch.float32), persistent=False)

    @property
    def class_weight(self) -> Tensor | None:
        """Weight of each class, or None."""
        return self._wide.get("class_weight")

    def rows(self, logits: Tensor, target: Tensor, sample_weight: Tensor | None = None) -> LossBatch:
        """Check one batch."""
        return check_batch(logits, target, self.caller, self.ignore_index, self.class_weight, sample_weight)

    def of(self, batch: LossBatch) -> Tensor:
        """Return the loss of a batch that was checked."""
        raise NotImplementedError

    def forward(self, logits: Tensor, target: Tensor, sample_weight: Tensor | None = None) -> Tensor:
        """Return the loss of one batch."""
        return self.of(self.rows(logits, target, sample_weight))

    def extra_repr(self) -> str:
        """Show the parameters."""
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in self.shown)

    def shares(self, other: BatchLoss) -> bool:
        """Whether one check of a batch serves both losses: the same rows count, and no one listens in between."""
        return (
            self.ignore_index == other.ignore_index
            and self.class_weight is other.class_weight
            and type(self).forward is type(other).forward is BatchLoss.forward
            and not (self._forward_hooks or self._forward_pre_hooks)
            and not (other._forward_hooks or other._forward_pre_hooks)
        )


def widen(values: Tensor) -> Tensor:
    """Return float16 and bfloat16 as float32; float32 and float64 as they are."""
    return values if values.dtype in (torch.float32, torch.float64) else values.float()


def double(values: Tensor) -> Tensor:
    """Return float64 where the device has it, float32 where it does not (Apple's)."""
    return values.float() if values.device.type == "mps" else values.double()


def check_word(word: str, words: Sequence[str], argument: str, caller: str, hint: str = "choose one of them") -> Any:
    """Return a word if it is one of some."""
    if word not in words:
        *first, last = map(repr, words)
        raise input_error(argument, caller, f"be {', '.join(first)} or {last}", repr(word), hint)
    return word


def check_reduction(reduction: str, caller: str) -> Reduction:
    """Return the reduction if it is one of torch's three words."""
    found: Reduction = check_word(reduction, ("mean", "sum", "none"), "reduction", caller)
    return found


def check_positive(value: float, argument: str, caller: str) -> float:
    """Return a finite number above 0."""
    if not (math.isfinite(value) and value > 0):
        raise input_error(argument, caller, "be finite and above 0", repr(value), "use the default")
    return float(value)


def check_rate(p: float, caller: str) -> float:
    """Return a dropout rate in [0, 1)."""
    if not 0 <= p < 1:
        raise input_error("p", caller, "lie in [0, 1)", repr(p), "the papers use 0.2")
    return float(p)


def smooth_root(square: Tensor, epsilon: float) -> Tensor:
    """Return x/√(x + ε): 0 with a finite slope at 0, and √x up to ε/(2√x) elsewhere."""
    square = square.clamp_min(0)
    return square / (square + epsilon).sqrt()


def plogp(log_proba: Tensor) -> Tensor:
    """Return p·log p of each class; 0 with slope 0 where p underflows or its logit is −inf."""
    return log_proba.exp() * log_proba.clamp_min(torch.finfo(log_proba.dtype).min)


def normalized_entropy(log_proba: Tensor) -> Tensor:
    """Return −Σ p log p / log K of each row; p·log p of an underflowed p is 0, and so is its gradient."""
    return plogp(log_proba).sum(dim=-1) * (-1 / math.log(log_proba.shape[-1]))  # UCE paper, eq. (7), (11)


def width_bin(score: Tensor, n_bins: int) -> Tensor:
    """Return the equal-width bin of each score: (lo, hi], the first closed (NaN too); the library's one rule."""
    wide = double(score.detach())
    return (((wide - 2.0**-24) * n_bins).ceil() - 1).clamp(0, n_bins - 1).nan_to_num(0.0).long()
