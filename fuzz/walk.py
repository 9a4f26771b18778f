"""Every public function and class, from the packages and what they export: nothing is listed but what is left out."""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import calibrant
from calibrant.calibrators import list_calibrators

#: Public functions that are not called, with the reason.
EXCLUDED = {
    "calibrant.load": "see damaged artifacts",
    "calibrant.predict_from_json": "see damaged artifacts",
    "inference.compare_evidence": "takes two pieces of evidence on the same rows: see `compare`",
    "inference.null_distribution": "takes recipes, which `evaluate` makes",
    "inference.evaluate_slices": "takes parts that `evaluate` makes",
    "datasets.draw_labels": "takes a generator and checked rows",
    "estimators.root": "takes checked numbers",
    "scores.paired_difference": "takes checked columns",
    "views.needs_rows": "makes an error",
    "views.from_spec": "reads what a summary wrote",
    "reporting.report_evidence": "takes evidence and settings that `report` checks",
    "reporting.summarize": "takes evidence and settings that `report` checks",
    "errors.input_error": "makes an error",
    "errors.python_word": "a word of an error",
    "errors.require": "imports a package",
    "errors.spell": "words of an error",
    "testing.check_calibrator": "a suite of tests that takes seconds",
    "testing.check_loss": "a suite of tests that takes a function of the caller",
    "testing.check_metric": "a suite of tests that takes seconds",
}
#: Public classes that are not constructed, with the reason.
NOT_MADE = {
    "calibrant.CalibratedClassifier": "takes a classifier and is checked by the suite of scikit-learn",
    "calibrant.Applied": "holds what `apply` found",
    "calibrant.Explanation": "holds what `explain` found",
    "calibrant.FitResult": "holds what `fit` found",
    "calibrant.Gate": "holds what `check` found",
    "calibrant.Interval": "holds what `interval` found",
    "calibrant.MonitorReport": "holds what `monitor` found",
    "calibrant.Report": "holds what `report` found",
    "calibrant.Summarized": "holds what `summarize` found",
    "calibrant.TestResult": "holds what `test_calibration` found",
    "calibrators.Calibrator": "a base class",
    "calibrators.RegressionCalibrator": "a base class",
    "plots.Display": "a base class; the functions return the others",
    "estimators.Estimator": "a base class",
    "estimators.Noise": "names",
    "estimators.Precision": "holds two words",
    "inference.Facts": "holds numbers that `evaluate` found",
    "inference.Null": "holds numbers that `evaluate` drew",
    "torch.ProbitPredictive": "holds what `LastLayerLaplace` found",
}


def packages(*, trained: bool = False) -> dict[str, Any]:
    """Return the public subpackages by their short names, the package itself first; `trained`: the one of torch."""
    found = {} if trained else {"calibrant": calibrant}
    for one in pkgutil.iter_modules(calibrant.__path__):
        if not one.name.startswith("_") and (one.name == "torch") == trained:
            module = importlib.import_module(f"calibrant.{one.name}")
            if hasattr(module, "__all__"):
                found[one.name] = module
    return found


def exported(wanted: Callable[[Any], bool], *, trained: bool = False) -> Iterator[tuple[str, Any]]:
    """Yield every exported thing of a sort once, with the first address it has."""
    seen = set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for short, module in packages(trained=trained).items():
            for name in module.__all__:
                thing = getattr(module, name)
                if wanted(thing) and id(thing) not in seen:
                    seen.add(id(thing))
                    yield f"{short}.{name}", thing


@functools.cache
def functions(*, trained: bool = False) -> dict[str, Callable[..., Any]]:
    """Return every public function that is called, by its address."""
    return {name: thing for name, thing in exported(inspect.isfunction, trained=trained) if name not in EXCLUDED}


def returned(*, trained: bool = False) -> set[str]:
    """Return the names of what functions return: results are looked at, and not made by hand."""
    words = (
        str(inspect.signature(thing).return_annotation) for _, thing in exported(inspect.isfunction, trained=trained)
    )
    return {word for text in words for word in re.findall(r"\w+", text)}


@functools.cache
def classes(*, trained: bool = False) -> dict[str, Any]:
    """Return every public class that is made: no errors, protocols, results or calibrators, which have their kinds."""
    results = returned(trained=trained) - {"Summary", "Binned"}
    fitted = {id(every[name]) for every in map(list_calibrators, ("classes", "regression")) for name in every}
    return {
        name: thing
        for name, thing in exported(inspect.isclass, trained=trained)
        if not issubclass(thing, BaseException)
        and not getattr(thing, "_is_protocol", False)
        and thing.__name__ not in results
        and id(thing) not in fitted
        and name not in NOT_MADE
    }
