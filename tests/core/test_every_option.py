"""Every option of every public function, class, method and calibrator, with every wrong value of the campaign."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import calibrant
from calibrant.core.arguments import check_arguments
from calibrant.errors import InputError

FUZZ = Path(__file__).resolve().parents[2] / "fuzz"
#: Bytes that the sweep may use, and seconds that one call may take.
MEMORY, PATIENCE = 6 << 30, 300


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
            sys.stderr.write(f"{call}\n")  # the last one, should the process die
            for value in values:
                try:
                    options.check_option(*call, value)
                except Exception as error:
                    ended.append(f"{call} = {value!r}: {type(error).__name__} {error}")
                finally:
                    plt.close("all")
    return ended


def alone(*words, cwd):
    """Run this file in a process with little memory; return the options it found and what ended badly."""
    done = subprocess.run([sys.executable, __file__, *words], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.returncode} after {done.stderr[-2000:]}"
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_no_option_lets_a_wrong_value_through(tmp_path):
    every, ended = alone(cwd=tmp_path)
    assert every > 1200
    assert ended == []


def test_metrics_kept_from_slice_to_slice_are_checked_too(options):
    every = [call for call in options.every_option() if call[0] == "inference.evaluate_evidence"]
    values = [3, "x", [None], {}, {"ece": 1}]
    assert found(options, [call for call in every if call[2] in ("kept", "test")], values) == []
    assert values[3] == {}


@pytest.mark.skipif(sys.platform != "linux", reason="no limit of memory there")
def test_an_option_that_is_taken_for_a_size_ends_the_sweep_and_not_the_machine(tmp_path):
    every, ended = alone("greedy", cwd=tmp_path)
    assert every == 1
    assert len(ended) == 1
    assert "calibrant.greedy" in ended[0]
    assert "MemoryError" in ended[0]


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


def sweep(*words):
    """Call everything with every wrong value, in little memory; print the number of options and what ended badly."""
    import resource

    def late(number, frame):
        raise TimeoutError(f"no end within {PATIENCE} s")

    def greedy(y_true, y_proba, *, folds=2):
        return len(np.empty(folds << 30))

    def in_time(*call):
        signal.alarm(PATIENCE)
        try:
            return options.check(*call)
        finally:
            signal.alarm(0)

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.signal(signal.SIGALRM, late)
    sys.path.insert(0, str(FUZZ))
    import matplotlib as mpl
    import options

    mpl.use("agg")
    options.check, options.check_option = options.check_option, in_time
    values = options.HOSTILE
    if words:
        options.functions = lambda: {"calibrant.greedy": greedy}
        options.classes = options.calibrators = dict
        values = [1]
    every = list(options.every_option())
    sys.stdout.write(json.dumps([len(every), found(options, every, values)]) + "\n")


if __name__ == "__main__":
    sweep(*sys.argv[1:])
