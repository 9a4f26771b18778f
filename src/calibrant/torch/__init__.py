"""Training for calibration: losses, Bayesian layers, ensembles, uncertainty and streaming metrics (needs torch)."""

from __future__ import annotations

from calibrant.errors import require

require("torch", "torch", "calibrant.torch")

from calibrant.torch.brier import BrierLoss, brier_loss  # noqa: E402  # torch is checked first
from calibrant.torch.dropout import GaussianDropout, MCDropout, mc_dropout  # noqa: E402
from calibrant.torch.ensemble import DeepEnsemble  # noqa: E402
from calibrant.torch.entropy import EntropyPenalty, entropy_penalty  # noqa: E402
from calibrant.torch.focal import FocalLoss, focal_loss  # noqa: E402
from calibrant.torch.laplace import LastLayerLaplace, ProbitPredictive  # noqa: E402
from calibrant.torch.layers import BayesConv1d, BayesConv2d, BayesConv3d, BayesLinear, kl  # noqa: E402
from calibrant.torch.metrics import StreamingCalibration  # noqa: E402
from calibrant.torch.mmce import MMCELoss, mmce_loss  # noqa: E402
from calibrant.torch.predict import predict  # noqa: E402
from calibrant.torch.predictive import Predictive  # noqa: E402
from calibrant.torch.regularized import RegularizedLoss  # noqa: E402
from calibrant.torch.scaling import TemperatureScaling, VectorScaling  # noqa: E402
from calibrant.torch.smoothing import LabelSmoothing, label_smoothing  # noqa: E402
from calibrant.torch.soft_ece import SoftECELoss, soft_ece_loss  # noqa: E402
from calibrant.torch.swag import SWAG, refresh_batch_norm  # noqa: E402
from calibrant.torch.temperature import MonteCarloTemperature  # noqa: E402
from calibrant.torch.uce import UCELoss, uce_loss  # noqa: E402

__all__ = [
    "SWAG", "BayesConv1d", "BayesConv2d", "BayesConv3d", "BayesLinear", "BrierLoss", "DeepEnsemble",
    "EntropyPenalty", "FocalLoss", "GaussianDropout", "LabelSmoothing", "LastLayerLaplace", "MCDropout",
    "MMCELoss", "MonteCarloTemperature", "Predictive", "ProbitPredictive", "RegularizedLoss", "SoftECELoss",
    "StreamingCalibration", "TemperatureScaling", "UCELoss", "VectorScaling", "brier_loss", "entropy_penalty",
    "focal_loss", "kl", "label_smoothing", "mc_dropout", "mmce_loss", "predict", "refresh_batch_norm",
    "soft_ece_loss", "uce_loss"
]  # fmt: skip
