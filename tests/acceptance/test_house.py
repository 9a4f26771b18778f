"""Points 4, 6 and 8 to 10 of the architecture: what the tree itself must satisfy."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import sys
from collections import defaultdict
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


def own_classes(package: str) -> set[str]:
    found = [tree for path, tree in trees() if path.startswith((f"{package}/", f"{package}.py"))]
    return {node.name for tree in found for node in tree.body if isinstance(node, ast.ClassDef)}


# -- point 4


def test_nobody_asks_views_and_estimators_for_their_class() -> None:
    names = own_classes("views") | own_classes("estimators")
    found = []
    for path, tree in trees():
        if path.startswith(("views", "estimators")):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
                asked = {part.id for part in ast.walk(node.args[1]) if isinstance(part, ast.Name)}
                asked |= {part.attr for part in ast.walk(node.args[1]) if isinstance(part, ast.Attribute)}
                found += [f"{path}:{node.lineno} {name}" for name in asked & names]
    assert not found, found


def test_nobody_reads_sentences_to_decide() -> None:
    """No branch on the words of a verdict or of an error."""
    found = []
    for path, tree in trees():
        for node in ast.walk(tree):
            test = getattr(node, "test", None) if isinstance(node, ast.If | ast.IfExp | ast.While) else None
            text = "" if test is None else ast.unparse(test)
            if re.search(
                r"verdict\S*\.(startswith|endswith)|\bin str\((error|exc|err|e)\)|(error|exc)\.args\[0\]", text
            ):
                found.append(f"{path}:{node.lineno} {text}")
    assert not found, found


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
        (("evaluate", "k5.csv", "--measure", "nonsense"), "--m"),
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


# -- point 6


def test_import_contract_lists_every_module() -> None:
    text = (ROOT / ".importlinter").read_text(encoding="utf-8")
    assert re.search(r"exhaustive\s*=\s*True", text)


# -- point 8


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


def test_evaluate_passes_twenty_five_files(folder: Path) -> None:
    seen = files_passed(lambda: run(("evaluate", "k5.csv", "--resamples", "20"), folder))
    assert len(seen) <= 25, sorted(seen)


# -- point 9


def test_short_names_are_functions() -> None:
    y, p = [1, 0, 1, 1], [0.9, 0.9, 0.6, 0.6]
    assert calibrant.metrics.ece(y, p) == calibrant.metrics.expected_calibration_error(y, p)
    for name in calibrant.list_metrics():
        assert callable(getattr(calibrant.metrics, name.replace("-", "_"))), name


def test_one_class_per_idea() -> None:
    homes: dict[str, set[str]] = defaultdict(set)
    for found in pkgutil.walk_packages(calibrant.__path__, "calibrant."):
        if found.name.endswith("__main__"):
            continue
        try:
            module = importlib.import_module(found.name)
        except ImportError:
            continue
        for name, kind in vars(module).items():
            if inspect.isclass(kind) and kind.__module__ == found.name and not name.startswith("_"):
                homes[name].add(found.name)
    twice = {name: sorted(where) for name, where in homes.items() if len(where) > 1}
    #: One per task, and layers of a network that carry the name of their method.
    allowed = {"Identity", "TemperatureScaling", "VectorScaling"}
    assert not set(twice) - allowed, twice


def test_listings_have_one_shape() -> None:
    metrics, methods = calibrant.list_metrics(), calibrant.list_calibrators()
    assert type(metrics).__mro__[1] is type(methods).__mro__[1] is not object
    for listing in (metrics, methods):
        assert all(isinstance(name, str) for name in listing)
        assert len(listing) == len(list(listing))
        assert listing[next(iter(listing))] is not None
        assert {"name", "title"} <= set(listing.to_frame().columns)
    with pytest.warns(calibrant.errors.CalibrantDeprecationWarning) if _warns() else _nothing():
        assert list(calibrant.list_measures()) == list(metrics)


def _warns() -> bool:
    import warnings

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        calibrant.list_measures()
    return bool(caught)


def _nothing() -> Any:
    import contextlib

    return contextlib.nullcontext()


# -- point 10


def test_wheel_is_small_and_holds_no_papers() -> None:
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCE.rglob("*.py")}
    assert sum(lines.values()) <= 32_000, sum(lines.values())
    folders = {path.relative_to(SOURCE).parts[0] for path in lines}
    assert not folders & {"papers", "benchmarks", "targets", "bench"}


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
