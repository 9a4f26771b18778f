"""Calibrators from their registry: constructed with any options, fitted on any rows, applied and loaded again."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from arrays import Pair, check_map, one_of, probabilities, said_nothing, spoil, weights
from callables import told
from campaign import Case, FindingError
from values import HOSTILE

import calibrant
from calibrant.calibrators import list_calibrators
from calibrant.errors import CalibrantError

#: Options of calibrators that make sense; others take hostile values only.
FITTED: dict[str, tuple[Any, ...]] = {
    "candidates": (["temperature", "platt"], ["identity"]),
    "criterion": ("nll", "brier"),
    "cv": (2, 3),
    "epsilon": (1e-9, 0.01),
    "fast": (True,),
    "floor": ("fit", 0.01, None),
    "joint": (False, True),
    "keep_argmax": (False, True),
    "loss": ("nll", "brier"),
    "monotone": (False, True),
    "n_bins": (1, 2, 15),
    "n_components": (1, 2),
    "n_folds": (2, 3),
    "n_inducing": (2, 5),
    "n_knots": (3, 6),
    "odir": ((1.0, 1.0), (1e-3, 0.0)),
    "parameters": ("abm", "am", "ab"),
    "penalty": ("sum", "mean", (1.0, 1.0, 1.0)),
    "preserve": (None, "argmax", "order"),
    "prior": (0.5, 2.0),
    "rng": (0, 1),
    "score": ("bdeu", "k2"),
    "smooth": (False, True, 0.0, 0.5),
    "smoothness": (None, 0.1, 10.0),
    "space": ("proba", "logit"),
    "split": (False, True),
    "strategy": ("mass", "width"),
    "target": ("top-1", "classwise"),
}
#: Methods whose fit costs seconds: tried less often.
SLOW = {"AutoCalibrator", "GaussianProcessCalibration", "Ensemble", "Compose"}


def methods() -> dict[str, Any]:
    """Return every calibrator of both tasks."""
    names = [*list_calibrators("classes"), *list_calibrators("regression")]
    return {name: getattr(calibrant.calibrators, name) for name in names}


def draw_fit(rng: np.random.Generator, every: dict[str, Any]) -> Case:
    name = one_of(rng, list(every))
    if name in SLOW and rng.random() < 0.9:
        name = "TemperatureScaling"
    kind = every[name]
    options: dict[str, Any] = {"odir": (1.0, 1.0)} if "odir" in inspect.signature(kind).parameters else {}
    for option in inspect.signature(kind).parameters:
        if rng.random() < 0.25:
            hostile = option not in FITTED or rng.random() < 0.3
            options[option] = one_of(rng, HOSTILE if hostile else FITTED[option])
    n, k = int(rng.integers(1, 13)), int(rng.integers(2, 5))
    rows: dict[str, Any]
    if kind.task == "classes":
        rows = {"X": probabilities(rng, n, k), "y": rng.integers(k, size=n)}
        if isinstance(options.get("space"), str) and options["space"] == "logit":
            rows["X"] = rng.normal(size=(n, k)) * 10.0 ** one_of(rng, (-1, 0, 1, 2, 3, 300))
    else:
        scale = 10.0 ** one_of(rng, (-150, -3, 0, 3, 150))
        rows = {
            "mean": rng.normal(size=n) * scale,
            "variance": scale**2 * rng.uniform(0.1, 10, n),
            "y": rng.normal(size=n) * scale,
        }
    rows["w"] = weights(rng, n)
    if rng.random() < 0.15:
        spoil(rng, rows)
    return {"method": name, "rows": rows, "options": options}


def check_fit(kind: Any, case: Case) -> str:
    rows = dict(case["rows"])
    w = rows.pop("w")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            calibrator = kind(**case["options"]).fit(*rows.values(), sample_weight=w)
        except CalibrantError as error:
            return told(error)
    said_nothing(said, case["method"])
    if kind.task == "classes":
        outcome = check_map(calibrator, np.asarray(rows["X"], dtype=float))
        calibrant.calibrators._artifact.rebuild(calibrator.to_payload())  # what was fitted can be loaded
        return outcome
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mean, variance = calibrator.predict(rows["mean"], rows["variance"])
    if not (np.isfinite(mean).all() and np.isfinite(variance).all() and (variance > 0).all()):
        raise FindingError(f"{case['method']}: a forecast that is none")
    return "a forecast"


@contextmanager
def fits(seed: int) -> Iterator[Pair]:  # noqa: ARG001 -- one signature
    every = methods()
    yield lambda rng: draw_fit(rng, every), lambda case: check_fit(every[case["method"]], case)
