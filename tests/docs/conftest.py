"""The scripts of the documentation, loaded from where they live."""

from __future__ import annotations

import importlib.util
from types import ModuleType

import pytest

from helpers import ROOT


def load_script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"docs_{name}", ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def generate() -> ModuleType:
    return load_script("generate")


@pytest.fixture(scope="session")
def consoles() -> ModuleType:
    return load_script("consoles")
