"""The null distribution of metrics: what a calibrated model would show on these predictions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from calibrant._typing import Ints
from calibrant.core.declare import Recipe
from calibrant.core.moments import NullMoments
from calibrant.core.resampling import Null, PathNull, draw_labels, draw_outcomes
from calibrant.evidence import Evidence, NullDistribution

__all__ = ["Null", "PathNull", "ScoreNull", "draw_labels", "draw_outcomes", "null_distribution"]


@dataclass(frozen=True, slots=True)
class ScoreNull:
    """A mean score under calibration: the moments of a sum of independent rows, known without a draw."""

    moments: NullMoments
    link: Callable[[float], float] | None = None

    @property
    def mean(self) -> float:
        """Mean, on the scale the metric is shown on."""
        return self.moments.mean if self.link is None else self.link(max(self.moments.mean, 0.0))

    @property
    def std(self) -> float:
        """Standard deviation, on the scale the metric is shown on."""
        if self.link is None:
            return self.moments.error
        low, high = (max(self.moments.mean + side * self.moments.error, 0.0) for side in (-1.0, 1.0))
        return (self.link(high) - self.link(low)) / 2

    def pvalue(self, observed: float, *, two_sided: bool = True) -> float:  # noqa: ARG002 -- moments hold the excess
        """Return the two-sided p-value of the observed mean, which the moments hold themselves."""
        return self.moments.pvalue()


def null_distribution(
    recipes: Mapping[str, Recipe],
    evidence: Evidence,
    n_resamples: int,
    rng: np.random.Generator,
    clusters: Ints | None = None,
) -> dict[str, NullDistribution]:
    """Return the null distribution of metrics, by name: moments of mean scores, replicates of everything else.

    Metrics of one view share their draws. Metrics that do not depend on the outcomes are left out.
    With `clusters`, the number of the cluster of each row, whole clusters vary together.
    """
    if clusters is None:
        evidence.need_counts("resampling labels")
    out: dict[str, NullDistribution] = {}
    drawn: dict[str, Recipe] = {}
    for name, recipe in recipes.items():
        if not recipe.is_mean:
            drawn[name] = recipe
            continue
        moments = evidence.null_moments(recipe, clusters)
        if moments is not None:
            out[name] = ScoreNull(moments, recipe.link)  # type: ignore[attr-defined]  # a mean score
    if drawn and n_resamples > 0:
        out |= evidence.null_draws(drawn, n_resamples, rng, clusters)
    return {name: out[name] for name in recipes if name in out}
