"""The Brier score as a loss."""

from __future__ import annotations

import torch
from torch import Tensor

from calibrant.torch.batch import IGNORE, BatchLoss, LossBatch, Reduction, check_batch, check_reduction, document


@document
def brier_loss(
    logits: Tensor,
    target: Tensor,
    *,
    reduction: Reduction = "mean",
    ignore_index: int = IGNORE,
    class_weight: Tensor | None = None,
    sample_weight: Tensor | None = None,
) -> Tensor:
    """Squared distance of the forecast from the one-hot truth, summed over classes.

    A proper score: smaller is better; range [0, 2].

    Notes
    -----
    Σ_k (1(y = k) − p_k)² = 1 − 2 p_y + Σ_k p_k², computed as (1 − p_y)² plus the other squares, which does not
    cancel; of soft labels t it is Σ_k (t_k − p_k)². Its slope vanishes on confidently wrong rows, so a saturated
    network learns slowly from it.

    References
    ----------
    .. [1] Brier (1950), "Verification of Forecasts Expressed in Terms of Probability", Monthly Weather Review.

    Examples
    --------
    >>> import torch
    >>> brier_loss(torch.zeros(1, 2), torch.tensor([0])).item()
    0.5
    """
    check_reduction(reduction, "brier_loss")
    batch = check_batch(logits, target, "brier_loss", ignore_index, class_weight, sample_weight)
    return _brier(batch, reduction)


def _brier(batch: LossBatch, reduction: Reduction) -> Tensor:
    truth, target = batch.truth, batch.target
    if target is not None:
        classes = torch.arange(batch.logits.shape[1], device=batch.logits.device)
        truth = (target[:, None] == classes).to(batch.logits.dtype)  # torch.func.vmap has no one_hot
    return batch.reduce((torch.softmax(batch.logits, dim=1) - truth).square().sum(dim=1), reduction)  # Brier (1950)


class BrierLoss(BatchLoss):
    """The Brier score as a loss; see `brier_loss`.

    Examples
    --------
    >>> import torch
    >>> BrierLoss(reduction="sum")(torch.zeros(3, 2), torch.tensor([0, 1, 0])).item()
    1.5
    """

    caller = "brier_loss"

    def __init__(
        self, reduction: Reduction = "mean", *, ignore_index: int = IGNORE, class_weight: Tensor | None = None
    ) -> None:
        super().__init__(ignore_index, class_weight)
        self.reduction = check_reduction(reduction, "BrierLoss")

    def of(self, batch: LossBatch) -> Tensor:
        """Return the loss of a batch that was checked."""
        return _brier(batch, self.reduction)
