"""Pages of many steps show some of them and say so; text of data cannot leave its element."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from synthetic import explanation

from sdil.report.page import render
from sdil.report.sampling import sample


def test_too_many_steps_are_sampled_and_that_is_said():
    whole = explanation(clean=30, noisy=60)
    n = int(whole.episodes.offsets[-1])
    assert sample(whole, n) is whole
    some = sample(whole, n // 3)
    assert some.episodes.offsets[-1] <= n // 3
    (told,) = [w for w in some.about["warnings"] if "this page shows" in w]
    assert f"of {n:,} steps" in told
    assert f"{len(some.episodes.ids)} of 90 demonstrations" in told
    # every step that is left is the one that it was
    first, length = whole.episodes.offsets[:-1], np.diff(whole.episodes.offsets)
    known = {
        (bool(c), i): e
        for e, (c, i) in enumerate(zip(whole.episodes.is_clean, whole.episodes.ids, strict=True))
    }
    for e, key in enumerate(zip(some.episodes.is_clean, some.episodes.ids, strict=True)):
        was = known[bool(key[0]), key[1]]
        now = slice(some.episodes.offsets[e], some.episodes.offsets[e + 1])
        then = slice(first[was], first[was] + length[was])
        for a, b in (
            (some.scores.optimality[now], whole.scores.optimality[then]),
            (some.episodes.actions[now], whole.episodes.actions[then]),
            (some.scores.parts["skill"][now], whole.scores.parts["skill"][then]),
        ):
            np.testing.assert_array_equal(a, b)
    means = np.add.reduceat(whole.scores.optimality, first) / length
    worst = int(np.flatnonzero(~whole.episodes.is_clean)[means[~whole.episodes.is_clean].argmin()])
    assert whole.episodes.ids[worst] in np.array(some.episodes.ids)[~some.episodes.is_clean]
    for one, of_all in zip(some.embeddings, whole.embeddings, strict=True):
        assert 0 < len(one.steps) == len(one.points) < len(of_all.steps)
        assert one.steps.max() < some.episodes.offsets[-1]
    assert set(some.frames) <= set(whole.frames)
    tiny = sample(whole, 1)
    assert sorted(tiny.episodes.is_clean.tolist()) == [False, True]  # one of either set
    assert "this page shows" in render(some)


def test_no_text_of_the_data_can_end_its_element():
    """`<`, `>` and `&` of names are escaped in the JSON that the page carries."""
    whole = explanation(clean=2, noisy=2, rich=False, names={0: "</script><b>&"})
    page = render(whole)
    assert "</script><b>" not in page
    assert r"\u003c/script\u003e\u003cb\u003e\u0026" in page


def test_what_was_seen_is_sampled_too():
    whole = explanation(clean=30, noisy=60)
    n = int(whole.episodes.offsets[-1])
    seen = np.arange(n * 2, dtype=np.float32).reshape(n, 2)
    episodes = replace(whole.episodes, features=seen, rewards=seen[:, 0], place=seen)
    some = sample(replace(whole, episodes=episodes), n // 3).episodes
    assert len(some.features) == len(some.rewards) == len(some.place) == some.offsets[-1]
    assert set(some.rewards) < set(seen[:, 0])


def test_a_page_has_room_for_fewer_steps_the_more_is_known_of_each():
    """24 features and five signals in single precision, 60 steps an episode: under 15 MB."""
    rng = np.random.default_rng(0)
    whole = explanation(clean=2, noisy=3, rich=False)
    episodes, steps = 2_000, 60
    n = episodes * steps

    def numbers(*shape):
        return rng.random((n, *shape)).astype(np.float32)

    many = replace(
        whole,
        episodes=replace(
            whole.episodes,
            ids=[f"{i:05}" for i in range(episodes)],
            groups=[None] * episodes,
            is_clean=np.arange(episodes) < 200,
            offsets=np.arange(episodes + 1) * steps,
            actions=rng.integers(0, 4, n),
            good=None,
            positions=None,
            moves=None,
            features=numbers(24),
            rewards=numbers().astype(np.float64),
            place=None,
        ),
        scores=replace(
            whole.scores,
            optimality=numbers(),
            segment=np.arange(n) // 10 % 100,
            skill=None,
            parts={name: numbers() for name in "abcde"},
            spread=numbers(),
            quality=numbers(),
            integrity=numbers(),
        ),
    )
    page = len(render(many))
    assert 14e6 < page < 15e6
    bare = replace(many, episodes=replace(many.episodes, features=None))
    assert sample(bare).episodes.offsets[-1] == 100_000 // steps * steps
    assert len(render(bare)) < page
    fewer = sample(many).episodes.offsets[-1]
    assert fewer < sample(replace(many, scores=replace(many.scores, parts={}))).episodes.offsets[-1]
