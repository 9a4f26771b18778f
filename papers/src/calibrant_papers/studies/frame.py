"""The frame of a study: a grid of cells, one function that works on a cell, results as a table.

A cell's random numbers depend on the seed and the cell alone, so neither the number of processes nor a kill in the
middle changes a result. Finished cells are kept (`checkpoints`); a study that was stopped goes on there.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from calibrant._typing import Array
from calibrant.core.atomic import atomic_path, write_text
from calibrant.core.jsonable import jsonable
from calibrant.core.options import check_count, check_path, check_type
from calibrant.core.parallel import cores
from calibrant.core.results import Record
from calibrant.errors import MissingExtraError, input_error
from calibrant_papers.studies.checkpoints import SCHEMA, Document, Piece, Tell, run_pieces
from calibrant_papers.studies.drawing import draw_panels
from calibrant_papers.studies.writing import made, text_table

__all__ = ["Cell", "Row", "Study", "StudyResult", "Tell", "Workspace", "current_workspace", "run_study", "workspace"]

#: Parameters of one cell: plain values only, they name its checkpoint.
Cell = dict[str, Any]
#: One line of a study's table.
Row = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Study:
    """What is to be done: a worker, its cells, and the arrays every cell sees.

    Parameters
    ----------
    name : str
        Name of the files.
    worker : callable (cell, arrays, rng) -> list of rows
        A function of a module (processes must be able to import it).
    cells : tuple of dict
        The grid; plain values.
    arrays : mapping of arrays
        Handed to every call.
    seed : int
        Fixes all random numbers.
    """

    name: str
    worker: Callable[[Cell, Mapping[str, Array], np.random.Generator], list[Row]]
    cells: tuple[Cell, ...]
    arrays: Mapping[str, Array] = field(default_factory=dict)
    seed: int = 0

    @property
    def plan(self) -> dict[str, Any]:
        """Everything that decides the numbers of a cell beside the cell itself, as plain values."""
        return {
            "schema": SCHEMA,
            "study": self.name,
            "seed": self.seed,
            "arrays": {name: _digest(value) for name, value in sorted(self.arrays.items())},
        }


def cell_key(cell: Cell) -> str:
    """Return the cell as text, the same for equal cells."""
    return json.dumps(cell, sort_keys=True)


def _digest(array: Array) -> str:
    values = np.ascontiguousarray(array)
    head = f"{values.dtype.str}{values.shape}".encode()
    return hashlib.sha256(head + values.tobytes()).hexdigest()[:16]


def cell_rng(study: Study, cell: Cell) -> np.random.Generator:
    """Return the generator of a cell: seed and cell decide it, the order of work does not."""
    return np.random.default_rng([study.seed, zlib.crc32(cell_key(cell).encode())])


def _work(study: Study, cell: Cell) -> Document:
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1):
        return {"rows": study.worker(cell, study.arrays, cell_rng(study, cell)), "made": made()}


@dataclass(frozen=True)
class Workspace:
    """Where and how the studies inside a `with workspace(…)` run, unless they say so themselves."""

    folder: Path | None = None
    jobs: int | None = 1
    progress: Tell | None = None


_HERE: ContextVar[Workspace] = ContextVar("workspace")


@contextmanager
def workspace(
    folder: str | Path | None = None, *, jobs: int | None = 1, progress: Tell | None = None
) -> Iterator[None]:
    """Give every study of a long job a place for its checkpoints, processes, and somebody to tell."""
    token = _HERE.set(Workspace(None if folder is None else Path(folder), jobs, progress))
    try:
        yield
    finally:
        _HERE.reset(token)


def current_workspace() -> Workspace:
    """Return the workspace of the enclosing `with workspace(…)`, or the default one."""
    return _HERE.get(Workspace())


def run_study(
    study: Study, *, folder: str | Path | None = None, jobs: int | None = None, progress: Tell | None = None
) -> list[Row]:
    """Run (or resume) a study and return its rows in the order of the cells.

    Parameters
    ----------
    study : Study
        What to do.
    folder : path, optional
        Where finished cells are kept; the same study (same arrays and seed) goes on there, whatever cells it has.
    jobs : int, optional
        Processes, by default one; 0 means one per core. More than one needs a script that can be imported
        (``if __name__ == "__main__"``); no number depends on it.
    progress : callable, optional
        Called with (done, all, cell) after every cell.
    """
    return [row for answer in run_cells(study, folder, jobs, progress) for row in answer["rows"]]


def run_cells(study: Study, folder: str | Path | None, jobs: int | None, progress: Tell | None) -> list[Document]:
    """Run (or resume) a study: the rows of every cell, and with which code they were made."""
    here = current_workspace()
    folder, jobs = here.folder if folder is None else folder, here.jobs if jobs is None else jobs
    progress = here.progress if progress is None else progress
    if not (isinstance(study.seed, int | np.integer) and study.seed >= 0):
        raise input_error("seed", "run_study", "be a whole number, not below 0", repr(study.seed), "use 0")
    if jobs is not None:
        check_count(jobs, "jobs", "run_study", 0, "0 for all cores, or 1")
    if progress is not None:
        check_type(progress, Callable, "progress", "run_study", "be a function of (done, all, cell)", "pass None")
    if folder is not None:
        check_path(folder, "folder", "run_study")
    place = None if folder is None else claim_folder(Path(folder), study)
    pieces = [
        Piece(cell_key(cell), (study, cell), None if place is None else place / cell_file(cell)) for cell in study.cells
    ]
    return run_pieces(_work, pieces, jobs=cores(jobs), progress=progress)


def cell_file(cell: Cell) -> str:
    return hashlib.sha256(cell_key(cell).encode()).hexdigest()[:16] + ".json"


def claim_folder(folder: Path, study: Study) -> Path:
    """Return the folder of this study's cells; another study has another one."""
    plan = json.dumps(study.plan, sort_keys=True)
    cells = folder / f"{study.name}-cells-{hashlib.sha256(plan.encode()).hexdigest()[:12]}"
    try:
        cells.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        what = f"{folder}, a file or a link to nothing"
        raise input_error("folder", study.name, "be a folder", what, "name another one") from error
    if not (cells / "plan.json").exists():
        write_text(cells / "plan.json", plan)
    return cells


