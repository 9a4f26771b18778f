"""The wrapper that joins an ordinary classifier and a calibrator."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing, get_tags, indexable
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, column_or_1d, has_fit_parameter

from calibrant._typing import Array, ArrayLike, Floats, Space
from calibrant.calibrators._base import Calibrator, UnfittedError
from calibrant.errors import InputError, input_error


class CalibratedClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]  # untyped bases
    """Fit a classifier and a calibrator together, on rows the classifier has not seen.

    The scikit-learn way to calibrated probabilities: takes ordinary features X, keeps every convention
    of a classifier, and never calibrates on training scores.

    Parameters
    ----------
    estimator : classifier, optional
        Any scikit-learn classifier with `predict_proba` or `decision_function`. Default: logistic
        regression.
    method : str or Calibrator, default "auto"
        Short name of a method ("temperature", "isotonic", …), "auto" (the cross-validated choice), or
        an unfitted calibrator; its space and classes are set here.
    cv : int, splitter, iterable or "prefit", default 5
        How held-out scores are made. "prefit": the estimator is fitted already and all rows given here
        calibrate it; they must not be its training rows.
    ensemble : bool, default False
        False: one calibrator on all out-of-fold scores, and the classifier refitted on all rows
        (cross-fitting). True: one classifier and one calibrator per fold, their forecasts averaged.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        Class labels.
    pairs_ : list of (classifier, calibrator)
        What predicts: one pair, or one per fold.
    n_features_in_ : int
        Number of features, if the classifier knows it.

    Notes
    -----
    Scores are `predict_proba` if the classifier has it (space "proba"), else `decision_function`
    (space "logit"). A class missing from a training fold gets probability 0 there. With an integer
    `cv` the number of folds is lowered to the size of the smallest class, if that has at least two
    rows. `sample_weight` reaches the classifier (if it takes weights) and the calibrator.

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
        self, estimator: Any = None, method: str | Calibrator = "auto", cv: Any = 5, *, ensemble: bool = False
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.cv = cv
        self.ensemble = ensemble

    # -- fit ----------------------------------------------------------------------------------

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit classifier and calibrator.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features, handed to the classifier as they are.
        y : array-like of shape (n,)
            Class labels.
        sample_weight : array-like of shape (n,), optional
            Row weights for both parts.
        """
        if y is None:
            raise InputError("y of CalibratedClassifier.fit must hold the labels; got None: it requires y to be "
                             "passed, but the target y is None. Hint: pass one label per row.")
        X, y, sample_weight = indexable(X, y, sample_weight)
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        weights = None if sample_weight is None else _check_sample_weight(sample_weight, X)
        if isinstance(self.cv, str) and self.cv == "prefit":
            self._fit_prefit(X, y, weights)
        else:
            self._fit_folds(X, y, weights)
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
            from calibrant.calibrators import by_short_name

            calibrator = by_short_name(self.method, type(self).__name__)()
        else:
            calibrator = clone(self.method)
        return calibrator.set_params(space=space, classes=None)

    def _fit_prefit(self, X: Any, y: Array, weights: Floats | None) -> None:
        estimator = self._base()
        check_is_fitted(estimator)
        self.classes_ = np.asarray(estimator.classes_)
        scores, space = _scores(estimator, X, self.classes_)
        calibrator = self._calibrator(space).fit(scores, self._codes(y), sample_weight=weights)
        self.pairs_ = [(estimator, calibrator)]

    def _codes(self, y: Array) -> Array:
        codes = np.searchsorted(self.classes_, y)
        bad = np.take(self.classes_, codes, mode="clip") != y
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise input_error(
                "y", "CalibratedClassifier.fit", "hold only classes the fitted estimator knows",
                f"{y[row]!r} at row {row}", "fit the estimator on all classes",
            )
        return np.asarray(codes)

    def _fit_folds(self, X: Any, y: Array, weights: Floats | None) -> None:
        self.classes_ = np.unique(y)
        if len(self.classes_) < 2:
            raise InputError(
                "y of CalibratedClassifier.fit must hold at least 2 classes; got 1 class, as the classifier can't "
                "train when only one class is present. Hint: check the labels."
            )
        codes = self._codes(y)
        splits = list(check_cv(self._folds(codes), y, classifier=True).split(X, y))
        if self.ensemble:
            self.pairs_ = []
            for train, held in splits:
                model, scores, space = self._train(X, y, weights, train, held)
                part = None if weights is None else weights[held]
                self.pairs_.append((model, self._calibrator(space).fit(scores, codes[held], sample_weight=part)))
            return
        held_rows, held_scores, space = [], [], "proba"
        for train, held in splits:
            _, scores, space = self._train(X, y, weights, train, held)
            held_rows.append(held)
            held_scores.append(scores)
        rows = np.concatenate(held_rows)
        part = None if weights is None else weights[rows]
        calibrator = self._calibrator(space).fit(np.concatenate(held_scores), codes[rows], sample_weight=part)
        self.pairs_ = [(_fit_estimator(clone(self._base()), X, y, weights), calibrator)]

    def _folds(self, codes: Array) -> Any:
        if not isinstance(self.cv, int) or isinstance(self.cv, bool):
            return self.cv
        if self.cv < 2:
            raise input_error(
                "cv", "CalibratedClassifier.fit", "be at least 2, a splitter or 'prefit'", repr(self.cv), "use 5"
            )
        smallest = int(np.bincount(codes).min())
        return min(self.cv, max(smallest, 2))

    def _train(self, X: Any, y: Array, weights: Floats | None, train: Array, held: Array) -> tuple[Any, Array, Space]:
        part = None if weights is None else weights[train]
        model = _fit_estimator(clone(self._base()), _safe_indexing(X, train), y[train], part)
        scores, space = _scores(model, _safe_indexing(X, held), self.classes_)
        return model, scores, space

    # -- predict ------------------------------------------------------------------------------

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return calibrated probabilities of shape (n, K)."""
        if not hasattr(self, "pairs_"):
            raise UnfittedError("CalibratedClassifier.predict_proba needs a fitted model. Hint: call fit(X, y) first.")
        total: Any = 0.0
        for model, calibrator in self.pairs_:
            total = total + calibrator.predict_proba(_scores(model, X, self.classes_)[0])
        return np.asarray(total / len(self.pairs_))

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


def _fit_estimator(estimator: Any, X: Any, y: Array, weights: Floats | None) -> Any:
    if weights is not None and has_fit_parameter(estimator, "sample_weight"):
        return estimator.fit(X, y, sample_weight=weights)
    return estimator.fit(X, y)


def _scores(estimator: Any, X: Any, classes: Array) -> tuple[Array, Space]:
    """Return the scores of a fitted classifier with one column per class (binary log-odds as one column)."""
    if hasattr(estimator, "predict_proba"):
        scores, space, absent = np.asarray(estimator.predict_proba(X)), "proba", 0.0
    else:
        scores, space = np.asarray(estimator.decision_function(X)), "logit"
        absent = float(scores.min()) - 10.0 if scores.size else 0.0
    if scores.ndim == 1 and len(estimator.classes_) == 2:
        scores = np.stack([np.zeros_like(scores), scores], axis=1)
    if len(estimator.classes_) != len(classes):
        wide = np.full((len(scores), len(classes)), absent)
        wide[:, np.searchsorted(classes, estimator.classes_)] = scores
        scores = wide
    return scores, space  # type: ignore[return-value]  # space is one of two words
