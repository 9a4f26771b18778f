"""Maximum mean calibration error as a penalty on a batch."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from calibrant.errors import input_error
from calibrant.torch.batch import check_batch, check_positive, double, smooth_root

Normalisation = Literal["paper", "official"]
#: Below this width exp(1/width) is too large to factor the kernel; the pairs are taken one by one.
MIN_FACTOR_WIDTH = 0.02


def mmce_loss(
    logits: Tensor, target: Tensor, *, width: float = 0.4, weighted: bool = True, normalisation: Normalisation = "paper"
) -> Tensor:
    """Kernel distance between confidence and correctness over all pairs of a batch.

    Confidence calibration; smaller is better; 0 is perfect. A constant forecast of the accuracy also scores 0.

    Parameters
    ----------
    logits : Tensor of shape (batch, K)
        Raw scores, any float type.
    target : Tensor of shape (batch,)
        Class indices.
    width : float, default=0.4
        Width of the Laplacian kernel exp(−|p − p'|/width); the authors' value.
    weighted : bool, default=True
        Correct and wrong rows get equal total weight, so that a few wrong rows are not drowned.
    normalisation : {"paper", "official"}, default="paper"
        "official" reproduces the authors' program for the weighted form: the *mean* over pairs divided
        once more by m² + 10⁻⁵, n² + 10⁻⁵, mn + 10⁻⁵, the root of (value + 10⁻¹⁰), and 0 for a batch
        without a correct or without a wrong row. It is smaller than the formula by roughly the number of rows.

    Returns
    -------
    Tensor
        A scalar.

    Notes
    -----
    Plain: MMCE² = Σ_ij (c_i − p_i)(c_j − p_j) k(p_i, p_j) / B², pairs i = j included. Weighted, with m correct
    and n wrong rows: Σ_cc (1−p)(1−p')k/m² + Σ_ww p p' k/n² − 2 Σ_cw (1−p) p' k/(mn); a term without rows is 0.
    The root is x/√(x + 10⁻¹²) of x = MMCE²: 0 with finite slope at 0, within 3·10⁻⁷ of √x everywhere. The
    pair sum is taken in float64, so its rounding never reaches the root's steep part. O(batch·K + batch log batch).

    References
    ----------
    .. [1] Kumar, Sarawagi and Jain (2018), "Trainable Calibration Measures for Neural Networks from Kernel Mean
       Embeddings", ICML.
    .. [2] "Uncertainty Calibration Error: A New Metric for Multi-Class Classification" (2020), eq. (4).

    Examples
    --------
    Two certain rows, one of them wrong: residuals 0 and −1, so the plain form is √(1/4).

    >>> import torch
    >>> mmce_loss(torch.tensor([[60.0, 0.0], [60.0, 0.0]]), torch.tensor([0, 1]), weighted=False).item()
    0.5
    """
    logits = check_batch(logits, target, "mmce_loss")
    log_proba, top = torch.log_softmax(logits, dim=1).max(dim=1)
    confidence = double(log_proba).exp()
    correct = (top == target).to(confidence.dtype)
    residual = correct - confidence  # 1 − p of correct rows, −p of wrong ones
    if not weighted:
        square = _KernelSums.apply(confidence, residual[:, None] / len(residual), width)  # [2] eq. (4)
        return smooth_root(square.squeeze(), 1e-12).to(logits.dtype)
    wrong = 1 - correct
    m, n = correct.sum(), wrong.sum()
    if normalisation == "paper":
        balanced = residual * (correct / m.clamp_min(1) + wrong / n.clamp_min(1))  # [1]: each kind of row weighs 1
        return smooth_root(_KernelSums.apply(confidence, balanced[:, None], width).squeeze(), 1e-12).to(logits.dtype)
    sums = _KernelSums.apply(confidence, residual[:, None] * torch.stack([correct, wrong], dim=1), width)
    counts = torch.stack([m, n])
    pairs = counts[:, None] * counts
    square = (sums / pairs.clamp_min(1) / (pairs + 1e-5)).sum()  # the cross term holds −p: its sign is in the residual
    both = ((m > 0) & (n > 0)).to(square.dtype)
    return (both * (square.clamp_min(0) + 1e-10).sqrt()).to(logits.dtype)


class _KernelSums(torch.autograd.Function):  # type: ignore[misc]  # torch is untyped here
    """BᵀKB for columns B and K_ij = exp(−|s_i − s_j|/width), with its slope, from sorted scores in O(n log n).

    For s_i ≥ s_j the kernel is exp(−s_i/width)·exp(s_j/width), so running sums replace the pairs. With
    below_i = Σ_{s_j < s_i} b_j k_ij and above_i alike, ∂/∂B = KB(S + Sᵀ) and
    ∂/∂s_i = Σ_pq (S + Sᵀ)_pq b_ip (above − below)_iq / width for the incoming slope S; tied scores pull at each other
    with slope 0, as |x| does at 0.
    """

    @staticmethod
    def forward(ctx: Any, score: Tensor, b: Tensor, width: float) -> Tensor:
        """Return the sums and keep what the slopes need."""
        if width < MIN_FACTOR_WIDTH:
            kernel = torch.exp((score[:, None] - score).abs() / -width)
            product, pull = kernel @ b, (kernel * torch.sign(score - score[:, None])) @ b
        else:
            s, order = score.sort()
            sorted_b, grow = b[order], (s / width).exp()[:, None]
            low, high = torch.searchsorted(s, s), torch.searchsorted(s, s, right=True)
            same = _running(sorted_b)
            below = _running(sorted_b * grow)[low] / grow
            above = _running((sorted_b / grow).flip(0)).flip(0)[high] * grow
            product, pull = torch.empty_like(b), torch.empty_like(b)
            product[order] = below + (same[high] - same[low]) + above
            pull[order] = above - below
        ctx.save_for_backward(b, product, pull)
        ctx.width = width
        return b.T @ product

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, Tensor, None]:
        """Return the slopes by score and by column."""
        b, product, pull = ctx.saved_tensors
        both = slope + slope.T
        return ((b @ both) * pull).sum(dim=1) / ctx.width, product @ both, None


def _running(values: Tensor) -> Tensor:
    """Return 0 and the running sums of each column."""
    return torch.cat([values.new_zeros(1, values.shape[1]), values.cumsum(dim=0)])


class MMCELoss(nn.Module):  # type: ignore[misc]  # torch is untyped here
    """Maximum mean calibration error of a batch as a penalty; see `mmce_loss`.

    Parameters
    ----------
    width : float, default=0.4
        Kernel width.
    weighted : bool, default=True
        The weighted form its authors train with.
    normalisation : {"paper", "official"}, default="paper"
        The formula, or the authors' doubly divided program.

    Examples
    --------
    >>> import torch
    >>> MMCELoss()(torch.tensor([[60.0, 0.0], [60.0, 0.0]]), torch.tensor([0, 1])).item()
    1.0
    """

    def __init__(self, width: float = 0.4, weighted: bool = True, normalisation: Normalisation = "paper") -> None:
        super().__init__()
        if normalisation not in ("paper", "official"):
            raise input_error(
                "normalisation", "MMCELoss", "be 'paper' or 'official'", repr(normalisation), "choose one of them"
            )
        self.width = check_positive(width, "width", "MMCELoss")
        self.weighted = weighted
        self.normalisation = normalisation

    @property
    def default_weight(self) -> float:
        """λ: the UCE paper's 10 goes with the doubly divided program.

        With the formula 10 drowns the loss – every confidence ½ makes the weighted form 0 – and a small network
        learns nothing; 0.5 trained well on one small set and is a start, not a rule.
        """
        return 10.0 if self.normalisation == "official" and self.weighted else 0.5

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return the penalty of one batch."""
        return mmce_loss(
            logits, target, width=self.width, weighted=self.weighted, normalisation=self.normalisation
        )

    def extra_repr(self) -> str:
        """Show the parameters."""
        return f"width={self.width}, weighted={self.weighted}, normalisation={self.normalisation!r}"
