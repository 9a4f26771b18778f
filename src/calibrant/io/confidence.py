"""Confidence and correctness in words: ``85%``, ``very likely``; ``correct``, ``C``, ``no``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from calibrant._typing import Array, Floats
from calibrant.errors import FileError, input_error
from calibrant.io.labels import NEGATIVE, POSITIVE

__all__ = ["WORDS", "Stated", "confidence_numbers", "correct_flags", "on_one_scale", "stated_confidence"]

#: What people mean by words of probability: rounded medians of surveys in which readers put numbers to them.
_MEANT = {
    1.0: "certain, absolutely certain",
    0.95: "almost certain, almost certainly, very certain",
    0.9: "highly likely, very likely, very probable",
    0.8: "very good chance",
    0.75: "probable, probably, likely",
    0.6: "better than even, somewhat likely",
    0.5: "about even, even chance, even odds, toss-up",
    0.35: "somewhat unlikely",
    0.25: "probably not",
    0.2: "unlikely, doubtful",
    0.1: "little chance, improbable, chances are slight, very unlikely",
    0.05: "highly unlikely",
    0.02: "almost no chance",
    0.0: "impossible",
}
WORDS = {word: value for value, words in _MEANT.items() for word in words.split(", ")}
_STATED = re.compile(r"(?i)confidence[^0-9\n]{0,20}(\d+(?:[.,]\d+)?)\s*(%|percent|/\s*100|/\s*10\b)?")


class Stated(NamedTuple):
    """A confidence as it is stated: of 10, of 100, or (None) of what the other answers of the file say."""

    number: float
    of: float | None = None


def stated_confidence(text: str) -> Stated | None:
    """Return the confidence that an answer states; None where it states none.

    Examples
    --------
    >>> [stated_confidence(text) for text in ("Paris. Confidence: 85%", "Confidence = 0.7", "B")]
    [Stated(number=85.0, of=100.0), Stated(number=0.7, of=None), None]
    """
    hits = _STATED.findall(text)
    if not hits:
        return None
    unit = hits[-1][1].replace(" ", "")
    return Stated(float(hits[-1][0].replace(",", ".")), 10.0 if unit == "/10" else 100.0 if unit else None)


def on_one_scale(stated: Sequence[Stated | None], source: str) -> list[float | None]:
    """Return confidences between 0 and 1; numbers without a unit are percentages where one of them is above 1.

    Examples
    --------
    >>> on_one_scale([Stated(1.0), Stated(95.0), None], "a.json"), on_one_scale([Stated(1.0), Stated(0.5)], "a.json")
    ([0.01, 0.95, None], [1.0, 0.5])
    """
    numbers = [one.number for one in stated if one is not None and one.of is None]
    above, below = [x for x in numbers if 1 < x <= 100], [x for x in numbers if 0 < x < 1]
    if below and above and all(x.is_integer() for x in above):
        raise FileError(
            f"{source} states confidences on two scales: {len(below)} answers below 1 ({below[0]:g}) beside others "
            f"up to {max(above):g}",
            hint="write all of them between 0 and 1, or with a percent sign",
        )
    scale = 100.0 if above else 1.0
    shares = [None if one is None else one.number / (one.of or scale) for one in stated]
    return [share if share is not None and 0 <= share <= 1 else None for share in shares]


def confidence_numbers(column: Array, name: str, caller: str) -> Floats:
    """Return confidence in words or with percent signs as numbers between 0 and 1; numbers as they are.

    Examples
    --------
    >>> import numpy as np
    >>> confidence_numbers(np.array(["85%", "very likely", "0.5"]), "confidence", "evaluate").tolist()
    [0.85, 0.9, 0.5]
    """
    if column.dtype.kind not in "OUS":
        return column
    found = [_number(value) for value in column.tolist()]
    bad = [row for row, value in enumerate(found) if value is None]
    if bad:
        shown = ", ".join(sorted({repr(column[row]) for row in bad[:200]})[:5])
        rule = "hold numbers, percentages or words such as 'very likely'"
        hint = "turn the words into numbers, and leave out rows without a confidence"
        raise input_error(name, caller, rule, f"{shown} ({len(bad)} of {len(found)} rows)", hint)
    return np.array(found, dtype=np.float64)


def _number(value: Any) -> float | None:
    if isinstance(value, int | float):
        return float(value)
    text = str(value or "").strip().lower().rstrip(".")
    if text in WORDS:
        return WORDS[text]
    part = re.fullmatch(r"(\d+(?:[.,]\d+)?)\s*(?:/|out of|von|sur)\s*(10{1,2}|5)", text)
    if part is not None:
        return float(part[1].replace(",", ".")) / float(part[2])
    sign = text.endswith("%")
    try:
        number = float(text.rstrip("% ").replace(",", "."))
    except ValueError:
        return None
    return number / 100 if sign else number


def correct_flags(column: Array, name: str, caller: str) -> Array:
    """Return what was right as numbers or booleans, words read: correct, C, yes, true.

    Examples
    --------
    >>> import numpy as np
    >>> correct_flags(np.array(["C", "I", "correct"]), "correct", "evaluate").tolist()
    [True, False, True]
    """
    if column.dtype.kind not in "OUS":
        return column
    words = [str(value).strip().lower() for value in column.tolist()]
    bad = [row for row, word in enumerate(words) if word not in POSITIVE and word not in NEGATIVE]
    if bad:
        shown = ", ".join(sorted({repr(column[row]) for row in bad[:200]})[:5])
        rule = "say correct or incorrect (yes/no, true/false, 1/0, C/I)"
        raise input_error(name, caller, rule, f"{shown} ({len(bad)} of {len(words)} rows)", "leave out other rows")
    return np.array([word in POSITIVE for word in words])
