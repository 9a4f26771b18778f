"""The one test behind the verdict: the largest gap, the slope, the shape and groups of scores, judged together.

Each member sees what another misses: KS a gap in one direction, Spiegelhalter's statistic forecasts that are too sharp
or not sharp enough, the shape a gap that changes its sign twice, Hosmer and Lemeshow's groups everything else. The
statistic is the smallest of their p-values, each divided by its weight; its own p-value comes from the same draws, so
the dependence between members costs nothing [1].

The weights were chosen by power at 1,000 rows (slope 0.8, S-shapes of ± 5 points, shift −0.2). Two alternatives that
have nothing in common cost each other about ten points of power at best; no choice of weights avoids it.

References
----------
[1] Westfall & Young (1993), Resampling-Based Multiple Testing, single-step minP.
[2] Spiegelhalter (1986), Probabilistic prediction in patient management, Statistics in Medicine 5.
[3] Hosmer & Lemeshow (1980), Goodness of fit tests for the multiple logistic regression model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant._typing import Floats, Ints
from calibrant.core.class_draws import class_draws
from calibrant.core.clusters import TableSigns, few_clusters
from calibrant.core.counts import ClassCounts
from calibrant.core.resampling import SharedOrder, draw_outcomes, event_variance
from calibrant.core.surprises import chance_of_none, draw_surprises, likely_outcomes, mostly_none
from calibrant.core.tables import Table, sum_by
from calibrant.core.weights import mass_edges
from calibrant.inference.corrections import ranks, step_down, tail_scores, tails
from calibrant.views import View

__all__ = [
    "CLASS_SHARE", "WEIGHTS", "JointTest", "apart", "class_pvalues", "clustered_joint", "hosmer_lemeshow",
    "joint_of", "joint_test", "members", "shared_joint", "slope"
]  # fmt: skip

#: Members of the joint test and their parts of the error rate.
WEIGHTS = {"ks": 0.42, "slope": 0.45, "shape": 0.09, "groups": 0.04}
#: Part of the error rate that the gaps of single classes have, where there are more than two.
CLASS_SHARE = 0.3
#: Place of the joint test among the generators that grow from one seed.
_KEY = 1 << 31
#: Groups of about equal count.
GROUPS = 10


@dataclass(frozen=True)
class JointTest:
    """The joint p-value of one view, those of its members, and what its path can show."""

    pvalue: float
    members: dict[str, float]
    #: Largest end of the path that is still no evidence, and the standard deviation of that end, as shares of the rows.
    border: float
    noise: float
    #: Value of KS, its mean and its standard deviation over the draws.
    ks: tuple[float, float, float]
    #: How surprising the rows are, then every draw, on a scale that goes on where ranks end.
    scores: Floats


def apart(rng: np.random.Generator) -> np.random.Generator:
    """Return a generator of the joint test's own, so that the verdict does not depend on what else is shown.

    The given generator goes on as if nothing had been asked of it.
    """
    seed: Any = rng.bit_generator.seed_seq
    return np.random.default_rng(np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, _KEY)))


def joint_test(
    evidence: Any, view: View, n_resamples: int, rng: np.random.Generator, clusters: Ints | None = None
) -> JointTest | None:
    """Test the pairs of a view; None where there are fewer than ten clusters."""
    if few_clusters(clusters):
        return None
    table: Table = evidence.test_table(view)
    if clusters is None:
        if mostly_none(table):
            draws = np.concatenate([draw_surprises(table, n_resamples, rng), likely_outcomes(table)[None, :]])
            return joint_of(table, draws - table.we, chance_of_none(table))
        return joint_of(table, draw_outcomes(table, n_resamples, rng) - table.we)
    return clustered_joint(table, TableSigns(table, evidence.pairs_of(view), clusters), n_resamples, rng)


def clustered_joint(
    table: Table, drawn: TableSigns, n_resamples: int, rng: np.random.Generator, given: Floats | None = None
) -> JointTest:
    """Test rows that come in clusters by every law of their draws that may hold; the largest p-value stands."""
    found = [joint_of(table, draws) for draws in drawn.draws(n_resamples, rng, given)]
    return max(found, key=lambda test: test.pvalue)


def joint_of(table: Table, drawn: Floats, last: float | None = None, *, own: bool = False) -> JointTest:
    """Test the rows of a table against draws of their residuals Σw·(t − e), shape (replicates, rows).

    Draws are equally likely; where the last one has a chance of its own, `last`, the others share the rest. With `own`
    the rows' own residuals stand before those of the draws.
    """
    residual = drawn if own else np.concatenate([(table.wt - table.we)[None, :], drawn])
    return _judged(table, members(table, residual), residual.sum(axis=1), last)


def shared_joint(table: Table, order: SharedOrder, rng: np.random.Generator, room: Floats) -> JointTest:
    """Test the rows of one of many tables, whose draws share their order."""
    return joint_of(table, order.residuals(table, rng, room), own=True)


def _judged(table: Table, found: dict[str, Floats], ends: Floats, last: float | None = None) -> JointTest:
    """Put the members of the rows and of their draws together; `ends` are those of their paths."""
    values, size = np.stack([found[name] for name in WEIGHTS]), len(ends)
    mass = np.full(size, 1.0 / size)
    if last is not None:
        mass[:-1], mass[-1] = (1.0 - last) / (size - 1), last
    ordered, below = ranks(values, 1e-9)
    ranked = (size - below) / size if last is None else _masses(values, below, mass)
    weights = np.array([*WEIGHTS.values()])[:, None]
    smallest = (ranked / weights).min(axis=0)
    scores = tails(values, ordered, below) + np.log(weights)
    others = mass[1:] / mass[1:].sum()
    ends = ends[1:] / table.total
    spread = math.sqrt(float(others @ (ends - others @ ends) ** 2))
    path = found["ks"] * (np.sqrt(max(float(event_variance(table).sum()), 1e-300)) / table.total)
    order = np.argsort(path[1:])
    reached = np.searchsorted(np.cumsum(others[order]), 1.0 - 0.05 * WEIGHTS["ks"])
    border = float(path[1:][order][min(int(reached), len(order) - 1)])
    mean = float(others @ path[1:])
    return JointTest(
        float(mass[smallest <= smallest[0] * (1 + 1e-12)].sum()),
        dict(zip(WEIGHTS, ranked[:, 0].tolist(), strict=True)),
        border,
        spread,
        (float(path[0]), mean, math.sqrt(float(others @ (path[1:] - mean) ** 2))),
        scores.max(axis=0),
    )


def members(table: Table, residual: Floats) -> dict[str, Floats]:
    """Return the statistics of the joint test from residuals Σw·(t − e) of table rows, shape (replicates, rows)."""
    variance, tilt, cubic = _weights(table)
    return {
        "ks": _farthest(residual) / np.sqrt(max(float(variance.sum()), 1e-300)),
        "slope": np.abs(_standardized(residual, tilt, variance)),
        "shape": np.abs(_standardized(residual, cubic, variance)),
        "groups": hosmer_lemeshow(table, residual, GROUPS)[0],
    }


def _weights(table: Table) -> tuple[Floats, Floats, Floats]:
    """Return the variance of every table row and its weights in slope and shape."""
    variance = event_variance(table)
    share = (np.cumsum(variance) - 0.5 * variance) / max(float(variance.sum()), 1e-300)
    place = share * 2.0 - 1.0  # the path's own time, from −1 to 1
    cubic = 0.5 * (5.0 * place**3 - 3.0 * place)  # Legendre's polynomial: changes its sign twice inside each half
    return variance, 1.0 - 2.0 * np.clip(table.we / table.w, 0.0, 1.0), cubic


def _groups(table: Table, n_groups: int) -> tuple[Ints, Floats]:
    """Return the group of every table row, groups of about equal count, and their variances."""
    group = np.searchsorted(mass_edges(table.w, n_groups), np.arange(len(table)), side="left")
    return group, sum_by(group, event_variance(table), n_groups)


def _farthest(residual: Floats) -> Floats:
    """Return how far the path of each replicate goes from 0."""
    if not residual.flags.f_contiguous:
        path = np.cumsum(residual, axis=1)
        return np.maximum(path.max(axis=1), -path.min(axis=1))
    path, far = np.zeros((2, len(residual)))
    for step in residual.T:  # all replicates go one step
        path += step
        np.maximum(far, np.abs(path), out=far)
    return far


def _standardized(residual: Floats, weight: Floats, variance: Floats) -> Floats:
    return np.asarray(residual @ weight / np.sqrt(max(float(variance @ weight**2), 1e-300)))


def slope(table: Table, residual: Floats) -> Floats:
    """Return Spiegelhalter's z of residuals [2]: Σ(t − e)(1 − 2e) over its standard deviation."""
    variance, tilt, _ = _weights(table)
    return _standardized(residual, tilt, variance)


