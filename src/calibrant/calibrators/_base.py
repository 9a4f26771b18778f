"""The contract of calibrators of class probabilities: scikit-learn's conventions, declared facts, checked input."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from sklearn.base import ClassifierMixin

from calibrant._typing import ArrayLike, Floats, Ints, Space
from calibrant.calibrators import _artifact
from calibrant.calibrators._common import BaseCalibrator, UnfittedError
from calibrant.calibrators._export import to_onnx, to_torch
from calibrant.calibrators._floor import search_floor
from calibrant.calibrators._logistic import log_odds_node
from calibrant.calibrators._scores import Scores, View, check_fit, check_scores
from calibrant.calibrators._sql import to_sql
from calibrant.calibrators.application import frame_order, refuse_other_order
from calibrant.core.docstrings import fill
from calibrant.core.fingerprint import fingerprint
from calibrant.core.frames import named_columns
from calibrant.core.inputs import check_space, to_array
from calibrant.core.parallel import map_chunks
from calibrant.core.programs import Graph, Node, Program
from calibrant.core.refusals import LARGEST_LOGIT
from calibrant.errors import input_error

if TYPE_CHECKING:
    import torch

#: State every calibrator of class probabilities carries.
_COMMON_STATE = ("n_classes_", "floor_", "smallest_")
#: Type of the option `floor` of every method that takes a logarithm.
Floor = float | Literal["fit"] | None
#: Options that mean the same in every method; a method describes them only where it does more.
_OPTIONS = """
Parameters
----------
floor : "fit", float or None, default "fit"
    Uniform weight mixed in before the logarithm when the calibration probabilities hold exact
    zeros: fitted, fixed, or refused.
rng : None, int or Generator, default 0
    Draws the folds. They depend on the content of the rows, not on their order.
space : {"proba", "logit"}, default "proba"
    What X holds.
classes : array-like, optional
    Labels in column order, when y holds labels instead of column indices.
