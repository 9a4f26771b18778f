"""What to do next: a given calibrator applied, or the comparison of methods by cross-validation."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from calibrant import calibrators  # its names bring scikit-learn when they are used
from calibrant._typing import Floats
from calibrant.calibrators.application import class_order
from calibrant.core.inputs import Forecast, check_forecast
from calibrant.core.predictions import Normal
from calibrant.core.rows import Rows
from calibrant.core.text import count

#: Rows the comparison of a report uses at most, and the fewest for which it makes sense.
COMPARED_ROWS = 5_000
_FEWEST = 100
_MOST_CLASSES = 100
FIT = "calibrant fit FILE -o cal.json"
APPLY = "calibrant apply cal.json FILE -o OUT"


def _scores(forecast: Forecast, space: str) -> Any:
    if space == "logit" and forecast.space == "logit":
        return forecast.matrix if forecast._log_odds is None else forecast._log_odds
    return forecast.proba()


def apply_named(forecast: Forecast, calibrator: Any, proba: Floats | None = None) -> tuple[Forecast, dict[str, Any]]:
    """Apply a fitted calibrator, unless what it made of the rows is there, and describe it."""
    if proba is None:
        scores = np.asarray(_scores(forecast, getattr(calibrator, "input_space", "proba")))
        order = class_order(calibrator, forecast.classes if scores.ndim == 2 else None, caller="report")
        if order is None:
            proba = calibrator.predict_proba(scores)
        else:  # classes meet by name, and stay in the order of the data
            proba = np.empty(scores.shape)
            proba[:, order] = calibrator.predict_proba(scores[:, order])
    after = check_forecast(forecast.codes, proba, caller="report", sample_weight=forecast.weights)
    after = after.read_weights(forecast.weight_kind)
    after.classes = forecast.classes
    return after, _described(calibrator)


def apply_to_rows(rows: Rows, calibrator: Any) -> tuple[Rows, dict[str, Any]]:
    """Apply a fitted calibrator of means and variances and describe it."""
    after = replace(rows, forecast=Normal(*calibrator.predict(rows.mean, rows.variance)))
    return after.read_weights(rows.weight_kind), {
        **_described(getattr(calibrator, "best_", calibrator)),
        "title": "the repair",
    }


def _described(calibrator: Any) -> dict[str, Any]:
    name = getattr(calibrator, "title", type(calibrator).__name__)
    temperature = getattr(calibrator, "temperature_", None)
    detail = f" (T = {temperature:.2f})" if isinstance(temperature, float) else ""
    return {
        "name": f"{name}{detail}",
        "title": str(name),
        "method": getattr(calibrator, "short_name", None),
        "injective": bool(getattr(calibrator, "injective", False)),
        "reason": getattr(calibrator, "reason_", None),
        "sentence": sentence(getattr(calibrator, "reason_", None)),
        "methods": method_rows(getattr(calibrator, "records_", None)),
        "command": APPLY,
        "crossfitted": False,
    }


def compare_methods_on(forecast: Forecast) -> dict[str, Any] | None:
    """Compare methods by cross-validation on (some of) these rows; None where that makes no sense."""
    if forecast.n < _FEWEST or forecast.n_classes > _MOST_CLASSES or forecast.weights is not None:
        return None
    rows = np.arange(forecast.n)
    if forecast.n > COMPARED_ROWS:
        rows = np.sort(np.random.default_rng(0).choice(forecast.n, COMPARED_ROWS, replace=False))
    part = forecast.take(rows)
    if len(np.unique(part.codes)) < 2:
        return None
    auto = calibrators.AutoCalibrator(fast=True, proof=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a candidate that struggles says so in the comparison, not on the page
        auto.fit(part.proba(), part.codes)
    used = "" if part.n == forecast.n else f" on {count(part.n)} of the rows"
    return {
        "name": str(auto.reason_).partition(":")[0],
        "title": "",
        "method": None,
        "injective": False,
        "reason": auto.reason_,
        "sentence": sentence(auto.reason_),
        "methods": method_rows(auto.records_),
        "command": None if str(auto.reason_).startswith("no change") else FIT,
        "crossfitted": True,
        "note": f"By cross-validation{used}; fit the real one on labeled rows kept out of training.",
    }


def without_contradiction(repair: Mapping[str, Any] | None, verdict: Any) -> Mapping[str, Any] | None:
    """Return the comparison of methods without a recommendation beside the verdict that nothing needs repair."""
    if repair is None or not repair["crossfitted"] or repair["command"] is None or verdict.next_step != "use":
        return repair
    told = f"Not needed: the model is calibrated. For a last bit of the score: {repair['reason']}."
    return {**repair, "sentence": told, "command": None}


def sentence(reason: str | None) -> str:
    """Write the reason of an automatic choice as a sentence."""
    if not reason:
        return ""
    if reason.startswith("no change"):
        return f"{reason[:1].upper()}{reason[1:]}."
    return f"Recommended: {reason}."


def method_rows(records: Iterable[Mapping[str, Any]] | None) -> list[dict[str, Any]]:
    """Return the comparison as plain rows: method, gain, low, high, preserves_argmax, chosen."""
    keys = ("method", "gain", "low", "high", "preserves_argmax", "chosen", "weight")
    return [{key: row.get(key) for key in keys} for row in records or ()]
