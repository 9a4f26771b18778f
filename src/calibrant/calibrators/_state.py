"""What a fitted state may be: names, shapes, ranges, and a map that keeps what its method declares.

A file can be changed and its checksum written anew, so `load` trusts nothing in it: declared names alone are taken,
each value must obey the rule of its name, and the restored map is tried on a few rows before anybody gets it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from calibrant._typing import Array, Floats
from calibrant.core.links import softmax

__all__ = ["StateError", "check_state", "try_map"]

#: A fitted number beyond this size is no result of a fit.
_LARGEST = 1e100


class StateError(Exception):
    """What is wrong with a state, in a few words; `load` names the file."""


def _need(ok: Any, name: str, rule: str) -> None:
    if not ok:
        raise StateError(f"{name} must {rule}")


def _arrays(value: Any) -> Iterator[Array]:
    """Yield the numbers of a value: one array, or those of a list."""
    if isinstance(value, list | tuple):
        for item in value:
            yield from _arrays(item)
    elif isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, bool) or not isinstance(value, int | float):
        raise StateError(f"{type(value).__name__} where numbers belong")
    else:
        yield np.asarray(value)


def _numbers(test: Callable[[Array], Any], rule: str, largest: float = _LARGEST) -> Callable[[str, Any], None]:
    def check(name: str, value: Any) -> None:
        for array in _arrays(value):
            _need(array.dtype.kind in "fiub", name, "hold numbers")
            _need(np.isfinite(array).all() and (np.abs(array) <= largest).all(), name, "be finite")
            _need(test(array), name, rule)

    return check


def _whole(name: str, value: Any) -> None:
    _need(isinstance(value, int) and not isinstance(value, bool) and value >= 2, name, "be a whole number above 1")


def _text(name: str, value: Any) -> None:
    _need(isinstance(value, str), name, "be text")


def _records(name: str, value: Any) -> None:
    _need(isinstance(value, list) and all(isinstance(item, dict) for item in value), name, "be a list of records")


def _part(name: str, value: Any) -> None:
    parts = value if isinstance(value, list) else [value]
    _need(parts and all(hasattr(type(part), "fitted_state") for part in parts), name, "hold fitted calibrators")
    _need(all(part.__sklearn_is_fitted__() for part in parts), name, "hold fitted calibrators")


def _rises(x: Array) -> bool:
    return x.ndim == 1 and bool((np.diff(x) >= 0).all())


_FINITE = _numbers(lambda _: True, "be finite")
_POSITIVE = _numbers(lambda x: (x > 0).all(), "be positive")
_NOT_NEGATIVE = _numbers(lambda x: (x >= 0).all(), "not be negative")
_PROBABILITIES = _numbers(lambda x: ((x >= 0) & (x <= 1)).all(), "lie in [0, 1]")
_RISING = _numbers(_rises, "not fall")
_RISING_PROBABILITIES = _numbers(lambda x: _rises(x) and ((x >= 0) & (x <= 1)).all(), "rise inside [0, 1]")
_SIMPLEX = _numbers(lambda x: (x >= 0).all() and abs(float(x.sum()) - 1) < 1e-6, "be shares that sum to 1")

#: Fitted attribute → rule; an attribute means the same in every method. Others hold finite numbers.
RULES: dict[str, Callable[[str, Any], None]] = {
    "n_classes_": _whole,
    "floor_": _numbers(lambda x: 0 <= x < 1, "lie in [0, 1)"),
    "smallest_": _numbers(lambda x: 0 <= x <= 1, "lie in [0, 1]"),
    "temperature_": _numbers(lambda x: (x > 0).all(), "be positive", largest=np.inf),  # the scale of the logits
    "temperatures_": _POSITIVE,
    "weights_": _SIMPLEX,
    "factor_": _POSITIVE,
    "offset_": _NOT_NEGATIVE,
    "length_": _POSITIVE,
    "variance_": _NOT_NEGATIVE,
    "thresholds_": _RISING,
    "edges_": _RISING,
    "knots_": _RISING,
    "points_": _RISING,
    "scores_": _RISING,
    "levels_": _RISING_PROBABILITIES,
    "lower_": _PROBABILITIES,
    "upper_": _PROBABILITIES,
    "records_": _records,
    "reason_": _text,
    "best_": _part,
    "first_": _part,
    "second_": _part,
    "scaler_": _part,
    "calibrators_": _part,
}


def check_state(calibrator: Any, state: dict[str, Any]) -> None:
    """Refuse a state with a name that the method does not declare, without one it needs, or with a wrong value."""
    allowed = calibrator.declared_state()
    for name in state:
        _need(name in allowed, name, f"be one of {', '.join(allowed)}")
    for name in calibrator.state:
        _need(name in state, name, "be there")
    for name, value in state.items():
        RULES.get(name, _FINITE)(name, value)
    if getattr(calibrator, "view", None) in ("log", "logit") and calibrator.input_space == "proba":
        lifts = state.get("floor_", 0.0) > 0 or state.get("smallest_", 0.0) > 0
        _need(lifts, "floor_ or smallest_", "be positive where a logarithm of probabilities is taken")
    classes: Any = getattr(calibrator, "classes_", None)
    if calibrator.task == "classes":
        plain = isinstance(classes, np.ndarray) and classes.ndim == 1
        _need(plain and len(classes) == state.get("n_classes_"), "classes", "name every class once")
        _need(len(set(classes.tolist())) == len(classes), "classes", "be distinct")


def try_map(calibrator: Any) -> None:
    """Run the restored map on a few rows: probabilities without a warning, and what the method declares holds."""
    with warnings.catch_warnings(), np.errstate(divide="warn", over="warn", invalid="warn", under="ignore"):
        warnings.simplefilter("error", RuntimeWarning)
        if calibrator.task == "regression":
            mean, variance = calibrator.predict(np.array([0.0, 1.0, -3.0]), np.array([1.0, 0.25, 9.0]))
            _need(np.isfinite(mean).all() and np.isfinite(variance).all(), "the map", "give finite numbers")
            _need((variance > 0).all(), "the map", "give positive variances")
            return
        rows = _rows(calibrator.n_classes_)
        sure = np.eye(calibrator.n_classes_)[[0, -1]]
        logits = calibrator.input_space == "logit"
        given = np.concatenate([rows, 1000 * sure]) if logits else np.concatenate([softmax(rows), sure])
        rows = np.concatenate([rows, sure])
        q = calibrator.predict_proba(given)
        _need(q.shape == rows.shape and np.isfinite(q).all(), "the map", "give finite probabilities")
        _need((q >= 0).all() and (np.abs(q.sum(axis=1) - 1) < 1e-6).all(), "the map", "give rows that sum to 1")
        if calibrator.preserves_argmax:
            chosen = np.take_along_axis(q, rows.argmax(axis=1)[:, None], axis=1)[:, 0]
            _need((chosen >= q.max(axis=1) - 1e-12).all(), "the map", "keep the predicted class")


def _rows(k: int) -> Floats:
    """Return a few rows of logits: sure of one class or another, unsure, and in between."""
    spread = np.linspace(-3.0, 3.0, k)
    return np.stack([spread, spread[::-1], np.roll(0.2 * spread, 1), np.roll(4 * spread, k // 2)])
