"""README's two commands for each of four formats: they run, and answer in the data's numbers."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest

from sdil.cli import main

ROOT = Path(__file__).parent.parent.parent
sys.path.append(str(ROOT / "tests" / "formats"))

SHORTER = ["--clone-updates", "30", "--distance-updates", "30"]


def commands() -> list[list[str]]:
    """Of the section `Your own data`."""
    (section,) = re.findall(
        r"^## Your own data\n(.*?)^## ", (ROOT / "README.md").read_text(), re.M | re.S
    )
    (block,) = re.findall(r"^```sh\n(.*?)^```", section, re.M | re.S)
    return [shlex.split(line) for line in block.splitlines() if line.startswith("sdil")]


def pairs() -> list[tuple[list[str], list[str]]]:
    found = commands()
    return list(zip(found[::2], found[1::2], strict=True))


def walk(count, steps):
    """Walks to the origin; every third hesitates."""
    random = np.random.default_rng(0)
    made = []
    for i in range(count):
        state = np.zeros((steps + 1, 3), np.float32)
        state[0] = random.normal(size=3) * 3
        action = np.zeros((steps, 2), np.float32)
        for t in range(steps):
            action[t] = -0.2 * state[t, :2] + random.normal(size=2) * (0.5 if i % 3 == 2 else 0.05)
            state[t + 1] = state[t]
            state[t + 1, :2] += action[t]
        pictures = np.zeros((steps + 1, 8, 8, 3), np.uint8)
        more = {"object": state[:, None, :2].repeat(2, 1), "reward": np.zeros(steps)}
        made.append({"state": state, "action": action, "image": pictures, **more})
    return made


def write(name):
    from layouts import table_of, write_robomimic, write_table, write_zarr

    if name == "lerobot:my-lerobot":
        from lerobot_layouts import write_lerobot

        write_lerobot(Path("my-lerobot"), lengths=(14,) * 36)
    elif name == "robomimic:lift.hdf5":
        write_robomimic(Path("lift.hdf5"), walk(6, 30))
    elif name == "pusht.zarr":
        write_zarr(Path("pusht.zarr"), walk(12, 30))
    else:
        assert name == "steps.csv"
        write_table(Path("steps.csv"), table_of(walk(12, 30)))


@pytest.mark.slow
@pytest.mark.parametrize("pair", pairs(), ids=lambda pair: pair[0][3])
def test_two_commands_from_a_path_to_the_worst_segments(pair, tmp_path, monkeypatch, capsys):
    judge, score = pair
    name = judge[judge.index("--data") + 1]
    if name.startswith("lerobot") or name.endswith("zarr"):
        pytest.importorskip("pyarrow" if "lerobot" in name else "zarr")
    monkeypatch.chdir(tmp_path)
    write(name)
    assert main([*judge[1:], *SHORTER]) == 0
    assert f"sdil score {judge[-1]}" in capsys.readouterr().out
    assert main([*score[1:], "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    for segment in said["worst"]:
        assert segment["last_frame"] >= segment["first_frame"] >= 0
    assert said["noisy"]["episodes"] > 0


def test_there_are_four_formats_of_two_lines_each():
    assert [judge[1] + score[1] for judge, score in pairs()] == ["judgescore"] * 4
