"""Seeded randomness for torch without leaving a trace in its global state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from calibrant._typing import RNG
from calibrant.core.options import check_rng


@contextmanager
def seeded(rng: RNG, caller: str) -> Iterator[None]:
    """Draw as `rng` says inside the block (all devices) and restore torch's generators afterwards.

    None draws from torch's own state, as any torch code does, and moves it on.
    """
    if rng is None:
        yield
        return
    seed = int(rng) if isinstance(rng, int | np.integer) else int(check_rng(rng, caller).integers(2**63))
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(seed)
        yield
