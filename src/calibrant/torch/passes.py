"""One pass of a network over a batch as loaders give it: inputs, targets, logits as rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from calibrant.errors import input_error
from calibrant.torch.batch import IGNORE, as_rows

#: Where dictionaries of inputs keep the truth; the first is Hugging Face's.
LABELS = ("labels", "label", "target", "targets")


def split_batch(batch: Any) -> tuple[Any, Tensor | None]:
    """Return inputs and targets (or None) of one batch of a loader: a tensor, a tuple or a dictionary."""
    if isinstance(batch, Mapping):
        names = [name for name in LABELS if name in batch]
        inputs = {name: value for name, value in batch.items() if name not in names}
        return inputs, torch.as_tensor(batch[names[0]]) if names else None
    if isinstance(batch, tuple | list):
        return batch[0], torch.as_tensor(batch[1]) if len(batch) > 1 else None
    return batch, None


def device_of(model: nn.Module, device: str | torch.device | None) -> torch.device:
    """Return the asked device, or the one of the model's first parameter."""
    if device is not None:
        return torch.device(device)
    parameter = next(model.parameters(), None)
    return torch.device("cpu") if parameter is None else parameter.device


def run(network: nn.Module, inputs: Any, where: torch.device) -> Any:
    """Call a network with inputs moved to its device; dictionaries become named arguments."""
    if isinstance(inputs, Mapping):
        return network(**{name: _move(value, where) for name, value in inputs.items()})
    return network(_move(inputs, where))


def _move(value: Any, where: torch.device) -> Any:
    return value.to(where) if hasattr(value, "to") else value


def logits_of(out: Any, caller: str) -> Tensor:
    """Return the logits of what a network returned: a tensor, or a record that has them by name."""
    found = out["logits"] if isinstance(out, Mapping) and "logits" in out else getattr(out, "logits", out)
    if not isinstance(found, Tensor) or found.ndim < 1 or not found.is_floating_point():
        shown = f"shape {tuple(found.shape)}" if isinstance(found, Tensor) else type(found).__name__
        raise input_error(
            "model",
            caller,
            "return logits of shape (batch, K)",
            shown,
            "wrap the model so that its forward returns the logits",
        )
    return found


def logit_rows(logits: Tensor, target: Tensor | None, caller: str) -> Tensor:
    """Return logits as float32 rows (n, K): one logit becomes two columns, pixels and tokens become rows.

    Classes stand in dimension 1; where the shape of the targets says so, in the last (tokens of Hugging Face models).
    """
    logits = logits.float()
    if logits.ndim == 1 or logits.shape[1] == 1:
        column = logits.reshape(-1)
        return torch.stack([torch.zeros_like(column), column], dim=1)
    if logits.ndim == 2:
        return logits
    spots = logits.shape[:1] + logits.shape[2:]
    if target is not None and target.shape != spots and target.shape == logits.shape[:-1]:
        return logits.reshape(-1, logits.shape[-1])
    if target is None and logits.ndim == 3:
        raise input_error(
            "model",
            caller,
            "return logits of shape (batch, K) when no targets tell which axis holds the classes",
            f"shape {tuple(logits.shape)}",
            "yield targets too, or flatten the rows",
        )
    return as_rows(logits)


def counted(target: Tensor | None, n: int, ignore_index: int = IGNORE) -> tuple[Tensor | None, Tensor | None]:
    """Return flat targets and the rows that count; None where all do."""
    if target is None:
        return None, None
    flat = target.reshape(-1)
    if len(flat) != n:
        raise input_error(
            "loader",
            "predict",
            f"give {n} targets",
            f"shape {tuple(target.shape)}",
            "one class index per row of logits",
        )
    keep = flat != ignore_index
    return (flat, None) if bool(keep.all()) else (flat[keep], keep)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Run in evaluation mode without gradients; the mode of every part comes back."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, training in modes.items():
            module.training = training


def each_loader(held: Any) -> Iterator[Iterable[Any]]:
    """Yield the loaders of what Lightning takes: one, or lists and dictionaries of them."""
    if isinstance(held, Mapping | list | tuple):
        for part in held.values() if isinstance(held, Mapping) else held:
            yield from each_loader(part)
    else:
        yield held


def as_batches(loader: Any) -> Iterable[Any]:
    """Return a loader, or one batch that was given in its place."""
    return [loader] if isinstance(loader, Tensor | Mapping) else loader


@contextmanager
def watched(layer: nn.Module) -> Iterator[list[tuple[tuple[Any, ...], Any]]]:
    """Collect the inputs and the output of each call of a layer."""
    calls: list[tuple[tuple[Any, ...], Any]] = []
    handle = layer.register_forward_hook(lambda _, args, out: calls.append((args, out)))
    try:
        yield calls
    finally:
        handle.remove()


def is_output(found: Any, logits: Tensor) -> bool:
    """Whether the output of a layer is the model's output."""
    if not isinstance(found, Tensor):
        return False
    return found is logits or (found.shape == logits.shape and torch.equal(found, logits))


def find_layer(model: nn.Module, layer: nn.Module | str, caller: str) -> nn.Module:
    """Return a layer of a model, given by itself or by its name."""
    names = dict(model.named_modules())
    if isinstance(layer, str) and layer in names:
        return names[layer]
    if isinstance(layer, nn.Module) and any(layer is module for module in names.values()):
        return layer
    shown = ", ".join(name for name in names if name)[:200]
    raise input_error("layer", caller, "be a layer of the model or its name", repr(layer), f"choose one of {shown}")


def output_layer(model: nn.Module, inputs: Any, where: torch.device) -> str:
    """Return the name of the layer with parameters whose output is the model's output, or an empty string."""
    seen: dict[str, Any] = {}
    handles = [
        module.register_forward_hook(lambda _, __, out, name=name: seen.update({name: out}))
        for name, module in model.named_modules()
        if name and any(True for _ in module.parameters(recurse=False))
    ]
    try:
        logits = logits_of(run(model, inputs, where), "predict")
    finally:
        for handle in handles:
            handle.remove()
    return next((name for name, out in reversed(seen.items()) if is_output(out, logits)), "")
