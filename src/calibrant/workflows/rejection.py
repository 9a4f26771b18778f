"""Which rows may be left out: missing values, and others as far as the caller allows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from calibrant.core.text import count, reasons
from calibrant.errors import FileError, input_error

__all__ = ["check_rejected", "check_rejected_share", "share_of"]

#: What is wrong with the data, not missing from them, by reason.
_WRONG = {"label": "with an unknown label", "outside": "with scores out of range", "weight": "with a bad weight"}


def share_of(given: float | str, caller: str) -> float:
    """Return a share from a number or a percentage.

    Examples
    --------
    >>> share_of("1%", "evaluate"), share_of(0.01, "evaluate")
    (0.01, 0.01)
    """
    text = str(given).strip()
    try:
        share = float(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise input_error("max_rejected", caller, "lie between 0 and 1, or 0% and 100%", repr(given), "write 1%")
    return share


def check_rejected_share(rejected: Mapping[str, int], n: int, how: Any) -> None:
    """Refuse data of which more rows were left out than the caller allows."""
    if how.max_rejected is None:
        return
    most, out = share_of(how.max_rejected, how.caller), sum(rejected.values())
    if out > most * (out + n):
        raise FileError(
            f"{count(out)} of {count(out + n)} rows cannot be used ({reasons(rejected)}), more than {100 * most:g}%",
            hint="repair the rows, or raise {max_rejected}",
        )


def check_rejected(rejected: Mapping[str, int], n: int, how: Any) -> None:
    """Refuse data with rows that are wrong rather than missing a value, unless the caller allows a share of them.

    The rest would be judged as if nothing were the matter: of percentages of a rare event few exceed 1.
    """
    check_rejected_share(rejected, n, how)
    wrong = {words: rejected.get(reason, 0) for reason, words in _WRONG.items()}
    if how.max_rejected is None and any(wrong.values()):
        rows = n + sum(rejected.values())
        most = max(5, math.ceil(100 * (1 - n / rows)))
        scale = " (percentages: divide by 100)" if rejected.get("outside") else ""
        raise FileError(
            f"{count(sum(wrong.values()))} of {count(rows)} rows cannot be used ({reasons(wrong)})",
            hint=f"repair them{scale}, or allow them with {{max_rejected={most}%}}",
        )
