"""What calls give back: small frozen records with plain fields, `to_dict()` and a readable `str()`."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import Any, ClassVar

__all__ = ["Decomposition", "Difference", "Interval", "Record", "Result", "TestResult", "format_pvalue", "format_value"]


def format_value(value: float | None) -> str:
    """Write a number with four significant digits, and a dash for what does not apply."""
    return "–" if value is None else f"{value:.4g}"


def format_pvalue(pvalue: float | None) -> str:
    """Write a p-value the way a sentence needs it: ``p = 0.012`` or ``p < 0.001``."""
    if pvalue is None:
        return "p –"
    return "p < 0.001" if pvalue < 0.001 else f"p = {pvalue:.3f}"


def _plain(value: Any) -> Any:
    """Turn nested records and tuples into dicts and lists; NumPy scalars into Python's."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", 1) == 0 else value


class Record:
    """What every result shares: the same fields as a plain dict."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain Python values, nested results as dicts."""
        plain: dict[str, Any] = _plain(self)
        return plain


@dataclass(frozen=True)
class Interval(Record):
    """An interval for one number: its level, how it was made, and from how many rows.

    Examples
    --------
    >>> print(Interval(0.12, 0.1, 0.14, 0.95, "normal", 10_000))
    0.12 [0.1, 0.14] (95 % normal interval, n = 10 000)
    """

    value: float
    low: float
    high: float
    level: float
    method: str
    n: int

    def __str__(self) -> str:
        bounds = f"{format_value(self.value)} [{format_value(self.low)}, {format_value(self.high)}]"
        return f"{bounds} ({100 * self.level:g} % {self.method} interval, n = {_count(self.n)})"

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


@dataclass(frozen=True)
class TestResult(Record):
    """The outcome of a test of calibration.

    Examples
    --------
    >>> print(TestResult(1.52, 0.02, "ks", 500))
    ks test: statistic 1.52, p = 0.020, n = 500
    """

    __test__: ClassVar[bool] = False  # pytest must not collect this class

    statistic: float
    pvalue: float
    method: str
    n: int

    def __str__(self) -> str:
        return (
            f"{self.method} test: statistic {format_value(self.statistic)}, "
            f"{format_pvalue(self.pvalue)}, n = {_count(self.n)}"
        )


@dataclass(frozen=True)
class Result(Record):
    """One line of an evaluation: a value with what a calibrated model would show; None where nothing applies.

    `estimates` says in words what the value estimates, `bound` whether it does so as ``"lower"`` or
    ``"upper"`` bound or ``"exact"``.

    Examples
    --------
    >>> print(Result("ece", 0.0475, 0.0052, 0.0006, 0.001, None, "top-label error", "lower"))
    ece 0.0475 (if calibrated 0.0052 ± 0.0006, p = 0.001); lower bound of: top-label error
    """

    name: str
    value: float
    null_mean: float | None = None
    null_std: float | None = None
    pvalue: float | None = None
    interval: Interval | None = None
    estimates: str | None = None
    bound: str | None = None

    def __str__(self) -> str:
        text = f"{self.name} {format_value(self.value)}"
        if self.interval is not None:
            text += f" [{format_value(self.interval.low)}, {format_value(self.interval.high)}]"
        if self.null_mean is not None:
            null = f"if calibrated {format_value(self.null_mean)} ± {format_value(self.null_std)}"
            text += f" ({null}, {format_pvalue(self.pvalue)})"
        if self.estimates is not None:
            prefix = f"{self.bound} bound of: " if self.bound in ("lower", "upper") else ""
            text += f"; {prefix}{self.estimates}"
        return text


@dataclass(frozen=True)
class Difference(Record):
    """Before against after on the same rows; `change` = before − after, so positive means improved.

    `exact` tells whether the change equals that of the proper calibration error (the map between the
    two forecasts is injective) rather than being only a bound of it.

    Examples
    --------
    >>> print(Difference("brier", 0.12, 0.1, 0.02, Interval(0.02, 0.01, 0.03, 0.95, "normal", 900), 0.0002, True))
    brier 0.12 -> 0.1: improved by 0.02 [0.01, 0.03], p < 0.001 (equals the change of its calibration error)
    """

    name: str
    before: float
    after: float
    change: float
    interval: Interval | None = None
    pvalue: float | None = None
    exact: bool = False

    def __str__(self) -> str:
        direction = "worsened" if self.change < 0 else "improved"
        text = f"{self.name} {format_value(self.before)} -> {format_value(self.after)}: "
        text += f"{direction} by {format_value(abs(self.change))}"
        if self.interval is not None:
            ends = sorted((self.interval.low, self.interval.high), reverse=self.change < 0)
            sign = -1 if self.change < 0 else 1
            text += f" [{format_value(sign * ends[0])}, {format_value(sign * ends[1])}]"
        if self.pvalue is not None:
            text += f", {format_pvalue(self.pvalue)}"
        return text + (" (equals the change of its calibration error)" if self.exact else "")


@dataclass(frozen=True)
class Decomposition(Record):
    """A mean proper score taken apart: score = entropy + calibration − sharpness.

    Examples
    --------
    >>> print(Decomposition(0.2, 0.25, 0.01, 0.06))
    score 0.2 = entropy 0.25 + calibration 0.01 - sharpness 0.06
    """

    score: float
    entropy: float
    calibration: float
    sharpness: float

    def __str__(self) -> str:
        return (
            f"score {format_value(self.score)} = entropy {format_value(self.entropy)} "
            f"+ calibration {format_value(self.calibration)} - sharpness {format_value(self.sharpness)}"
        )


def _count(n: int) -> str:
    return f"{n:,}".replace(",", " ")
