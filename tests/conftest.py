"""Shared set-up: skipped tests are listed last, with their reasons; in CI none may be skipped.

`CALIBRANT_SKIPS=list` allows them in CI too, for lanes that leave out optional packages on purpose (`.ci/nightly`).
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Generator
from typing import Any

import hypothesis
import pytest

# the same examples in every run, and no clock that judges them: what passes here passes on a loaded machine
hypothesis.settings.load_profile("ci")

#: Subpackages whose examples need a library that the example itself does not import.
_EXAMPLES_NEED = {"calibrant.plots": "matplotlib", "calibrant.testing.losses": "torch"}


def _missing(item: pytest.DoctestItem) -> list[str]:
    """Libraries an example needs that are not installed: those it imports by name, and its subpackage's."""
    source = "".join(example.source for example in item.dtest.examples) if item.dtest else ""
    names = set(re.findall(r"^(?:import|from) (\w+)", source, flags=re.MULTILINE))
    names |= {library for home, library in _EXAMPLES_NEED.items() if item.name.startswith(home)}
    return sorted(name for name in names if importlib.util.find_spec(name) is None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.DoctestItem) and (missing := _missing(item)):
            item.add_marker(pytest.mark.skip(reason=f"the example needs {', '.join(missing)}"))


def _skipped(config: pytest.Config) -> dict[str, set[str]]:
    """Skipped tests, and files skipped as a whole, by reason; empty in a worker, whose reports go to its controller."""
    found: dict[str, set[str]] = {}
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    for report in () if reporter is None or hasattr(config, "workerinput") else reporter.stats.get("skipped", ()):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reason = re.sub(r"(unable to import module) .*", r"\1", reason.removeprefix("Skipped: "))  # one heading for all
        found.setdefault(reason, set()).add(report.nodeid)
    return found


def _forbidden() -> bool:
    return bool(os.environ.get("CI")) and os.environ.get("CALIBRANT_SKIPS") != "list"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> Generator[None]:
    yield
    skipped = _skipped(config)
    if skipped:
        terminalreporter.section("skipped, which CI does not allow" if _forbidden() else "skipped")
    for reason, tests in sorted(skipped.items()):
        terminalreporter.line(f"{reason}:")
        for test in sorted(tests):
            terminalreporter.line(f"  {test}")


def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.exitstatus == 0 and _forbidden() and _skipped(session.config):
        session.exitstatus = 1


@pytest.fixture(scope="session")
def spark() -> Generator[Any]:
    """Real Spark on two cores."""
    pytest.importorskip("pyspark.sql", reason="pyspark is absent (make test-spark installs it)")
    from helpers import spark_session

    with spark_session() as made:
        yield made


@pytest.fixture(autouse=True)
def _spark_runs(request: pytest.FixtureRequest) -> None:
    """A test that is marked finds the session running, as a notebook on a cluster would."""
    if request.node.get_closest_marker("spark") is not None:
        request.getfixturevalue("spark")
