"""Torch modules that compute in float64 wherever they are moved: the exported calibrator and states of any module."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from calibrant.core.programs import Program, Step
from calibrant.errors import input_error


class WideStates(nn.Module):  # type: ignore[misc]  # torch is untyped here
    """A module with states that follow its device and keep their dtype, and that data-parallel wrappers leave alone.

    `.half()`, `.float()` and `.to(torch.bfloat16)` turn buffers into short floats, and DistributedDataParallel
    overwrites buffers from its first process; both are wrong for sums. These states are no buffers, but they are
    saved in `state_dict` under their names (unless ``persistent=False``). Apple's devices have no float64: there the
    states stay on the CPU.
    """

    def __init__(self) -> None:
        super().__init__()
        self._wide: dict[str, Tensor] = {}
        self._wide_saved: list[str] = []
        self._wide_device: torch.device | None = None

    def add_wide(self, name: str, value: Tensor, *, persistent: bool = True) -> None:
        """Add a state."""
        self._wide[name] = value.cpu() if value.device.type == "mps" and value.dtype == torch.float64 else value
        if persistent:
            self._wide_saved.append(name)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> WideStates:
        super()._apply(fn, recurse)
        if self._wide_device is None:
            for name, value in self._wide.items():
                self._wide[name] = follow(value, fn)
        return self

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for name in self._wide_saved:
            destination[prefix + name] = self._wide[name]

    def _load_from_state_dict(
        self,
        state_dict: Mapping[str, Tensor],
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )
        for name in self._wide_saved:
            key = prefix + name
            if key in unexpected_keys:
                unexpected_keys.remove(key)
            if key not in state_dict:
                missing_keys.append(key)
            elif state_dict[key].shape != self._wide[name].shape:
                found, own = tuple(state_dict[key].shape), tuple(self._wide[name].shape)
                error_msgs.append(f"size mismatch for {key}: the checkpoint has {found}, this module {own}")
            else:
                with torch.no_grad():
                    self._wide[name].copy_(state_dict[key])


def follow(value: Tensor, fn: Callable[[Tensor], Tensor]) -> Tensor:
    """Return a state where `fn` would move a float32 tensor, in its own dtype."""
    where = fn(torch.empty(0, device=value.device)).device
    if where.type == "mps" and value.dtype == torch.float64:
        where = torch.device("cpu")
    if where == value.device:
        return value
    return torch.zeros_like(value, device=where) if value.device.type == "meta" else value.to(where)


class CalibratorModule(WideStates):
    """A fitted calibrator as a torch module: scores (n, K) or (n, K, …) in, the same shape and dtype out.

    It computes in float64 and differentiates where the map does. A trainable one has float32 parameters – those of
    the linear map in front of the softmax – and returns logits, ready for a loss.
    """

    def __init__(self, program: Program, n_classes: int, name: str, trainable: bool = False) -> None:
        super().__init__()
        self.n_classes, self.name, self.trainable = n_classes, name, trainable
        self.steps = program.steps
        chosen = trainable_steps(program, name) if trainable else {}
        for i, step in enumerate(self.steps):
            for j, array in enumerate(step.arrays):
                value = torch.from_numpy(np.array(array))
                if i in chosen:
                    self.register_parameter(f"constant_{i}_{j}", nn.Parameter(value.float()))
                else:
                    self.add_wide(f"constant_{i}_{j}", value)

    def forward(self, scores: Tensor) -> Tensor:
        """Return calibrated probabilities (logits when trainable), classes in dimension 1 as given."""
        if scores.ndim < 2 or scores.shape[1] != self.n_classes or not scores.is_floating_point():
            raise input_error(
                "scores",
                f"{self.name} as a torch module",
                f"be floating point of shape (n, {self.n_classes}) or (n, {self.n_classes}, …)",
                f"shape {tuple(scores.shape)}, dtype {scores.dtype}",
                "classes stand in dimension 1, as in torch: scores.movedim(-1, 1)",
            )
        rows = scores if scores.ndim == 2 else scores.movedim(1, -1).reshape(-1, self.n_classes)
        out = self._map(rows).to(scores.dtype)
        if scores.ndim == 2:
            return out
        return out.reshape(scores.shape[0], *scores.shape[2:], self.n_classes).movedim(-1, 1)

    def _map(self, rows: Tensor) -> Tensor:
        dtype = torch.float32 if rows.device.type == "mps" else torch.float64
        values: list[Any] = [rows.to(dtype)]
        last = _softmax_step(self.steps) if self.trainable else len(self.steps)
        for i, step in enumerate(self.steps[1:last], start=1):
            constants = [self._constant(i, j, rows, dtype) for j in range(len(step.arrays))]
            values.append(_torch_step(step, constants, [values[k] for k in step.inputs]))
        return values[self.steps[last].inputs[0]] if self.trainable else values[-1]

    def _constant(self, i: int, j: int, rows: Tensor, dtype: torch.dtype) -> Tensor:
        name = f"constant_{i}_{j}"
        return (self._wide[name] if name in self._wide else getattr(self, name)).to(rows.device, dtype)

    def extra_repr(self) -> str:
        """Show the method."""
        return f"{self.name}, n_classes={self.n_classes}" + (", trainable=True" if self.trainable else "")


def _softmax_step(steps: list[Step]) -> int:
    """Return the place of the softmax whose rows are the answer, or 0."""
    ops = [step.op for step in steps[-3:]]
    return len(steps) - 3 if ops == ["softmax", "sum", "div"] else 0


def trainable_steps(program: Program, name: str) -> dict[int, Step]:
    """Return the steps whose constants belong to the linear map in front of the softmax."""
    steps, found = program.steps, {}
    place = _softmax_step(steps)
    at = steps[place].inputs[0] if place else 0
    while at:
        step = steps[at]
        if step.op == "matmul":
            found[at] = step
            at = step.inputs[0]
            continue
        constant = [i for i in step.inputs if steps[i].op == "constant"]
        others = [i for i in step.inputs if steps[i].op != "constant"]
        if step.op not in ("add", "sub", "mul", "div") or not constant or not others:
            break
        found[constant[0]] = steps[constant[0]]
        at = others[0]
    if not found:
        raise input_error(
            "trainable",
            "to_torch",
            "be False for a map that does not end in a linear map and a softmax",
            name,
            "train temperature, vector, matrix or Dirichlet scaling",
        )
    return found


def run_torch(program: Program, x: Any, sources: Mapping[str, Callable[[], Any]]) -> Any:
    """Run a program on a float64 tensor (n, K) where it lies; `sources` gives further inputs by name."""
    last = {i: at for at, step in enumerate(program.steps) for i in step.inputs}
    values: list[Any] = []
    for at, step in enumerate(program.steps):
        if step.op == "input":
            values.append(x)
        elif step.op in sources:
            values.append(sources[step.op]())
        else:
            constants = [torch.from_numpy(np.array(array)).to(x.device) for array in step.arrays]
            values.append(_torch_step(step, constants, [values[i] for i in step.inputs]))
        for i in step.inputs:
            if last[i] == at:  # matrices are given back as soon as nothing reads them
                values[i] = None
    return values[-1]


def _torch_step(step: Step, constants: list[Any], x: list[Any]) -> Any:
    simple: dict[str, Callable[..., Any]] = {
        "add": torch.add,
        "sub": torch.sub,
        "mul": torch.mul,
        "div": torch.div,
        "greater": torch.gt,
        "not_less": torch.ge,
        "exp": torch.exp,
        "log": torch.log,
        "sqrt": torch.sqrt,
        "sigmoid": torch.sigmoid,
        "maximum": torch.maximum,
        "minimum": torch.minimum,
        "where": torch.where,
    }
    if step.op in simple:
        return simple[step.op](*x)
    match step.op:
        case "constant":
            return constants[0]
        case "sum":
            return x[0].sum(dim=1, keepdim=True)
        case "max":
            return x[0].amax(dim=1, keepdim=True)
        case "cumsum":
            return torch.cumsum(x[0], dim=1)
        case "flip":
            return torch.flip(x[0], (1,))
        case "softmax":
            return torch.softmax(x[0], dim=1)
        case "log_softmax":
            return torch.log_softmax(x[0], dim=1)
        case "matmul":
            return x[0] @ constants[0]
        case "columns":
            return x[0][:, step.options["start"] : step.options["stop"]]
        case "concat":
            return torch.cat(x, dim=1)
        case "order":
            return torch.sort(x[0], dim=1, descending=True, stable=True).indices
        case "rank":
            order = torch.sort(x[0], dim=1, descending=True, stable=True).indices
            return torch.argsort(order, dim=1)
        case "take":
            return torch.gather(x[0], 1, x[1])
        case "pick":
            return x[0].expand(len(x[1]), -1).gather(1, x[1])
        case "search":
            return _torch_search(constants[0], x[0], step.options["side"] == "right")
        case _:  # lookup
            table = constants[0]
            return table[x[0]] if table.ndim == 1 else table[torch.arange(len(table), device=table.device), x[0]]


def _torch_search(knots: Any, x: Any, right: bool) -> Any:
    if knots.ndim == 1:
        return torch.searchsorted(knots, x.contiguous(), right=right)
    return torch.searchsorted(knots, x.T.contiguous(), right=right).T
