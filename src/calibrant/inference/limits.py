"""A number held against a limit has three answers: within it, beyond it, or undecided at this n.

`calibrant check`, `assert_calibrated`, the file of limits and `equivalence_test` all decide here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from calibrant.core.results import Interval, Record
from calibrant.core.text import count

__all__ = ["UNDECIDED", "Answer", "Decision", "Side", "decide", "rows_to_decide"]

Answer: TypeAlias = Literal["within", "beyond", "undecided"]
#: Whether a limit is the largest or the smallest value allowed.
Side: TypeAlias = Literal["max", "min"]
#: What an undecided limit does to a gate: goes by the value, passes, fails.
UNDECIDED = ("point", "pass", "fail")
#: More rows than this many times the present ones are not a plan.
_MOST_ROWS = 10_000


@dataclass(frozen=True)
class Decision(Record):
    """What an interval says about a limit, and what the value alone says.

    `rows` is the size of a sample that would decide if the value stayed as it is; None where nothing can be said.
    """

    answer: Answer
    kept_by_value: bool
    rows: int | None = None
    interval: Interval | None = None

    def passes(self, undecided: str = "point") -> bool:
        """Return whether the limit counts as kept: an undecided one by the value, always, or never."""
        if self.answer != "undecided":
            return self.answer == "within"
        return self.kept_by_value if undecided == "point" else undecided == "pass"

    @property
    def need(self) -> str:
        """What would decide, in words; nothing where the limit is decided."""
        if self.answer != "undecided":
            return ""
        if self.interval is None:
            return "no interval of this metric is shown here, so only the value speaks"
        return "more rows than can be named" if self.rows is None else f"about {count(self.rows)} rows would decide"


def decide(result: Any, limit: float, side: Side = "max") -> Decision:
    """Hold a result with its interval against a limit; the limit itself is allowed.

    Within: the far end of the interval keeps the limit. Beyond: the near end breaks it. Otherwise undecided.

    `limit` is the largest or, by `side`, the smallest value allowed.

    Examples
    --------
    >>> from calibrant.core.results import Result
    >>> ks = Result("ks", 0.03, 0.02, 0.01, 0.2, Interval(0.03, 0.0, 0.05, 0.95, "gaussian", 300))
    >>> decide(ks, 0.06).answer, decide(ks, 0.02).answer, decide(ks, 0.02).passes("pass")
    ('within', 'undecided', True)
    """
    sign = 1.0 if side == "max" else -1.0
    value = float(result.value)
    kept = sign * value <= sign * limit  # nan keeps no limit
    span: Interval | None = result.interval
    if span is None or not math.isfinite(value):
        return Decision("undecided" if math.isfinite(value) else "beyond", kept, None, span)
    near, far = (span.low, span.high) if side == "max" else (span.high, span.low)
    if sign * far <= sign * limit:
        return Decision("within", kept, None, span)
    if sign * near > sign * limit:
        return Decision("beyond", kept, None, span)
    return Decision("undecided", kept, rows_to_decide(result, limit), span)


def rows_to_decide(result: Any, limit: float) -> int | None:
    """Return how many rows would decide if the truth were what is seen now; None where no number can.

    An error is first freed of what noise adds to it (its mean under calibration); the interval shrinks as 1/√n.

    Examples
    --------
    >>> from calibrant.core.results import Result
    >>> rows_to_decide(Result("brier", 0.2, interval=Interval(0.2, 0.18, 0.22, 0.95, "hall", 1000)), 0.21)
    4000
    """
    span = result.interval
    if span is None:
        return None
    low, high = span.low, span.high
    center = float(result.value)
    smaller_is_error = result.null_mean is not None and low <= 0.0
    if smaller_is_error:
        center = max(center - result.null_mean, 0.0)
    width = (high - center) if limit >= center else (center - low)
    distance = abs(limit - center)
    if distance <= 0 or width <= 0:
        return None
    factor = max((width / distance) ** 2, 1.0)
    if factor > _MOST_ROWS:
        return None
    return _two_digits(factor * span.n)


def _two_digits(n: float) -> int:
    scale = 10 ** max(math.floor(math.log10(n)) - 1, 0)
    return int(math.ceil(n / scale - 1e-9) * scale)
