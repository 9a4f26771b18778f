"""Training for calibration: losses, Bayesian layers, ensembles, uncertainty and streaming metrics (needs torch)."""

from __future__ import annotations

from calibrant.errors import require

require("torch", "torch", "calibrant.torch")

from calibrant.torch.brier import BrierLoss, brier_loss  # noqa: E402  # torch is checked first
from calibrant.torch.entropy import EntropyPenalty, entropy_penalty  # noqa: E402
from calibrant.torch.focal import FocalLoss, focal_loss  # noqa: E402
from calibrant.torch.mmce import MMCELoss, mmce_loss  # noqa: E402
from calibrant.torch.regularised import RegularisedLoss  # noqa: E402
from calibrant.torch.smoothing import LabelSmoothing, label_smoothing  # noqa: E402
from calibrant.torch.soft_ece import SoftECELoss, soft_ece_loss  # noqa: E402
from calibrant.torch.uce import UCELoss, uce_loss  # noqa: E402

__all__ = [
    "BrierLoss",
    "EntropyPenalty",
    "FocalLoss",
    "LabelSmoothing",
    "MMCELoss",
    "RegularisedLoss",
    "SoftECELoss",
    "UCELoss",
    "brier_loss",
    "entropy_penalty",
    "focal_loss",
    "label_smoothing",
    "mmce_loss",
    "soft_ece_loss",
    "uce_loss",
]
