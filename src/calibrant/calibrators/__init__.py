"""Maps that recalibrate probabilities, or means and variances: one file per method, one contract for all.

The mappings below are the only lists of methods; everything else (tables, short names, artifacts, the command line, the
contract suite) walks them. Adding a method is its file and one line here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from calibrant.calibrators._catalog import CalibratorList
from calibrant.core.inputs import check_names

if TYPE_CHECKING:
    from calibrant.calibrators._common import BaseCalibrator

#: class name -> module of this package; bare calibrators, in the order they are listed.
CALIBRATORS = {
    "Identity": "identity",
    "TemperatureScaling": "temperature",
    "EnsembleTemperatureScaling": "ensemble_temperature",
    "VectorScaling": "vector",
    "MatrixScaling": "matrix",
    "StructuredMatrixScaling": "structured_matrix",
    "DirichletCalibration": "dirichlet",
    "PlattScaling": "platt",
    "BetaCalibration": "beta",
    "HistogramBinning": "histogram",
    "BayesianBinning": "bayesian_binning",
    "ScalingBinning": "scaling_binning",
    "IsotonicOneVsRest": "isotonic",
    "IsotonicMulticlass": "isotonic_multiclass",
    "VennAbers": "venn_abers",
    "SplineCalibration": "spline",
    "OrderPreserving": "order_preserving",
    "GaussianProcessCalibration": "gaussian_process",
    "Compose": "compose",
    "Ensemble": "ensemble",
    "AutoCalibrator": "auto",
}
#: The same for calibrators of means and variances, simplest first.
REGRESSION = {
    "Identity": "regression.identity",
    "StdScaling": "regression.std_scaling",
    "VarianceScaling": "regression.variance_scaling",
    "IsotonicQuantiles": "regression.isotonic_quantiles",
    "AutoVarianceCalibrator": "regression.auto",
}
_BY_TASK = {"classes": CALIBRATORS, "regression": REGRESSION}
#: What else this package exports: the base class and the wrapper for ordinary features.
OTHERS = {
    "Calibrator": "_base",
    "CalibratedClassifier": "classifier",
    "RegressionCalibrator": "regression._base",
    **{name: module for name, module in REGRESSION.items() if name not in CALIBRATORS},
}

__all__ = ["get_calibrator", "list_calibrators", *CALIBRATORS, *OTHERS]  # noqa: PLE0604  # names of the mappings


def __getattr__(name: str) -> Any:
    module = CALIBRATORS.get(name) or OTHERS.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _class(name, module)


def __dir__() -> list[str]:
    return sorted(__all__)


def _class(name: str, module: str) -> Any:
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{module}"), name)


def _tasks(task: str | None, caller: str) -> tuple[str, ...]:
    if task is None:
        return tuple(_BY_TASK)
    known = "classes" if isinstance(task, str) and task == "pairs" else task
    return (check_names(known, tuple(_BY_TASK), "task", caller),)


def find_class(name: str, task: str = "classes") -> type[BaseCalibrator] | None:
    """Return the class of this name, or None if it is not ours."""
    module = _BY_TASK[task].get(name) if task in _BY_TASK else None
    return None if module is None else _class(name, module)


def list_calibrators(task: str | None = "classes") -> CalibratorList:
    """Return the methods: iterates class names, prints as a table of declared properties.

    Parameters
    ----------
    task : {"classes", "regression"} or None, default "classes"
        Methods for class probabilities, for means and variances, or all.

    Examples
    --------
    >>> "Identity" in list_calibrators()
    True
    >>> list(list_calibrators("regression"))
    ['Identity', 'StdScaling', 'VarianceScaling', 'IsotonicQuantiles', 'AutoVarianceCalibrator']
    """
    chosen = _tasks(task, "list_calibrators")
    note = "(parameters: free numbers at 10 classes; grows = with the rows)"
    if task == "classes":
        note += f"\nand {len(REGRESSION)} methods for means and variances: list_calibrators('regression')"
    return CalibratorList(
        {each: {name: _class(name, module) for name, module in _BY_TASK[each].items()} for each in chosen}, note
    )


def get_calibrator(name: str, caller: str = "get_calibrator", task: str | None = None) -> type[Any]:
    """Return the class of a short name, as used by ``--method``.

    Parameters
    ----------
    name : str
        Short name such as ``"temperature"`` or ``"std-scaling"``.
    caller : str
        The function that asks, named in the error.
    task : {"classes", "pairs", "regression"}, optional
        Task of the predictions; without one, class probabilities first ("identity" and "auto" exist for both).

    Examples
    --------
    >>> get_calibrator("identity").__name__, get_calibrator("auto", task="regression").__name__
    ('Identity', 'AutoVarianceCalibrator')
    """
    found: dict[str, type[Any]] = {}
    for each in _tasks(task, caller):
        for class_name, module in _BY_TASK[each].items():
            kind = _class(class_name, module)
            found.setdefault(kind.short_name, kind)
    return found[check_names(name, tuple(found), "method", caller)]
