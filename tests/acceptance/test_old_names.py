"""Public names of 0.1 stay importable: the list was written by its last commit, module by module."""

from __future__ import annotations

import warnings
from importlib import import_module
from pathlib import Path

import pytest

import calibrant

NAMES: dict[str, list[str]] = {}
for line in Path(__file__).with_name("names_of_0_1.txt").read_text(encoding="utf-8").splitlines():
    if line.startswith(" "):
        NAMES[next(reversed(NAMES))] += line.split()
    else:
        NAMES[line.rstrip(":")] = []


def is_there(module: str, name: str) -> bool:
    try:
        return hasattr(import_module(module), name)
    except calibrant.errors.MissingExtraError:  # a subpackage that says what to install, on an install without it
        return True


@pytest.mark.parametrize("module", NAMES)
def test_names_are_there(module: str) -> None:
    if module == "calibrant.torch":
        pytest.importorskip("torch")
    if module == "calibrant.plots":
        pytest.importorskip("matplotlib")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", calibrant.errors.CalibrantDeprecationWarning)
        gone = [name for name in NAMES[module] if not is_there(module, name)]
    assert not gone, f"{module} lost {gone}"
