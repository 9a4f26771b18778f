"""What many tests share: the real data sets, found through CALIBRANT_DATA."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent


def data_path(name: str) -> Path:
    """Path of one real data set, or skip the test with the reason."""
    folder = Path(os.environ.get("CALIBRANT_DATA", ROOT.parent / "shared" / "data"))
    path = folder / f"{name}.npz"
    if not path.exists():
        pytest.skip(f"real data set {name} is absent (set CALIBRANT_DATA)")
    return path


def load_data(name: str) -> dict[str, np.ndarray]:
    """Arrays of one real data set."""
    with np.load(data_path(name), allow_pickle=False) as archive:
        return {key: archive[key] for key in archive.files}
