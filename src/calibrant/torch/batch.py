"""What every loss shares: the check of a batch, its precision, the reduction and a root that is smooth at 0."""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from calibrant.errors import input_error

Reduction: TypeAlias = Literal["mean", "sum", "none"]


def check_batch(logits: Tensor, target: Tensor, caller: str) -> Tensor:
    """Check shapes and labels and return the logits in float32 or better."""
    if logits.ndim != 2 or logits.shape[1] < 2:
        raise input_error(
            "logits", caller, "have shape (batch, K) with K of at least 2", f"shape {tuple(logits.shape)}",
            "flatten leading axes with logits.flatten(0, -2); give a binary model two columns",
        )
    if not logits.is_floating_point():
        raise input_error("logits", caller, "be floating point", f"dtype {logits.dtype}", "pass the model's raw output")
    if logits.shape[0] == 0:
        raise input_error("logits", caller, "hold at least one row", "an empty batch", "skip empty batches")
    check_target(target, logits.shape[0], logits.shape[1], caller)
    return widen(logits)


def check_target(target: Tensor, n: int, n_classes: int, caller: str) -> None:
    """Check that targets are `n` class indices; their range only where looking is free (not on a device)."""
    if target.shape != (n,) or target.is_floating_point() or target.dtype == torch.bool:
        raise input_error(
            "target", caller, f"hold {n} integer class indices", f"shape {tuple(target.shape)}, dtype {target.dtype}",
            "turn one-hot rows into indices with target.argmax(dim=1)",
        )
    if target.device.type == "cpu" and not torch.compiler.is_compiling():
        low, high = int(target.min()), int(target.max())
        if low < 0 or high >= n_classes:
            row = int(((target < 0) | (target >= n_classes)).nonzero()[0])
            raise input_error(
                "target", caller, f"hold class indices 0 … {n_classes - 1}", f"{int(target[row])} at row {row}",
                "drop padded or unlabelled rows first: keep = target >= 0",
            )


def widen(values: Tensor) -> Tensor:
    """Return float16 and bfloat16 as float32; float32 and float64 as they are."""
    return values if values.dtype in (torch.float32, torch.float64) else values.float()


def double(values: Tensor) -> Tensor:
    """Return float64 where the device has it, float32 where it does not (Apple's)."""
    return values.float() if values.device.type == "mps" else values.double()


def reduce_rows(rows: Tensor, reduction: Reduction) -> Tensor:
    """Turn one value per row into the asked form."""
    if reduction == "mean":
        return rows.mean()
    return rows.sum() if reduction == "sum" else rows


def check_reduction(reduction: str, caller: str) -> Reduction:
    """Return the reduction if it is one of torch's three words."""
    if reduction not in ("mean", "sum", "none"):
        raise input_error("reduction", caller, "be 'mean', 'sum' or 'none'", repr(reduction), "choose one of them")
    return reduction  # type: ignore[return-value]  # narrowed above


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


def check_bins(n_bins: int, caller: str) -> int:
    """Return a whole number of bins of at least 1."""
    if isinstance(n_bins, bool) or int(n_bins) != n_bins or n_bins < 1:
        raise input_error("n_bins", caller, "be a whole number of at least 1", repr(n_bins), "15 is the usual choice")
    return int(n_bins)


def smooth_root(square: Tensor, epsilon: float) -> Tensor:
    """Return x/√(x + ε): 0 with a finite slope at 0, and √x up to ε/(2√x) elsewhere."""
    square = square.clamp_min(0)
    return square / (square + epsilon).sqrt()


def normalised_entropy(log_proba: Tensor) -> Tensor:
    """Return −Σ p log p / log K of each row; p·log p of an underflowed p is 0, and so is its gradient."""
    entropy = -(log_proba.exp() * log_proba).sum(dim=-1)  # UCE paper, eq. (7)
    return entropy / math.log(log_proba.shape[-1])  # UCE paper, eq. (11)


def width_bin(score: Tensor, n_bins: int) -> Tensor:
    """Return the equal-width bin of each score: (lo, hi], the first closed; the library's one rule."""
    wide = double(score.detach())
    return (((wide - 2.0**-24) * n_bins).ceil() - 1).clamp(0, n_bins - 1).long()
