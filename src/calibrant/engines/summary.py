"""`Summary`: a mergeable, serialisable, fixed-size record of predictions that answers the one-dimensional panel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from calibrant import metrics as _metrics  # noqa: F401  -- declares every measure
from calibrant._typing import RNG, ArrayLike, Space
from calibrant.core.declare import Recipe, lookup
from calibrant.core.edges import COARSE, FINE
from calibrant.core.inputs import Forecast, check_classes, check_forecast, check_pairs
from calibrant.core.tables import Bins, Pairs, Table, width_bins
from calibrant.engines.cells import Growing, add_bins, fill_cells, merge
from calibrant.engines.row_sums import RowSums, row_sums, score_name
from calibrant.engines.summary_views import above, difference, kept_view, needs_rows, plain_view
from calibrant.errors import InputError, input_error
from calibrant.estimators import Binned, State
from calibrant.metrics.recipes import CalibrationError, MeanScore, ScoreSums
from calibrant.views import Canonical, ClassK, Classwise, Entropy, Pooled, TopLabel, TopR, View, as_view

if TYPE_CHECKING:
    from calibrant.engines.slices import Slices
    from calibrant.inference.evaluation import Evaluation

__all__ = ["Summary"]

#: Why a row was left out by an engine.
REASONS = ("missing", "label", "outside", "weight")


class Summary:
    """Everything the one-dimensional measures need of a set of predictions, in a few megabytes at most.

    Summaries of parts add up to the summary of the whole, in any order and any number of parts, on any
    machine. Width-binned measures, proper scores and accuracy are exact; the others say how far they may
    be off. Measures of the whole vector (skce, ce-kde) need rows and are refused.

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
        Summarise top-label pairs: ``update(correct, confidence)``.
    coarse : bool, default False
        Use the grid of 1 200 cells for every view (slices by the thousand) instead of 76 800 for single groups.

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
    >>> both.n, round(both.measure("accuracy"), 3), round(both.measure("ece"), 3)
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
        if pairs:
            n_classes = 0
        elif isinstance(n_classes, bool) or not isinstance(n_classes, int | np.integer) or n_classes < 2:
            raise input_error(
                "n_classes",
                "Summary",
                "be a whole number of at least 2",
                repr(n_classes),
                "count the columns, or pass pairs=True for (correct, confidence)",
            )
        self.n_classes = int(n_classes or 0)
        self.classes = check_classes(classes, self.n_classes, "Summary")
        self.coarse = bool(coarse)
        default: tuple[View, ...] = (TopLabel(),) if pairs else (TopLabel(), Classwise(), Entropy())
        self.views = tuple(kept_view(as_view(v, "Summary"), pairs) for v in views) if views is not None else default
        self.n_bins = tuple(sorted({Binned(m).n_bins for m in n_bins}))
        self.n = 0
        self.fractional = 0
        self.rejected: dict[str, int] = dict.fromkeys(REASONS, 0)
        self.sums: RowSums = {}
        self._cells = [
            [Growing(Table.empty(self.grid_of(view))) for _ in range(self.group_count(view))] for view in self.views
        ]
        self._bins: dict[tuple[int, int], Bins] = {}

    @property
    def pairs(self) -> bool:
        """Whether only top-label pairs are known."""
        return self.n_classes == 0

    @property
    def total(self) -> float:
        """Sum of weights."""
        return self.sums["accuracy"].w if self.sums else 0.0

    def grid_of(self, view: View) -> int:
        """Return the number of cells kept for a view."""
        many = isinstance(view, Classwise) or getattr(view, "by", None) is not None
        return COARSE if self.coarse or many else FINE

    def group_count(self, view: View) -> int:
        """Return the number of groups kept for a view."""
        return self.n_classes if isinstance(view, Classwise) or getattr(view, "by", None) else 1

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
        if self.pairs:
            return self.add(check_pairs(y_true, y_proba, caller=caller, sample_weight=sample_weight))
        forecast = check_forecast(
            y_true,
            y_proba,
            caller=caller,
            sample_weight=sample_weight,
            classes=self.classes,
            space=space,
            normalize=normalize,
        )
        if forecast.n_classes != self.n_classes:
            raise input_error(
                "y_proba",
                caller,
                f"have {self.n_classes} columns",
                f"{forecast.n_classes}",
                "keep one Summary per model",
            )
        return self.add(forecast)

    def add(self, forecast: Forecast) -> Self:
        """Take in checked predictions."""
        for position, view in enumerate(self.views):
            for group, pairs in self._pairs(view, forecast):
                self.add_cells(position, group, fill_cells(pairs, self.grid_of(view)))
            for m in self.n_bins:
                if self.group_count(view) == 1 or isinstance(view, Classwise):
                    self.add_bins(position, m, view.width_bins(forecast, m))
                else:
                    parts = [Bins.zeros(1, m)] * self.n_classes
                    for group, pairs in self._pairs(view, forecast):
                        parts[group] = width_bins(pairs, m)
                    self.add_bins(position, m, Bins.stack(parts))
        w = forecast.weights
        self.add_rows(forecast.n, 0 if w is None else int((w != np.floor(w)).sum()), row_sums(forecast))
        return self

    def _pairs(self, view: View, forecast: Forecast) -> Iterable[tuple[int, Pairs]]:
        if getattr(view, "by", None):
            present = np.unique(forecast.top).tolist()
            return zip(present, view.groups(forecast), strict=True)
        return enumerate(view.groups(forecast))

    def add_cells(self, view: int, group: int, table: Table) -> None:
        """Add a table of cells to a group of a view (engines build it by group-by)."""
        self._cells[view][group].add(table)

    def add_bins(self, view: int, m: int, bins: Bins) -> None:
        """Add bins of a count that was asked for at construction."""
        self._bins[view, m] = add_bins(self._bins.get((view, m)), bins)

    def add_rows(self, n: int, fractional: int, sums: RowSums, rejected: Mapping[str, int] | None = None) -> None:
        """Add the plain counts and score sums."""
        self.n += n
        self.fractional += fractional
        self.sums = {k: self.sums[k] + sums[k] for k in self.sums} if self.sums and sums else dict(sums or self.sums)
        for reason, count in (rejected or {}).items():
            self.rejected[reason] += count

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
                difference(self._shape(), other._shape()),
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
        return whole

    def __radd__(self, other: object) -> Summary:
        return self + self.empty() if other == 0 else NotImplemented  # sum() starts at 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Summary) and self.to_bytes() == other.to_bytes()

    __hash__ = None  # type: ignore[assignment]  # it grows

    # -- reading ------------------------------------------------------------------------------

    def tables(self, view: View | str) -> tuple[Table, ...]:
        """Return the cells of a view, one table per group; views that follow from kept ones work too."""
        view = as_view(view, "Summary")
        if isinstance(view, TopR) and view.r == 1:
            view = TopLabel()
        threshold = getattr(view, "threshold", None)
        for position, kept in enumerate(self.views):
            if type(kept) is type(view) and plain_view(kept) == plain_view(view):
                tables = tuple(growing.table() for growing in self._cells[position])
                return tables if threshold is None else tuple(above(table, threshold) for table in tables)
        classwise = any(isinstance(kept, Classwise) for kept in self.views)
        if classwise and isinstance(view, ClassK) and view.k < self.n_classes:
            return (self.tables(Classwise())[view.k],)
        if classwise and isinstance(view, Pooled):
            return (merge(self.tables(Classwise(threshold=threshold)), COARSE),)
        kept_names = ", ".join(v.name for v in self.views)
        if isinstance(view, Canonical):
            raise needs_rows("the canonical view")
        raise input_error(
            "view",
            "Summary",
            f"be one it keeps ({kept_names}) or that follows from them",
            view.name,
            f"name it at construction: Summary(…, views=[…, '{view.name}'])",
        )

    def state(self, recipe: CalibrationError) -> State:
        """Return the state a calibration error is finished from."""
        estimator, view = recipe.estimator, recipe.view
        if not isinstance(estimator, Binned):
            return self.tables(view)
        if estimator.convention is not None:
            raise needs_rows(f"convention={estimator.convention!r}")
        if estimator.debias and self.fractional:
            raise input_error(
                "sample_weight",
                "Summary",
                "be whole numbers, because debias needs counts",
                f"{self.fractional} fractional weights",
                "weights are frequencies: scale them to counts, or drop them",
            )
        tables = self.tables(view)
        if getattr(view, "by", None):
            tables = tuple(table for table in tables if len(table)) or tables[:1]
        m = estimator.n_bins
        if estimator.bins == "mass":
            return Bins.stack([table.mass_bins(m) for table in tables])
        if all(table.grid % m == 0 for table in tables):
            return Bins.stack([table.bins(m) for table in tables])
        return self._told_bins(view, m)

    def _told_bins(self, view: View, m: int) -> Bins:
        kept = [
            position for position, one in enumerate(self.views) if one == view or plain_view(one) == plain_view(view)
        ]
        if m in self.n_bins and kept and getattr(view, "threshold", None) is None:
            bins = self._bins.get((kept[0], m), Bins.zeros(self.group_count(view), m))
            if getattr(view, "by", None):
                used = bins.w.sum(axis=-1) > 0
                return Bins(bins.w[used], bins.ws[used], bins.wt[used])
            return bins
        grid = self.grid_of(view)
        raise input_error(
            "n_bins",
            "Summary",
            f"divide its grid of {grid:_} cells".replace("_", " "),
            str(m),
            f"take 10, 15, 20, 25 …, or keep it from the start: Summary(…, n_bins=[{m}])",
        )

    def value(self, recipe: Recipe) -> float:
        """Return the value of a measure with its parameters fixed."""
        if not self.n:
            raise input_error("Summary", "value", "hold at least one row", "none", "update it first")
        if isinstance(recipe, CalibrationError):
            return float(recipe.finish(self.state(recipe)))
        return float(recipe.finish(self.score_sums(recipe)))

    def score_sums(self, recipe: Recipe) -> ScoreSums:
        """Return Σw, Σw·x, Σw·x² of the row score behind a mean."""
        if not isinstance(recipe, MeanScore):
            raise needs_rows("this measure")
        name = score_name(recipe)
        if name not in self.sums:
            if self.pairs and not recipe.top_label_only:
                raise input_error(
                    "pairs",
                    "Summary",
                    "be False for measures of the whole vector",
                    "top-label pairs",
                    "keep the probability vectors, or ask for ece, ks, accuracy",
                )
            raise needs_rows("this score")
        return self.sums[name]

    def measure(self, name: str, **params: Any) -> float:
        """Return one measure by its short name, as `calibrant.measure` does on rows."""
        short, _, view = name.partition("@")
        if view:
            params["view"] = view
        try:
            return self.value(lookup(short, "Summary.measure").build(**params))
        except InputError as error:
            if "needs the rows" in str(error):
                raise InputError(str(error).replace("This measure", short)) from None
            raise

    def evaluate(
        self,
        *,
        measures: Iterable[str] | str | None = None,
        n_bins: int = 15,
        level: float = 0.95,
        n_resamples: int = 1000,
        rng: RNG = None,
    ) -> Evaluation:
        """Return the same table as `calibrant.evaluate`, from cells.

        Null distributions resample cells with probability Σw·e/Σw; class-wise ones treat three or more
        classes as independent (mean exact, spread approximate) and mirror one class at two. The note of
        each approximate measure states its bound.

        Parameters
        ----------
        measures : iterable of str, optional
            Short names, ``"name@view"`` for another view; default the panel; ``"all"``: every one it can.
        n_bins, level, n_resamples, rng
            As in `calibrant.evaluate`; ``n_resamples=0`` gives KS its p-value from the limit law.
        """
        from calibrant.engines.summary_evaluation import evaluate_summary

        return evaluate_summary(self, measures=measures, n_bins=n_bins, level=level, n_resamples=n_resamples, rng=rng)

    def auc(self) -> tuple[float, float]:
        """Return the area under the ROC curve of confidence against "right", and how far cells may be off.

        Pairs of a hit and a miss in one cell count one half; the bound is half their share.
        """
        (table,) = self.tables(TopLabel())
        misses = table.w - table.wt
        below = np.cumsum(misses) - misses
        pairs = float(table.wt.sum() * misses.sum())
        if pairs == 0:
            return float("nan"), float("nan")
        within = float((table.wt * misses).sum())
        return float((table.wt * below).sum() + 0.5 * within) / pairs, 0.5 * within / pairs

    # -- other doors --------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """Return the summary as bytes: schema number, checksum, plain arrays; never a pickle."""
        from calibrant.engines.summary_bytes import pack

        return pack(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> Summary:
        """Read what `to_bytes` wrote; damaged or newer data are refused."""
        from calibrant.engines.summary_bytes import unpack

        return unpack(data)

    @classmethod
    def from_frame(cls, frame: Any, **options: Any) -> Slices:
        """Summarise a frame or relation of any engine: see `calibrant.engines.frames.summarize`."""
        from calibrant.engines.frames import summarize

        return summarize(frame, **options)

    @classmethod
    def from_path(cls, path: str, **options: Any) -> Slices:
        """Summarise files by path or pattern: see `calibrant.engines.paths.evaluate_paths`."""
        from calibrant.engines.paths import evaluate_paths

        return evaluate_paths(path, **options)

    def __repr__(self) -> str:
        what = "top-label pairs" if self.pairs else f"{self.n_classes} classes"
        views = ", ".join(view.name for view in self.views)
        return f"Summary({self.n} rows, {what}, views {views})"
