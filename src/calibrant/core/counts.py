"""Counts of rare and common events under calibration: tails of sums of unequal coins, one family of many counts.

How often a class comes is a sum of independent coins with the probabilities of the rows (Poisson–binomial). Rows that
are likelier than not count by their misses, so all coins are rare ones: the count is what comes unexpectedly, less what
stays away unexpectedly. Each of the two has the law of the binomial with the same mean and variance, exact where the
coins are equal and very close where they are rare [2].

Families of counts are corrected by what each count can attain: a class of which 0.01 rows are expected shows p-values
near 0.01 once in a hundred samples and nothing in between, so it costs the family almost nothing [1].

References
----------
[1] Tarone (1990), A modified Bonferroni method for discrete data, Biometrics 46; Westfall & Wolfinger (1997), Multiple
    tests with discrete distributions, The American Statistician 51.
[2] Ehm (1991), Binomial approximation to the Poisson binomial distribution, Statistics & Probability Letters 11.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from calibrant._typing import Array, Floats, Ints
from calibrant.core.tables import Table

__all__ = ["ClassCounts", "count_law", "family_pvalues"]

#: Most tails at which the attainable p-values of a family are added up.
_STEPS = 12
#: Variance of a count from which on it is taken as continuous, and the smallest tail that rounding leaves.
_MANY, _ROUNDING = 10_000.0, 1e-12


@dataclass(frozen=True, slots=True)
class ClassCounts:
    """Of every class: how many rows are expected, the variance of that, how many came.

    `likely` holds of the rows that are likelier than not: their number, the expected misses and their variance.
    """

    expected: Floats
    variance: Floats
    observed: Floats
    likely: Floats

    @classmethod
    def of_blocks(
        cls, blocks: Iterable[tuple[Array, slice]], codes: Ints, top: Ints, weights: Floats | None, n_classes: int
    ) -> ClassCounts:
        """Count rows of probabilities, block by block; `top` is the likeliest class of each row."""
        sums, likely = np.zeros((2, n_classes)), np.zeros((3, n_classes))
        for block, rows in blocks:
            p = block.astype(np.float64)
            weight = np.ones(len(p)) if weights is None else weights[rows]
            sums += weight @ p, weight @ (p * (1.0 - p))
            most = p[np.arange(len(p)), top[rows]]
            row = np.flatnonzero(most > 0.5)  # at most one class of a row
            k, miss = top[rows][row], 1.0 - most[row]
            columns = (np.ones(len(k)), miss, miss * (1.0 - miss))
            likely += np.array([np.bincount(k, weight[row] * each, n_classes) for each in columns])
        return cls(sums[0], sums[1], np.bincount(codes, weights, n_classes).astype(np.float64), likely)

    @classmethod
    def of_tables(cls, tables: Sequence[Table]) -> ClassCounts:
        """Count cells, each at its mean probability."""
        found = np.zeros((6, len(tables)))
        for k, table in enumerate(tables):
            p = np.clip(table.we / table.w, 0.0, 1.0) if len(table) else np.zeros(0)
            w, miss = table.w[p > 0.5], 1.0 - p[p > 0.5]
            found[:3, k] = table.we.sum(), table.w @ (p * (1.0 - p)), table.wt.sum()
            found[3:, k] = w.sum(), w @ miss, w @ (miss * (1.0 - miss))
        return cls(found[0], found[1], found[2], found[3:])

    @property
    def gap(self) -> Floats:
        """Expected minus observed."""
        return self.expected - self.observed

    def pvalues(self) -> Floats:
        """Return the p-value of every class, corrected for their number."""
        return family_pvalues(self.expected, self.variance, self.observed, likely=self.likely)


def _binomial(mean: float, variance: float) -> tuple[float, float]:
    """Return size and probability of the binomial with this mean and variance; the size of a Poisson count is ∞."""
    share = 1.0 - variance / mean if mean > 0 else 0.0
    return mean / share if share >= 1e-9 else math.inf, share


def _at_least(expected: float, variance: float, observed: Floats) -> Floats:
    """P(N ≥ observed) of a binomial with this mean and variance, of a Poisson count where it has no size."""
    from scipy.special import betainc, gammainc

    size, share = _binomial(expected, variance)
    fits = (observed > 0) & (observed <= size) & np.isfinite(size)  # unequal coins may pass the size of the binomial
    a, b = np.where(fits, observed, 1.0), np.where(fits, size - observed + 1.0, 1.0)
    tail = np.where(observed <= 0, 1.0, betainc(a, b, min(max(share, 0.0), 1.0)))
    past = (observed > 0) & ~fits
    tail[past] = gammainc(observed[past], expected)
    return tail


@dataclass(frozen=True, slots=True)
class _Law:
    """Both tails of a count at values from `lowest` on, `step` apart."""

    lowest: float
    step: float
    above: Floats
    below: Floats

    def smaller(self, observed: float) -> float:
        """Return the smaller tail at the observed count."""
        i = int(min(max(round((observed - self.lowest) / self.step), 0), len(self.above) - 1))
        return max(float(min(self.above[i], self.below[i])), _ROUNDING)

    def attained(self, level: float) -> float:
        """Return P(the smaller tail ≤ level)."""
        first = int(np.searchsorted(-self.above, -level))
        last = int(np.searchsorted(self.below, level, side="right"))
        above = self.above[first] if first < len(self.above) else 0.0
        return float(above + (self.below[last - 1] if last else 0.0))


def _chances(mean: float, variance: float) -> tuple[float, Floats]:
    """Return the lowest value and the probabilities of a sum of rare coins."""
    spread = 9.0 * np.sqrt(variance) + 40.0
    lowest = max(float(np.floor(mean - spread)), 0.0)
    steps = np.arange(lowest, np.ceil(mean + spread) + 2.0)
    size, share = _binomial(mean, variance)
    if steps[-1] > size:
        tails = np.minimum.accumulate(_at_least(mean, variance, steps))
        return lowest, -np.diff(tails, append=0.0)
    before = steps[:-1]  # each chance by the one before it, and one of them by its tails
    odds = (size - before) * (share / (1.0 - share)) if size < math.inf else mean
    law = np.cumprod(np.append(1.0, odds / (before + 1.0)))
    highest = int(law.argmax())
    here, after = _at_least(mean, variance, steps[highest : highest + 2])
    return lowest, law * ((here - after) / law[highest])


def count_law(expected: float, variance: float, likely: Floats) -> _Law:
    """Return the law of what comes unexpectedly less what stays away unexpectedly, and the likely rows more."""
    sure, missed, missed_variance = likely.tolist()
    coming = max(expected - sure + missed, 0.0), max(variance - missed_variance, 0.0)
    if variance > _MANY:  # single rows no longer show; the normal distribution with its first correction for skewness
        from scipy.special import ndtr

        z, spread = np.linspace(-8.0, 8.0, 8001), float(np.sqrt(variance))
        parts = ((1.0, *coming), (-1.0, missed, missed_variance))
        third = sum(sign * own * (2.0 * own / mean - 1.0) for sign, mean, own in parts if mean > 0)
        bent = z - third / spread**3 * (z * z - 1.0) / 6.0
        return _Law(expected - 8.0 * spread, 0.002 * spread, ndtr(-bent), ndtr(bent))
    lowest, chances = _chances(*coming)
    if missed > 0:
        least, away = _chances(missed, missed_variance)
        size, lowest = len(chances) + len(away) - 1, lowest - (least + len(away) - 1)
        if size < 1_000:
            chances = np.convolve(chances, away[::-1])
        else:  # fast, and rounds below the smallest tail
            wide = 1 << (size - 1).bit_length()
            chances = np.fft.irfft(np.fft.rfft(chances, wide) * np.fft.rfft(away[::-1], wide), wide)[:size]
    chances = np.maximum(chances, 0.0)
    return _Law(sure + lowest, 1.0, np.cumsum(chances[::-1])[::-1], np.cumsum(chances))


def family_pvalues(
    expected: Floats, variance: Floats, observed: Floats, most: float = 0.05, likely: Floats | None = None
) -> Floats:
    """Return the p-value of every count, corrected for their number: the chance that any count is as extreme.

    A count is as extreme as its smaller tail. The chances of all counts are added up as each can attain them, which
    holds whatever the dependence between the counts. Corrected p-values above `most` are given as 1. `likely` are rows
    that are likelier than not (see `ClassCounts`).

    Examples
    --------
    >>> rare = np.full(90, 0.05)  # ninety classes of which 0.05 rows are expected, and one of ten
    >>> family = np.append(rare, 10.0)
    >>> found = family_pvalues(family, family, np.append(np.zeros(90), 25.0))
    >>> float(found[-1]) < 0.01, float(found[0])
    (True, 1.0)
    """
    from scipy.special import ndtr

    likely = np.zeros((3, len(expected))) if likely is None else likely
    out = np.where((expected <= 0) & (observed > 0), 0.0, 1.0)  # what cannot happen happened
    varies = np.flatnonzero(expected > 0)
    spread = np.sqrt(np.maximum(variance[varies], 1e-300))
    nearest = ndtr(-np.abs(observed - expected)[varies] / spread) - 0.56 / spread
    if (nearest > most).all():  # by Berry and Esseen's bound no tail is as small as `most`
        return out
    laws = [count_law(float(expected[i]), float(variance[i]), likely[:, i]) for i in varies]
    tail = np.array([law.smaller(float(observed[i])) for i, law in zip(varies, laws, strict=True)])
    levels = np.unique(tail[tail <= most])

    def chance(level: float) -> float:
        return sum(law.attained(level * (1 + 1e-9)) for law in laws)

    # the chance grows with the tail: find the last level that keeps it, so that the steps lose no class
    levels = levels[: bisect.bisect_right(levels, most, key=chance)]
    steps = levels if len(levels) <= _STEPS else levels[np.linspace(0, len(levels) - 1, _STEPS).astype(np.int64)]
    done = {float(level): chance(float(level)) for level in steps}
    known = np.array(list(done))
    for i, each in zip(varies, tail, strict=True):
        if len(known) and each <= known[-1]:
            out[i] = done[float(known[np.searchsorted(known, each)])]
    return out