def hosmer_lemeshow(table: Table, residual: Floats, n_groups: int) -> tuple[Floats, int]:
    """Return Σ_g (O_g − E_g)²/V_g over groups of about equal count [3], and the number of groups that vary."""
    group, variance = _groups(table, n_groups)
    used, start = np.unique(group, return_index=True)
    ends = [*start[1:].tolist(), len(table)]
    gap = np.stack([residual[..., a:b].sum(axis=-1) for a, b in zip(start.tolist(), ends, strict=True)], axis=-1)
    usable = variance[used] > 1e-12
    return np.asarray((gap[..., usable] ** 2 / variance[used][usable]).sum(axis=-1)), int(usable.sum())


def _masses(values: Floats, below: Ints, mass: Floats) -> Floats:
    """Return of each row of values the mass of those at least as large as each, given how many are smaller."""
    order = np.argsort(values, axis=1, kind="stable")
    above = np.zeros((len(values), len(mass) + 1))
    above[:, :-1] = np.cumsum(mass[order][:, ::-1], axis=1)[:, ::-1]  # of each value and all larger ones
    return np.take_along_axis(above, below, axis=1)


def class_pvalues(
    evidence: Any, counts: ClassCounts, n_resamples: int, rng: np.random.Generator, clusters: Ints | None = None
) -> Floats:
    """Return the p-value of every class's gap, corrected for their number.

    Counts of independent rows are corrected by what each can attain; with clusters the gaps go through step-down maxT
    on joint draws of all classes by every law that may hold, and the largest p-value stands.
    """
    if clusters is None:
        return counts.pvalues()
    laws = class_draws(evidence, clusters, n_resamples, rng)
    found = [step_down(*tail_scores(np.abs(counts.gap), np.abs(drawn).T)) for drawn in laws]
    return np.asarray(np.max(found, axis=0))