"""


class Calibrator(ClassifierMixin, BaseCalibrator):  # type: ignore[misc]  # scikit-learn has no types
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

    task = "classes"
    fit_call = "fit(X, y)"
    preserves_argmax: ClassVar[bool] = False
    preserves_order: ClassVar[bool] = False
    #: Whether it can give exact 0 or 1.
    may_saturate: ClassVar[bool] = False
    exports: ClassVar[tuple[str, ...]] = ("onnx", "torch", "json")
    #: What `_fit`, `_predict` and `_map` work on.
    view: ClassVar[View] = "proba"
    #: Free numbers of the map where they do not depend on the classes, inf when they grow with the rows; None where
    #: `n_parameters` counts them.
    free_parameters: ClassVar[float | None] = None
    #: Largest logit a fit takes.
    largest_logit: ClassVar[float] = LARGEST_LOGIT

    space: Space
    classes: ArrayLike | None
    classes_: Any
    n_classes_: int
    floor_: float
    smallest_: float

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.__module__.startswith("calibrant."):
            fill(cls, _OPTIONS)

    @classmethod
    def n_parameters(cls, n_classes: int) -> float:
        """Free numbers of the map with default options; inf when it grows with the rows."""
        if cls.free_parameters is None:
            raise NotImplementedError(f"{cls.__name__}.n_parameters({n_classes})")
        return cls.free_parameters

    @classmethod
    def count_parameters(cls, n_classes: int) -> float:
        """Return the free numbers of the map for so many classes."""
        return cls.n_parameters(n_classes)

    # -- what a subclass writes ---------------------------------------------------------------

    def _fit(self, scores: Scores, codes: Ints, weights: Floats) -> None:
        raise NotImplementedError

    def _map(self, graph: Graph, x: Node) -> Node:
        """Write the fitted map from `x` (in the view) to probabilities; rows are normalized after it."""
        raise NotImplementedError

    def _predict(self, x: Floats) -> Floats:
        """Map one block (rows, K) in the view to probabilities; must not change `x`."""
        graph = Graph()
        return graph.program(self._map(graph, graph.x)).run(x)

    #: A fit of the same method on nearly the same rows, while a comparison runs: where a search may start, and a sign
    #: that its last digits do not matter.
    _warm: Any = None

    def fit_near(self, other: Self | None, scores: Scores, codes: Ints, weights: Floats, classes: Any) -> Self:
        """Fit checked rows for a comparison, starting from a fit on other rows where the method can."""
        self._warm = other
        try:
            return self.fit_checked(scores, codes, weights, classes)
        finally:
            del self._warm

    def _probabilities(self, graph: Graph, x: Node) -> Node:
        """Return the probabilities behind `x` in the view "rank"."""
        return graph.sigmoid(x) if self.input_space == "logit" else x

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
            Column indices 0 … K−1, or labels with the option `classes` or beside a frame whose columns name them.
        sample_weight : array-like of shape (n,), optional
            Whole numbers equal repeated rows. Others are importance weights: their relative sizes count, and as
            many rows as Kish's effective number (Σw)²/Σw².

        Returns
        -------
        self
        """
        caller = f"{type(self).__name__}.fit"
        self._check_options(caller)
        if self.classes is None:
            classes, y = named_columns(X, to_array(y, "y", caller))
        else:
            classes = self.classes
            refuse_other_order(classes, X, caller=caller)
        scores, codes, weights, names = check_fit(
            X,
            y,
            sample_weight,
            classes=classes,
            space=self.input_space,
            view=self.view,
            caller=caller,
            largest=self.largest_logit,
        )
        self.fitted_on_ = fingerprint(scores.matrix, self.input_space, scores.hashes)
        return self.fit_checked(scores, codes, weights, np.arange(scores.n_classes) if names is None else names)

    def fit_checked(self, scores: Scores, codes: Ints, weights: Floats, classes: Any) -> Self:
        """Fit on scores, codes and weights that were checked before, as a comparison of many methods does."""
        caller = f"{type(self).__name__}.fit"
        self.n_classes_ = scores.n_classes
        self.n_features_in_ = scores.n_classes
        self.classes_ = np.asarray(classes)
        scores = self._settle_floor(scores, codes, weights, caller)
        self._fit(scores, codes, weights)
        return self

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return calibrated probabilities, float64 of shape (n, K); each row sums to 1.

        Parameters
        ----------
        X : array-like of shape (n, K) or (n,)
            Scores in the same space and column order as in `fit`; columns of a frame that are named after the classes
            (``cat``, ``p_cat``) meet them by name, and leave in the order of the frame.
        """
        caller = f"{type(self).__name__}.predict_proba"
        self._check_fitted(caller)
        scores = check_scores(X, space=self.input_space, view="raw", caller=caller, n_classes=self.n_classes_)
        out = np.empty((scores.n, scores.n_classes))
        order = frame_order(self.classes_, X, caller=caller)

        def visit(rows: slice) -> None:
            block = scores.block(rows)
            if order is None:
                out[rows] = self.apply_block(block)
            else:
                out[rows][:, order] = self.apply_block(block[:, order])

        for _ in map_chunks(visit, scores.chunks()):
            pass
        return out

    def apply_block(self, raw: Floats) -> Floats:
        """Map one checked float64 block (rows, K) in the input space to normalized probabilities."""
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
        """Return the most probable class of each row, the lowest index on ties; columns of a frame meet by name."""
        caller = f"{type(self).__name__}.predict"
        self._check_fitted(caller)
        p, order = self.predict_proba(X), frame_order(self.classes_, X, caller=caller)
        return self.classes_[(p if order is None else p[:, order]).argmax(axis=1)]

    def to_onnx(self, path: str | Path | None = None, *, dtype: Literal["float32", "float64"] = "float64") -> bytes:
        """Return the map as a serialized ONNX model; also write it to `path`.

        `dtype` is what goes in and comes out, "float32" to join it to a float32 network; the steps between are computed
        in float64. The model is compared with `predict_proba` to 1e-6 before it is returned.
        """
        return to_onnx(self, path, dtype=dtype)

    def to_torch(self, *, trainable: bool = False) -> torch.nn.Module:
        """Return the map as a torch module: scores (n, K) or (n, K, …) in, the same shape and dtype out.

        It computes in float64, is checked against `predict_proba` to 1e-6, and can be pickled. With ``trainable=True``
        the linear map in front of the softmax becomes float32 parameters and the module returns logits.
        """
        return to_torch(self, trainable=trainable)

    def to_sql(
        self,
        dialect: Literal["duckdb", "spark", "bigquery", "snowflake"] = "duckdb",
        *,
        table: str = "predictions",
        columns: Sequence[str] | None = None,
        keep: Sequence[str] = (),
        space: Space | None = None,
        tolerance: float = 1e-4,
    ) -> str:
        r"""Return the map as a query, for engines where the rows already are.

        Parameters
        ----------
        dialect : str
            Whose SQL is written. DuckDB and Spark are run in the tests, BigQuery and Snowflake are not.
        table : str
            What stands after FROM, as the engine writes it: a table, or a subquery in brackets.
        columns : sequence of str, optional
            Columns of the scores in the order of `classes_`, or one for class 1 of two; default ``p_<class>``, or
            ``logit_<class>`` for logits. Names are quoted: Snowflake keeps unquoted ones in capitals.
        keep : sequence of str
            Further columns of the result, such as a key.
        space : {"proba", "logit"}, optional
            What the columns hold; default what the calibrator was fitted on.
        tolerance : float, default 1e-4
            How far probabilities may miss 0, 1 and a sum of 1, as those of 32 bits do; `calibrant apply` knows the
            types and takes 1e-6 for 64 bits and half a unit of the last digit of every column for decimals. Rows are
            rescaled where it is larger than the default.

        Returns
        -------
        str
            One SELECT with named steps. Maps of arithmetic and lookups can be written so; those that sort the classes
            of a row are refused. A row whose scores cannot be used gives NULL, as `calibrant apply` does.

        Examples
        --------
        >>> from calibrant.calibrators import TemperatureScaling
        >>> repair = TemperatureScaling().fit([[0.9, 0.1]] * 3 + [[0.1, 0.9]] * 2, [0, 0, 1, 1, 1])
        >>> print(*repair.to_sql(keep=["id"]).splitlines()[-5:], sep="\n")
        SELECT
          key_0 AS "id",
          CASE WHEN usable = 1 THEN softmax_1_0 / sum_1 END AS "p_0",
          CASE WHEN usable = 1 THEN softmax_1_1 / sum_1 END AS "p_1"
        FROM calibrant_sum_1
        """
        return to_sql(self, dialect, table=table, columns=columns, keep=keep, space=space, tolerance=tolerance)

    def program(self) -> Program:
        """Return the whole map, from the scores given to `predict_proba` to normalized rows, as plain steps."""
        self._check_fitted(f"{type(self).__name__}.program")
        if not self.can_export:
            rule = "have a map that other runtimes can run"
            hint = "save() keeps it for calibrant.load; export another method"
            raise input_error("calibrator", "export", rule, type(self).__name__, hint)
        graph = Graph()
        return graph.program(self.describe(graph, graph.x))

    def describe(self, graph: Graph, x: Node) -> Node:
        """Write the map of raw scores (in `space`) into a graph: view, floor, map, normalization."""
        if self.input_space == "logit":
            if self.view == "rank":
                x = log_odds_node(graph, x, self.n_classes_)
            elif self.view in ("proba", "log"):
                x = graph.softmax(x) if self.view == "proba" else graph.log_softmax(x)
        elif self.view in ("log", "logit"):
            if self.floor_ > 0:
                x = (1 - self.floor_) * x + self.floor_ / self.n_classes_
            else:
                least = -graph.max(-graph.where(x > 0.0, x, np.inf))
                x = graph.where(x > 0.0, x, graph.minimum(least, self.smallest_))
            x = graph.log(x)
        return graph.normalize(self._map(graph, x))

    # -- shared machinery ---------------------------------------------------------------------

    def _check_options(self, caller: str) -> None:
        self._check_choices(caller)
        if getattr(self, "space", None) is not None:
            check_space(self.space, caller, "X")
        floor = getattr(self, "floor", None)
        number = isinstance(floor, int | float) and not isinstance(floor, bool) and 1e-100 <= floor < 1
        if not (floor is None or number or (isinstance(floor, str) and floor == "fit")):
            rule = "be 'fit', None or a number between 0 and 1 (at least 1e-100)"
            raise input_error("floor", caller, rule, repr(floor), "leave it at 'fit'")

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "classes_")

    def fitted_state(self) -> dict[str, Any]:
        """Return the attributes that make the fitted map, by name."""
        return {name: getattr(self, name) for name in (*_COMMON_STATE, *self.state)}

    @classmethod
    def declared_state(cls) -> tuple[str, ...]:
        """Return the names of all attributes that an artifact may set."""
        return (*_COMMON_STATE, *cls.state)

    def restore(self, state: dict[str, Any]) -> None:
        """Take the attributes of a fitted map, as read from an artifact."""
        super().restore(state)
        self.n_features_in_ = self.n_classes_

    def extra_payload(self) -> dict[str, Any]:
        """Return the space of the scores and the map as steps that need no class of ours."""
        steps = _artifact.encode_program(self.program()) if self.can_export else None
        return {"space": self.input_space, "program": steps}

    def _settle_floor(self, scores: Scores, codes: Ints, weights: Floats, caller: str) -> Scores:
        """Decide what exact zeros mean before a logarithm: see *Exact zeros* in the guide."""
        self.floor_, self.smallest_ = 0.0, 0.0
        if self.view in ("proba", "raw", "rank") or self.input_space == "logit":
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
                self.floor_ = search_floor(self, scores, codes, weights)
            else:
                self.floor_ = float(floor)
        return scores.with_floor(self.floor_, self.smallest_)


__all__ = ["Calibrator", "Floor", "UnfittedError"]
