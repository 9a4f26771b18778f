"""Maximum mean calibration error as a penalty on a batch."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from calibrant.torch.batch import (
    IGNORE,
    BatchLoss,
    LossBatch,
    check_batch,
    check_positive,
    check_word,
    document,
    double,
    may_look,
    smooth_root,
)

Normalization = Literal["paper", "official"]
#: Below this width exp(1/width) is too large to factor the kernel; the pairs are taken one by one.
MIN_FACTOR_WIDTH = 0.02
#: Up to this many rows the pairs themselves are faster than sorting where each step is followed back.
MAX_PAIRS = 256


@document
def mmce_loss(
    logits: Tensor,
    target: Tensor,
    *,
    width: float = 0.4,
    weighted: bool = True,
    normalization: Normalization = "paper",
    ignore_index: int = IGNORE,
    class_weight: Tensor | None = None,
    sample_weight: Tensor | None = None,
) -> Tensor:
    """Kernel distance between confidence and correctness over all pairs of a batch.

    Confidence calibration; smaller is better; 0 is perfect. A constant forecast of the accuracy also scores 0.

    Parameters
    ----------
    width : float, default=0.4
        Width of the Laplacian kernel exp(−|p − p'|/width); the authors' value.
    weighted : bool, default=True
        Correct and wrong rows get equal total weight, so that a few wrong rows are not drowned.
    normalization : {"paper", "official"}, default="paper"
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
    Of soft labels a row is right with the chance of its predicted class.

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
    check_positive(width, "width", "mmce_loss")
    check_word(normalization, ("paper", "official"), "normalization", "mmce_loss")
    batch = check_batch(logits, target, "mmce_loss", ignore_index, class_weight, sample_weight)
    return _mmce(batch, width, weighted, normalization)


def _mmce(batch: LossBatch, width: float, weighted: bool, normalization: Normalization) -> Tensor:
    log_proba, top = batch.log_proba().max(dim=1)
    confidence, hit = double(log_proba).exp(), double(batch.chance(top))
    correct, wrong = hit, 1 - hit
    if batch.weight is not None:
        weight = double(batch.weight)
        correct, wrong = weight * correct, weight * wrong
    if not weighted:
        both = correct + wrong
        residual = (correct - both * confidence) / _at_least(both.sum())
        return smooth_root(_kernel_sums(confidence, residual[:, None], width).squeeze(), 1e-12).to(batch.logits.dtype)
    m, n = correct.sum(), wrong.sum()
    if normalization == "paper":
        right, missed = correct / _at_least(m), wrong / _at_least(n)
        balanced = right - (right + missed) * confidence  # Kumar et al.: each kind of row weighs 1
        return smooth_root(_kernel_sums(confidence, balanced[:, None], width).squeeze(), 1e-12).to(batch.logits.dtype)
    over, under = correct * (1 - confidence), -wrong * confidence  # residuals of correct and of wrong rows
    sums = _kernel_sums(confidence, torch.stack([over, under], dim=1), width)
    counts = torch.stack([m, n])
    pairs = counts[:, None] * counts
    square = (sums / _at_least(pairs) / (pairs + 1e-5)).sum()  # the cross term holds −p: its sign is in the residual
    both = ((m > 0) & (n > 0)).to(square.dtype)
    return (both * (square.clamp_min(0) + 1e-10).sqrt()).to(batch.logits.dtype)


def _at_least(total: Tensor) -> Tensor:
    """Return a sum of weights, or 1 where it is 0 (and so is everything divided by it)."""
    return torch.where(total > 0, total, 1.0)


def _kernel_sums(score: Tensor, b: Tensor, width: float) -> Tensor:
    """Return BᵀKB for columns B and K_ij = exp(−|s_i − s_j|/width); slopes of slopes and torch.func are right."""
    if may_look(score):
        return _KernelSums.apply(score, b, width)
    return _across(b, _products(score, b, width, pairs=len(score) <= MAX_PAIRS)[0])


def _across(b: Tensor, product: Tensor) -> Tensor:
    """Return BᵀP; no matrix product: autocast would shorten it where there is no float64."""
    return (b[:, :, None] * product[:, None, :]).sum(dim=0)


def _products(score: Tensor, b: Tensor, width: float, *, pairs: bool = False) -> tuple[Tensor, Tensor]:
    """Return KB, and the same with the sign of s_j − s_i, by differentiable operations.

    Sorted: for s_i ≥ s_j the kernel is exp(−s_i/width)·exp(s_j/width), so running sums replace the pairs, O(n log n).
    Places are found without slope, so tied scores pull at each other with slope 0, as |x| does at 0. Running sums are
    not deterministic on CUDA; where that is asked for the pairs themselves are taken, and so are they on request.
    """
    exact = score.device.type == "cuda" and torch.are_deterministic_algorithms_enabled()
    if pairs or exact or width < MIN_FACTOR_WIDTH:
        apart = score - score[:, None]
        kernel = torch.exp(apart.abs() / -width)
        return (kernel[:, :, None] * b).sum(dim=1), ((kernel * apart.sign())[:, :, None] * b).sum(dim=1)
    s, order = score.sort()
    b, fixed = b[order], s.detach()
    grow = (s / width).exp()[:, None]
    low, high = torch.searchsorted(fixed, fixed), torch.searchsorted(fixed, fixed, right=True)
    same = _running(b)
    below = _running(b * grow)[low] / grow
    above = _running((b / grow).flip(0)).flip(0)[high] * grow
    back = order.argsort()
    return (below + (same[high] - same[low]) + above)[back], (above - below)[back]


def _running(values: Tensor) -> Tensor:
    """Return 0 and the running sums of each column."""
    return torch.cat([values.new_zeros(1, values.shape[1]), values.cumsum(dim=0)])


class _KernelSums(torch.autograd.Function):  # type: ignore[misc]  # torch is untyped here
    """BᵀKB with its slopes in closed form: half the work of following each running sum back.

    With P = KB and Q the same with the sign of s_j − s_i, ∂/∂B = P(S + Sᵀ) and
    ∂/∂s_i = Σ_pq (S + Sᵀ)_pq b_ip Q_iq / width for the incoming slope S.
    """

    @staticmethod
    def forward(ctx: Any, score: Tensor, b: Tensor, width: float) -> Tensor:
        """Return the sums and keep what the slopes need."""
        product, pull = _products(score, b, width)
        ctx.width = width
        ctx.save_for_backward(score, b, product, pull)
        ctx.save_for_forward(b, product, pull)
        return _across(b, product)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, Tensor, None]:
        """Return the slopes by score and by column; when they will be differentiated, from the inputs once more."""
        score, b, product, pull = ctx.saved_tensors
        if torch.is_grad_enabled():
            product, pull = _products(score, b, ctx.width)
        both = slope + slope.T
        by_score = ((b[:, :, None] * both).sum(dim=1) * pull).sum(dim=1) / ctx.width
        return by_score, (product[:, :, None] * both).sum(dim=1), None

    @staticmethod
    def jvp(ctx: Any, score: Tensor | None, b: Tensor | None, _: None) -> Tensor:
        """Return the change of the sums with their inputs (forward mode)."""
        own, product, pull = ctx.saved_tensors
        half = torch.zeros_like(_across(own, product))
        if b is not None:
            half = half + _across(b, product)
        if score is not None:
            half = half + _across(own * score[:, None], pull) / ctx.width
        return half + half.T


