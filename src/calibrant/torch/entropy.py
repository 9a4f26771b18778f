"""The confidence penalty: minus the entropy of each forecast."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from calibrant.torch.batch import Reduction, check_batch, check_reduction, reduce_rows


def entropy_penalty(logits: Tensor, target: Tensor, *, reduction: Reduction = "mean") -> Tensor:
    """Minus the entropy of each forecast, in nats: adding it to a loss rewards uncertain forecasts.

    Parameters
    ----------
    logits : Tensor of shape (batch, K)
        Raw scores, any float type.
    target : Tensor of shape (batch,)
        Class indices; only checked, so that every penalty is called alike.
    reduction : {"mean", "sum", "none"}, default="mean"
        What to do with the rows.

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
    log_proba = torch.log_softmax(check_batch(logits, target, "entropy_penalty"), dim=1)
    return reduce_rows((log_proba.exp() * log_proba).sum(dim=1), reduction)  # [1]: −H(p)


class EntropyPenalty(nn.Module):  # type: ignore[misc]  # torch is untyped here
    """Minus the entropy of the forecasts (confidence penalty); see `entropy_penalty`.

    Examples
    --------
    >>> import torch
    >>> EntropyPenalty(reduction="none")(torch.zeros(1, 2), torch.tensor([0]))
    tensor([-0.6931])
    """

    #: λ of the UCE paper.
    default_weight = 0.1

    def __init__(self, reduction: Reduction = "mean") -> None:
        super().__init__()
        self.reduction = check_reduction(reduction, "EntropyPenalty")

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return the penalty of one batch."""
        return entropy_penalty(logits, target, reduction=self.reduction)
