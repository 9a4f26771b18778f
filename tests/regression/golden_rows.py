"""200 rows without a random generator: irrational steps through the normal quantile function."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

STEP = np.arange(1, 201.0)


def noise(step: float) -> np.ndarray:
    return ndtri((STEP * step) % 1.0)


MEAN = 3 * noise(2**0.5)
VARIANCE = (0.2 + (STEP * 3**0.5) % 1.0 * 3) ** 2
Y = MEAN + 1.4 * np.sqrt(VARIANCE) * noise(5**0.5) + 0.3
ENSEMBLE = MEAN[:, None] + np.sqrt(VARIANCE)[:, None] * ndtri((np.arange(1, 21) / 21 + STEP[:, None] * 7**0.5) % 1.0)
