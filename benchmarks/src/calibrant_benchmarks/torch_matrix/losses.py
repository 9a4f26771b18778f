"""Losses and the meter: value and slopes against float64 rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from calibrant import metric
from calibrant import torch as ct
from calibrant_benchmarks.torch_matrix import inputs as given
from calibrant_benchmarks.torch_matrix.judge import ROUNDING, Comparison

CHECKS: dict[tuple[str, str], Callable[[str], list[Comparison]]] = {}

LOSSES: dict[str, Callable[..., nn.Module]] = {
    "UCELoss": ct.UCELoss,
    "MMCELoss": ct.MMCELoss,
    'MMCELoss(normalization="official")': lambda **more: ct.MMCELoss(normalization="official", **more),
    "SoftECELoss": ct.SoftECELoss,
    "EntropyPenalty": ct.EntropyPenalty,
    "FocalLoss": ct.FocalLoss,
    "LabelSmoothing": ct.LabelSmoothing,
    "BrierLoss": ct.BrierLoss,
    "RegularizedLoss": lambda **more: ct.RegularizedLoss(penalty=ct.MMCELoss(**more), warmup=2),
}
#: Metrics of the meter that add up exactly.
METRICS = ("accuracy", "ece", "uce", "brier", "nll", "sce")


def _reference(make: Callable[..., nn.Module], logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    leaf = logits.detach().double().requires_grad_()
    value = _second(make(class_weight=given.CLASS_WEIGHT), leaf, target)
    value.backward()
    return value.detach(), leaf.grad


def _second(loss: nn.Module, logits: Tensor, target: Tensor) -> Tensor:
    """Return the loss of a second batch, where the warm-up is half way."""
    if hasattr(loss, "warmup"):
        loss(logits.detach().requires_grad_(), target)
    return loss(logits, target)


def check_loss(make: Callable[..., nn.Module], condition: str) -> list[Comparison]:
    """Compare the value and the slopes of one loss."""
    wide, target = given.rows(seed=given.rank())
    loss = given.turned(make(class_weight=given.CLASS_WEIGHT), condition)
    if condition in ("bfloat16", "float16 autocast", "DDP"):
        return _through_a_layer(make, loss, condition)
    logits = wide.to(given.dtype_of(condition))
    if condition == "padding":
        target = target.clone()
        target[::3] = -100
        keep = target >= 0
        logits = torch.where(keep[:, None], logits, torch.nan).requires_grad_()
        value = _second(loss, logits, target)
        value.backward()
        expected, slopes = _reference(make, logits[keep], target[keep])
        full = torch.zeros_like(wide)
        full[keep] = slopes
        return [(value, expected, 2e-5), (logits.grad, full, 2e-5)]
    if condition in ("channels-last", "segmentation"):
        labels = target.clone()
        labels[:7] = -100
        keep = labels >= 0
        image = given.as_image(logits).contiguous()
        if condition == "channels-last":
            image = image.contiguous(memory_format=torch.channels_last)
        image.requires_grad_()
        value = _second(loss, image, given.as_image(labels))
        value.backward()
        expected, slopes = _reference(make, logits[keep], labels[keep])
        full = torch.zeros_like(wide)
        full[keep] = slopes
        return [(value, expected, 2e-5), (given.as_rows(image.grad), full, 2e-5)]
    logits.requires_grad_()
    if condition == "compile":
        loss = given.compiled(loss)
    value = _second(loss, logits, target)
    value.backward()
    expected, slopes = _reference(make, logits, target)
    return [(value, expected, 2e-5), (logits.grad, slopes, ROUNDING[logits.dtype])]


def _through_a_layer(make: Callable[..., nn.Module], loss: nn.Module, condition: str) -> list[Comparison]:
    """A linear layer in front, so that autocast and data-parallel slopes are seen."""
    torch.manual_seed(0)
    layer: Any = nn.Linear(8, given.K)
    network = given.wrapped(layer) if condition == "DDP" else layer
    batches = [(torch.randn(60, 8, generator=torch.Generator().manual_seed(i)), given.rows(seed=i)[1]) for i in (0, 1)]
    x, target = batches[given.rank()]
    with given.autocast(condition):
        logits = 3 * network(x)
        logits.retain_grad()
        value = _second(loss, logits, target)
    value.backward()
    expected, slopes = _reference(make, logits, target)
    if condition != "DDP":
        return [(value, expected, 2e-5), (logits.grad, slopes, ROUNDING[logits.dtype])]
    own = [3 * _reference(make, 3 * layer(x), y)[1].T @ x.double() for x, y in batches]
    return [(value, expected, 2e-5), (layer.weight.grad, sum(own) / 2, 2e-5)]


class Metered(nn.Module):  # type: ignore[misc]  # torch is untyped here
    """A network that holds its meter."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(8, given.K)
        self.meter = ct.StreamingCalibration(given.K, METRICS)
        self.seen: list[Tensor] = []

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """Count the batch and return its logits."""
        logits = 3 * self.layer(x)
        self.meter.update(logits, target)
        self.seen.append(logits.detach())
        return logits


def check_meter(condition: str) -> list[Comparison]:
    """Compare the meter with the library on all rows at once."""
    if condition in ("padding", "channels-last", "segmentation"):
        wide, target = given.rows()
        meter = ct.StreamingCalibration(given.K, METRICS)
        target[::4] = -100
        logits, keep = torch.where((target >= 0)[:, None], wide, torch.nan).float(), target >= 0
        if condition == "padding":
            meter.update(logits, target)
        else:
            image = given.as_image(logits)
            form = torch.channels_last if condition == "channels-last" else torch.contiguous_format
            meter.update(image.contiguous(memory_format=form), given.as_image(target))
        return _compare(meter, logits[keep], target[keep])
    model = given.turned(Metered(), condition)
    run = given.wrapped(model) if condition == "DDP" else model
    if condition == "compile":
        model.meter.update = given.compiled(model.meter.update, whole=False)
    targets = []
    for i in range(4):
        seed = i + 10 * given.rank()
        x = torch.randn(60, 8, generator=torch.Generator().manual_seed(seed)).to(given.dtype_of(condition))
        targets.append(given.rows(seed=seed)[1])
        with given.autocast(condition):
            run(x, targets[-1]).float().square().mean().backward()  # gradients are on, buffers would be broadcast
    logits, target = torch.cat(model.seen), torch.cat(targets)
    if condition == "DDP":
        parts = [torch.zeros_like(logits) for _ in range(2)]
        labels = [torch.zeros_like(target) for _ in range(2)]
        torch.distributed.all_gather(parts, logits)
        torch.distributed.all_gather(labels, target)
        logits, target = torch.cat(parts), torch.cat(labels)
    return _compare(model.meter, logits, target)


def _compare(meter: ct.StreamingCalibration, logits: Tensor, target: Tensor) -> list[Comparison]:
    found, rows = meter.compute(), logits.double().numpy()
    expected = [metric(name, target.numpy(), rows, space="logit") for name in METRICS]
    return [
        (torch.tensor(found[name], dtype=torch.float64), torch.tensor(float(value), dtype=torch.float64), 1e-9)
        for name, value in zip(METRICS, expected, strict=True)
    ]


CHECKS |= {("losses", name): partial(check_loss, make) for name, make in LOSSES.items()}
CHECKS["meter", "StreamingCalibration"] = check_meter
