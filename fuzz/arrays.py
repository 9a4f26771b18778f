"""Arrays: every declared metric against its slow twin, every fitted map."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from campaign import Case, FindingError
from oracle import ORACLE

import calibrant
import calibrant.metrics  # declares every metric
from calibrant.calibrators import list_calibrators
from calibrant.core.declare import declared, lookup
from calibrant.errors import CalibrantError, CalibrantWarning

WEIGHTS = (5e-324, 1e-300, 1e-3, 1.0, 3.0, 1e6, 1e300, 1e308)
BAD: tuple[Any, ...] = (np.nan, np.inf, -1.0, 2.0, 1e308, 5e-324, None, "x")
Pair = tuple[Callable[[np.random.Generator], Case], Callable[[Case], str]]


def one_of(rng: np.random.Generator, choices: Any) -> Any:
    """Return one of a few."""
    return choices[int(rng.integers(len(choices)))]


def probabilities(rng: np.random.Generator, n: int, k: int) -> Any:
    """Rows on the simplex: smooth, sharp, one-hot, rounded to one decimal, equal."""
    kind = rng.integers(5)
    p = rng.dirichlet(np.full(k, 10.0 ** rng.uniform(-2, 2)), n)
    if kind == 1:
        p = np.eye(k)[rng.integers(k, size=n)]
    elif kind == 2:
        p = rng.multinomial(10, p / p.sum(axis=1, keepdims=True)) / 10
    elif kind == 3:
        p = np.full((n, k), 1 / k)
    if kind == 4:
        return p.astype(np.float32)
    return p.astype(">f8") if rng.random() < 0.1 else p


def weights(rng: np.random.Generator, n: int) -> Any:
    if rng.random() < 0.5:
        return None
    kind = rng.integers(3)
    if kind == 0:
        return rng.integers(1, 5, n).astype(float)
    return np.full(n, one_of(rng, WEIGHTS)) if kind == 1 else rng.random(n) + 0.01


def spoil(rng: np.random.Generator, rows: dict[str, Any]) -> None:
    """Put something in that must be refused, or may be."""
    name = one_of(rng, [key for key, column in rows.items() if column is not None])
    bad = one_of(rng, BAD)
    array = np.array(rows[name], dtype=object if bad is None or isinstance(bad, str) else float)
    array.reshape(-1)[rng.integers(array.size)] = bad
    rows[name] = array


def said_nothing(said: list[warnings.WarningMessage], what: str) -> None:
    """Warnings are the library's own."""
    for one in said:
        if not issubclass(one.category, CalibrantWarning):
            raise FindingError(f"{what}: leaked warning {one.message}")


