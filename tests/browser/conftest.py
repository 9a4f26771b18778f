"""A real browser: Debian's chromium, driven by Playwright; absent, these tests skip with the reason."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers import ROOT

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    driver = pytest.importorskip("playwright.sync_api", reason="playwright is absent")
    program = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if program is None:
        pytest.skip("chromium is absent (apt install chromium)")
    with driver.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield running
        running.close()


@pytest.fixture(scope="session")
def axe() -> str:
    """The script of axe-core, which `make axe` gets through npm."""
    script = ROOT / ".axe" / "node_modules" / "axe-core" / "axe.min.js"
    if not script.exists():
        pytest.skip("axe-core is absent (make axe)")
    return script.read_text(encoding="utf-8")


class Seen:
    """What a page did besides showing itself."""

    def __init__(self) -> None:
        self.errors: list[str] = []
        self.requests: list[str] = []


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., tuple[Any, Seen]]]:
    contexts = []

    def go(path: Path, *, width: int = 1200, **options: Any) -> tuple[Any, Seen]:
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        page, seen = context.new_page(), Seen()
        page.on("console", lambda message: seen.errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: seen.errors.append(str(error)))
        page.on("request", lambda request: seen.requests.append(request.url))
        page.goto(path.as_uri())
        return page, seen

    yield go
    for context in contexts:
        context.close()
