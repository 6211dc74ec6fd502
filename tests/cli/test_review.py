"""`sdil review`: kept at once, asked by nobody else, and used by keys in a real Chromium."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from http.client import HTTPConnection
from threading import Thread
from urllib.parse import urlsplit

import numpy as np
import pytest

import sdil
from sdil.cli import main
from sdil.cli.reviewing import Review
from sdil.cli.serving import ReviewServer
from sdil.explanation.seen import Names
from sdil.labels import load_labels

pytestmark = pytest.mark.xdist_group("judge")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder of demonstrations and a judgement of it."""
    place = tmp_path_factory.mktemp("review")
    demos, _ = sdil.get_task("fourrooms").collect(clean=6, noisy=12, seed=0)
    sdil.save_demonstrations(demos, place / "demos")
    quick = sdil.Judge(clone_updates=40, distance_updates=40, outcome_updates=40)
    sdil.judge(quick, place / "demos", place / "judgement")
    return place


@pytest.fixture
def place(made, tmp_path):
    shutil.copytree(made / "judgement", tmp_path / "judgement")
    (tmp_path / "demos").symlink_to(made / "demos")
    return tmp_path


def review_of(place, who="Ann", **more):
    demos = sdil.load_demonstrations(place / "demos")
    table = place / "labels.csv"
    return Review(place / "judgement", demos, table, who=who, names=Names(), questions=5, **more)


@contextmanager
def served(place, **more):
    with ReviewServer(review_of(place, **more)) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def ask(server, method, path, said=None, *, body=None, **headers):
    host = urlsplit(server.origin).netloc
    sent = {"Host": host, "Origin": server.origin, "Content-Type": "application/json"} | headers
    connection = HTTPConnection(host, timeout=20)
    body = json.dumps(said or {}) if body is None else body
    kept = {k.replace("_", "-"): v for k, v in sent.items() if v is not None}
    connection.request(method, path, body if method == "POST" else None, kept)
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found


def span(review, label="good", **more):
    q = review.asked[0]
    return {"set": "noisy", "label": label, **more} | {
        k: q[k] for k in ("episode", "first_step", "last_step")
    }


def test_only_its_own_page_may_speak_to_it(place):
    with served(place) as server:
        assert server.server_address[0] == "127.0.0.1"
        said, home = span(server.review), f"/{server.token}"
        for path, headers, code in (
            ("/label", {}, 403),
            ("/wrong/label", {}, 403),
            (f"{home}/label", {"Origin": "http://evil.example"}, 403),
            (f"{home}/label", {"Origin": "null"}, 403),
            (f"{home}/label", {"Origin": None}, 403),
            (f"{home}/label", {"Host": "evil.example"}, 403),
            (f"{home}/label", {"Content_Type": "text/plain", "Content-Type": None}, 415),
            (f"{home}/nothing", {}, 404),
        ):
            assert ask(server, "POST", path, said, **headers)[0] == code, (path, headers)
        assert ask(server, "POST", f"{home}/label", body="{")[0] == 400
        assert ask(server, "POST", f"{home}/label", body='"' + "x" * 70_000 + '"')[0] == 413
        for wrong in ({"label": "fine"}, {"episode": "none"}, {"last_step": 10**6}, {"note": 3}):
            code, why = ask(server, "POST", f"{home}/label", said | wrong)
            assert code == 400, why
        assert ask(server, "POST", f"{home}/label", {"label": "good"})[0] == 400
        assert ask(server, "GET", "/")[0] == 403
        assert ask(server, "GET", f"{home}/", Host="evil.example")[0] == 403
        assert ask(server, "GET", f"{home}/episode?number=99")[0] == 400
        assert ask(server, "GET", f"{home}/episode?number=x")[0] == 400
        assert not (place / "labels.csv").exists()
        assert ask(server, "POST", f"{home}/label", said)[0] == 200
    assert len(load_labels(place / "labels.csv")) == 1


