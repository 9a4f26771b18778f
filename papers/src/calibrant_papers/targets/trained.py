"""Targets that train networks: the UCE paper's tables 1-2 and figures 2, 7-9, Nixon's figures 3, 5, 6, 9 and 10."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from calibrant._typing import RNG
from calibrant_papers.targets import trained_nixon, trained_uce
from calibrant_papers.targets.result import TargetResult

__all__ = ["TARGETS"]

#: Target name -> function (quick, data, rng).
TARGETS: dict[str, Callable[[bool, Path | None, RNG], TargetResult]] = {**trained_nixon.TARGETS, **trained_uce.TARGETS}
