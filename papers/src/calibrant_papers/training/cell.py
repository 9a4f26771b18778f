"""One cell of the table: train a network, sample it, temper it, measure it, keep its logits."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from calibrant import selective
from calibrant._typing import Array, Floats, Ints
from calibrant.metrics import (
    accuracy,
    adaptive_calibration_error,
    brier_score,
    expected_calibration_error,
    log_score,
    maximum_mean_calibration_error,
    uncertainty_calibration_error,
)
from calibrant.torch import SWAG, MonteCarloTemperature, Predictive, predict
from calibrant_papers.measures import predicted_class_ace
from calibrant_papers.studies.checkpoints import Document
from calibrant_papers.training import networks
from calibrant_papers.training.files import read_arrays, write_arrays
from calibrant_papers.training.images import Images, load_images
from calibrant_papers.training.plan import METHODS, Cell, Plan


@lru_cache(maxsize=3)
def images_of(data: str, rows: int | None, n_cal: int, n_test: int | None) -> Images:
    """Load the images once per process."""
    return load_images(data, rows, n_cal, n_test)


def plan_images(plan: Plan) -> Images:
    """Return the images of a plan."""
    return images_of(plan.data, plan.rows, plan.n_cal, plan.n_test)


def seed_of(*parts: int) -> int:
    """Turn numbers into one seed for torch."""
    return int(np.random.SeedSequence(parts).generate_state(1, np.uint32)[0])


def weights_path(folder: Path, cell: Cell, member: int = 0, weight: float | None = None) -> Path:
    """Where the weights of a plain network are kept."""
    penalty = cell.penalty if weight is None else f"{cell.penalty}@{weight:g}"
    return folder / "weights" / f"plain-{penalty}-{cell.seed}-{member}.npz"


def trained(plan: Plan, cell: Cell, folder: Path, method: str, member: int = 0) -> nn.Sequential:
    """Return the network of a method, trained now or, for plain ones, read from an earlier cell."""
    images = plan_images(plan)
    seed = seed_of(cell.seed, METHODS.index(method), member)  # the same start for every penalty
    torch.manual_seed(seed)
    model = networks.build(plan.network, method, images.n_classes, images.x_train[0].size)
    path = weights_path(folder, cell, member, plan.weight(cell.penalty))
    if method == "plain" and path.exists():
        state = {name: torch.from_numpy(value) for name, value in read_arrays(path).items()}
        model.load_state_dict(state)
        return model
    x, y = networks.tensors(images, "train")
    networks.train(
        model,
        x,
        y,
        penalty=cell.penalty,
        weight=plan.weight(cell.penalty),
        epochs=plan.epochs,
        lr=plan.lr,
        batch_size=plan.batch_size,
        seed=seed,
        held_out=networks.tensors(images, "cal") if plan.early_stopping else None,
    )
    if method == "plain":
        write_arrays(path, {name: value.numpy() for name, value in model.state_dict().items()})
    return model


def sample_logits(plan: Plan, cell: Cell, folder: Path) -> dict[str, Array]:
    """Train (or read) the networks of a cell and return sample logits (S, n, K) of every part of the images."""
    images = plan_images(plan)
    parts = {"cal": images.x_cal, "test": images.x_test, "foreign": images.foreign}
    inputs = {name: torch.from_numpy(x)[:, None] for name, x in parts.items()}
    if cell.method == "ensemble":
        models = [trained(plan, cell, folder, "plain", member) for member in range(plan.members)]
        outs = [_samples(model, nn.Identity(), inputs, plan, cell) for model in models]
        return {name: np.concatenate([out[name] for out in outs]) for name in inputs}
    model = trained(plan, cell, folder, "plain" if cell.method == "swag" else cell.method)
    body, head = model[0], model[1:]
    if cell.method == "swag":
        return _samples(body, _averaged(body, head, plan, cell), inputs, plan, cell)
    return _samples(body, head, inputs, plan, cell)


def _samples(body: nn.Module, head: nn.Module, inputs: dict[str, Tensor], plan: Plan, cell: Cell) -> dict[str, Array]:
    """Pass everything through the fixed body once, then through the random head again and again."""
    out = {}
    samples = 1 if cell.method in ("plain", "ensemble") else plan.samples
    for i, (name, x) in enumerate(inputs.items()):
        features = _features(body, x)
        rng = seed_of(cell.seed, METHODS.index(cell.method), 1000 + i)
        out[name] = predict(head, [features], samples, rng=rng)._kept()
    return out


def _features(body: nn.Module, x: Tensor) -> Tensor:
    body.eval()
    with torch.no_grad():
        return torch.cat([body(part) for part in networks.walk(x)])


def _averaged(body: nn.Module, head: nn.Sequential, plan: Plan, cell: Cell) -> SWAG:
    """Go on with the last layer alone at a hundredth of the learning rate and collect its weights every epoch."""
    x, y = networks.tensors(plan_images(plan), "train")
    features = _features(body, x)
    swag = SWAG(head, layers="last")
    steps = -(-len(x) // plan.batch_size)

    def collect(step: int) -> None:
        if step % steps == 0:
            swag.collect()

    networks.train(
        head,
        features,
        y,
        penalty=cell.penalty,
        weight=plan.weight(cell.penalty),
        epochs=plan.average_epochs,
        lr=plan.lr / 100,
        batch_size=plan.batch_size,
        seed=seed_of(cell.seed, METHODS.index("swag")),
        after_step=collect,
    )
    return swag


def measure(y: Ints, proba: Floats) -> dict[str, float]:
    """Return every column of the table."""
    return {
        "accuracy": accuracy(y, proba),
        "ece": expected_calibration_error(y, proba),
        "ace": predicted_class_ace(y, proba),
        "ace_nixon": adaptive_calibration_error(y, proba),
        "uce": uncertainty_calibration_error(y, proba),
        "mmce": maximum_mean_calibration_error(y, proba),
        "brier": brier_score(y, proba),
        "nll": log_score(y, proba),
    }


def swap_in(known: Floats, foreign: Floats, seed: int) -> tuple[Floats, Floats]:
    """Swap out-of-distribution rows into batches of known ones, one by one, and return shares and mean uncertainty.

    Laves et al. (2020), section 5, figure 2: 20 random batches of 100 rows.

    Examples
    --------
    >>> share, mean = swap_in(np.full(200, 0.1), np.full(200, 0.8), 0)
    >>> share[[0, 50, 100]], mean[[0, 50, 100]].round(2)
    (array([0. , 0.5, 1. ]), array([0.1 , 0.45, 0.8 ]))
    """
    rng, size, repeats = np.random.default_rng(seed), 100, 20

    def draw(values: Floats) -> Floats:
        rows = [rng.choice(len(values), size, replace=len(values) < size) for _ in range(repeats)]
        return np.asarray(values[np.stack(rows)])

    before, after = draw(known), draw(foreign)
    swapped = np.concatenate([np.zeros((repeats, 1)), np.cumsum(after - before, axis=1)], axis=1)
    means = (before.sum(axis=1, keepdims=True) + swapped) / size
    return np.arange(size + 1) / size, means.mean(axis=0)


def cell_path(folder: Path, cell: Cell) -> Path:
    """Where the finished cell is written; its presence says that the cell is done."""
    return folder / "cells" / f"{cell.name}.json"


def run_cell(plan: Plan, cell: Cell, folder: Path) -> Document:
    """Compute one cell, write its logits and return its numbers."""
    images = plan_images(plan)
    logits = sample_logits(plan, cell, folder)
    held_out = Predictive.from_logits(logits["cal"], images.y_cal)
    temper = MonteCarloTemperature().fit(held_out)
    results: dict[str, Any] = {}
    for name, temperature in (("1", 1.0), ("optimal", temper.temperature_)):
        cal, test, foreign = (Predictive.from_logits(logits[part], temperature=temperature) for part in logits)
        known, unknown = (selective.uncertainty(part.proba) for part in (test, foreign))
        share, mean = swap_in(known, unknown, cell.seed)
        rejection = selective.rejection_curve(images.y_test, test.proba)
        found = selective.ood_detection(test.proba, foreign.proba, n_resamples=0, rng=cell.seed)
        results[name] = {
            "temperature": temperature,
            "measures": measure(images.y_test, test.proba),
            "aurc": selective.risk_coverage_curve(images.y_test, test.proba).aurc,
            "rejection": {
                "threshold": rejection.threshold.tolist(),
                "error": rejection.error.tolist(),
                "coverage": rejection.coverage.tolist(),
            },
            "swap_in": {"share": share[::10].tolist(), "uncertainty": mean[::10].tolist()},
            "ood": {"auroc": found.auroc.value, "fpr95": found.fpr95.value},
        }
        suffix = "" if name == "1" else "-tempered"
        write_arrays(
            folder / "logits" / f"{cell.name}{suffix}.npz",
            {
                "logits_cal": cal.logits.astype(np.float32),
                "labels_cal": images.y_cal,
                "logits_test": test.logits.astype(np.float32),
                "labels_test": images.y_test,
            },
        )
    weight = plan.weight(cell.penalty)
    chosen = {} if weight is None else {"weight": weight}
    return {"method": cell.method, "penalty": cell.penalty, "seed": cell.seed, **chosen, "results": results}


def trial_path(folder: Path, penalty: str, weight: float) -> Path:
    """Where the trial of one λ is written."""
    return folder / "trials" / f"{penalty}@{weight:g}.json"


def run_trial(plan: Plan, penalty: str, weight: float, folder: Path) -> Document:
    """Train the plain network of the first seed with one λ and measure it on the calibration rows."""
    images = plan_images(plan)
    cell = Cell("plain", penalty, plan.seeds[0])
    model = trained(replace(plan, weights=((penalty, weight),)), cell, folder, "plain")
    held_out = predict(model, [networks.tensors(images, "cal")[0]], 1, rng=0)
    labeled = Predictive.from_logits(held_out._kept(), images.y_cal)
    tempered = MonteCarloTemperature().fit(labeled).predict(labeled)
    return {
        "penalty": penalty,
        "weight": weight,
        "accuracy": accuracy(images.y_cal, labeled.proba),
        "ece": expected_calibration_error(images.y_cal, labeled.proba),
        "nll": log_score(images.y_cal, labeled.proba),
        "nll_tempered": log_score(images.y_cal, tempered.proba),
    }
