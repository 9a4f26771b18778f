"""`load`: any saved calibrator, of class probabilities or of means and variances."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from calibrant.calibrators import _artifact

__all__ = ["load"]


def load(path: str | Path) -> Any:
    """Load a calibrator written by `save`; predictions equal the saved one's to the last bit.

    Parameters
    ----------
    path : str or Path
        A JSON file. A changed file, a newer schema or a foreign file raises `FileError`.

    Returns
    -------
    Calibrator or RegressionCalibrator
    """
    payload = _artifact.read(path)
    if payload.get("task") == "regression":
        from calibrant.regression._base import from_payload

        return from_payload(payload, str(path))
    return _artifact.load(path)
