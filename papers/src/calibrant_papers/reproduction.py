"""The papers' tables and figures by name: run one, or several one after the other."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path

from calibrant._typing import RNG
from calibrant.core.inputs import check_names
from calibrant.core.results import Record
from calibrant.core.text import count
from calibrant.errors import FileError, MissingExtraError
from calibrant_papers.store import keep, kept
from calibrant_papers.studies.frame import workspace
from calibrant_papers.targets.result import Outcome, TargetResult

__all__ = ["PAPERS", "Outcome", "Target", "attempt", "data_folder", "list_targets", "reproduce"]

#: Beginning of a target's name -> paper.
PAPERS = {
    "gruber": "Gruber & Buettner (2022), Better Uncertainty Calibration via Proper Scores",
    "gupta": "Gupta et al. (2021), Calibration of Neural Networks using Splines",
    "zhang": "Zhang, Kailkhura & Han (2020), Mix-n-Match",
    "nixon": "Nixon et al. (2019), Measuring Calibration in Deep Learning",
    "uce": "Laves et al. (2020), Uncertainty Calibration Error",
}
#: Modules of `calibrant_papers.targets` that hold targets.
MODULES = (
    "gruber_theory",
    "gruber_sizes",
    "gruber_variance",
    "gupta_tables",
    "gupta_other",
    "gupta_figures",
    "zhang_estimators",
    "zhang_methods",
    "zhang_curves",
    "nixon",
    "uce",
    "trained",
)
Run = Callable[[bool, Path | None, RNG], TargetResult]


@dataclass(frozen=True)
class Target(Record):
    """One table or figure of a paper."""

    name: str
    paper: str
    run: Run


@lru_cache(maxsize=1)
def list_targets() -> dict[str, Target]:
    """Return every target by name, in the order of the papers."""
    found: dict[str, Run] = {}
    for module in MODULES:
        found |= import_module(f"calibrant_papers.targets.{module}").TARGETS
    papers = list(PAPERS)

    def place(name: str) -> tuple[int, str, int, str]:
        paper, kind, *rest = name.split("-")
        number = int(rest[-1]) if rest and rest[-1].isdigit() else 0
        return papers.index(paper), {"theorem": "0", "prop": "1", "table": "2", "fig": "3"}.get(kind, "9"), number, name

    return {name: Target(name, PAPERS[name.split("-")[0]], found[name]) for name in sorted(found, key=place)}


def data_folder(data: str | Path | None) -> Path | None:
    """Return the folder of real data: the one given, else that of the variable CALIBRANT_DATA, else None."""
    chosen = data if data is not None else os.environ.get("CALIBRANT_DATA")
    if not chosen:
        return None
    folder = Path(chosen)
    if not folder.is_dir():
        raise FileError(f"the data folder {folder} does not exist. Hint: pass --data DIR, or set CALIBRANT_DATA.")
    return folder


def reproduce(name: str, *, data: str | Path | None = None, quick: bool = False, rng: RNG = 0) -> TargetResult:
    """Run one table or figure of the five papers and return ours beside the published numbers.

    Parameters
    ----------
    name : str
        For example ``"gupta-table-1"``; `list_targets` gives all.
    data : path, optional
        Folder of real predictions; default the variable CALIBRANT_DATA. Simulations need none.
    quick : bool, default False
        Fewer repeats; the result says so.
    rng : None, int or Generator, default 0
        Randomness.

    Returns
    -------
    TargetResult
        Lines (ours, published, difference, band), the verdict of every claim, curves, notes on flawed protocols.

    Examples
    --------
    >>> reproduce("uce-fig-3", quick=True).verdict
    'exact'
    """
    targets = list_targets()
    check_names(name, tuple(targets), "name", "reproduce")
    return targets[name].run(quick, data_folder(data), rng)


def attempt(
    names: Iterable[str],
    *,
    data: Path | None,
    quick: bool,
    folder: Path | None = None,
    jobs: int | None = 1,
    progress: Callable[[int, str], None] | None = None,
    seed: int = 0,
    results: Path | None = None,
) -> list[Outcome]:
    """Run targets one after the other; one that cannot run (no data, no torch) says why and does not stop the rest.

    `progress` is called with the number of finished targets and a note on the one that runs. Finished targets are kept
    in `results`; those found there are not run again.
    """
    outcomes: list[Outcome] = []

    def tell(done: int, total: int, _: str) -> None:
        if progress is not None:
            progress(len(outcomes), f"{name}: {count(done)} of {count(total)} cells")

    for name in names:
        if progress is not None:
            progress(len(outcomes), name)
        run = list_targets()[name].run
        known = None if results is None else kept(name, run, results, quick=quick, seed=seed)
        if known is not None:
            outcomes.append(known)
            continue
        started = time.monotonic()
        try:
            with workspace(folder, jobs=jobs, progress=tell):
                result = run(quick, data, seed)
            outcomes.append(Outcome(name, result, "", quick, time.monotonic() - started))
        except FileError as error:
            outcomes.append(Outcome(name, None, str(error), quick))
        except MissingExtraError as error:
            outcomes.append(Outcome(name, None, str(error), quick, absent="not run"))
        if results is not None:
            keep(outcomes[-1], run, results, seed)
    return outcomes
