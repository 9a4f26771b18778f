"""The exception family: every error is ours *and* the builtin a caller would expect."""

from __future__ import annotations

from typing import Any

__all__ = [
    "CalibrantDeprecationWarning",
    "CalibrantError",
    "CalibrantWarning",
    "ConvergenceWarning",
    "CoverageWarning",
    "FileError",
    "InputError",
    "MissingExtraError",
    "NotFittedError",
    "UndefinedWarning",
    "input_error",
    "require",
]


class CalibrantError(Exception):
    """Base of every error raised on purpose by calibrant."""


class InputError(CalibrantError, ValueError):
    """An argument broke a rule; the message names it, the first offending row and one action."""


class FileError(CalibrantError, ValueError):
    """A file is missing, unreadable, foreign, damaged or holds no predictions."""


class NotFittedError(CalibrantError, ValueError, AttributeError):
    """A calibrator was asked to predict before it was fitted."""


class MissingExtraError(CalibrantError, ImportError):
    """An optional library is needed; the message names the extra that installs it."""


class CalibrantWarning(UserWarning):
    """Base of every warning of calibrant."""


class ConvergenceWarning(CalibrantWarning):
    """A solver stopped before its tolerance, or the data do not determine the optimum."""


class UndefinedWarning(CalibrantWarning):
    """A measure has no value on this input; nan is returned."""


class CoverageWarning(CalibrantWarning):
    """An interval was asked for whose coverage simulation does not support."""


class CalibrantDeprecationWarning(CalibrantWarning, FutureWarning):
    """A public name will go after two minor releases."""


def input_error(argument: str, caller: str, rule: str, got: str, hint: str) -> InputError:
    """Build the one message form every bad argument gets.

    Examples
    --------
    >>> str(input_error("level", "interval", "lie between 0 and 1", "2", "use 0.95"))
    'level of interval must lie between 0 and 1; got 2. Hint: use 0.95.'
    """
    return InputError(f"{argument} of {caller} must {rule}; got {got}. Hint: {hint}.")


def require(module: str, extra: str, purpose: str) -> Any:
    """Import an optional library, or say which extra brings it."""
    from importlib import import_module

    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"{purpose} needs {module}, which is not installed. Hint: pip install 'calibrant[{extra}]'."
        ) from error
