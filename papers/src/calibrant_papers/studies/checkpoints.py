"""Long work in pieces: finished pieces are kept as files, the others run in processes, and progress is reported.

A run that was stopped reads what it finds and goes on with the rest. What a file gives back equals what was computed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from calibrant.core.atomic import write_text
from calibrant.core.jsonable import dumps, plain
from calibrant.errors import FileError

__all__ = ["Document", "Piece", "Tell", "read_json", "run_pieces", "write_json"]

SCHEMA = 1
#: Plain values, ready for JSON.
Document = dict[str, Any]
#: Called with (pieces done, all pieces, what was finished last).
Tell = Callable[[int, int, str], None]


@dataclass(frozen=True, eq=False)
class Piece:
    """One piece of work: the arguments of its worker, its name in messages, and the file that keeps its answer."""

    label: str
    arguments: tuple[Any, ...]
    path: Path | None = None


def run_pieces(
    worker: Callable[..., Document], pieces: Sequence[Piece], *, jobs: int = 1, progress: Tell | None = None
) -> list[Document]:
    """Return the answers of all pieces in their order, computing those that no file holds yet.

    `worker` is called with the arguments of a piece; several processes must be able to import it, and no number depends
    on `jobs`. A damaged file is computed again, one of a newer version refused. `progress` gets (done, all, label).

    Examples
    --------
    >>> run_pieces(lambda x: {"square": x * x}, [Piece("two", (2,)), Piece("three", (3,))])
    [{'square': 4}, {'square': 9}]
    """
    found: dict[int, Document] = {}
    for i, piece in enumerate(pieces):
        kept = None if piece.path is None else _kept(piece.path)
        if kept is not None:
            found[i] = kept
    todo = [i for i in range(len(pieces)) if i not in found]
    if progress is not None:
        progress(len(found), len(pieces), "")
    for i, answer in _answers(worker, pieces, todo, jobs):
        found[i] = plain(answer)
        path = pieces[i].path
        if path is not None:
            write_json(path, found[i])
        if progress is not None:
            progress(len(found), len(pieces), pieces[i].label)
    return [found[i] for i in range(len(pieces))]


def _answers(
    worker: Callable[..., Document], pieces: Sequence[Piece], todo: list[int], jobs: int
) -> Iterator[tuple[int, Document]]:
    """Yield answers as they end."""
    if jobs < 2 or len(todo) < 2:
        for i in todo:
            yield i, worker(*pieces[i].arguments)
        return
    pool = ProcessPoolExecutor(min(jobs, len(todo)), mp_context=get_context("spawn"))
    try:
        waiting: dict[Future[Document], int] = {pool.submit(worker, *pieces[i].arguments): i for i in todo}
        while waiting:
            ended, _ = wait(waiting, return_when=FIRST_COMPLETED)
            for future in ended:
                yield waiting.pop(future), future.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _kept(path: Path) -> Document | None:
    """Return what a file holds; None when it is absent or damaged."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        schema = document.pop("schema")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    if schema > SCHEMA:
        raise FileError(f"{path} was written by a newer calibrant (schema {schema}). Hint: upgrade calibrant.")
    return dict(_numbers(document))


def write_json(path: Path, document: Document) -> None:
    """Write one document atomically, with the schema number; infinite and undefined numbers become words."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, dumps({"schema": SCHEMA, **document}, indent=1))


def read_json(path: Path) -> Document:
    """Return what `write_json` wrote, without the schema number; newer schemas are refused."""
    document = _kept(path)
    if document is None:
        raise FileError(f"{path} is not a file of this run. Hint: remove it and run again.")
    return document


def _numbers(value: Any) -> Any:
    """Turn the words "inf", "-inf" and "nan" back into numbers."""
    if isinstance(value, dict):
        return {key: _numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_numbers(item) for item in value]
    return float(value) if value in ("inf", "-inf", "nan") else value
