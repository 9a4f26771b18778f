"""A study's name means its function, whatever has been imported before."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

import pytest

import calibrant.studies as room


@pytest.mark.parametrize("name", sorted(room.__all__))
def test_a_name_stays_what_it_is(name):
    if name in {module.name for module in iter_modules(room.__path__)}:
        import_module(f"calibrant.studies.{name}")
    assert callable(getattr(room, name))
    assert getattr(room, name) is getattr(room, name)
