"""What every part of the library keeps: errors with fields, flags named as flags, listings alike, six files for ECE."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrant
from acceptance.runner import run

SOURCE = Path(calibrant.__file__).parent
ROOT = Path(__file__).resolve().parents[2]


def trees() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(SOURCE.rglob("*.py")):
        yield str(path.relative_to(SOURCE)), ast.parse(path.read_text(encoding="utf-8"))


def test_library_does_not_speak_of_flags() -> None:
    """Errors raised outside the command line name arguments, not flags."""
    found = []
    for path, tree in trees():
        if path.startswith("cli/"):
            continue
        for node in ast.walk(tree):
            raised = isinstance(node, ast.Raise)
            built = isinstance(node, ast.Call) and getattr(node.func, "id", "") in (
                "input_error",
                "InputError",
                "FileError",
            )
            if raised or built:
                words = [
                    part.value
                    for part in ast.walk(node)
                    if isinstance(part, ast.Constant) and isinstance(part.value, str)
                ]
                found += [f"{path}:{node.lineno} {word!r}" for word in words if re.search(r"(?<![\w-])--[a-z]", word)]
    assert not found, sorted(set(found))


def test_input_error_has_fields() -> None:
    with pytest.raises(calibrant.errors.InputError) as caught:
        calibrant.metrics.expected_calibration_error([0, 1, 1], [0.2, 0.7, 0.9], n_bins=0)
    error = caught.value
    assert (error.argument, error.caller) == ("n_bins", "expected_calibration_error")
    assert error.rule
    assert error.got == "0"
    assert error.hint
    assert str(error).startswith("n_bins of expected_calibration_error must ")


@pytest.mark.parametrize(
    ("argv", "flag"),
    [
        (("evaluate", "k5.csv", "--metric", "nonsense"), "--m"),
        (("evaluate", "k5.csv", "--view", "nonsense"), "--view"),
        (("evaluate", "k5.csv", "--by", "nonsense"), "--by"),
        (("evaluate", "k5.csv", "--groups", "nonsense"), "--groups"),
        (("evaluate", "k5.csv", "--label", "site"), "--label"),
        (("fit", "k5.csv", "--method", "nonsense", "-o", "x.json"), "--method"),
        (("check", "k5.csv", "--max", "nonsense=1"), "--max"),
        (("check", "k5.csv", "--min-pvalue", "nonsense=1"), "--min-pvalue"),
    ],
)  # fmt: skip
def test_command_line_speaks_of_flags(folder: Path, argv: tuple[str, ...], flag: str) -> None:
    done = run(argv, folder)
    assert done.code in (1, 2)
    assert flag in done.err
    assert "space=" not in done.err
    assert "y_proba" not in done.err
    assert "y_true" not in done.err


def files_passed(call: Any) -> set[str]:
    """Files of calibrant whose functions run during a call that was made before."""
    call()
    seen: set[str] = set()

    def note(frame: Any, event: str, _: Any) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(str(SOURCE)):
            seen.add(name[len(str(SOURCE)) + 1 :])

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return seen


def test_one_metric_passes_six_files() -> None:
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(4), 50)
    y = rng.integers(0, 4, 50)
    seen = files_passed(lambda: calibrant.metrics.expected_calibration_error(y, p))
    assert len(seen) <= 6, sorted(seen)


def test_short_names_are_functions() -> None:
    y, p = [1, 0, 1, 1], [0.9, 0.9, 0.6, 0.6]
    assert calibrant.metrics.ece(y, p) == calibrant.metrics.expected_calibration_error(y, p)
    for name in calibrant.list_metrics():
        assert callable(getattr(calibrant.metrics, name.replace("-", "_"))), name


def test_listings_have_one_shape() -> None:
    metrics, methods = calibrant.list_metrics(), calibrant.list_calibrators()
    assert type(metrics).__mro__[1] is type(methods).__mro__[1] is not object
    for listing in (metrics, methods):
        assert all(isinstance(name, str) for name in listing)
        assert len(listing) == len(list(listing))
        assert listing[next(iter(listing))] is not None
        assert {"name", "title"} <= set(listing.to_frame().columns)


def test_contract_of_metrics_is_public() -> None:
    from calibrant.core.declare import lookup

    assert "check_metric" in calibrant.testing.__all__
    calibrant.testing.check_metric(lookup("brier", "test"))


def test_commands_are_for_users() -> None:
    from calibrant.cli import cli

    own = {
        name
        for name in cli.list_commands(None)
        if cli.get_command(None, name).callback.__module__.startswith("calibrant.cli")
    }
    assert own == {
        "apply",
        "check",
        "compare",
        "demo",
        "evaluate",
        "explain",
        "fit",
        "merge",
        "monitor",
        "report",
        "summarize",
    }
