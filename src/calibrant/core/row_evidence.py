"""What rows answer alike, whether they hold class probabilities or means with variances."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from calibrant._typing import Array, ArrayLike, Floats, Ints
from calibrant.core.clusters import FEWEST
from calibrant.core.refusals import first_true
from calibrant.core.text import count
from calibrant.core.weights import WeightKind, are_counts, effective_n
from calibrant.errors import input_error

if TYPE_CHECKING:
    from calibrant.core.declare import Recipe
    from calibrant.core.moments import Moments, NullMoments

__all__ = ["RowEvidence", "digest"]


def digest(arrays: Iterable[Array]) -> str:
    """Return the first sixteen digits of the SHA-256 of arrays."""
    found = hashlib.sha256()
    for array in arrays:
        found.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return found.hexdigest()[:16]


class RowEvidence:
    """Base of checked rows with frequency weights or None; values of rows are exact."""

    weights: Floats | None
    caller: str
    #: How weights are read, where the user says; otherwise whole numbers count rows.
    weight_kind: WeightKind | None = None

    @property
    def n(self) -> int:
        """Number of rows."""
        raise TypeError(f"{type(self).__name__} does not say how many rows it has")

    @property
    def total(self) -> float:
        """Sum of weights, the number of rows without them."""
        return float(self.n) if self.weights is None else float(self.weights.sum())

    @property
    def weighted(self) -> bool:
        """Whether rows carry weights."""
        return self.weights is not None

    @property
    def notes(self) -> tuple[str, ...]:
        """How weights were read."""
        if self.weights is None:
            return ()
        if self.counts:
            return (f"weights are counts: {count(self.n)} rows stand for {count(self.total)}",)
        worth = effective_n(self.weights, self.n)
        return (f"weights are importance weights: {count(self.n)} rows are worth {count(worth)} equally weighted ones",)

    @property
    def counts(self) -> bool:
        """Whether weights count rows (or are absent)."""
        return self.weights is None or (self.weight_kind != "importance" and self._whole)

    @cached_property
    def _whole(self) -> bool:
        return are_counts(self.weights)

    def read_weights(self, kind: WeightKind | None) -> Self:
        """Return the same rows with their weights read as the user says: counts, or importance."""
        if kind is None:
            return self
        if not (isinstance(kind, str) and kind in ("frequency", "importance")):
            raise input_error("weight_kind", self.caller, "be 'frequency' or 'importance'", repr(kind), "leave it out")
        if self.weights is None:
            raise input_error("weight_kind", self.caller, "go with weights", repr(kind), "leave it out")
        if kind == "frequency" and not self._whole:
            row = first_true(self.weights != np.floor(self.weights))
            got = f"{self.weights[row]} at row {row}"
            hint = "or round them"
            raise input_error("weight_kind", self.caller, "be 'importance' for weights that are no counts", got, hint)
        other = copy(self)
        object.__setattr__(other, "weight_kind", kind)
        return other

    def own_clusters(self) -> Ints | None:
        """Return each row as its own cluster where weights are importance: the spread is then that of weighted rows.

        Rows worth fewer than ten equally weighted ones are as many clusters, too few to infer anything from.
        """
        if self.counts:
            return None
        worth = effective_n(self.weights, self.n)
        return np.arange(self.n) if worth >= FEWEST else np.arange(self.n) % max(int(worth), 1)

    def need_counts(self, what: str) -> None:
        """Refuse weights that are not whole numbers where `what` needs counts."""
        if self.weights is None or self.counts:
            return
        if self.weight_kind == "importance":
            rule = f"be 'frequency', because {what} needs counts"
            raise input_error("weight_kind", self.caller, rule, "'importance'", "leave it out if they count rows")
        broken = self.weights != np.floor(self.weights)
        row = first_true(broken if broken.any() else self.weights == self.weights.max())
        rule = f"be whole numbers, because {what} needs counts"
        hint = "weights are frequencies: scale them to counts, or drop them"
        raise input_error("sample_weight", self.caller, rule, f"{self.weights[row]} at row {row}", hint)

    def value(self, recipe: Recipe) -> float:
        """Return the value of a metric whose parameters are fixed."""
        return recipe.value(self)

    def precision(self, recipe: Recipe) -> None:  # noqa: ARG002 -- rows are exact
        """Values of rows are exact."""
        return

    def score_rows(self, recipe: Any) -> Floats:
        """Return the score of each row behind a mean score."""
        return np.asarray(recipe.rows(self))

    def zero_rows(self, recipe: Any) -> int:
        """Return how many rows would make a mean score infinite if what they call impossible happened."""
        return int(recipe.zeros(self)) if hasattr(recipe, "zeros") else 0  # means of regression are finite

    def moments(self, recipe: Any, groups: ArrayLike | None = None) -> Moments | None:
        """Return mean, standard error and skewness of a mean score; None where a score is infinite.

        With `groups` (the cluster of each row) whole clusters vary together.
        """
        found: Moments | None = recipe.moments(self, groups)
        return found

    def null_moments(self, recipe: Any, groups: ArrayLike | None = None) -> NullMoments | None:
        """Return the moments of a mean score over outcomes drawn from the forecasts; None where they are unknown."""
        found: NullMoments | None = recipe.null_moments(self, groups)
        return found
