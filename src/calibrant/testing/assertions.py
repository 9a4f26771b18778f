"""An assertion for test suites of models; needs no plugin."""

from __future__ import annotations

from typing import Any

from calibrant._typing import ArrayLike

__all__ = ["assert_calibrated"]


def assert_calibrated(
    y_true: ArrayLike, y_proba: ArrayLike, *, max_error: float = 0.05, measure: str = "ks",
    min_pvalue: float | None = None, **options: Any,
) -> None:
    """Raise AssertionError, with the whole evaluation, unless a calibration error is small enough.

    Parameters
    ----------
    y_true, y_proba
        Truth and forecast, as in `calibrant.evaluate`.
    max_error : float, default 0.05
        Largest value of the measure that passes.
    measure : str, default "ks"
        Short name of a measure; the top-label KS error needs no bins.
    min_pvalue : float, optional
        Also fail when the KS test rejects calibration below this p-value.
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
    AssertionError: ks is 0.2, more than the 0.1 allowed ...
    """
    from calibrant.inference import evaluate

    names = list(dict.fromkeys([measure, "ks"]))
    evaluation = evaluate(y_true, y_proba, measures=names, **{"rng": 0, **options})
    result = evaluation[measure]
    if not result.value <= max_error:
        null = "" if result.null_mean is None else (
            f" (a calibrated model would show {result.null_mean:.4g} ± {result.null_std:.2g} at n = {evaluation.n})"
        )
        raise AssertionError(
            f"{measure} is {result.value:.4g}, more than the {max_error:g} allowed{null}.\n{evaluation}"
        )
    pvalue = evaluation["ks"].pvalue
    if min_pvalue is not None and pvalue is not None and pvalue < min_pvalue:
        raise AssertionError(f"the KS test rejects calibration: p = {pvalue:.3g} < {min_pvalue:g}.\n{evaluation}")
