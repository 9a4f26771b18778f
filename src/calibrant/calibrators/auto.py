"""The automatic method: methods compared by cross-validation, a mixture of the best, a guard against doing harm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeVar

import numpy as np
from sklearn.base import clone

from calibrant._typing import RNG, ArrayLike, Floats, Ints, Space
from calibrant.calibrators import get_calibrator
from calibrant.calibrators._base import Calibrator
from calibrant.calibrators._choice import Z, judge
from calibrant.calibrators._common import fact
from calibrant.calibrators._crossfit import (
    Crossing,
    Entry,
    allowed,
    deal,
    default_entries,
    entry_of,
    n_repeats,
    name_apart,
    sample_rows,
    settle_rows,
)
from calibrant.calibrators._scores import Scores, View
from calibrant.calibrators.ensemble import Ensemble
from calibrant.calibrators.identity import Identity
from calibrant.calibrators.temperature import TemperatureScaling
from calibrant.core.options import check_count, check_rng
from calibrant.core.programs import Graph, Node
from calibrant.errors import input_error
from calibrant.scores.rules import Log, ProperScore, as_score

if TYPE_CHECKING:
    import polars as pl

C = TypeVar("C", bound=Calibrator)


class AutoCalibrator(Calibrator):
    """Try many methods on held-out rows and ship a mixture of the best, never one worse than the uncalibrated forecast.

    Every candidate, the uncalibrated forecast among them, forecasts rows it was not fitted on. The final map is a
    cross-validated mixture of the candidates, drawn towards the uncalibrated forecast as far as the gain is within
    noise. It explains itself in ``cv_results_`` and ``reason_``.

    Parameters
    ----------
    criterion : {"nll", "brier", "spherical", "rps"} or ProperScore, default "nll"
        Proper score that decides.
    preserve : {"argmax", "order"}, optional
        Use only methods that keep the predicted class, or the ranking of all classes.
    candidates : sequence of short names or calibrators, optional
        The field; the uncalibrated forecast always takes part. Default: the methods that earned their place, see Notes.
    mixture : bool, default True
        False ships one method: the simplest within one standard error of the best.
    proof : bool, default False
        True ships a mixture only when its gain is proven: 3 nats of held-out log-likelihood in all (twenty to one), or
        a 95% interval above 0 for other scores. False ships the share that a smaller gain speaks for: better on
        average over many data sets, but some of the changes do nothing. `calibrant.fit` asks for proof.
    cv : int, default 5
        Folds; drawn twice below 2,000 rows.
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
    cv_results_ : polars.DataFrame
        One row per candidate, best first: held-out score, gain over the uncalibrated forecast with its standard error
        and 95% interval, whether it preserves the top-1 class, its weight in the shipped map, seconds (not saved).
    reason_ : str
        The choice in one sentence.
    gain_ : pair of float
        What the sentence claims: gain of the shipped map, shrinkage included, over the uncalibrated forecast on rows
        that neither members nor weights have seen, less the luck of being chosen and times the evidence for it, and its
        standard error (not saved). Where the 95% interval reaches 0 the sentence says that it may be nothing.

    Notes
    -----
    Default field: identity, temperature, ensemble temperature, order-preserving, vector, beta, structured matrix,
    multiclass isotonic, Platt and Venn–Abers with two classes, smoothed isotonic from 1,000 rows on and, up to 30
    classes, Dirichlet with a penalty worth 5 rows. The weights of the mixture minimize the score of out-of-fold
    forecasts [3]_ with a pull, worth 20 rows, towards structured matrix (0.4), order-preserving (0.25), Platt (0.15),
    identity (0.15) and the rest, so that few rows do not choose at random. The mixture is then scored on rows that
    neither members nor weights have seen (where folds are drawn twice, weights have met them in the other draw:
    about 0.2 nats). With e nats of log-likelihood over the uncalibrated forecast, a pseudo-Bayes factor [4]_, it
    gets the weight 1/(1 + exp((3 − e)/2)) and the input the rest; nothing changes below a fifth. For
    other scores, with gain g and standard error s, the weight is 1 − (0.8·s/g)² (positive-part shrinkage) and all of it
    from g = 4s on. Where the input holds exact zeros, the input with its zeros lifted takes its place: by the likeliest
    uniform weight if one of them was the truth, else by a weight that costs 0.02 nats over all rows.
    Without mixture the one-standard-error rule decides [2]_: the simplest method whose paired difference to the best
    is within noise. The floor under exact zeros is fitted once per fold and shared; where no zero came true it
    expects half an event, and it is at most one half.
    Probabilities of the truth count as at least 1e-15 in the score. At most 2 million scores (or 2,000 rows) take part
    in the comparison; the final map is fitted on all rows.

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
    >>> y = (rng.uniform(size=400) < 0.25 + 0.5 * p).astype(int)  # overconfident
    >>> cal = AutoCalibrator(fast=True).fit(p, y)
    >>> bool(cal.predict_proba([0.02])[0, 1] > 0.1), cal.cv_results_.columns[:3]
    (True, ['method', 'cv_score', 'gain'])
    """

    short_name = "auto"
    title = "Automatic choice"
    paper = "Zhang, Kailkhura & Han (2020), Mix-n-Match, ICML, appendix G; Wolpert (1992), Stacked generalization"
    when = (
        "When you want the best probabilities without choosing: it tries many methods on held-out rows and says "
        "what it found. Not when the map must have few parameters; then name one method."
    )
    preserves_argmax = fact(False, lambda self: hasattr(self, "best_") and self.best_.preserves_argmax)
    preserves_order = fact(False, lambda self: hasattr(self, "best_") and self.best_.preserves_order)
    may_saturate = True
    view: ClassVar[View] = "raw"
    free_parameters: ClassVar[float] = float("inf")  # a member may grow with the rows
    state: ClassVar[tuple[str, ...]] = ("best_", "records_", "reason_")

    best_: Calibrator
    records_: list[dict[str, Any]]
    reason_: str
    _progress: Callable[[int, int], None] | None = None

    def __init__(
        self,
        criterion: str | ProperScore = "nll",
        *,
        preserve: Literal["argmax", "order"] | None = None,
        candidates: Sequence[str | Calibrator] | None = None,
        mixture: bool = True,
        proof: bool = False,
        cv: int = 5,
        fast: bool = False,
        rng: RNG = 0,
        space: Space = "proba",
        classes: ArrayLike | None = None,
    ) -> None:
        self.criterion = criterion
        self.preserve = preserve
        self.candidates = candidates
        self.mixture = mixture
        self.proof = proof
        self.cv = cv
        self.fast = fast
        self.rng = rng
        self.space = space
        self.classes = classes

    @property
    def can_export(self) -> bool:
        """Whether the shipped map can run elsewhere."""
        return self.best_.can_export

    @property
    def cv_results_(self) -> pl.DataFrame:
        """The methods compared by cross-validation, best first."""
        import polars as pl

        seconds = getattr(self, "seconds_", {})
        rows = [{**row, "fit_seconds": seconds.get(row["method"])} for row in self.records_]
        return pl.DataFrame(rows, infer_schema_length=None, schema_overrides={"fit_seconds": pl.Float64})

    def on_progress(self, progress: Callable[[int, int], None] | None) -> Self:
        """Call `progress(done, total)` after every fit of the next `fit`; returns self."""
        self._progress = progress
        return self

    def _check_options(self, caller: str) -> None:
        super()._check_options(caller)
        as_score(self.criterion, caller)
        word = self.preserve if isinstance(self.preserve, str) else ""
        if self.preserve is not None and word not in ("argmax", "order"):
            raise input_error("preserve", caller, "be 'argmax', 'order' or None", repr(self.preserve), "leave it out")
        check_count(self.cv, "cv", caller, 2, "5")
        named: Any = self.candidates
        parts = isinstance(named, list | tuple) and all(isinstance(part, str | Calibrator) for part in named)
        if named is not None and not parts:
            rule, hint = "be short names or calibrators", "pass ['temperature', 'beta']"
            raise input_error("candidates", caller, rule, repr(self.candidates), hint)

    # -- fit ----------------------------------------------------------------------------------

    def _entries(self, rows: float) -> list[Entry]:
        k = self.n_classes_
        if self.candidates is None:
            entries = default_entries(k, rows, fast=self.fast)
        else:
            parts = [get_calibrator(c)() if isinstance(c, str) else c for c in self.candidates]
            named = {name: entry_of(part, k, name) for name, part in zip(name_apart(parts), parts, strict=True)}
            entries = sorted(named.values(), key=lambda entry: entry.size)
            if not any(type(part) is Identity for part in parts):
                entries = [entry_of(Identity(), k), *entries]
        return allowed(entries, self.preserve)

    def _fit(self, scores: Scores, codes: Ints, weights: Floats) -> None:
        caller = f"{type(self).__name__}.fit"
        scores, codes, weights = settle_rows(scores, codes, weights)
        rng = check_rng(self.rng, caller)
        most = sample_rows(scores.n, self.n_classes_, rng, fast=self.fast)
        rows = float(weights[most].sum())
        whole = Crossing(self._entries(rows), scores, codes, weights, space=self.space)
        compared = Crossing(
            whole.entries, scores.rows(most), codes[most], weights[most], space=self.space, progress=self._progress
        )
        n_folds, repeats = (min(self.cv, 3), 1) if self.fast else (self.cv, n_repeats(rows))
        splits = [deal(compared.codes, compared.weights, n_folds, rng) for _ in range(repeats)]
        if len(splits[0]) < 2:  # one row: nothing can be held out
            self.best_, self.records_ = whole.fit_all(whole.entries[:1])[0], []
            self.reason_ = "no change: too few rows to hold any out"
            return
        score = as_score(self.criterion, caller)
        held = compared.run(splits, whole=not isinstance(score, Log))
        verdict = judge(
            held,
            compared.entries,
            score,
            mixture=self.mixture,
            proof=self.proof,
            n_classes=self.n_classes_,
            rows=rows,
            zeros=self.space == "proba" and bool(scores.zeros()[0]),
        )
        used = np.flatnonzero(verdict.shares)
        members = whole.fit_all([compared.entries[i] for i in used])
        if verdict.lift > 0 and used[0] == 0:
            members[0] = _lifted(members[0], verdict.lift)
        self.best_ = members[0] if len(used) == 1 else _mixed(members, verdict.shares[used])
        self.records_, self.reason_, self.gain_ = verdict.records, verdict.reason, verdict.gain
        gain, error = verdict.gain
        self.fitted_on_ = (self.fitted_on_ or {}) | {
            "gain": {"criterion": score.name, "gain": gain, "low": gain - Z * error, "high": gain + Z * error}
        }
        self.seconds_ = {e.name: float(t) for e, t in zip(compared.entries, held.seconds, strict=True)}
        self._progress = None

    def _predict(self, x: Floats) -> Floats:
        return self.best_.apply_block(x)

    def _map(self, graph: Graph, x: Node) -> Node:
        return self.best_.describe(graph, x)


def _mixed(members: list[Calibrator], shares: Floats) -> Ensemble:
    """Put fitted members together."""
    first = members[0]
    mixture = Ensemble([clone(member) for member in members], weights=shares, space=first.input_space)
    mixture.calibrators_, mixture.weights_ = members, shares
    return _like(mixture, first)


def _lifted(nothing: Calibrator, floor: float) -> TemperatureScaling:
    """Return the input with its exact zeros lifted: temperature 1 above the floor."""
    floor = min(floor, 1.0 - 1e-9)  # all of it: the uniform distribution
    lifted = TemperatureScaling(floor=floor, space=nothing.input_space)
    lifted.temperature_ = 1.0
    _like(lifted, nothing)
    lifted.floor_, lifted.smallest_ = floor, float(np.finfo(np.float64).tiny)
    return lifted


def _like(calibrator: C, other: Calibrator) -> C:
    """Give a calibrator that was put together what `fit` would have set."""
    calibrator.classes_ = other.classes_
    calibrator.n_classes_ = calibrator.n_features_in_ = other.n_classes_
    calibrator.floor_ = calibrator.smallest_ = 0.0
    return calibrator
