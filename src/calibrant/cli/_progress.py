"""A progress bar on a terminal, nothing in a pipe."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol


class Show(Protocol):
    """What a bar is given: how much is done, how much there is, and what was finished last."""

    def __call__(self, done: int, total: int, note: str = "", /) -> None: ...


@contextmanager
def progress(label: str, *, after: float = 0.0) -> Iterator[Show | None]:
    """Yield a function that shows (done, total, note) with the time left, or None where no one looks.

    With `after` a moving bar appears once that many seconds have passed, for work whose end is not known.
    """
    if not sys.stderr.isatty():
        yield None
        return
    if after:
        with _waiting(label, after):
            yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    note = TextColumn("{task.fields[note]}")
    columns = (TextColumn(label), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), note)
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=None, note="")

        def show(done: int, total: int, note: str = "", /) -> None:
            bar.update(task, completed=done, total=total, note=note)

        yield show


@contextmanager
def _waiting(label: str, after: float) -> Iterator[None]:
    """Show that work goes on, from a number of seconds on."""
    bars: list[Any] = []

    def show() -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn(label), BarColumn(), TimeElapsedColumn())
        bar = Progress(*columns, console=Console(stderr=True), transient=True)
        bar.add_task(label, total=None)
        bar.start()
        bars.append(bar)

    clock = threading.Timer(after, show)
    clock.daemon = True
    clock.start()
    try:
        yield
    finally:
        clock.cancel()
        clock.join()  # a bar that is just being drawn is one to take away
        for bar in bars:
            bar.stop()
