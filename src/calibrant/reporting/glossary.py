"""How to read the page: its terms in plain words; and what stands under methods and data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from calibrant.core.text import count
from calibrant.reporting.words import Language

__all__ = ["error_bar_glossary", "glossary", "monitor_glossary", "provenance"]

#: Terms and what they mean, by the page or part that shows them; ``|`` parts them.
_TERMS = {
    "common": """95% interval: The range that would contain the true value in 95 of 100 test sets like this one.
        | Range of a calibrated model: Even a perfectly calibrated model shows some gap on a limited number of rows. The
        gray band shows how much, for these rows. Only what lies outside it is evidence.
        | p-value: How often a perfectly calibrated model would show a gap this large by chance. “p < 0.001”: fewer
        than 1 in 1,000 times. The verdict tests all kinds of gap together; a metric further down tests one.""",
    "detect": """Smallest gap these rows can detect: With few rows a gap hides in chance. A gap of this size, in one
        direction, would be found in 4 of 5 test sets of this size; a smaller one often would not.""",
    "repair": """Repair (recalibration): A small correction learned on separate rows that makes probabilities more
        honest. It does not retrain the model.""",
    "risk": """Predicted risk: The probability the score gives to the event. A risk of 5% means: of 100 such cases,
        expect 5.
        | Calibrated: Risks can be taken at face value: of all cases given 5%, 5% turn out to be events.
        | Gap: Average predicted risk minus how often it happens, in percentage points. Above zero: overstated. Below
        zero: understated.""",
    "confidence": """Confidence: The probability the model gives to the answer it picks. A weather app that says “70%
        rain” has a confidence of 70%.
        | Calibrated: Confidence can be taken at face value: of all predictions made with 70% confidence, 70% are right.
        | Gap: Average confidence minus fraction right, in percentage points. Above zero: too sure. Below zero: too
        cautious.""",
    "error bars": """Error bar: How far off the model expects to be: its predicted standard deviation.
        | 90% interval: The range around a prediction that should contain the truth in 90 of 100 cases.
        | Calibrated: Intervals keep their word: those meant to contain 90% of outcomes contain 90%.""",
    "position": """Position of the truth: Where the truth falls in its own forecast, from 0% (below everything expected)
        to 100%. It should fall everywhere equally often.""",
    "monitor": """Evidence (e-value): How strongly the days so far speak against “the model is calibrated”: what a fair
        bet of 1 against it would be worth. It grows when outcomes contradict the claims, and shrinks when they agree.
        | Alarm line: The evidence a calibrated model reaches at most with the stated probability, however often one
        looks.""",
    "monitor of an event": """Predicted: The probability the score gives to the event, averaged over the day.
        | Happens: The fraction of the day’s rows in which the event happened.""",
    "monitor of claims": """Claims to be right: How sure the model says it is (its confidence), averaged over the day.
        | Right: The fraction of the day’s predictions that were right (its accuracy).""",
}
#: What the methods people use most do, in one sentence.
_METHODS = {
    "Temperature scaling": (
        "one number that makes all probabilities less (or more) extreme. The order of answers stays the same."
    ),
    "Vector scaling": "one factor and one shift per class. It may change which class is predicted.",
    "Platt scaling": "a logistic curve from score to probability. The order of the risks stays the same.",
    "Beta calibration": (
        "a curve with three parameters from old risk to new risk. The order of the risks stays the same."
    ),
    "Isotonic regression": "a staircase from score to probability that never falls.",
}


def _terms(*names: str) -> list[tuple[str, str]]:
    parts = [part.split(": ", 1) for name in names for part in " ".join(_TERMS[name].split()).split(" | ")]
    return [(term, text) for term, text in parts]


def glossary(language: Language, repair: str | None, name: str) -> list[tuple[str, str]]:
    """Return the terms of a page on class probabilities."""
    terms = _terms("risk" if language.risk else "confidence", "common", "detect", "repair")
    known = next((text for title, text in _METHODS.items() if name.startswith(title)), None)
    if repair is not None and known is not None:
        terms.append((name, f"The repair used here: {known}"))
    return terms


def error_bar_glossary() -> list[tuple[str, str]]:
    """Return the terms of a page on means and variances."""
    return _terms("error bars", "common", "position", "repair")


def monitor_glossary(*, risk: bool) -> list[tuple[str, str]]:
    """Return the terms of a page of a monitor."""
    return _terms("monitor", "monitor of an event" if risk else "monitor of claims")


def provenance(
    method: Mapping[str, Any],
    *,
    data: str,
    repair: Mapping[str, Any] | None,
    rows: Sequence[tuple[str, str]],
    limits: str,
    level: str,
) -> list[tuple[str, str, bool]]:
    """Return the lines under methods and data: term, text, and whether the text is code."""
    versions = method["versions"]
    lines: list[tuple[str, str, bool]] = [("Test data", data, False), ("Data checksum", str(method["checksum"]), True)]
    if repair is not None:
        lines.append(("Repair", str(repair["name"]), False))
    if method["resamples"]:
        seed = "" if method["seed"] is None else f", seed {method['seed']}"
        drawn = f"{count(method['resamples'])} sets of outcomes drawn from the model’s own forecasts{seed}"
        lines.append(("Range of a calibrated model", drawn, False))
    lines += [(term, text.replace("{level}", level), False) for term, text in rows]
    lines.append(("Conventions", str(method["conventions"]), False))
    software = " · ".join(f"{name} {version}" for name, version in versions.items())
    lines.append(("Software", software, False))
    lines.append(("What this report does not show", limits, False))
    return lines
