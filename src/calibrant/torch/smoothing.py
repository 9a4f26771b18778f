"""Cross-entropy with smoothed labels."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from calibrant.errors import input_error
from calibrant.torch.batch import Reduction, check_batch, check_reduction, reduce_rows


def label_smoothing(
    logits: Tensor, target: Tensor, *, smoothing: float = 0.1, reduction: Reduction = "mean"
) -> Tensor:
    """Cross-entropy against labels mixed with the uniform distribution.

    Parameters
    ----------
    logits : Tensor of shape (batch, K)
        Raw scores, any float type.
    target : Tensor of shape (batch,)
        Class indices.
    smoothing : float, default=0.1
        Share ε of the uniform distribution, in [0, 1).
    reduction : {"mean", "sum", "none"}, default="mean"
        What to do with the rows.

    Returns
    -------
    Tensor
        A scalar, or one value per row.

    Notes
    -----
    −(1 − ε) log p_y − ε/K Σ_k log p_k, torch's own `label_smoothing`.

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
    log_proba = torch.log_softmax(check_batch(logits, target, "label_smoothing"), dim=1)
    log_true = log_proba.gather(1, target.long()[:, None])[:, 0]
    return reduce_rows(-(1 - smoothing) * log_true - smoothing * log_proba.mean(dim=1), reduction)  # [1] section 7


class LabelSmoothing(nn.Module):  # type: ignore[misc]  # torch is untyped here
    """Cross-entropy with smoothed labels; see `label_smoothing`.

    Examples
    --------
    >>> import torch
    >>> LabelSmoothing(0.0)(torch.tensor([[2.0, 0.0]]), torch.tensor([0])).item()  # cross-entropy
    0.126928
    """

    def __init__(self, smoothing: float = 0.1, reduction: Reduction = "mean") -> None:
        super().__init__()
        if not 0 <= smoothing < 1:
            raise input_error("smoothing", "LabelSmoothing", "lie in [0, 1)", repr(smoothing), "0.1 is usual")
        self.smoothing = float(smoothing)
        self.reduction = check_reduction(reduction, "LabelSmoothing")

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return the loss of one batch."""
        return label_smoothing(logits, target, smoothing=self.smoothing, reduction=self.reduction)

    def extra_repr(self) -> str:
        """Show the parameters."""
        return f"smoothing={self.smoothing}"
