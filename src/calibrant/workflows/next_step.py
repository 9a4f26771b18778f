"""The next command, ready to be copied: with the real names of files and the options that read them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["has_parts", "is_one", "named", "quoted", "reading_words", "repaired_name"]

#: Options that say how a file is read, in the order in which they are written.
_READING = ("label", "proba", "weight", "space", "positive", "percent", "normalize", "confidence", "correct", "mean",
            "variance", "std", "input_format")  # fmt: skip


def quoted(word: str | Path) -> str:
    """Return a word as a shell takes it."""
    return shlex.quote(str(word))


def reading_words(options: Mapping[str, Any]) -> str:
    """Return the options of reading that were given, as words of a command line with a space before.

    Examples
    --------
    >>> reading_words({"label": "my truth", "percent": True, "proba": None})
    " --label 'my truth' --percent"
    """
    words = []
    for name in _READING:
        value = options.get(name)
        flag = "--" + name.replace("_", "-")
        if value is True:
            words.append(flag)
        elif value not in (None, False, ()):
            each = (value,) if isinstance(value, str) else tuple(value)
            words += [f"{flag} {quoted(one)}" for one in each]
    return "".join(f" {word}" for word in words)


def has_parts(file: str) -> bool:
    """Whether a file of arrays has calibration and test rows of their own."""
    import numpy as np

    if Path(file).suffix.lower() != ".npz" or not Path(file).is_file():
        return False
    with np.load(file, allow_pickle=False) as archive:
        tails = {name.rpartition("_")[2] for name in archive.files}
    return {"cal", "test"} <= tails


def is_one(file: str) -> bool:
    """Whether a word names one file, and not a pattern, a directory or standard input."""
    return file != "-" and Path(file).is_file()


def repaired_name(file: str) -> str:
    """Return a name for the calibrated copy of a file.

    Examples
    --------
    >>> repaired_name("preds.csv"), repaired_name("logs.eval")
    ('preds.calibrated.csv', 'logs.calibrated.csv')
    """
    path = Path(file)
    suffix = path.suffix if path.suffix.lower() not in (".gz", ".zst", ".bz2", ".xz", ".zip", ".eval") else ".csv"
    return f"{path.stem.removesuffix('.csv')}.calibrated{suffix or '.csv'}"


def named(advice: str, data: Any, options: Mapping[str, Any]) -> str:
    """Return advice with the real command in it: the file at hand, and rows held out where it has no part for them.

    Examples
    --------
    >>> named("repair it: calibrant fit FILE -o cal.json", "logs/*.csv", {})
    "repair it: calibrant fit 'logs/*.csv' -o cal.json"
    """
    if not isinstance(data, str | Path):
        return advice
    file = str(data)
    part = " --holdout 0.3" if is_one(file) and not has_parts(file) else ""
    words = f"{quoted(file)}{reading_words(options)}"
    advice = advice.replace("calibrant fit FILE --holdout 0.3", f"calibrant fit {words} --holdout 0.3")
    return advice.replace("calibrant fit FILE", f"calibrant fit {words}{part}").replace("FILE", quoted(file))
