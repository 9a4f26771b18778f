"""Every calibrator fitted on fixed rows: its predictions, and those of everything it can be exported to.

Artifacts are not kept: only twelve rows and what comes out for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import calibrant
from calibrant import calibrators, regression
from frozen.case import Case
from frozen.fixed import answer, class_rows, mean_rows, plain

FIT = 1e-7
SPACES = ("proba", "logit")
#: Methods with options that change the map.
OPTIONS: dict[str, tuple[dict[str, Any], ...]] = {
    "TemperatureScaling": ({"loss": "brier"},),
    "EnsembleTemperatureScaling": ({"loss": "nll"}, {"joint": True}, {"n_components": 2}),
    "IsotonicOneVsRest": ({"smooth": 1.0}, {"epsilon": 0.0}),
    "SplineCalibration": ({"target": "classwise"}, {"monotone": True}, {"keep_argmax": False}),
    "AutoCalibrator": ({"criterion": "brier"}, {"preserve": "argmax"}, {"preserve": "order"}, {"mixture": False}),
}


def cases() -> Iterator[Case]:
    """Yield one case per method, space and number of classes; then options, names, and regression."""
    for name in calibrant.list_calibrators("classes"):
        for space in SPACES:
            yield Case(f"exports/{name}/{space}", partial(exported, name, space), tolerance=FIT)
        yield Case(f"exports/{name}/sql", partial(as_sql, name), "duckdb", tolerance=FIT)
        yield Case(f"exports/{name}/options", partial(with_options, name), tolerance=FIT)
    yield Case("exports/names/pandas", named, tolerance=FIT)
    yield Case("exports/refused", refused)
    yield Case("exports/CalibratedClassifier", classifier, tolerance=FIT)
    for name in calibrant.list_calibrators("regression"):
        yield Case(f"exports/regression-{name}", partial(moments, name), tolerance=FIT)


def make(name: str, **options: Any) -> Any:
    """Return a calibrator; those that are made of others get some."""
    if name in ("Compose", "Ensemble"):
        space = options.pop("space", "proba")
        parts = [calibrators.TemperatureScaling(space=space), calibrators.IsotonicOneVsRest()]
        if name == "Compose":
            return calibrators.Compose(*parts, **options)
        return calibrators.Ensemble([parts[0], calibrators.PlattScaling(space=space)], **options)
    if name == "AutoCalibrator":
        fast = [calibrators.TemperatureScaling(space=options.get("space", "proba")), "beta", "isotonic", "histogram"]
        options = {"candidates": fast, **options} if "preserve" not in options else options | {"fast": True}
    return getattr(calibrators, name)(**options)


@cache
def fitted(name: str, space: str, k: int) -> Any:
    """Return a calibrator fitted on 150 rows."""
    rows = class_rows(150, k, seed=10 + k)
    return make(name, space=space).fit(rows.p if space == "proba" else rows.z, rows.y)


def new_scores(space: str, k: int) -> np.ndarray:
    """Return twelve rows: ten new ones, one sure of a class, one with ties."""
    rows = class_rows(10, k, seed=30 + k)
    sure, tied = np.eye(k)[:1], np.full((1, k), 1 / k)
    if space == "proba":
        return np.vstack([rows.p, sure, tied])
    return np.vstack([rows.z, 80 * sure - 40, 0 * tied])


def exported(name: str, space: str, folder: Path, seed: int) -> Any:
    """Return what a method says about twelve rows, for two classes and four."""
    return {k: answer(runs, name, space, k, folder) for k in (2, 4)}


def runs(name: str, space: str, k: int, folder: Path) -> Any:
    """Return predictions and those of the exports; equal ones are named, others are written out."""
    ready, x = fitted(name, space, k), new_scores(space, k)
    own = ready.predict_proba(x)
    found: dict[str, Any] = {"predict_proba": own, "predict": ready.predict(x)}
    if hasattr(ready, "predict_interval"):
        found["predict_interval"] = answer(ready.predict_interval, x)
    for kind, run in RUNS.items():
        there = answer(run, ready, x, folder)
        same = (
            isinstance(there, list) and np.shape(there) == own.shape and np.allclose(there, own, rtol=0, atol=FIT / 10)
        )
        found[kind] = "as predict_proba" if same else there
    return found


def from_json(ready: Any, x: np.ndarray, folder: Path) -> Any:
    ready.save(folder / "cal.json")
    if not np.array_equal(calibrant.load(folder / "cal.json").predict_proba(x), ready.predict_proba(x)):
        return "a loaded one predicts otherwise"
    return calibrant.predict_from_json(folder / "cal.json", x)


def from_onnx(ready: Any, x: np.ndarray, folder: Path) -> Any:
    import onnxruntime

    session = onnxruntime.InferenceSession(ready.to_onnx(), providers=["CPUExecutionProvider"])
    return session.run(None, {"scores": x})[0]


def from_torch(ready: Any, x: np.ndarray, folder: Path) -> Any:
    import torch

    return ready.to_torch()(torch.from_numpy(x))


RUNS: dict[str, Callable[[Any, np.ndarray, Path], Any]] = {"json": from_json, "onnx": from_onnx, "torch": from_torch}


def as_sql(name: str, folder: Path, seed: int) -> Any:
    """Return what the query gives for twelve rows, or why there is none."""
    return {f"{space}, {k}": answer(queried, name, space, k) for space in SPACES for k in (2, 4)}


def queried(name: str, space: str, k: int) -> Any:
    import duckdb
    import polars as pl

    ready, x = fitted(name, space, k), new_scores(space, k)
    prefix = "p" if space == "proba" else "logit"
    frame = pl.DataFrame({"id": range(len(x)), **{f"{prefix}_{c}": x[:, c] for c in range(k)}})
    query = ready.to_sql("duckdb", table="frame", keep=["id"])
    with duckdb.connect() as connection:
        connection.register("frame", frame.to_arrow())
        return connection.sql(query).order("id").fetchall()


def with_options(name: str, folder: Path, seed: int) -> Any:
    """Return predictions after fits with weights of both kinds, and of a method with its other options."""
    rows, x = class_rows(150, 3, seed=20), new_scores("proba", 3)[:6]

    def predicted(weight: Any = None, **options: Any) -> Any:
        return make(name, **options).fit(rows.p, rows.y, sample_weight=weight).predict_proba(x)

    found = {"counts": answer(predicted, rows.counts), "shares": answer(predicted, rows.shares)}
    return found | {repr(options): answer(predicted, **options) for options in OPTIONS.get(name, ())}


def named(folder: Path, seed: int) -> Any:
    """Return predictions where classes have names, from arrays and from frames of columns in another order."""
    import pandas as pd

    rows = class_rows(150, 3, seed=20)
    names = np.array(["ant", "bee", "cow"])
    ready = calibrators.VectorScaling(classes=names).fit(rows.p, names[rows.y])
    x = new_scores("proba", 3)[:5]
    frame = pd.DataFrame(x, columns=["p_ant", "p_bee", "p_cow"])
    turned = frame[["p_cow", "p_ant", "p_bee"]]
    return {
        "array": plain(ready.predict_proba(x)),
        "labels": plain(ready.predict(x)),
        "frame": answer(ready.predict_proba, frame),
        "turned": answer(ready.predict_proba, turned),
        "apply": answer(lambda: calibrant.apply(ready, turned).to_dict("list")),
        "apply array": answer(calibrant.apply, ready, x),
        "apply logits": answer(calibrant.apply, ready, np.log(x[:3]), space="logit"),
        "other": answer(ready.predict_proba, frame.rename(columns={"p_ant": "p_elk"})),
        "sql": answer(lambda: ready.to_sql(table="t", keep=["id"]).splitlines()[0]),
        "dialects": {
            one: answer(lambda one=one: len(ready.to_sql(one)) > 0)
            for one in ("duckdb", "spark", "bigquery", "snowflake", "none")
        },
    }


def refused(folder: Path, seed: int) -> Any:
    """Return the lines by which methods refuse."""
    rows = class_rows(40, 3, seed=20)
    ready = calibrators.TemperatureScaling().fit(rows.p, rows.y)
    return {
        "not fitted": answer(calibrators.TemperatureScaling().predict_proba, rows.p),
        "columns": answer(ready.predict_proba, rows.p[:, :2]),
        "not a simplex": answer(ready.predict_proba, 2 * rows.p),
        "loss": answer(calibrators.TemperatureScaling(loss="mse").fit, rows.p, rows.y),
        "space": answer(calibrators.TemperatureScaling(space="odds").fit, rows.p, rows.y),
        "one class": answer(calibrators.TemperatureScaling().fit, rows.p, 0 * rows.y),
        "method": answer(calibrators.get_calibrator, "temperatur"),
        "file": answer(calibrant.load, "none.json"),
        "sql columns": answer(ready.to_sql, columns=["a"]),
        "onnx dtype": answer(ready.to_onnx, dtype="float16"),
        "few rows": answer(lambda: calibrators.VectorScaling().fit(rows.p[:2], rows.y[:2]).predict_proba(rows.p[:2])),
    }


def classifier(folder: Path, seed: int) -> Any:
    """Return probabilities of a classifier that is fitted together with its calibrator."""
    from sklearn.naive_bayes import GaussianNB

    rows = class_rows(200, 3, seed=20)
    found = {}
    for method in ("temperature", "isotonic"):
        for ensemble in (False, True):
            model = calibrant.CalibratedClassifier(GaussianNB(), method, cv=3, ensemble=ensemble)
            found[f"{method}, {ensemble}"] = answer(
                lambda model=model: model.fit(rows.z, rows.y).predict_proba(rows.z[:6])
            )
    return found


def moments(name: str, folder: Path, seed: int) -> Any:
    """Return new means and variances, distributions and quantiles of a method of regression, and those of its file."""
    rows, new = mean_rows(150, seed=40), mean_rows(12, seed=41)
    found: dict[str, Any] = {}
    for kind, weight in (("plain", None), ("counts", rows.counts), ("shares", rows.shares)):
        ready = getattr(regression, name)().fit(rows.mean, rows.variance, rows.y, sample_weight=weight)
        found[kind] = plain(ready.predict(new.mean, new.variance))
        if weight is None:
            law = ready.predict_distribution(new.mean, new.variance)
            found["distribution"] = plain({"mean": law.mean, "variance": law.variance, "cdf": law.cdf(new.y)})
            found["quantiles"] = answer(ready.predict_quantiles, new.mean, new.variance, levels=[0.1, 0.5, 0.9])
            ready.save(folder / "cal.json")
            again = calibrant.load(folder / "cal.json").predict(new.mean, new.variance)
            columns = np.stack([new.mean, new.variance], axis=1)
            found["from json"] = answer(calibrant.predict_from_json, folder / "cal.json", columns)
            found["loaded"] = plain(again) == found["plain"]
    found["parameters"] = {
        key: plain(value) for key, value in vars(ready).items() if key in ("factor_", "scale_", "offset_")
    }
    found["refused"] = answer(getattr(regression, name)().fit, rows.mean, -rows.variance, rows.y)
    return found
