"""Running a plan: cells in parallel processes, finished ones kept, progress told."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import torch

from calibrant.errors import MissingExtraError
from calibrant.studies.training.cell import cell_path, plan_images, run_cell
from calibrant.studies.training.files import claim_folder, read_json, write_json
from calibrant.studies.training.plan import BUILT_ON_PLAIN, INITIALISATIONS, Cell, Plan
from calibrant.studies.training.report import TrainingReport
from calibrant.studies.training.traces import run_trace, trace_path


class Progress(NamedTuple):
    """How far a run is: finished and all jobs, what finished last, and the seconds left (None: not known yet)."""

    done: int
    total: int
    label: str
    seconds_left: float | None


class Job(NamedTuple):
    """One piece of work: a cell, or a trace named by its start and seed."""

    cell: Cell | None
    start: str
    seed: int

    @property
    def label(self) -> str:
        """Name for the progress line."""
        return self.cell.name if self.cell else f"trace-{self.start}-{self.seed}"

    def path(self, folder: Path) -> Path:
        """File whose presence says that the job is done."""
        return cell_path(folder, self.cell) if self.cell else trace_path(folder, self.start, self.seed)


def do_job(plan: Plan, job: Job, folder: Path) -> str:
    """Run one job on one thread: the same bits on every run."""
    with _one_thread():
        if job.cell:
            run_cell(plan, job.cell, folder)
        else:
            run_trace(plan, job.start, job.seed, folder)
    return job.label


@contextlib.contextmanager
def _one_thread() -> Any:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        torch.set_num_threads(threads)


def run(
    folder: str | Path, plan: Plan | None = None, *, jobs: int | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> TrainingReport:
    """Run (or resume) the training experiment in a folder and return its report.

    Parameters
    ----------
    folder : path
        Where everything is kept: ``plan.json``, ``cells/*.json`` (numbers), ``logits/*.npz`` (for ``calibrant
        evaluate``), ``weights/*.npz``, ``traces/*.json``.
    plan : Plan, optional
        What to run; `Plan.make` builds one. The full experiment by default.
    jobs : int, optional
        Processes; as many as there are cores by default. Does not change any number.
    progress : callable, optional
        Called with a `Progress` whenever a job ends.

    Returns
    -------
    TrainingReport
        The table, the findings, and the paper's numbers beside them.

    Notes
    -----
    Every cell is written as soon as it is finished, aside and renamed, so a run that was killed goes on with the
    next cell and ends with the same numbers. A folder of another plan is refused.
    """
    plan = Plan.make() if plan is None else plan
    folder = Path(folder)
    images = plan_images(plan)
    claim_folder(folder, plan, images.name)
    waves = _waves(plan)
    todo = [[job for job in wave if not job.path(folder).exists()] for wave in waves]
    total = sum(len(wave) for wave in waves)
    state = {"done": total - sum(len(wave) for wave in todo), "fresh": 0}
    started = time.monotonic()

    def tell(label: str) -> None:
        state["done"] += 1
        state["fresh"] += 1
        if progress is not None:
            pace = (time.monotonic() - started) / state["fresh"]
            progress(Progress(state["done"], total, label, pace * (total - state["done"])))

    if progress is not None:
        progress(Progress(state["done"], total, "", None))
    for wave in todo:
        for label in _finish(plan, wave, folder, max(1, jobs or os.cpu_count() or 1)):
            tell(label)
    wanted = [job for wave in waves for job in wave if job.cell is None or job.cell.method in plan.methods]
    order = {cell.name: i for i, cell in enumerate(plan.cells())}
    cells = sorted((job for job in wanted if job.cell), key=lambda job: order[job.label])
    traces = [job for job in wanted if not job.cell]
    return TrainingReport(
        images.name, images.foreign_name, images.note, plan.to_dict(),
        tuple(read_json(job.path(folder)) for job in cells), tuple(read_json(job.path(folder)) for job in traces),
    )


def _waves(plan: Plan) -> list[list[Job]]:
    """Order the work: first what stands alone (and the plain networks others build on), then the rest."""
    cells = list(plan.cells())
    needed = [Cell("plain", c.penalty, c.seed) for c in cells if c.method in BUILT_ON_PLAIN]
    alone = list(dict.fromkeys([*(c for c in cells if c.method not in BUILT_ON_PLAIN), *needed]))
    first = [Job(cell, "", cell.seed) for cell in alone]
    if plan.trace_steps:
        first += [Job(None, kind, seed) for seed in plan.seeds for kind in INITIALISATIONS]
    return [first, [Job(cell, "", cell.seed) for cell in cells if cell.method in BUILT_ON_PLAIN]]


def _finish(plan: Plan, wave: list[Job], folder: Path, jobs: int) -> Iterable[str]:
    """Run the jobs of a wave and yield their labels as they end."""
    if jobs == 1 or len(wave) < 2:
        for job in wave:
            yield do_job(plan, job, folder)
        return
    pool = ProcessPoolExecutor(min(jobs, len(wave)), mp_context=get_context("spawn"))
    try:
        waiting: set[Future[str]] = {pool.submit(do_job, plan, job, folder) for job in wave}
        while waiting:
            ended, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in ended:
                yield future.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def write_report(folder: str | Path, report: TrainingReport, *, figures: bool = True) -> None:
    """Write train.md, train.json and, where matplotlib is installed, the figures into the folder of the run."""
    from calibrant.studies.training.figures import draw

    folder = Path(folder)
    write_json(folder / "train.json", report.to_dict())
    page = folder / "train.md"
    aside = page.with_name("train.md.part")
    aside.write_text(report.to_markdown(), encoding="utf-8")
    aside.replace(page)
    if figures:
        with contextlib.suppress(MissingExtraError):
            draw(report, folder)
