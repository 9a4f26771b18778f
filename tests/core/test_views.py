"""Names of views: each belongs to one class, whatever else is derived from it."""

from __future__ import annotations

from typing import ClassVar

import pytest

from calibrant.metrics import brier_score
from calibrant.views import TopLabel, View, as_view
from calibrant.views.view import _NAMED


def test_a_subclass_does_not_take_the_name_of_its_parent():
    class Mine(TopLabel):
        pass

    assert type(as_view("top-1")) is TopLabel
    assert as_view(Mine()) == Mine()
    assert brier_score([1, 0], [0.9, 0.2], view="top-1") >= 0


def test_a_word_that_is_taken_is_refused():
    with pytest.raises(TypeError, match="'top-1' belongs to TopLabel"):

        class Thief(View):
            word: ClassVar[str] = "top-1"

    assert type(as_view("top-1")) is TopLabel


def test_a_new_word_is_entered():
    try:

        class Own(TopLabel):
            word: ClassVar[str] = "my-view"

        assert as_view("my-view") == Own()
    finally:
        _NAMED.pop("my-view", None)
