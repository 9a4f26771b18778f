"""Checks of options that are plain numbers: counts, positive numbers, fractions, seeds."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np

from calibrant.errors import input_error

__all__ = [
    "check_count", "check_counts", "check_number", "check_numbers", "check_path", "check_positive", "check_rng",
    "check_scale", "check_share", "check_type", "listed"
]  # fmt: skip

#: Larger counts are no request that could be met.
MOST = 10**9


def check_count(value: int, argument: str, caller: str, least: int = 0, usual: str = "1000", most: int = MOST) -> int:
    """Return a whole number, not below the least and not above the most."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < least:
        raise input_error(argument, caller, f"be a whole number of at least {least}", repr(value), f"use {usual}")
    if value > most:
        raise input_error(argument, caller, f"be at most {most:,}", repr(value), f"use {usual}")
    return int(value)


def check_type(value: Any, kind: Any, argument: str, caller: str, rule: str, hint: str = "see its help") -> Any:
    """Return a value of a type; `rule` says which in words."""
    if not isinstance(value, kind):
        raise input_error(argument, caller, rule, repr(value)[:200], hint)
    return value


def check_path(value: Any, argument: str, caller: str) -> Any:
    """Return the path of a file or a folder."""
    check_type(value, str | os.PathLike, argument, caller, "be a path", "pass a name as text")
    if "\0" in str(value):
        raise input_error(argument, caller, "be a name without a null character", repr(value), "check the path")
    return value


def listed(values: Any, argument: str, caller: str) -> list[Any]:
    """Return several things as a list; a word or a mapping is one thing."""
    single = isinstance(values, str | bytes | dict) or getattr(values, "ndim", 1) == 0
    if single or not isinstance(values, Iterable):
        raise input_error(argument, caller, "be a list", repr(values)[:200], "pass for example [10, 20]")
    return list(values)


def check_numbers(values: Any, argument: str, caller: str) -> list[float]:
    """Return several positive numbers, at least one."""
    hint = "pass for example [0.5, 1]"
    numbers = [check_positive(value, argument, caller, hint) for value in listed(values, argument, caller)]
    if not numbers:
        raise input_error(argument, caller, "hold at least one number", repr(values), hint)
    return numbers


def check_counts(values: Iterable[int], argument: str, caller: str, least: int = 1) -> list[int]:
    """Return several whole numbers, at least one."""
    counts = [
        check_count(value, argument, caller, least, "whole numbers") for value in listed(values, argument, caller)
    ]
    if not counts:
        raise input_error(argument, caller, "hold at least one number", repr(values), "pass for example [10, 20]")
    return counts


def check_number(value: float, argument: str, caller: str, rule: str, hint: str = "use the default") -> float:
    """Return a finite number; `rule` is what the caller will ask of it."""
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool | complex | np.complexfloating)
    if not (number and abs(value) <= sys.float_info.max):
        raise input_error(argument, caller, rule, repr(value), hint)
    return float(value)


def check_positive(value: float, argument: str, caller: str, hint: str = "use the default") -> float:
    """Return a positive, finite number."""
    rule = "be a positive number"
    if not check_number(value, argument, caller, rule, hint) > 0:
        raise input_error(argument, caller, rule, repr(value), hint)
    return float(value)


def check_scale(value: float, argument: str, caller: str, hint: str = "use the default") -> float:
    """Return a positive number whose square is a number too."""
    if not 1e-100 <= check_positive(value, argument, caller, hint) <= 1e100:
        raise input_error(argument, caller, "be a positive number from 1e-100 to 1e100", repr(value), hint)
    return float(value)


def check_share(value: float, argument: str, caller: str, usual: str = "0.95") -> float:
    """Return a number strictly between 0 and 1."""
    rule, hint = "lie between 0 and 1", f"use {usual}"
    if not 0 < check_number(value, argument, caller, rule, hint) < 1:
        raise input_error(argument, caller, rule, repr(value), hint)
    return float(value)


def check_rng(rng: Any, caller: str) -> np.random.Generator:
    """Turn None, an int or a Generator into a Generator (SPEC 7)."""
    try:
        return np.random.default_rng(rng)
    except (TypeError, ValueError, OverflowError) as error:
        raise input_error("rng", caller, "be None, an integer or a Generator", repr(rng), "pass a seed") from error
