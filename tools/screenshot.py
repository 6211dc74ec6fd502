"""The picture of a report for the README: its summary, and the demonstrations with one open.

    make picture     # the demo, and then:
    python tools/screenshot.py demo/report.html docs/images/report.png

Needs Playwright and Chromium (/usr/bin/chromium, or what CHROMIUM names).
"""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

WIDTH = 1280
GAP = 28


def main(page_path: Path, out: Path) -> None:
    """Open the page, take its two parts, and put one under the other."""
    from PIL import Image
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"),
            args=["--headless", "--no-sandbox", "--disable-gpu"],
        )
        page = browser.new_page(
            viewport={"width": WIDTH, "height": 1500}, color_scheme="light", reduced_motion="reduce"
        )
        page.set_default_timeout(120_000)  # a busy machine is slow
        page.goto(page_path.resolve().as_uri())
        page.wait_for_selector("html[data-ready]", state="attached")
        summary = page.locator("#details").bounding_box()
        top = page.screenshot(clip=_clip(0, summary["y"] - 8))
        page.add_style_tag(content="body > header { display: none }")  # it is above already
        page.locator("#demonstrations-title").evaluate("(node) => node.scrollIntoView()")
        page.locator("#timeline-chart[data-drawn]").wait_for()
        page.wait_for_timeout(1000)
        start = page.locator("#demonstrations-title").bounding_box()["y"]
        end = page.locator("#timeline").bounding_box()
        bottom = page.screenshot(clip=_clip(start - 8, end["y"] + end["height"] + 20))
        browser.close()
    images = [Image.open(io.BytesIO(data)).convert("RGB") for data in (top, bottom)]
    height = sum(image.height for image in images) + GAP
    whole = Image.new("RGB", (WIDTH, height), images[0].getpixel((4, images[0].height - 4)))
    whole.paste(images[0], (0, 0))
    whole.paste(images[1], (0, images[0].height + GAP))
    out.parent.mkdir(parents=True, exist_ok=True)
    whole.save(out, optimize=True)
    print(f"{out}: {WIDTH} x {height}, {out.stat().st_size / 1024:.0f} KB")


def _clip(start: float, stop: float) -> dict[str, float]:
    return {"x": 0, "y": start, "width": WIDTH, "height": stop - start}


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
