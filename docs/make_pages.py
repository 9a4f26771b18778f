"""Make the pages a reader may meet, photograph them, and ask axe-core about each.

Run from the repository: ``python docs/make_pages.py -o out/pages [NAME …]``. Real predictions are read from the folder
of the variable CALIBRANT_DATA; without it, simulated ones take their place and the title says so. The browser tests
use the same pages.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import calibrant
from calibrant.calibrators import BetaCalibration, TemperatureScaling
from calibrant.calibrators.regression import StdScaling
from calibrant.core.links import softmax
from calibrant.core.rows import check_rows
from calibrant.reporting import Report, report_evidence

ROOT = Path(__file__).resolve().parent.parent
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
WIDTHS = (1200, 768, 360)
#: A4 without its margins of 14 mm.
PAPER = {"width": 688, "height": 1017}
CUT_OFF = "[...document.querySelectorAll('.tablebox')].some(b => b.scrollWidth > b.clientWidth + 1)"
#: Labels of one chart that lie on one another, or beyond the edge of the page.
OVERLAP = """() => [...document.querySelectorAll('svg')].filter(s => s.checkVisibility()).flatMap(svg => {
  const texts = [...svg.querySelectorAll('text')].filter(t => t.textContent.trim());
  const all = texts.map(t => [t, t.getBoundingClientRect()]);
  const flat = all.filter(([t]) => !(t.getAttribute('transform') || '').includes('rotate'));
  const off = all.filter(([, r]) => r.right > innerWidth || r.left < -2).map(([t]) => t.textContent);
  return off.concat(flat.flatMap(([a, p], i) => flat.slice(i + 1).filter(([, q]) =>
    Math.min(p.right, q.right) - Math.max(p.left, q.left) > 1 &&
    Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top) > 3
  ).map(([b]) => a.textContent + ' | ' + b.textContent)));
})"""
#: Sizes, in pixels, of chart text smaller than a limit, after the chart was scaled to its place.
SMALL = """(limit) => [...document.querySelectorAll('svg.chart')].filter(s => s.checkVisibility()).flatMap(svg => {
  const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
  const sizes = [...svg.querySelectorAll('text')].map(t => scale * parseFloat(getComputedStyle(t).fontSize));
  return sizes.filter(size => size < limit);
})"""
#: Charts of a section that leave a part of their column empty.
EMPTY = """() => [...document.querySelectorAll('section > figure > svg')].filter(s => s.checkVisibility() &&
  s.getBoundingClientRect().width < 0.95 * s.closest('section').clientWidth).length"""
#: The least size of chart text: on a screen, and on paper (7 points).
LEAST = (11.0, 9.3)
#: Options of commands that are broken at the end of a line.
BROKEN = "[...document.querySelectorAll('.one')].some(o => o.getClientRects().length > 1)"
ANIMALS = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def _real(name: str) -> dict[str, Any] | None:
    """Return the arrays of a real data set, if it is there."""
    path = Path(os.environ.get("CALIBRANT_DATA", "")) / f"{name}.npz"
    if not path.is_file():
        return None
    with np.load(path, allow_pickle=False) as archive:
        return {key: archive[key] for key in archive.files}


def _drawn(p: Any, rng: np.random.Generator) -> Any:
    return (p.cumsum(axis=1) < rng.random((len(p), 1))).sum(axis=1)


def ten_classes() -> Report:
    """Ten classes, overconfident, repaired by temperature scaling fitted on other rows."""
    found, title = _real("cifar10_resnet110"), "ResNet 110 on the CIFAR-10 test set"
    if found is None:
        rng = np.random.default_rng(1)
        logits = rng.normal(size=(15_000, 10)) * 3
        y, title = _drawn(softmax(logits / 2), rng), "Ten classes (simulated)"
        found = {
            "logits_cal": logits[:5000], "labels_cal": y[:5000], "logits_test": logits[5000:], "labels_test": y[5000:]
        }  # fmt: skip
    names = np.array(ANIMALS)
    fitted = TemperatureScaling(space="logit", classes=ANIMALS).fit(found["logits_cal"], names[found["labels_cal"]])
    return calibrant.report(
        names[found["labels_test"]], found["logits_test"], space="logit", classes=ANIMALS,
        calibrator=fitted, title=title, source="cifar10.npz",
        command="calibrant report cifar10.npz --calibrator cal.json -o report.html",
    )  # fmt: skip


def _fraud(n: int, rng: np.random.Generator) -> tuple[Any, Any]:
    risk = rng.beta(0.5, 30, n)
    return (rng.random(n) < risk).astype(int), np.clip(risk * 2.3, 0, 0.95)


def rare_events() -> Report:
    """A rare event whose risk is overstated twofold, repaired by beta calibration fitted on other rows."""
    rng = np.random.default_rng(2)
    (y_cal, p_cal), (y, p) = _fraud(20_000, rng), _fraud(40_000, rng)
    names = np.array(["no fraud", "fraud"])
    fitted = BetaCalibration(classes=names).fit(np.stack([1 - p_cal, p_cal], 1), names[y_cal])
    return calibrant.report(
        names[y], np.stack([1 - p, p], 1), classes=names, calibrator=fitted,
        title="Card fraud score (simulated)",
    )  # fmt: skip


def thousand_classes() -> Report:
    """A thousand classes, overconfident, with some classes far off."""
    rng = np.random.default_rng(3)
    n, k = 10_000, 1000
    logits = rng.normal(size=(n, k)).astype(np.float32)
    logits[np.arange(n), rng.integers(0, k, n)] += rng.normal(7, 2, n).astype(np.float32)
    p = softmax(logits * 1.3)
    y = _drawn(softmax(logits), rng)
    return calibrant.report(y, p, compare_methods=False, title="A thousand classes (simulated)")


def thirty_rows() -> Report:
    """Thirty rows: too few to tell."""
    rng = np.random.default_rng(5)
    p = rng.dirichlet([1, 1, 1], 30)
    return calibrant.report(_drawn(p, rng), p, title="A pilot of 30 rows (simulated)")


def calibrated() -> Report:
    """A calibrated model, with enough rows to prove it."""
    rng = np.random.default_rng(6)
    p = rng.dirichlet([1, 1, 1], 20_000)
    names = np.array(["low", "middle", "high"])
    return calibrant.report(names[_drawn(p, rng)], p, classes=names, title="A calibrated model (simulated)")


def regression() -> Report:
    """Means and standard deviations whose error bars are off, repaired by a factor fitted on other rows."""
    found, title = _real("qm9_evidential"), "Size of molecules (QM9, evidential network)"
    if found is None:
        rng = np.random.default_rng(7)
        std, title = rng.uniform(0.5, 3.0, 8000), "Error bars (simulated)"
        y, half = rng.normal(size=8000) * std * 1.5, slice(0, 3000)
        found = {"mean_cal": np.zeros(3000), "std_cal": std[half], "y_cal": y[half]}
        found |= {"mean_test": np.zeros(5000), "std_test": std[3000:], "y_test": y[3000:]}
    (mean_cal, std_cal, y_cal), (mean, std, y) = (
        [found[f"{name}_{part}"].astype(float) for name in ("mean", "std", "y")] for part in ("cal", "test")
    )
    fitted = StdScaling().fit(mean_cal, std_cal**2, y_cal)
    return report_evidence(check_rows(y, mean, std**2, caller="report"), calibrator=fitted, title=title)


def monitor_alarm() -> Report:
    """Fourteen days of a risk score that breaks on the ninth."""
    from calibrant.monitoring.days import add_day
    from calibrant.reporting.monitoring import report_monitor
    from calibrant.summary.summary import Summary

    rng = np.random.default_rng(8)
    with tempfile.TemporaryDirectory() as folder:
        for day in range(14):
            p = rng.uniform(0.5, 1, 1500)
            y = (rng.random(1500) < p - 0.07 * (day > 7)).astype(int)
            state = add_day(folder, Summary(n_classes=2).update(y, p), name=f"2026-03-{day + 1:02d}", rng=0)
    return report_monitor(state)


def slices() -> Report:
    """A model that is right on average and wrong at one site."""
    rng = np.random.default_rng(9)
    n = 12_000
    logits = rng.normal(size=(n, 4)) * 2
    site = rng.choice(["Boston", "Chicago", "Denver", "Houston", "Seattle"], n, p=[0.3, 0.25, 0.2, 0.15, 0.1])
    ward = rng.choice(["emergency", "surgery", "medicine"], n)
    shift = np.select([site == "Seattle", site == "Houston"], [0.5, 1.5], 1.0)
    y = _drawn(softmax(logits * shift[:, None]), rng)
    return calibrant.report(y, softmax(logits), by={"site": site, "ward": ward}, title="Triage model (simulated)")


PAGES: dict[str, Callable[[], Report]] = {
    "ten": ten_classes, "rare": rare_events, "thousand": thousand_classes, "thirty": thirty_rows,
    "calibrated": calibrated, "regression": regression, "monitor": monitor_alarm, "slices": slices,
}  # fmt: skip


def photograph(browser: Any, path: Path, folder: Path) -> list[str]:
    """Photograph one page at every width, light, dark and printed; return what is wrong with it."""
    found: list[str] = []
    name = path.stem

    def asked(request: Any) -> None:
        if not request.url.startswith(("file:", "data:")):
            found.append(request.url)

    if path.stat().st_size >= 500_000:
        found.append(f"{path.stat().st_size / 1000:.0f} kB")
    script = ROOT / ".axe" / "node_modules" / "axe-core" / "axe.min.js"
    for width in WIDTHS:
        for look in ("light", "dark", "print"):
            context = browser.new_context(
                viewport={"width": width, "height": 900}, color_scheme="dark" if look == "dark" else "light",
                bypass_csp=True,
            )  # fmt: skip
            page = context.new_page()
            page.on("request", asked)
            page.on("pageerror", lambda error, found=found: found.append(str(error)))
            page.goto(path.as_uri())
            if look == "print":
                page.emulate_media(media="print")
            page.screenshot(path=folder / f"{name}-{width}-{look}.png", full_page=True)
            if page.evaluate("document.documentElement.scrollWidth") > width:
                found.append(f"runs off at {width}, {look}")
            if page.evaluate(CUT_OFF):
                found.append(f"a table scrolls sideways at {width}, {look}")
            if page.evaluate(BROKEN):
                found.append(f"an option is broken at {width}, {look}")
            if look != "print" and page.evaluate(EMPTY):
                found.append(f"a chart leaves its column empty at {width}, {look}")
            if look != "print" and page.evaluate(SMALL, LEAST[0]):
                found.append(f"chart text is too small at {width}, {look}")
            if look != "print":
                found.extend(f"labels meet at {width}, {look}: {pair}" for pair in page.evaluate(OVERLAP))
            if look != "print" and script.exists():
                page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
                page.evaluate(script.read_text(encoding="utf-8"))
                broken = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
                found.extend(f"axe {one['impact']} at {width}, {look}: {one['id']}" for one in broken)
            context.close()
    page = browser.new_page(viewport=PAPER)
    page.goto(path.as_uri())
    page.emulate_media(media="print")
    if page.evaluate(SMALL, LEAST[1]):
        found.append("chart text is too small on paper")
    page.pdf(path=folder / f"{name}.pdf", format="A4")
    page.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=f"some of {', '.join(PAGES)}; default all")
    parser.add_argument("-o", "--output", type=Path, default=Path("out/pages"))
    asked = parser.parse_args()
    from playwright.sync_api import sync_playwright

    program = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if program is None:
        sys.exit("chromium is absent (apt install chromium)")
    asked.output.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        for name in asked.names or PAGES:
            start = time.process_time()
            path = PAGES[name]().save(asked.output / f"{name}.html")
            spent = time.process_time() - start
            found = photograph(browser, path, asked.output) or ["nothing wrong"]
            print(f"{name}: {path.stat().st_size / 1000:.0f} kB, {spent:.1f} CPU s; {'; '.join(found)}", flush=True)
        browser.close()


if __name__ == "__main__":
    main()