@dataclass(frozen=True, eq=False)
class StudyResult(Record):
    """A study's table, what it shows in one sentence, and what its figure draws (panel -> series -> values).

    `tables` are what a page shows instead of the rows (title -> lines), where the rows are too many to read.
    """

    name: str
    rows: tuple[Row, ...]
    finding: str
    curves: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    tables: dict[str, tuple[Row, ...]] = field(default_factory=dict)

    def to_frame(self) -> Any:
        """Return the table as a Polars frame."""
        import polars as pl

        return pl.DataFrame(list(self.rows), infer_schema_length=None)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return {"schema": SCHEMA, "study": self.name, "finding": self.finding, "rows": list(self.rows)}

    def __str__(self) -> str:
        return f"{text_table(self.rows)}\n\n{self.finding}"

    def save(self, folder: str | Path) -> list[Path]:
        """Write NAME.parquet, NAME.csv, NAME.json and, with matplotlib, NAME.svg and NAME.png; return the paths."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        frame = self.to_frame()
        written = [folder / f"{self.name}{suffix}" for suffix in (".parquet", ".csv", ".json")]
        for path, write in zip(written[:2], (frame.write_parquet, frame.write_csv), strict=True):
            with atomic_path(path) as temporary:
                write(temporary)
        write_text(written[2], json.dumps(jsonable(self.to_dict()), indent=1, ensure_ascii=False))
        if self.curves:
            try:
                written += [draw_panels(self.curves, folder / f"{self.name}{s}", self.name) for s in (".svg", ".png")]
            except MissingExtraError:
                return written
        return written
