"""Names come from users: in no page and in no Markdown may one of them become an element, an attribute or a script."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

import calibrant
from calibrant.cli import cli
from calibrant.reporting.page import Report

pytestmark = pytest.mark.browser

ATTACKS = (
    "<script>window.hit = 1</script>",
    "</script><script>window.hit = 1</script>",
    '"><img src=x onerror="window.hit = 1">',
    "' onfocus=window.hit=1 autofocus tabindex=1 x='",
    "</title></svg></desc><svg onload=window.hit=1>",
    "{{ 7 * 7 }}{% raw %}",
    "&lt;img src=x onerror=window.hit=1&gt;",
    "[click](javascript:window.hit=1)",
    "![](x onerror=window.hit=1)",
    "`<b>` | a\\|b\n\n<iframe src='javascript:parent.hit=1'></iframe>",
    "-->]]><!--<script>window.hit=1</script>",
    "${window.hit=1}",
)
#: Elements that only an attack could bring.
FOREIGN = "img, iframe, object, embed, base, a:not([href^='#'], [download]), form, foreignObject, [onload], [onerror], [onfocus]"


@cache
def classification() -> Report:
    rng = np.random.default_rng(0)
    proba = rng.dirichlet(np.ones(len(ATTACKS)), 600)
    y = np.array(ATTACKS)[(proba.cumsum(axis=1) < rng.random((600, 1))).sum(axis=1)]
    by = {ATTACKS[0]: np.array(ATTACKS)[rng.integers(0, len(ATTACKS), 600)]}
    words = {"title": ATTACKS[4], "source": ATTACKS[2], "command": ATTACKS[1]}
    return calibrant.report(y, proba, classes=ATTACKS, by=by, n_resamples=20, compare_methods=False, **words)


@cache
def regression() -> Report:
    rng = np.random.default_rng(0)
    frame = {"y": rng.normal(size=400), "mean": np.zeros(400), "variance": np.ones(400)}
    frame[ATTACKS[0]] = np.array(ATTACKS)[rng.integers(0, len(ATTACKS), 400)]
    return calibrant.report(pl.DataFrame(frame), by=ATTACKS[0], title=ATTACKS[4], source=ATTACKS[2], n_resamples=20)


def days(folder: Path) -> Path:
    rng = np.random.default_rng(0)
    page = folder / "monitor.html"
    for i, attack in enumerate((*ATTACKS[:3], "<svg onload=window.hit=1>")):
        p = rng.uniform(0.5, 1, 300)
        day = folder / f"{attack.replace('/', ' ').splitlines()[0]}.npz"
        np.savez(day, probs=p, labels=rng.random(300) < p - 0.3 * (i == 2))
        done = CliRunner().invoke(
            cli, ["monitor", str(folder / "store"), str(day), "--report", str(page), "--name", day.stem]
        )
        assert done.exit_code in {0, 3}, done.output
    return page


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    notebook = folder / "notebook.html"
    notebook.write_text("<!doctype html><meta charset=utf-8>" + classification()._repr_html_(), encoding="utf-8")
    return {
        "report": classification().save(folder / "report.html"),
        "regression": regression().save(folder / "regression.html"),
        "monitor": days(folder),
        "notebook": notebook,
    }


@pytest.mark.parametrize("kind", ["report", "regression", "monitor", "notebook"])
@pytest.mark.parametrize("guarded", [True, False])
def test_no_name_becomes_markup(
    kind: str, guarded: bool, pages: dict[str, Path], open_page: Callable[..., Any]
) -> None:
    """Escaping is enough by itself: the same holds when the browser ignores the content security policy."""
    page, seen = open_page(pages[kind], bypass_csp=not guarded)
    assert page.evaluate("window.hit") is None
    assert page.locator(FOREIGN).count() == 0
    assert page.locator("script").count() == {"report": 2, "notebook": 0}.get(kind, 1)
    if kind == "report":
        page.click(".explore summary")
        page.select_option("#view", "class")
        for option in page.locator("#class option").all():
            page.select_option("#class", value=option.get_attribute("value"))
        page.locator("[tabindex]").last.focus()
        assert page.evaluate("window.hit") is None
        assert page.locator(FOREIGN).count() == 0
    assert seen.errors == []


def test_day_is_read_as_written(pages: dict[str, Path], open_page: Callable[..., Any]) -> None:
    page, _ = open_page(pages["monitor"])
    titles = page.locator("svg circle title").all_text_contents()
    assert any(title.startswith("<svg onload=window.hit=1>:") for title in titles)
    assert page.locator("#days tbody th").last.inner_text().startswith("<script>")
    assert "Window(" not in page.locator("body").inner_text()


@pytest.mark.parametrize("kind", ["report", "regression", "monitor"])
def test_policy_lets_our_script_alone_run(
    kind: str, pages: dict[str, Path], tmp_path: Path, open_page: Callable[..., Any]
) -> None:
    """Were an escape ever forgotten, the browser would still refuse the script."""
    text = pages[kind].read_text(encoding="utf-8")
    assert "script-src &#39;sha256-" in text
    attacked = tmp_path / f"{kind}.html"
    attack = "<script>window.hit = 1</script><img src=x onerror='window.hit = 1'>"
    attacked.write_text(text.replace("<main", attack + "<main", 1), encoding="utf-8")
    page, seen = open_page(attacked)
    page.wait_for_timeout(50)
    assert page.evaluate("window.hit") is None
    assert any("Content Security Policy" in error for error in seen.errors)
    if kind == "report":
        assert page.locator("#ece").text_content() != ""


@pytest.mark.parametrize("make", [classification, regression])
def test_markdown(make: Callable[[], Report], tmp_path: Path, open_page: Callable[..., Any]) -> None:
    """Rendered by a program that lets raw HTML through, names stay text and tables keep their columns."""
    reader = pytest.importorskip("markdown_it", reason="markdown-it-py is absent (it comes with the documentation)")
    markdown = make().markdown
    rendered = reader.MarkdownIt("commonmark", {"html": True}).enable("table").render(markdown)
    path = tmp_path / "markdown.html"
    path.write_text("<!doctype html><meta charset=utf-8>" + rendered, encoding="utf-8")
    page, seen = open_page(path)
    assert page.evaluate("window.hit") is None
    assert page.locator(FOREIGN).count() == 0
    assert page.locator("script, code").count() == 0
    for table in page.locator("table").all():
        assert len({row.locator("th, td").count() for row in table.locator("tr").all()}) == 1
    if make is classification:
        assert set(page.locator("table").nth(1).locator("td:first-child").all_text_contents()) == {
            " ".join(name.splitlines()) for name in ATTACKS
        }
    assert seen.errors == []
