"""Values of all metrics on fixed rows: weights, logits, ties, edges, options, views and estimators."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import calibrant
from calibrant import estimators, metrics, regression, views
from frozen.case import Case
from frozen.fixed import Rows, answer, class_rows, mean_rows, softmax

# -- rows of class probabilities ----------------------------------------------------------------------


def variants() -> dict[str, tuple[Any, Any, dict[str, Any]]]:
    """Return truth, probabilities and options by name."""
    rows, two = class_rows(), class_rows(160, 2, seed=3)
    edge = rows.p.copy()
    edge[::7] = np.eye(4)[rows.y[::7]]
    edge[::11] = np.eye(4)[(rows.y[::11] + 1) % 4]
    coarse = (20 * rows.p).round() / 20
    coarse[:, 3] = 1 - coarse[:, :3].sum(axis=1)
    names = np.array(["ant", "bee", "cow", "dog"])
    return {
        "plain": (rows.y, rows.p, {}),
        "counts": (rows.y, rows.p, {"sample_weight": rows.counts}),
        "shares": (rows.y, rows.p, {"sample_weight": rows.shares}),
        "zero-weights": (rows.y, rows.p, {"sample_weight": rows.counts - 1}),
        "logits": (rows.y, rows.z, {"space": "logit"}),
        "large-logits": (rows.y, 400 * rows.z, {"space": "logit"}),
        "float32": (rows.y, rows.p.astype(np.float32), {}),
        "float16": (rows.y, rows.p.astype(np.float16), {"normalize": True}),
        "two": (two.y, two.p, {}),
        "two-column": (two.y, two.p[:, 1], {}),
        "two-counts": (two.y, two.p[:, 1], {"sample_weight": two.counts}),
        "two-logit": (two.y, two.z[:, 1] - two.z[:, 0], {"space": "logit"}),
        "ties": (rows.y, np.clip(coarse, 0, 1), {"normalize": True}),
        "edges": (rows.y, edge, {}),
        "absent": (np.where(rows.y == 2, 1, rows.y), rows.p, {}),
        "names": (names[rows.y], rows.p[:, ::-1], {"classes": names[::-1]}),
        "scaled": (rows.y, 3 * rows.p, {"normalize": True}),
        "one-row": (rows.y[:1], rows.p[:1], {}),
        "two-rows": (rows.y[:2], rows.p[:2], {}),
    }


#: Calls that are refused, the same for all metrics: frozen with three of them.
def refusals() -> dict[str, tuple[Any, Any, dict[str, Any]]]:
    """Return truth, probabilities and options that no metric takes."""
    rows = class_rows(30)
    hole, wide, low = rows.p.copy(), rows.p.copy(), rows.p.copy()
    hole[[3, 7], 1], wide[5], low[2, 0] = np.nan, 2 * wide[5], -0.1
    return {
        "nan": (rows.y, hole, {}),
        "sums": (rows.y, wide, {}),
        "negative": (rows.y, low, {}),
        "short": (rows.y[:-1], rows.p, {}),
        "label": (np.where(np.arange(30) == 4, 9, rows.y), rows.p, {}),
        "fraction-label": (rows.y + 0.5, rows.p, {}),
        "empty": (rows.y[:0], rows.p[:0], {}),
        "weights": (rows.y, rows.p, {"sample_weight": -rows.counts}),
        "no-weight": (rows.y, rows.p, {"sample_weight": 0 * rows.counts}),
        "space": (rows.y, rows.p, {"space": "odds"}),
        "option": (rows.y, rows.p, {"n_bin": 3}),
        "three-axes": (rows.y, rows.p[:, :, None], {}),
        "classes": (rows.y, rows.p, {"classes": ["a", "b"]}),
    }


#: Options of each metric beside its defaults.
CONVENTIONS = tuple(
    {"n_bins": m, "convention": word}
    for m, word in itertools.product((15, 7), ("nixon", "kull", "gruber", "torchmetrics", "netcal", "none-such"))
)
VIEWS = ("top-1", "rank-2", "within-2", "class-0", "class-3", "class-4", "classwise", "pooled", "entropy", "canonical")
BINS = ({"n_bins": 1}, {"n_bins": 7}, {"n_bins": 100}, {"bins": "mass"}, {"bins": "mass", "n_bins": 6}, {"n_bins": 0})
NORMS = ({"norm": 1}, {"norm": 1.5}, {"norm": 2}, {"norm": float("inf")}, {"norm": 0.5})
THROUGH = tuple({"view": view} for view in VIEWS)
OPTIONS: dict[str, tuple[dict[str, Any], ...]] = {
    "ece": (*BINS, *THROUGH, *CONVENTIONS),
    "mce": (*BINS, *THROUGH, *CONVENTIONS),
    "tce": (*BINS, *NORMS, *THROUGH, {"debias": True}, {"debias": True, "norm": 1}, *CONVENTIONS),
    "ks": THROUGH,
    "kuiper": THROUGH,
    "kde": (*THROUGH, *NORMS, {"bandwidth": 0.1}, {"bandwidth": "text"}, {"bandwidth": -1}),
    "mmce": (*THROUGH, {"width": 0.1}, {"width": 2.0}, {"width": 0}),
    "smece": THROUGH,
    "sweep": (*THROUGH, *NORMS),
    "tl-ece": (*NORMS, {"n_bins": 5}),
    "cwce": (*BINS, *NORMS, {"debias": True}, *CONVENTIONS),
    "sce": ({"n_bins": 7}, *CONVENTIONS),
    "ace": ({"n_bins": 7}, *CONVENTIONS),
    "tace": ({"n_bins": 7}, {"threshold": 0.1}, {"threshold": 0.99}, {"pooled": True}, *CONVENTIONS),
    "uce": (*BINS, {"per_class": True}),
    "skce": (
        {"estimator": "biased"}, {"estimator": "linear"}, {"estimator": "block", "block_size": 20},
        {"kernel": "gaussian"}, {"kernel": "total-variation"}, {"gamma": 0.5}, {"gamma": 0}
    ),
    "ce-kde": (*NORMS, {"bandwidth": 0.05}, {"bandwidth": "published"}, {"root": False}),
    "brier": THROUGH,
}  # fmt: skip


# -- rows of means and variances ----------------------------------------------------------------------


def moments() -> dict[str, tuple[Any, tuple[Any, ...], dict[str, Any]]]:
    """Return truth, forecast and options by name."""
    rows = mean_rows()
    spread = np.sqrt(rows.variance)[:, None]
    levels = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
    around = np.array([-1.6449, -0.6745, 0.0, 0.6745, 1.6449])
    draws = rows.mean[:, None] + spread * np.random.RandomState(5).normal(size=(len(rows.y), 20)).round(6)
    coarse = rows.mean.round(), rows.variance.round() + 1
    return {
        "plain": (rows.y, (rows.mean, rows.variance), {}),
        "keyword": (rows.y, (rows.mean,), {"variance": rows.variance}),
        "normal": (rows.y, (regression.Normal(rows.mean, rows.variance),), {}),
        "samples": (rows.y, (regression.Samples(draws),), {}),
        "quantiles": (rows.y, (regression.Quantiles(levels, rows.mean[:, None] + spread * around),), {}),
        "counts": (rows.y, (rows.mean, rows.variance), {"sample_weight": rows.counts}),
        "shares": (rows.y, (rows.mean, rows.variance), {"sample_weight": rows.shares}),
        "samples-counts": (rows.y, (regression.Samples(draws),), {"sample_weight": rows.counts}),
        "float32": (rows.y.astype("f4"), (rows.mean.astype("f4"), rows.variance.astype("f4")), {}),
        "ties": (rows.y.round(), coarse, {}),
        "sure": (rows.y, (rows.mean, np.where(rows.y > 2, 1e-9, rows.variance)), {}),
        "one-row": (rows.y[:1], (rows.mean[:1], rows.variance[:1]), {}),
        "two-rows": (rows.y[:2], (rows.mean[:2], rows.variance[:2]), {}),
    }


def moment_refusals() -> dict[str, tuple[Any, tuple[Any, ...], dict[str, Any]]]:
    """Return truth, forecast and options that no metric of regression takes."""
    rows = mean_rows(30)
    bad, hole = rows.variance.copy(), rows.mean.copy()
    bad[4], hole[6] = 0.0, np.nan
    return {
        "zero-variance": (rows.y, (rows.mean, bad), {}),
        "nan": (rows.y, (hole, rows.variance), {}),
        "short": (rows.y[:-1], (rows.mean, rows.variance), {}),
        "empty": (rows.y[:0], (rows.mean[:0], rows.variance[:0]), {}),
        "weights": (rows.y, (rows.mean, rows.variance), {"sample_weight": -rows.counts}),
        "no-variance": (rows.y, (rows.mean,), {}),
    }


LEVELS = ({"levels": 9}, {"levels": [0.1, 0.5, 0.9]}, {"levels": 0}, {"levels": [0.0, 0.5]})
MOMENT_OPTIONS: dict[str, tuple[dict[str, Any], ...]] = {
    "ence": BINS,
    "vce": BINS,
    "interval-score": ({"level": 0.5}, {"level": 0.99}, {"level": 1.0}),
    "pinball": LEVELS,
    "qce": (*LEVELS, {"kind": "interval"}, {"kind": "central"}, *NORMS),
    "skce": ({"estimator": "biased"}, {"estimator": "block"}, {"estimator": "block", "block_size": 20},
             {"bandwidth": 1.0}, {"bandwidth": (0.5, 2.0)}, {"bandwidth": 0}),
    "pit-ks": ({"rng": 3},),
}  # fmt: skip


# -- any calibration error ----------------------------------------------------------------------------

LOOKS = (
    *VIEWS,
    views.Classwise(reduce="sum"),
    views.Classwise(reduce="max"),
    views.Classwise(threshold=0.05),
    views.Pooled(threshold=0.05),
    views.Entropy(by="predicted"),
)
ESTIMATORS = (
    estimators.Binned(),
    estimators.Binned(n_bins=8, bins="mass"),
    estimators.Binned(n_bins=8, average="range"),
    estimators.Binned(n_bins=8, debias=True),
    estimators.Binned(convention="nixon"),
    estimators.KDE(),
    estimators.KDE(bandwidth=0.1),
    estimators.Cumulative(),
    estimators.Isotonic(),
    estimators.Kernel(),
    estimators.Kernel(width=0.1),
    estimators.Local(),
    estimators.Local(decay=0.5),
    estimators.PathRange(),
    estimators.Smooth(),
    estimators.Sweep(),
)


def cases() -> Iterator[Case]:
    """Yield one case per metric, then refusals, views × estimators, and curves."""
    for name in calibrant.list_metrics("classes"):
        yield Case(f"values/{name}", partial(values, "classes", name))
    for name in calibrant.list_metrics("regression"):
        yield Case(f"values/regression-{name}", partial(values, "regression", name))
    for name in ("ece", "brier", "skce"):
        yield Case(f"values/{name}/refused", partial(refused, "classes", name))
    for name in ("crps", "ence"):
        yield Case(f"values/regression-{name}/refused", partial(refused, "regression", name))
    for view in LOOKS:
        yield Case(f"values/calibration_error/{word(view)}", partial(errors, view))
    yield Case("values/unknown", unknown)
    for name in ("reliability_curve", "cumulative_curve", "isotonic_curve", "local_curve", "class_table"):
        yield Case(f"values/{name}", partial(curve, name))
    yield Case("values/scorer", scorer)
    yield Case("values/tables", tables)


def word(view: Any) -> str:
    """Return the name of a view."""
    return view if isinstance(view, str) else repr(view)


def values(task: str, name: str, folder: Path, seed: int) -> Any:
    """Return the value of a metric on every variant of the rows, and with each of its options on the plain ones."""
    if task == "classes":
        rows: dict[str, Any] = {key: (y, (p,), given) for key, (y, p, given) in variants().items()}
    else:
        rows = moments()
    chosen = (OPTIONS if task == "classes" else MOMENT_OPTIONS).get(name, ())
    y, forecast, _ = rows["plain"]
    rows |= {repr(options): (y, forecast, options) for options in chosen}
    coins = {"rng": seed} if task == "regression" and name in ("pit-ks", "qce") else {}
    return {
        key: answer(calibrant.metric, name, y, *forecast, task=task, **{**coins, **options})
        for key, (y, forecast, options) in rows.items()
    }


def refused(task: str, name: str, folder: Path, seed: int) -> Any:
    """Return the lines by which bad rows are refused."""
    if task == "classes":
        return {key: answer(getattr(metrics, name), y, p, **options) for key, (y, p, options) in refusals().items()}
    return {
        key: answer(getattr(metrics, name), y, *forecast, **options)
        for key, (y, forecast, options) in moment_refusals().items()
    }


def errors(view: Any, folder: Path, seed: int) -> Any:
    """Return the calibration errors of one view by every estimator."""
    return {repr(estimator): norms(view, estimator) for estimator in ESTIMATORS}


def norms(view: Any, estimator: Any) -> Any:
    """Return one calibration error in several norms, or why it is refused."""
    rows = class_rows()
    settings = {
        "1": {},
        "2": {"norm": 2},
        "inf": {"norm": float("inf")},
        "power": {"norm": 2, "root": False},
        "shares": {"sample_weight": rows.shares},
    }
    found = {
        key: answer(metrics.calibration_error, rows.y, rows.p, view=view, estimator=estimator, **options)
        for key, options in settings.items()
    }
    first = found["1"]
    return first if all(one == first for one in found.values()) else found


def unknown(folder: Path, seed: int) -> Any:
    """Return what is said of names that do not exist."""
    rows = class_rows(20)
    return [
        answer(calibrant.metric, "ecee", rows.y, rows.p),
        answer(calibrant.metric, "ece", rows.y, rows.p, task="class"),
        answer(calibrant.metric, "crps", rows.y, rows.p),
        answer(calibrant.list_metrics, "class"),
        answer(metrics.calibration_error, rows.y, rows.p, view="top"),
    ]


def curve(name: str, folder: Path, seed: int) -> Any:
    """Return a curve: weights, another view, equal-mass bins."""
    rows, two = class_rows(60), class_rows(60, 2, seed=3)
    call = getattr(metrics, name)
    settings: dict[str, Any] = {
        "plain": (rows, {}),
        "counts": (rows, {"sample_weight": rows.counts}),
        "shares": (rows, {"sample_weight": rows.shares}),
        "two": (two, {}),
    }
    if name != "class_table":
        settings |= {"class-2": (rows, {"view": "class-2"}), "classwise": (rows, {"view": "classwise"})}
    if name in ("class_table", "reliability_curve"):
        settings["mass"] = (rows, {"bins": "mass", "n_bins": 5})
    if name == "local_curve":
        settings["decay"] = (rows, {"decay": 0.5})
    return {key: answer(call, chosen.y, chosen.p, **options) for key, (chosen, options) in settings.items()}


class Model:
    """A fitted classifier as scikit-learn knows it: features are its logits."""

    classes_ = np.arange(4)

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return softmax(X)


def scorer(folder: Path, seed: int) -> Any:
    """Return scores of a model, larger is better."""
    rows: Rows = class_rows()
    found = {
        name: answer(lambda name=name: metrics.scorer(name)(Model(), rows.z, rows.y))
        for name in calibrant.list_metrics("classes")
    }
    found["ece, 5 bins"] = answer(metrics.scorer("ece", n_bins=5), Model(), rows.z, rows.y, rows.counts)
    return found


def tables(folder: Path, seed: int) -> Any:
    """Return the tables of regression: PIT and variances."""
    rows = mean_rows(80)
    forecast = (rows.y, rows.mean, rows.variance)
    return {
        "pit": answer(regression.compute_pit, *forecast),
        "pit, counts": answer(regression.compute_pit, *forecast, n_bins=5, sample_weight=rows.counts),
        "pit values": answer(regression.pit_values, *forecast),
        "variance": answer(regression.compute_variance_table, *forecast),
        "variance, width": answer(regression.compute_variance_table, *forecast, n_bins=5, bins="width"),
        "variance, shares": answer(regression.compute_variance_table, *forecast, sample_weight=rows.shares),
    }
