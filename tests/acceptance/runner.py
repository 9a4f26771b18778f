"""The command line in this process: as a person meets it, without the cost of starting Python each time."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Outcome(NamedTuple):
    """What a command returned, wrote and said."""

    code: int
    out: str
    err: str


@contextlib.contextmanager
def _standing_in(folder: Path, argv: tuple[str, ...]) -> Iterator[tuple[io.TextIOWrapper, io.TextIOWrapper]]:
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    here, saved = Path.cwd(), sys.argv
    main = sys.modules["__main__"]
    package = main.__package__
    os.chdir(folder)
    sys.argv = ["calibrant", *argv]
    main.__package__ = ""  # or click calls the program "python -m pytest"
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            yield out, err
    finally:
        main.__package__ = package
        sys.argv = saved
        os.chdir(here)


def run(argv: tuple[str, ...], folder: Path) -> Outcome:
    """Run ``calibrant argv`` standing in `folder`; an exception that a user would see as a traceback passes through."""
    from calibrant.cli import main

    code = 0
    with warnings.catch_warnings(), _standing_in(folder, tuple(map(str, argv))) as (out, err):
        warnings.simplefilter("default")
        try:
            main()
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
    return Outcome(code, *(stream.buffer.getvalue().decode("utf-8") for stream in (out, err)))  # type: ignore[attr-defined]
