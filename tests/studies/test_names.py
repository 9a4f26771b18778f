"""A study's name means its function, whatever has been imported before."""

from __future__ import annotations

from importlib import import_module

import pytest

import calibrant.studies as room


@pytest.mark.parametrize("name", sorted(room._HOMES))
def test_a_name_stays_what_it_is(name):
    import_module(f"calibrant.studies.{room._HOMES[name]}")
    assert callable(getattr(room, name))
    assert getattr(room, name) is getattr(room, name)
