"""Focal loss."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from calibrant.errors import input_error
from calibrant.torch.batch import Reduction, check_batch, check_reduction, reduce_rows


def focal_loss(logits: Tensor, target: Tensor, *, gamma: float = 2.0, reduction: Reduction = "mean") -> Tensor:
    """Cross-entropy that counts rows the model is already sure of less.

    Parameters
    ----------
    logits : Tensor of shape (batch, K)
        Raw scores, any float type.
    target : Tensor of shape (batch,)
        Class indices.
    gamma : float, default=2.0
        Strength; 0 is cross-entropy.
    reduction : {"mean", "sum", "none"}, default="mean"
        What to do with the rows.

    Returns
    -------
    Tensor
        A scalar, or one value per row.

    Notes
    -----
    −(1 − p_y)^γ log p_y. It is no proper score: its optimum is less confident than the truth, which is why it
    calibrates networks that would be over-confident (and spoils those that would not).

    References
    ----------
    .. [1] Lin et al. (2017), "Focal Loss for Dense Object Detection", ICCV, eq. (4).
    .. [2] Mukhoti et al. (2020), "Calibrating Deep Neural Networks using Focal Loss", NeurIPS.

    Examples
    --------
    >>> import torch
    >>> focal_loss(torch.zeros(1, 2), torch.tensor([0])).item()  # 0.25 · log 2
    0.173287
    """
    log_proba = torch.log_softmax(check_batch(logits, target, "focal_loss"), dim=1)
    log_true = log_proba.gather(1, target.long()[:, None])[:, 0]
    doubt = (-torch.expm1(log_true)).clamp_min(torch.finfo(log_true.dtype).tiny)  # flat below, so no 0·inf slope
    return reduce_rows(-(doubt**gamma) * log_true, reduction)  # [1] eq. (4)


class FocalLoss(nn.Module):  # type: ignore[misc]  # torch is untyped here
    """Focal loss; see `focal_loss`.

    Examples
    --------
    >>> import torch
    >>> FocalLoss(gamma=0)(torch.zeros(1, 2), torch.tensor([0])).item()  # cross-entropy
    0.693147
    """

    def __init__(self, gamma: float = 2.0, reduction: Reduction = "mean") -> None:
        super().__init__()
        if not (math.isfinite(gamma) and gamma >= 0):
            raise input_error("gamma", "FocalLoss", "be finite and at least 0", repr(gamma), "2 is the usual choice")
        self.gamma = float(gamma)
        self.reduction = check_reduction(reduction, "FocalLoss")

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return the loss of one batch."""
        return focal_loss(logits, target, gamma=self.gamma, reduction=self.reduction)

    def extra_repr(self) -> str:
        """Show the parameters."""
        return f"gamma={self.gamma}"