#: Values of the parameters of metrics that the slow twins know too.
BINNED = {"n_bins": (1, 2, 3, 7, 15, 100), "bins": ("width", "mass")}
NORMED = {"norm": (1.0, 2.0, 3.5, np.inf)}
PARAMS: dict[tuple[str, str], dict[str, tuple[Any, ...]]] = {
    ("classes", "ece"): BINNED,
    ("classes", "mce"): BINNED,
    ("classes", "tce"): BINNED | NORMED | {"debias": (False, True)},
    ("classes", "kde"): {"norm": (1.0, 2.0), "bandwidth": ("published", "text", 0.05, 0.4)},
    ("classes", "mmce"): {"width": (0.01, 0.4, 3.0)},
    ("classes", "sweep"): NORMED,
    ("classes", "tl-ece"): NORMED | {"n_bins": (1, 3, 15)},
    ("classes", "cwce"): BINNED | NORMED | {"debias": (False, True)},
    ("classes", "sce"): {"n_bins": (1, 3, 15)},
    ("classes", "ace"): {"n_bins": (1, 3, 15), "pooled": (False, True)},
    ("classes", "tace"): {"n_bins": (1, 3, 15), "pooled": (False, True), "threshold": (0.0, 0.01, 0.3)},
    ("classes", "uce"): BINNED | {"per_class": (False, True)},
    ("classes", "skce"): {
        "estimator": ("unbiased", "biased"),
        "kernel": ("exponential", "gaussian", "total-variation"),
        "gamma": ("median", 0.1, 2.0),
    },
    ("classes", "ce-kde"): {"norm": (1.0, 2.0), "bandwidth": ("likelihood", 0.01, 0.5), "root": (False, True)},
    ("classes", "brier"): {"scale_by_half": (False, True)},
    ("regression", "qce"): NORMED | {"levels": (1, 9, [0.1, 0.7]), "kind": ("quantile", "interval")},
    ("regression", "ence"): {"n_bins": (1, 2, 15), "bins": ("mass", "width")},
    ("regression", "vce"): {"n_bins": (1, 2, 15), "bins": ("mass", "width")},
    ("regression", "skce"): {"estimator": ("auto", "unbiased", "biased"), "bandwidth": ("median", "published", 0.5)},
    ("regression", "interval-score"): {"level": (0.5, 0.9, 0.999)},
    ("regression", "pinball"): {"levels": (1, 9, [0.1, 0.7])},
}
#: Every declared metric.
EVERY = {task: [metric.name for metric in declared(task)] for task in ("classes", "regression")}
#: Twins that cost more than the metric: these shares of the inputs are compared.
DEAR = {"smece": 0.05, "kde": 0.1, "ce-kde": 0.1}
#: Roots of sums that cancel keep half of the digits; a density on a grid keeps what a Fourier transform keeps.
LOOSE = {"tce": 1e-7, "cwce": 1e-7, "mmce": 1e-7, "smece": 1e-8, "kde": 1e-8, "ce-kde": 1e-7, "skce": 1e-9}


#: Forms of class probabilities, and what has to be said about them.
FORMS = (*("as it is",) * 6, "column", "column", "logits", "log-odds", "huge logits", "not normalized")
SAID: dict[str, dict[str, Any]] = {
    "logits": {"space": "logit"},
    "log-odds": {"space": "logit"},
    "huge logits": {"space": "logit"},
    "not normalized": {"normalize": True},
}

#: Metrics that change little with the last digit of a probability: no bins, no ties, no median distance of rounding.
SMOOTH = {
    "accuracy",
    "confidence",
    "kde",
    "mmce",
    "smece",
    "brier",
    "nll",
    "spherical",
    "rps",
    "rbs",
    "entropy",
}


def shaped(rng: np.random.Generator, p: Any, form: str) -> Any:
    """Return probabilities in another form."""
    if form == "column":
        return p[:, 1] / (p[:, 0] + p[:, 1] + 1e-300)
    if form == "not normalized":
        return p * 10.0 ** rng.integers(-3, 4, (len(p), 1))
    logits = np.round(np.log(np.maximum(p, 1e-9)) + rng.normal(size=(len(p), 1)), 6)
    if form == "huge logits":
        return logits * 10.0 ** one_of(rng, (2, 30, 299, 307))
    return logits[:, 1] - logits[:, 0] if form == "log-odds" else logits


def plain(p: Any, space: str = "proba", normalize: bool = False) -> list[list[float]]:
    """Return any form as rows of probabilities, one number after the other."""
    rows = p.tolist()
    if p.ndim == 1:
        rows = [[0.0, z] for z in rows] if space == "logit" else [[1 - x, x] for x in rows]
    if space == "logit":
        rows = [[math.exp(z - max(row)) for z in row] for row in rows]
    if space == "logit" or (normalize and p.ndim == 2):
        rows = [[x / math.fsum(row) for x in row] for row in rows]
    return rows


