"""Focal loss."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from calibrant.errors import input_error
from calibrant.torch.batch import IGNORE, BatchLoss, LossBatch, Reduction, check_batch, check_reduction, document


@document
def focal_loss(
    logits: Tensor,
    target: Tensor,
    *,
    gamma: float = 2.0,
    reduction: Reduction = "mean",
    ignore_index: int = IGNORE,
    class_weight: Tensor | None = None,
    sample_weight: Tensor | None = None,
) -> Tensor:
    """Cross-entropy that counts rows the model is already sure of less.

    Parameters
    ----------
    gamma : float, default=2.0
        Strength; 0 is cross-entropy.

    Notes
    -----
    −(1 − p_y)^γ log p_y; of soft labels t the sum over classes with weights t_k. It is no proper score: its optimum
    is less confident than the truth, which is why it calibrates networks that would be overconfident (and spoils
    those that would not).

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
    _check_gamma(gamma, "focal_loss")
    check_reduction(reduction, "focal_loss")
    batch = check_batch(logits, target, "focal_loss", ignore_index, class_weight, sample_weight)
    return _focal_mean(batch, gamma, reduction)


def _focal_mean(batch: LossBatch, gamma: float, reduction: Reduction) -> Tensor:
    log_proba = batch.log_proba()
    if batch.target is not None:
        return batch.reduce(_focal(log_proba.gather(1, batch.target[:, None])[:, 0], gamma), reduction)
    share = batch.truth if batch.class_weight is None else batch.truth * batch.class_weight
    terms = torch.where(share > 0, _focal(log_proba, gamma), 0.0)  # a masked class with no share is 0, not 0·inf
    return batch.reduce((share * terms).sum(dim=1), reduction, classes_inside=True)


def _focal(log_proba: Tensor, gamma: float) -> Tensor:
    doubt = (-torch.expm1(log_proba)).clamp_min(torch.finfo(log_proba.dtype).tiny)  # flat below, so no 0·inf slope
    return -(doubt**gamma) * log_proba  # Lin et al., eq. (4)


def _check_gamma(gamma: float, caller: str) -> float:
    if not (math.isfinite(gamma) and gamma >= 0):
        raise input_error("gamma", caller, "be finite and at least 0", repr(gamma), "2 is the usual choice")
    return float(gamma)


class FocalLoss(BatchLoss):
    """Focal loss; see `focal_loss`.

    Examples
    --------
    >>> import torch
    >>> FocalLoss(gamma=0)(torch.zeros(1, 2), torch.tensor([0])).item()  # cross-entropy
    0.693147
    """

    caller = "focal_loss"
    shown = ("gamma",)

    def __init__(
        self,
        gamma: float = 2.0,
        reduction: Reduction = "mean",
        *,
        ignore_index: int = IGNORE,
        class_weight: Tensor | None = None,
    ) -> None:
        super().__init__(ignore_index, class_weight)
        self.gamma = _check_gamma(gamma, "FocalLoss")
        self.reduction = check_reduction(reduction, "FocalLoss")

    def of(self, batch: LossBatch) -> Tensor:
        """Return the loss of a batch that was checked."""
        return _focal_mean(batch, self.gamma, self.reduction)
