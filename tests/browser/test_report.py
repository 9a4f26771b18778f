"""The report in a real browser: quiet, self-contained, exact, usable by keyboard, on a phone, on paper."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant.calibrators import TemperatureScaling
from calibrant.calibrators.regression import StdScaling
from calibrant.core.links import softmax
from calibrant.core.rows import check_rows
from calibrant.reporting import report_evidence
from calibrant.reporting.cells import BIN_COUNTS
from calibrant.views import ClassK
from helpers import ROOT

pytestmark = pytest.mark.browser

NASTY = "<script>alert(1)</script>"
CLASSES = (NASTY, "dog & co", "a very long class name that goes on and on and on", "fox")
SECTIONS = ("diagram", "decisions", "classes", "groups", "metrics", "added", "methods", "read", "method")


def made_up(n: int = 3000) -> dict[str, Any]:
    rng = np.random.default_rng(7)
    logits = rng.normal(size=(n, 4)) * 2
    y = (softmax(logits / 2.0).cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    day = np.array(["Mon", "Tue"])[np.arange(n) % 2]
    fitted = TemperatureScaling(space="logit").fit(logits, y)
    return {
        "y": y,
        "before": softmax(logits),
        "after": fitted.predict_proba(logits),
        "logits": logits,
        "fitted": fitted,
        "day": day,
        "labels": np.array(CLASSES)[y],
    }


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    return made_up()


@pytest.fixture(scope="module")
def plain(data: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "plain.html"
    calibrant.report(
        data["labels"],
        data["before"],
        classes=CLASSES,
        by={"day": data["day"]},
        title=f"Trial {NASTY}",
        n_resamples=100,
        output=path,
    )
    return path


@pytest.fixture(scope="module")
def repaired(data: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "repaired.html"
    calibrant.report(data["y"], data["logits"], space="logit", calibrator=data["fitted"], n_resamples=100, output=path)
    return path


def explore(page: Any) -> None:
    page.click(".explore summary")


def shown(page: Any) -> float:
    return float(page.locator("#ece").get_attribute("data-value"))


def set_bins(page: Any, m: int) -> None:
    page.locator("#bins").fill(str(BIN_COUNTS.index(m)))


def test_no_error_and_no_request_leaves(plain: Path, repaired: Path, open_page: Any) -> None:
    for path in (plain, repaired):
        page, seen = open_page(path)
        assert page.locator("h2").all_inner_texts()
        assert seen.errors == []
        assert {url.partition(":")[0] for url in seen.requests} <= {"file", "data"}
        assert sum(url.startswith("file") for url in seen.requests) == 1


def test_slider_rebins_exactly(plain: Path, data: dict[str, Any], open_page: Any) -> None:
    page, _ = open_page(plain)
    explore(page)
    for m in BIN_COUNTS:
        set_bins(page, m)
        value = calibrant.metric("ece", data["y"], data["before"], n_bins=m)
        assert shown(page) == pytest.approx(value, abs=1e-12)
        assert page.locator("#ece").inner_text() == f"{100 * value:.3f}"
        assert page.locator("#bincount").inner_text() == str(m)


def test_script_draws_what_python_draws(plain: Path, open_page: Any) -> None:
    live, _ = open_page(plain)
    still, _ = open_page(plain, java_script_enabled=False)
    for attribute in ("cx", "cy", "r"):
        ours, theirs = (
            [float(c.get_attribute(attribute)) for c in page.locator("#reliability circle").all()]
            for page in (still, live)
        )
        assert len(ours) > 5
        np.testing.assert_allclose(ours, theirs, atol=0.006)
    ribbons = [page.locator("#reliability .band").get_attribute("points").replace(",", " ") for page in (still, live)]
    ours, theirs = (np.array(points.split(), dtype=float) for points in ribbons)
    np.testing.assert_allclose(ours, theirs, atol=0.006)


def test_view_and_class_pickers(plain: Path, data: dict[str, Any], open_page: Any) -> None:
    page, seen = open_page(plain)
    explore(page)
    assert page.locator("#class").is_disabled()
    page.select_option("#view", label="probability of the 2 largest together")
    within = calibrant.metric("ece", data["y"], data["before"], view="within-2")
    assert shown(page) == pytest.approx(within, abs=1e-12)
    page.select_option("#view", "class")
    for k, name in enumerate(CLASSES):
        page.select_option("#class", label=name)
        value = calibrant.metric("ece", data["y"], data["before"], view=ClassK(k))
        assert shown(page) == pytest.approx(value, abs=1e-12)
        assert page.locator("#reliability text.axis").first.text_content() == f"probability of class {name}, %"
    assert seen.errors == []


def test_before_after_toggle(repaired: Path, data: dict[str, Any], open_page: Any) -> None:
    page, _ = open_page(repaired)
    explore(page)
    before = calibrant.metric("ece", data["y"], data["before"])
    after = calibrant.metric("ece", data["y"], data["after"])
    assert shown(page) == pytest.approx(after, abs=1e-9)
    assert f"{100 * before:.3f}%" in page.locator("#ecebefore").inner_text()
    assert page.locator("#reliability g.before circle").count() > 5
    page.click("#toggle")
    assert shown(page) == pytest.approx(before, abs=1e-9)
    assert page.locator("#toggle").get_attribute("aria-pressed") == "false"
    assert page.locator("#reliability g.before").count() == 0


def test_isotonic_overlay(plain: Path, open_page: Any) -> None:
    page, _ = open_page(plain)
    explore(page)
    assert page.locator("#reliability .isotonic").count() == 0
    page.check("#isotonic")
    points = page.locator("#reliability .isotonic").get_attribute("points").split()
    heights = [float(point.split(",")[1]) for point in points]
    assert heights == sorted(heights, reverse=True)


def test_log_odds_axes_spread_the_ends(plain: Path, open_page: Any) -> None:
    page, seen = open_page(plain)
    explore(page)

    def places() -> np.ndarray[Any, Any]:
        return np.array([float(c.get_attribute("cx")) for c in page.locator("#reliability circle").all()])

    score = (places() - 52) / 320
    value = shown(page)
    page.check("#odds")
    expected = 52 + 320 * (0.5 + 0.5 * np.log(score / (1 - score)) / np.log(999))
    np.testing.assert_allclose(places(), expected, atol=0.05)
    assert shown(page) == value
    assert "99.9" in page.locator("#reliability g.live text.tick").all_text_contents()
    page.uncheck("#odds")
    np.testing.assert_allclose((places() - 52) / 320, score)
    assert seen.errors == []


def test_every_section_has_a_link_and_the_links_work(plain: Path, open_page: Any) -> None:
    page, _ = open_page(plain)
    links = page.locator("nav a")
    assert tuple(link.get_attribute("href").lstrip("#") for link in links.all()) == SECTIONS
    assert [page.locator(f"section#{name} h2").count() for name in SECTIONS] == [1] * len(SECTIONS)
    links.nth(4).click()
    for _ in range(600):  # scrolling is smooth, and the policy of the page allows no script of a waiting test
        top = page.evaluate("document.querySelector('#metrics').getBoundingClientRect().top")
        if abs(top) < 120:
            break
        page.wait_for_timeout(100)
    assert abs(top) < 120


def test_every_table_downloads_as_csv(plain: Path, open_page: Any) -> None:
    page, _ = open_page(plain)
    found = {}
    for link in page.locator("a[download]").all():
        with page.expect_download() as waiting:
            link.click()
        page.wait_for_timeout(250)  # Chromium drops the eleventh download of a second
        found[waiting.value.suggested_filename] = waiting.value.path().read_text(encoding="utf-8")
    names = {"diagram", "decisions", "classes", "groups", "metrics", "added-up-gap", "methods"}
    assert set(found) == {f"{name}.csv" for name in names}
    assert found["classes.csv"].splitlines()[0].startswith("class,n,rate,gap_before")
    assert len(found["classes.csv"].splitlines()) == 1 + len(CLASSES)


def test_copy_and_print(repaired: Path, open_page: Any) -> None:
    page, seen = open_page(repaired, permissions=["clipboard-read", "clipboard-write"])
    page.click("button[data-copy=sentence]")
    page.locator("button[data-copy=sentence]", has_text="Copied").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith(page.locator("h1").inner_text())
    page.evaluate("window.print = () => { window.printed = true }")
    page.click("button[data-print]")
    assert page.evaluate("window.printed")
    assert seen.errors == []


def test_content_of_users_stays_text(plain: Path, open_page: Any) -> None:
    page, seen = open_page(plain)
    dialogs = []
    page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    page.reload()
    assert page.locator(".kick b").inner_text() == f"Trial {NASTY}"
    assert page.title() == f"Trial {NASTY}"
    assert NASTY in page.locator("#classes tbody").inner_text()
    assert page.locator("script").count() == 2
    assert (dialogs, seen.errors) == ([], [])


def test_formulas_are_one_click_away(plain: Path, open_page: Any) -> None:
    page, _ = open_page(plain)
    box = page.locator("#metrics details")
    assert not box.locator("math").first.is_visible()
    box.locator("summary").click()
    assert box.locator("math").first.is_visible()
    text = box.inner_text()
    assert "Expected calibration error" in text
    assert "Guo et al. (2017)" in text


@pytest.mark.parametrize("width", [320, 360, 768])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_sideways_scroll(plain: Path, repaired: Path, width: int, scheme: str, open_page: Any) -> None:
    for path in (plain, repaired):
        page, seen = open_page(path, width=width, color_scheme=scheme)
        page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert seen.errors == []


def serious(page: Any, axe: str) -> list[str]:
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    page.evaluate(axe)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    return [
        f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in found if one["impact"] in ("serious", "critical")
    ]


def test_axe_finds_nothing_serious(plain: Path, repaired: Path, axe: str, open_page: Any) -> None:
    for path in (plain, repaired):
        for width, scheme in ((1200, "light"), (360, "dark")):
            page, _ = open_page(path, width=width, color_scheme=scheme, bypass_csp=True)
            assert serious(page, axe) == []


def test_axe_can_fail(plain: Path, axe: str, open_page: Any) -> None:
    page, _ = open_page(plain, bypass_csp=True)
    page.evaluate("document.querySelector('.lead').style.color = '#bbb'")
    assert any("color-contrast" in line for line in serious(page, axe))


def test_prints_with_all_sections_and_the_verdict_first(plain: Path, open_page: Any) -> None:
    page, _ = open_page(plain)
    printed = page.pdf(format="A4", outline=True, tagged=True)
    assert printed.startswith(b"%PDF")
    page.emulate_media(media="print")
    assert page.locator("nav").is_hidden()
    assert all(link.is_hidden() for link in page.locator("a.btn").all())
    assert page.locator("#diagram svg.chart.n").is_visible()  # drawn for 358 pixels: its text is readable on paper
    assert [page.locator(f"#added svg.chart.{size}").is_visible() for size in "wmn"] == [False, True, False]


def test_phone_has_drawings_of_its_own(plain: Path, open_page: Any) -> None:
    page, _ = open_page(plain, width=360)
    wide, narrow = page.locator("#diagram .two svg.chart.w"), page.locator("#diagram .two svg.chart.n")
    assert wide.is_hidden()
    assert narrow.is_visible()
    scale = narrow.bounding_box()["width"] / 358
    assert 13 * scale > 11.5  # text of 13 pixels stays readable


def test_keyboard_alone(repaired: Path, open_page: Any) -> None:
    page, _ = open_page(repaired)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    page.focus(".explore summary")
    page.keyboard.press("Enter")
    reached = []
    for _ in range(5):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id"))
    assert [name for name in reached if name] == ["view", "bins", "isotonic", "odds", "toggle"]
    page.focus("#bins")
    before = page.locator("#bincount").inner_text()
    page.keyboard.press("ArrowRight")
    assert page.locator("#bincount").inner_text() == str(BIN_COUNTS[BIN_COUNTS.index(int(before)) + 1])
    page.focus("#reliability g.live > g.bin >> nth=-1")
    assert page.evaluate("getComputedStyle(document.activeElement.querySelector('.wilson')).visibility") == "visible"
    page.focus("a[download] >> nth=0")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_sensible_without_script(plain: Path, open_page: Any) -> None:
    page, _ = open_page(plain, java_script_enabled=False)
    assert page.locator("#diagram .two svg.chart.w circle").count() > 5
    assert page.locator("#metrics tbody tr").count() >= 5
    assert page.locator("#classes tbody tr").count() == len(CLASSES)
    assert page.locator("h1").is_visible()
    page.click(".explore summary")
    assert page.locator("#reliability circle").count() > 5
    assert not page.locator("#bins").is_visible()
    assert not page.locator(".readout").is_visible()
    assert page.locator("button:visible").count() == 0


def test_regression_page(tmp_path: Path, axe: str, open_page: Any) -> None:
    rng = np.random.default_rng(3)
    variance = rng.uniform(0.5, 3.0, 2000)
    y = rng.normal(size=2000) * np.sqrt(2 * variance)
    rows = check_rows(y, np.zeros(2000), variance, caller="report")
    path = report_evidence(rows, title=NASTY, n_resamples=100).save(tmp_path / "regression.html")
    page, seen = open_page(path, width=360, bypass_csp=True)
    assert page.locator("h1").inner_text() == "Error bars too narrow"
    assert page.locator(".kick b").inner_text() == NASTY
    assert page.locator("svg.chart.n:visible").count() == 3
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert serious(page, axe) == []
    assert seen.errors == []


def test_long_numbers_do_not_push_a_table_off_the_page(tmp_path: Path, open_page: Any) -> None:
    rng = np.random.default_rng(4)
    std = rng.uniform(2e4, 9e4, 4000)
    mean, y = np.zeros(4000), 0.4 * std * rng.normal(size=4000)
    fitted = StdScaling().fit(mean[:2000], std[:2000] ** 2, y[:2000])
    rows = check_rows(y[2000:], mean[2000:], std[2000:] ** 2, caller="report")
    path = report_evidence(rows, calibrator=fitted, n_resamples=100).save(tmp_path / "units.html")
    for width in (768, 1200):
        page, _ = open_page(path, width=width)
        assert "× 10" in page.locator("#metrics").inner_text().replace("\u00a0", " ")
        assert not page.evaluate(load_pages().CUT_OFF)


def load_pages() -> Any:
    """The script that makes the pages a reader may meet, real data left out so that every machine makes the same."""
    spec = importlib.util.spec_from_file_location("docs_make_pages", ROOT / "docs" / "make_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


HEADLINES = {
    "ten": "Overconfident, now repaired",
    "rare": "Risk overstated twofold, now repaired",
    "thousand": "Overconfident by 21.5 points",
    "thirty": "Too few rows to tell",
    "calibrated": "Calibrated within 2 points",
    "regression": "Intervals too narrow, now repaired",
    "monitor": "Calibration has broken",
    "slices": "Right overall, 2 groups off",
}


@pytest.mark.parametrize("name", HEADLINES)
def test_other_pages_fit_and_are_accessible(
    name: str, tmp_path: Path, axe: str, open_page: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CALIBRANT_DATA", raising=False)
    made = load_pages()
    path = made.PAGES[name]().save(tmp_path / f"{name}.html")
    assert path.stat().st_size < 500_000
    for width in (360, 768, 1200):
        page, seen = open_page(path, width=width, bypass_csp=True)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert not page.evaluate(made.CUT_OFF), f"a table scrolls sideways at {width}"
        assert not page.evaluate(made.BROKEN)
        assert page.evaluate(made.OVERLAP) == []
        assert page.evaluate(made.SMALL, made.LEAST[0]) == []
        assert page.evaluate(made.EMPTY) == 0, f"a chart leaves its column empty at {width}"
        assert page.locator("h1").inner_text() == HEADLINES[name]
        assert len(HEADLINES[name].split()) <= 5
        assert seen.errors == []
        assert {url.partition(":")[0] for url in seen.requests} <= {"file", "data"}
    assert serious(page, axe) == []
    page.emulate_media(media="print")
    page.set_viewport_size(made.PAPER)
    assert page.evaluate(made.SMALL, made.LEAST[1]) == [], "chart text below 7 points"
    bottom = page.evaluate("document.querySelector('#diagram figure').getBoundingClientRect().bottom")
    assert bottom <= 1017, "the first printed page holds verdict, tiles and diagram"
    page.set_viewport_size({"width": 360, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
