"""Exported calibrators in networks: probabilities against the library's own."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from calibrant import calibrators as cc
from calibrant_benchmarks.torch_matrix import inputs as given
from calibrant_benchmarks.torch_matrix.judge import OUTPUT, ROUNDING, Comparison

METHODS = (
    "TemperatureScaling",
    "VectorScaling",
    "MatrixScaling",
    "StructuredMatrixScaling",
    "DirichletCalibration",
    "SplineCalibration",
    "IsotonicMulticlass",
    "BetaCalibration",
)


@lru_cache(maxsize=16)
def fitted(method: str) -> Any:
    """Return a calibrator fitted on overconfident rows."""
    logits, _ = given.rows(400, seed=5)
    rng = np.random.default_rng(0)
    chance = torch.softmax(logits / 2, dim=1).numpy()
    labels = np.array([rng.choice(given.K, p=row / row.sum()) for row in chance])
    return getattr(cc, method)(space="logit").fit(logits.numpy(), labels)


def check_export(method: str, trainable: bool, condition: str) -> list[Comparison]:
    """Compare an exported calibrator behind an identity layer with `predict_proba`."""
    calibrator = fitted(method)
    module = calibrator.to_torch(trainable=True) if trainable else calibrator.to_torch()
    body: Any = nn.Linear(given.K, given.K, bias=False)
    nn.init.eye_(body.weight)
    network: Any = given.turned(nn.Sequential(body, module), condition)
    scores = given.rows(seed=3 + given.rank())[0].to(given.dtype_of(condition))
    if condition == "padding":
        padded = scores.clone()
        padded[::3] = torch.nan
        return [_compare(calibrator, network(padded)[1::3], scores[1::3], trainable)]
    if condition in ("channels-last", "segmentation"):
        image = given.as_image(scores)
        form = torch.channels_last if condition == "channels-last" else torch.contiguous_format
        out = module(image.contiguous(memory_format=form))
        return [_compare(calibrator, given.as_rows(out), scores, trainable)]
    if condition == "compile":
        network = given.compiled(network)
    if condition == "DDP":
        network = given.wrapped(network)
    with given.autocast(condition):
        out = network(scores)
        rounded = scores if condition not in given.SHORT else scores.to(given.SHORT[condition])
    if condition == "DDP":  # the slopes of both processes meet in the layer in front
        out[:, 0].sum().backward()
        parts = [torch.zeros_like(body.weight) for _ in range(2)]
        torch.distributed.all_gather(parts, body.weight.grad)
        extra = [(parts[0], parts[1].double(), 1e-12)]
    else:
        extra = []
    return [_compare(calibrator, out, rounded, trainable), *extra]


def _compare(calibrator: Any, found: Tensor, scores: Tensor, trainable: bool) -> Comparison:
    """Probabilities: their rounding is that of the dtype that came out."""
    out = torch.softmax(found.double(), dim=1) if trainable else found
    reference = torch.from_numpy(calibrator.predict_proba(scores.detach().double().numpy()))
    return out, reference, (ROUNDING if trainable else OUTPUT)[found.dtype]


CHECKS: dict[tuple[str, str], Callable[[str], list[Comparison]]] = {
    ("exports", f"{method}.to_torch()"): partial(check_export, method, False) for method in METHODS
}
CHECKS["exports", "TemperatureScaling.to_torch(trainable=True)"] = partial(check_export, "TemperatureScaling", True)
CHECKS["exports", "MatrixScaling.to_torch(trainable=True)"] = partial(check_export, "MatrixScaling", True)
