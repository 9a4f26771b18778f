"""A loss plus a weighted penalty."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from calibrant.errors import input_error


class RegularisedLoss(nn.Module):  # type: ignore[misc]  # torch is untyped here
    """A training loss plus λ times a calibration penalty, both of (logits, target).

    Parameters
    ----------
    base : callable, optional
        The loss to be regularised; cross-entropy by default.
    penalty : callable
        For example `UCELoss()`, `MMCELoss()` or `EntropyPenalty()`.
    weight : float, optional
        λ. By default the penalty's own `default_weight` (10 for UCE and for MMCE as its authors' program computes it,
        0.1 for the entropy: the UCE paper's; 0.5 for MMCE by its formula).

    Notes
    -----
    NLL(D, w) + λ · penalty(D, w), eq. (5) and (18) of [1].

    References
    ----------
    .. [1] "Uncertainty Calibration Error: A New Metric for Multi-Class Classification" (2020).

    Examples
    --------
    >>> import torch
    >>> from calibrant.torch import EntropyPenalty, FocalLoss
    >>> loss = RegularisedLoss(FocalLoss(gamma=0), EntropyPenalty(), weight=0.5)
    >>> loss(torch.zeros(1, 2), torch.tensor([0])).item()  # log 2 − 0.5 · log 2
    0.346574
    """

    def __init__(
        self, base: Callable[[Any, Any], Any] | None = None, penalty: Callable[[Any, Any], Any] | None = None,
        weight: float | None = None,
    ) -> None:
        super().__init__()
        if penalty is None:
            raise input_error(
                "penalty", "RegularisedLoss", "be a callable of (logits, target)", "None", "pass UCELoss()"
            )
        if weight is None:
            weight = getattr(penalty, "default_weight", None)
        if weight is None or not math.isfinite(weight):
            raise input_error(
                "weight", "RegularisedLoss", "be a finite number for a penalty without a default one", repr(weight),
                "start with a weight that makes both terms about as large",
            )
        self.base = nn.CrossEntropyLoss() if base is None else base
        self.penalty = penalty
        self.weight = float(weight)

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return the loss of one batch."""
        return self.base(logits, target) + self.weight * self.penalty(logits, target)  # [1] eq. (5), (18)

    def extra_repr(self) -> str:
        """Show the weight."""
        return f"weight={self.weight}"