def test_answers_are_on_disk_at_once_and_can_be_taken_back(place):
    review = review_of(place)
    state = review.answer(span(review, note="neat"))
    (label,) = load_labels(place / "labels.csv")
    assert (label.label, label.who, label.note) == ("good", "Ann", "neat")
    assert label.when.endswith("+00:00")
    assert state["can_undo"] == 1
    review.undo()
    assert load_labels(place / "labels.csv") == []
    with pytest.raises(sdil.InputError, match="no answer of this session"):
        review.undo()


@pytest.mark.slow
def test_the_next_questions_follow_from_every_two_answers(place):
    review = review_of(place)
    first, kept = list(review.asked), (place / "judgement" / "judge.safetensors").read_bytes()

    def say(q, label):
        said = {k: q[k] for k in ("episode", "first_step", "last_step")}
        return review.answer({"set": "noisy", "label": label, **said})

    assert say(first[0], "bad")["list"] == 1
    assert review.asked == first
    say(first[1], "good")
    review._choosing.join(60)
    told = sdil.load_judge(place / "judgement").tell(review.labels)
    demos = sdil.load_demonstrations(place / "demos")
    expected = [(q.episode, q.first_step) for q in told.ask(demos, 5, review.labels)]
    assert [(q["episode"], q["first_step"]) for q in review.asked] == expected
    assert review.state()["list"] == 2
    assert (place / "judgement" / "judge.safetensors").read_bytes() == kept  # only when asked to


@pytest.mark.slow
def test_questions_that_come_late_ask_nothing_that_is_answered_and_follow_nothing_taken_back(place):
    review = review_of(place)
    expected = [(q["episode"], q["first_step"]) for q in review.asked]
    q = review.asked[0]
    span = {k: q[k] for k in ("episode", "first_step", "last_step")}
    review.answer({"set": "noisy", "label": "bad", **span})
    review._choose(review.judge, [])  # begun before that answer
    assert [(q["episode"], q["first_step"]) for q in review.asked] == expected[1:]
    answered = list(review.labels)
    review.undo()
    before = review.asked
    review._choose(review.judge, answered)
    assert review.asked is before
    judge = review.judge
    review.rejudge()
    before = review.asked
    review._choose(judge, [])
    assert review.asked is before


def test_rejudging_says_what_changed_and_how_far_people_agree(place):
    review = review_of(place)
    before = sdil.load_judge(place / "judgement").good_share
    for q in review.asked[:3]:
        said = {k: q[k] for k in ("episode", "first_step", "last_step")}
        review.answer({"set": "noisy", "label": "bad", **said})
    found = review.rejudge()
    assert found["changed"]["steps"] == sum(len(s.optimality) for s in review.scores)
    assert found["changed"]["most"]
    assert sdil.load_judge(place / "judgement").good_share.point < before.point  # it is kept
    assert not {(q["episode"], q["first_step"]) for q in review.asked} & {
        (label.episode, label.first_step) for label in review.labels
    }
    assert found["agreement"][0]["one"] == "Ann"


def test_the_command_line_tells_and_asks(place, capsys):
    review = review_of(place)
    review.answer(span(review, "bad"))
    labels, judgement = str(place / "labels.csv"), str(place / "judgement")
    command = ["judge", "--again", judgement, "--labels", labels, "--ask", "3", "--json"]
    assert main(command) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["ask"]) == 3
    assert sdil.load_judge(judgement).labels == {"good": 0, "bad": 1, "unsure": 0}
    assert main(["judge", "--again", judgement, "--ask", "2"]) == 0
    assert "labels would teach" in capsys.readouterr().out
    (place / "labels.csv").write_text("set,episode,first_step,last_step,label\nnoisy,?,0,0,bad\n")
    assert main(command) == 2
    assert "labels.csv" in capsys.readouterr().err


PIXEL = """() => {
  const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  pen.drawImage(document.querySelector("CANVAS"), 0, 0);
  return String(pen.getImageData(5, 5, 1, 1).data);
}"""


