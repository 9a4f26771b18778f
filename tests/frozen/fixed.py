"""Fixed rows behind the families of this folder, and how a call becomes an answer.

Rows come from `numpy.random.RandomState`, whose numbers never change, and from no code of the library.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

import numpy as np

from frozen.asking import asked


class Rows(NamedTuple):
    """Labels, probabilities, the logits behind them, and weights."""

    y: np.ndarray
    p: np.ndarray
    z: np.ndarray
    counts: np.ndarray
    shares: np.ndarray
    groups: np.ndarray


class Means(NamedTuple):
    """Truth with mean and variance, and weights."""

    y: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    counts: np.ndarray
    shares: np.ndarray
    groups: np.ndarray


def softmax(z: np.ndarray) -> np.ndarray:
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def class_rows(n: int = 240, k: int = 4, seed: int = 1, temperature: float = 1.4) -> Rows:
    """Return rows of an overconfident model that also prefers its first class."""
    draw = np.random.RandomState(seed)
    z = draw.normal(0.0, 1.7, (n, k)).round(6)
    law = softmax(z / temperature - 0.3 * (np.arange(k) == 0))
    y = np.minimum((law.cumsum(axis=1) < draw.uniform(size=(n, 1))).sum(axis=1), k - 1)
    return Rows(y, softmax(z), z, *_weights(draw, n))


def mean_rows(n: int = 240, seed: int = 2) -> Means:
    """Return rows of error bars that are too narrow, with a small bias."""
    draw = np.random.RandomState(seed)
    mean = draw.normal(0.0, 2.0, n).round(6)
    variance = draw.gamma(2.0, 0.4, n).round(6) + 0.05
    y = (mean + 0.15 + 1.3 * np.sqrt(variance) * draw.normal(size=n)).round(6)
    return Means(y, mean, variance, *_weights(draw, n))


def _weights(draw: np.random.RandomState, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return draw.randint(1, 5, n).astype(float), draw.gamma(2.0, 0.7, n).round(6) + 0.01, draw.randint(0, 40, n)


def answer(call: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Return what a call gives as plain data; an error of the library is its one line, any other one a crash."""
    try:
        return plain(asked(lambda: call(*args, **options)))
    except AssertionError:
        raise
    except Exception as error:  # whatever it is, it is what a user would see
        return {"crashed": f"{type(error).__name__}: {error}"}


def plain(value: Any) -> Any:
    """Return what JSON can hold."""
    if value is None or isinstance(value, str | bool | int | float):
        return str(value) if isinstance(value, str) else value
    if hasattr(value, "detach"):
        return plain(value.detach().cpu().numpy())
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if hasattr(value, "to_dict"):
        return plain(value.to_dict())
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    return value.isoformat() if isinstance(value, dt.date | dt.time) else str(value)