def draw_metric(rng: np.random.Generator) -> Case:
    task = one_of(rng, ("classes", "classes", "regression"))
    name = one_of(rng, EVERY[task])
    n, k = int(rng.integers(1, 8)), int(rng.integers(2, 5))
    rows: dict[str, Any]
    if task == "classes":
        rows = {"y": rng.integers(k, size=n), "p": probabilities(rng, n, k)}
    else:
        scale = 10.0 ** rng.uniform(-3, 3)
        rows = {
            "y": rng.normal(size=n) * scale,
            "mean": rng.normal(size=n) * scale,
            "variance": scale**2 * rng.uniform(0.1, 10, n),
        }
        if rng.random() < 0.2:
            rows["y"] = rows["mean"].copy()
    rows["w"] = weights(rng, n)
    form = one_of(rng, FORMS) if task == "classes" else "as it is"
    if form != "as it is":
        rows["p"] = shaped(rng, rows["p"].astype(float), form)
        rows["y"] = rows["y"] % 2 if rows["p"].ndim == 1 else rows["y"]
    spoiled = bool(rng.random() < 0.2)
    if spoiled:
        spoil(rng, rows)
    known = PARAMS.get((task, name), {})
    options = {name: one_of(rng, values) for name, values in known.items() if rng.random() < 0.3}
    options |= SAID.get(form, {})
    known_form = form in ("as it is", "column") or (name in SMOOTH and form != "huge logits")
    compared = not spoiled and known_form and bool(rng.random() < DEAR.get(name, 1.0))
    return {"task": task, "metric": name, "rows": rows, "options": options, "compared": compared}


def scaled(w: Any, n: int) -> list[float]:
    """Counts as they are; other weights over the largest, because only their relative sizes count."""
    if w is None:
        return [1.0] * n
    whole = bool((w == np.floor(w)).all()) and float(w.max()) < 2.0**50
    return w.tolist() if whole else (w / w.max()).tolist()


def check_metric(case: Case) -> str:
    task, name, options = case["task"], case["metric"], case["options"]
    *columns, w = case["rows"].values()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            value = lookup(name, task=task)(*columns, sample_weight=w, **options)
        except CalibrantError:
            return "refused"
    said_nothing(said, name)
    if math.isnan(value):
        if not said:
            raise FindingError(f"{task} {name}: nan without a word")
        return "undefined, with a warning"
    if not case["compared"]:
        return "finite" if math.isfinite(value) else "infinite"
    near = {"value": value} if name == "smece" else {}
    form = {key: options[key] for key in ("space", "normalize") if key in options}
    params = {key: value for key, value in options.items() if key not in form}
    forecast = [plain(columns[1], **form)] if task == "classes" else [c.tolist() for c in columns[1:]]
    expected = ORACLE[task, name](columns[0].tolist(), *forecast, scaled(w, len(columns[0])), **params, **near)
    if expected is None:
        return "finite"
    single = task == "classes" and columns[1].dtype.itemsize == 4
    close = max(LOOSE.get(name, 1e-12), 1e-5 if single else 0.0)
    scale = float(np.max(np.abs(columns[0]))) ** 2 if task == "regression" else 1.0
    for one in expected if isinstance(expected, list) else [expected]:
        if value == one or math.isclose(value, one, rel_tol=max(1e-9, close), abs_tol=close * max(scale, 1e-6)):
            return "equal to the oracle"
    raise FindingError(f"{task} {name}: {value!r}, the oracle says {expected!r}")


@contextmanager
def metrics(seed: int) -> Iterator[Pair]:  # noqa: ARG001 -- one signature
    yield draw_metric, check_metric


def fitted(seed: int) -> dict[str, Any]:
    """Fit every calibrator of class probabilities once."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet([2, 1, 1], 40)
    y = (p.cumsum(axis=1) < rng.random((40, 1))).sum(axis=1)
    made = {}
    for name in list_calibrators():
        kind = getattr(calibrant.calibrators, name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if kind.task == "classes":
                made[name] = kind().fit(p, y)
    return made


def check_map(calibrator: Any, p: Any) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            q = calibrator.predict_proba(p)
        except CalibrantError:
            return "refused"
    if q.shape != p.shape or not np.isfinite(q).all() or (q < 0).any() or np.abs(q.sum(axis=1) - 1).max() > 1e-9:
        raise FindingError(f"{type(calibrator).__name__}: rows that are no probabilities")
    return "on the simplex"


@contextmanager
def maps(seed: int) -> Iterator[Pair]:
    every = fitted(seed)

    def draw(rng: np.random.Generator) -> Case:
        return {
            "method": one_of(rng, list(every)),
            "rows": {"p": probabilities(rng, int(rng.integers(1, 6)), 3)},
        }

    yield draw, lambda case: check_map(every[case["method"]], case["rows"]["p"])
