"""What the cells share: rows, rounding, autocast, two processes, noise that is known."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn

K = 5
#: Rows as an image: batch, height, width.
IMAGE = (3, 4, 5)
#: Class weights that short floats cannot hold.
CLASS_WEIGHT = torch.tensor([1.1, 0.3, 2.7, 0.9, 1.3])
SHORT = {
    "float16 autocast": torch.float16,
    "bfloat16": torch.bfloat16,
    ".half()": torch.float16,
    ".bfloat16()": torch.bfloat16,
}


def rows(n: int = 60, k: int = K, seed: int = 0, scale: float = 2.0) -> tuple[Tensor, Tensor]:
    """Return float64 logits and class indices."""
    draw = torch.Generator().manual_seed(seed)
    return scale * torch.randn(n, k, generator=draw, dtype=torch.float64), torch.randint(0, k, (n,), generator=draw)


def as_image(values: Tensor) -> Tensor:
    """Return rows (60, K) as (3, K, 4, 5), and labels (60,) as (3, 4, 5)."""
    image = values.reshape(*IMAGE, *values.shape[1:])
    return image.movedim(-1, 1) if values.ndim == 2 else image


def as_rows(image: Tensor) -> Tensor:
    """Return (3, K, 4, 5) as rows."""
    return image.movedim(1, -1).reshape(-1, image.shape[1])


def autocast(condition: str) -> Any:
    """Return the context of a condition."""
    return torch.autocast("cpu", SHORT[condition]) if condition in ("bfloat16", "float16 autocast") else nullcontext()


def turned(module: Any, condition: str) -> Any:
    """Return a module in the dtype of a condition."""
    return module.to(SHORT[condition]) if condition in (".half()", ".bfloat16()") else module


def dtype_of(condition: str) -> torch.dtype:
    """Return the dtype of what goes in: short floats where the module itself is short."""
    return SHORT[condition] if condition in (".half()", ".bfloat16()") else torch.float32


def compiled(what: Any, *, whole: bool = True) -> Any:
    """Compile, forgetting what was compiled before."""
    torch._dynamo.reset()
    return torch.compile(what, backend="aot_eager", fullgraph=whole)


def wrapped(model: nn.Module) -> Any:
    """Return a model in DistributedDataParallel."""
    return nn.parallel.DistributedDataParallel(model)


def rank() -> int:
    """Return the number of this process."""
    return int(torch.distributed.get_rank()) if torch.distributed.is_initialized() else 0


@contextmanager
def known_noise(value: float = 1.0) -> Iterator[None]:
    """Replace normal noise by one number, so that an answer is its mean plus that many standard deviations."""

    def full_like(like: Tensor, **more: Any) -> Tensor:
        return torch.full_like(like, value, **more)

    def full(*shape: Any, **more: Any) -> Tensor:
        more.pop("generator", None)
        size = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        return torch.full(tuple(size), value, **more)

    with mock.patch.object(torch, "randn_like", full_like), mock.patch.object(torch, "randn", full):
        yield