class Coloured:
    """Two cameras whose pictures say of which episode and step they are; one episode has none."""

    cameras = ("front", "side")

    def look(self, kind, index, camera, steps):
        if index == 3:
            raise sdil.InputError("videos/front.mp4 is missing")
        blue = 200 if camera == "side" else 100
        return [np.full((12, 16, 3), (index, t, blue), np.uint8) for t in steps]


def test_what_cameras_saw_is_shown_step_by_step(place, browser):
    pixel = PIXEL.replace("CANVAS", "#frame")
    with served(place, filmed=Coloured()) as server:
        page = browser.new_page()
        complaints = []
        page.on("console", lambda said: complaints.append(said.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))

        def shows(*colour):
            page.wait_for_function(
                f"(c) => ({pixel})() === c", arg=f"{','.join(map(str, colour))},255"
            )

        page.goto(server.address)
        page.wait_for_selector("html[data-ready]", state="attached")
        names = list(server.review.demos.noisy.ids)
        page.select_option("#episode", names[2])
        shows(2, 0, 100)
        page.locator("#episode").evaluate("(node) => node.blur()")
        page.keyboard.press("ArrowRight")
        shows(2, 1, 100)
        page.select_option("#camera", "side")
        shows(2, 1, 200)
        page.select_option("#episode", names[3])
        page.wait_for_selector("#frame", state="hidden")
        assert "front.mp4 is missing" in page.locator("#film-note").inner_text()
        page.select_option("#episode", names[4])
        shows(4, 0, 200)  # the camera that was chosen stays
        page.close()
        assert complaints == []


@pytest.mark.slow
def test_a_person_labels_by_keys_and_a_killed_server_loses_nothing(place, browser):
    table = place / "labels.csv"
    words = ["review", str(place / "judgement"), "--data", str(place / "demos"), "--who", "Ann"]
    words += ["--labels", str(table)]
    code = f"import sys; from sdil.cli import main; sys.exit(main({words!r}))"

    def start():
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        with child.stdout as said:
            lines = [said.readline() for _ in range(3)]  # all that it prints
        return child, lines[1].strip()

    child, address = start()
    try:
        page = browser.new_page()
        page.set_default_timeout(60_000)
        errors, asked = [], []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))

        def opened(url):
            page.goto(url)
            page.wait_for_selector("html[data-ready]", state="attached")

        def answered(count):
            page.wait_for_function(
                "n => document.getElementById('count').textContent === String(n)", arg=count
            )

        opened(address)
        for n, key in enumerate("gbu", 1):
            page.keyboard.press(key)
            answered(n)
            assert len(load_labels(table)) == n  # on disk as soon as the page says so
        page.keyboard.press("n")
        page.keyboard.type("goes round in circles")
        page.keyboard.press("Escape")
        page.keyboard.press("b")
        answered(4)
        page.keyboard.press("z")
        answered(3)
        page.keyboard.press("[")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("]")
        page.keyboard.press("b")
        answered(4)
        page.reload()
        page.wait_for_selector("html[data-ready]", state="attached")
        answered(4)
        page.keyboard.press("r")
        page.wait_for_selector("#changed table tr")
        assert "changed sides" in page.locator("#changed").inner_text()
        with page.expect_download() as waiting:
            page.click("#export")
        exported = place / "exported.csv"
        waiting.value.save_as(exported)
        kept = load_labels(table)
        assert load_labels(exported) == kept
        assert [label.label for label in kept] == ["good", "bad", "unsure", "bad"]
        assert {label.who for label in kept} == {"Ann"}
        child.send_signal(signal.SIGKILL)
        child.wait()
        page.keyboard.press("g")
        page.wait_for_selector("#status[data-bad]")
        assert "does not answer" in page.locator("#status").inner_text()
        assert load_labels(table) == kept
        child, address = start()  # the lock of a killed one is taken over
        opened(address)
        answered(4)
        page.keyboard.press("g")
        answered(5)
        assert load_labels(table)[:4] == kept
        assert errors == []
        own = ("http://127.0.0.1:", "blob:")
        assert all(url.startswith(own) for url in asked)
        page.close()
    finally:
        child.kill()
        child.wait()
