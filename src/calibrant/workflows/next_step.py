"""The next command, ready to be copied: with the real names of files and the options that read them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["has_parts", "is_one", "named", "quoted", "reading_words", "repaired_name"]

#: Options that say how a file is read, in the order in which they are written.
_READING = ("label", "proba", "weight", "space", "positive", "percent", "normalize", "confidence", "correct", "mean",
            "variance", "std", "input_format", "part", "weight_kind")  # fmt: skip
#: Options of an engine, for many files.
_ENGINE = ("engine", "master", "strict", "max_rejected", "skip_bad_files")
#: Options that a command does not take.
_NOT_TAKEN = {"apply": ("weight_kind",), "compare": _ENGINE}


def quoted(word: str | Path) -> str:
    """Return a word as a shell takes it."""
    return shlex.quote(str(word))


def reading_words(options: Mapping[str, Any], file: str = "", command: str = "fit") -> str:
    """Return the options of reading that were given, as words of a command line with a space before.

    Those that `command` does not take are left out, those of an engine for one file, and the part of calibration rows.

    Examples
    --------
    >>> reading_words({"label": "my truth", "percent": True, "proba": None})
    " --label 'my truth' --percent"
    """
    words = []
    options = dict(options)
    if file and command in ("fit", "compare"):
        tails = _tails(file)
        read = options.get("part") or (options.get("default_part") if options.get("default_part") in tails else None)
        options["part"] = None if {"cal", "test"} <= tails else read
    taken = (*_READING, *(() if is_one(file) else _ENGINE))
    for name in (each for each in taken if each not in _NOT_TAKEN.get(command, ())):
        value = options.get(name)
        flag = "--" + name.replace("_", "-")
        if value is True:
            words.append(flag)
        elif value not in (None, False, ()):
            each = tuple(value) if isinstance(value, list | tuple) else (value,)
            words += [f"{flag} {quoted(one)}" for one in each]
    return "".join(f" {word}" for word in words)


def has_parts(file: str) -> bool:
    """Whether a file of arrays has calibration and test rows of their own."""
    return {"cal", "test"} <= _tails(file)


def _tails(file: str) -> set[str]:
    """Return what the names of the arrays of a file end in."""
    import numpy as np

    if Path(file).suffix.lower() != ".npz" or not Path(file).is_file():
        return set()
    with np.load(file, allow_pickle=False) as archive:
        return {name.rpartition("_")[2] for name in archive.files}


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
    words = f"{quoted(file)}{reading_words(options, file)}"
    advice = advice.replace("calibrant fit FILE --holdout 0.3", f"calibrant fit {words} --holdout 0.3")
    return advice.replace("calibrant fit FILE", f"calibrant fit {words}{part}").replace("FILE", quoted(file))
