"""The automatic repair: a cross-fitted league, a mixture of its best, a guard that doing nothing is not better."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeVar

import numpy as np

from calibrant._typing import RNG, ArrayLike, Floats, Ints, Space
from calibrant.calibrators._base import Calibrator
from calibrant.calibrators._judging import judge
from calibrant.calibrators._league import (
    Crossing,
    Entry,
    allowed,
    deal,
    default_entries,
    entry_of,
    n_repeats,
    sample_rows,
    settle_rows,
)
from calibrant.calibrators._program import Graph, Node
from calibrant.calibrators._scores import Scores, View
from calibrant.calibrators.ensemble import Ensemble
from calibrant.calibrators.temperature import TemperatureScaling
from calibrant.core.inputs import check_rng
from calibrant.errors import input_error
from calibrant.scores.rules import Log, ProperScore, as_score

if TYPE_CHECKING:
    import polars as pl

C = TypeVar("C", bound=Calibrator)


class AutoCalibrator(Calibrator):
    """Try many methods on held-out rows and ship a mixture of the best, never one worse than doing nothing.

    Every candidate, doing nothing among them, forecasts rows it was not fitted on. The final map is a
    cross-validated mixture of the candidates, drawn towards doing nothing as far as the gain is within
    noise. It explains itself in `league_` and `reason_`.

    Parameters
    ----------
    criterion : {"nll", "brier", "spherical", "rps"} or ProperScore, default "nll"
        Proper score that decides.
    preserve : {"argmax", "order"}, optional
        Use only methods that keep the predicted class, or the ranking of all classes.
    candidates : sequence of short names or calibrators, optional
        The field; doing nothing always takes part. Default: the methods that earned their place, see Notes.
    max_fit_seconds : float, optional
        Leave out candidates that would take longer together, simplest first. The only option that makes a
        result depend on the machine.
    mixture : bool, default True
        False ships one method: the simplest within one standard error of the best.
    cv : int, default 5
        Folds; drawn twice below 2 000 rows.
    fast : bool, default False
        Four candidates, three folds on a sample of the rows: about a tenth of the time.
    rng : None, int or Generator, default 0
        Draws the folds. They depend on the content of the rows, not on their order.
    space : {"proba", "logit"}, default "proba"
        What X holds.
    classes : array-like, optional
        Labels in column order, when y holds labels instead of column indices.

    Attributes
    ----------
    best_ : Calibrator
        The fitted map that is shipped: one method or a mixture.
    league_ : polars.DataFrame
        One row per candidate, best first: held-out score, gain over doing nothing with its standard error and
        95 % interval, whether it keeps the predicted class, its share in the shipped map, seconds (not saved).
    reason_ : str
        The choice in one sentence.

    Notes
    -----
    Default field: identity, temperature, ensemble temperature, order-preserving, vector, beta, structured matrix,
    multiclass isotonic, Platt with two classes, smoothed isotonic from 1 000 rows on and, up to 30 classes, Dirichlet
    with a penalty worth 5 rows. The weights of the mixture minimise the score of out-of-fold forecasts [3]_ with a
    pull, worth 20 rows, towards structured matrix (0.4), order-preserving (0.25), Platt (0.15), identity (0.15) and
    the rest, so that few rows do not choose at random. The mixture is then scored on rows that neither members nor
    weights have seen. With e nats of log-likelihood over doing nothing, a pseudo-Bayes factor [4]_, it gets the
    share 1/(1 + exp((3 − e)/2)) and the input the rest; nothing changes below a fifth. For other scores, with gain g
    and standard error s, the share is 1 − (0.8·s/g)² (positive-part shrinkage) and all of it from g = 4s on. Where the
    input holds exact zeros, the input with its zeros lifted takes its place: by the most likely uniform share if one
    of them was the truth, else by a share that costs 0.02 nats over all rows.
    Without mixture the one-standard-error rule decides [2]_: the simplest method whose paired difference to the best
    is within noise. The floor under exact zeros is fitted once per fold and shared; where no zero came true it
    expects half an event, and it is at most one half.
    Probabilities of the truth count as at least 1e-15 in the score. At most 2 million scores (or 2 000 rows) take part
    in the league; the final map is fitted on all rows.

    How to choose by hand [1]_: accuracy must stay → order-preserving or ensemble temperature; many rows and accuracy
    may change → structured matrix; unknown shape of the error and many rows → isotonic, never with few.

    References
    ----------
    .. [1] Zhang, Kailkhura & Han (2020), "Mix-n-Match", ICML, appendix G (guidelines).
    .. [2] Breiman, Friedman, Olshen & Stone (1984), "Classification and Regression Trees", section 3.4.3 (one
       standard error).
    .. [3] Wolpert (1992), "Stacked generalization", Neural Networks 5.
    .. [4] Geisser & Eddy (1979), "A predictive approach to model selection", JASA 74.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=400)
    >>> y = (rng.uniform(size=400) < 0.25 + 0.5 * p).astype(int)  # over-confident
    >>> cal = AutoCalibrator(fast=True).fit(p, y)
    >>> bool(cal.predict_proba([0.02])[0, 1] > 0.1), cal.league_.columns[:3]
    (True, ['method', 'cv_score', 'gain'])
    """

    short_name = "auto"
    title = "Automatic choice"
    paper = "Zhang, Kailkhura & Han (2020), Mix-n-Match, ICML, appendix G; Wolpert (1992), Stacked generalization"
    when = (
        "When you want the best probabilities without choosing: it tries many methods on held-out rows and says "
        "what it found. Not when the map must have few parameters; then name one method."
    )
    may_saturate = True
    view: ClassVar[View] = "raw"
    state: ClassVar[tuple[str, ...]] = ("best_", "records_", "reason_")

    best_: Calibrator
    records_: list[dict[str, Any]]
    reason_: str
    _tell: Callable[[int, int], None] | None = None

    def __init__(
        self, criterion: str | ProperScore = "nll", *, preserve: Literal["argmax", "order"] | None = None,
        candidates: Sequence[str | Calibrator] | None = None, max_fit_seconds: float | None = None,
        mixture: bool = True, cv: int = 5, fast: bool = False, rng: RNG = 0, space: Space = "proba",
        classes: ArrayLike | None = None,
    ) -> None:
        self.criterion = criterion
        self.preserve = preserve
        self.candidates = candidates
        self.max_fit_seconds = max_fit_seconds
        self.mixture = mixture
        self.cv = cv
        self.fast = fast
        self.rng = rng
        self.space = space
        self.classes = classes

    @classmethod
    def n_parameters(cls, n_classes: int) -> float:  # noqa: ARG003  # a member may grow with the rows
        """Return inf: a member may grow with the rows."""
        return float("inf")

    @property
    def can_export(self) -> bool:
        """Whether the shipped map can run elsewhere."""
        return self.best_.can_export

    @property
    def league_(self) -> pl.DataFrame:
        """The table of the league, best first."""
        import polars as pl

        seconds = getattr(self, "seconds_", {})
        rows = [{**row, "fit_seconds": seconds.get(row["method"])} for row in self.records_]
        return pl.DataFrame(rows, infer_schema_length=None, schema_overrides={"fit_seconds": pl.Float64})

    def watch(self, tell: Callable[[int, int], None] | None) -> Self:
        """Call `tell(done, total)` after every fit of the next `fit`; returns self."""
        self._tell = tell
        return self

    def _check_options(self, caller: str) -> None:
        super()._check_options(caller)
        as_score(self.criterion, caller)
        if self.preserve not in (None, "argmax", "order"):
            raise input_error("preserve", caller, "be 'argmax', 'order' or None", repr(self.preserve), "leave it out")
        if not (isinstance(self.cv, int) and not isinstance(self.cv, bool) and self.cv >= 2):
            raise input_error("cv", caller, "be a whole number of at least 2", repr(self.cv), "use 5")
        if self.max_fit_seconds is not None and not self.max_fit_seconds > 0:
            raise input_error("max_fit_seconds", caller, "be positive", repr(self.max_fit_seconds), "leave it at None")

    # -- fit ----------------------------------------------------------------------------------

    def _entries(self, rows: float) -> list[Entry]:
        from calibrant.calibrators import by_short_name
        from calibrant.calibrators.identity import Identity

        k = self.n_classes_
        if self.candidates is None:
            entries = default_entries(k, rows, fast=self.fast)
        else:
            parts = [by_short_name(c)() if isinstance(c, str) else c for c in self.candidates]
            entries = sorted((entry_of(part, k) for part in parts), key=lambda entry: entry.size)
            if not any(type(part) is Identity for part in parts):
                entries = [entry_of(Identity(), k), *entries]
        return allowed(entries, self.preserve)

    def _fit(self, scores: Scores, codes: Ints, weights: Floats) -> None:
        caller = f"{type(self).__name__}.fit"
        scores, codes, weights = settle_rows(scores, codes, weights)
        weights = weights / min(1.0, float(weights.mean()))  # below 1 they are shares, not counts
        rng = check_rng(self.rng, caller)
        most = sample_rows(scores.n, self.n_classes_, rng, fast=self.fast)
        rows = float(weights[most].sum())
        whole = Crossing(self._entries(rows), scores, codes, weights, space=self.space)
        league = Crossing(
            whole.entries, scores.rows(most), codes[most], weights[most], space=self.space, tell=self._tell
        )
        n_folds, repeats = (min(self.cv, 3), 1) if self.fast else (self.cv, n_repeats(rows))
        splits = [deal(league.codes, league.weights, n_folds, rng) for _ in range(repeats)]
        if len(splits[0]) < 2:  # one row: nothing can be held out
            self.best_, self.records_ = whole.fit_all(whole.entries[:1])[0], []
            self.reason_ = "no change: too few rows to hold any out"
            return
        score = as_score(self.criterion, caller)
        held = league.run(splits, whole=not isinstance(score, Log), seconds=self.max_fit_seconds)
        verdict = judge(
            held, league.entries, score, mixture=self.mixture, n_classes=self.n_classes_, rows=rows,
            zeros=self.space == "proba" and bool(scores.zeros()[0]),
        )
        used = np.flatnonzero(verdict.shares)
        members = whole.fit_all([league.entries[i] for i in used])
        if verdict.lift > 0 and used[0] == 0:
            members[0] = _lifted(members[0], verdict.lift)
        self.best_ = members[0] if len(used) == 1 else _mixed(members, verdict.shares[used])
        self.records_, self.reason_ = verdict.records, verdict.reason
        self.seconds_ = {e.name: float(t) for e, t in zip(league.entries, held.seconds, strict=True)}
        self._tell = None

    def _predict(self, x: Floats) -> Floats:
        return self.best_.apply_block(x)

    def _map(self, graph: Graph, x: Node) -> Node:
        return self.best_.describe(graph, x)


def _mixed(members: list[Calibrator], shares: Floats) -> Ensemble:
    """Put fitted members together."""
    first = members[0]
    mixture = Ensemble(weights=shares, space=first.input_space)
    mixture.calibrators_, mixture.weights_ = members, shares
    return _like(mixture, first)


def _lifted(nothing: Calibrator, floor: float) -> TemperatureScaling:
    """Return the input with its exact zeros lifted: temperature 1 above the floor."""
    lifted = TemperatureScaling(floor=floor, space=nothing.input_space)
    lifted.temperature_ = 1.0
    _like(lifted, nothing)
    lifted.floor_, lifted.smallest_ = floor, float(np.finfo(np.float64).tiny)
    return lifted


def _like(calibrator: C, other: Calibrator) -> C:
    """Give a calibrator that was put together what `fit` would have set."""
    calibrator.classes_, calibrator.n_classes_, calibrator.n_features_in_ = (
        other.classes_, other.n_classes_, other.n_classes_
    )
    calibrator.floor_, calibrator.smallest_ = 0.0, 0.0
    return calibrator
