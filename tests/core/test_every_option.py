"""Every option of every public function, class, method and calibrator, with every wrong value of the campaign."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import calibrant
from calibrant.core.arguments import check_arguments
from calibrant.errors import InputError

FUZZ = Path(__file__).resolve().parents[2] / "fuzz"


@pytest.fixture
def options(tmp_path, monkeypatch):
    """The module of the campaign, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(FUZZ))
    import options

    yield options
    for path in FUZZ.glob("*.py"):
        sys.modules.pop(path.stem, None)


def found(options, every, values):
    import matplotlib.pyplot as plt

    ended = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for call in every:
            for value in values:
                try:
                    options.check_option(*call, value)
                except Exception as error:
                    ended.append(f"{call} = {value!r}: {type(error).__name__} {error}")
                finally:
                    plt.close("all")
    return ended


@pytest.mark.slow
def test_no_option_lets_a_wrong_value_through(options):
    every = list(options.every_option())
    assert len(every) > 1200
    assert found(options, every, options.HOSTILE) == []


def test_the_sweep_sees_an_option_that_nobody_checks(options, monkeypatch):
    def unchecked(y_true, y_proba, *, folds=2):
        return folds + 1

    monkeypatch.setattr(options, "functions", lambda: {"calibrant.unchecked": unchecked})
    every = [call for call in options.every_option() if call[0] == "calibrant.unchecked"]
    assert every == [("calibrant.unchecked", "arrays", "folds")]
    assert len(found(options, every, [1, "x"])) == 1


@pytest.mark.parametrize(
    ("annotation", "good", "bad"),
    [
        ("bool", [True, np.bool_(False)], [1, "no", None, []]),
        ("str | None", ["x", None], [1, b"x", ["x"], np.zeros((2, 2))]),
        ("str | Path | None", ["x", Path("x"), None], [1, b"x", {}]),
        ("str | Sequence[str] | None", ["x", ["x"], (), np.array(["x"]), None], [1, [1], {"a": 1}, b"x", [None]]),
        ("Callable[[int], int] | None", [abs, None], [1, "x", []]),
        ("Mapping[str, ArrayLike] | None", [{}, None], [[], "x", 1]),
        ("ArrayLike | None", [1, "x", object()], []),
    ],
)
def test_types_by_annotation(annotation, good, bad):
    for value in good:
        check_arguments({"option": annotation}, {"option": value}, "verb")
    for value in bad:
        with pytest.raises(InputError, match=r"^option of verb must be "):
            check_arguments({"option": annotation}, {"option": value}, "verb")


@pytest.mark.parametrize("verb", ["apply", "check", "compare", "evaluate", "fit", "monitor", "report"])
def test_every_verb_checks_by_annotation(verb):
    function = getattr(calibrant, verb)
    option = "config" if verb == "check" else "label"
    with pytest.raises(InputError, match=f"^{option} of {verb} must be (text|a path)"):
        function("x", "x", **{option: 3})
