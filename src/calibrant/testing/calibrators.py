"""The contract of a calibrator as a suite anyone can run on a method of their own."""

from __future__ import annotations

import pickle
import tempfile
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from calibrant._typing import Array, Floats, Ints
from calibrant.calibrators._artifact import load
from calibrant.calibrators.portable import predict_from_json
from calibrant.core.links import softmax
from calibrant.errors import CalibrantWarning
from calibrant.testing import regression_calibrators
from calibrant.testing.regression_calibrators import must, must_be_fitted, must_declare, must_refuse

__all__ = ["check_calibrator"]


def check_calibrator(calibrator: Any, *, rng: int = 0) -> None:
    """Raise AssertionError unless a calibrator keeps the contract and what it declares.

    Parameters
    ----------
    calibrator : Calibrator or its class
        An unfitted instance (its options are kept), or a class to be built with defaults.
    rng : int, default 0
        Seed of the simulated scores.

    Notes
    -----
    Checks declarations, cloning, the simplex on hostile input (ten rows or one, separable and absent classes,
    exact 0 and 1, repeated rows, zero weights), weights = repetition, weights of any scale, margins of any scale, row
    order, permuted and absent classes, byte order, float32 = float64, one binary column = two, labels, declared
    argmax / order / injectivity / saturation, refusal of bad
    input, untouched arguments, pickling, and that saved and exported maps agree. Calibrators of means and variances
    are checked in the same way: positive variances, a kept mean, injectivity, weights, refusals, artifacts.

    Examples
    --------
    >>> from calibrant.calibrators import Identity
    >>> check_calibrator(Identity)
    >>> from calibrant.calibrators import StdScaling
    >>> check_calibrator(StdScaling)
    """
    if isinstance(calibrator, type):
        calibrator = calibrator()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)  # hostile input is meant to be warned about
        for check in CHECKS_BY_TASK[calibrator.task]:
            check(calibrator, np.random.default_rng(rng))


def _fresh(calibrator: Any, **options: Any) -> Any:
    from sklearn.base import clone

    return clone(calibrator).set_params(**options)


def _mapped(calibrator: Any, x: Any, y: Any, new: Any, weights: Any = None, **options: Any) -> Array:
    """Fit a fresh calibrator and return what it makes of new rows."""
    return np.asarray(_fresh(calibrator, **options).fit(x, y, sample_weight=weights).predict_proba(new))


def _simulate(rng: np.random.Generator, n: int, k: int, sharpen: float = 2.0) -> tuple[Floats, Ints]:
    """Logits that are too sharp by a factor, and labels drawn from the unsharpened softmax."""
    logits = 1.5 * rng.normal(size=(n, k))
    labels = (logits + rng.gumbel(size=(n, k))).argmax(axis=1)
    return sharpen * logits + 0.3 * rng.normal(size=k), labels


def _on_simplex(calibrator: Any, p: Array, shape: tuple[int, int], case: str) -> None:
    must(p.dtype == np.float64 and p.shape == shape, calibrator, f"output is float64 of shape {shape} ({case})")
    must(np.isfinite(p).all(), calibrator, f"output is finite ({case})")
    must(p.min() >= 0 and p.max() <= 1, calibrator, f"output lies in [0, 1] ({case})")
    must(np.abs(p.sum(axis=1) - 1).max() <= 1e-12, calibrator, f"rows sum to 1 within 1e-12 ({case})")


def _close(calibrator: Any, a: Array, b: Array, tolerance: float, rule: str) -> None:
    gap = float(np.abs(a - b).max())
    must(gap <= tolerance, calibrator, f"{rule} (differs by {gap:.2g}, allowed {tolerance:g})")


