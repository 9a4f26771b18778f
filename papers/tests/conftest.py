"""Quick forms of the targets, each run once for all tests of a process."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest

from calibrant_papers import reproduce
from helpers import ROOT


@cache
def _quick(name):
    folder = Path(os.environ.get("CALIBRANT_DATA", ROOT.parent / "shared" / "data"))
    return reproduce(name, data=folder if folder.is_dir() else None, quick=True)


@pytest.fixture(scope="session")
def quick():
    """Return the quick result of a target."""
    return _quick
