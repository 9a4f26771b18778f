"""Uncertainty calibration error as a penalty on a batch."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from calibrant.torch.batch import check_batch, check_bins, normalised_entropy, width_bin


def uce_loss(logits: Tensor, target: Tensor, *, n_bins: int = 15, per_class: bool = True) -> Tensor:
    """Gap between normalised entropy and error rate over entropy bins, differentiable in the entropies.

    Uncertainty calibration; smaller is better. A perfectly calibrated model does not score 0: the
    normalised entropy equals the error only in the limit of many classes.

    Parameters
    ----------
    logits : Tensor of shape (batch, K)
        Raw scores, any float type; computed in float32 or better.
    target : Tensor of shape (batch,)
        Class indices.
    n_bins : int, default=15
        Equal-width bins (lo, hi] on [0, 1], the first closed, so an entropy of exactly 0 is counted.
    per_class : bool, default=True
        Mean over the predicted classes of each class's own error (section 7.3: works best in training).

    Returns
    -------
    Tensor
        A scalar.

    Notes
    -----
    UCE = Σ_m |B_m|/n · |err(B_m) − uncert(B_m)|. Only the mean entropy of a bin carries gradient; bin
    membership and error rate are constants, so a bin's entropies are pulled up or down together. A
    class nobody predicts does not count. Cost O(batch·K).

    References
    ----------
    .. [1] "Uncertainty Calibration Error: A New Metric for Multi-Class Classification" (2020),
       eq. (11), (15)-(18) and section 7.3.

    Examples
    --------
    Ten rows of p = (0.6, 0.4), six of them right: entropy 0.970951 against an error of 0.4.

    >>> import torch
    >>> logits = torch.tensor([[0.6, 0.4]], dtype=torch.float64).log().repeat(10, 1)
    >>> uce_loss(logits, torch.tensor([0] * 6 + [1] * 4)).item()
    0.570951
    """
    logits = check_batch(logits, target, "uce_loss")
    entropy = normalised_entropy(torch.log_softmax(logits, dim=1)).clamp(0, 1)
    top = logits.detach().max(dim=1).indices  # the first of equals, as in the library
    gap = entropy - (top != target).to(entropy.dtype)  # [1] eq. (16), (17)
    cell = width_bin(entropy, n_bins)
    n_groups = logits.shape[1] if per_class else 1
    group = top if per_class else torch.zeros_like(top)
    sums = gap.new_zeros(n_groups * n_bins).index_add(0, group * n_bins + cell, gap)
    errors = sums.view(n_groups, n_bins).abs().sum(dim=1)  # [1] eq. (15), times the group's size
    sizes = torch.zeros_like(errors).index_add(0, group, torch.ones_like(entropy))
    return (errors / sizes.clamp_min(1)).sum() / (sizes > 0).sum()


class UCELoss(nn.Module):  # type: ignore[misc]  # torch is untyped here
    """Uncertainty calibration error of a batch as a penalty; see `uce_loss`.

    Parameters
    ----------
    n_bins : int, default=15
        Equal-width entropy bins.
    per_class : bool, default=True
        Mean over predicted classes (section 7.3 of the paper).

    Examples
    --------
    >>> import torch
    >>> from calibrant.torch import RegularisedLoss
    >>> loss = RegularisedLoss(penalty=UCELoss())  # cross-entropy + 10 · UCE
    >>> loss(torch.zeros(4, 3), torch.tensor([0, 1, 2, 0])).item()
    6.098612
    """

    #: The paper's λ.
    default_weight = 10.0

    def __init__(self, n_bins: int = 15, per_class: bool = True) -> None:
        super().__init__()
        self.n_bins = check_bins(n_bins, "UCELoss")
        self.per_class = per_class

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return the penalty of one batch."""
        return uce_loss(logits, target, n_bins=self.n_bins, per_class=self.per_class)

    def extra_repr(self) -> str:
        """Show the parameters."""
        return f"n_bins={self.n_bins}, per_class={self.per_class}"