def check_declarations(calibrator: Any, rng: np.random.Generator) -> None:
    """Check that the class says what it is and does nothing at construction."""
    kind = type(calibrator)
    flags = ("preserves_argmax", "preserves_order", "injective", "may_saturate")
    must_declare(calibrator, flags, kind.n_parameters(5))
    must(not kind.preserves_order or kind.preserves_argmax, calibrator, "order kept means argmax kept")
    copy = _fresh(calibrator)
    must_be_fitted(calibrator, "predict_proba", np.full((1, 3), 1 / 3))
    logits, y = _simulate(rng, 60, 3)
    x = softmax(logits)
    before = x.copy(), y.copy()
    for array in (x, y):
        array.setflags(write=False)
    must(copy.fit(x, y) is copy, calibrator, "fit returns self")
    must(repr(copy) == repr(calibrator), calibrator, "fit leaves the options as given")
    first = copy.predict_proba(x)
    must(np.array_equal(before[0], x) and np.array_equal(before[1], y), calibrator, "arguments stay untouched")
    must(np.array_equal(copy.predict_proba(x), first), calibrator, "predict_proba repeats itself")
    other_logits, other_y = _simulate(rng, 40, 4)
    again = _fresh(calibrator).fit(softmax(other_logits), other_y).fit(x, y)
    must(np.array_equal(again.predict_proba(x), first), calibrator, "a second fit equals a first fit")
    copied = pickle.loads(pickle.dumps(copy))  # noqa: S301  # our own bytes
    must(np.array_equal(copied.predict_proba(x), first), calibrator, "survives pickling")


def check_hostile_input(calibrator: Any, rng: np.random.Generator) -> None:
    """Never leaves the simplex, never nan."""
    new = softmax(_simulate(rng, 40, 3)[0])
    new = np.concatenate([new, np.eye(3), [[0.5, 0.5, 0.0]], np.full((1, 3), 1 / 3)])
    cases: dict[str, tuple[Array, Array, Array | None]] = {}
    logits, y = _simulate(rng, 10, 3)
    cases["ten rows"] = softmax(logits), y, None
    cases["one row"] = softmax(logits[:1]), y[:1], None
    logits, y = _simulate(rng, 60, 3)
    x = softmax(logits)
    cases["separable"] = x, x.argmax(axis=1), None
    cases["never right"] = x, x.argmin(axis=1), None
    cases["absent class"] = x, np.minimum(y, 1), None
    cases["one class only"] = x, np.full(60, 2), None
    cases["exact 0 and 1"] = np.eye(3)[x.argmax(axis=1)], y, None
    votes = np.round(x * 5)
    votes[:, 0] += 5 - votes.sum(axis=1)
    cases["zeros among votes"] = np.abs(votes) / np.abs(votes).sum(axis=1, keepdims=True), y, None
    cases["one repeated row"] = np.repeat(x[:1], 30, axis=0), y[:30], None
    cases["uniform rows"] = np.full((30, 3), 1 / 3), y[:30], None
    cases["zero weights"] = x, y, np.arange(60) % 3.0
    for case, (scores, labels, weights) in cases.items():
        fitted = _fresh(calibrator).fit(scores, labels, sample_weight=weights)
        _on_simplex(calibrator, fitted.predict_proba(new), new.shape, case)
        must(fitted.classes_.shape == (3,), calibrator, f"classes_ has one entry per column ({case})")


def check_invariances(calibrator: Any, rng: np.random.Generator) -> None:
    """Weights = repetition, row order, precision, one column = two, names, logits."""
    logits, y = _simulate(rng, 90, 3)
    x = softmax(logits)
    new = softmax(_simulate(rng, 50, 3)[0])
    base = _mapped(calibrator, x, y, new)
    counts = rng.integers(0, 4, size=len(y))
    repeated = _mapped(calibrator, np.repeat(x, counts, axis=0), np.repeat(y, counts), new)
    _close(calibrator, _mapped(calibrator, x, y, new, counts), repeated, 1e-6, "integer weights equal repeated rows")
    order = rng.permutation(len(y))
    moved = _mapped(calibrator, x[order], y[order], new)
    _close(calibrator, moved, base, 1e-6, "the order of the rows does not matter")
    single = x.astype(np.float32)
    short, wide = (_mapped(calibrator, given, y, new) for given in (single, single.astype(np.float64)))
    _close(calibrator, short, wide, 1e-9, "float32 input gives the float64 answer")
    swapped = _mapped(calibrator, x.astype(">f8"), y.astype(">i8"), new.astype(">f8"))
    must(np.array_equal(swapped, base), calibrator, "the byte order of the input does not matter")
    names = ["c", "a", "b"]
    named = _fresh(calibrator, classes=names).fit(x, [names[code] for code in y])
    must(np.array_equal(named.predict_proba(new), base), calibrator, "labels by name give the same map")
    must(list(named.classes_) == names, calibrator, "classes_ holds the names in column order")
    lists = _mapped(calibrator, x.tolist(), y.tolist(), new.tolist())
    _close(calibrator, lists, base, 0.0, "lists equal arrays")
    binary = x[:, 1] / (x[:, 0] + x[:, 1])
    code = (y == 1).astype(int)
    one = _mapped(calibrator, binary, code, binary)
    two = _mapped(calibrator, np.stack([1 - binary, binary], axis=1), code, binary)
    _on_simplex(calibrator, one, (len(binary), 2), "one binary column")
    _close(calibrator, one, two, 1e-12, "one binary column equals two columns")
    by_logit = _mapped(calibrator, logits, y, logits, space="logit")
    _on_simplex(calibrator, by_logit, logits.shape, "logits")
    column = np.log(binary) - np.log1p(-binary)
    by_odds = _mapped(calibrator, column, code, column, space="logit")
    _on_simplex(calibrator, by_odds, (len(column), 2), "log-odds")


