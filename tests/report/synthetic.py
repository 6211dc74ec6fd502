"""Made-up explanations for tests of what renders them: seeded, of any size."""

from __future__ import annotations

import base64
import io
from collections import deque
from itertools import pairwise

import numpy as np

from sdil.explanation.record import (
    Embedding,
    Explanation,
    FixedSkill,
    JudgedEpisodes,
    Scores,
    Skills,
)

SIZE = 19
MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))
ACTIONS = ["left", "right", "up", "down"]
GOAL, DECOY = (13, 16), (13, 5)
K = 8


def explanation(clean=30, noisy=60, seed=0, *, truth=True, rich=True, names=None) -> Explanation:
    """Walks in four rooms; `rich` adds skills, map, embeddings, frames, stability and studies."""
    rng = np.random.default_rng(seed)
    walls = _walls()
    to_goal, to_decoy = _distances(walls, GOAL), _distances(walls, DECOY)
    free = np.argwhere(~walls)[:, ::-1]
    walks = []
    for e in range(clean + noisy):
        start = tuple(int(v) for v in free[rng.integers(len(free))])
        walks.append(_walk(rng, walls, to_goal, to_decoy, start, detours=e >= clean))
    lengths = [len(w) for w in walks]
    column, row, action, good = np.concatenate([np.array(w) for w in walks]).T
    N = len(action)
    optimality = np.clip(0.9 * (good - 0.5) + rng.normal(0, 0.35, N), -1, 1).astype(np.float32)
    room = 2 * (column > 9) + (row > 9)
    skill = np.where(good == 1, room, 4 + (action > 1) + 2 * (rng.random(N) < 0.3))
    segment = np.concatenate(
        [np.cumsum(np.diff(s, prepend=s[0]) != 0) for s in np.split(skill, np.cumsum(lengths)[:-1])]
    )
    ids = [f"episode_{e}" for e in range(clean)] + [f"episode_{e}" for e in range(noisy)]
    for index, name in (names or {}).items():
        ids[index] = name
    parts = {
        name: np.clip(optimality + rng.normal(0, 0.15, N), -1, 1).astype(np.float32)
        for name in ("skill", "likelihood", "discriminator")
    }
    is_clean = np.arange(clean + noisy) < clean
    episodes = JudgedEpisodes(
        ids=ids,
        groups=[f"operator {'ABC'[e % 3]}" if e % 7 else None for e in range(clean + noisy)],
        is_clean=is_clean,
        offsets=np.cumsum([0, *lengths]),
        actions=action.astype(np.int64),
        good=good.astype(np.int8) if truth else None,
        features=np.column_stack([column, row, rng.normal(size=N)]).astype(np.float32),
        rewards=np.where(good == 1, 0.1, 0.0).astype(np.float32),
        positions=np.stack([column, row], 1) if rich else None,
        moves=np.array(MOVES)[action] if rich else None,
    )
    scores = Scores(
        optimality=optimality,
        segment=segment,
        skill=skill if rich else None,
        parts=parts if rich else {},
        spread=rng.uniform(0.05, 0.2, N).astype(np.float32) if rich else None,
        **(_other_answers(np.random.default_rng(seed), optimality, lengths) if rich else {}),
    )
    about = _about(episodes, truth)
    if not rich:
        return Explanation(about, ACTIONS, episodes, scores)
    in_clean = np.repeat(is_clean, lengths)
    return Explanation(
        about,
        ACTIONS,
        episodes,
        scores,
        skills=_skills(skill, action, in_clean),
        walls=walls,
        embeddings=[_embedding(rng, f"lambda {v}", v, skill, min(N, 1500)) for v in (0, 1)],
        fixed_skills=[
            FixedSkill(
                k,
                np.stack([column, row, action], 1)[skill == k][:1500],
                np.bincount(action[skill == k], minlength=4),
                [picture(k * 30, t * 20) for t in range(6)] if k < 2 else [],
                np.array(MOVES)[action[skill == k][:1500]],
            )
            for k in range(K)
        ],
        frames={f"noisy/{ids[clean]}": [picture(t * 5 % 255, 90) for t in range(lengths[clean])]},
        stability={
            "runs": ["runs/a", "runs/b", "runs/c"],
            "agreement": [[1, 0.62, 0.55], [0.62, 1, 0.71], [0.55, 0.71, 1]],
            "matched": [list(range(K)), list(range(K)), list(range(K))],
        },
        studies={
            "clean demonstrations": {
                "x": [10, 30, 100],
                "xlabel": "clean demonstrations",
                "ylabel": "reward × 100",
                "series": {
                    "sdil": {"mean": [71, 78, 88], "low": [66, 75, 86], "high": [76, 81, 90]},
                    "bc": {"mean": [52, 70, 86], "low": [44, 66, 83], "high": [60, 74, 89]},
                },
            }
        },
    )


def _other_answers(rng, optimality, lengths) -> dict[str, np.ndarray]:
    """Smooth quality, and an integrity of 1 but for a few steps; of an episode's last none."""
    window = np.ones(9) / 9
    smooth = [
        np.convolve(np.pad(o, 4, "edge"), window, "valid")
        for o in np.split(optimality, np.cumsum(lengths)[:-1])
    ]
    integrity = np.where(rng.random(len(optimality)) < 0.05, 0.1, 0.95)
    integrity[np.cumsum(lengths) - 1] = np.nan
    return {
        "quality": np.concatenate(smooth).astype(np.float32),
        "integrity": integrity.astype(np.float32),
    }


def picture(red: int, green: int) -> str:
    """A small PNG as a data URI."""
    from PIL import Image

    out = io.BytesIO()
    Image.new("RGB", (32, 32), (red % 256, green % 256, 160)).save(out, "PNG")
    return "data:image/png;base64," + base64.b64encode(out.getvalue()).decode()


