"""Apply a saved calibrator with NumPy alone, for services that install nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from calibrant._typing import ArrayLike, Floats
from calibrant.calibrators._artifact import decode, decode_program, read
from calibrant.calibrators._scores import check_scores
from calibrant.calibrators.application import frame_order
from calibrant.core.parallel import row_chunks
from calibrant.errors import FileError


def predict_from_json(source: str | Path | dict[str, Any], X: ArrayLike) -> Floats:
    """Return calibrated probabilities from a file written by `Calibrator.save`.

    Parameters
    ----------
    source : str, Path or dict
        The JSON file, or its content already parsed.
    X : array-like of shape (n, K) or (n,)
        Scores in the space and column order the calibrator was fitted on; columns of a frame that are named after the
        classes meet them by name, and leave in the order of the frame.

    Returns
    -------
    ndarray of shape (n, K)
        Float64; each row sums to 1.

    Notes
    -----
    Needs NumPy only: neither scikit-learn nor SciPy is imported. The file holds the fitted map as a
    list of array steps, which are run as they stand; methods without exports (Gaussian process,
    Bayesian binning, Venn–Abers on three or more logits) need `calibrant.load`.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from calibrant.calibrators import Identity
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "cal.json"
    >>> Identity().fit([[0.2, 0.8]], [1]).save(path)
    >>> predict_from_json(path, [[0.3, 0.7]])
    array([[0.3, 0.7]])
    """
    payload = read(source)
    if not payload.get("program"):
        raise FileError(f"a {payload['kind']} cannot be applied without its class. Hint: use calibrant.load.")
    program = decode_program(payload["program"])
    caller = "predict_from_json"
    scores = check_scores(
        X,
        space=payload["space"],
        view="proba" if payload["space"] == "proba" else "logit",
        caller=caller,
        n_classes=payload["state"]["n_classes_"],
    )
    order = frame_order(decode(payload["classes"]), X, caller=caller)
    out = np.empty((scores.n, scores.n_classes))
    for rows in row_chunks(scores.n, scores.n_classes * 8):
        block = scores.block(rows)
        if order is None:
            out[rows] = program.run(block)
        else:
            out[rows][:, order] = program.run(block[:, order])
    return out
