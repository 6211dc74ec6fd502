"""How quickly the page of a million steps answers in a browser: from a key or click to the frame.

    python benchmarks/page_speed.py                              # makes the page of 1,000,000 steps
    python benchmarks/page_speed.py --page report.html           # of a page that there is

Real keys and clicks in Chromium (Playwright; /usr/bin/chromium, or what CHROMIUM names). An answer
is timed from the moment at which the browser took the event in until the first frame after its
handlers was painted, and for what redraws the timeline until the frame with the new chart was. The
least and the middle of some repeats are given, and the processor time of the page's main thread
until then, the middle one: on a busy machine the others wait for their turn.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tyro

from common.report import Target, begin, finish, print_table
from common.worlds import walk

LIMIT = 100.0  # milliseconds
COLUMNS = ("least", "middle", "cpu")
WATCH = """([kind, chart]) => {
  window.answer = new Promise((done) => {
    addEventListener(kind, (event) => {
      const painted = (tell) => requestAnimationFrame(() => {
        const after = new MessageChannel();  // a frame is painted before the next task
        after.port1.onmessage = () => tell(performance.now() - event.timeStamp);
        after.port2.postMessage(null);
      });
      const box = document.getElementById("timeline-chart");
      if (chart) box.once("plotly_afterplot", () => painted(done));
      else painted(done);
    }, { capture: true, once: true });
  });
}"""


def main(
    steps: int = 1_000_000,
    page: Path | None = None,
    repeats: int = 7,
    json: Path | None = None,
) -> None:
    """Measure, and print a table.

    Args:
        steps: Of the page that is made where none is given.
        page: That there is already.
        repeats: Of each action.
        json: Save everything to this file.
    """
    about = begin(page=str(page) if page else f"{steps:,} steps", repeats=repeats)
    with tempfile.TemporaryDirectory() as base:
        place = page or Path(base) / "page.html"
        if page is None:
            make(place, steps)
        rows, megabytes = time_answers(place, repeats), place.stat().st_size / 1e6
    print_table(
        ["action", "least, ms", "middle, ms", "CPU, ms"],
        [[r["action"], *("-" if r[n] is None else f"{r[n]:.0f}" for n in COLUMNS)] for r in rows],
    )
    targets = [Target(f"{r['action']}, ms", r["least"], at_most=LIMIT) for r in rows[1:]]
    targets.append(Target("page, MB", megabytes, at_most=15.0))
    finish(about, rows, targets, json)


def make(place: Path, steps: int) -> None:
    """The page of a walk of so many steps; what its judge learned from matters little here."""
    import sdil
    from sdil.explanation.explain import explain
    from sdil.report.page import render

    judge = sdil.Judge().fit(walk(10_000, discrete=False), seed=0)
    demos = walk(steps, discrete=False)
    place.write_text(render(explain(judge, demos, about={"title": "page speed"})), "utf-8")


def time_answers(place: Path, repeats: int) -> list[dict[str, Any]]:
    """How long the page took to open, and each action on it once its timeline is drawn."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"),
            args=["--headless", "--no-sandbox", "--disable-gpu"],
        )
        page = browser.new_page(viewport={"width": 1280, "height": 1000}, reduced_motion="reduce")
        page.set_default_timeout(300_000)  # a busy machine is slow
        page.goto(place.resolve().as_uri())
        page.wait_for_selector("html[data-ready]", state="attached")
        loaded = page.evaluate("performance.getEntriesByType('navigation')[0].domInteractive")
        page.locator("#demonstrations-title").evaluate("(node) => node.scrollIntoView()")
        page.locator("#timeline-chart[data-drawn]").wait_for()
        keys = page.keyboard
        metrics = page.context.new_cdp_session(page)
        metrics.send("Performance.enable", {"timeDomain": "threadTicks"})

        def used() -> float:
            found = metrics.send("Performance.getMetrics")["metrics"]
            return next(1e3 * m["value"] for m in found if m["name"] == "TaskDuration")

        opened = {"action": "open the page (once)", "least": loaded, "middle": loaded}
        rows: list[dict[str, Any]] = [opened | {"cpu": None}]

        def timed(
            name: str,
            kind: str,
            act: Callable[[], None],
            *,
            chart: bool = False,
            ready: Callable[[], None] = lambda: None,
        ) -> None:
            took, cpu = [], []
            for _ in range(repeats):
                page.wait_for_timeout(400)  # what followed the last one is done
                ready()
                page.evaluate(WATCH, [kind, chart])
                before = used()
                act()
                took.append(page.evaluate("window.answer"))
                cpu.append(used() - before)
            middle, work = statistics.median(took), statistics.median(cpu)
            rows.append({"action": name, "least": min(took), "middle": middle, "cpu": work})

        page.locator("#rows tr[data-place='0']").focus()
        timed("next demonstration in the list (key)", "keydown", lambda: keys.press("ArrowDown"))

        def go_to_the_next() -> None:
            keys.press("ArrowDown")
            page.wait_for_timeout(300)

        timed(
            "open it, to the new chart (key)",
            "keydown",
            lambda: keys.press("Enter"),
            chart=True,
            ready=go_to_the_next,
        )
        timed("leave it out (key)", "keydown", lambda: keys.press("x"))
        timed("sort by name (click)", "click", page.locator("#heads th.id button").click)
        search = page.locator("#search")
        timed("search (key)", "input", lambda: search.press("1"))
        search.fill("")
        page.locator("#cursor").press("Home")  # there are steps to the right
        timed("next step (key)", "input", lambda: keys.press("ArrowRight"))
        slider = page.locator("#threshold")
        slider.focus()
        timed("threshold (key)", "input", lambda: keys.press("ArrowRight"))
        browser.close()
    return rows


if __name__ == "__main__":
    tyro.cli(main)
