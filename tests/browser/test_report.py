"""The report in a real browser: quiet, self-contained, exact, usable by keyboard, on a phone, on paper."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant.calibrators import TemperatureScaling
from calibrant.core.links import softmax
from calibrant.reporting.cells import BIN_COUNTS
from calibrant.views import ClassK

pytestmark = pytest.mark.browser

NASTY = "<script>alert(1)</script>"
CLASSES = (NASTY, "dog & co", "a very long class name that goes on and on and on", "fox")
HEADINGS = ("How sure", "What next", "Cumulative graphs", "Classes", "Slices", "What this many rows can show", "Method")


def made_up(n: int = 3000) -> dict[str, Any]:
    rng = np.random.default_rng(7)
    logits = rng.normal(size=(n, 4)) * 2
    y = (softmax(logits / 2.0).cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    day = np.array(["Mon", "Tue"])[np.arange(n) % 2]
    fitted = TemperatureScaling(space="logit").fit(logits, y)
    return {"y": y, "before": softmax(logits), "after": fitted.predict_proba(logits), "logits": logits, "fitted": fitted,
            "day": day, "labels": np.array(CLASSES)[y]}


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    return made_up()


@pytest.fixture(scope="module")
def plain(data: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "plain.html"
    calibrant.report(
        data["labels"], data["before"], classes=CLASSES, by={"day": data["day"]}, title=f"Trial {NASTY}",
        n_resamples=100, output=path,
    )
    return path


@pytest.fixture(scope="module")
def repaired(data: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "repaired.html"
    calibrant.report(
        data["y"], data["logits"], space="logit", calibrator=data["fitted"], n_resamples=100, output=path
    )
    return path


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
    for m in BIN_COUNTS:
        set_bins(page, m)
        value = calibrant.measure("ece", data["y"], data["before"], n_bins=m)
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
    assert page.locator("#class").is_disabled()
    page.select_option("#view", label="the two largest probabilities together")
    within = calibrant.measure("ece", data["y"], data["before"], view="within-2")
    assert shown(page) == pytest.approx(within, abs=1e-12)
    page.select_option("#view", "class")
    for k, name in enumerate(CLASSES):
        page.select_option("#class", label=name)
        value = calibrant.measure("ece", data["y"], data["before"], view=ClassK(k))
        assert shown(page) == pytest.approx(value, abs=1e-12)
        assert page.locator("#reliability text.axis").first.text_content() == f"probability of class {name}, %"
    assert seen.errors == []


def test_before_after_toggle(repaired: Path, data: dict[str, Any], open_page: Any) -> None:
    page, _ = open_page(repaired)
    before = calibrant.measure("ece", data["y"], data["before"])
    after = calibrant.measure("ece", data["y"], data["after"])
    assert shown(page) == pytest.approx(after, abs=1e-9)
    assert f"{100 * before:.3f} %" in page.locator("#ecebefore").inner_text()
    assert page.locator("#reliability g.before circle").count() > 5
    page.click("#toggle")
    assert shown(page) == pytest.approx(before, abs=1e-9)
    assert page.locator("#toggle").get_attribute("aria-pressed") == "false"
    assert page.locator("#reliability g.before").count() == 0


def test_isotonic_overlay(plain: Path, open_page: Any) -> None:
    page, _ = open_page(plain)
    assert page.locator("#reliability .isotonic").count() == 0
    page.check("#isotonic")
    points = page.locator("#reliability .isotonic").get_attribute("points").split()
    heights = [float(point.split(",")[1]) for point in points]
    assert heights == sorted(heights, reverse=True)


def test_log_odds_axes_spread_the_ends(plain: Path, open_page: Any) -> None:
    page, seen = open_page(plain)

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


def test_tables_sort(plain: Path, open_page: Any) -> None:
    page, _ = open_page(plain)
    rows = page.locator("#classes tbody tr")

    def column(at: int) -> list[str]:
        return [row.locator("th,td").nth(at).get_attribute("data-value") for row in rows.all()]

    errors = [float(v) for v in column(5)]
    assert errors == sorted(errors, reverse=True)
    button = page.locator("#classes thead button").nth(1)
    button.click()
    shares = [float(v) for v in column(1)]
    assert shares == sorted(shares, reverse=True)
    button.click()
    assert [float(v) for v in column(1)] == sorted(shares)
    page.locator("#classes thead button").first.click()
    page.locator("#classes thead button").first.click()
    assert column(0) == sorted(CLASSES, key=str.lower)


def test_content_of_users_stays_text(plain: Path, open_page: Any) -> None:
    page, seen = open_page(plain)
    dialogs = []
    page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    page.reload()
    assert page.locator("h1").inner_text() == f"Trial {NASTY}"
    assert page.title() == f"Trial {NASTY}"
    assert NASTY in page.locator("#classes tbody").inner_text()
    assert page.locator("script").count() == 2
    assert (dialogs, seen.errors) == ([], [])


def test_rows_open_to_an_explanation(plain: Path, open_page: Any) -> None:
    page, _ = open_page(plain)
    line = page.locator("#sure tbody tr", has=page.locator("th", has_text="ece")).first
    assert not line.locator("details p").first.is_visible()
    line.locator("summary").click()
    text = line.locator("details").inner_text()
    assert "Expected calibration error" in text
    assert "Σ_b" in text
    assert "Guo et al. (2017)" in text


@pytest.mark.parametrize("width", [320, 390, 768])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_sideways_scroll(plain: Path, repaired: Path, width: int, scheme: str, open_page: Any) -> None:
    for path in (plain, repaired):
        page, seen = open_page(path, width=width, color_scheme=scheme)
        page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert seen.errors == []


def test_text_is_readable_in_light_and_dark(plain: Path, open_page: Any) -> None:
    """WCAG AA: 4.5 to 1 for text in every colour the page uses for words."""
    script = """() => ['body', '.note', '.legend .o', '.legend .u', 'svg text.tick', 'svg text.mark'].map(s => {
        const style = getComputedStyle(document.querySelector(s));
        return [s.startsWith('svg') ? style.fill : style.color, getComputedStyle(document.body).backgroundColor];
    })"""

    def luminance(colour: str) -> float:
        parts = np.array([float(p) for p in colour[colour.index("(") + 1 : -1].split(",")[:3]]) / 255
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    for scheme in ("light", "dark"):
        page, _ = open_page(plain, color_scheme=scheme)
        for ink, paper in page.evaluate(script):
            low, high = sorted((luminance(ink), luminance(paper)))
            assert (high + 0.05) / (low + 0.05) >= 4.5, (scheme, ink, paper)


def test_prints_with_all_sections(plain: Path, open_page: Any) -> None:
    page, _ = open_page(plain)
    printed = page.pdf(format="A4", outline=True, tagged=True)
    assert printed.startswith(b"%PDF")
    for heading in HEADINGS:
        utf16 = ("\ufeff" + heading).encode("utf-16-be").hex().upper().encode()
        assert heading.encode() in printed or utf16 in printed.upper(), heading


def test_keyboard_alone(repaired: Path, open_page: Any) -> None:
    page, _ = open_page(repaired)
    reached = []
    for _ in range(7):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id"))
    assert [name for name in reached if name] == ["view", "bins", "isotonic", "odds", "toggle"]
    page.focus("#bins")
    before = page.locator("#bincount").inner_text()
    page.keyboard.press("ArrowRight")
    assert page.locator("#bincount").inner_text() == str(BIN_COUNTS[BIN_COUNTS.index(int(before)) + 1])
    page.focus("#reliability g.live > g.bin >> nth=-1")
    assert page.evaluate("getComputedStyle(document.activeElement.querySelector('.wilson')).visibility") == "visible"
    page.focus("#classes thead button >> nth=1")
    page.keyboard.press("Enter")
    assert page.locator("#classes thead th").nth(1).get_attribute("aria-sort") == "descending"


def test_sensible_without_script(plain: Path, open_page: Any) -> None:
    page, _ = open_page(plain, java_script_enabled=False)
    assert page.locator("#reliability circle").count() > 5
    assert page.locator("#sure tbody tr").count() >= 7
    assert page.locator("#classes tbody tr").count() == len(CLASSES)
    assert page.locator(".verdict").first.is_visible()
    assert not page.locator("#bins").is_visible()
    assert not page.locator(".readout").is_visible()


def test_regression_page(tmp_path: Path, open_page: Any) -> None:
    from types import SimpleNamespace

    from calibrant.reporting.regression import report_regression

    rng = np.random.default_rng(3)
    variance = rng.uniform(0.5, 3.0, 2000)
    y = rng.normal(size=2000) * np.sqrt(2 * variance)
    rows = SimpleNamespace(scores=np.zeros(2000), variance=variance, truth=y, weights=None)
    path = report_regression(rows, title=NASTY, n_resamples=100).save(tmp_path / "regression.html")
    page, seen = open_page(path, width=390)
    assert page.locator("h1").inner_text() == NASTY
    assert page.locator("svg.figure").count() == 2
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert seen.errors == []
