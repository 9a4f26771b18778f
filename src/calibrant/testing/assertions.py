"""An assertion for test suites of models; needs no plugin."""

from __future__ import annotations

from typing import Any

from calibrant._typing import ArrayLike
from calibrant.core.options import check_type
from calibrant.errors import InputError
from calibrant.inference.verdict import event_name
from calibrant.workflows.check import check

__all__ = ["assert_calibrated"]


def assert_calibrated(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    max_error: float = 0.05,
    metric: str = "ks",
    min_pvalue: float | None = None,
    undecided: str = "point",
    **options: Any,
) -> None:
    """Raise AssertionError, with the whole evaluation, unless a calibration error is small enough.

    Parameters
    ----------
    y_true, y_proba
        Truth and forecast, as in `calibrant.evaluate`.
    max_error : float, default 0.05
        Largest value of the metric that passes.
    metric : str, default "ks"
        Short name of a metric, as in `calibrant.check`: of two classes that of class 1; ``"ks@top-1"`` names a view.
    min_pvalue : float, optional
        Also fail when the KS test rejects calibration below this p-value.
    undecided : {"point", "pass", "fail"}
        What happens where the interval of the metric holds `max_error`: the value decides (default), pass, fail. It is
        the gate of `calibrant.check`.
    **options
        Further options of `calibrant.evaluate` (``space``, ``classes``, ``sample_weight``, ``rng`` …).

    Notes
    -----
    What a calibrated model would show at this n is part of the message, so that a failure by noise can be told
    from a failure of the model.

    Examples
    --------
    >>> assert_calibrated([1, 0, 1, 1], [0.75, 0.75, 0.75, 0.75], max_error=0.01)
    >>> assert_calibrated([1, 0, 1, 1], [0.95, 0.95, 0.95, 0.95], max_error=0.1)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    AssertionError: ks is 0.2 (class 1), more than the 0.1 allowed ...
    """
    check_type(metric, str, "metric", "assert_calibrated", "be the name of a metric", "for example 'ks'")
    pvalues = {} if min_pvalue is None else {"ks": min_pvalue}
    limits: dict[str, Any] = {"max_values": {metric: max_error}, "min_pvalues": pvalues, "undecided": undecided}
    try:
        gate = check(y_true, y_proba, **limits, **{"rng": 0, **options})
    except InputError as error:
        if error.argument not in ("max_values", "min_pvalues"):
            raise
        own = (
            "min_pvalue" if error.argument == "min_pvalues" else "metric" if error.got == repr(metric) else "max_error"
        )
        raise error.renamed(argument=own, caller="assert_calibrated") from None
    broken = next((line for line in gate.lines if not line.passed), None)
    if broken is None:
        return
    if broken.rule == "min-pvalue":
        shown = "unknown" if broken.value is None else f"{broken.value:.3g}"
        raise AssertionError(f"the KS test rejects calibration: p = {shown} < {broken.limit:g}.\n{gate.evaluation}")
    result = gate.evaluation[broken.metric]
    of = "" if broken.metric == broken.name else f" ({event_name(gate.evaluation.facts.event)})"
    null = ""
    if result.null_mean is not None:
        null = f" (a calibrated model would show {result.null_mean:.4g} ± {result.null_std:.2g} at n = {gate.n})"
    how = f"; undecided at this n: {broken.need}" if broken.answer == "undecided" else ""
    more = "more than" if not result.value <= max_error else "not surely below"
    raise AssertionError(
        f"{metric} is {result.value:.4g}{of}, {more} the {max_error:g} allowed{null}{how}.\n{gate.evaluation}"
    )