def check_weights(calibrator: Any, rng: np.random.Generator) -> None:
    """Check that importance weights count by their relative sizes, whatever their scale."""
    logits, y = _simulate(rng, 90, 3)
    x, new = softmax(logits), softmax(_simulate(rng, 50, 3)[0])
    base = _mapped(calibrator, x, y, new)
    equal = _mapped(calibrator, x, y, new, np.full(len(y), 1 / len(y)))
    _close(calibrator, equal, base, 1e-9, "equal weights of 1/n are no weights")
    weights = rng.uniform(0.2, 1.9, size=len(y))
    expected = _mapped(calibrator, x, y, new, weights)
    for scale in (1e-300, 0.037, 7.7, 1e200):
        scaled = _mapped(calibrator, x, y, new, scale * weights)
        _close(calibrator, scaled, expected, 1e-6, f"weights w and {scale:g}·w give the same map")
    heavy = _mapped(calibrator, x[:20], y[:20], new, np.full(20, 10**9))
    _on_simplex(calibrator, heavy, new.shape, "twenty rows of weight 1e9")


def check_margins(calibrator: Any, rng: np.random.Generator) -> None:
    """Check that logits of any size are kept apart as well as small ones."""
    margin = rng.normal(size=200)
    y = (margin + rng.logistic(size=200) > 0).astype(int)
    areas = []
    for scale in (1.0, 1e-11, 1e3, 1e11):
        p = _fresh(calibrator, space="logit").fit(scale * margin, y).predict_proba(scale * margin)
        _on_simplex(calibrator, p, (200, 2), f"margins times {scale:g}")
        areas.append(_area(p[:, 1], y))
    if type(calibrator).n_parameters(2) > 0:  # a map without parameters has the ties of the softmax
        slack = 0.06 if type(calibrator).may_saturate else 0.01  # clipped values tie
        must(min(areas) >= areas[0] - slack, calibrator, f"large margins keep their order (areas {areas})")
    logits, codes = _simulate(rng, 90, 3)
    far = _fresh(calibrator, space="logit").fit(logits, codes)
    for size in (1e3, 1e300):
        _on_simplex(calibrator, far.predict_proba(size * np.eye(3)), (3, 3), f"logits of {size:g}")


def _area(score: Array, y: Array) -> float:
    """Return the area under the ROC curve, ties counted by half."""
    gap = score[y == 1][:, None] - score[y == 0]
    return float((gap > 0).mean() + (gap == 0).mean() / 2)


def check_classes(calibrator: Any, rng: np.random.Generator) -> None:
    """Check that the names and order of the columns do not matter, and that a column without labels stays."""
    logits, y = _simulate(rng, 150, 3)
    x, new = softmax(logits), softmax(_simulate(rng, 50, 3)[0])
    base = _mapped(calibrator, x, y, new)
    order = np.array([2, 0, 1])
    permuted = _mapped(calibrator, x[:, order], np.argsort(order)[y], new[:, order])
    drawn = "rng" in calibrator.get_params()  # folds are drawn class by class
    _close(calibrator, permuted, base[:, order], 0.2 if drawn else 1e-5, "permuted classes give the permuted map")
    present = y < 2
    absent = _mapped(calibrator, x[present], y[present], new)
    _on_simplex(calibrator, absent, new.shape, "a class without labels")
    more = absent[:, 2].mean() > new[:, 2].mean() + 0.02
    must(not more, calibrator, "a class that never came true does not become more likely")


