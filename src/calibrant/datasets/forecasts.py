"""What a simulated data set is: forecasts, labels, and the errors nobody else can know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from calibrant._typing import Floats, Ints

__all__ = ["SimulatedForecast", "draw_labels"]


@dataclass(frozen=True, eq=False)
class SimulatedForecast:
    """Forecasts with labels whose true calibration errors are known.

    Attributes
    ----------
    name : str
    y_true : array of shape (n,)
        Class indices.
    y_proba : array of shape (n, K) or (n,)
        Forecasts.
    errors : mapping of str to float
        True errors of the law behind the sample, by name: ``ce1``, ``ce2`` (canonical, after the root), ``tce1``,
        ``tce2`` (top label), ``cwce1``, ``cwce2`` (class-wise, summed over classes), ``ece``, ``ks``, ``mmce``.
    truth : array of shape (n, K) or None
        P(Y | f) of each row, where it is known.
    sample_weight : array of shape (n,) or None
        Probabilities of the rows when the data are the law itself rather than a sample of it.
    before : array of shape (n, K) or None
        The forecast before the map, for data sets that show what a map does.
    about : str
        One sentence on what the data show.
    """

    name: str
    y_true: Ints
    y_proba: Floats
    errors: Mapping[str, float]
    truth: Floats | None = None
    sample_weight: Floats | None = None
    before: Floats | None = None
    about: str = field(default="", repr=False)

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.y_true)

    def __str__(self) -> str:
        known = ", ".join(f"{name} {value:.4g}" for name, value in self.errors.items())
        return f"{self.name}: {self.n} rows; true errors: {known}"


def draw_labels(law: Floats, rng: np.random.Generator) -> Ints:
    """Draw one label per row from its own law.

    Examples
    --------
    >>> draw_labels(np.array([[1.0, 0.0], [0.0, 1.0]]), np.random.default_rng(0)).tolist()
    [0, 1]
    """
    cumulative = np.cumsum(law, axis=1)
    uniform = rng.random(len(law)) * cumulative[:, -1]
    return np.asarray((cumulative <= uniform[:, None]).sum(axis=1), dtype=np.int64)
