"""The one way to apply a fitted calibrator to rows: scores of either space in, probabilities out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calibrant._typing import Array, Floats
from calibrant.core.frames import class_names, column_names
from calibrant.core.links import input_scores
from calibrant.core.programs import Graph, Program
from calibrant.errors import input_error

__all__ = [
    "calibrate", "check_applicable", "class_order", "declares", "frame_order", "input_program", "is_regression",
    "refuse_other_order", "softmax_note"
]  # fmt: skip


def is_regression(calibrator: Any) -> bool:
    """Whether a calibrator maps means and variances instead of class probabilities."""
    return not hasattr(calibrator, "predict_proba")


def declares(calibrator: Any, name: str) -> bool:
    """Whether a fitted calibrator has a property; an automatic choice has that of what it ships."""
    return bool(getattr(getattr(calibrator, "best_", calibrator), name, False))


def _check_fitted(calibrator: Any, caller: str) -> None:
    if not hasattr(type(calibrator), "fitted_state"):
        raise input_error(
            "calibrator", caller, "be a fitted calibrator", repr(calibrator)[:200], "call fit or load first"
        )
    calibrator._check_fitted(caller)


def check_applicable(calibrator: Any, space: str, n_classes: int | None = None, *, caller: str = "apply") -> None:
    """Refuse scores that the calibrator was not fitted for."""
    _check_fitted(calibrator, caller)
    if space == "proba" and calibrator.input_space == "logit":
        hint = "store logits, or fit on probabilities"
        raise input_error("data", caller, "hold logits, which this calibrator was fitted on", "probabilities", hint)
    if n_classes is not None and n_classes != calibrator.n_classes_:
        raise input_error(
            "data", caller, f"have {calibrator.n_classes_} classes", str(n_classes), "use predictions of the same model"
        )


def input_program(calibrator: Any, space: str) -> Program:
    """Return the map from scores of either space: logits go through softmax before a calibrator of probabilities."""
    if space == calibrator.input_space:
        return calibrator.program()
    calibrator.program()  # refuses what has none
    graph = Graph()
    return graph.program(calibrator.describe(graph, graph.softmax(graph.x)))


def class_order(
    calibrator: Any,
    names: Sequence[Any] | None,
    *,
    caller: str = "apply",
    ordered: bool = False,
    columns: Sequence[str] = (),
) -> list[int] | None:
    """Return where the calibrator's classes stand among `names`; None where neither side has names.

    Names that do not match are refused, naming both. `ordered` says that the caller gave the order of the columns, so
    that it counts where one side has no names; columns of more than two classes that are numbered have none.
    """
    _check_fitted(calibrator, caller)
    known = np.asarray(calibrator.classes_).tolist()
    return _match(known, names, caller=caller, ordered=ordered, columns=columns)


def _match(
    known: list[Any], names: Sequence[Any] | None, *, caller: str, ordered: bool = False, columns: Sequence[str] = ()
) -> list[int] | None:
    nameless = known == list(range(len(known)))
    every = columns if len(columns) == len(known) else [*map(str, names or ())]
    first = ",".join(every[:3]) + (",…" if len(every) > 3 else "")
    if names is None and not nameless and not ordered and len(columns) == len(known) > 2:
        hint = f"call them so, or say the order of the columns with {{proba={first}}}"
        raise input_error("data", caller, f"have the classes {_shown(known)}", f"no names in {_shown(columns)}", hint)
    if names is None or (nameless and ordered):
        return None
    given = list(names)
    if set(map(_word, known)) != set(map(_word, given)):
        hint = "use predictions of the same model"
        if nameless and len(known) == len(given):
            hint = f"the calibrator has no names: say the order of the columns with {{proba={first}}}"
        shown = [_shown(one) for one in (known, given)]
        raise input_error("data", caller, f"have the classes {shown[0]}", shown[1], hint)
    places = {_word(name): place for place, name in enumerate(given)}
    return [places[_word(name)] for name in known]


def _word(name: Any) -> str:
    return str(int(name)) if isinstance(name, float) and name.is_integer() else str(name)


def _shown(names: Sequence[Any]) -> str:
    most = 8
    return ", ".join(map(str, names[:most])) + (f", … ({len(names)} in all)" if len(names) > most else "")


def frame_order(classes: Any, frame: Any, *, caller: str) -> list[int] | None:
    """Return where a calibrator's classes stand among the columns of a frame; None where either has no names.

    A frame whose columns do not name the classes is refused, naming both.
    """
    names = column_names(frame)
    if names is None:
        return None
    listed = np.asarray(classes).tolist()
    known = set(map(_word, listed))
    inside = names if known & set(names) else class_names(names)
    if known == {str(k) for k in range(len(known))} and not known & set(inside):
        return None  # fitted on arrays: there is only the order
    return _match(listed, inside, caller=caller)


def refuse_other_order(classes: Any, frame: Any, *, caller: str) -> None:
    """Refuse classes given in another order than the columns of a frame that are named after them."""
    names = column_names(frame) or []
    given = [_word(name) for name in np.asarray(classes).ravel().tolist()]
    for inside in (names, class_names(names)):
        if inside != given and sorted(inside) == sorted(given):
            rule, hint = f"name the columns of X in their order ({_shown(inside)})", "leave it out"
            raise input_error("classes", caller, rule, _shown(given), hint)


def softmax_note(calibrator: Any, space: str) -> str | None:
    """Return what a user should know: that logits go through softmax before a calibrator of probabilities."""
    if space == "logit" and calibrator.input_space == "proba":
        return "the calibrator was fitted on probabilities; the file's logits went through softmax first"
    return None


def calibrate(calibrator: Any, scores: Array, space: str, *, normalize: bool = False) -> Floats:
    """Return the calibrated probabilities of rows, shape (n, K); one column of scores is class 1 of two."""
    scores = input_scores(scores, space, calibrator.input_space, normalize=normalize)
    return np.asarray(calibrator.predict_proba(scores)) if len(scores) else np.zeros((0, calibrator.n_classes_))
