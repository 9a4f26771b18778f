"""Figures 3, 5, 6, 9 and 10 of Nixon et al. (2019): calibration over training, claim by claim over five seeds.

References
----------
[1] Nixon et al. (2019), "Measuring Calibration in Deep Learning", CVPR workshops.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from calibrant._typing import RNG, Floats, Ints
from calibrant.metrics import (
    accuracy,
    adaptive_calibration_error,
    expected_calibration_error,
    static_calibration_error,
    thresholded_adaptive_calibration_error,
)
from calibrant_papers.studies.checkpoints import read_json, write_json
from calibrant_papers.studies.frame import current_workspace
from calibrant_papers.targets.result import Finding, Line, TargetResult
from calibrant_papers.targets.training_runs import SEEDS, source

__all__ = ["TARGETS"]

MEASURES: dict[str, Callable[..., float]] = {
    "ECE": expected_calibration_error,
    "SCE": static_calibration_error,
    "ACE": adaptive_calibration_error,
    "TACE": thresholded_adaptive_calibration_error,
}
THRESHOLD = 0.01
RANGES = 15
#: Rows looked at on either side each time.
LOOK = 1000
BINS = 10
#: Rows and steps of the full form; the two-layer network is slow, and 1,000 steps are 13 epochs of these rows.
ROWS, STEPS, SLOW_STEPS = 5000, 2000, 1000
NOTE = (
    "Quick: the wide network on small images. Full: the paper's two-layer network for Fashion-MNIST, on part of the "
    "rows so that it learns them by heart in few steps (the paper: 100,000 steps on all of them)."
)
HELD_OUT = "held-out rows"


def look(y: Ints, proba: Floats, logits: Floats, only: tuple[str, ...]) -> dict[str, Any]:
    """Return what the figures show of one side at one step."""
    confidence, hit = proba.max(axis=1), (proba.argmax(axis=1) == y).astype(np.float64)
    place = np.minimum((confidence * BINS).astype(int), BINS - 1)
    sizes = np.bincount(place, minlength=BINS)
    gaps = np.abs(np.bincount(place, confidence - hit, minlength=BINS)) / np.maximum(sizes, 1)
    flat = np.sort(proba.ravel())
    kept = flat[flat >= THRESHOLD]
    found: dict[str, Any] = {name: float(MEASURES[name](y, proba)) for name in only}
    return found | {
        "accuracy": accuracy(y, proba),
        "sizes": sizes.tolist(),
        "gaps": gaps.tolist(),
        "norm": float(np.linalg.norm(logits, axis=1).mean()),
        "bounds": flat[(np.arange(RANGES) * len(flat)) // RANGES].tolist(),
        "kept bounds": kept[(np.arange(RANGES) * len(kept)) // RANGES].tolist(),
    }


@lru_cache(maxsize=32)
def trace(name: str, network: str, start: str, seed: int, quick: bool) -> tuple[list[dict[str, Any]], str, str]:
    """Train one network and look at its rows as it goes, or read what an earlier run has kept."""
    place = current_workspace().folder
    if place is None:
        return _trace(name, network, start, seed, quick)
    parts = (name.partition("=")[0], network, start, str(seed), "quick" if quick else "full")
    path = place / "traces" / f"{'-'.join(parts)}.json"
    if not path.exists():
        write_json(path, {"trace": _trace(name, network, start, seed, quick)})
    seen, label, size = read_json(path)["trace"]
    return seen, label, size


def _trace(name: str, network: str, start: str, seed: int, quick: bool) -> tuple[list[dict[str, Any]], str, str]:
    """Train one network and look at training and held-out rows as it goes; the last look has the long measures too."""
    import torch

    from calibrant.torch import predict
    from calibrant_papers.training import networks
    from calibrant_papers.training.cell import images_of
    from calibrant_papers.training.traces import initialize

    images = images_of(name, 1000 if quick else ROWS, LOOK, 1000)
    steps, every = 300 if quick else SLOW_STEPS if network == "two-layer" else STEPS, 100
    seen: list[dict[str, Any]] = []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = networks.build(network, "plain", images.n_classes, images.x_train[0].size)
        initialize(model, start)
        x, y = networks.tensors(images, "train")
        sides = {
            "training rows": (x[:LOOK], y[:LOOK]),
            HELD_OUT: tuple(part[:LOOK] for part in networks.tensors(images, "test")),
        }

        def watch(step: int) -> bool:
            if step != 1 and step % every:
                return False
            last = step == steps or quick
            row: dict[str, Any] = {"step": step}
            for side, (rows, labels) in sides.items():
                forecast = predict(model, networks.walk(rows), 1)
                logits = np.asarray(forecast._kept()[0])
                row[side] = look(labels.numpy(), forecast.proba, logits, tuple(MEASURES))
                if last and side == HELD_OUT:
                    row["ACE, 100 ranges"] = adaptive_calibration_error(labels.numpy(), forecast.proba, n_bins=100)
                    row["TACE, 50 ranges"] = thresholded_adaptive_calibration_error(
                        labels.numpy(), forecast.proba, n_bins=50, threshold=THRESHOLD
                    )
            seen.append(row)
            return step == steps

        size = 64
        epochs = -(-steps // -(-len(x) // size))
        networks.train(
            model, x, y, penalty="none", epochs=epochs, lr=1e-3, batch_size=size, seed=seed, after_step=watch
        )
    return seen, images.name, f"{len(x):,} training rows, {steps:,} steps of {size}"


def _network(quick: bool, name: str) -> str:
    return "two-layer" if not quick and name.partition("=")[0] == "fashion-mnist" else "wide"


def _images(quick: bool, data: Path | None) -> str:
    """Return which images to train on: those of the data folder, else the system's, else digits."""
    from calibrant_papers.training.images import find_idx

    name = "fashion-mnist-14" if quick else "fashion-mnist"
    if data is not None and find_idx("", data) is not None:
        return f"{name}={data}"
    return "digits" if find_idx("fashion-mnist") is None else name


