"""Where compiled kernels come from: `calibrant[fast]`, or nothing, and then NumPy does the work.

Loading numba takes time, so a process pays for it only when it has seen enough work to gain that back;
the numbers are the same. ``CALIBRANT_FAST=0`` keeps to NumPy, ``CALIBRANT_FAST=1`` loads the kernels
at the first chance.
"""

from __future__ import annotations

import functools
import importlib
import logging
import os
import sys
from collections.abc import Callable
from typing import Any

__all__ = ["expect", "kernel"]

#: Numbers below which a call is not worth a compiled kernel.
LEAST = 1 << 15
#: Numbers a process must have seen before it loads numba.
PAYS = 60_000_000

_seen = 0.0


@functools.cache
def _module() -> Any:
    """The compiled kernels, or None where numba is absent or does not work here."""
    try:
        return importlib.import_module("calibrant._compiled")
    except Exception as error:  # numba may be broken in any way: NumPy can, and the log says why
        logging.getLogger(__name__).info("compiled kernels are not used: %s", error)
        return None


@functools.cache
def _compiled(name: str) -> Callable[..., Any] | None:
    module = _module()
    if module is None:
        return None
    try:
        return module.compiled(name)
    except Exception:  # a processor or version that numba cannot serve: NumPy can
        return None


def kernel(name: str, size: int, gain: float = 1.0) -> Callable[..., Any] | None:
    """Return a compiled kernel for `size` numbers, each worth `gain` beside others, or None where NumPy does the work.

    Examples
    --------
    >>> kernel("width_pass", 10) is None  # too little work
    True
    """
    global _seen  # noqa: PLW0603 -- how much work this process has seen
    wish = os.environ.get("CALIBRANT_FAST", "")
    if wish == "0" or (size < LEAST and wish != "1"):
        return None
    if "numba" not in sys.modules and wish != "1":
        _seen += gain * size
        if _seen < PAYS:
            return None
    return _compiled(name)


def expect(numbers: float) -> None:
    """Count numbers that this process is about to see: the kernels are loaded before the first, not amid them."""
    global _seen  # noqa: PLW0603 -- as in `kernel`
    _seen += numbers
