"""What a user's own type checker makes of the package, which ships `py.typed`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"
USER = """
from typing import assert_type

import numpy as np

import sdil
from sdil.demonstrations import Demonstrations, Split
from sdil.trajectories import Trajectories

observations, actions = np.zeros((5, 3), np.float32), np.zeros(4, np.int64)
more = [sdil.Trajectory(observations, actions, id="run 8")]


{readme}
assert_type(demos, Demonstrations)
assert_type(demos.clean, Trajectories)
assert_type(demos.noisy, Trajectories)
assert_type(demos.spaces, sdil.Spaces)
assert_type(split, Split)
assert_type(sdil.load_demonstrations("demos/mine"), Demonstrations)
assert_type(sdil.Demonstrations(t for t in demos.noisy).clean_only(), Demonstrations)
assert_type(sdil.Demonstrations(demos.clean, spaces=demos.spaces), Demonstrations)

# what is wrong is seen: were sdil unknown to mypy, these comments would be called unused
sdil.Demonstrations(clean=[7])  # type: ignore[list-item]
demos.clean = demos.noisy  # type: ignore[misc]
"""


@pytest.mark.slow
def test_the_readmes_lines_pass_a_strict_type_checker(tmp_path):
    lines = re.search(
        r"^demos = sdil\.Demonstrations\(.*?(?=^```)", README.read_text(), re.M | re.S
    )
    assert lines is not None
    readme = lines.group().replace("), ...]", "), *more]").replace("[...]", "more")
    assert "..." not in readme
    assert "demos.split(" in readme
    (tmp_path / "user.py").write_text(USER.format(readme=readme))
    apart = ["--config-file=", f"--cache-dir={os.devnull}"]  # nothing of this repository's own
    found = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", *apart, "user.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert found.stdout == "Success: no issues found in 1 source file\n", found.stdout
