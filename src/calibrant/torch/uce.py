"""Uncertainty calibration error as a penalty on a batch."""

from __future__ import annotations

import torch
from torch import Tensor

from calibrant.core.inputs import check_n_bins
from calibrant.torch.batch import IGNORE, BatchLoss, LossBatch, check_batch, document, normalized_entropy, width_bin


@document
def uce_loss(
    logits: Tensor,
    target: Tensor,
    *,
    n_bins: int = 15,
    per_class: bool = True,
    ignore_index: int = IGNORE,
    class_weight: Tensor | None = None,
    sample_weight: Tensor | None = None,
) -> Tensor:
    """Gap between normalized entropy and error rate over entropy bins, differentiable in the entropies.

    Uncertainty calibration; smaller is better. A perfectly calibrated model does not score 0: the
    normalized entropy equals the error only in the limit of many classes.

    Parameters
    ----------
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
    class nobody predicts does not count. Cost O(batch·K). It acts on *training* rows: once these are nearly all
    right it asks for entropies near 0, so a network that fits its training rows becomes surer and its ECE at T = 1 on
    new rows need not fall; a temperature on held-out rows belongs behind it.

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
    check_n_bins(n_bins, "uce_loss")
    batch = check_batch(logits, target, "uce_loss", ignore_index, class_weight, sample_weight)
    return _uce(batch, n_bins, per_class)


def _uce(batch: LossBatch, n_bins: int, per_class: bool) -> Tensor:
    entropy = normalized_entropy(batch.log_proba()).clamp(0, 1)
    top = batch.logits.detach().max(dim=1).indices  # the first of equals, as in the library
    gap = entropy - batch.miss(top)  # [1] eq. (16), (17)
    weight = batch.weights()
    if batch.weight is not None:
        gap = gap * weight
    cell = width_bin(entropy, n_bins)
    n_groups = batch.logits.shape[1] if per_class else 1
    group = top if per_class else torch.zeros_like(top)
    sums = gap.new_zeros(n_groups * n_bins).index_add(0, group * n_bins + cell, gap)
    errors = sums.view(n_groups, n_bins).abs().sum(dim=1)  # [1] eq. (15), times the group's size
    sizes = torch.zeros_like(errors).index_add(0, group, weight)
    shares = errors / sizes.clamp_min(torch.finfo(sizes.dtype).tiny)
    met = (sizes > 0).sum()
    return shares.sum() / (met if batch.weight is None else met.clamp_min(1))


class UCELoss(BatchLoss):
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
    >>> from calibrant.torch import RegularizedLoss
    >>> loss = RegularizedLoss(penalty=UCELoss())  # cross-entropy + 10 · UCE
    >>> loss(torch.zeros(4, 3), torch.tensor([0, 1, 2, 0])).item()
    6.098612
    """

    #: The paper's λ.
    default_weight = 10.0
    caller = "uce_loss"
    shown = ("n_bins", "per_class")

    def __init__(
        self,
        n_bins: int = 15,
        per_class: bool = True,
        *,
        ignore_index: int = IGNORE,
        class_weight: Tensor | None = None,
    ) -> None:
        super().__init__(ignore_index, class_weight)
        self.n_bins = check_n_bins(n_bins, "UCELoss")
        self.per_class = per_class

    def of(self, batch: LossBatch) -> Tensor:
        """Return the loss of a batch that was checked."""
        return _uce(batch, self.n_bins, self.per_class)
