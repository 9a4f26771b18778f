"""The contract of a loss as a suite anyone can run on one of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from calibrant.errors import require

__all__ = ["check_loss"]


def check_loss(
    loss: Callable[[Any, Any], Any], twin: Callable[[Any, Any], float] | None = None, *, rng: int = 0
) -> None:
    """Raise AssertionError unless a loss of (logits, target) can be trained with safely.

    Parameters
    ----------
    loss : callable
        A module or function of logits (batch, K) and integer targets (batch,) that returns a scalar.
    twin : callable, optional
        The same formula in NumPy: float64 logits and labels → float. Must agree to 1e-6.
    rng : int, default 0
        Seed of the simulated batches.

    Notes
    -----
    Checks, on ordinary batches and on all-correct, all-wrong, saturated (±60), one-row, one-class and uniform ones:
    a finite scalar, finite slopes, the twin's value; on ordinary ones the slope against finite differences in
    float64 and no change of the arguments; and that float16 and bfloat16 logits are summed in float32 or better.

    Examples
    --------
    >>> from calibrant.torch import UCELoss
    >>> check_loss(UCELoss())
    """
    torch = require("torch", "torch", "check_loss")
    for name, (logits, target) in batches(rng).items():
        for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
            z = logits.to(dtype).clone().requires_grad_()
            kept = z.detach().clone()
            value = loss(z, target)
            _must(value.ndim == 0, loss, f"a scalar comes out ({name})")
            _must(value.dtype in (torch.float32, torch.float64), loss, f"{dtype} is summed in float32 or better")
            _must(torch.isfinite(value), loss, f"the value is finite ({name}, {dtype})")
            (slope,) = torch.autograd.grad(value, z, allow_unused=True)
            _must(slope is not None and torch.isfinite(slope).all(), loss, f"slopes are finite ({name}, {dtype})")
            _must(torch.equal(z.detach(), kept), loss, "arguments are not changed")
        if twin is not None:
            difference = abs(float(loss(logits, target)) - twin(logits.numpy(), target.numpy()))
            _must(difference <= 1e-6, loss, f"the NumPy twin agrees to 1e-6 ({name}: {difference:.2g} off)")
    logits, target = batches(rng)["ordinary"]
    try:
        torch.autograd.gradcheck(lambda z: loss(z, target), logits.clone().requires_grad_())
    except RuntimeError as error:
        raise AssertionError(f"{_name(loss)} breaks the contract: slopes equal finite differences ({error})") from error


def batches(rng: int = 0) -> dict[str, tuple[Any, Any]]:
    """Return named batches of float64 logits and targets: an ordinary one and the hard ones."""
    torch = require("torch", "torch", "check_loss")
    draw = torch.Generator().manual_seed(rng)

    def normal(*shape: int) -> Any:
        return torch.randn(*shape, dtype=torch.float64, generator=draw)

    target = torch.arange(12) % 4
    truth = torch.nn.functional.one_hot(target, 4).double()
    beside = truth.roll(1, dims=1)
    return {
        "ordinary": (2 * normal(12, 4), target),
        "all correct": (5 * truth + 0.1 * normal(12, 4), target),
        "all wrong": (5 * beside + 0.1 * normal(12, 4), target),
        "saturated and right": (120 * truth - 60, target),
        "saturated and wrong": (120 * beside - 60, target),
        "one row": (normal(1, 4), target[:1]),
        "one class": (normal(12, 4) + 9 * truth[:1], torch.zeros(12, dtype=torch.long)),
        "uniform": (torch.zeros(12, 4, dtype=torch.float64), target),
        "two classes": (normal(12, 2), target % 2),
    }


def _name(loss: Any) -> str:
    return str(getattr(loss, "__name__", type(loss).__name__))


def _must(holds: Any, loss: Any, rule: str) -> None:
    if not bool(holds):
        raise AssertionError(f"{_name(loss)} breaks the contract: {rule}")
