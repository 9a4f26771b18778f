"""A loss plus a weighted penalty."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from calibrant.core.options import check_count
from calibrant.errors import input_error
from calibrant.torch.batch import BatchLoss
from calibrant.torch.smoothing import LabelSmoothing


class RegularizedLoss(nn.Module):  # type: ignore[misc]  # torch is untyped here
    """A training loss plus λ times a calibration penalty, both of (logits, target).

    Parameters
    ----------
    base : callable, optional
        The loss to be regularized; cross-entropy in float32 by default, with the penalty's mask and class weights.
    penalty : callable
        For example `UCELoss()`, `MMCELoss()` or `EntropyPenalty()`.
    weight : float, optional
        λ. By default the penalty's own `default_weight` (10 for UCE and for MMCE as its authors' program computes it,
        0.1 for the entropy: the UCE paper's; 0.5 for MMCE by its formula).
    warmup : int, default=0
        Number of training batches over which λ rises from 0 to `weight`: a network that knows nothing yet has no
        calibration to speak of. Batches are counted in training mode, with gradients on; the count is in `state_dict`.

    Notes
    -----
    NLL(D, w) + λ · penalty(D, w), eq. (5) and (18) of [1]. `parts` gives both terms of the last batch, to be logged.

    References
    ----------
    .. [1] "Uncertainty Calibration Error: A New Metric for Multi-Class Classification" (2020).

    Examples
    --------
    >>> import torch
    >>> from calibrant.torch import EntropyPenalty, FocalLoss
    >>> loss = RegularizedLoss(FocalLoss(gamma=0), EntropyPenalty(), weight=0.5)
    >>> loss(torch.zeros(1, 2), torch.tensor([0])).item()  # log 2 − 0.5 · log 2
    0.346574
    >>> {name: round(float(value), 6) for name, value in loss.parts().items()}
    {'loss': 0.346574, 'base': 0.693147, 'penalty': -0.693147, 'weight': 0.5}
    """

    steps: Tensor

    def __init__(
        self,
        base: Callable[..., Any] | None = None,
        penalty: Callable[..., Any] | None = None,
        weight: float | None = None,
        *,
        warmup: int = 0,
    ) -> None:
        super().__init__()
        if penalty is None:
            raise input_error(
                "penalty", "RegularizedLoss", "be a callable of (logits, target)", "None", "pass UCELoss()"
            )
        if weight is None:
            weight = getattr(penalty, "default_weight", None)
        if weight is None or not math.isfinite(weight):
            raise input_error(
                "weight",
                "RegularizedLoss",
                "be a finite number for a penalty without a default one",
                repr(weight),
                "start with a weight that makes both terms about as large",
            )
        check_count(warmup, "warmup", "RegularizedLoss", 0, "a number of batches")
        shared = {name: getattr(penalty, name) for name in ("ignore_index", "class_weight") if hasattr(penalty, name)}
        self.base = LabelSmoothing(0.0, **shared) if base is None else base
        self.penalty = penalty
        self.weight = float(weight)
        self.warmup = int(warmup)
        if self.warmup:
            self.register_buffer("steps", torch.zeros((), dtype=torch.long))
        self._parts: dict[str, Tensor | float] = {}

    def forward(self, logits: Tensor, target: Tensor, sample_weight: Tensor | None = None) -> Tensor:
        """Return the loss of one batch."""
        first, second = self.base, self.penalty
        if isinstance(first, BatchLoss) and isinstance(second, BatchLoss) and first.shares(second):
            batch = first.rows(logits, target, sample_weight)
            base, penalty = first.of(batch), second.of(batch)
        else:
            more = () if sample_weight is None else (sample_weight,)
            base, penalty = first(logits, target, *more), second(logits, target, *more)
        weight = self._next_weight()
        loss = base + weight * penalty  # [1] eq. (5), (18)
        self._parts = {
            "loss": loss.detach(),
            "base": base.detach(),
            "penalty": penalty.detach(),
            "weight": weight.detach() if isinstance(weight, Tensor) else weight,
        }
        return loss

    def _next_weight(self) -> Tensor | float:
        """Return λ of this batch, and count it."""
        if not self.warmup:
            return self.weight
        weight = self.weight * (self.steps / self.warmup).clamp_max(1.0)
        if self.training and torch.is_grad_enabled():
            self.steps = self.steps + 1  # a new tensor: compiled slopes may read the old one later
        return weight

    def parts(self) -> dict[str, Tensor | float]:
        """Return loss, base, penalty and λ of the last batch, without gradients: ``self.log_dict(loss.parts())``."""
        if not self._parts:
            raise input_error("parts", "RegularizedLoss", "follow a batch", "no batch yet", "call the loss first")
        return dict(self._parts)

    def extra_repr(self) -> str:
        """Show the weight."""
        return f"weight={self.weight}" + (f", warmup={self.warmup}" if self.warmup else "")
