"""What arguments are made of: rows, options that make sense by their names, the library's own objects, and the rest."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from arrays import one_of, probabilities, spoil, weights

import calibrant

HOSTILE: tuple[Any, ...] = (
    *(
        None,
        -1,
        0,
        1,
        1.5,
        math.nan,
        math.inf,
        -math.inf,
        1e308,
        5e-324,
        10**30,
        2**63,
        True,
        "",
        "x",
        "ece\n<b>",
        b"x",
    ),
    *(
        [],
        {},
        (),
        [None],
        ["x", 3],
        {"a": 1},
        1j,
        np.array([]),
        np.array([np.nan]),
        np.zeros((2, 2)),
        object(),
        range(3),
    ),
)
#: Values that make sense, by the name of the parameter.
SENSIBLE: dict[str, tuple[Any, ...]] = {
    "alpha": (0.1, 0.9),
    "batch_size": (1, 3),
    "bins": ("width", "mass"),
    "by": ("entropy", "confidence"),
    "calibrated": (False, True),
    "cv": (2, 3),
    "delta": (0.05, 0.5),
    "epsilon": (0.01, 0.3),
    "error": ("ks", "ece", 0.1),
    "estimator": ("unbiased", "biased", "block", "linear"),
    "injective": (False, True),
    "kind": ("quantile", "interval"),
    "level": (0.5, 0.9, 0.95, 0.999),
    "levels": (1, 9, [0.1, 0.9]),
    "metrics": (None, "ece", ["ece", "nll"], ["crps"], ["skce", "accuracy"]),
    "method": ("auto", "ks", "bootstrap", "isotonic"),
    "metric": ("ece", "nll", "ks", "crps"),
    "n": (1, 2, 10, 50),
    "n_bins": (1, 2, 15),
    "n_classes": (2, 3, 7),
    "n_groups": (2, 3, 10),
    "n_resamples": (0, 1, 2, 19, 50),
    "name": ("ece", "nll", "ks", "brier", "skce", "mce", "crps"),
    "norm": (1, 2.0, math.inf),
    "normalize": (False, True),
    "pairs": (False, True),
    "pvalues": ([0.1, 0.5, 0.01], np.array([1.0])),
    "repeats": (1, 3),
    "risk": (0.0, 0.1, 0.9),
    "rng": (0, 7),
    "root": (False, True),
    "score": ("brier", "nll", "log", "crps", "dss", "spherical"),
    "space": ("proba", "proba", "logit"),
    "spread": (0.05, 0.2),
    "task": (None, "classes", "regression"),
    "thresholds": (None, [0.1, 0.5]),
    "tolerance": (0.0, 0.02, 0.5),
    "view": ("top-1", "class-1", "classwise", "pooled", "canonical", "top-2", "within-2", "entropy"),
    "what": ("aurc", "excess_aurc"),
    "average": ("count", "bin"),
    "bandwidth": ("published", "median", 0.1),
    "coarse": (False, True),
    "compare_methods": (False,),
    "concentration": (0.5, 1.0),
    "convention": (None,),
    "curve": ("bins", "isotonic", "smooth", "local"),
    "date": (None, "2026-01-31"),
    "debias": (False, True),
    "decay": (0.5, 0.9),
    "engine": (None, "auto", "polars", "duckdb"),
    "errors": ([0.1], (0.05, 0.02)),
    "facts": (),
    "folder": (None, "kept"),
    "gamma": ("median", 0.5),
    "input_format": (None, "csv"),
    "jobs": (1,),
    "k": (0, 1),
    "kernel": ("exponential", "gaussian"),
    "lengths": (1.0, (0.5, 2.0)),
    "max_error": (0.05, 1.0),
    "methods": (["ts"], ["ts", "irova"]),
    "min_pvalue": (None, 0.01),
    "mixing": (0.0, 0.5),
    "models": (5, 12),
    "n_repeats": (1, 2),
    "n_test": (None, 2),
    "noise": ([0.5], [0.25, 1.0, 4.0]),
    "numbers": ([5], [2, 10]),
    "order": (1, 2),
    "out": ("out.csv",),
    "output": (None,),
    "points": (2, 11),
    "progress": (None,),
    "r": (1, 2),
    "reduce": ("mean", "max"),
    "replace": (False, True),
    "restart": (False, True),
    "run_length": (None, 200.0),
    "seed": (0, 3),
    "share": (0.3, 0.5),
    "sizes": ([2], [2, 4]),
    "slice_resamples": (0, 19),
    "style": ("calibrant", "paper"),
    "temperature": (0.5, 1.0, 2.0),
    "temperatures": ([0.5, 1.0, 2.0],),
    "threshold": (None, 0.1),
    "title": ("<b>title", "x"),
    "trace": ({"step": [1, 2], "ece": [0.1, 0.2]}, {"step": [1], "train": {"nll": [0.3]}}),
    "undecided": ("point", "fail"),
    "unit": (None, "row"),
    "views": (None, ["top-1"], ["top-1", "classwise"]),
    "width": (0.1, 0.4),
    "window": (1, 7),
    "windows": (3, 40),
}
ROWS = (
    *("y_true", "y_proba", "logits", "before", "after", "known", "foreign", "mean", "variance", "sample_weight"),
    *("groups",),
)
#: What may stay at its default, because a call with it would only be slow.
ALWAYS = {
    *("compare_methods", "jobs", "models", "n", "n_repeats", "n_resamples", "output", "progress", "repeats", "rng"),
    *("sizes",),
}


def made(rng: np.random.Generator, task: str = "classes") -> tuple[Any, ...]:
    """Return the rows of an object: labels and probabilities, or truths, means and variances."""
    n = int(rng.integers(2, 9))
    if task == "regression":
        return rng.normal(size=n), rng.normal(size=n), rng.uniform(0.5, 2, n)
    return rng.integers(3, size=n), rng.dirichlet([1.0, 1.0, 1.0], n)


def a_frame(rng: np.random.Generator, *, whole: bool = False) -> Any:
    import polars as pl

    y, p = made(rng)
    columns = {f"p_{k}": p[:, k] for k in range(3)} | {"label": y, "site": rng.integers(2, size=len(y))}
    frame = pl.DataFrame(columns)
    if whole:
        return frame
    return one_of(rng, (frame, frame.lazy(), frame.to_arrow(), frame.to_pandas(), frame.head(0), frame.drop("label")))


def schema_of(frame: Any) -> dict[str, Any]:
    import narwhals as nw

    return dict(nw.from_native(frame).collect_schema())


def a_path(rng: np.random.Generator) -> str:
    """Write a small file where the process stands (a folder of its own)."""
    import polars as pl

    y, p = made(rng)
    frame = pl.DataFrame({"p_0": p[:, 0], "p_1": p[:, 1], "p_2": p[:, 2], "label": y})
    name = str(one_of(rng, ("given.csv", "given.parquet")))
    frame.write_csv(name) if name.endswith("csv") else frame.write_parquet(name)
    return name


def a_summary(rng: np.random.Generator) -> Any:
    return calibrant.Summary(3).update(*made(rng))


def some_evidence(rng: np.random.Generator) -> Any:
    from calibrant.core.inputs import check_forecast

    return check_forecast(*made(rng), caller="fuzz") if rng.random() < 0.6 else a_summary(rng)


def a_calibrator(rng: np.random.Generator) -> Any:
    y, p = made(rng)
    kind = getattr(calibrant.calibrators, one_of(rng, ("TemperatureScaling", "PlattScaling", "IsotonicOneVsRest")))
    return kind() if rng.random() < 0.1 else kind().fit(p, y)


def some_predictions(rng: np.random.Generator) -> Any:
    y, p = made(rng)
    return calibrant.io.Predictions("probabilities", p, y)


def the_facts(rng: np.random.Generator) -> Any:
    return calibrant.evaluate(*made(rng), n_resamples=int(rng.integers(2)) * 19, rng=0).facts


#: The library's own objects, by the names of parameters.
OBJECTS: dict[str, Callable[[np.random.Generator], Any]] = {
    "calibrator": a_calibrator,
    "caller": lambda rng: "fuzz",  # noqa: ARG005 -- a word of the library
    "current": a_summary,
    "data": a_path,
    "evidence": some_evidence,
    "facts": the_facts,
    "first": some_evidence,
    "frame": a_frame,
    "layout": lambda rng: calibrant.io.Layout(label=one_of(rng, ("label", "x", None))),
    "nights": lambda rng: [],  # noqa: ARG005 -- made by `monitor`
    "path": a_path,
    "pattern": a_path,
    "predictions": some_predictions,
    "reference": a_summary,
    "schema": lambda rng: schema_of(a_frame(rng)),
    "second": some_evidence,
    "store": lambda rng: f"store-{rng.integers(10**9)}",
    "summary": a_summary,
}
#: Parameters that never see anything else: what is passed there was made by the library.
OWN = {
    "caller",
    "current",
    "nights",
    "evidence",
    "facts",
    "first",
    "layout",
    "predictions",
    "reference",
    "schema",
    "second",
    "summary",
}


def rows_for(rng: np.random.Generator, names: list[str]) -> dict[str, Any]:
    n, k = int(rng.integers(1, 7)), int(rng.integers(2, 4))
    numbers = "mean" in names
    scale = 10.0 ** one_of(rng, (-3, 0, 3))
    drawn: dict[str, Callable[[], Any]] = {
        "y_true": lambda: rng.normal(size=n) * scale if numbers else rng.integers(k, size=n),
        "mean": lambda: rng.normal(size=n) * scale,
        "variance": lambda: scale**2 * rng.uniform(0.1, 10, n),
        "sample_weight": lambda: weights(rng, n),
        "groups": lambda: rng.integers(3, size=n) if rng.random() < 0.2 else None,
        "logits": lambda: rng.normal(size=(n, k)) * 10.0 ** one_of(rng, (-1, 0, 1, 2)),
    }
    rows = {name: drawn.get(name, lambda: probabilities(rng, n, k))() for name in ROWS if name in names}
    if rng.random() < 0.2 and any(column is not None for column in rows.values()):
        spoil(rng, rows)
    return rows


def options_for(rng: np.random.Generator, function: Callable[..., Any]) -> dict[str, Any]:
    options = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if name in ROWS or name == "self" or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        needed = parameter.default is parameter.empty or name in ALWAYS
        if not needed and rng.random() > 0.25:
            continue
        if name in OBJECTS and (name in OWN or rng.random() < 0.9):
            options[name] = OBJECTS[name](rng)
            continue
        sensible = SENSIBLE.get(name)
        if not sensible and not needed and rng.random() < 0.5:
            continue
        hostile = not sensible or rng.random() < (0.1 if needed else 0.4)
        options[name] = one_of(rng, HOSTILE if hostile else sensible)
    return options


def knows(name: str) -> bool:
    """Whether there are values for a parameter."""
    return name in ROWS or name in SENSIBLE or name in OBJECTS
