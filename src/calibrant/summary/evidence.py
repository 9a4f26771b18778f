"""What cells and sums answer as evidence: values, moments, tables, null distributions."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant._typing import ArrayLike, Floats, Ints
from calibrant.core.cells import cell_pairs, evened, mirror
from calibrant.core.counts import ClassCounts
from calibrant.core.declare import Recipe
from calibrant.core.moments import Moments, NullMoments
from calibrant.core.resampling import Null, PathNull, replicate_tables
from calibrant.core.row_scores import depends_on_truth
from calibrant.core.surprises import RareNull
from calibrant.core.tables import TEST_STEPS, Pairs, Table
from calibrant.core.text import count, reasons
from calibrant.errors import InputError, input_error
from calibrant.estimators import EXACT, Precision
from calibrant.views import Classwise, View, as_view, needs_rows

if TYPE_CHECKING:
    from calibrant.evidence import Task
    from calibrant.metrics.recipes import ScoreSums
    from calibrant.summary.sums import RowSums

__all__ = ["CellEvidence", "left_out_notes"]


def left_out_notes(rejected: Mapping[str, int], skipped: Collection[str]) -> list[str]:
    """Return what a reader is told of rows and files that could not be used.

    Examples
    --------
    >>> left_out_notes({"missing": 3, "label": 0}, ["a.parquet"])
    ['3 rows were left out (3 missing)', '1 files could not be read and were left out']
    """
    notes = []
    if why := reasons(rejected):
        notes.append(f"{count(sum(rejected.values()))} rows were left out ({why})")
    if skipped:
        notes.append(f"{len(skipped)} files could not be read and were left out")
    return notes


class CellEvidence:
    """Evidence in cells and sums; `Summary` fills them and gives `tables`, `state` and `score_sums`."""

    caller = "Summary"
    n: int
    n_classes: int
    fractional: int
    classes: tuple[Any, ...] | None
    rejected: dict[str, int]
    skipped: tuple[str, ...]
    sums: RowSums

    @property
    def pairs(self) -> bool:
        """Whether only top-label pairs are known."""
        return self.n_classes == 0

    @property
    def total(self) -> float:
        """Sum of weights."""
        raise TypeError(f"{type(self).__name__} keeps no sums")

    def tables(self, view: View | str) -> tuple[Table, ...]:
        """Return the cells of a view, one table per group."""
        raise TypeError(f"{type(self).__name__} keeps no cells of {view}")

    def state(self, recipe: Any) -> Any:
        """Return the state a calibration error is finished from."""
        raise TypeError(f"{type(self).__name__} keeps no state of {recipe}")

    def score_sums(self, recipe: Recipe) -> ScoreSums:
        """Return the sums of the row score behind a mean."""
        raise TypeError(f"{type(self).__name__} keeps no sums of {recipe}")

    # -- what it is ---------------------------------------------------------------------------

    @property
    def task(self) -> Task:
        """Class probabilities, or top-label pairs."""
        return "pairs" if self.pairs else "classes"

    @property
    def weighted(self) -> bool:
        """Whether rows carry weights."""
        return self.total != self.n

    @property
    def counts(self) -> bool:
        """Whether all weights are whole numbers."""
        return self.fractional == 0

    @property
    def notes(self) -> tuple[str, ...]:
        """Rows and files that an engine left out."""
        return tuple(left_out_notes(self.rejected, self.skipped))

    def need_counts(self, what: str) -> None:
        """Refuse weights that are not whole numbers where `what` needs counts."""
        if self.fractional:
            raise input_error(
                "sample_weight",
                self.caller,
                f"be whole numbers, because {what} needs counts",
                f"{self.fractional} fractional weights",
                "weights are frequencies: scale them to counts, or drop them",
            )

    def read_weights(self, kind: str | None) -> CellEvidence:
        """Refuse to read weights in another way: cells were added up as counts."""
        if kind is not None:
            raise input_error("weight_kind", self.caller, "be left out for cells", repr(kind), "evaluate the rows")
        return self

    def own_clusters(self) -> None:
        """Cells have no rows to be clusters of their own."""
        return

    # -- values -------------------------------------------------------------------------------

    def answers(self, recipe: Recipe) -> bool:
        """Whether the cells or sums of a metric are kept; a number of bins that does not fit is refused by `value`."""
        try:
            self.state(recipe) if recipe.on_tables else self.score_sums(recipe)
        except InputError as error:
            return error.argument in ("n_bins", "sample_weight")
        return True

    def value(self, recipe: Recipe) -> float:
        """Return the value of a metric with its parameters fixed."""
        if not self.n:
            raise input_error("Summary", "value", "hold at least one row", "none", "update it first")
        return float(recipe.finish(self.state(recipe) if recipe.on_tables else self.score_sums(recipe)))

    def precision(self, recipe: Any) -> Precision:
        """Return how far a value from cells may be from the value from rows."""
        if not recipe.on_tables:
            return EXACT
        said: Precision = recipe.estimator.precision(recipe.view, self.tables(recipe.view))
        if recipe.view.per_class and self.n_classes > 2:
            drawn = "its null distribution takes classes as independent (mean exact, standard deviation approximate)"
            return Precision(said.bound, f"{said.sentence}; {drawn}")
        return said

    def zero_rows(self, recipe: Recipe) -> int:
        """Return how many rows would make a mean score infinite if what they call impossible happened."""
        return round(self.score_sums(recipe).zeros)

    def moments(self, recipe: Recipe, groups: ArrayLike | None = None) -> Moments | None:
        """Return mean, standard error and skewness of a mean score."""
        self._no_clusters(groups)
        return self.score_sums(recipe).moments()

    def _no_clusters(self, groups: ArrayLike | None) -> None:
        if groups is not None:
            raise input_error("groups", self.caller, "be left out: cells have no clusters", "some", "use the rows")

    def null_moments(self, recipe: Recipe, groups: ArrayLike | None = None) -> NullMoments | None:
        """Return the moments of a mean score when labels are drawn from the forecasts."""
        self._no_clusters(groups)
        found = self.score_sums(recipe)
        return found.null_moments() if depends_on_truth(recipe.score) else None  # type: ignore[attr-defined]  # a mean

    # -- tables -------------------------------------------------------------------------------

    def resampling_table(self, view: View) -> Table:
        """Return the table whose outcomes are resampled."""
        tables = list(self.tables(as_view(view, self.caller)))
        if len(tables) != 1:
            raise input_error("view", self.caller, "have one group of scores", repr(view), "pass 'top-1'")
        return tables[0]

    def coarse_table(self, view: View) -> Table:
        """Return the cells on which slices are tested."""
        return self.resampling_table(view)

    def pairs_of(self, view: View) -> Pairs:
        """Return each cell's hits and misses at its mean score, weighted by their number."""
        return cell_pairs(self.resampling_table(view))

    def test_table(self, view: View) -> Table:
        """Return the steps of the joint test."""
        return evened(self.resampling_table(view), TEST_STEPS)

    def class_counts(self) -> ClassCounts | None:
        """Return what happened to every class and what the forecast says of it; None where classes are not kept."""
        try:
            tables = self.tables(Classwise())
        except InputError:
            return None
        return ClassCounts.of_tables(tables)

    def null_draws(
        self,
        recipes: Mapping[str, Any],
        n_resamples: int,
        rng: np.random.Generator,
        clusters: Ints | None = None,
    ) -> dict[str, Null | PathNull | RareNull]:
        """Resample the outcomes of cells with the probability the forecasts give them; a view's metrics share draws.

        Three or more classes are drawn independently (mean exact, standard deviation approximate); of two, one is the
        mirror of the other.
        """
        self._no_clusters(clusters)
        by_view: dict[View, dict[str, Recipe]] = {}
        for name, recipe in recipes.items():
            by_view.setdefault(recipe.view, {})[name] = recipe
        out: dict[str, Null | PathNull | RareNull] = {}
        for view, members in by_view.items():
            tables = view.occupied(self.tables(view))
            if view.mirrored(self.n_classes):
                out |= replicate_tables(members, tables[1:], n_resamples, rng, lambda one: [mirror(one[0]), *one])
            else:
                out |= replicate_tables(members, tables, n_resamples, rng)
        return out

    def score_rows(self, recipe: Recipe) -> Floats:
        """Refuse: rows are not kept."""
        raise needs_rows(f"a paired comparison ({type(recipe).__name__})")

    def checksum(self) -> str:
        """Return sixteen digits that tell these cells and sums from others."""
        return hashlib.sha256(self.to_bytes()).hexdigest()[:16]

    def to_bytes(self) -> bytes:
        """Return cells and sums as bytes."""
        raise TypeError(f"{type(self).__name__} has no bytes")

    def take(self, rows: Any) -> CellEvidence:
        """Refuse: rows are not kept."""
        raise needs_rows(f"a part of the rows ({type(rows).__name__})")
