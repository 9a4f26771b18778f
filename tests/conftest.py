"""Shared set-up: in CI no test may be skipped."""

from __future__ import annotations

import os

import pytest

_SKIPPED: list[str] = []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        _SKIPPED.append(f"{report.nodeid}: {reason}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _SKIPPED and os.environ.get("CI"):
        terminalreporter.section("skipped, which CI does not allow")
        for line in _SKIPPED:
            terminalreporter.line(line)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if _SKIPPED and os.environ.get("CI") and session.exitstatus == 0 and not hasattr(session.config, "workerinput"):
        session.exitstatus = 1
