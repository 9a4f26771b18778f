"""Slope, intercept and observed over expected events: what clinical and credit validation ask of two classes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from calibrant.core.results import Interval
from calibrant.core.text import DASH, pvalue_phrase
from calibrant.inference.cox import CoxCalibration
from calibrant.inference.verdict import ALPHA
from calibrant.reporting.downloads import Download

__all__ = ["risk_section"]

#: Question, name, field of `CoxCalibration`, value of a calibrated model, and the test beside it.
_ROWS = (
    ("Do as many happen as predicted?", "Observed over expected events", "ratio", 1, "in_the_large_test"),
    ("Is the average risk right?", "Calibration-in-the-large, in log-odds", "in_the_large", 0, "in_the_large_test"),
    ("Are risks spread as far as they should be?", "Calibration slope; below 1: too extreme", "slope", 1, "slope_test"),
    ("Is a predicted risk of 50% right?", "Intercept of the same fit, in log-odds", "intercept", 0, None),
)


def risk_section(found: Mapping[str, CoxCalibration | None], level: float) -> dict[str, Any] | None:
    """Return the section on slope and intercept by state; None where there are none."""
    states = {kind: one for kind, one in found.items() if one is not None}
    if not states or len(states) < len(found):
        return None
    last, ends = next(reversed(states.values())), ("value", "low", "high")
    rows = [
        {
            "question": question,
            "name": name,
            "calibrated": str(perfect),
            "cells": {kind: _cell(getattr(one, field)) for kind, one in states.items()},
            "pvalue": DASH if test is None else _known(pvalue_phrase, getattr(last, test).pvalue),
            "outside": test is not None and getattr(last, test).pvalue < ALPHA,
        }
        for question, name, field, perfect, test in _ROWS
    ]
    return {
        "title": _title(last),
        "sub": "A logistic regression of the outcome on the log-odds of the predicted risk. Slope 1 and intercept 0 "
        f"together: {_known(pvalue_phrase, last.test.pvalue)}. The verdict at the top rests on another test.",
        "states": list(states),
        "level": f"{100 * level:g}",
        "rows": rows,
        "notes": _notes(last),
        "download": Download.of(
            "risk",
            ["number", "calibrated", *(f"{kind}_{what}" for kind in states for what in ends)],
            [
                [field, perfect, *(getattr(getattr(one, field), end) for one in states.values() for end in ends)]
                for _, _, field, perfect, _ in _ROWS
            ],
        ),
    }


def _known(words: Callable[[float], str], value: float) -> str:
    return words(value) if math.isfinite(value) else DASH


def _cell(span: Interval) -> dict[str, str]:
    value, low, high = (_known("{:.2f}".format, end).replace("-", "−") for end in (span.value, span.low, span.high))
    return {"value": value, "span": DASH if DASH in (value, low, high) else f"{low} to {high}"}


def _title(found: CoxCalibration) -> str:
    if found.few or not math.isfinite(found.slope.value):
        return "Too few events for a slope" if found.few else "No slope can be fitted"
    said = []
    if found.in_the_large_test.pvalue < ALPHA:
        said.append("too high on average" if found.in_the_large.value < 0 else "too low on average")
    if found.slope_test.pvalue < ALPHA:
        said.append("too extreme" if found.slope.value < 1 else "not spread far enough")
    if said:
        return f"Risks are {' and '.join(said)}"
    return "Average and spread of the risks fit the outcomes"


def _notes(found: CoxCalibration) -> list[str]:
    edge = f"{found.edge} risks of exactly 0 or 1 count as 1e-12 and 1 − 1e-12."
    return [*([f"{found.short.capitalize()}; ten are needed."] if found.short else []), *([edge] if found.edge else [])]
