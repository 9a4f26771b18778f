"""The wrapper that joins an ordinary classifier and a calibrator."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, get_tags, indexable
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, _routing_enabled, process_routing
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import (
    _check_method_params,
    _check_sample_weight,
    check_is_fitted,
    column_or_1d,
    has_fit_parameter,
)

from calibrant._typing import Array, ArrayLike, Floats, Space
from calibrant.calibrators import get_calibrator
from calibrant.calibrators._base import Calibrator, UnfittedError
from calibrant.errors import InputError, WeightsWarning, input_error

#: Fewest rows a calibrator of one fold is fitted on, unless they are of two classes.
FEWEST_HELD = 3
_CALLER = "CalibratedClassifier.fit"


class CalibratedClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]  # untyped bases
    """Fit a classifier and a calibrator together, on rows the classifier has not seen.

    The scikit-learn way to calibrated probabilities: takes ordinary features X, keeps every convention
    of a classifier, and never calibrates on training scores.

    Parameters
    ----------
    estimator : classifier, optional
        Any scikit-learn classifier with `predict_proba` or `decision_function`. Default: logistic
        regression. A fitted one comes as ``FrozenEstimator(model)``: all rows given here calibrate it, and they
        must not be its training rows.
    method : str or Calibrator, default "auto"
        Short name of a method ("temperature", "isotonic", …), "auto" (the cross-validated choice), or
        an unfitted calibrator; its space and classes are set here.
    cv : int, splitter or iterable of splits, default 5
        How held-out scores are made.
    ensemble : bool, default False
        False: one calibrator on all out-of-fold scores, and the classifier refitted on all rows
        (cross-fitting). True: one classifier and one calibrator per fold, their forecasts averaged.
    n_jobs : int, optional
        Folds fitted at the same time, as everywhere in scikit-learn.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        Class labels.
    pairs_ : list of (classifier, calibrator)
        What predicts: one pair, or one per fold.
    units_ : list of float
        What the scores of each pair are divided by: the root mean square of decision scores, 1 for probabilities.
    n_features_in_ : int
        Number of features, if the classifier knows it.

    Notes
    -----
    Scores are `predict_proba` if the classifier has it (space "proba"), else `decision_function`, divided by
    the root mean square of its held-out values (space "logit"). A class that a training fold does not hold has
    probability 0 from that fold, and rows of that class take no part in calibrating it. With an integer `cv` the
    number of folds is lowered to the size of the smallest class, if that has at least two rows. Folds that hold out a
    single row cannot be calibrated one by one (``ensemble=True``) and are refused.

    `sample_weight` reaches the classifier and the calibrator; a pipeline hands it to its last step. A classifier that
    takes no weights is fitted without, with a `WeightsWarning`. `groups` goes to the splitter and other parameters of
    `fit` to the classifier, rows with rows. With scikit-learn's metadata routing enabled the requests of estimator and
    splitter decide instead.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = make_classification(n_samples=200, random_state=0)
    >>> model = CalibratedClassifier(GaussianNB(), method="temperature").fit(X, y)
    >>> model.predict_proba(X[:3]).shape
    (3, 2)
    """

    def __init__(
        self,
        estimator: Any = None,
        method: str | Calibrator = "auto",
        cv: Any = 5,
        *,
        ensemble: bool = False,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.cv = cv
        self.ensemble = ensemble
        self.n_jobs = n_jobs

    # -- fit ----------------------------------------------------------------------------------

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
        **fit_params: Any,
    ) -> Self:
        """Fit classifier and calibrator.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features, handed to the classifier as they are.
        y : array-like of shape (n,)
            Class labels.
        sample_weight : array-like of shape (n,), optional
            Row weights for both parts.
        groups : array-like of shape (n,), optional
            Groups of rows for the splitter.
        **fit_params
            Further parameters of the classifier's `fit`; those with one entry per row are split with the rows.
        """
        if y is None:
            raise InputError(
                "y of CalibratedClassifier.fit must hold the labels; got None: it requires y to be "
                "passed, but the target y is None. Hint: pass one label per row."
            )
        X, y, sample_weight = indexable(X, y, sample_weight)
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        weights = None if sample_weight is None else _check_sample_weight(sample_weight, X)
        estimator = self._base()
        frozen = isinstance(estimator, FrozenEstimator)
        if frozen:
            check_is_fitted(estimator)
        self.classes_ = np.asarray(estimator.classes_) if frozen else np.unique(y)
        codes = self._codes(y)
        self.pairs_: list[tuple[Any, Calibrator]] = []
        self.units_: list[float] = []
        if frozen and not self.ensemble:
            scores, space = _scores(estimator, X)
            self._pair(estimator, scores, space, codes, weights)
        else:
            self._fit_folds(X, y, codes, weights, groups, fit_params)
        first = self.pairs_[0][0]
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(first, name):
                setattr(self, name, getattr(first, name))
        return self

    def _base(self) -> Any:
        if self.estimator is not None:
            return self.estimator
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression()

    def _calibrator(self, space: Space) -> Calibrator:
        if isinstance(self.method, str):
            calibrator = get_calibrator(self.method, type(self).__name__)()
        else:
            calibrator = clone(self.method)
        return calibrator.set_params(space=space, classes=None)

    def _codes(self, y: Array) -> Array:
        codes = self._places(y)
        bad = self.classes_[codes] != y
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise input_error(
                "y",
                _CALLER,
                "hold only classes the fitted estimator knows",
                f"{y[row]!r} at row {row}",
                "fit the estimator on all classes",
            )
        return np.asarray(codes)

    def _fit_folds(
        self, X: Any, y: Array, codes: Array, weights: Floats | None, groups: Any, fit_params: dict[str, Any]
    ) -> None:
        if len(self.classes_) < 2:
            raise InputError(
                "y of CalibratedClassifier.fit must hold at least 2 classes; got 1 class, as the classifier can't "
                "train when only one class is present. Hint: check the labels."
            )
        params, split_params = self._routed(weights, groups, fit_params)
        splitter = check_cv(self._folds(codes), y, classifier=True)
        splits = list(splitter.split(X, y, **split_params))
        if self.ensemble:
            self._check_folds(splitter, splits, codes)
        base = self._base()

        def train(part: Array, held: Array) -> tuple[Any, Array, Space]:
            inner = _check_method_params(X, params, indices=part)
            model = clone(base).fit(_safe_indexing(X, part), y[part], **inner)
            return model, *_scores(model, _safe_indexing(X, held))

        folds = Parallel(n_jobs=self.n_jobs)(delayed(train)(part, held) for part, held in splits)
        if self.ensemble:
            for (model, scores, space), (_, held) in zip(folds, splits, strict=True):
                self._pair(model, scores, space, codes[held], None if weights is None else weights[held])
            return
        space = folds[0][2]
        wide, kept = [], []
        for (model, scores, _), (_, held) in zip(folds, splits, strict=True):
            known = self._known(model)
            usable = np.isin(codes[held], known)  # a class the model never met says nothing about its scores
            wide.append(_widen(scores, space, known, len(self.classes_))[usable])
            kept.append(held[usable])
        rows = np.concatenate(kept)
        last = clone(base).fit(X, y, **params)
        self._pair(last, np.concatenate(wide), space, codes[rows], None if weights is None else weights[rows])

    def _pair(self, model: Any, scores: Array, space: Space, codes: Array, weights: Floats | None) -> None:
        """Fit the calibrator of one classifier on its held-out scores, over the classes the classifier knows."""
        known = self._known(model)
        usable = np.isin(codes, known)
        if not usable.any() or len(known) < 2:
            rule = "leave two classes in every training fold, and rows of those classes held out"
            raise input_error("cv", _CALLER, rule, "a fold without", "use a stratified splitter with fewer folds")
        unit = _unit(scores[usable], None if weights is None else weights[usable]) if space == "logit" else 1.0
        calibrator = self._calibrator(space)
        calibrator.fit(
            scores[usable] / unit if unit != 1 else scores[usable],
            np.searchsorted(known, codes[usable]),
            sample_weight=None if weights is None else weights[usable],
        )
        self.pairs_.append((model, calibrator))
        self.units_.append(unit)

    def _known(self, model: Any) -> Array:
        """Return the columns of the classes a fitted classifier knows."""
        return self._places(model.classes_)

    def _places(self, labels: Any) -> Array:
        """Return where labels stand in `classes_`, which a fitted classifier may have in any order."""
        order = np.argsort(self.classes_)
        found = np.searchsorted(self.classes_, labels, sorter=order)
        return np.asarray(order[np.minimum(found, len(order) - 1)])

    def _folds(self, codes: Array) -> Any:
        if not isinstance(self.cv, int) or isinstance(self.cv, bool):
            return self.cv
        if not 2 <= self.cv <= len(codes):
            rule = f"be between 2 and the number of rows, {len(codes)}; or a splitter"
            raise input_error("cv", _CALLER, rule, repr(self.cv), "use 5")
        smallest = int(np.bincount(codes)[np.unique(codes)].min())
        return min(self.cv, max(smallest, 2))

    def _check_folds(self, splitter: Any, splits: list[tuple[Array, Array]], codes: Array) -> None:
        """Refuse folds that hold out too little for a calibrator of their own."""
        n_folds = len(splits)
        if hasattr(self.cv, "n_splits") and int(np.bincount(codes)[np.unique(codes)].min()) < n_folds:
            raise input_error(
                "cv",
                _CALLER,
                "have no more folds than the smallest class has rows when ensemble=True",
                f"Requesting {n_folds}-fold cross-validation with fewer than {n_folds} rows of a class",
                "use ensemble=False, or fewer folds",
            )
        name = type(splitter).__name__
        held = [codes[part] for _, part in splits if len(part) < FEWEST_HELD]
        if any(len(np.unique(part)) < 2 for part in held):
            raise input_error(
                "cv",
                _CALLER,
                f"hold out at least {FEWEST_HELD} rows, or two of different classes, in every fold when ensemble=True",
                f"{min(map(len, held))}: {name} cross-validation does not allow all classes to be present in a fold",
                "use ensemble=False, or a splitter with fewer folds",
            )

    # -- metadata -----------------------------------------------------------------------------

    def _routed(
        self, weights: Floats | None, groups: Any, fit_params: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return what `fit` of the classifier and `split` of the splitter receive."""
        name = None
        if weights is not None and not isinstance(self.estimator, FrozenEstimator):
            name = _weight_name(self._base())
            if name is None:
                kind = type(self._base()).__name__
                message = f"sample_weight reaches the calibrator alone: fit of {kind} takes no weights."
                warnings.warn(message, WeightsWarning, stacklevel=4)
        if _routing_enabled():
            given = {"groups": groups} if groups is not None else {}
            routed = process_routing(self, "fit", sample_weight=weights, **given, **fit_params)
            return dict(routed.estimator.fit), dict(routed.splitter.split)
        params = dict(fit_params) if name is None else {**fit_params, name: weights}
        return params, {} if groups is None else {"groups": groups}

    def get_metadata_routing(self) -> MetadataRouter:
        """Return the router of scikit-learn: the own request, the estimator's `fit` and the splitter's `split`."""
        mapping = MethodMapping().add(caller="fit", callee="fit")
        splits = MethodMapping().add(caller="fit", callee="split")
        splitter = self.cv if hasattr(self.cv, "split") else None
        return (
            MetadataRouter(owner=self)
            .add_self_request(self)
            .add(estimator=self._base(), method_mapping=mapping)
            .add(splitter=splitter, method_mapping=splits)
        )

    # -- predict ------------------------------------------------------------------------------

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return calibrated probabilities of shape (n, K)."""
        if not hasattr(self, "pairs_"):
            raise UnfittedError("CalibratedClassifier.predict_proba needs a fitted model. Hint: call fit(X, y) first.")
        total: Any = 0.0
        for number in range(len(self.pairs_)):
            total = total + self._predict_pair(number, X)
        return np.asarray(total / len(self.pairs_))

    def _predict_pair(self, number: int, X: ArrayLike) -> Floats:
        """Return the probabilities of one classifier and its calibrator, 0 for classes it does not know."""
        model, calibrator = self.pairs_[number]
        unit = self.units_[number]
        scores = _scores(model, X)[0]
        p: Floats = calibrator.predict_proba(scores / unit if unit != 1 else scores)
        return _widen(p, "proba", self._known(model), len(self.classes_))

    def predict(self, X: ArrayLike) -> Any:
        """Return the most probable class of each row."""
        if not hasattr(self, "pairs_"):
            raise UnfittedError("CalibratedClassifier.predict needs a fitted model. Hint: call fit(X, y) first.")
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "pairs_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self._base())
        tags.input_tags.sparse = inner.input_tags.sparse
        tags.input_tags.allow_nan = inner.input_tags.allow_nan
        return tags


def _weight_name(estimator: Any) -> str | None:
    """Return the parameter of `fit` that takes weights; None if there is none."""
    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        inner = _weight_name(last)
        return None if inner is None else f"{name}__{inner}"
    return "sample_weight" if has_fit_parameter(estimator, "sample_weight") else None


def _scores(estimator: Any, X: Any) -> tuple[Array, Space]:
    """Return the scores of a fitted classifier, one column per class it knows, and their space."""
    if hasattr(estimator, "predict_proba"):
        return np.asarray(estimator.predict_proba(X)), "proba"
    scores = np.asarray(estimator.decision_function(X))
    if scores.ndim == 1:
        scores = np.stack([np.zeros_like(scores), scores], axis=1)
    return scores, "logit"


def _unit(scores: Array, weights: Floats | None) -> float:
    """Return the root mean square of decision scores around the mean of their row; 1 if they do not differ."""
    wide = scores.astype(np.float64)
    largest = float(np.abs(wide).max()) if wide.size else 0.0
    if not 0 < largest < np.inf:
        return 1.0
    wide = wide / largest  # squares of very large scores overflow
    spread = np.mean((wide - wide.mean(axis=1, keepdims=True)) ** 2, axis=1)
    shares = np.ones(len(wide)) if weights is None or not weights.any() else weights / weights.max()
    size = float(np.sqrt(shares @ spread / shares.sum()))
    return largest * size if largest * size > 0 else 1.0


def _widen(scores: Array, space: Space, known: Array, n_classes: int) -> Array:
    """Give scores of known classes a column for every class: probability 0, or far below the others."""
    if len(known) == n_classes:
        return scores
    absent = 0.0 if space == "proba" or not scores.size else float(scores.min()) - 10.0
    wide = np.full((len(scores), n_classes), absent)
    wide[:, known] = scores
    return wide
