"""What to do next: a given calibrator applied, or the league of repairs by cross-validation."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from calibrant.core.inputs import Forecast, check_forecast

#: Rows the league of a report uses at most, and the fewest for which it makes sense.
LEAGUE_ROWS = 5_000
_FEWEST = 100
_MOST_CLASSES = 100
FIT = "calibrant fit FILE -o cal.json && calibrant apply cal.json FILE -o OUT"


def _scores(forecast: Forecast, space: str) -> Any:
    if space == "logit" and forecast.space == "logit":
        return forecast.matrix if forecast._log_odds is None else forecast._log_odds
    return forecast.proba()


def named_repair(forecast: Forecast, calibrator: Any) -> tuple[Forecast, dict[str, Any]]:
    """Apply a fitted calibrator and describe it."""
    space = getattr(calibrator, "space", "proba")
    proba = calibrator.predict_proba(_scores(forecast, space))
    after = check_forecast(forecast.codes, proba, caller="report", sample_weight=forecast.weights)
    after.classes = forecast.classes
    name = getattr(calibrator, "title", type(calibrator).__name__)
    temperature = getattr(calibrator, "temperature_", None)
    detail = f" (T = {temperature:.2f})" if isinstance(temperature, float) else ""
    return after, {
        "name": f"{name}{detail}",
        "injective": bool(getattr(calibrator, "injective", False)),
        "reason": getattr(calibrator, "reason_", None),
        "sentence": sentence(getattr(calibrator, "reason_", None)),
        "league": league_rows(getattr(calibrator, "league_", None)),
        "command": "calibrant apply cal.json FILE -o OUT",
        "crossfitted": False,
    }


def league_repair(forecast: Forecast) -> dict[str, Any] | None:
    """Compare repairs by cross-validation on (some of) these rows; None where that makes no sense."""
    if forecast.n < _FEWEST or forecast.n_classes > _MOST_CLASSES or forecast.weights is not None:
        return None
    from calibrant.calibrators import AutoCalibrator

    rows = np.arange(forecast.n)
    if forecast.n > LEAGUE_ROWS:
        rows = np.sort(np.random.default_rng(0).choice(forecast.n, LEAGUE_ROWS, replace=False))
    part = forecast.take(rows)
    if len(np.unique(part.codes)) < 2:
        return None
    auto = AutoCalibrator(fast=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a candidate that struggles says so in the league, not on the page
        auto.fit(part.proba(), part.codes)
    used = "" if part.n == forecast.n else f" on {part.n} of the rows"
    return {
        "name": str(auto.reason_).partition(":")[0],
        "injective": False,
        "reason": auto.reason_,
        "sentence": sentence(auto.reason_),
        "league": league_rows(auto.league_),
        "command": None if str(auto.reason_).startswith("no change") else FIT,
        "crossfitted": True,
        "note": f"By cross-validation{used}; fit the real one on held-out calibration rows.",
    }


def sentence(reason: str | None) -> str:
    """Write the reason of an automatic choice as a sentence."""
    if not reason:
        return ""
    if reason.startswith("no change"):
        return f"{reason[:1].upper()}{reason[1:]}."
    return f"Recommended: {reason}."


def league_rows(league: Any) -> list[dict[str, Any]]:
    """Return the league as plain rows: method, gain, low, high, preserves_argmax, chosen."""
    if league is None:
        return []
    rows = league.to_dicts() if hasattr(league, "to_dicts") else league.to_dict("records")
    keys = ("method", "gain", "low", "high", "preserves_argmax", "chosen", "weight")
    return [{key: row.get(key) for key in keys} for row in rows]
