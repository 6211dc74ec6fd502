from __future__ import annotations

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import sdil
from sdil.algorithms import JUDGES, LEARNERS
from sdil.cli import COMMANDS, main
from sdil.cli.evaluate import plain_reward
from sdil.windows import Windows


def run(*arguments: object) -> int:
    """The exit code of a command run in this process."""
    try:
        return main([str(a) for a in arguments])
    except SystemExit as stop:  # tyro's way to refuse
        return int(stop.code or 0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("cli") / "demos"
    assert run("collect", "fourrooms", "--clean", 12, "--noisy", 20, "--out", out, "--seed", 1) == 0
    return out


@pytest.fixture(scope="module")
def trained(folder, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "bc"
    assert run("train", "bc", "--data", folder, "--out", out, "--max-updates", 100) == 0
    return out


def test_the_issues_four_commands(folder, trained, capsys):
    assert run("inspect", folder) == 0
    assert run("evaluate", trained, "--episodes", 20) == 0
    text = capsys.readouterr().out
    assert "distinct starts" in text
    assert "reward x100" in text
    assert all(len(line) <= 80 for line in text.splitlines() if "│" in line)


def test_only_rewards_of_our_tasks_are_shown_times_100(trained, capsys):
    command = ("evaluate", trained, "--episodes", 5, "--acting", "greedy", "--env")
    assert run(*command, "sdil/fourrooms-v0") == 0
    assert "reward x100" in capsys.readouterr().out
    assert run(*command, "sdil.tasks.fourrooms:FourRooms") == 0
    text = capsys.readouterr().out
    assert "reward" in text
    assert "x100" not in text


@pytest.mark.parametrize(
    ("mean", "error", "text"),
    [
        (500.0, 0.0, "500 ± 0"),
        (9.4, 0.0, "9.40 ± 0.00"),
        (487.31, 2.14, "487.3 ± 2.1"),
        (-1634.2, 41.7, "-1634 ± 42"),
        (0.01234, 0.0021, "0.0123 ± 0.0021"),
        (0.1, 1e-17, "0.100 ± 0.000"),
        (0.0, 0.0, "0.0 ± 0.0"),
        (7.25, None, "7.25"),
        (float("inf"), float("nan"), "inf ± nan"),
    ],
)
def test_rewards_of_any_size_have_sensible_digits(mean, error, text):
    assert plain_reward(mean, error) == text


def test_json_is_all_that_is_printed(folder, trained, tmp_path, capsys):
    for command in (
        ["collect", "fourrooms", "--clean", 1, "--noisy", 1, "--out", tmp_path / "d", "--json"],
        ["inspect", folder, "--json"],
        ["train", "bc", "--data", folder, "--out", tmp_path / "r", "--max-updates", 20, "--json"],
        [
            "evaluate",
            trained,
            "--episodes",
            5,
            "--data",
            folder,
            "--json",
            "--out",
            tmp_path / "e.json",
        ],
    ):
        capsys.readouterr()
        assert run(*command) == 0
        answer = json.loads(capsys.readouterr().out)
        assert answer
    assert answer["environment"]["n_episodes"] == 5
    assert 0 <= answer["data"]["accuracy"] <= 1
    assert answer["data"]["nll"] > 0
    assert json.loads((tmp_path / "e.json").read_text()) == answer


def test_inspect_says_what_the_set_holds(folder, capsys):
    assert run("inspect", folder, "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    demos = sdil.load_demonstrations(folder)
    assert answer["clean"]["episodes"] == 12
    assert answer["noisy"]["steps"] == demos.noisy.n_steps
    assert answer["fingerprint"] == demos.fingerprint()
    assert sum(answer["clean"]["action_share"]) == pytest.approx(1)
    assert answer["clean"]["good_share"] > answer["noisy"]["good_share"]
    assert answer["checked"] is True


def test_inspect_says_whether_the_data_was_checked(folder, tmp_path, capsys):
    assert run("inspect", folder) == 0
    assert "checked: the data is what was written" in capsys.readouterr().out
    old = tmp_path / "old"
    shutil.copytree(folder, old)
    about = json.loads((old / "sdil.json").read_text())
    about["fingerprint"] = "0" * 64
    (old / "sdil.json").write_text(json.dumps(about))
    assert run("inspect", old) == 2
    assert "the data is not what was written" in capsys.readouterr().err
    del about["fingerprint"], about["checksums"]
    (old / "sdil.json").write_text(json.dumps(about))
    assert run("inspect", old) == 0
    assert "not checked: the folder is of a version" in capsys.readouterr().out


def test_several_seeds_are_a_run_each_and_what_each_is_alone(folder, trained, tmp_path, capsys):
    out = tmp_path / "several"
    train = ("train", "bc", "--data", folder, "--max-updates", 100)
    assert run(*train, "--out", out, "--seeds", "0,2-3", "--json") == 0
    told = json.loads(capsys.readouterr().out)["runs"]
    assert [one["seed"] for one in told] == [0, 2, 3]
    assert sorted(path.name for path in out.iterdir()) == ["seed-0", "seed-2", "seed-3"]
    alone, side = (load_file(f / "policy.safetensors") for f in (trained, out / "seed-0"))
    assert all(torch.equal(alone[k], side[k]) for k in alone)
    for wrong in ("4-", "a", "1,1", "3-2", ""):
        assert run(*train, "--out", tmp_path / "no", "--seeds", wrong) != 0
        assert "seeds are given as 0-4" in capsys.readouterr().err


def test_a_run_records_where_it_comes_from(folder, trained):
    about = json.loads((trained / "run.json").read_text())
    assert about["seed"] == 0
    assert about["fingerprint"] == sdil.load_demonstrations(folder).fingerprint()
    assert about["environment"] == "sdil/fourrooms-v0"
    assert about["versions"]["torch"].startswith("2.")
    assert about["hyperparameters"]["max_updates"] == 100
    assert len(json.loads((trained / "epochs.json").read_text())) == 5
    assert not list(trained.glob("checkpoint-*"))


def test_training_shows_the_figures_of_the_weights_that_are_kept(folder, tmp_path, capsys):
    """The validation likelihood is that of the saved policy, not of the last epoch."""
    out = tmp_path / "r"
    options = ["--data", folder, "--valid", folder, "--out", out]
    short = ["--max-updates", 300, "--min-updates", 20, "--learning-rate", 0.02]
    assert run("train", "bc", *options, *short, "--json") == 0
    shown = json.loads(capsys.readouterr().out)["phases"]["clone"]
    epochs = json.loads((out / "epochs.json").read_text())
    assert shown["epoch"] < shown["epochs"] == len(epochs)
    assert shown["valid_nll"] == min(e["valid_nll"] for e in epochs)
    assert shown["valid_nll"] < epochs[-1]["valid_nll"]
    policy, clean = sdil.load_policy(out), sdil.load_demonstrations(folder).clean
    windows = Windows(clean, policy.look_back)
    index = torch.arange(len(windows))
    probs = policy.action_probs(windows.at(index))
    likelihood = probs.gather(1, windows.actions_at(index).long()[:, None])
    assert float(-likelihood.log().mean()) == pytest.approx(shown["valid_nll"], rel=1e-4)
    assert run("train", "bc", *options, *short, "--overwrite", "--verbose") == 0
    text = capsys.readouterr().out
    assert f"epoch {shown['epoch']} of {shown['epochs']}, the one kept" in text
    assert f"{shown['valid_nll']:.4f}" in text


def test_a_setting_is_a_property_of_the_data(folder, tmp_path):
    assert (
        run(
            "train",
            "bc",
            "--data",
            folder,
            "--out",
            tmp_path / "r",
            "--max-updates",
            20,
            "--clean-only",
        )
        == 0
    )
    about = json.loads((tmp_path / "r" / "run.json").read_text())
    assert about["fingerprint"] == sdil.load_demonstrations(folder).clean_only().fingerprint()


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ([], "usage: sdil"),
        (["dance"], "no command 'dance'"),
        (["train", "nobody"], "no learner 'nobody'; there are sdil, bc"),
        (["train"], "which learner"),
        (["train", "bc", "--data", "FOLDER", "--out", "NEW", "--hiden", "3"], "--hiden"),
        (["train", "bc", "--data", "FOLDER", "--out", "NEW", "--hidden", "many"], "--hidden"),
        (["train", "bc", "--data", "FOLDER", "--out", "NEW", "--preset", "x"], "no preset 'x'"),
        (["train", "bc", "--data", "nowhere", "--out", "NEW"], "nowhere does not exist"),
        (["train", "bc", "--data", "FOLDER", "--out", "RUN"], "exists already"),
        (["train", "bc", "--data", "FOLDER", "--out", "FOLDER", "--overwrite"], "has no run.json"),
        (["train", "--resume", "RUN"], "is finished"),
        (["train", "--resume", "nowhere"], "nowhere does not exist"),
        (["collect", "maze", "--out", "NEW"], "maze"),
        (["collect", "fourrooms", "--out", "FOLDER"], "exists already"),
        (["collect", "fourrooms", "--out", "RUN", "--overwrite"], "has no sdil.json"),
        (["collect", "fourrooms", "--out", "NEW", "--clean", "0"], "at least 1 clean"),
        (["inspect", "RUN"], "not a folder of demonstrations"),
        (["evaluate", "FOLDER"], "not a finished run"),
        (["evaluate", "RUN", "--env", "nowhere"], "no task or Gymnasium environment"),
        (["evaluate", "RUN", "--episodes", "0"], "nothing to measure"),
        (["evaluate", "RUN", "--env", "nope:bar"], "cannot make the environment"),
        (["evaluate", "RUN", "--seed", "-1"], "--seed lies between"),
        (["collect", "fourrooms", "--out", "NEW", "--seed", "-1"], "--seed lies between"),
        (["train", "bc", "--data", "FOLDER", "--out", "NEW", "--threads", "0"], "threads must"),
        (["train", "sdil", "--data", "FOLDER", "--out", "NEW", "--n-skills", "0"], "n_skills must"),
        (["train", "bc", "--data", "FOLDER", "--out", "NEW", "--seed", "-1"], "seed lies between"),
    ],
)
def test_bad_usage_and_bad_input_exit_with_2_and_say_why(
    command, message, folder, trained, tmp_path, capsys
):
    places = {"FOLDER": folder, "RUN": trained, "NEW": tmp_path / "new"}
    assert run(*[places.get(c, c) for c in command]) == 2
    printed = capsys.readouterr()
    text = " ".join((printed.err + printed.out).replace("│", " ").split())
    assert message in text
    assert "Traceback" not in text
    assert not (tmp_path / "new").exists()
    assert (trained / "policy.json").exists()


def test_overwrite_replaces_a_run(folder, tmp_path):
    options = ["train", "bc", "--data", folder, "--out", tmp_path / "r", "--max-updates", 20]
    assert run(*options) == 0
    assert run(*options, "--overwrite", "--seed", 5) == 0
    assert json.loads((tmp_path / "r" / "run.json").read_text())["seed"] == 5


def test_a_run_is_not_lost_to_one_that_cannot_start(folder, tmp_path, capsys):
    options = ["train", "bc", "--data", folder, "--out", tmp_path / "r", "--max-updates", 20]
    assert run(*options) == 0
    before = (tmp_path / "r" / "policy.safetensors").read_bytes()
    for wrong in (["--hidden", 0], ["--learning-rate", 1e30], ["--valid", "nowhere"]):
        assert run(*options, "--overwrite", *wrong) == 2
        assert "Traceback" not in capsys.readouterr().err
        assert (tmp_path / "r" / "policy.safetensors").read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["r"]
    fresh = ["train", "bc", "--data", folder, "--out", tmp_path / "new", "--learning-rate", 1e30]
    assert run(*fresh) == 2
    assert not (tmp_path / "new").exists()


def test_a_policy_saved_from_python_can_be_evaluated(trained, tmp_path, capsys):
    sdil.load_policy(trained).save(tmp_path / "mine")
    assert run("evaluate", tmp_path / "mine", "--env", "fourrooms", "--episodes", 3) == 0
    assert run("evaluate", tmp_path / "mine", "--episodes", 3) == 2
    assert "pass --env" in capsys.readouterr().err


def test_help_and_version(capsys):
    assert run("--help") == 0
    assert "collect" in capsys.readouterr().out
    assert run("--version") == 0
    assert sdil.__version__ in capsys.readouterr().out
    assert run("train", "--help") == 0
    assert "Behaviour cloning" in capsys.readouterr().out
    assert run("train", "bc", "--help") == 0
    assert "--weight-decay" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["", "mimic", "mimic build", "mimic cohort", *COMMANDS])
