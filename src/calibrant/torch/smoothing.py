"""Cross-entropy with smoothed labels."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import nll_loss

from calibrant.errors import input_error
from calibrant.torch.batch import IGNORE, BatchLoss, LossBatch, Reduction, check_batch, check_reduction, document


@document
def label_smoothing(
    logits: Tensor,
    target: Tensor,
    *,
    smoothing: float = 0.1,
    reduction: Reduction = "mean",
    ignore_index: int = IGNORE,
    class_weight: Tensor | None = None,
    sample_weight: Tensor | None = None,
) -> Tensor:
    """Cross-entropy against labels mixed with the uniform distribution.

    Parameters
    ----------
    smoothing : float, default=0.1
        Weight ε of the uniform distribution, in [0, 1).

    Notes
    -----
    −(1 − ε) log p_y − ε/K Σ_k log p_k, torch's own `label_smoothing`, with one difference: classes masked by a logit
    of −inf get no share of ε (torch's is infinite there).

    References
    ----------
    .. [1] Szegedy et al. (2016), "Rethinking the Inception Architecture for Computer Vision", CVPR, section 7.
    .. [2] Müller, Kornblith and Hinton (2019), "When Does Label Smoothing Help?", NeurIPS.

    Examples
    --------
    >>> import torch
    >>> label_smoothing(torch.tensor([[2.0, 0.0]]), torch.tensor([0])).item()  # 0.126928 + 0.05 · 2
    0.226928
    """
    _check_smoothing(smoothing, "label_smoothing")
    check_reduction(reduction, "label_smoothing")
    batch = check_batch(logits, target, "label_smoothing", ignore_index, class_weight, sample_weight)
    return _smoothed(batch, smoothing, reduction)


def _smoothed(batch: LossBatch, smoothing: float, reduction: Reduction) -> Tensor:
    log_proba = batch.log_proba()
    if batch.target is not None and batch.weight is None:  # every row counts once, as was seen on the CPU
        likely = nll_loss(log_proba, batch.target, reduction=reduction)
        if not smoothing:
            return likely if reduction != "none" else likely.reshape(batch.shape)
        if reduction == "mean":
            all_ = log_proba.mean()
            if math.isfinite(all_.item()):  # no class is closed
                return (1 - smoothing) * likely - smoothing * all_
    terms = log_proba if batch.class_weight is None else log_proba * batch.class_weight
    if batch.target is not None:
        log_true = terms.gather(1, batch.target[:, None])[:, 0]
    else:
        log_true = (batch.truth * torch.where(batch.truth > 0, terms, 0.0)).sum(dim=1)
    rows = -(1 - smoothing) * log_true
    if smoothing:
        open_ = log_proba > -torch.inf
        rows = rows - smoothing * torch.where(open_, terms, 0.0).sum(dim=1) / open_.sum(dim=1)  # [1]
    return batch.reduce(rows, reduction, classes_inside=True)


def _check_smoothing(smoothing: float, caller: str) -> float:
    if not 0 <= smoothing < 1:
        raise input_error("smoothing", caller, "lie in [0, 1)", repr(smoothing), "0.1 is usual")
    return float(smoothing)


class LabelSmoothing(BatchLoss):
    """Cross-entropy with smoothed labels; see `label_smoothing`.

    Examples
    --------
    >>> import torch
    >>> LabelSmoothing(0.0)(torch.tensor([[2.0, 0.0]]), torch.tensor([0])).item()  # cross-entropy
    0.126928
    """

    caller = "label_smoothing"
    shown = ("smoothing",)

    def __init__(
        self,
        smoothing: float = 0.1,
        reduction: Reduction = "mean",
        *,
        ignore_index: int = IGNORE,
        class_weight: Tensor | None = None,
    ) -> None:
        super().__init__(ignore_index, class_weight)
        self.smoothing = _check_smoothing(smoothing, "LabelSmoothing")
        self.reduction = check_reduction(reduction, "LabelSmoothing")

    def of(self, batch: LossBatch) -> Tensor:
        """Return the loss of a batch that was checked."""
        return _smoothed(batch, self.smoothing, self.reduction)
