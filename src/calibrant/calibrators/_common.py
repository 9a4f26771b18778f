"""What every calibrator has, whatever it maps: declared facts, a fitted state, one artifact."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Self

from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError as SklearnNotFittedError

from calibrant.calibrators import _artifact
from calibrant.core.arguments import check_arguments
from calibrant.core.declare import MetricTask
from calibrant.core.inputs import check_names
from calibrant.core.options import check_rng, check_scale
from calibrant.errors import FileError, NotFittedError, input_error

__all__ = ["BaseCalibrator", "UnfittedError", "fact"]


@cache
def _annotations(kind: Any) -> dict[str, str]:
    """Return the declared types of the options of a method, as written."""
    parameters = inspect.signature(kind).parameters.values()
    return {one.name: one.annotation for one in parameters if isinstance(one.annotation, str)}


class _Fact:
    def __init__(self, declared: bool, ask: Callable[[Any], Any]) -> None:
        self.declared, self.ask = declared, ask

    def __get__(self, calibrator: Any, kind: Any = None) -> bool:
        return self.declared if calibrator is None else bool(self.ask(calibrator))


def fact(declared: bool, ask: Callable[[Any], Any]) -> Any:
    """Declare a fact that depends on options or members: the class says `declared`, a calibrator what `ask` returns."""
    return _Fact(declared, ask)


class UnfittedError(NotFittedError, SklearnNotFittedError):  # type: ignore[misc]  # scikit-learn has no types
    """Raised before `fit`: ours, and the one scikit-learn's tools look for."""


class BaseCalibrator(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Base of both interfaces: `Calibrator` maps class probabilities, `RegressionCalibrator` means and variances."""

    #: What it maps.
    task: ClassVar[MetricTask]
    short_name: ClassVar[str]
    title: ClassVar[str]
    paper: ClassVar[str]
    #: Plain words: when to use it and when not.
    when: ClassVar[str]
    #: Whether different forecasts stay different, so that score changes equal calibration changes.
    injective: ClassVar[bool] = False
    #: The score it minimizes with default options.
    default_loss: ClassVar[str] = "nll"
    #: Runtimes other than this library that can run the fitted map.
    exports: ClassVar[tuple[str, ...]] = ()
    #: Fitted attributes that make the map (numbers, arrays, strings, lists, dicts, calibrators).
    state: ClassVar[tuple[str, ...]] = ()
    #: Options that take one of a few words: option -> words.
    choices: ClassVar[dict[str, tuple[str, ...]]] = {}
    #: Fingerprint of the rows it was fitted on, and the gain on rows held out meanwhile; None where unknown.
    fitted_on_: dict[str, Any] | None = None
    #: The call that fits it, for errors.
    fit_call: ClassVar[str] = "fit"

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        _artifact.IMPORTED[getattr(cls, "task", ""), cls.__name__] = cls

    @classmethod
    def count_parameters(cls, n_classes: int) -> float:
        """Return the free numbers of the map with default options; inf when they grow with the rows."""
        raise TypeError(f"{cls.__name__} does not say how many parameters it has for {n_classes} classes")

    def save(self, path: str | Path) -> None:
        """Write the fitted calibrator as JSON (arrays in full precision, checksum, schema number)."""
        _artifact.write(self.to_payload(), path)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Load a calibrator of this class written by `save` (`calibrant.load` takes any)."""
        found = _artifact.load(path)
        if not isinstance(found, cls):
            raise FileError(f"{path} holds a {type(found).__name__}, not a {cls.__name__}. Hint: use calibrant.load.")
        return found

    def to_payload(self) -> dict[str, Any]:
        """Return the whole artifact as plain data."""
        self._check_fitted(f"{type(self).__name__}.save")
        return _artifact.to_payload(self)

    def extra_payload(self) -> dict[str, Any]:
        """Return what an artifact holds beside kind, options and state."""
        return {}

    def fitted_state(self) -> dict[str, Any]:
        """Return the attributes that make the fitted map, by name."""
        return {name: getattr(self, name) for name in self.state}

    @classmethod
    def declared_state(cls) -> tuple[str, ...]:
        """Return the names of all attributes that an artifact may set."""
        return cls.state

    def restore(self, state: dict[str, Any]) -> None:
        """Take the attributes of a fitted map, as read from an artifact."""
        for name, value in state.items():
            setattr(self, name, value)

    def _check_choices(self, caller: str) -> None:
        for option, words in self.choices.items():
            check_names(getattr(self, option), words, option, caller)
        own: Any = type(self)
        for option, kind in _annotations(own).items():
            value: Any = getattr(self, option, None)
            check_arguments({option: kind}, {option: value}, caller)
            if kind == "RNG":
                check_rng(value, caller)
            elif kind == "float | None" and value is not None:
                check_scale(value, option, caller, "leave it out")
            elif kind == "Calibrator | None" and not (value is None or isinstance(value, BaseCalibrator)):
                raise input_error(option, caller, "be a calibrator", repr(value), "leave it out")

    def _check_fitted(self, caller: str) -> None:
        if not self.__sklearn_is_fitted__():
            raise UnfittedError(f"{caller} needs a fitted calibrator. Hint: call {self.fit_call} first.")

    def __sklearn_is_fitted__(self) -> bool:
        raise TypeError(f"{type(self).__name__} does not say whether it is fitted")
