"""Maps that repair probabilities: one file per method, one contract for all.

The mapping below is the only list of methods; everything else (tables, short names, the command
line, the contract suite) walks it. Adding a method is its file and one line here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from calibrant.calibrators._base import Calibrator
    from calibrant.calibrators._listing import CalibratorList

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
#: What else this package exports: the base class and the wrapper for ordinary features.
OTHERS = {"Calibrator": "_base", "CalibratedClassifier": "classifier"}

__all__ = ["by_short_name", "list_calibrators", *CALIBRATORS, *OTHERS]  # noqa: PLE0604  # names of the mappings


def __getattr__(name: str) -> Any:
    module = CALIBRATORS.get(name) or OTHERS.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{module}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)


def list_calibrators() -> CalibratorList:
    """Return the methods: iterates class names, prints as a table of declared properties.

    Examples
    --------
    >>> "Identity" in list_calibrators()
    True
    """
    from calibrant.calibrators._listing import CalibratorList

    return CalibratorList(tuple(CALIBRATORS))


def by_short_name(name: str, caller: str = "by_short_name") -> type[Calibrator]:
    """Return the class of a short name, as used by ``--method``.

    Examples
    --------
    >>> by_short_name("identity").__name__
    'Identity'
    """
    from calibrant.calibrators._listing import find_short_name

    return find_short_name(name, caller)
