"""The contract of a calibrator of means and variances; `check_calibrator` runs it on those."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from calibrant._typing import Array, Floats
from calibrant.calibrators.reader import load
from calibrant.errors import InputError, NotFittedError

__all__ = ["CHECKS"]

#: Mean, variance and truth of some rows.
Rows = tuple[Floats, Floats, Floats]


def must(holds: Any, calibrator: Any, rule: str) -> None:
    """Raise an error that names the calibrator and the rule it breaks."""
    if not bool(holds):
        raise AssertionError(f"{type(calibrator).__name__} breaks the contract: {rule}")


def must_declare(calibrator: Any, flags: Sequence[str], n_parameters: float) -> None:
    """Check that the class says what it is and does nothing at construction."""
    kind = type(calibrator)
    for name in ("short_name", "title", "paper", "when", "default_loss"):
        must(isinstance(getattr(kind, name, None), str), calibrator, f"declares {name} as text")
    for name in flags:
        must(isinstance(getattr(kind, name, None), bool), calibrator, f"declares {name} as True or False")
    must(n_parameters >= 0, calibrator, "the number of parameters is not negative")
    must(not [n for n in vars(calibrator) if n.endswith("_")], calibrator, "no fitted attribute before fit")
    must(repr(clone(calibrator)) == repr(calibrator), calibrator, "clone keeps the options")


def must_be_fitted(calibrator: Any, method: str, *columns: Array) -> None:
    """Check that nothing is predicted before fit."""
    try:
        getattr(clone(calibrator), method)(*columns)
    except NotFittedError:
        return
    must(False, calibrator, f"{method} before fit raises NotFittedError")


def _simulate(rng: np.random.Generator, n: int) -> Rows:
    """Return means, variances that are too small, and truths."""
    mean, variance = rng.normal(size=n), rng.gamma(1.0, 1.0, n) + 1e-3
    return mean, variance, mean + np.sqrt(3 * variance + 0.5) * rng.standard_normal(n)


def _same(a: tuple[Array, Array], b: tuple[Array, Array], tolerance: float = 0.0) -> bool:
    return all(np.allclose(x, z, rtol=tolerance, atol=tolerance) for x, z in zip(a, b, strict=True))


def _is_law(calibrator: Any, found: Any, n: int, case: str) -> None:
    mean, variance = found
    must(mean.shape == variance.shape == (n,), calibrator, f"mean and variance have one number per row ({case})")
    must(np.isfinite(mean).all() and np.isfinite(variance).all(), calibrator, f"output is finite ({case})")
    must((variance > 0).all(), calibrator, f"variances are positive ({case})")


def check_declarations(calibrator: Any, rng: np.random.Generator) -> None:
    """Check that the class says what it is and does nothing at construction."""
    must_declare(calibrator, ("injective", "keeps_mean"), type(calibrator).count_parameters(0))
    mean, variance, y = rows = _simulate(rng, 120)
    fresh = clone(calibrator)
    must_be_fitted(calibrator, "predict", mean, variance)
    copies = [column.copy() for column in rows]
    for column in rows:
        column.setflags(write=False)
    must(fresh.fit(mean, variance, y) is fresh, calibrator, "fit returns self")
    must(repr(fresh) == repr(calibrator), calibrator, "fit leaves the options as given")
    first = fresh.predict(mean, variance)
    untouched = all(np.array_equal(a, b) for a, b in zip(rows, copies, strict=True))
    must(untouched, calibrator, "arguments stay untouched")
    must(_same(fresh.predict(mean, variance), first), calibrator, "predict repeats itself")
    again = clone(calibrator).fit(*_simulate(rng, 80)).fit(mean, variance, y)
    must(_same(again.predict(mean, variance), first), calibrator, "a second fit equals a first fit")
    copied = pickle.loads(pickle.dumps(fresh))  # noqa: S301  # our own bytes
    must(_same(copied.predict(mean, variance), first), calibrator, "survives pickling")


def check_map(calibrator: Any, rng: np.random.Generator) -> None:
    """Check that what comes out is a distribution, and that what the class declares holds on new rows."""
    kind = type(calibrator)
    fitted = clone(calibrator).fit(*_simulate(rng, 300))
    mean, variance, _ = _simulate(rng, 200)
    found = fitted.predict(mean, variance)
    _is_law(calibrator, found, 200, "new rows")
    if kind.keeps_mean:
        must(np.array_equal(found[0], mean), calibrator, "the mean is kept")
    if kind.injective:
        distinct = len(np.unique(np.stack(found, axis=1), axis=0))
        must(distinct == len(mean), calibrator, "distinct rows stay distinct")
    quantiles = fitted.predict_quantiles(mean, variance, levels=[0.1, 0.5, 0.9])
    must(quantiles.shape == (200, 3), calibrator, "quantiles have shape (rows, levels)")
    must((np.diff(quantiles, axis=1) > 0).all(), calibrator, "quantiles increase with the level")
    law = fitted.predict_distribution(mean, variance)
    must(law.n == 200, calibrator, "predict_distribution gives one distribution per row")
    for scale in (1e-6, 1e6):  # the unit of y is arbitrary
        center, spread, truth = _simulate(rng, 120)
        fitted = clone(calibrator).fit(scale * center, scale**2 * spread, scale * truth)
        _is_law(calibrator, fitted.predict(scale * center, scale**2 * spread), 120, f"y of order {scale:g}")


def check_invariances(calibrator: Any, rng: np.random.Generator) -> None:
    """Check that weights equal repetition and that containers and precision do not matter."""
    mean, variance, y = rows = _simulate(rng, 80)
    if "cv" not in calibrator.get_params():  # folds may deal repeated rows differently
        counts = rng.integers(0, 4, 80)
        weighted = clone(calibrator).fit(*rows, counts).predict(mean, variance)
        repeated = clone(calibrator).fit(*(np.repeat(column, counts) for column in rows)).predict(mean, variance)
        must(_same(weighted, repeated, 1e-9), calibrator, "whole weights equal repeated rows")
    fitted = clone(calibrator).fit(mean, variance, y)
    equal, importance = np.full(80, 1 / 80), rng.uniform(0.2, 1.9, 80)
    same = _same(clone(calibrator).fit(*rows, equal).predict(mean, variance), fitted.predict(mean, variance), 1e-9)
    must(same, calibrator, "equal weights of 1/n are no weights")
    expected = clone(calibrator).fit(*rows, importance).predict(mean, variance)
    for scale in (1e-300, 0.037, 1e200):
        scaled = clone(calibrator).fit(*rows, scale * importance).predict(mean, variance)
        must(_same(scaled, expected, 1e-6), calibrator, f"weights w and {scale:g}·w give the same map")
    lists = clone(calibrator).fit(mean.tolist(), variance.tolist(), y.tolist())
    first = fitted.predict(mean, variance)
    must(_same(lists.predict(mean.tolist(), variance.tolist()), first), calibrator, "lists equal arrays")
    single = [column.astype(np.float32) for column in rows]
    wide = [column.astype(np.float64) for column in single]
    a, b = (clone(calibrator).fit(*columns).predict(mean, variance) for columns in (single, wide))
    must(_same(a, b, 1e-12), calibrator, "float32 input gives the float64 answer")


def must_refuse(calibrator: Any, attempts: Mapping[str, Callable[[], Any]]) -> None:
    """Check that every attempt raises an error with a rule and a hint."""
    for case, attempt in attempts.items():
        try:
            attempt()
        except ValueError as error:
            clear = isinstance(error, InputError) and bool(error.rule and error.hint)
            must(clear, calibrator, f"a clear message for {case}: {error}")
        else:
            must(False, calibrator, f"{case} is refused")


def check_refusals(calibrator: Any, rng: np.random.Generator) -> None:
    """Check that bad input raises an error that names the argument."""
    mean, variance, y = _simulate(rng, 60)
    fitted = clone(calibrator).fit(mean, variance, y)
    nan, zero = np.where(np.arange(60) == 4, np.nan, mean), np.where(np.arange(60) == 3, 0.0, variance)
    attempts: dict[str, Callable[[], Any]] = {
        "nan in the mean": lambda: clone(calibrator).fit(nan, variance, y),
        "a variance of 0": lambda: clone(calibrator).fit(mean, zero, y),
        "too few truths": lambda: clone(calibrator).fit(mean, variance, y[:-1]),
        "no rows": lambda: clone(calibrator).fit(mean[:0], variance[:0], y[:0]),
        "negative weights": lambda: clone(calibrator).fit(mean, variance, y, -np.ones(60)),
        "nan in predict": lambda: fitted.predict(nan, variance),
        "a variance of 0 in predict": lambda: fitted.predict(mean, zero),
    }
    must_refuse(calibrator, attempts)


def check_artifacts(calibrator: Any, rng: np.random.Generator) -> None:
    """Check that a saved calibrator comes back to the last bit."""
    mean, variance, y = _simulate(rng, 200)
    fitted = clone(calibrator).fit(mean, variance, y)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "calibrator.json"
        fitted.save(path)
        loaded, own = load(path), type(fitted).load(path)
    must(type(loaded) is type(own) is type(fitted), calibrator, "a loaded calibrator is of its class")
    must(repr(loaded) == repr(fitted), calibrator, "a loaded calibrator has the same options")
    same = _same(loaded.predict(mean, variance), fitted.predict(mean, variance))
    must(same, calibrator, "reload equals to the last bit")


#: The parts of the contract, in the order they are checked.
CHECKS: tuple[Callable[[Any, np.random.Generator], None], ...] = (
    check_declarations,
    check_map,
    check_invariances,
    check_refusals,
    check_artifacts,
)
