from __future__ import annotations

import numpy as np
import pytest

from helpers import load_data


@pytest.fixture(scope="session")
def cifar():
    """Logits of CIFAR-10 ResNet-110: the anchor of the papers' tables."""
    return load_data("cifar10_resnet110")


@pytest.fixture
def toy():
    """Overconfident logits of 400 rows and 4 classes, and labels drawn from the true softmax."""
    rng = np.random.default_rng(7)
    z = 1.5 * rng.normal(size=(400, 4))
    y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    return 2.0 * z, y
