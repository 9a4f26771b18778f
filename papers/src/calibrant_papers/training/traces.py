"""Nixon's experiment: calibration over the steps of training, from a good and from a poor start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from calibrant.metrics import (
    accuracy,
    adaptive_calibration_error,
    expected_calibration_error,
    static_calibration_error,
    thresholded_adaptive_calibration_error,
)
from calibrant.torch import predict
from calibrant_papers.studies.checkpoints import Document
from calibrant_papers.training import networks
from calibrant_papers.training.cell import plan_images, seed_of
from calibrant_papers.training.plan import Plan

MEASURES = {
    "accuracy": accuracy,
    "ece": expected_calibration_error,
    "sce": static_calibration_error,
    "ace": adaptive_calibration_error,
    "tace": thresholded_adaptive_calibration_error,
}
#: Rows looked at on either side each time.
LOOK = 1000
RANGES = 15


def initialize(model: nn.Module, kind: str) -> None:
    """Glorot weights and zero biases, or (poor) N(0, 1) for both, as in Nixon et al. (2019), appendix."""
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Conv2d):
            if kind == "glorot":
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)
            else:
                nn.init.normal_(module.weight)
                nn.init.normal_(module.bias)


def trace_path(folder: Path, kind: str, seed: int) -> Path:
    """Where a finished trace is written."""
    return folder / "traces" / f"{kind}-{seed}.json"


def run_trace(plan: Plan, kind: str, seed: int) -> Document:
    """Train the plain network from one start, measuring on training and held-out rows as it goes."""
    images = plan_images(plan)
    torch.manual_seed(seed_of(seed, 77))
    model = networks.build(plan.network, "plain", images.n_classes, images.x_train[0].size)
    initialize(model, kind)
    x, y = networks.tensors(images, "train")
    sides = {"train": (x[:LOOK], y[:LOOK]), "held_out": tuple(t[:LOOK] for t in networks.tensors(images, "cal"))}
    trace: dict[str, Any] = {"initialization": kind, "seed": seed, "step": [], "lower_bounds": []}
    trace |= {side: {name: [] for name in MEASURES} for side in sides}

    def look(step: int) -> None:
        if step % plan.trace_every and step != 1:
            return
        trace["step"].append(step)
        for side, rows in sides.items():
            _measure(model, rows, trace[side], trace["lower_bounds"] if side == "held_out" else None)

    steps_an_epoch = -(-len(x) // plan.batch_size)
    networks.train(
        model,
        x,
        y,
        penalty="none",
        epochs=-(-plan.trace_steps // steps_an_epoch),
        lr=plan.lr,
        batch_size=plan.batch_size,
        seed=seed_of(seed, 78),
        after_step=look,
    )
    return trace


def _measure(
    model: nn.Module, rows: tuple[Tensor, ...], into: dict[str, list[float]], bounds: list[list[float]] | None
) -> None:
    proba = predict(model, networks.walk(rows[0]), samples=1).proba
    for name, function in MEASURES.items():
        into[name].append(function(rows[1].numpy(), proba))
    if bounds is not None:  # where the ranges of ACE begin, over all classes
        cuts = np.quantile(proba.ravel(), np.arange(RANGES) / RANGES, method="inverted_cdf")
        bounds.append([float(f"{cut:.6g}") for cut in cuts])
