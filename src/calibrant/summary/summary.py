"""`Summary`: a mergeable, serializable, fixed-size record of predictions that answers the one-dimensional metrics."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np

from calibrant._typing import RNG, ArrayLike, Space
from calibrant.core.cells import Growing, add_bins, fill_cells
from calibrant.core.declare import Recipe, lookup
from calibrant.core.inputs import Forecast, check_classes, check_flag, check_forecast, check_n_bins
from calibrant.core.notebook import text_html
from calibrant.core.options import check_count, check_type, listed
from calibrant.core.tables import Bins, Table
from calibrant.core.text import count
from calibrant.errors import input_error
from calibrant.estimators import State
from calibrant.inference.evaluation import Evaluation, evaluate_evidence
from calibrant.inference.verdict import TOLERANCE
from calibrant.metrics.recipes import ScoreSums
from calibrant.summary.codec import pack, unpack
from calibrant.summary.evidence import CellEvidence
from calibrant.summary.sums import RowSums, row_sums, score_name
from calibrant.views import Classwise, Entropy, TopLabel, View, as_view, needs_rows

__all__ = ["Summary"]

#: More classes than this are no request that could be met.
MOST_CLASSES = 1_000_000
#: Why a row was left out by an engine.
REASONS = ("missing", "label", "outside", "weight")


class Summary(CellEvidence):
    """Everything the one-dimensional metrics need of a set of predictions, in a few megabytes at most.

    Summaries of parts add up to the summary of the whole, in any order and any number of parts, on any
    machine. Width-binned metrics, proper scores and accuracy are exact; the others say how far they may
    be off. Metrics of the whole vector (skce, ce-kde) need rows and are refused.

    Parameters
    ----------
    n_classes : int, optional
        Number of classes; left out for top-label pairs.
    views : iterable of View or str, optional
        Questions to keep cells for; default top-1, classwise and entropy (pairs: top-1).
    n_bins : iterable of int, default ()
        Further equal-width bin counts to keep, for those that do not divide the grid (such as 7 or 18).
    classes : array-like of shape (n_classes,), optional
        Names of the columns, when `y_true` holds names.
    pairs : bool, default False
        Summarize top-label pairs: ``update(correct, confidence)``.
    coarse : bool, default False
        Use the grid of 1,200 cells for every view (slices by the thousand) instead of 76,800 for single groups.

    Attributes
    ----------
    n : int
        Rows taken in.
    rejected : dict
        Rows left out by an engine, by reason: ``missing`` (NULL, NaN), ``label``, ``outside``, ``weight``.

    Notes
    -----
    Cells hold n, Σw, Σw·s, Σw·t, Σw², Σw·e over ``clip(ceil((float64(s) − 2⁻²⁴)·m) − 1, 0, m − 1)``; the
    first and the last cell are split by sixteenths of the octave of s and 1 − s. Only occupied cells are
    stored: at most 4 MB for a fine group, 60 kB for a coarse one. Cost of `update`: O(n·K), no sort.

    Examples
    --------
    >>> one = Summary(n_classes=2).update([0, 1], [[0.8, 0.2], [0.4, 0.6]])
    >>> two = Summary(n_classes=2).update([1], [[0.7, 0.3]])
    >>> both = one + two
    >>> both.n, round(both.metric("accuracy"), 3), round(both.metric("ece"), 3)
    (3, 0.667, 0.433)
    >>> Summary.from_bytes(both.to_bytes()).to_bytes() == both.to_bytes()
    True
    """

    def __init__(
        self,
        n_classes: int | None = None,
        *,
        views: Iterable[View | str] | None = None,
        n_bins: Iterable[int] = (),
        classes: ArrayLike | None = None,
        pairs: bool = False,
        coarse: bool = False,
    ) -> None:
        if check_flag(pairs, "pairs", "Summary"):
            n_classes = 0
        else:
            usual = "the number of columns, or pairs=True for (correct, confidence)"
            n_classes = check_count(n_classes, "n_classes", "Summary", 2, usual, MOST_CLASSES)  # type: ignore[arg-type]
        self.n_classes = n_classes
        self.classes = check_classes(classes, self.n_classes, "Summary")
        self.coarse = check_flag(coarse, "coarse", "Summary")
        default: tuple[View, ...] = (TopLabel(),) if pairs else (TopLabel(), Classwise(), Entropy())
        given = () if views is None else listed(views, "views", "Summary")
        self.views = default if views is None else tuple(as_view(v, "Summary").keepable(pairs) for v in given)
        self.n_bins = tuple(sorted({check_n_bins(m, "Summary") for m in listed(n_bins, "n_bins", "Summary")}))
        self.n = 0
        self.fractional = 0
        self.rejected: dict[str, int] = dict.fromkeys(REASONS, 0)
        #: Files that could not be read and were left out.
        self.skipped: tuple[str, ...] = ()
        self.sums: RowSums = {}
        self._cells = [
            [Growing(Table.empty(self.grid_of(view))) for _ in range(self.group_count(view))] for view in self.views
        ]
        self._bins: dict[tuple[int, int], Bins] = {}
        #: Tables of views and states of errors that were asked for since the last cells came.
        self._known: dict[Any, Any] = {}

    @property
    def total(self) -> float:
        """Sum of weights."""
        return next(iter(self.sums.values())).w if self.sums else 0.0

    def grid_of(self, view: View) -> int:
        """Return the number of cells kept for a view."""
        return as_view(view, "Summary").grid(self.coarse)

    def group_count(self, view: View) -> int:
        """Return the number of groups kept for a view."""
        return as_view(view, "Summary").group_count(self.n_classes)

    # -- filling ------------------------------------------------------------------------------

    def update(
        self,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        space: Space = "proba",
        normalize: bool = False,
    ) -> Self:
        """Take in more rows; returns the summary itself.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            Class indices or names (`classes`); for pairs: whether the top label was right.
        y_proba : array-like of shape (n, K) or (n,)
            Probabilities (or logits, see `space`); for pairs: the confidence.
        sample_weight : array-like of shape (n,), optional
            Frequencies.
        space : {"proba", "logit"}, default "proba"
            What `y_proba` holds.
        normalize : bool, default False
            Rescale rows to sum 1.
        """
        caller = "Summary.update"
        named: dict[str, Any] = {"sample_weight": sample_weight, "classes": self.classes, "space": space}
        forecast = check_forecast(y_true, y_proba, caller=caller, normalize=normalize, pairs=self.pairs, **named)
        if forecast.n_classes != self.n_classes:
            rule, got = f"have {self.n_classes} columns", f"{forecast.n_classes}"
            raise input_error("y_proba", caller, rule, got, "keep one Summary per model")
        return self.add(forecast)

    def add(self, forecast: Forecast) -> Self:
        """Take in checked predictions."""
        self.add_tables(forecast)
        w = forecast.weights
        self.add_rows(forecast.n, 0 if w is None else int((w != np.floor(w)).sum()), row_sums(forecast))
        return self

    def add_tables(self, forecast: Forecast) -> None:
        """Take in the cells and bins of checked predictions, without their rows and sums."""
        for position, view in enumerate(self.views):
            for group, pairs in view.numbered(forecast):
                self.add_cells(position, group, fill_cells(pairs, self.grid_of(view)))
            for m in self.n_bins:
                self.add_bins(position, m, view.numbered_bins(forecast, m))

    def add_cells(self, view: int, group: int, table: Table) -> None:
        """Add a table of cells to a group of a view (engines build it by group-by)."""
        self._cells[view][group].add(table)
        self._known.clear()

    def add_bins(self, view: int, m: int, bins: Bins) -> None:
        """Add bins of a count that was asked for at construction."""
        self._bins[view, m] = add_bins(self._bins.get((view, m)), bins)
        self._known.clear()

    def add_rows(self, n: int, fractional: int, sums: RowSums, rejected: Mapping[str, int] | None = None) -> None:
        """Add the plain counts and score sums."""
        self.n += n
        self.fractional += fractional
        both = {k: self.sums[k] + sums[k] for k in self.sums if k in sums} if self.sums and sums else None
        self.sums = dict(sums or self.sums) if both is None else both
        for reason, rows in (rejected or {}).items():
            self.rejected[reason] += rows

    def add_slice(self, part: Summary) -> None:
        """Add the rows of a slice, and its cells and bins where the grid is the same; finer cells are counted apart."""
        for position, view in enumerate(self.views):
            if part.grid_of(view) == self.grid_of(view):
                for group, cells in enumerate(part._cells[position]):
                    self.add_cells(position, group, cells.table())
        for (position, m), bins in part._bins.items():
            self.add_bins(position, m, bins)
        self.add_rows(part.n, part.fractional, part.sums)

    def finish_rows(self) -> None:
        """Read what was not counted apart from the cells of the top label: rows, hits and confidence.

        Sum and mean are exact; the spread of the confidence misses the variance inside a cell.
        """
        if self.sums.keys() >= {"accuracy", "confidence"}:
            return
        (table,) = self.tables(TopLabel())
        hits = float(table.wt.sum())
        null = [hits - float(table.ws.sum()), math.nan, math.nan]
        if not self.n:
            self.n = round(float(table.n.sum()))
        self.sums |= {
            "accuracy": ScoreSums.about(0.0, table.total, [hits] * 3, null),
            "confidence": ScoreSums.of(table.ws / table.w, table.w, [0.0] * 3),
        }

    # -- algebra ------------------------------------------------------------------------------

    def _shape(self) -> tuple[Any, ...]:
        return self.n_classes, self.classes, self.views, self.n_bins, self.coarse

    def empty(self) -> Summary:
        """Return an empty summary of the same shape: the neutral element of ``+``."""
        return Summary(
            self.n_classes or None,
            views=self.views,
            n_bins=self.n_bins,
            classes=self.classes,
            pairs=self.pairs,
            coarse=self.coarse,
        )

    def __add__(self, other: object) -> Summary:
        if not isinstance(other, Summary):
            return NotImplemented
        if self._shape() != other._shape():
            raise input_error(
                "other",
                "Summary.__add__",
                "have the same classes, views, n_bins and grid",
                _difference(self._shape(), other._shape()),
                "build both summaries with the same arguments",
            )
        whole = self.empty()
        for part in (self, other):
            for position, growing in enumerate(part._cells):
                for group, cells in enumerate(growing):
                    whole.add_cells(position, group, cells.table())
            for (position, m), bins in part._bins.items():
                whole.add_bins(position, m, bins)
            whole.add_rows(part.n, part.fractional, part.sums, part.rejected)
        whole.skipped = tuple(sorted({*self.skipped, *other.skipped}))
        return whole

    def __radd__(self, other: object) -> Summary:
        return self + self.empty() if other == 0 else NotImplemented  # sum() starts at 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Summary) and self.to_bytes() == other.to_bytes()

    def aligned(self, other: Summary) -> Summary:
        """Return this summary with its classes in the order of another; other classes are refused."""
        if self._shape()[:2] == other._shape()[:2]:
            return self
        mine, theirs = self.classes, other.classes
        names = ("top-1", "classwise", "entropy", "pooled")
        plain = all(view.name in names for view in self.views)
        if self.n_classes != other.n_classes or not (mine and theirs and plain) or set(mine) != set(theirs):
            raise input_error(
                "other",
                "Summary.aligned",
                "have the same classes",
                _difference(self._shape()[:2], other._shape()[:2]),
                "keep one Summary per model",
            )
        turned = self.empty()
        turned.classes = theirs
        where = [mine.index(name) for name in theirs]
        for position, groups in enumerate(self._cells):
            order = where if len(groups) == self.n_classes else range(len(groups))
            for new, old in enumerate(order):
                turned.add_cells(position, new, groups[old].table())
            for (place, m), bins in self._bins.items():
                if place == position:
                    turned.add_bins(position, m, Bins(*(x[list(order)] for x in (bins.w, bins.ws, bins.wt))))
        turned.add_rows(self.n, self.fractional, self.sums, self.rejected)
        turned.skipped = self.skipped
        return turned

    def same_rows(self, other: Summary) -> bool:
        """Whether two summaries are of the same rows: counts are equal, sums agree within rounding.

        Engines add up in another order from run to run, so the bytes of sums differ in their last digits.
        """
        if (self._shape(), self.n, self.fractional, self.rejected) != (
            other._shape(),
            other.n,
            other.fractional,
            other.rejected,
        ):
            return False
        pairs = [
            (mine.table(), yours.table())
            for groups, theirs in zip(self._cells, other._cells, strict=True)
            for mine, yours in zip(groups, theirs, strict=True)
        ]
        return all(_same_cells(mine, yours) for mine, yours in pairs)

    __hash__ = None  # type: ignore[assignment]  # it grows

    # -- reading ------------------------------------------------------------------------------

    def tables(self, view: View | str) -> tuple[Table, ...]:
        """Return the cells of a view, one table per group; views that follow from kept ones work too."""
        view = as_view(view, self.caller)
        found: tuple[Table, ...] | None = self._known.get(view)
        if found is not None:
            return found
        kept = [one.plain() for one in self.views]
        for source in view.sources(self.n_classes):
            if source in kept:
                found = tuple(growing.table() for growing in self._cells[kept.index(source)])
                self._known[view] = found = view.derive(source, found)
                return found
        if view.canonical:
            raise needs_rows("the canonical view")
        raise input_error(
            "view",
            self.caller,
            f"be one it keeps ({', '.join(one.name for one in self.views)}) or that follows from them",
            view.name,
            f"name it at construction: Summary(…, views=[…, '{view.name}'])",
        )

    def state(self, recipe: Any) -> State:
        """Return the state a calibration error is finished from."""
        estimator, view = recipe.estimator, recipe.view
        if estimator.needs_rows is not None:
            raise needs_rows(estimator.needs_rows)
        if estimator.needs_counts:
            self.need_counts("debias")
        if (view, estimator) not in self._known:
            tables = view.occupied(self.tables(view))
            m = estimator.width_bins
            unfit = m is not None and any(table.grid % m for table in tables)
            self._known[view, estimator] = self._kept_bins(view, m) if unfit else estimator.state_of(tables)
        state: State = self._known[view, estimator]
        return state

    def _kept_bins(self, view: View, m: int) -> Bins:
        plain = [one.plain() for one in self.views]
        if m in self.n_bins and view.plain() in plain and view.lowest is None:
            bins = self._bins.get((plain.index(view.plain()), m), Bins.zeros(self.group_count(view), m))
            return view.occupied_bins(bins)
        raise input_error(
            "n_bins",
            self.caller,
            f"divide its grid of {count(self.grid_of(view))} cells",
            str(m),
            f"take 10, 15, 20, 25 …, or keep it from the start: Summary(…, n_bins=[{m}])",
        )

    def score_name(self, recipe: Recipe) -> str | None:
        """Return the name under which the sums of a mean score are kept."""
        return score_name(recipe)  # type: ignore[arg-type]  # a mean score

    def score_sums(self, recipe: Recipe) -> ScoreSums:
        """Return the sums of the row score behind a mean."""
        if not recipe.is_mean:
            raise needs_rows("this metric")
        name = self.score_name(recipe)
        if name in self.sums:
            return self.sums[name]
        if self.pairs and not recipe.top_label_only:
            raise input_error(
                "pairs",
                self.caller,
                "be False for metrics of the whole vector",
                "top-label pairs",
                "keep the probability vectors, or ask for ece, ks, accuracy",
            )
        raise needs_rows("this score")

    def metric(self, name: str, **params: Any) -> float:
        """Return one metric by its short name, as `calibrant.metric` does on rows."""
        check_type(name, str, "name", "metric", "be the name of a metric", "for example 'ece'")
        short, _, view = name.partition("@")
        if view:
            params["view"] = view
        recipe = lookup(short, "Summary.metric").build(caller="Summary.metric", **params)
        if not (recipe.on_tables or recipe.is_mean):
            raise needs_rows(f"the metric {short}")
        return self.value(recipe)

    def evaluate(
        self,
        *,
        metrics: Iterable[str] | str | None = None,
        n_bins: int = 15,
        level: float = 0.95,
        n_resamples: int = 1000,
        tolerance: float = TOLERANCE,
        rng: RNG = None,
    ) -> Evaluation:
        """Return the same table as `calibrant.evaluate`, from cells.

        Null distributions resample cells with probability Σw·e/Σw; class-wise ones treat three or more
        classes as independent (mean exact, standard deviation approximate) and mirror one class at two. The note of
        each approximate metric states its bound.

        Parameters
        ----------
        metrics : iterable of str, optional
            Short names, ``"name@view"`` for another view; default the default set; ``"all"``: every one it can.
        n_bins, level, n_resamples, tolerance, rng
            As in `calibrant.evaluate`.
        """
        return evaluate_evidence(
            self,
            metrics=metrics,
            n_bins=n_bins,
            level=level,
            n_resamples=n_resamples,
            tolerance=tolerance,
            rng=rng,
        )

    # -- other inputs --------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """Return the summary as bytes: schema number, checksum, plain arrays; never a pickle."""
        return pack(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> Summary:
        """Read what `to_bytes` wrote; damaged or newer data are refused."""
        return unpack(data, cls)

    def __repr__(self) -> str:
        what = "top-label pairs" if self.pairs else f"{self.n_classes} classes"
        views = ", ".join(view.name for view in self.views)
        return f"Summary({self.n} rows, {what}, views {views})"

    def _repr_html_(self) -> str:
        return text_html(repr(self))


def _same_cells(one: Table, two: Table) -> bool:
    if not (np.array_equal(one.key, two.key) and np.array_equal(one.n, two.n)):
        return False
    columns = ((getattr(one, name), getattr(two, name)) for name in ("w", "ws", "wt", "we", "w2"))
    return all(np.allclose(mine, yours, rtol=1e-9, atol=1e-9) for mine, yours in columns)


def _difference(one: tuple[Any, ...], other: tuple[Any, ...]) -> str:
    """Say what keeps two summaries from adding up."""
    names = ("n_classes", "classes", "views", "n_bins", "coarse")
    for name, mine, yours in zip(names, one, other, strict=False):
        if mine != yours:
            return f"{name} {mine!r} and {yours!r}"
    return "the same"
