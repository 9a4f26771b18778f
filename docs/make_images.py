"""Make the picture of the README: the report of `calibrant demo`, photographed by Debian's chromium.

Run from the repository: ``python docs/make_images.py``.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from calibrant.workflows.demo import digits_models, run_demo

IMAGES = Path(__file__).resolve().parent / "images"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]


def main() -> None:
    from playwright.sync_api import sync_playwright

    program = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if program is None:
        sys.exit("chromium is absent (apt install chromium)")
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        run_demo(folder, models=digits_models()[:1])
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        page = browser.new_page(viewport={"width": 1144, "height": 900}, color_scheme="light")
        page.goto((Path(folder) / "report.html").as_uri())
        chart = page.locator("#diagram .two").bounding_box()
        clip = {"x": 0, "y": 0, "width": 1144, "height": chart["y"] + chart["height"] + 8}
        page.screenshot(path=IMAGES / "report.png", clip=clip, full_page=True)
        browser.close()
    print(f"report.png: {(IMAGES / 'report.png').stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
