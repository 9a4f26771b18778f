"""The contract every calibrator keeps: scikit-learn's conventions, declared properties, one door."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError as SklearnNotFittedError

from calibrant._typing import ArrayLike, Floats, Ints, Space
from calibrant.calibrators._program import Graph, Node, Program
from calibrant.calibrators._scores import Scores, View, check_fit, check_scores
from calibrant.core.parallel import map_chunks
from calibrant.errors import FileError, NotFittedError, input_error

if TYPE_CHECKING:
    import torch

#: Type of the option `floor` of every method that takes a logarithm.
Floor = float | Literal["fit"] | None


class UnfittedError(NotFittedError, SklearnNotFittedError):  # type: ignore[misc]  # scikit-learn has no types
    """Raised before `fit`: ours, and the one scikit-learn's tools look for."""


class Calibrator(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Base of every method: `fit(X, y)` on a calibration set, `predict_proba(X)` on new scores.

    A subclass declares the facts below, writes ``__init__`` with keyword options (always `space` and
    `classes`, and `floor` if its view takes logarithms), `_fit`, and either `_map` (the fitted map as a
    graph: prediction, ONNX, torch and JSON follow) or `_predict` (NumPy only, then ``exports = ()``).

    Notes
    -----
    `_fit(scores, codes, weights)` receives checked `Scores` (``scores.values()`` or
    ``scores.block(rows)`` in the view named by `view`), class codes 0 … K−1 and positive float64
    weights; it sets the attributes named in `state`. Rows of weight 0 are already gone. The number of
    classes is ``self.n_classes_``. A class may be absent from the codes.
    """

    short_name: ClassVar[str]
    title: ClassVar[str]
    paper: ClassVar[str]
    #: Plain words: when to use it and when not.
    when: ClassVar[str]
    preserves_argmax: ClassVar[bool] = False
    preserves_order: ClassVar[bool] = False
    injective: ClassVar[bool] = False
    #: Whether it can give exact 0 or 1.
    may_saturate: ClassVar[bool] = False
    default_loss: ClassVar[str] = "nll"
    exports: ClassVar[tuple[str, ...]] = ("onnx", "torch", "json")
    #: What `_fit`, `_predict` and `_map` work on.
    view: ClassVar[View] = "proba"
    #: Fitted attributes that make the map (numbers, arrays, strings, lists, dicts, calibrators).
    state: ClassVar[tuple[str, ...]] = ()
    #: Options that take one of a few words: option -> words.
    choices: ClassVar[dict[str, tuple[str, ...]]] = {}

    space: Space
    classes: ArrayLike | None
    classes_: Any
    n_classes_: int
    floor_: float
    smallest_: float

    @classmethod
    def n_parameters(cls, n_classes: int) -> float:
        """Free numbers of the map with default options; inf when it grows with the rows."""
        raise NotImplementedError

    # -- what a subclass writes ---------------------------------------------------------------

    def _fit(self, scores: Scores, codes: Ints, weights: Floats) -> None:
        raise NotImplementedError

    def _map(self, graph: Graph, x: Node) -> Node:
        """Write the fitted map from `x` (in the view) to probabilities; rows are normalised after it."""
        raise NotImplementedError

    def _predict(self, x: Floats) -> Floats:
        """Map one block (rows, K) in the view to probabilities; must not change `x`."""
        graph = Graph()
        return graph.program(self._map(graph, graph.x)).run(x)

    def _fit_at_floor(self, scores: Scores, codes: Ints, weights: Floats) -> None:
        """Fit while the floor is searched; override when `_fit` is dear (cross-validation inside)."""
        self._fit(scores, codes, weights)

    # -- public -------------------------------------------------------------------------------

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit on a calibration set.

        Parameters
        ----------
        X : array-like of shape (n, K) or (n,)
            Scores of the model on rows it was not trained on: probabilities, or logits with
            ``space="logit"``. One column means class 1 of two (its probability or log-odds).
        y : array-like of shape (n,)
            Column indices 0 … K−1, or labels with the option `classes`.
        sample_weight : array-like of shape (n,), optional
            Integer weights equal repeated rows.

        Returns
        -------
        self
        """
        caller = f"{type(self).__name__}.fit"
        self._check_options(caller)
        scores, codes, weights, names = check_fit(
            X, y, sample_weight, classes=self.classes, space=self.input_space, view=self.view, caller=caller
        )
        self.n_classes_ = scores.n_classes
        self.n_features_in_ = scores.n_classes
        self.classes_ = np.arange(scores.n_classes) if names is None else np.asarray(names)
        scores = self._settle_floor(scores, codes, weights, caller)
        self._fit(scores, codes, weights)
        return self

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return calibrated probabilities, float64 of shape (n, K); each row sums to 1.

        Parameters
        ----------
        X : array-like of shape (n, K) or (n,)
            Scores in the same space and column order as in `fit`.
        """
        caller = f"{type(self).__name__}.predict_proba"
        self._check_fitted(caller)
        scores = check_scores(X, space=self.input_space, view="raw", caller=caller, n_classes=self.n_classes_)
        out = np.empty((scores.n, scores.n_classes))

        def visit(rows: slice) -> None:
            out[rows] = self.apply_block(scores.block(rows))

        for _ in map_chunks(visit, scores.chunks()):
            pass
        return out

    def apply_block(self, raw: Floats) -> Floats:
        """Map one checked float64 block (rows, K) in the input space to normalised probabilities."""
        scores = Scores(raw, self.input_space, self.view, floor=self.floor_, smallest=self.smallest_)
        block = self._predict(scores.block(slice(0, len(raw))))
        return np.asarray(block / block.sum(axis=1, keepdims=True))

    @property
    def input_space(self) -> Space:
        """What X holds; a composite may take it from its first part."""
        return self.space

    @property
    def can_export(self) -> bool:
        """Whether this very calibrator has a map other runtimes can run."""
        return bool(self.exports)

    def predict(self, X: ArrayLike) -> Any:
        """Return the most probable class of each row (lowest index on ties)."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def save(self, path: str | Path) -> None:
        """Write the fitted calibrator as JSON (arrays in full precision, checksum, schema number)."""
        from calibrant.calibrators._artifact import save

        self._check_fitted(f"{type(self).__name__}.save")
        save(self, path)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Load a calibrator of this class written by `save` (`calibrant.load` takes any)."""
        from calibrant.calibrators._artifact import load

        found = load(path)
        if not isinstance(found, cls):
            raise FileError(f"{path} holds a {type(found).__name__}, not a {cls.__name__}. Hint: use calibrant.load.")
        return found

    def to_onnx(self, path: str | Path | None = None) -> bytes:
        """Return the map as a serialised ONNX model (float64 in and out); also write it to `path`.

        The model is compared with `predict_proba` to 1e-6 before it is returned.
        """
        from calibrant.calibrators._export import to_onnx

        return to_onnx(self, path)

    def to_torch(self) -> torch.nn.Module:
        """Return the map as a torch module with the same numbers in float64, checked to 1e-6."""
        from calibrant.calibrators._export import to_torch

        return to_torch(self)

    def program(self) -> Program:
        """Return the whole map, from the scores given to `predict_proba` to normalised rows, as plain steps."""
        self._check_fitted(f"{type(self).__name__}.program")
        if not self.can_export:
            raise input_error(
                "calibrator", "export", "have a map that other runtimes can run", type(self).__name__,
                "save() keeps it for calibrant.load; export another method",
            )
        graph = Graph()
        return graph.program(self.describe(graph, graph.x))

    def describe(self, graph: Graph, x: Node) -> Node:
        """Write the map of raw scores (in `space`) into a graph: view, floor, map, normalisation."""
        if self.input_space == "logit":
            if self.view in ("proba", "log"):
                x = graph.softmax(x) if self.view == "proba" else graph.log_softmax(x)
        elif self.view in ("log", "logit"):
            if self.floor_ > 0:
                x = (1 - self.floor_) * x + self.floor_ / self.n_classes_
            else:
                least = -graph.max(-graph.where(x > 0.0, x, np.inf))
                x = graph.where(x > 0.0, x, graph.minimum(least, self.smallest_))
            x = graph.log(x)
        return graph.normalise(self._map(graph, x))

    # -- shared machinery ---------------------------------------------------------------------

    def _check_options(self, caller: str) -> None:
        from calibrant.core.inputs import check_names

        for option, words in self.choices.items():
            check_names(getattr(self, option), words, option, caller)
        floor = getattr(self, "floor", None)
        number = isinstance(floor, int | float) and not isinstance(floor, bool) and 0 < floor < 1
        if not (floor is None or floor == "fit" or number):
            raise input_error(
                "floor", caller, "be 'fit', None or a number between 0 and 1", repr(floor), "leave it at 'fit'"
            )

    def _check_fitted(self, caller: str) -> None:
        if not hasattr(self, "classes_"):
            raise UnfittedError(f"{caller} needs a fitted calibrator. Hint: call fit(X, y) first.")

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "classes_")

    def _settle_floor(self, scores: Scores, codes: Ints, weights: Floats, caller: str) -> Scores:
        """Decide what exact zeros mean before a logarithm: see *Exact zeros* in the guide."""
        self.floor_, self.smallest_ = 0.0, 0.0
        if self.view in ("proba", "raw") or self.input_space == "logit":
            return scores
        if not hasattr(self, "floor"):  # a method with a uniform member of its own
            self.smallest_ = float(np.finfo(np.float64).tiny)
            return scores.with_floor(0.0, self.smallest_)
        found, self.smallest_ = scores.zeros()
        if found:
            floor = self.floor
            if floor is None:
                raise input_error(
                    "X", caller, "hold no exact zeros when floor=None", "a zero", "use floor='fit' or give a number"
                )
            if floor == "fit":
                from calibrant.calibrators._floor import search_floor

                self.floor_ = search_floor(self, scores, codes, weights)
            else:
                self.floor_ = float(floor)
        return scores.with_floor(self.floor_, self.smallest_)
