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

    Examples
    --------
    >>> import tempfile
    >>> from calibrant.calibrators import TemperatureScaling
    >>> repair = TemperatureScaling().fit([[0.9, 0.1]] * 3 + [[0.1, 0.9]] * 2, [0, 0, 1, 1, 1])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     repair.save(f"{folder}/cal.json")
    ...     again = load(f"{folder}/cal.json")
    >>> again.temperature_ == repair.temperature_
    True
    """
    return _artifact.load(path)
