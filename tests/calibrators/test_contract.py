"""Every listed calibrator keeps the contract; a new method joins by being listed."""

from __future__ import annotations

import pytest

import calibrant.calibrators as room
from calibrant.testing import calibrators as suite


@pytest.mark.filterwarnings("ignore::calibrant.errors.ConvergenceWarning")
@pytest.mark.parametrize("name", list(room.CALIBRATORS))
@pytest.mark.parametrize("check", suite.CHECKS, ids=lambda check: check.__name__)
def test_contract(name, check):
    import numpy as np

    check(getattr(room, name)(), np.random.default_rng(0))