def _traces(name: str, quick: bool, start: str = "glorot") -> tuple[list[list[dict[str, Any]]], str, str]:
    found = [trace(name, _network(quick, name), start, seed, quick) for seed in SEEDS]
    return [rows for rows, _, _ in found], found[0][1], found[0][2]


def _ends(rows: list[list[dict[str, Any]]], side: str, key: str) -> list[float]:
    return [float(each[-1][side][key]) for each in rows]


def course(target: str, name: str, quick: bool, data: Path | None = None, rng: RNG = 0) -> TargetResult:
    """ECE, SCE, ACE and TACE over training, on training and on held-out rows."""
    del rng
    chosen = _images(quick, data) if name == "images" else source(data, name)
    rows, label, size = _traces(chosen, quick)
    curves = {
        measure: {
            "step": [float(row["step"]) for row in rows[0]],
            **{side: [row[side][measure] for row in rows[0]] for side in ("training rows", HELD_OUT)},
        }
        for measure in MEASURES
    }
    lines, findings = [], []
    for measure in MEASURES:
        train, held = (_ends(rows, side, measure) for side in ("training rows", HELD_OUT))
        lines += [
            Line(f"{measure}, {side}", float(np.mean(v))) for side, v in (("training", train), ("held out", held))
        ]
        findings.append(
            Finding.over(
                f"at the end {measure} of held-out rows is above that of training rows",
                [b > a for a, b in zip(train, held, strict=True)],
                measured=f"{100 * np.mean(held):.2f}% against {100 * np.mean(train):.2f}%",
                reason="the network has not learned its training rows by heart",
                novelty="held-out rows of training",
            )
        )
    wanted = {
        "nixon-fig-6": "CIFAR-100 outputs stand in for training",
        "nixon-fig-10": "CIFAR-10 outputs stand in for training",
    }
    notes = (NOTE, f"{wanted[target]} a 110-layer residual network." if target in wanted else "Glorot start, Adam.")
    return TargetResult(
        target, "P", "metrics over training", tuple(lines), tuple(findings), curves, notes, quick, label, size
    )


