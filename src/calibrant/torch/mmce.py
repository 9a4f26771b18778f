"""Maximum mean calibration error as a penalty on a batch."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from calibrant.errors import input_error
from calibrant.torch.batch import check_batch, check_positive, double, smooth_root

Normalisation = Literal["paper", "official"]


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
    pair sum is taken in float64, so its rounding never reaches the root's steep part. O(batch²).

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
    residual = correct - confidence
    kernel = torch.exp((confidence[:, None] - confidence[None, :]).abs() / -width)
    if not weighted:
        return smooth_root(residual @ kernel @ residual / len(residual) ** 2, 1e-12).to(logits.dtype)  # [2] eq. (4)
    wrong = 1 - correct
    m, n = correct.sum(), wrong.sum()
    good, bad = residual * correct, residual * wrong  # 1 − p of correct rows, −p of wrong ones
    cc, ww, cw = good @ kernel @ good, bad @ kernel @ bad, good @ kernel @ bad
    if normalisation == "official":
        m2, n2, mn = (m * m).clamp_min(1), (n * n).clamp_min(1), (m * n).clamp_min(1)
        square = cc / m2 / (m * m + 1e-5) + ww / n2 / (n * n + 1e-5) + 2 * cw / mn / (m * n + 1e-5)
        both = ((m > 0) & (n > 0)).to(square.dtype)
        return (both * (square.clamp_min(0) + 1e-10).sqrt()).to(logits.dtype)
    weight = correct / m.clamp_min(1) + wrong / n.clamp_min(1)  # [1]: one root mean embedding per kind of row
    balanced = residual * weight
    return smooth_root(balanced @ kernel @ balanced, 1e-12).to(logits.dtype)


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
        learns nothing; 0.5 has about the same effect as 10 has on the program's value.
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
