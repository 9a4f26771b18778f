"""What calls give back: small frozen records with plain fields, `to_dict()` and a readable `str()`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from calibrant.core.jsonable import plain
from calibrant.core.notebook import text_html
from calibrant.core.text import count, pvalue_phrase, significant

__all__ = ["Decomposition", "Difference", "Interval", "Record", "Result", "TestResult"]


class Record:
    """What every result shares: the same fields as a plain dict."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain Python values, nested results as dicts."""
        return dict(plain(self))

    def _repr_html_(self) -> str:
        """Show the readable text in a notebook; results with a table of their own show that."""
        return text_html(str(self))


@dataclass(frozen=True)
class Interval(Record):
    """An interval for one number: its level, how it was made, and from how many rows.

    Examples
    --------
    >>> print(Interval(0.12, 0.1, 0.14, 0.95, "normal", 10_000))
    0.12 [0.1, 0.14] (95% normal interval, n = 10,000)
    """

    value: float
    low: float
    high: float
    level: float
    method: str
    n: int

    def __str__(self) -> str:
        bounds = f"{significant(self.value)} [{significant(self.low)}, {significant(self.high)}]"
        return f"{bounds} ({100 * self.level:g}% {self.method} interval, n = {count(self.n)})"

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
            f"{self.method} test: statistic {significant(self.statistic)}, "
            f"{pvalue_phrase(self.pvalue)}, n = {count(self.n)}"
        )


@dataclass(frozen=True)
class Result(Record):
    """One line of an evaluation: a value with what a calibrated model would show; None where nothing applies.

    `estimates` says in words what the value estimates, `bound` whether it does so as ``"lower"`` or
    ``"upper"`` bound or ``"exact"``.

    Examples
    --------
    >>> print(Result("ece", 0.0475, 0.0052, 0.0006, 0.003, None, "top-label error", "lower"))
    ece 0.0475 (if calibrated 0.0052 ± 0.0006, p = 0.003); lower bound of: top-label error
    """

    name: str
    value: float
    null_mean: float | None = None
    null_std: float | None = None
    pvalue: float | None = None
    interval: Interval | None = None
    estimates: str | None = None
    bound: str | None = None
    #: Number of draws, where none of them reached the value: the p-value is then a bound.
    draws: int | None = None

    def __str__(self) -> str:
        text = f"{self.name} {significant(self.value)}"
        if self.interval is not None:
            text += f" [{significant(self.interval.low)}, {significant(self.interval.high)}]"
        if self.null_mean is not None:
            null = f"if calibrated {significant(self.null_mean)} ± {significant(self.null_std)}"
            text += f" ({null}, {pvalue_phrase(self.pvalue, self.draws)})"
        if self.estimates is not None:
            prefix = f"{self.bound} bound of: " if self.bound in ("lower", "upper") else ""
            text += f"; {prefix}{self.estimates}"
        return text


@dataclass(frozen=True)
class Difference(Record):
    """Before against after on the same rows; `change` = before − after, so positive means improved.

    `exact` tells whether the change equals that of the proper calibration error (the map between the
    two forecasts is one-to-one) rather than being only a bound of it.

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
        text = f"{self.name} {significant(self.before)} -> {significant(self.after)}: "
        text += f"{direction} by {significant(abs(self.change))}"
        if self.interval is not None:
            ends = sorted((self.interval.low, self.interval.high), reverse=self.change < 0)
            sign = -1 if self.change < 0 else 1
            text += f" [{significant(sign * ends[0])}, {significant(sign * ends[1])}]"
        if self.pvalue is not None:
            text += f", {pvalue_phrase(self.pvalue)}"
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
            f"score {significant(self.score)} = entropy {significant(self.entropy)} "
            f"+ calibration {significant(self.calibration)} - sharpness {significant(self.sharpness)}"
        )
