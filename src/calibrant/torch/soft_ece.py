"""Soft-binned expected calibration error as a penalty on a batch."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from calibrant.errors import input_error
from calibrant.torch.batch import check_batch, check_bins, check_positive, double, smooth_root


def soft_ece_loss(
    logits: Tensor, target: Tensor, *, n_bins: int = 15, temperature: float = 0.01, norm: Literal[1, 2] = 2
) -> Tensor:
    """Calibration error over bins to which each row belongs a little.

    Confidence calibration; smaller is better; 0 is perfect.

    Parameters
    ----------
    logits : Tensor of shape (batch, K)
        Raw scores, any float type.
    target : Tensor of shape (batch,)
        Class indices.
    n_bins : int, default=15
        Equal-width bins with centres (j + ½)/n_bins.
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
    logits = check_batch(logits, target, "soft_ece_loss")
    log_proba, top = torch.log_softmax(logits, dim=1).max(dim=1)
    confidence = double(log_proba).exp()
    gap = confidence - (top == target).to(confidence.dtype)
    centre = (torch.arange(n_bins, dtype=gap.dtype, device=gap.device) + 0.5) / n_bins
    member = torch.softmax((confidence[:, None] - centre).square() / -temperature, dim=1)  # [1] section 5.1
    sums = gap @ member
    if norm == 1:
        return (sums.abs().sum() / len(gap)).to(logits.dtype)
    size = member.sum(dim=0).clamp_min(torch.finfo(gap.dtype).tiny ** 0.5)  # a bin nobody is near counts 0
    return smooth_root((sums.square() / size).sum() / len(gap), 1e-12).to(logits.dtype)


class SoftECELoss(nn.Module):  # type: ignore[misc]  # torch is untyped here
    """Soft-binned expected calibration error as a penalty; see `soft_ece_loss`.

    Examples
    --------
    >>> import torch
    >>> SoftECELoss(norm=1)(torch.tensor([[0.9, 0.1]]).log(), torch.tensor([1])).item()
    0.9
    """

    #: λ: the authors tune it per task; 1 is the middle of their range.
    default_weight = 1.0

    def __init__(self, n_bins: int = 15, temperature: float = 0.01, norm: Literal[1, 2] = 2) -> None:
        super().__init__()
        if norm not in (1, 2):
            raise input_error("norm", "SoftECELoss", "be 1 or 2", repr(norm), "2 is what the authors train with")
        self.n_bins = check_bins(n_bins, "SoftECELoss")
        self.temperature = check_positive(temperature, "temperature", "SoftECELoss")
        self.norm: Literal[1, 2] = norm

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return the penalty of one batch."""
        return soft_ece_loss(logits, target, n_bins=self.n_bins, temperature=self.temperature, norm=self.norm)

    def extra_repr(self) -> str:
        """Show the parameters."""
        return f"n_bins={self.n_bins}, temperature={self.temperature}, norm={self.norm}"