def check_properties(calibrator: Any, rng: np.random.Generator) -> None:
    """Check that what the class declares holds on new rows."""
    kind = type(calibrator)
    for k in (2, 5):
        logits, y = _simulate(rng, 200, k)
        x = softmax(logits)
        new = softmax(_simulate(rng, 300, k)[0])
        p = _fresh(calibrator).fit(x, y).predict_proba(new)
        _on_simplex(calibrator, p, new.shape, f"{k} classes")
        if kind.preserves_argmax:
            rows = np.arange(len(new))
            must((p[rows, new.argmax(axis=1)] >= p.max(axis=1)).all(), calibrator, "the argmax is kept")
        if kind.preserves_order:
            by_score = np.take_along_axis(p, np.argsort(new, axis=1), axis=1)
            must((np.diff(by_score, axis=1) >= 0).all(), calibrator, "the order of all classes is kept")
        if kind.injective:
            must(len(np.unique(p, axis=0)) == len(np.unique(new, axis=0)), calibrator, "distinct rows stay distinct")
        if not kind.may_saturate:
            must(p.min() > 0 and p.max() < 1, calibrator, "no exact 0 or 1")


def check_refusals(calibrator: Any, rng: np.random.Generator) -> None:
    """Bad input raises a calibrant error that names the argument."""
    logits, y = _simulate(rng, 60, 3)
    x = softmax(logits)
    fitted = _fresh(calibrator).fit(x, y)
    nan, negative = x.copy(), x.copy()
    nan[4, 1], negative[5] = np.nan, [-0.5, 1.0, 0.5]
    attempts: dict[str, Callable[[], Any]] = {
        "nan in fit": lambda: _fresh(calibrator).fit(nan, y),
        "negative probabilities": lambda: _fresh(calibrator).fit(negative, y),
        "logits without space='logit'": lambda: _fresh(calibrator).fit(logits, y),
        "too few labels": lambda: _fresh(calibrator).fit(x, y[:-1]),
        "a label out of range": lambda: _fresh(calibrator).fit(x, np.where(np.arange(60) == 7, 3, y)),
        "no rows": lambda: _fresh(calibrator).fit(x[:0], y[:0]),
        "negative weights": lambda: _fresh(calibrator).fit(x, y, sample_weight=-np.ones(60)),
        "an unknown space": lambda: _fresh(calibrator, space="odds").fit(x, y),
        "nan in predict_proba": lambda: fitted.predict_proba(nan),
        "another number of columns": lambda: fitted.predict_proba(softmax(_simulate(rng, 5, 4)[0])),
    }
    must_refuse(calibrator, attempts)


def check_artifacts(calibrator: Any, rng: np.random.Generator) -> None:
    """Check that saved, loaded and exported maps agree."""
    for space in ("proba", "logit"):
        logits, y = _simulate(rng, 120, 4)
        logits[0] = 0.0  # all classes tie
        x = logits if space == "logit" else softmax(logits)
        fitted = _fresh(calibrator, space=space).fit(x, y)
        expected = fitted.predict_proba(x)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "calibrator.json"
            fitted.save(path)
            loaded = load(path)
            must(repr(loaded) == repr(fitted), calibrator, "a loaded calibrator has the same options")
            must(np.array_equal(loaded.predict_proba(x), expected), calibrator, "reload equals to the last bit")
            if "json" in fitted.exports and fitted.can_export:
                _close(calibrator, predict_from_json(path, x), expected, 1e-9, "predict_from_json agrees")
        if "torch" in fitted.exports and fitted.can_export and find_spec("torch"):
            import torch

            out = fitted.to_torch()(torch.from_numpy(x)).numpy()
            _close(calibrator, out, expected, 1e-6, "the torch module agrees")
        if "onnx" in fitted.exports and fitted.can_export and find_spec("onnx") and find_spec("onnxruntime"):
            import onnxruntime

            session = onnxruntime.InferenceSession(fitted.to_onnx(), providers=["CPUExecutionProvider"])
            _close(calibrator, session.run(None, {"scores": x})[0], expected, 1e-6, "the ONNX model agrees")


#: The parts of the contract, in the order they are checked.
CHECKS: tuple[Callable[[Any, np.random.Generator], None], ...] = (
    check_declarations,
    check_hostile_input,
    check_invariances,
    check_weights,
    check_margins,
    check_properties,
    check_classes,
    check_refusals,
    check_artifacts,
)
#: The same by what a calibrator maps.
CHECKS_BY_TASK = {"classes": CHECKS, "regression": regression_calibrators.CHECKS}