def kept_segments(record: Explanation, threshold: float, without=()) -> list[dict]:
    """The selection the page must download, worked out with numpy alone."""
    segments = []
    episodes = record.episodes
    for e, name in enumerate(episodes.ids):
        if episodes.is_clean[e] or e in without:
            continue
        steps = slice(episodes.offsets[e], episodes.offsets[e + 1])
        scores, part = record.scores.optimality[steps], record.scores.segment[steps]
        means = np.bincount(part, scores.astype(np.float64)) / np.bincount(part)
        keep = means.astype(np.float32)[part] >= np.float32(threshold)
        edges = np.flatnonzero(np.diff(keep.astype(int), prepend=0, append=0))
        for start, stop in edges.reshape(-1, 2).tolist():
            if stop - start < 2 and stop - start < len(keep):
                continue  # as `sdil curate --min-length`
            segments.append({"set": "noisy", "episode": name, "start": start, "stop": stop})
    return segments


def _walls():
    walls = np.zeros((SIZE, SIZE), bool)
    walls[[0, 9, -1]] = walls[:, [0, 9, -1]] = True
    for column, row in ((9, 5), (9, 14), (6, 9), (15, 9)):
        walls[row, column] = False
    return walls


def _distances(walls, goal):
    far = np.full(walls.shape, 10_000)
    far[goal[1], goal[0]] = 0
    queue = deque([goal])
    while queue:
        x, y = queue.popleft()
        for dx, dy in MOVES:
            if not walls[y + dy, x + dx] and far[y + dy, x + dx] == 10_000:
                far[y + dy, x + dx] = far[y, x] + 1
                queue.append((x + dx, y + dy))
    return far


def _walk(rng, walls, to_goal, to_decoy, at, *, detours):
    """(column, row, action, good) of each step."""
    steps = []
    detour = 0
    while not steps or (at != GOAL and len(steps) < 60):
        if detours and detour == 0 and rng.random() < 0.06:
            detour = int(rng.integers(4, 14))
        far = to_decoy if detour else to_goal
        open_moves = [a for a, (dx, dy) in enumerate(MOVES) if not walls[at[1] + dy, at[0] + dx]]
        best = min(far[at[1] + MOVES[a][1], at[0] + MOVES[a][0]] for a in open_moves)
        choices = [a for a in open_moves if far[at[1] + MOVES[a][1], at[0] + MOVES[a][0]] == best]
        action = int(rng.choice(open_moves if rng.random() < 0.05 else choices))
        to = (at[0] + MOVES[action][0], at[1] + MOVES[action][1])
        steps.append((*at, action, int(to_goal[to[1], to[0]] < to_goal[at[1], at[0]])))
        at, detour = to, max(0, detour - 1)
    return steps


def _skills(skill, action, in_clean):
    def share(of):
        return np.bincount(of, minlength=K) / max(1, len(of))

    clean, noisy = share(skill[in_clean]), share(skill[~in_clean])
    probs = np.stack([np.bincount(action[skill == k], minlength=4) for k in range(K)]) + 1e-9
    return Skills(
        clean_share=clean,
        noisy_share=noisy,
        optimality=np.clip((clean - noisy) / (clean + noisy + 1e-9), -1, 1),
        action_probs=probs / probs.sum(1, keepdims=True),
    )


def _embedding(rng, label, spread, skill, count):
    centres = rng.normal(0, 18, (K, 2))
    steps = np.sort(rng.choice(len(skill), count, replace=False))
    points = centres[skill[steps]] + rng.normal(0, 7 - 4 * spread, (count, 2))
    return Embedding(label, points, steps, centres)


def _about(episodes, truth):
    clean = int(episodes.is_clean.sum())
    lengths = np.diff(episodes.offsets)
    return {
        "title": "SDIL on fourrooms",
        "features": ["column", "row", "heart rate"],
        "place": [],
        "learner": "sdil",
        "reference": "Zhao et al., Skill Disentanglement for Imitation Learning, KDD 2023",
        "hyperparameters": {"n_skills": K, "lambda": 1.0, "hidden": [128, 128], "lr": 0.0005},
        "seed": 0,
        "task": "fourrooms",
        "environment": "sdil/fourrooms-v0",
        "data": "demos/fourrooms",
        "fingerprint": "sha256:3b1f",
        "n_clean": clean,
        "n_noisy": len(episodes.ids) - clean,
        "n_steps_clean": int(lengths[:clean].sum()),
        "n_steps_noisy": int(lengths[clean:].sum()),
        "versions": {"sdil": "0.1.0", "torch": "2.9.0"},
        "created": "2026-11-15 14:20 UTC",
        "evaluation": {
            "reward_mean": 0.781,
            "reward_sem": 0.009,
            "success_rate": 0.93,
            "success_interval": [0.912, 0.944],
            "n_episodes": 1000,
        },
        "truth": {
            "auroc": 0.83,
            "average_precision": 0.91,
            "share_good": 0.64,
            "ece": 0.11,
            "brier": 0.16,
            "brier_skill": 0.28,
        }
        if truth
        else None,
        "phases": {"discover": {"epoch": 99, "loss": 0.412}, "select": {"epoch": 30, "loss": 0.3}},
        "warnings": ["2 of 8 skills are hardly used (under 1% of steps)."],
        "command": "sdil report runs/sdil --data demos/fourrooms --out report.html",
    }


def offsets_of(record: Explanation) -> list[tuple[int, int]]:
    """Start and stop of each episode's steps."""
    return list(pairwise(record.episodes.offsets.tolist()))
