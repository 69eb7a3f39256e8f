"""Draws report.png, the first part of the report of the tutorial: python docs/images/report.py

It needs Chromium and the packages of ``pip install "vrmf[dev]"``.
"""

from __future__ import annotations

import io
import shutil
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright
from sklearn.datasets import load_digits

import vrmf

#: What is shown, in pixels of the page.
WIDTH, HEIGHT = 1000, 1500


def main() -> None:
    """Write the picture beside this file."""
    X = load_digits().data
    report = vrmf.NMF(n_components=16, random_state=0).fit(X).report(X, image_shape=(8, 8))
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = Path(folder) / "report.html"
        report.save(path)
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-drawn]")
        shot = Image.open(io.BytesIO(page.screenshot()))
        browser.close()
    shot = shot.convert("RGB").quantize(64)
    shot.save(Path(__file__).parent / "report.png", optimize=True)


if __name__ == "__main__":
    main()
