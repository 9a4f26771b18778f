"""Before and after on real regression data: every map of the variance, with paired intervals.

QM9 brings its own predictions. The UCI sets are predicted by a small network (inputs and target standardized by the
training rows, one hidden layer of 50, 500 Adam steps), 60% of the rows to train, 20% to calibrate, 20% to test,
over several random splits; a row that is tested in several splits is one cluster of the interval.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from calibrant._typing import RNG, Floats, Ints
from calibrant.core.inputs import check_names
from calibrant.core.options import check_rng
from calibrant.core.results import Record
from calibrant.core.text import significant, table
from calibrant.errors import FileError
from calibrant.regression import (
    AutoVarianceCalibrator,
    IsotonicQuantiles,
    RegressionCalibrator,
    StdScaling,
    VarianceScaling,
    compare,
    dss,
    ence,
    pit_ks,
    se_variance_ratio,
)
from calibrant_papers.mlp import VarianceNetwork, train
from calibrant_papers.variance_regression import one_thread

__all__ = ["DATA_SETS", "BeforeAfter", "BeforeAfterRow", "before_after"]

DATA_SETS = ("qm9_evidential", "uci_concrete", "uci_energy", "residential_building")
METHODS: tuple[type[RegressionCalibrator], ...] = (
    StdScaling,
    VarianceScaling,
    IsotonicQuantiles,
    AutoVarianceCalibrator,
)


@dataclass(frozen=True)
class BeforeAfterRow(Record):
    """One data set and one map: DSS and its paired change with interval, ratio, PIT and ENCE before and after."""

    data: str
    method: str
    n: int
    dss_before: float
    dss_after: float
    change: float
    low: float
    high: float
    ratio_before: float
    ratio_after: float
    pit_before: float
    pit_after: float
    ence_before: float
    ence_after: float


@dataclass(frozen=True)
class BeforeAfter(Record):
    """The table; `str()` is its text."""

    rows: tuple[BeforeAfterRow, ...]

    def __str__(self) -> str:
        head = ("data", "method", "n", "dss", "after", "change [95%]", "ratio", "after", "pit-ks", "after")
        cells: list[tuple[str, ...]] = [head]
        for r in self.rows:
            span = f"{significant(r.change)} [{significant(r.low)}, {significant(r.high)}]"
            numbers = (r.ratio_before, r.ratio_after, r.pit_before, r.pit_after)
            cells.append(
                (
                    r.data,
                    r.method,
                    str(r.n),
                    significant(r.dss_before),
                    significant(r.dss_after),
                    span,
                    *(significant(v) for v in numbers),
                )
            )
        return "\n".join(table(cells))

    def to_frame(self) -> Any:
        """Return the table as a Polars frame."""
        import polars as pl

        return pl.DataFrame([row.to_dict() for row in self.rows])


@dataclass(frozen=True, eq=False)
class _Case:
    """Calibration and test predictions of one split; `group` says which row of the file a test row is."""

    cal: tuple[Floats, Floats, Floats]
    y: Floats
    mean: Floats
    variance: Floats
    group: Ints


def _read(data: Path | None, name: str) -> dict[str, Any]:
    if data is None or not (Path(data) / f"{name}.npz").exists():
        raise FileError(f"{name}.npz is not in the data folder. Hint: pass --data DIR with the file in it.")
    with np.load(Path(data) / f"{name}.npz", allow_pickle=False) as archive:
        return {key: archive[key] for key in archive.files}


def _qm9(arrays: dict[str, Any]) -> list[_Case]:
    columns = {key: value.astype(np.float64) for key, value in arrays.items()}
    cal = (columns["mean_cal"], columns["std_cal"] ** 2, columns["y_cal"])
    n = len(columns["y_test"])
    return [_Case(cal, columns["y_test"], columns["mean_test"], columns["std_test"] ** 2, np.arange(n))]


def _features(name: str, arrays: dict[str, Any]) -> tuple[Floats, Floats]:
    if name == "residential_building":
        return arrays["x"], arrays["y_cost"]
    table = arrays["data"].astype(np.float64)
    targets = 2 if name == "uci_energy" else 1  # energy ends in heating and cooling load; the first is predicted
    return table[:, :-targets], table[:, -targets]


def _trained(x: Floats, y: Floats, splits: int, rng: np.random.Generator) -> list[_Case]:
    cases = []
    for child in rng.spawn(splits):
        order = child.permutation(len(y))
        first, second = int(0.6 * len(y)), int(0.8 * len(y))
        fit, cal, test = order[:first], order[first:second], order[second:]
        center, scale = x[fit].mean(axis=0), x[fit].std(axis=0)
        inputs = (x - center) / np.where(scale > 0, scale, 1.0)
        level, unit = y[fit].mean(), y[fit].std()
        network = VarianceNetwork((x.shape[1], 50, 2), "exp", child)
        for _ in train(network, inputs[fit], (y[fit] - level) / unit, 500):
            pass
        (mean_cal, var_cal), (mean, var) = network.predict(inputs[cal]), network.predict(inputs[test])
        calibration = (level + unit * mean_cal, unit**2 * var_cal, y[cal])
        cases.append(_Case(calibration, y[test], level + unit * mean, unit**2 * var, test))
    return cases


def before_after(
    data: Path | None, *, names: tuple[str, ...] = DATA_SETS, splits: int = 5, rng: RNG = 0
) -> BeforeAfter:
    """Fit every map of the variance on calibration rows and compare the test rows before and after."""
    generator = check_rng(rng, "before_after")
    rows = []
    for name in names:
        check_names(name, DATA_SETS, "names", "before_after")
        arrays = _read(data, name)
        with one_thread():
            cases = _qm9(arrays) if name == "qm9_evidential" else _trained(*_features(name, arrays), splits, generator)
            rows += [_row(name, kind, cases) for kind in METHODS]
    return BeforeAfter(tuple(rows))


def _row(name: str, kind: type[RegressionCalibrator], cases: list[_Case]) -> BeforeAfterRow:
    after = [kind().fit(*case.cal).predict(case.mean, case.variance) for case in cases]
    y, mean, variance, group = (
        np.concatenate([getattr(case, key) for case in cases]) for key in ("y", "mean", "variance", "group")
    )
    before, repaired = (mean, variance), tuple(np.concatenate(parts) for parts in zip(*after, strict=True))
    change = compare(y, before, (repaired[0], repaired[1]), groups=group, injective=kind.injective)["dss"]
    low, high = (change.interval.low, change.interval.high) if change.interval else (np.nan, np.nan)
    pairs = [
        value for measure in (se_variance_ratio, pit_ks, ence) for value in (measure(y, *before), measure(y, *repaired))
    ]
    return BeforeAfterRow(
        name, kind.short_name, len(y), dss(y, *before), dss(y, *repaired), change.change, low, high, *pairs
    )
