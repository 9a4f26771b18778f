"""Training for calibration: losses, Bayesian layers, ensembles, uncertainty and streaming metrics (needs torch)."""

from __future__ import annotations

from calibrant.errors import require

require("torch", "torch", "calibrant.torch")

from calibrant.torch.brier import BrierLoss, brier_loss  # noqa: E402  # torch is checked first
from calibrant.torch.ensemble import DeepEnsemble  # noqa: E402
from calibrant.torch.entropy import EntropyPenalty, entropy_penalty  # noqa: E402
from calibrant.torch.focal import FocalLoss, focal_loss  # noqa: E402
from calibrant.torch.laplace import LastLayerLaplace  # noqa: E402
from calibrant.torch.layers import BayesConv2d, BayesLinear, GaussianDropout, MCDropout, kl  # noqa: E402
from calibrant.torch.metrics import StreamingCalibration  # noqa: E402
from calibrant.torch.mmce import MMCELoss, mmce_loss  # noqa: E402
from calibrant.torch.predict import Predictive, predict  # noqa: E402
from calibrant.torch.regularised import RegularisedLoss  # noqa: E402
from calibrant.torch.smoothing import LabelSmoothing, label_smoothing  # noqa: E402
from calibrant.torch.soft_ece import SoftECELoss, soft_ece_loss  # noqa: E402
from calibrant.torch.swag import SWAG, refresh_batch_norm  # noqa: E402
from calibrant.torch.temperature import MonteCarloTemperature  # noqa: E402
from calibrant.torch.uce import UCELoss, uce_loss  # noqa: E402

__all__ = [
    "SWAG",
    "BayesConv2d",
    "BayesLinear",
    "BrierLoss",
    "DeepEnsemble",
    "EntropyPenalty",
    "FocalLoss",
    "GaussianDropout",
    "LabelSmoothing",
    "LastLayerLaplace",
    "MCDropout",
    "MMCELoss",
    "MonteCarloTemperature",
    "Predictive",
    "RegularisedLoss",
    "SoftECELoss",
    "StreamingCalibration",
    "UCELoss",
    "brier_loss",
    "entropy_penalty",
    "focal_loss",
    "kl",
    "label_smoothing",
    "mmce_loss",
    "predict",
    "refresh_batch_norm",
    "soft_ece_loss",
    "uce_loss",
]
