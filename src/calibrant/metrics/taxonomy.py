"""Who bounds whom: theorem 3.1 of Gruber & Buettner (2022) as data.

The inequalities hold for a distribution. On a sample they hold for the empirical distribution (each distinct forecast
its own group), and for plug-in values on the same bins; debiased and kernel density values obey none of them.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BOUNDS", "Bound", "bounds_above", "bounds_below", "taxonomy_text"]


@dataclass(frozen=True)
class Bound:
    """`upper` ≥ `lower` for every distribution; `why` says where it is proven."""

    upper: str
    lower: str
    why: str


BOUNDS: tuple[Bound, ...] = (
    Bound("√2", "RBS", "the Brier score is at most 2"),
    Bound("RBS", "CE₂", "the Brier score is CE₂² plus what no calibration can remove"),
    Bound("CE_p", "CWCE_p", "a class probability is a part of the vector"),
    Bound("CE_p", "TCE_p", "the top probability is a part of the vector"),
    Bound("CE₂", "KCE", "the kernel is bounded by 1; KCE is the root of SKCE, and 0 only where CE₂ is"),
    Bound("TCE_p", "TCE₁", "Jensen's inequality"),
    Bound("TCE₁", "ECE", "bins average errors of opposite sign away"),
    Bound("TCE₁", "KS", "a cumulative sum averages errors of opposite sign away"),
    Bound("TCE₁", "MMCE", "the kernel is bounded by 1"),
    Bound("K^(1/p − 1/q)·CE_q", "CE_p", "norms of K-vectors, p ≤ q"),
)
#: Which error of the taxonomy a metric's short name stands for.
_ERRORS = {
    "ece": "ECE",
    "ks": "KS",
    "mmce": "MMCE",
    "tce": "TCE_p",
    "cwce": "CWCE_p",
    "rbs": "RBS",
    "brier": "RBS",
    "ce-kde": "CE_p",
}


def bounds_above(name: str) -> tuple[Bound, ...]:
    """Return what bounds a metric from above."""
    error = _ERRORS.get(name)
    return tuple(bound for bound in BOUNDS if bound.lower == error)


def bounds_below(name: str) -> tuple[Bound, ...]:
    """Return what a metric bounds from above."""
    error = _ERRORS.get(name)
    return tuple(bound for bound in BOUNDS if bound.upper == error)


def taxonomy_text() -> str:
    """Return the whole taxonomy as lines of text.

    Examples
    --------
    >>> print(taxonomy_text().splitlines()[0])
    √2 ≥ RBS                    the Brier score is at most 2
    """
    lines = [f"{f'{bound.upper} ≥ {bound.lower}':<28}{bound.why}" for bound in BOUNDS]
    tail = (
        "They hold for a distribution (Gruber & Buettner 2022, theorem 3.1). ECE and KS have no order, nor have",
        "CWCE and TCE; every one of the weak errors can be 0 while CE₂ is not (propositions 3.2 and D.2).",
    )
    return "\n".join([*lines, *tail])
