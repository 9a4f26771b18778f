"""How regression metrics are made: the mean of a score of single rows, with its moments under calibration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from calibrant._typing import ArrayLike, Floats
from calibrant.core.clusters import few_clusters
from calibrant.core.declare import Recipe
from calibrant.core.inputs import check_groups
from calibrant.core.moments import Moments, NullMoments, mean_moments
from calibrant.core.rows import Rows
from calibrant.errors import InputError, input_error
from calibrant.metrics.recipes import ScoreSums

__all__ = ["RowMean", "unstated"]


def unstated(argument: str, caller: str, got: str, known: Sequence[float]) -> InputError:
    """Return the refusal of a level that a table of quantiles does not state."""
    if not known:
        return input_error(
            argument, caller, "be stated by the quantiles: they state no central interval", got, "use crps"
        )
    listed = ", ".join(f"{level:g}" for level in known[:9]) + ", …" * (len(known) > 9)
    hint = f"pass {argument}=" + (f"{known[-1]:g}" if argument == "level" else f"[{listed}]")
    return input_error(argument, caller, f"be stated by the quantiles ({listed})", got, hint)


@dataclass(frozen=True)
class RowMean(Recipe):
    """The mean of a score of single rows of means and variances; `law` gives its moments if y ~ N(μ, v)."""

    score: Callable[[Rows], Floats]
    law: Callable[[Rows], NullMoments] | None = None
    #: Means are shown as they are.
    link: None = None
    table_levels: tuple[float, ...] | None = None

    def rows(self, rows: Rows) -> Floats:
        """Return the score of each row."""
        return self.score(rows)

    def fill(self, forecast: Rows) -> ScoreSums:
        """Return the sums of the row scores."""
        return ScoreSums.of(self.score(forecast), forecast.weights)

    def finish(self, state: ScoreSums) -> float:
        """Return the mean."""
        return state.wx / state.w

    def value(self, forecast: Rows) -> float:
        """Return the weighted mean."""
        return forecast.average(self.score(forecast))

    @property
    def is_mean(self) -> bool:
        """A mean, so that its moments are known."""
        return True

    def moments(self, rows: Rows, groups: ArrayLike | None = None) -> Moments | None:
        """Return mean, standard error and skewness; with `groups` whole clusters vary together."""
        clusters = check_groups(groups, rows)
        return None if few_clusters(clusters) else mean_moments(self.score(rows), rows.weights, clusters)

    def null_moments(self, rows: Rows, groups: ArrayLike | None = None) -> NullMoments | None:
        """Return the moments under calibration; None for forecasts that are not normal.

        With clusters the mean is that under calibration, the spread that of the observed scores over whole clusters.
        """
        if self.law is None or not rows.is_normal:
            return None
        law = self.law(rows)
        if groups is None:
            return law
        seen = self.moments(rows, groups)
        if seen is None:
            return None
        return NullMoments(law.mean, seen.error, 0.0, seen.count, law.excess, freedom=seen.freedom)