def test_help_fits_80_columns(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert run(*command.split(), "--help") == 0
    text = capsys.readouterr().out
    assert f"sdil {command}".strip() in text
    assert [line for line in text.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("learner", LEARNERS)
def test_help_of_a_learner_fits_80_columns(learner, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert run("train", learner, "--help") == 0
    text = capsys.readouterr().out
    assert "│ --data PATH" in text
    assert [line for line in text.splitlines() if len(line) > 80] == []


def _hear_interrupts() -> None:
    """A shell's background jobs ignore SIGINT, and pass that on to what they start."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_run_can_be_resumed_bit_for_bit(folder, tmp_path, how):
    options = [
        "train",
        "bc",
        "--data",
        str(folder),
        "--max-updates",
        "3000",
        "--min-updates",
        "3000",
        "--out",
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "sdil.cli", *options, str(tmp_path / "cut")],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_hear_interrupts,
    )
    deadline = time.monotonic() + 120
    while len(list((tmp_path / "cut").glob("checkpoint-[0-9]*"))) < 2:
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(how)
    _, text = process.communicate(timeout=60)
    assert process.returncode != 0
    assert not (tmp_path / "cut" / "policy.json").exists()
    if how == signal.SIGINT:
        assert process.returncode == 130
        assert f"sdil train --resume {tmp_path / 'cut'}" in text
        assert "Traceback" not in text
    assert run("evaluate", tmp_path / "cut") == 2
    assert run(*options, tmp_path / "cut") == 2  # says to resume
    assert run("train", "--resume", tmp_path / "cut") == 0
    assert run(*options, tmp_path / "whole") == 0
    files = [tmp_path / name / "policy.safetensors" for name in ("cut", "whole")]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert load_file(files[0])
    histories = [json.loads((tmp_path / n / "epochs.json").read_text()) for n in ("cut", "whole")]
    assert histories[0] == histories[1]


def test_resume_refuses_changed_data(folder, tmp_path):
    data = tmp_path / "d"
    assert run("collect", "fourrooms", "--clean", 4, "--noisy", 0, "--out", data) == 0
    sdil.train(sdil.BC(max_updates=20), data, tmp_path / "r")
    (tmp_path / "r" / "policy.json").unlink()
    assert (
        run(
            "collect",
            "fourrooms",
            "--clean",
            4,
            "--noisy",
            0,
            "--out",
            data,
            "--seed",
            3,
            "--overwrite",
        )
        == 0
    )
    assert run("train", "--resume", tmp_path / "r") == 2


@pytest.mark.slow
def test_progress_bars_only_on_a_terminal(tmp_path):
    """The same command, its output once a pipe and once a terminal."""
    command = [sys.executable, "-m", "sdil.cli", "collect", "fourrooms", "--clean", "400", "--out"]
    piped = subprocess.run([*command, tmp_path / "a"], capture_output=True, text=True, check=True)
    assert piped.stderr == ""
    parent, child = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    with subprocess.Popen(
        [*command, tmp_path / "b"], stdout=child, stderr=child, env=environment
    ) as process:
        os.close(child)
        shown = b""
        while True:
            try:
                piece = os.read(parent, 65536)
            except OSError:  # Linux's way to say that the terminal is gone
                break
            if not piece:
                break
            shown += piece
    os.close(parent)
    assert process.returncode == 0
    assert b"collecting fourrooms" in shown


def test_score_writes_a_row_per_step(folder, trained, tmp_path, capsys):
    import duckdb

    from sdil.segmentation import segments_of

    short = ["--discovery-epochs", 2, "--discovery-min-updates", 1, "--n-skills", 2]
    short += ["--noisy-share", 0.5]  # whatever these few demonstrations speak for
    options = ["--data", folder, "--out", tmp_path / "run", "--max-updates", 20, "--tensorboard"]
    assert run("train", "sdil", *options, *short, "--verbose") == 0
    assert list((tmp_path / "run" / "tensorboard").iterdir())
    epochs = json.loads((tmp_path / "run" / "epochs.json").read_text())
    assert f"bad steps │ {epochs[-1]['bad_steps']} │" in " ".join(capsys.readouterr().out.split())
    table = tmp_path / "scores.parquet"
    command = ["score", tmp_path / "run", "--data", folder, "--out", table, "--set", "both"]
    assert run(*command) == 0
    columns = "set, episode, step, skill, optimality, segment, segment_optimality"
    rows = duckdb.sql(f"SELECT {columns} FROM '{table}' ORDER BY set, episode, step").fetchall()
    written = set(duckdb.sql(f"SELECT * FROM '{table}'").columns)
    assert {"spread", "progress"} <= written  # how sure, and one of the signals
    demos = sdil.load_demonstrations(folder)
    assert len(rows) == demos.all.n_steps
    judged = sdil.load_policy(tmp_path / "run").score(demos.clean)[0]
    mine = [r for r in rows if r[:2] == ("clean", "clean-0")]
    assert [r[3] for r in mine] == judged.skill.tolist()
    assert [r[4] for r in mine] == pytest.approx(judged.optimality.tolist(), abs=1e-9)
    for segment in segments_of(judged):
        for r in mine[segment.start : segment.stop]:
            assert r[6] == pytest.approx(segment.optimality)
    assert run(*command) == 2
    capsys.readouterr()
    assert run(*command, "--overwrite", "--json") == 0
    summary = json.loads(capsys.readouterr().out)
    assert 0 <= summary["noisy"]["auroc"] <= 1
    assert run("score", trained, "--data", folder, "--out", tmp_path / "x.parquet") == 2
    assert "bc does not judge steps" in capsys.readouterr().err
    assert "score_auroc" in [e for e in epochs if e["phase"] == "discover"][-1]


@pytest.mark.filterwarnings("always")
def test_presets_are_starting_points_and_warnings_are_one_line(folder, tmp_path, capsys):
    options = ["--data", folder, "--out", tmp_path / "run", "--max-updates", 20]
    short = ["--discovery-epochs", 1, "--discovery-min-updates", 1, "--n-skills", 3]
    assert run("train", "sdil", "--preset", "paper", *options, *short) == 0
    assert "warning: discovery failed: only" in capsys.readouterr().err
    chosen = json.loads((tmp_path / "run" / "run.json").read_text())["hyperparameters"]
    assert chosen["usage_weight"] == 0.0
    assert chosen["positive_filter"] == "difference"
    assert chosen["n_skills"] == 3


@pytest.mark.slow
def test_demo_prints_a_table_and_says_where_everything_lies(tmp_path, capsys, monkeypatch):
    from sdil.cli import demo

    updates = {"min_updates": 20, "max_updates": 20}
    short = sdil.SDIL(
        discovery_epochs=2,
        discovery_min_updates=1,
        n_skills=2,
        **updates,
    )
    for name, learner in (("bc-clean", sdil.BC(**updates)), ("bc-all", sdil.BC(**updates))):
        label, _, clean_only = demo._RUNS[name]
        monkeypatch.setitem(demo._RUNS, name, (label, learner, clean_only))
    monkeypatch.setitem(demo._RUNS, "sdil", ("SDIL, clean + noisy", short, False))
    out = tmp_path / "demo"
    options = ["demo", "--out", out, "--clean", 5, "--noisy", 5, "--episodes", 10]
    assert run(*options) == 0
    text = capsys.readouterr().out
    assert "BC, clean only" in text
    assert str(out / "demos" / "train") in text.replace("\n", "")
    assert (out / "runs" / "bc-all" / "policy.json").exists()
    assert text.endswith(f"open {out / 'report.html'} in a browser to see what it learned\n")
    assert "<title>sdil on fourrooms" in (out / "report.html").read_text()
    assert run(*options) == 2
    assert run(*options, "--overwrite") == 0


def test_algorithms_lists_every_learner(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert run("algorithms") == 0
    text = capsys.readouterr().out
    assert all(name in text for name in LEARNERS)
    assert max(map(len, text.splitlines())) <= 80
    assert run("algorithms", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    rows = told["learners"]
    assert [r["name"] for r in rows] == list(LEARNERS)
    assert [r["name"] for r in told["judges"]] == list(JUDGES)
    assert all(r["reference"] and r["noisy_set"] for r in rows)


def test_learners_that_practise_take_an_environment(folder, tmp_path):
    """By default where the data came from; `--env none` learns from the records alone."""
    short = ["--env-steps", 256, "--n-envs", 8, "--round-steps", 16, "--max-updates", 20]
    out = tmp_path / "practised"
    assert run("train", "gail", "--data", folder, "--out", out, *short) == 0
    assert sdil.load_policy(out).learner == "gail"
    out = tmp_path / "offline"
    assert run("train", "gail", "--data", folder, "--out", out, *short, "--env", "none") == 0
    assert sdil.load_policy(out).learner == "gail (offline)"


def test_the_oracle_is_told_the_truth(folder, tmp_path, capsys):
    out = tmp_path / "oracle"
    assert run("train", "oracle", "--data", folder, "--out", out, "--max-updates", 20) == 0
    assert sdil.load_policy(out).learner == "oracle"
    demos = sdil.load_demonstrations(folder)
    sdil.save_demonstrations(demos, tmp_path / "untold")
    capsys.readouterr()
    assert run("train", "oracle", "--data", tmp_path / "untold", "--out", tmp_path / "x") == 2
    assert "needs to be told the truth" in capsys.readouterr().err


def test_baselines_judge_steps_too(folder, tmp_path, capsys):
    import duckdb

    out, table = tmp_path / "dwbc", tmp_path / "scores.parquet"
    assert run("train", "dwbc", "--data", folder, "--out", out, "--max-updates", 20) == 0
    assert run("score", out, "--data", folder, "--out", table) == 0
    columns = [c[0] for c in duckdb.sql(f"DESCRIBE SELECT * FROM '{table}'").fetchall()]
    assert columns == ["set", "episode", "step", "optimality", "segment", "segment_optimality"]


def test_in_sepsis_what_sees_only_the_state_is_evaluated_exactly(tmp_path, capsys):
    demos, trained = tmp_path / "demos", tmp_path / "run"
    assert run("collect", "sepsis", "--clean", 10, "--noisy", 2, "--out", demos) == 0
    assert run("train", "bc", "--data", demos, "--out", trained, "--max-updates", 5) == 0
    capsys.readouterr()
    assert run("evaluate", trained, "--json") == 0
    told = json.loads(capsys.readouterr().out)["environment"]
    assert told["exact"] is True
    assert told["n_episodes"] == 0
    assert 0.6 < told["reward_mean"] < 0.876
    assert run("evaluate", trained) == 0
    assert "computed from transition probabilities" in capsys.readouterr().out
    assert run("evaluate", trained, "--episodes", 30, "--json") == 0
    told = json.loads(capsys.readouterr().out)["environment"]
    assert told["exact"] is False
    assert told["n_episodes"] == 30


def test_records_without_an_environment_are_compared_with_records(folder, tmp_path, capsys):
    data, out = tmp_path / "records", tmp_path / "run"
    sdil.save_demonstrations(sdil.load_demonstrations(folder), data)
    capsys.readouterr()
    assert run("train", "bc", "--data", data, "--out", out, "--max-updates", 20) == 0
    assert "sdil evaluate" in (text := capsys.readouterr().out)
    assert f"--data {data}" in text
    assert run("evaluate", out, "--data", data) == 0
    assert "accuracy" in capsys.readouterr().out
    assert run("evaluate", out) == 2
    assert "or --data with recorded episodes" in capsys.readouterr().err
