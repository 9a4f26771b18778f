"""Soft-binned expected calibration error as a penalty on a batch."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from calibrant.core.inputs import check_n_bins
from calibrant.errors import input_error
from calibrant.torch.batch import (
    IGNORE,
    BatchLoss,
    LossBatch,
    check_batch,
    check_positive,
    document,
    double,
    smooth_root,
)


@document
def soft_ece_loss(
    logits: Tensor,
    target: Tensor,
    *,
    n_bins: int = 15,
    temperature: float = 0.01,
    norm: Literal[1, 2] = 2,
    ignore_index: int = IGNORE,
    class_weight: Tensor | None = None,
    sample_weight: Tensor | None = None,
) -> Tensor:
    """Calibration error over bins to which each row belongs a little.

    Confidence calibration; smaller is better; 0 is perfect.

    Parameters
    ----------
    n_bins : int, default=15
        Equal-width bins with centers (j + ½)/n_bins.
    temperature : float, default=0.01
        Softness of the membership; towards 0 it becomes the ordinary binned error.
    norm : {1, 2}, default=2
        Power of the gaps; the authors train with 2.

    Returns
    -------
    Tensor
        A scalar.

    Notes
    -----
    u_j(c) = softmax_j(−(c − ξ_j)²/T); SB-ECE = (Σ_j S_j/B · |A_j − C_j|^p)^{1/p} with S_j = Σ_i u_j(c_i) and A_j,
    C_j the u-weighted means of correctness and confidence. The root is x/√(x + 10⁻¹²). O(batch·(K + bins)).

    References
    ----------
    .. [1] Karandikar et al. (2021), "Soft Calibration Objectives for Neural Networks", NeurIPS, section 5.1.

    Examples
    --------
    >>> import torch
    >>> logits = torch.tensor([[0.9, 0.1]], dtype=torch.float64).log().repeat(4, 1)
    >>> soft_ece_loss(logits, torch.tensor([0, 0, 1, 1])).item()  # 0.9 sure, right half of the time
    0.4
    """
    check_n_bins(n_bins, "soft_ece_loss")
    check_positive(temperature, "temperature", "soft_ece_loss")
    _check_norm(norm, "soft_ece_loss")
    batch = check_batch(logits, target, "soft_ece_loss", ignore_index, class_weight, sample_weight)
    return _soft_ece(batch, n_bins, temperature, norm)


def _soft_ece(batch: LossBatch, n_bins: int, temperature: float, norm: Literal[1, 2]) -> Tensor:
    log_proba, top = batch.log_proba().max(dim=1)
    confidence = double(log_proba).exp()
    gap = confidence - batch.chance(top).to(confidence.dtype)
    center = (torch.arange(n_bins, dtype=gap.dtype, device=gap.device) + 0.5) / n_bins
    member = torch.softmax((confidence[:, None] - center).square() / -temperature, dim=1)  # section 5.1
    total: Tensor | int = len(member)
    if batch.weight is not None:
        weight = batch.weight.to(gap.dtype)
        total, member = weight.sum().clamp_min(torch.finfo(gap.dtype).tiny ** 0.5), member * weight[:, None]
    sums = (gap[:, None] * member).sum(dim=0)  # no matrix product: autocast would shorten it where there is no float64
    if norm == 1:
        return (sums.abs().sum() / total).to(batch.logits.dtype)
    size = member.sum(dim=0).clamp_min(torch.finfo(gap.dtype).tiny ** 0.5)  # a bin nobody is near counts 0
    return smooth_root((sums.square() / size).sum() / total, 1e-12).to(batch.logits.dtype)


def _check_norm(norm: int, caller: str) -> None:
    if norm not in (1, 2):
        raise input_error("norm", caller, "be 1 or 2", repr(norm), "2 is what the authors train with")


class SoftECELoss(BatchLoss):
    """Soft-binned expected calibration error as a penalty; see `soft_ece_loss`.

    Examples
    --------
    >>> import torch
    >>> SoftECELoss(norm=1)(torch.tensor([[0.9, 0.1]]).log(), torch.tensor([1])).item()
    0.9
    """

    #: λ: the authors tune it per task; 1 is the middle of their range.
    default_weight = 1.0
    caller = "soft_ece_loss"
    shown = ("n_bins", "temperature", "norm")

    def __init__(
        self,
        n_bins: int = 15,
        temperature: float = 0.01,
        norm: Literal[1, 2] = 2,
        *,
        ignore_index: int = IGNORE,
        class_weight: Tensor | None = None,
    ) -> None:
        super().__init__(ignore_index, class_weight)
        _check_norm(norm, "SoftECELoss")
        self.n_bins = check_n_bins(n_bins, "SoftECELoss")
        self.temperature = check_positive(temperature, "temperature", "SoftECELoss")
        self.norm: Literal[1, 2] = norm

    def of(self, batch: LossBatch) -> Tensor:
        """Return the loss of a batch that was checked."""
        return _soft_ece(batch, self.n_bins, self.temperature, self.norm)
