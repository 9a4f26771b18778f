"""Evidence: what was predicted and what happened, in whatever form it is at hand.

Everything that reads makes evidence; everything that judges works on evidence, once. There are three forms:

- `calibrant.core.forecast.Forecast`: rows of class probabilities, or of top-label pairs;
- `calibrant.summary.Summary`: mergeable cells and sums, from any engine;
- `calibrant.core.rows.Rows`: rows of means and variances.

What a form cannot answer it refuses by name, with an `InputError`, in the method that was asked. Values of mean
scores, their moments and their moments under calibration come from the same sums in every form, so rows and engines
agree; calibration errors come from the same tables, whose outcomes are resampled by the same rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    import numpy as np

    from calibrant._typing import ArrayLike, Floats, Ints
    from calibrant.core.declare import Recipe
    from calibrant.core.moments import Moments, NullMoments
    from calibrant.estimators import Precision

__all__ = ["Evidence", "NullDistribution", "Task"]

#: What is predicted: class probabilities, the confidence of the top label alone, or means with variances.
Task: TypeAlias = Literal["classes", "pairs", "regression"]


class NullDistribution(Protocol):
    """The distribution of a metric under calibration: replicates, moments of a sum, or a limit distribution."""

    @property
    def mean(self) -> float:
        """Mean under calibration."""

    @property
    def std(self) -> float:
        """Standard deviation under calibration."""

    def pvalue(self, observed: float, *, two_sided: bool = False) -> float:
        """Return how often a calibrated model shows at least this much."""


@runtime_checkable
class Evidence(Protocol):
    """What every form of evidence answers; `calibrant.inference` asks nothing else.

    Class probabilities and top-label pairs (`Forecast`, `Summary`) answer also ``tables(view)``, ``pairs_of(view)``,
    ``resampling_table(view)``, ``test_table(view)`` and ``class_counts()``, which the facts behind their
    verdict are made of.
    """

    @property
    def caller(self) -> str:
        """Name of the public function the user called; errors name it."""

    @property
    def task(self) -> Task:
        """What is predicted."""

    @property
    def n(self) -> int:
        """Number of rows."""

    @property
    def total(self) -> float:
        """Sum of weights, the number of rows without them."""

    @property
    def weighted(self) -> bool:
        """Whether rows carry weights."""

    @property
    def n_classes(self) -> int:
        """Number of classes; 0 for top-label pairs and regression."""

    @property
    def classes(self) -> tuple[Any, ...] | None:
        """Names of the classes, if there are any."""

    @property
    def counts(self) -> bool:
        """Whether weights are whole numbers (or absent), so that rows can be counted and labels resampled."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of any result must know about this evidence (rows left out and the like)."""

    def own_clusters(self) -> Ints | None:
        """Return each row as its own cluster where weights are importance; None where labels can be resampled."""

    def need_counts(self, what: str) -> None:
        """Refuse weights that are not whole numbers where `what` needs counts."""

    def answers(self, recipe: Recipe) -> bool:
        """Whether this form can answer a metric at all; a parameter that does not fit is refused by `value`."""

    def value(self, recipe: Recipe) -> float:
        """Return the value of a metric whose parameters are fixed."""

    def precision(self, recipe: Recipe) -> Precision | None:
        """Return how far the value may be from that of the rows themselves; None (or `EXACT`) where it is the same."""

    def score_rows(self, recipe: Recipe) -> Floats:
        """Return the score of each row behind a mean score."""

    def zero_rows(self, recipe: Recipe) -> int:
        """Return how many rows would make a mean score infinite if what they call impossible happened."""

    def moments(self, recipe: Recipe, groups: ArrayLike | None = None) -> Moments | None:
        """Return mean, standard error and skewness of a mean score; None where they are not finite.

        `groups` names the cluster of each row: whole clusters are the summands then.
        """

    def null_moments(self, recipe: Recipe, groups: ArrayLike | None = None) -> NullMoments | None:
        """Return the moments of a mean score under calibration; None where it has none."""

    def null_draws(
        self,
        recipes: Mapping[str, Recipe],
        n_resamples: int,
        rng: np.random.Generator,
        clusters: Ints | None = None,
    ) -> Mapping[str, NullDistribution]:
        """Return the null distributions of metrics that are not means, by name; what has none is left out.

        `clusters` are the numbers of the cluster of each row: signs of whole clusters are drawn then instead of labels.
        """

    def checksum(self) -> str:
        """Return sixteen digits that tell this evidence from another."""

    def take(self, rows: Any) -> Evidence:
        """Return some rows (indices or a mask) as evidence of their own."""
