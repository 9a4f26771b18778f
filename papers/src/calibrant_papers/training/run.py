"""Running a plan: cells in parallel processes, finished ones kept, progress shown."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from calibrant.core.atomic import write_text
from calibrant.errors import MissingExtraError
from calibrant_papers.studies.checkpoints import SCHEMA, Document, Piece, read_json, run_pieces, write_json
from calibrant_papers.training.cell import cell_path, images_of, plan_images, run_cell, run_trial, trial_path
from calibrant_papers.training.files import claim_folder
from calibrant_papers.training.plan import BUILT_ON_PLAIN, INITIALISATIONS, METHODS, PENALTIES, Cell, Plan
from calibrant_papers.training.report import TrainingReport
from calibrant_papers.training.traces import run_trace, trace_path


class Progress(NamedTuple):
    """How far a run is: finished and all jobs, what finished last, and the seconds left (None: not known yet)."""

    done: int
    total: int
    label: str
    seconds_left: float | None


class Job(NamedTuple):
    """One piece of work: a cell, a trial of one λ of a penalty, or a trace named by its start and seed."""

    cell: Cell | None
    start: str
    seed: int
    weight: float | None = None

    @property
    def label(self) -> str:
        """Name for the progress line."""
        if self.weight is not None:
            return f"trial-{self.start}-{self.weight:g}"
        return self.cell.name if self.cell else f"trace-{self.start}-{self.seed}"

    def path(self, folder: Path) -> Path:
        """File whose presence says that the job is done."""
        if self.weight is not None:
            return trial_path(folder, self.start, self.weight)
        return cell_path(folder, self.cell) if self.cell else trace_path(folder, self.start, self.seed)


def do_job(plan: Plan, job: Job, folder: Path) -> Document:
    """Run one job on one thread: the same bits on every run."""
    with _one_thread():
        if job.weight is not None:
            return run_trial(plan, job.start, job.weight, folder)
        return run_cell(plan, job.cell, folder) if job.cell else run_trace(plan, job.start, job.seed)


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
    folder: str | Path,
    plan: Plan | None = None,
    *,
    jobs: int | None = None,
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
    Every cell is kept as soon as it is finished, so a run that was killed goes on with the next cell and ends with
    the same numbers. A folder of another plan is refused.
    """
    plan = Plan.make() if plan is None else plan
    folder = Path(folder)
    images = plan_images(plan)
    claim_folder(folder, plan, images.name)
    trials = [Job(None, penalty, 0, weight) for penalty, grid in plan.grid for weight in grid]
    waves = [trials, *_waves(plan)] if trials else _waves(plan)
    total, ended, started = sum(len(wave) for wave in waves), 0, time.monotonic()
    known = sum(job.path(folder).exists() for wave in waves for job in wave)
    answers: dict[Job, Document] = {}

    def tell(_done: int, _total: int, label: str) -> None:
        """Report the whole run, not the wave."""
        nonlocal ended
        ended += bool(label)
        pace = (time.monotonic() - started) / ended if ended else None
        left = None if pace is None else pace * (total - known - ended)
        if progress is not None and (label or not answers):
            progress(Progress(known + ended, total, label, left))

    for wave in waves:
        pieces = [Piece(job.label, (plan, job, folder), job.path(folder)) for job in wave]
        found = run_pieces(do_job, pieces, jobs=max(1, jobs or os.cpu_count() or 1), progress=tell)
        answers |= {job: {"schema": SCHEMA, **answer} for job, answer in zip(wave, found, strict=True)}
        if wave is trials:
            plan = replace(plan, weights=chosen_weights([answers[job] for job in trials]))
    wanted = [job for wave in waves for job in wave if job.cell is None or job.cell.method in plan.methods]
    order = {cell.name: i for i, cell in enumerate(plan.cells())}
    cells = sorted((job for job in wanted if job.cell), key=lambda job: order[job.label])
    traces = [job for job in wanted if not job.cell and job.weight is None]
    others = _others(folder, {job.label for job in cells}) if plan.grid else []
    return TrainingReport(
        images.name,
        images.foreign_name,
        images.note,
        plan.to_dict(),
        (*(answers[job] for job in cells), *others),
        tuple(answers[job] for job in traces),
        tuple(answers[job] for job in trials),
    )


def report_of(folder: str | Path) -> TrainingReport:
    """Return the report of what is finished in a folder; nothing is trained."""
    folder = Path(folder)
    settings = read_json(folder / "plan.json")
    trials, cells, traces = (
        [{"schema": SCHEMA, **read_json(path)} for path in sorted((folder / part).glob("*.json"))]
        for part in ("trials", "cells", "traces")
    )
    order = {name: i for i, name in enumerate((*METHODS, *PENALTIES))}
    cells.sort(key=lambda cell: (order[cell["penalty"]], order[cell["method"]], cell["seed"]))
    plan = {key: value for key, value in settings["plan"].items() if key != "seeds"}
    if trials:
        plan["weights"] = [list(pair) for pair in chosen_weights(trials)]
    images = images_of(plan["data"], plan["rows"], plan["n_cal"], plan["n_test"])
    plan["rows"] = len(images.y_train)
    return TrainingReport(
        settings["data"], images.foreign_name, images.note, plan, tuple(cells), tuple(traces), tuple(trials)
    )


def chosen_weights(trials: Sequence[Document]) -> tuple[tuple[str, float], ...]:
    """Return λ of each penalty: the smallest NLL at the optimal temperature on the calibration rows.

    The UCE paper compares at the optimal temperature only, so that is where λ is chosen.
    """
    best: dict[str, Document] = {}
    for trial in trials:
        known = best.get(trial["penalty"])
        if known is None or trial["nll_tempered"] < known["nll_tempered"]:
            best[trial["penalty"]] = trial
    return tuple((penalty, trial["weight"]) for penalty, trial in best.items())


def _others(folder: Path, known: set[str]) -> list[Document]:
    """Read finished cells of earlier runs with the same settings: other methods and seeds."""
    paths = sorted((folder / "cells").glob("*.json"))
    return [{"schema": SCHEMA, **read_json(path)} for path in paths if path.stem not in known]


def _waves(plan: Plan) -> list[list[Job]]:
    """Order the work: first what stands alone (and the plain networks others build on), then the rest."""
    cells = list(plan.cells())
    needed = [Cell("plain", c.penalty, c.seed) for c in cells if c.method in BUILT_ON_PLAIN]
    alone = list(dict.fromkeys([*(c for c in cells if c.method not in BUILT_ON_PLAIN), *needed]))
    first = [Job(cell, "", cell.seed) for cell in alone]
    if plan.trace_steps:
        first += [Job(None, kind, seed) for seed in plan.seeds for kind in INITIALISATIONS]
    return [first, [Job(cell, "", cell.seed) for cell in cells if cell.method in BUILT_ON_PLAIN]]


def write_report(folder: str | Path, report: TrainingReport, *, figures: bool = True) -> None:
    """Write train.md, train.json and, where matplotlib is installed, the figures into the folder of the run."""
    from calibrant_papers.training.figures import draw

    folder = Path(folder)
    write_json(folder / "train.json", report.to_dict())
    write_text(folder / "train.md", report.to_markdown())
    if figures:
        with contextlib.suppress(MissingExtraError):
            draw(report, folder)