class MMCELoss(BatchLoss):
    """Maximum mean calibration error of a batch as a penalty; see `mmce_loss`.

    Parameters
    ----------
    width : float, default=0.4
        Kernel width.
    weighted : bool, default=True
        The weighted form its authors train with.
    normalization : {"paper", "official"}, default="paper"
        The formula, or the authors' doubly divided program.

    Examples
    --------
    >>> import torch
    >>> MMCELoss()(torch.tensor([[60.0, 0.0], [60.0, 0.0]]), torch.tensor([0, 1])).item()
    1.0
    """

    caller = "mmce_loss"
    shown = ("width", "weighted", "normalization")

    def __init__(
        self,
        width: float = 0.4,
        weighted: bool = True,
        normalization: Normalization = "paper",
        *,
        ignore_index: int = IGNORE,
        class_weight: Tensor | None = None,
    ) -> None:
        super().__init__(ignore_index, class_weight)
        check_word(normalization, ("paper", "official"), "normalization", "MMCELoss")
        self.width = check_positive(width, "width", "MMCELoss")
        self.weighted = weighted
        self.normalization = normalization

    @property
    def default_weight(self) -> float:
        """λ: the UCE paper's 10 goes with the doubly divided program.

        With the formula 10 drowns the loss – every confidence ½ makes the weighted form 0 – and a small network
        learns nothing; 0.5 trained well on one small set and is a start, not a rule.
        """
        return 10.0 if self.normalization == "official" and self.weighted else 0.5

    def of(self, batch: LossBatch) -> Tensor:
        """Return the loss of a batch that was checked."""
        return _mmce(batch, self.width, self.weighted, self.normalization)
