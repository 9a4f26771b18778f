"""The confidence penalty: minus the entropy of each forecast."""

from __future__ import annotations

from torch import Tensor

from calibrant.torch.batch import IGNORE, BatchLoss, LossBatch, Reduction, check_batch, check_reduction, document, plogp


@document
def entropy_penalty(
    logits: Tensor,
    target: Tensor,
    *,
    reduction: Reduction = "mean",
    ignore_index: int = IGNORE,
    class_weight: Tensor | None = None,
    sample_weight: Tensor | None = None,
) -> Tensor:
    """Minus the entropy of each forecast, in nats: adding it to a loss rewards uncertain forecasts.

    Parameters
    ----------
    target : Tensor of shape (batch,) or (batch, …)
        Class indices or soft labels: only for mask and class weights, so that every penalty is called alike.

    Returns
    -------
    Tensor
        A scalar, or one value per row; in [−log K, 0].

    Notes
    -----
    −H(p) = Σ_k p_k log p_k. The UCE paper prints NLL + λ·H, which would *reward* certainty; its source [1],
    its results and its older program mean NLL − λ·H, and this is what is computed here.

    References
    ----------
    .. [1] Pereyra et al. (2017), "Regularizing Neural Networks by Penalizing Confident Output
       Distributions", ICLR workshop.

    Examples
    --------
    >>> import torch
    >>> entropy_penalty(torch.zeros(2, 4), torch.tensor([0, 1])).item()  # −log 4
    -1.386294
    """
    check_reduction(reduction, "entropy_penalty")
    batch = check_batch(logits, target, "entropy_penalty", ignore_index, class_weight, sample_weight)
    return _entropy(batch, reduction)


def _entropy(batch: LossBatch, reduction: Reduction) -> Tensor:
    return batch.reduce(plogp(batch.log_proba()).sum(dim=1), reduction)  # Pereyra et al.: −H(p)


class EntropyPenalty(BatchLoss):
    """Minus the entropy of the forecasts (confidence penalty); see `entropy_penalty`.

    Examples
    --------
    >>> import torch
    >>> EntropyPenalty(reduction="none")(torch.zeros(1, 2), torch.tensor([0]))
    tensor([-0.6931])
    """

    #: λ of the UCE paper.
    default_weight = 0.1
    caller = "entropy_penalty"

    def __init__(
        self, reduction: Reduction = "mean", *, ignore_index: int = IGNORE, class_weight: Tensor | None = None
    ) -> None:
        super().__init__(ignore_index, class_weight)
        self.reduction = check_reduction(reduction, "EntropyPenalty")

    def of(self, batch: LossBatch) -> Tensor:
        """Return the loss of a batch that was checked."""
        return _entropy(batch, self.reduction)