def figure_3(quick: bool, data: Path | None = None, rng: RNG = 0) -> TargetResult:
    """Lower bounds of adaptive ranges, with and without threshold; ACE of 100 and TACE of 50 ranges."""
    del rng
    rows, label, size = _traces(_images(quick, data), quick)

    def small(row: dict[str, Any]) -> float:
        return float((np.array(row[HELD_OUT]["bounds"]) < THRESHOLD).mean())

    step = [float(row["step"]) for row in rows[0]]
    curves = {
        "lower bounds of 15 ranges, held-out rows": {
            "step": step,
            **{f"range {i + 1}": [row[HELD_OUT]["bounds"][i] for row in rows[0]] for i in (0, 4, 8, 11, 13, 14)},
        },
        "lower bounds above the threshold, training rows": {
            "step": step,
            **{f"range {i + 1}": [row["training rows"]["kept bounds"][i] for row in rows[0]] for i in (0, 2, 4, 8, 14)},
        },
        "ACE, 100 ranges": {"step": step, "held out": [row.get("ACE, 100 ranges", np.nan) for row in rows[0]]},
        "TACE, 50 ranges": {"step": step, "held out": [row.get("TACE, 50 ranges", np.nan) for row in rows[0]]},
    }
    middle = [each[-1]["training rows"]["kept bounds"][RANGES // 2] for each in rows]
    ace, tace = ([each[-1][key] for each in rows] for key in ("ACE, 100 ranges", "TACE, 50 ranges"))
    shares = [[small(each[0]), small(each[-1])] for each in rows]
    findings = (
        Finding.over(
            "at the end more than half of the ranges begin below 0.01, at the first step fewer than at the end",
            [last > 0.5 and first < last for first, last in shares],
            measured=f"{np.mean(shares, axis=0)[1]:.0%} of the ranges, {np.mean(shares, axis=0)[0]:.0%} at the start",
            reason="the network is not sure yet",
            novelty="training",
        ),
        Finding.over(
            "with the threshold half of the ranges of training rows begin above 0.9",
            [bound > 0.9 for bound in middle],
            measured=f"the middle one at {np.mean(middle):.3f}",
            reason="training rows are not fitted yet",
            novelty="threshold",
        ),
        Finding.over(
            "TACE (50 ranges) is above ACE (100 ranges): tiny probabilities no longer fill the ranges",
            [b > a for a, b in zip(ace, tace, strict=True)],
            measured=f"{100 * np.mean(tace):.2f}% against {100 * np.mean(ace):.2f}%",
            reason="few probabilities are tiny",
            novelty="threshold",
        ),
    )
    lines = [Line(f"lower bound of range {i + 1}, last step", v) for i, v in enumerate(rows[0][-1][HELD_OUT]["bounds"])]
    return TargetResult(
        "nixon-fig-3", "P", "adaptive ranges over training", tuple(lines), findings, curves, (NOTE,), quick, label, size
    )


def _lower(row: dict[str, Any]) -> float:
    """Return the error of the bins below 0.9 that hold ten rows or more, weighted by rows."""
    sizes, gaps = np.array(row[HELD_OUT]["sizes"][:-1]), np.array(row[HELD_OUT]["gaps"][:-1])
    held = np.where(sizes >= 10, sizes, 0)
    return float((held * gaps).sum() / max(held.sum(), 1))


def figure_9(quick: bool, data: Path | None = None, rng: RNG = 0) -> TargetResult:
    """Errors by bin over training; spread of confidences, logit norm and accuracy for a good and a poor start."""
    del rng
    name = _images(quick, data)
    good, label, size = _traces(name, quick)
    poor, _, _ = _traces(name, quick, "normal")
    step = [float(row["step"]) for row in good[0]]
    curves: dict[str, dict[str, list[float]]] = {
        "error by bin of confidence": {
            "step": step,
            **{f"{i / BINS:.1f}–{(i + 1) / BINS:.1f}": [r[HELD_OUT]["gaps"][i] for r in good[0]] for i in range(BINS)},
        }
    }
    for key in ("norm", "accuracy"):
        curves[key] = {"step": step} | {
            start: [row[HELD_OUT][key] for row in rows[0]]
            for start, rows in (("good start", good), ("poor start", poor))
        }
    top = {
        start: [row[-1][HELD_OUT]["sizes"][-1] / sum(row[-1][HELD_OUT]["sizes"]) for row in rows]
        for start, rows in (("good", good), ("poor", poor))
    }
    curves["rows in the last bin"] = {"seed": [float(s) for s in SEEDS], **top}
    ends = {key: (_ends(good, HELD_OUT, key), _ends(poor, HELD_OUT, key)) for key in ("norm", "accuracy", "ECE", "ACE")}
    early = [_lower(each[min(2, len(each) - 1)]) for each in good]
    late, last = [_lower(each[-1]) for each in good], [each[-1][HELD_OUT]["gaps"][-1] for each in good]
    ece, norm, right = ends["ECE"], ends["norm"], ends["accuracy"]
    findings = (
        Finding.over(
            "at the end the bin from 0.9 is better calibrated than those below",
            [a < b for a, b in zip(last, late, strict=True)],
            measured=f"{100 * np.mean(last):.1f}% against {100 * np.mean(late):.1f}%",
            reason="the network is overconfident in all bins",
            novelty="bins",
        ),
        Finding.over(
            "the bins below 0.9 become less calibrated over training",
            [a < b for a, b in zip(early, late, strict=True)],
            measured=f"{100 * np.mean(early):.1f}% early, {100 * np.mean(late):.1f}% at the end",
            reason="too few steps",
            novelty="training",
        ),
        Finding.over(
            "a poor start puts more rows into the last bin: the diversity of probabilities degrades",
            [b > a for a, b in zip(top["good"], top["poor"], strict=True)],
            measured=f"{np.mean(top['poor']):.0%} against {np.mean(top['good']):.0%}",
            reason="the good start is as sure",
            novelty="initialization",
        ),
        Finding.over(
            "the logit norm of a poor start is at least ten times larger",
            [b > 10 * a for a, b in zip(*norm, strict=True)],
            measured=f"{np.mean(norm[1]):.3g} against {np.mean(norm[0]):.3g}",
            reason="training has shrunk it",
            novelty="initialization",
        ),
        Finding.over(
            "accuracy differs by less than five points while the ECE of the poor start is more than twice as large",
            [abs(a - b) < 0.05 and d > 2 * c for a, b, c, d in zip(*right, *ece, strict=True)],
            measured=f"accuracy {100 * np.mean(right[1]):.1f}% against {100 * np.mean(right[0]):.1f}%, "
            f"ECE {100 * np.mean(ece[1]):.1f}% against {100 * np.mean(ece[0]):.1f}%",
            reason="a poor start costs accuracy too in this many steps",
            novelty="initialization",
        ),
    )
    lines = [
        Line(f"{key}, {start} start", float(np.mean(values[i])))
        for key, values in ends.items()
        for i, start in enumerate(("good", "poor"))
    ]
    return TargetResult(
        "nixon-fig-9", "P", "errors by bin, good and poor start", tuple(lines), findings, curves, (NOTE,), quick, label,
        size,
    )  # fmt: skip


#: Target name -> function (quick, data, rng).
TARGETS: dict[str, Callable[[bool, Path | None, RNG], TargetResult]] = {
    "nixon-fig-3": figure_3,
    "nixon-fig-5": partial(course, "nixon-fig-5", "images"),
    "nixon-fig-6": partial(course, "nixon-fig-6", "cifar100-outputs"),
    "nixon-fig-9": figure_9,
    "nixon-fig-10": partial(course, "nixon-fig-10", "cifar10-outputs"),
}
