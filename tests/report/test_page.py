"""The page in a real Chromium, opened from disk. Skipped where there is none, but not in CI."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from synthetic import explanation, kept_segments, offsets_of

from sdil.explanation.pictures import make_strip
from sdil.explanation.record import Explanation
from sdil.report.page import render

NASTY = ["<script>alert(1)</script>", '</script><img src=x onerror="window.hacked = 1">', "a & <b>"]


class Opened:
    """A page and everything it complained about or asked for."""

    def __init__(self, browser, path, *, charts=True, **options):
        options = {"viewport": {"width": 1280, "height": 640}, "color_scheme": "light"} | options
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        if not charts:  # none ever comes into sight: starting Plotly takes longer than most tests
            self.page.add_init_script("IntersectionObserver.prototype.observe = () => {};")
        self.errors: list[str] = []
        self.asked: list[str] = []
        self.page.on(
            "console",
            lambda said: (
                self.errors.append(said.text) if said.type in ("error", "warning") else None
            ),
        )
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("html[data-ready]", state="attached")

    def text(self, selector: str) -> str:
        return self.page.locator(selector).inner_text()

    def rows(self, cell: str) -> list[str]:
        return self.page.locator(f"#rows tr[data-place] td.{cell}").all_inner_texts()

    def see_everything(self) -> None:
        """Bring every chart into view, and wait until it is drawn."""
        for chart in self.page.locator(".chart").all():
            chart.scroll_into_view_if_needed()
            chart.and_(self.page.locator("[data-drawn]")).wait_for()

    def slide(self, threshold: float) -> None:
        self.page.locator("#threshold").fill(str(threshold))

    def download(self) -> dict:
        with self.page.expect_download() as waiting:
            self.page.click("#download")
        assert waiting.value.suggested_filename == "selection.json"
        return json.loads(Path(waiting.value.path()).read_text("utf-8"))


@pytest.fixture
def open_page(browser, tmp_path):
    opened: list[Opened] = []

    def open_it(record: Explanation, **options) -> Opened:
        path = tmp_path / f"report {len(opened)}.html"
        path.write_text(render(record), "utf-8")
        opened.append(Opened(browser, path, **options))
        return opened[-1]

    yield open_it
    for page in opened:
        page.context.close()


@pytest.fixture(scope="module")
def record():
    return explanation(20, 60)


@pytest.fixture(scope="module")
def on_disk(record, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(render(record), "utf-8")
    return path


@pytest.fixture
def page(browser, on_disk):
    yield from _watched(Opened(browser, on_disk))


@pytest.fixture
def chartless(browser, on_disk):
    yield from _watched(Opened(browser, on_disk, charts=False))


def _watched(opened):
    yield opened
    opened.context.close()
    assert opened.errors == []
    assert [url for url in opened.asked if not url.startswith(("file:", "data:", "blob:"))] == []


def lengths(record):
    return np.diff(record.episodes.offsets)


def means(record):
    return np.array([record.scores.optimality[a:b].mean() for a, b in offsets_of(record)])


def test_summary_comes_first_and_every_chart_is_drawn(page, record):
    assert page.text("h1") == "SDIL on fourrooms"
    assert "20 trusted (clean) and 60 doubtful (noisy)" in page.text("#lead")
    assert "0.763 to 0.799" in page.text("#facts")
    assert "fairly well (AUROC 0.83" in page.text("#verdict")
    top = page.page.evaluate(
        "['summary', 'skills', 'studies', 'demonstrations'].map("
        "(id) => document.getElementById(id).getBoundingClientRect().top)"
    )
    assert top == sorted(top)
    assert page.page.locator(".chart").count() == 10
    page.see_everything()


def test_rows_are_sorted_by_what_is_clicked(chartless, record):
    assert float(chartless.rows("mean")[0].replace("−", "-")) == pytest.approx(
        means(record).min(), abs=0.006
    )
    chartless.page.click("th.length button")
    shortest = [int(text) for text in chartless.rows("length")]
    assert shortest == sorted(lengths(record))[: len(shortest)]
    chartless.page.click("th.length button")
    longest = [int(text) for text in chartless.rows("length")]
    assert longest == sorted(lengths(record), reverse=True)[: len(longest)]
    assert chartless.page.get_attribute("th.length", "aria-sort") == "descending"
    chartless.page.click("th.id button")  # by name, numbers as numbers
    assert chartless.rows("id")[:6] == [f"episode_{i}" for i in (0, 0, 1, 1, 2, 2)]


def test_worst_segment_is_the_lowest_mean(chartless, record):
    scores = record.scores
    worst = []
    for start, stop in offsets_of(record):
        of = scores.segment[start:stop]
        worst.append(
            min(float(scores.optimality[start:stop][of == s].mean()) for s in np.unique(of))
        )
    chartless.page.click("th.worst button")
    shown = [float(text.split()[0].replace("−", "-")) for text in chartless.rows("worst")]
    assert shown == pytest.approx(sorted(worst)[: len(shown)], abs=0.006)


def test_list_is_filtered_by_set_name_group_and_limits(chartless, record):
    chartless.page.click("#filters label:has-text('Noisy')")
    assert chartless.text("#count") == "60 of 80"
    assert set(chartless.rows("set")) == {"noisy"}
    chartless.page.fill("#search", "EPISODE_5")
    assert chartless.text("#count") == "11 of 80"  # 5, 50 to 59
    chartless.page.fill("#search", "operator b")
    with_b = [g == "operator B" for g in record.episodes.groups]
    assert chartless.text("#count") == f"{sum(with_b[20:])} of 80"
    chartless.page.fill("#search", "no such thing")
    assert "No demonstration fits" in chartless.text("#rows")
    chartless.page.fill("#search", "")
    chartless.page.click(".limits summary")
    chartless.page.get_by_label("Steps at least").fill("30")
    chartless.page.get_by_label("Mean score at most").fill("0.1")
    fits = (lengths(record) >= 30) & (means(record) <= 0.1) & ~record.episodes.is_clean
    assert chartless.text("#count") == f"{fits.sum()} of 80"
    assert 0 < fits.sum() < 60


@pytest.mark.slow
def test_a_click_opens_the_timeline(page, record):
    page.page.click("th.length button")
    page.page.click("th.length button")
    row = page.page.locator("#rows tr[data-place]").nth(3)
    name = row.locator("td.id").inner_text()
    row.locator("td.id").click()
    assert page.text("#timeline-name") == name
    assert page.page.locator("#rows tr[aria-selected=true] td.id").inner_text() == name
    page.page.locator("#timeline-chart[data-drawn]").wait_for()
    names = "document.getElementById('timeline-chart').data.map((t) => t.name).filter(Boolean)"
    assert page.page.evaluate(names) == [
        "spread", "by skill", "by likelihood", "by discriminator", "how well", "score",
        "does not fit",
    ]  # fmt: skip
    page.page.uncheck("#parts")
    assert page.page.evaluate(names) == ["spread", "how well", "score", "does not fit"]
    rows = "document.getElementById('timeline-chart').layout.yaxis2.ticktext"
    assert set(page.page.evaluate(rows)) >= {"skill", "truth", "fits"}
    page.page.locator("#cursor").fill("7")
    told = page.text("#told")
    assert "7 of 0–" in told
    at = offsets_of(record)[record.episodes.ids.index(name)][0] + 7
    for label, values in (("how well", "quality"), ("next state fits", "integrity")):
        value = f"{getattr(record.scores, values)[at]:.2f}".replace("-", "−")
        assert f"{label}\n{value}" in told


def test_how_well_each_went_is_a_column(chartless, record):
    chartless.page.click("th.well button")
    well = [record.scores.quality[a:b].mean() for a, b in offsets_of(record)]
    shown = [float(text.replace("−", "-")) for text in chartless.rows("well")]
    assert len(shown) > 5
    assert shown == pytest.approx(sorted(well)[: len(shown)], abs=0.006)


@pytest.mark.slow
def test_a_record_of_before_shows_no_second_answer(browser, record, tmp_path):
    path = tmp_path / "before.html"
    before = replace(record, scores=replace(record.scores, quality=None, integrity=None))
    path.write_text(render(before), "utf-8")
    opened = Opened(browser, path)
    assert opened.page.locator("th.well").count() == 0
    opened.page.locator("#timeline-chart").scroll_into_view_if_needed()
    opened.page.locator("#timeline-chart[data-drawn]").wait_for()
    drawn = "document.getElementById('timeline-chart').data.map((t) => t.name).filter(Boolean)"
    assert not {"how well", "does not fit"} & set(opened.page.evaluate(drawn))
    assert "fits" not in opened.text("#told")
    assert opened.errors == []
    opened.context.close()


def test_where_steps_are_unknown_episodes_are_sorted_by_how_well_they_went(
    browser, record, tmp_path
):
    path = tmp_path / "unknown.html"
    about = {**record.about, "unknown": {"step": "which steps are good is unknown"}}
    silent = replace(record.scores, optimality=np.zeros_like(record.scores.optimality))
    path.write_text(render(replace(record, about=about, scores=silent)), "utf-8")
    opened = Opened(browser, path, charts=False)
    assert "Those that went worst come first." in opened.text("#demonstrations")
    shown = [float(text.replace("−", "-")) for text in opened.rows("well")]
    assert shown == sorted(shown)
    assert shown[0] < shown[-1]
    assert "Good steps\nunknown" in opened.text("#facts")
    assert "Which steps are good is unknown." in opened.text("#verdict .doubt >> nth=0")
    opened.context.close()


def test_the_frame_is_the_one_under_the_cursor(chartless, record):
    chartless.page.click("#filters label:has-text('Noisy')")
    chartless.page.click("th.id button")
    chartless.page.locator("#rows td.id").first.click()
    frames = record.frames["noisy/episode_0"]
    for step in (0, len(frames) - 1):
        chartless.page.locator("#cursor").fill(str(step))
        assert chartless.page.get_attribute("#viewer img", "src") == frames[step]


def filmed(record: Explanation) -> Explanation:
    """The same, two cameras showing by colours which step it is, every third one of it; of the
    first noisy demonstration there are none."""
    strips = {}
    for e, (start, stop) in enumerate(offsets_of(record)):
        steps = range(0, stop - start, 3)
        name = f"{'clean' if record.episodes.is_clean[e] else 'noisy'}/{record.episodes.ids[e]}"
        strips[name] = {
            camera: make_strip(
                [np.full((12, 16, 3), (t, blue, 9), np.uint8) for t in steps], 3, 9**9
            )
            for camera, blue in (("front", 50), ("<b>side</b>", 150))
        }
    del strips["noisy/episode_0"]
    return replace(
        record, strips=strips, frames={}, about=record.about | {"pictures": ["79 of 80"]}
    )


def test_pictures_are_in_step_with_the_cursor(open_page, record):
    opened = open_page(filmed(record), charts=False)
    page = opened.page
    pixel = """() => {
      const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
      pen.drawImage(document.querySelector(".film canvas"), 0, 0);
      return String(pen.getImageData(5, 5, 1, 1).data);
    }"""

    def shows(*colour):
        page.wait_for_function(f"(c) => ({pixel})() === c", arg=f"{','.join(map(str, colour))},255")

    page.click("#filters label:has-text('Noisy')")
    page.click("th.id button")
    page.locator("#rows td.id").nth(1).click()
    for step in (0, 2, 3, 7):
        page.locator("#cursor").fill(str(step))
        shows(step // 3 * 3, 50, 9)
    assert "every 3 steps, 16\u00a0×\u00a012" in opened.text(".film")
    page.select_option(".film select", "<b>side</b>")  # a name, never markup
    shows(6, 150, 9)
    page.locator("#rows td.id").nth(2).click()  # the camera that was chosen stays
    page.locator("#cursor").fill("4")
    shows(3, 150, 9)
    page.click(".film button")
    page.wait_for_function("() => Number(document.getElementById('cursor').value) > 4")
    page.locator("#rows td.id").nth(0).click()
    assert "no pictures" in opened.text(".film")
    assert "79 of 80" in opened.text(".film")
    assert opened.errors == []
    assert [u for u in opened.asked if not u.startswith(("file:", "data:", "blob:"))] == []


@pytest.mark.slow
def test_the_slider_counts_what_numpy_counts(page, record):
    noisy = np.repeat(~record.episodes.is_clean, lengths(record))
    good = record.episodes.good == 1
    for threshold in (-1, -0.27, 0, 0.61):
        page.slide(threshold)
        segments = kept_segments(record, threshold)
        kept = np.zeros(len(noisy), bool)
        begins = dict(
            zip(record.episodes.ids[-60:], record.episodes.offsets[-61:-1].tolist(), strict=True)
        )
        for part in segments:
            first = begins[part["episode"]]
            kept[first + part["start"] : first + part["stop"]] = True
        told = page.text("#outcome")
        assert f"{kept.sum():,} of {noisy.sum():,}" in told
        assert f"{len({s['episode'] for s in segments})} of 60" in told
        assert f"Segments\n{len(segments):,}" in told
        assert f"{(kept & good).sum() / kept.sum():.1%} are truly good" in page.text(
            "#outcome-truth"
        )
    assert page.text("#threshold-value") == "0.61"
    page.see_everything()  # charts catch up when they are seen
    recall = (kept & good).sum() / (noisy & good).sum()
    page.page.wait_for_function(
        "(x) => Math.abs(document.querySelector('#truth-panels .chart').data[2].x[0] - x) < 1e-9",
        arg=float(recall),
    )


@pytest.mark.slow
def test_the_choice_that_is_downloaded(chartless, record):
    chartless.slide(0.2)
    first = chartless.download()
    assert first == {
        "format": "sdil-selection",
        "version": 1,
        "fingerprint": "sha256:3b1f",
        "threshold": 0.2,
        "segments": kept_segments(record, 0.2),
    }
    chartless.page.click("#filters label:has-text('Noisy')")
    chartless.page.click("th.id button")
    chartless.page.locator("#rows tr[data-place]").nth(2).locator("input").uncheck()
    chartless.page.locator("#rows tr[data-place]").nth(4).locator("td.id").click()
    chartless.page.check("#leave-out")
    assert "2 left out by hand" in chartless.text("#outcome")
    assert chartless.download()["segments"] == kept_segments(record, 0.2, without={22, 24})
    chartless.page.uncheck("#leave-out")
    assert chartless.download()["segments"] == kept_segments(record, 0.2, without={22})


@pytest.mark.slow
def test_the_list_works_from_the_keyboard(chartless, record):
    keys = chartless.page.keyboard
    chartless.page.locator("#rows tr[tabindex='0']").focus()
    order = np.argsort(means(record), kind="stable")
    focused = "document.activeElement.closest('tr').dataset.place"
    for _ in range(3):
        keys.press("ArrowDown")
    keys.press("ArrowUp")
    assert chartless.page.evaluate(focused) == "2"
    keys.press("Enter")
    assert chartless.text("#timeline-name") == record.episodes.ids[order[2]]
    keys.press("End")
    assert chartless.page.evaluate(focused) == "79"
    keys.press("PageUp")
    keys.press("Home")
    assert chartless.page.evaluate(focused) == "0"
    assert not record.episodes.is_clean[order[0]]
    keys.press("x")
    assert "1 left out by hand" in chartless.text("#outcome")
    assert chartless.page.evaluate(focused) == "0"
    assert chartless.download()["segments"] == kept_segments(record, 0, without={int(order[0])})
    chartless.page.locator("#rows tr[tabindex='0']").focus()
    keys.press("x")
    assert chartless.download()["segments"] == kept_segments(record, 0)


@pytest.mark.slow
def test_controls_can_be_reached_with_tab(chartless):
    found = set()
    for _ in range(60):
        chartless.page.keyboard.press("Tab")
        found.add(
            chartless.page.evaluate("document.activeElement.id || document.activeElement.tagName")
        )
    assert {
        "theme",
        "threshold",
        "download",
        "search",
        "TR",
        "parts",
        "leave-out",
        "cursor",
    } <= found


def test_a_scrolled_list_keeps_few_rows(chartless, record):
    chartless.page.locator("#scroller").evaluate(
        "(node) => { node.scrollTop = node.scrollHeight; }"
    )
    chartless.page.locator("#rows tr[data-place='79']").wait_for()
    assert chartless.page.locator("#rows tr[data-place='0']").count() == 0


@pytest.mark.slow
def test_light_and_dark(page):
    ground = "getComputedStyle(document.body).backgroundColor"
    colour = "document.getElementById('histogram').layout.font.color"
    page.page.locator("#histogram").scroll_into_view_if_needed()
    page.page.locator("#histogram[data-drawn]").wait_for()
    light = page.page.evaluate(ground), page.page.evaluate(colour)
    page.page.click("#theme")
    dark = page.page.evaluate(ground), page.page.evaluate(colour)
    assert (light[0] != dark[0], light[1] != dark[1]) == (True, True)
    page.page.emulate_media(color_scheme="dark")
    assert page.page.evaluate(ground) == dark[0]
    page.page.click("#theme")
    assert (page.page.evaluate(ground), page.page.evaluate(colour)) == light


@pytest.mark.slow
def test_nothing_is_wider_than_the_window(page):
    page.see_everything()
    page.page.click("#details summary")
    page.page.click(".limits summary")
    for width in (1920, 1180, 768, 560, 360):
        page.page.set_viewport_size({"width": width, "height": 900})
        for box in ("document.documentElement", "document.getElementById('scroller')"):
            over = page.page.evaluate(f"{box}.scrollWidth - {box}.clientWidth")
            assert over <= 0, f"{box} at {width} pixels"
        page.page.wait_for_function(
            "() => [...document.querySelectorAll('.chart')].every((node) =>"
            "node.querySelector('.main-svg').width.baseVal.value <= node.clientWidth + 1)"
        )


def test_text_from_data_is_only_text(open_page):
    record = explanation(3, 6, names={0: NASTY[0], 3: NASTY[1], 4: "line\u2028two"})
    about = record.about | {"title": NASTY[1], "warnings": [NASTY[0]], "command": NASTY[2]}
    record = replace(
        record,
        about=about,
        action_names=[*NASTY, "ok"],
        studies={NASTY[0]: record.studies["clean demonstrations"]},
        frames={f"noisy/{NASTY[1]}": record.frames["noisy/" + NASTY[1]]},
    )
    opened = open_page(record)
    opened.see_everything()
    assert opened.text("h1") == NASTY[1]
    assert opened.text("#verdict").endswith(NASTY[0] + ".")
    opened.page.click("th.id button")
    assert {NASTY[0], NASTY[1]} <= set(opened.rows("id"))
    opened.page.fill("#search", "onerror")
    opened.page.locator("#rows td.id").first.click()
    assert opened.text("#timeline-name") == NASTY[1]
    assert opened.page.evaluate("window.hacked") is None
    assert opened.page.locator("img[onerror]").count() == 0
    assert NASTY[1] in {s["episode"] for s in opened.download()["segments"]}
    assert opened.errors == []


def test_no_script_of_others_may_run(chartless):
    policy = chartless.page.get_attribute("meta[http-equiv]", "content")
    assert "default-src 'none'" in policy
    scripts = policy.split("script-src")[1].split(";")[0]
    assert "unsafe" not in scripts
    chartless.page.evaluate(
        "const s = document.createElement('script'); s.textContent = 'window.ran = 1';"
        "document.head.append(s)"
    )
    assert chartless.page.evaluate("window.ran") is None
    assert any("Content Security Policy" in error for error in chartless.errors)
    chartless.errors.clear()


@pytest.mark.slow
def test_a_bare_record_has_a_page_too(open_page):
    record = explanation(4, 8, rich=False, truth=False)
    opened = open_page(replace(record, about={"evaluation": None}))
    opened.see_everything()
    assert "cannot be verified here" in opened.text("#verdict")
    assert "not known" in opened.text("#outcome-truth")
    assert opened.page.locator("#skills").is_hidden()
    assert opened.page.locator("#viewer").is_hidden()
    assert opened.page.locator("#leave-out").is_visible()
    assert opened.download()["fingerprint"] is None
    assert opened.errors == []


@pytest.mark.slow
def test_a_record_without_noisy_demonstrations(open_page):
    opened = open_page(explanation(5, 0, rich=False))
    opened.see_everything()
    assert opened.page.locator("#download").is_disabled()
    assert opened.page.locator("#threshold").is_disabled()
    assert opened.text("#count") == "5 of 5"
    assert opened.errors == []


@pytest.mark.slow
def test_four_thousand_demonstrations(open_page):
    record = explanation(2000, 2000)
    assert len(render(record).encode()) < 15_000_000
    opened = open_page(record, charts=False)
    assert opened.text("#count") == "4,000 of 4,000"
    assert opened.page.locator("#rows tr").count() < 60
    opened.page.fill("#search", "episode_1999")
    assert opened.text("#count") == "2 of 4,000"
    opened.slide(0.5)
    assert opened.download()["segments"] == kept_segments(record, 0.5)
    assert opened.errors == []


def test_the_page_of_imported_data_ends_with_whether_it_helped(open_page):
    made = explanation(4, 6, rich=False)
    estimate = {"value": 1.25, "low": 1.0, "high": 1.5}
    row = {"name": "all", "label": "clean + all noisy", "nll": estimate, "error": estimate}
    row |= {"minus_all": None, "minus_random": estimate}
    helped = {"sentence": "it helped: a lot", "rows": [row], "rule": "Kept: good.", "command": None}
    frames = {"noisy/episode_0": {"first": 100, "every": 3}}
    shown = open_page(
        replace(made, about={**made.about, "helped": helped, "frames": frames}), charts=False
    )
    assert shown.text("#helped-says") == "it helped: a lot"
    cells = shown.page.locator("#helped-table tbody td").all_inner_texts()
    assert cells == ["1.250 ± 0.250", "125.000 ± 25.000", "–", "1.250 ± 0.250"]
    assert shown.page.locator("#helped-command").is_hidden()
    assert shown.page.locator(".bar nav a").all_inner_texts()[-1] == "Did it help?"
    shown.page.fill("#search", "episode_0")
    shown.page.locator("input[name=set][value=noisy]").check(force=True)
    first = int(shown.rows("worst")[0].split()[-1].split("–")[0])
    assert first >= 100
    assert (first - 100) % 3 == 0
    assert shown.errors == []
    command = {"sentence": "Not measured yet.", "rows": [], "rule": "", "command": "sdil curate x"}
    waiting = open_page(replace(made, about={**made.about, "helped": command}), charts=False)
    assert waiting.text("#helped-command") == "sdil curate x"
    bare = open_page(made, charts=False)
    assert bare.page.locator("#helped").is_hidden()
