"""The Brier score as a loss."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from calibrant.torch.batch import Reduction, check_batch, check_reduction, reduce_rows


def brier_loss(logits: Tensor, target: Tensor, *, reduction: Reduction = "mean") -> Tensor:
    """Squared distance of the forecast from the one-hot truth, summed over classes.

    A proper score: smaller is better; range [0, 2].

    Parameters
    ----------
    logits : Tensor of shape (batch, K)
        Raw scores, any float type.
    target : Tensor of shape (batch,)
        Class indices.
    reduction : {"mean", "sum", "none"}, default="mean"
        What to do with the rows.

    Returns
    -------
    Tensor
        A scalar, or one value per row.

    Notes
    -----
    Σ_k (1(y = k) − p_k)² = 1 − 2 p_y + Σ_k p_k², computed as (1 − p_y)² plus the other squares, which does not
    cancel. Its slope vanishes on confidently wrong rows, so a saturated network learns slowly from it.

    References
    ----------
    .. [1] Brier (1950), "Verification of Forecasts Expressed in Terms of Probability", Monthly Weather Review.

    Examples
    --------
    >>> import torch
    >>> brier_loss(torch.zeros(1, 2), torch.tensor([0])).item()
    0.5
    """
    logits = check_batch(logits, target, "brier_loss")
    truth = torch.nn.functional.one_hot(target.long(), logits.shape[1]).to(logits.dtype)
    return reduce_rows((torch.softmax(logits, dim=1) - truth).square().sum(dim=1), reduction)  # [1]


class BrierLoss(nn.Module):  # type: ignore[misc]  # torch is untyped here
    """The Brier score as a loss; see `brier_loss`.

    Examples
    --------
    >>> import torch
    >>> BrierLoss(reduction="sum")(torch.zeros(3, 2), torch.tensor([0, 1, 0])).item()
    1.5
    """

    def __init__(self, reduction: Reduction = "mean") -> None:
        super().__init__()
        self.reduction = check_reduction(reduction, "BrierLoss")

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return the loss of one batch."""
        return brier_loss(logits, target, reduction=self.reduction)
