"""The metrics once more, as slowly and plainly as possible: loops over plain numbers, nothing of calibrant.

`ORACLE` holds, by task and name, a function of checked rows: labels (or truths), forecasts, weights, and the parameters
of the metric by name. It returns the value, None where the definition gives none, or a list where rounding decides
between several. `value` is what the library said, for twins that can check a value faster than find it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import oracle_classes as classes
import oracle_regression as regression

__all__ = ["ORACLE", "UNCOVERED"]


def _by_name(task: str, twins: Iterable[tuple[str, Callable[..., Any]]]) -> dict[tuple[str, str], Callable[..., Any]]:
    return {(task, name): twin for name, twin in twins}


#: Task and name → the slow twin.
ORACLE: dict[tuple[str, str], Callable[..., Any]] = _by_name(
    "classes",
    (
        ("accuracy", classes.accuracy),
        ("confidence", classes.confidence),
        ("ece", classes.ece),
        ("mce", classes.mce),
        ("tce", classes.tce),
        ("ks", classes.ks),
        ("kuiper", classes.kuiper),
        ("kde", classes.kde),
        ("mmce", classes.mmce),
        ("smece", classes.smece),
        ("sweep", classes.sweep),
        ("tl-ece", classes.tl_ece),
        ("cwce", classes.cwce),
        ("sce", classes.sce),
        ("ace", classes.ace),
        ("tace", classes.tace),
        ("uce", classes.uce),
        ("skce", classes.skce),
        ("ce-kde", classes.ce_kde),
        ("brier", classes.brier),
        ("nll", classes.nll),
        ("spherical", classes.spherical),
        ("rps", classes.rps),
        ("rbs", classes.rbs),
        ("entropy", classes.entropy),
    ),
) | _by_name(
    "regression",
    (
        ("mse", regression.mse),
        ("dss", regression.dss),
        ("nll", regression.normal_nll),
        ("crps", regression.crps),
        ("bias", regression.bias),
        ("ratio", regression.ratio),
        ("pit-ks", regression.pit_ks),
        ("qce", regression.qce),
        ("ence", regression.ence),
        ("vce", regression.vce),
        ("skce", regression.normal_skce),
        ("interval-score", regression.interval_score),
        ("pinball", regression.pinball),
        ("mean-variance", regression.mean_variance),
    ),
)

#: Declared metrics without a twin, each with the reason.
UNCOVERED: dict[tuple[str, str], str] = {}
