"""Variance recalibration over training: Residential Building and Friedman-1 of Gruber & Buettner (2022).

The published protocols are repeated as they are, beside ones that fix their flaws: raw inputs in Residential
Building (the variance output is stuck near its start), and in Friedman-1 a recalibration that gave the test rows the
scaled variances of the *validation* rows.

References
----------
[1] Gruber & Buettner (2022), "Better Uncertainty Calibration via Proper Scores for Classification and Beyond", NeurIPS,
    section 5 and appendix G.5.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from calibrant._typing import RNG, Floats
from calibrant.core.inputs import check_names
from calibrant.core.options import check_rng
from calibrant.core.results import Record
from calibrant.errors import FileError
from calibrant.regression import VarianceScaling, dss, skce
from calibrant_papers.mlp import VarianceNetwork, train

__all__ = ["PUBLISHED", "Curves", "Split", "friedman", "friedman_rows", "load_residential", "residential", "track"]

#: Tables 1 and 2 of [1]: MSE and variances in units of 10⁶, by iteration.
PUBLISHED: dict[str, dict[int, float]] = {
    "mse": {500: 10.48, 750: 5.87, 1000: 4.3, 1250: 3.51, 1500: 3.12, 1750: 2.74, 2000: 2.57},
    "variance_after": {500: 11.04, 750: 6.89, 1000: 5.4, 1250: 4.55, 1500: 4.11, 1750: 3.63, 2000: 3.32},
    "variance_before": {500: 0.83, 750: 0.83, 1000: 0.83, 1250: 0.83, 1500: 0.83, 1750: 0.82, 2000: 0.82},
    "ratio_after": {500: 0.82, 1000: 0.79, 1500: 0.79, 2000: 0.79},
    "ratio_before": {500: 11.33, 1000: 5.36, 1500: 4.07, 2000: 3.51},
    "ratio_after_std": {500: 2.17, 1000: 2.43, 1500: 2.56, 2000: 2.59},
    "ratio_before_std": {500: 30.72, 1000: 15.09, 1500: 12.13, 2000: 11.22},
}
SERIES = (
    "mse",
    "variance_before",
    "variance_after",
    "ratio_before",
    "ratio_after",
    "ratio_before_std",
    "ratio_after_std",
    "dss_before",
    "dss_after",
    "skce_before",
    "skce_after",
    "skce_median_before",
    "skce_median_after",
)
Protocol = Literal["raw", "standardized"]


@dataclass(frozen=True, eq=False)
class Split:
    """Training, calibration and test rows."""

    x: tuple[Floats, Floats, Floats]
    y: tuple[Floats, Floats, Floats]


@dataclass(frozen=True, eq=False)
class Curves(Record):
    """Every series over training: arrays (seeds, iterations) on the test rows, before and after recalibration."""

    name: str
    iterations: tuple[int, ...]
    series: dict[str, Floats]
    target_variance: float

    def mean(self, series: str) -> Floats:
        """Mean over seeds at each iteration."""
        return np.asarray(self.series[series].mean(axis=0))

    def at(self, series: str, iteration: int) -> float:
        """Mean over seeds at one recorded iteration."""
        return float(self.mean(series)[self.iterations.index(iteration)])

    def to_dict(self) -> dict[str, Any]:
        """Return names, iterations and the means over seeds as plain lists."""
        return {
            "name": self.name,
            "iterations": list(self.iterations),
            "target_variance": self.target_variance,
            "series": {key: self.mean(key).tolist() for key in self.series},
        }


def one_thread() -> AbstractContextManager[Any]:
    """Keep these small matrix products on one thread: waiting for others costs more than it saves."""
    from threadpoolctl import threadpool_limits

    limit: AbstractContextManager[Any] = threadpool_limits(limits=1, user_api="blas")
    return limit


def track(
    network: VarianceNetwork, split: Split, iterations: tuple[int, ...], *, unit: float = 1.0, misplaced: bool = False
) -> dict[str, Floats]:
    """Train, and at the given iterations measure the test rows before and after variance scaling.

    `unit` turns the network's target back into the original one. `misplaced` repeats the bug of the published
    Friedman notebook: the test rows receive the scaled variances of the calibration rows.
    """
    wanted = set(iterations)
    out: dict[str, list[float]] = {name: [] for name in SERIES}
    for step in train(network, split.x[0], split.y[0], max(iterations)):
        if step not in wanted:
            continue
        (mean_cal, var_cal), (mean, var) = network.predict(split.x[1]), network.predict(split.x[2])
        y_cal, y = split.y[1], split.y[2]
        scaling = VarianceScaling().fit(mean_cal, var_cal, y_cal)  # [1] appendix G.5: refitted after every step
        mended = scaling.predict(mean, var_cal if misplaced else var)[1]
        error = (y - mean) ** 2
        out["mse"].append(unit**2 * float(error.mean()))
        for label, variance in (("before", var), ("after", mended)):
            ratio = error / variance
            out[f"variance_{label}"].append(unit**2 * float(variance.mean()))
            out[f"ratio_{label}"].append(float(ratio.mean()))
            out[f"ratio_{label}_std"].append(float(ratio.std()))
            rows = (unit * y, unit * mean, unit**2 * variance)
            out[f"dss_{label}"].append(dss(*rows))
            out[f"skce_{label}"].append(skce(*rows, bandwidth="published", estimator="unbiased"))
            out[f"skce_median_{label}"].append(skce(*rows, bandwidth="median", estimator="unbiased"))
    return {name: np.array(values) for name, values in out.items()}


def _stack(runs: list[dict[str, Floats]]) -> dict[str, Floats]:
    return {name: np.stack([run[name] for run in runs]) for name in SERIES}


def load_residential(data: Path | None) -> tuple[Floats, Floats]:
    """Return the 107 inputs and the target V-10 (construction cost, which the published notebook predicts)."""
    if data is None:
        raise FileError("this target needs residential_building.npz. Hint: pass --data DIR.")
    path = Path(data) / "residential_building.npz"
    if not path.exists():
        raise FileError(f"{path.name} is not in the data folder. Hint: pass --data DIR with the file in it.")
    with np.load(path, allow_pickle=False) as archive:
        return archive["x"].astype(np.float64), archive["y_cost"].astype(np.float64)


def residential(
    data: Path | None, *, protocol: Protocol = "raw", seeds: int = 5, every: int = 50, steps: int = 2000, rng: RNG = 0
) -> Curves:
    """Train the network of [1] on Residential Building and follow it, `seeds` random splits 100 / 100 / 172.

    ``protocol="raw"`` feeds the inputs as they are (as published); ``"standardized"`` scales inputs and target by the
    training rows and reports in the original unit.
    """
    check_names(protocol, ("raw", "standardized"), "protocol", "residential")
    x, y = load_residential(data)
    iterations = tuple(sorted({*range(max(every, 300), steps + 1, every), *(s for s in range(500, steps + 1, 250))}))
    generator = check_rng(rng, "residential")
    runs = []
    with one_thread():
        for child in generator.spawn(seeds):
            order = child.permutation(len(y))
            parts = (order[:100], order[100:200], order[200:])
            inputs, target, unit = x, y, 1.0
            if protocol == "standardized":
                center, scale = x[parts[0]].mean(axis=0), x[parts[0]].std(axis=0)
                inputs = (x - center) / np.where(scale > 0, scale, 1.0)
                unit = float(y[parts[0]].std())
                target = (y - y[parts[0]].mean()) / unit
            split = Split(
                (inputs[parts[0]], inputs[parts[1]], inputs[parts[2]]),
                (target[parts[0]], target[parts[1]], target[parts[2]]),
            )
            network = VarianceNetwork((107, 200, 2), "absolute", child)
            runs.append(track(network, split, iterations, unit=unit))
    return Curves(f"residential building, {protocol} inputs", iterations, _stack(runs), float(y.var()))


def friedman_rows(n: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Draw Friedman-1 with noise of standard deviation 0.5 + x₆, as the published code has it."""
    x = rng.random((n, 10))
    signal = 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3] + 5 * x[:, 4]
    return x, signal + (0.5 + x[:, 5]) * rng.standard_normal(n)  # [1] eq. (62) and the sentence after it


def friedman(*, seeds: int = 5, every: int = 10, steps: int = 1000, misplaced: bool = False, rng: RNG = 0) -> Curves:
    """Train the network 10-200-50-2 of [1] on Friedman-1 (100 rows each to train, calibrate, test) and follow it."""
    rows = [friedman_rows(100, np.random.default_rng(seed)) for seed in (100, 200, 300)]
    split = Split((rows[0][0], rows[1][0], rows[2][0]), (rows[0][1], rows[1][1], rows[2][1]))
    iterations = tuple(range(every, steps + 1, every))
    with one_thread():
        runs = [
            track(VarianceNetwork((10, 200, 50, 2), "exp", child), split, iterations, misplaced=misplaced)
            for child in check_rng(rng, "friedman").spawn(seeds)
        ]
    name = "Friedman-1" + (", recalibration misplaced as published" if misplaced else "")
    return Curves(name, iterations, _stack(runs), float(split.y[2].var()))
