"""The trainings behind the targets: which data and sizes, quick and full, each done once."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant._typing import Floats, Ints
from calibrant_papers.studies.frame import current_workspace

if TYPE_CHECKING:
    from calibrant_papers.training import Plan, TrainingReport

__all__ = ["SEEDS", "Trained", "forecasts", "penalties_run", "source"]

SEEDS = (0, 1, 2, 3, 4)


def source(data: Path | None, name: str = "cifar10-outputs") -> str:
    """Return what to train on: outputs of published networks where the data folder is given, else images at hand."""
    from calibrant_papers.training.images import find_idx

    if data is not None and (data / "cifar10_lenet5.npz").exists():
        return f"{name}={data}"
    return "digits" if find_idx("fashion-mnist") is None else "fashion-mnist-14"


@dataclass(frozen=True)
class Trained:
    """A finished training: its report, the test logits of every model, what it was made from."""

    report: TrainingReport
    logits: dict[str, dict[str, Any]]
    data: str
    size: str

    def value(self, method: str, penalty: str, temperature: str, column: str) -> list[float]:
        """Return one number of every seed."""
        cells = sorted(self.report.cells, key=lambda cell: cell["seed"])
        found = [c["results"][temperature] for c in cells if (c["method"], c["penalty"]) == (method, penalty)]
        return [float(r["temperature"] if column == "T" else r["measures"][column]) for r in found]


#: Features of tables 1-2 and figure 7, and those of figure 8.
MAIN, HUNDRED = "cifar10-outputs", "cifar100-outputs"


def _plan(quick: bool, data: Path | None, name: str = MAIN) -> Plan:
    from calibrant_papers import training

    plan = training.Plan.make(data=source(data, name), network="wide", traces=False, choose=not quick)
    if quick:
        plan = replace(plan, rows=500, n_cal=1500, n_test=2000, epochs=30, average_epochs=5, samples=5)
    return replace(plan, methods=("plain", "swag") if name == MAIN else ("swag",))


def _run(plan: Plan, folder: Path, quick: bool) -> tuple[TrainingReport, dict[str, dict[str, Any]]]:
    """Run the main cells, then (penalty none alone when quick) the other methods; return all cells together."""
    from calibrant_papers import training

    jobs = 1 if quick else (current_workspace().jobs or None)
    report = training.run(folder, plan, jobs=jobs)
    if "plain" not in plan.methods:
        return report, _logits(folder)
    rest = replace(plan, methods=("ensemble",) if quick else (*training.METHODS[1:4], "ensemble"))
    rest = replace(rest, penalties=("none",)) if quick else rest
    more = training.run(folder, rest, jobs=jobs)
    known = {(c["method"], c["penalty"], c["seed"]): c for c in (*report.cells, *more.cells)}
    return replace(report, cells=tuple(known.values())), _logits(folder)


def _logits(folder: Path) -> dict[str, dict[str, Any]]:
    """Return what the models of a run say about the test rows."""
    logits = {}
    for path in sorted((folder / "logits").glob("*.npz")):
        with np.load(path, allow_pickle=False) as archive:
            logits[path.stem] = {key: archive[key] for key in archive.files}
    return logits


@lru_cache(maxsize=4)
def penalties_run(quick: bool, data: Path | None, name: str = MAIN) -> Trained:
    """Train methods × penalties, five seeds for the main cells; on other features SWAG alone."""
    from calibrant_papers.training.cell import plan_images

    plan, here = _plan(quick, data, name), current_workspace()
    if here.folder is not None:
        place = f"training-{'quick' if quick else 'full'}{'' if name == MAIN else f'-{name}'}"
        report, logits = _run(plan, here.folder / place, quick)
    else:
        with tempfile.TemporaryDirectory() as place:
            report, logits = _run(plan, Path(place), quick)
    images = plan_images(plan)
    size = f"{len(images.y_train):,} training and {len(images.y_test):,} test rows"
    return Trained(report, logits, report.data, size)


@lru_cache(maxsize=16)
def forecasts(name: str, quick: bool, seed: int) -> tuple[Ints, Floats, Floats, str]:
    """Train one plain wide network; return test labels, forecasts of test and out-of-distribution rows, the data."""
    import torch

    from calibrant.torch import predict
    from calibrant_papers.training import networks
    from calibrant_papers.training.cell import images_of

    images = images_of(name, 1000 if quick else None, 1500, 2000 if quick else None)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = networks.build("wide", "plain", images.n_classes, images.x_train[0].size)
        x, y = networks.tensors(images, "train")
        networks.train(model, x, y, penalty="none", epochs=15 if quick else 40, lr=3e-3, batch_size=256, seed=seed)
        known, foreign = (
            predict(model, torch.from_numpy(rows)[:, None], 1).proba for rows in (images.x_test, images.foreign)
        )
    return images.y_test, known, foreign, images.name
