"""Bin rules of other code, by name, so that its numbers can be reproduced to the last digit.

Every entry says which bin a score falls into and how the code behind it averages. Our own rule lives in
`calibrant.core.tables`; nothing here is used unless ``convention=`` asks for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from calibrant._typing import Array, Floats, Ints
from calibrant.core.inputs import check_names
from calibrant.errors import input_error

__all__ = ["CONVENTIONS", "NAMES", "Convention", "assign", "convention"]

#: (scores, number of bins asked for) → (bin of each score, number of bins).
Rule: TypeAlias = Callable[[Floats, int], tuple[Ints, int]]


def _left_closed(scores: Array, inner: Array) -> Ints:
    """Bins [lo, hi): a score equal to an inner edge opens the next bin."""
    return np.searchsorted(inner, scores, side="right").astype(np.int64)


def _right_closed(scores: Array, upper: Array) -> Ints:
    """Bins (lo, hi], the first closed: a score goes to the first upper edge not below it."""
    return np.searchsorted(upper, scores, side="left").astype(np.int64)


def _nixon_width(scores: Floats, m: int) -> tuple[Ints, int]:
    return _left_closed(scores, np.linspace(0.0, 1.0, m + 1)[1:]), m + 1


def _nixon_mass(scores: Floats, m: int) -> tuple[Ints, int]:
    if not len(scores):
        return np.zeros(0, dtype=np.int64), m
    position = np.round(np.linspace(0, len(scores), m, endpoint=False)).astype(np.int64)
    edges = np.sort(scores)[np.minimum(position, len(scores) - 1)]
    return _left_closed(scores, edges[1:]), m


def _kull_top(scores: Floats, m: int) -> tuple[Ints, int]:
    upper = np.arange(1 / m, 1 + 1 / m, 1 / m)  # rounding may add an edge above 1, or put the last one below it
    return np.minimum(_right_closed(scores, upper), len(upper) - 1), len(upper)


def _kull_classwise(scores: Floats, m: int) -> tuple[Ints, int]:
    edges = np.linspace(0.0, 1.0, m)  # m edges enclose m − 1 bins
    return _left_closed(scores, edges[1:]), m


def _gruber_width(scores: Floats, m: int) -> tuple[Ints, int]:
    return _right_closed(scores, np.arange(1, m + 1) / m), m


def _gruber_mass(scores: Floats, m: int) -> tuple[Ints, int]:
    values = np.sort(scores)
    block = max(1, -(-len(values) // m))
    cuts = np.arange(block, len(values), block)
    upper = np.unique(np.append((values[cuts - 1] + values[cuts]) / 2.0, 1.0))
    return _right_closed(scores, upper), len(upper)


def _torchmetrics_width(scores: Floats, m: int) -> tuple[Ints, int]:
    i = np.arange(m + 1)
    step = float(np.float32(1.0) / np.float32(m))
    # torch.linspace walks from both ends and rounds to float32 once
    edges = np.where(i < (m + 1) // 2, step * i, 1.0 - step * (m - i)).astype(np.float32)
    return _left_closed(scores.astype(np.float32), edges[1:]), m + 1


def _netcal_width(scores: Floats, m: int) -> tuple[Ints, int]:
    return _left_closed(scores, np.linspace(0.0, 1.0, m + 1)[1:-1]), m


def _netcal_mass(scores: Floats, m: int) -> tuple[Ints, int]:
    if not len(scores):
        return np.zeros(0, dtype=np.int64), m
    return _left_closed(scores, np.quantile(scores, np.linspace(0.0, 1.0, m + 1))[1:-1]), m


@dataclass(frozen=True)
class Convention:
    """How one body of code bins and averages.

    Attributes
    ----------
    name, source : str
        Name for ``convention=`` and the code it stands for.
    top, classwise, mass : callable or None
        Equal-width rule for one score per row, the same for class probabilities, and the equal-mass rule;
        None where the code has no such thing.
    reduce : {"mean", "sum"}
        How errors are joined over classes.
    average : {"count", "range"}
        How mass bins are averaged: by count, or all non-empty bins alike.
    quirks : tuple of str
        What surprises, one sentence each.
    """

    name: str
    source: str
    top: Rule
    classwise: Rule
    mass: Rule | None
    reduce: str
    average: str
    quirks: tuple[str, ...]


CONVENTIONS: dict[str, Convention] = {
    entry.name: entry
    for entry in (
        Convention(
            "nixon",
            "Nixon et al. (2019), the authors' general calibration error",
            _nixon_width,
            _nixon_width,
            _nixon_mass,
            "mean",
            "count",
            (
                "bins are [lo, hi) and p = 1 has a bin of its own",
                "adaptive edges are sorted values at round(j·n/m); equal scores share a bin",
                "mass ranges are weighted by count, where the text takes their plain mean",
                "a threshold keeps p > t although the text prints p ≤ t; a class with no such value counts 0",
            ),
        ),
        Convention(
            "kull",
            "Kull et al. (2019), Dirichlet calibration experiments",
            _kull_top,
            _kull_classwise,
            None,
            "sum",
            "count",
            (
                "top label: (lo, hi] with edges by repeated steps, so one edge too many may appear",
                "class-wise: 15 edges make 14 bins [lo, hi) and p = 1 has a bin of its own",
                "published tables sum over classes although the code file averages",
            ),
        ),
        Convention(
            "gruber",
            "Gruber & Buettner (2022), after Kumar et al.'s verified calibration",
            _gruber_width,
            _gruber_width,
            _gruber_mass,
            "sum",
            "count",
            (
                "mass bins are blocks of ⌈n/m⌉ sorted rows with edges midway between neighbors",
                "equal edges are merged, so ties lower the number of bins",
                "class-wise errors are summed; the uncertainty-calibration package takes their mean",
                "that package cuts blocks whose sizes differ by at most one, not of ⌈n/m⌉ rows",
            ),
        ),
        Convention(
            "torchmetrics",
            "torchmetrics 1.9, binary_/multiclass_calibration_error",
            _torchmetrics_width,
            _torchmetrics_width,
            None,
            "mean",
            "count",
            (
                "scores and edges are rounded to float32; bins are [lo, hi) and p = 1 has a bin of its own",
                "binary takes the probability of class 1, not of the top label",
                "sums run in float32: beyond 2²⁴ rows in a bin counts stop growing",
                "values outside [0, 1] are taken for logits without a word",
            ),
        ),
        Convention(
            "netcal",
            "netcal 1.4, ECE / MCE / ACE",
            _netcal_width,
            _netcal_width,
            _netcal_mass,
            "mean",
            "count",
            (
                "bins are [lo, hi), the last closed; scores are clipped to [eps, 1 − eps] of their dtype",
                "mass edges are interpolated quantiles; repeated quantiles are an error there, empty bins here",
                "ACE is the plain mean over non-empty equal-width bins of the top label, not Nixon et al.'s ACE",
                "one or two labels observed mean a binary problem whatever the number of columns",
            ),
        ),
    )
}

#: Names ``convention=`` takes.
NAMES = tuple(CONVENTIONS)


def convention(name: str, caller: str = "convention") -> Convention:
    """Return one entry of the table by name."""
    return CONVENTIONS[check_names(name, NAMES, "convention", caller)]


def assign(
    convention_name: str, scores: Floats, n_bins: int, kind: str = "width", *, classwise: bool = False
) -> tuple[Ints, int]:
    """Return the bin of each score under another code's rule, and the number of bins.

    Parameters
    ----------
    convention_name : {"nixon", "kull", "gruber", "torchmetrics", "netcal"}
        Whose rule.
    scores : ndarray of shape (n,)
        Scores in [0, 1], float64.
    n_bins : int
        The number that code is called with.
    kind : {"width", "mass"}
        Equal width or equal mass.
    classwise : bool
        Scores are probabilities of one class: Kull et al. bin them differently.

    Returns
    -------
    index : ndarray of shape (n,)
        Bin of each score, 0 … count − 1.
    count : int
        Number of bins, empty ones and a bin of its own for p = 1 included.

    Examples
    --------
    >>> assign("netcal", np.array([0.0, 0.5, 1.0]), 2)
    (array([0, 1, 1]), 2)
    >>> assign("gruber", np.array([0.0, 0.5, 1.0]), 2)
    (array([0, 0, 1]), 2)
    >>> assign("torchmetrics", np.array([0.0, 0.5, 1.0]), 2)
    (array([0, 1, 2]), 3)
    """
    entry = convention(convention_name, "assign")
    check_names(kind, ("width", "mass"), "kind", "assign")
    rule = (entry.classwise if classwise else entry.top) if kind == "width" else entry.mass
    if rule is None:
        raise input_error(
            "bins",
            "convention",
            f"be 'width' for {entry.name!r}: that code has no equal-mass bins",
            "'mass'",
            "use 'nixon', 'gruber' or 'netcal', or drop convention=",
        )
    if n_bins < 2 and rule is _kull_classwise:
        raise input_error("n_bins", "convention", "be at least 2 for 'kull'", str(n_bins), "their number is 15")
    return rule(scores, n_bins)
