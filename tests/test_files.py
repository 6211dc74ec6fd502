"""Writing: whole or not at all, a full disk, what a killed process left."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sdil
from sdil import InputError, files
from sdil.cli import main
from sdil.files import (
    clear_errors,
    is_disk_full,
    is_running,
    new_file,
    new_folder,
    read_json,
    refuse_existing,
    refuse_missing,
    replaced_name,
    require_room,
    set_aside,
    show_bytes,
    waiting,
    write_json,
)
from sdil.locks import lock_of, locked, refuse_locked


def test_a_full_disk_is_said_in_one_sentence(tmp_path):
    path = tmp_path / "x.json"
    with (
        pytest.raises(InputError, match=r"cannot write .*x\.json: the disk is full .* are free"),
        new_file(path),
    ):
        raise OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(InputError, match="the disk is full"), new_file(path):
        raise RuntimeError(
            "I/O error: No space left on device (os error 28)"
        )  # as safetensors does
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InputError, match=r"it needs about 1\.0 GB|it needs about [\d.]+ GB"):
        require_room(path, 10**18)
    assert not is_disk_full(RuntimeError("other"))
    assert [show_bytes(n) for n in (12, 12_345, 12_345_678)] == ["12 bytes", "12.3 kB", "12.3 MB"]


def test_what_a_killed_process_left_is_removed_and_what_others_write_is_kept(tmp_path):
    dead = subprocess.Popen([sys.executable, "-c", "pass"])
    dead.wait()
    host = "".join(c if c.isalnum() else "-" for c in socket.gethostname())
    stale = tmp_path / f".x.json.{dead.pid}@{host}.abc"
    stale.write_text("half")
    (tmp_path / f".data.{dead.pid}@{host}.abc").mkdir()
    mine = tmp_path / f".x.json.{os.getpid()}@{host}.abc"
    mine.write_text("being written")
    elsewhere = tmp_path / f".x.json.{dead.pid}@another.abc"
    elsewhere.write_text("being written on another machine")
    strange = tmp_path / ".x.json.backup"
    strange.write_text("the user's own")
    write_json(tmp_path / "x.json", {})
    with new_folder(tmp_path / "data", overwrite=False, marker="m") as folder:
        (folder / "m").touch()
    left = {p.name for p in tmp_path.iterdir()}
    assert left == {"x.json", "data", mine.name, strange.name, elsewhere.name}


def test_the_only_good_data_is_found_after_a_killed_overwrite(tmp_path, demos, capsys):
    """Killed between the two renames of --overwrite."""
    code = """
        import os, signal, sys
        from pathlib import Path
        import sdil
        rename = Path.rename
        def killed(self, target):
            done = rename(self, target)
            if str(target).endswith(".replaced"):
                os.kill(os.getpid(), signal.SIGKILL)
            return done
        Path.rename = killed
        demos = sdil.load_demonstrations(sys.argv[1])
        sdil.save_demonstrations(demos, sys.argv[1], overwrite=True)
    """
    folder = tmp_path / "demos"
    sdil.save_demonstrations(demos, folder)
    died = subprocess.run([sys.executable, "-c", textwrap.dedent(code), str(folder)], check=False)
    assert died.returncode == -signal.SIGKILL
    assert not folder.exists()
    aside = replaced_name(folder)
    for attempt in (
        lambda: sdil.load_demonstrations(folder),
        lambda: sdil.save_demonstrations(demos, folder),
    ):
        with pytest.raises(InputError, match=f"bring it back with: mv {aside} {folder}"):
            attempt()
    assert main(["inspect", str(folder)]) == 2
    assert "bring it back with" in capsys.readouterr().err
    aside.rename(folder)
    assert sdil.load_demonstrations(folder) == demos


def test_a_folder_has_one_worker_at_a_time(tmp_path):
    folder = tmp_path / "run"
    with locked(folder):
        said = f"is being worked in right now, by process {os.getpid()} on"
        with pytest.raises(InputError, match=said):
            refuse_locked(folder)
        with pytest.raises(InputError, match=said), locked(folder):
            pass
    refuse_locked(folder)
    assert list(tmp_path.iterdir()) == []
    lock_of(folder).write_text("process 1 on another since yesterday\n")  # stale
    refuse_locked(folder)
    with locked(folder):
        assert f"process {os.getpid()}" in lock_of(folder).read_text()


def test_a_lock_that_was_taken_away_is_no_lock(tmp_path, monkeypatch):
    """Between opening and locking, its holder may end and take the file away."""
    folder, flock, opened = tmp_path / "run", fcntl.flock, []

    def late(file, how):
        if not opened:
            opened.append(file)
            lock_of(folder).unlink()
        return flock(file, how)

    monkeypatch.setattr("sdil.locks.fcntl.flock", late)
    with locked(folder):
        monkeypatch.undo()
        with pytest.raises(InputError, match="right now"), locked(folder):
            pass


def test_a_newer_good_folder_is_never_given_up_for_an_older_one(tmp_path):
    """A kill after the new one stands, before the old one is gone."""
    folder = tmp_path / "data"
    for text in ("new", "newest"):
        aside = replaced_name(folder)
        aside.mkdir(exist_ok=True)
        (aside / "m").write_text("old")
        folder.mkdir(exist_ok=True)
        (folder / "m").write_text("new")
        with new_folder(folder, overwrite=True, marker="m") as temporary:
            (temporary / "m").write_text(text)
        assert (folder / "m").read_text() == text
        assert not aside.exists()


def test_where_the_last_step_fails_the_newer_good_folder_waits(tmp_path, monkeypatch):
    folder = tmp_path / "data"
    for place, text in ((replaced_name(folder), "old"), (folder, "new")):
        place.mkdir()
        (place / "m").write_text(text)
    rename = Path.rename

    def fails_for_the_newest(self, to):
        if (self / "m").read_text() == "newest":
            raise OSError(errno.EIO, "Input/output error")
        return rename(self, to)

    monkeypatch.setattr(Path, "rename", fails_for_the_newest)
    with (
        pytest.raises(InputError, match="Input/output error"),
        new_folder(folder, overwrite=True, marker="m") as temporary,
    ):
        (temporary / "m").write_text("newest")
    assert (replaced_name(folder) / "m").read_text() == "new"
    assert not folder.exists()


@pytest.mark.parametrize("name", ["x[1]", "x*", "x?", "x!", "x]", "[!x]", "x^-"])
def test_names_that_are_patterns_are_names(tmp_path, name):
    dead = subprocess.Popen([sys.executable, "-c", "pass"])
    dead.wait()
    host = "".join(c if c.isalnum() else "-" for c in socket.gethostname())
    of_another = tmp_path / f".x1.{dead.pid}@{host}.abc"
    of_another.write_text("another's")
    (tmp_path / f".{name}.{dead.pid}@{host}.abc").write_text("half")
    write_json(tmp_path / name, {})
    assert {p.name for p in tmp_path.iterdir()} == {name, of_another.name}


def test_json_that_nests_too_deep_is_no_traceback(tmp_path):
    path = tmp_path / "x.json"
    path.write_text("[" * 100_000)
    with pytest.raises(InputError, match="cannot be read as JSON"):
        read_json(path, what="anything")


def test_overwrite_replaces_nothing_of_others(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    with pytest.raises(InputError, match="so it was not written by this command: kept"):
        refuse_existing(tmp_path / "mine", overwrite=True, marker="run.json")


@pytest.fixture
def small_disk(tmp_path):
    """A disk of two megabytes."""
    place = tmp_path / "disk"
    place.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)], capture_output=True
    )
    if made.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {made.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, fourrooms):
    out = tmp_path_factory.mktemp("full") / "demos"
    sdil.save_demonstrations(fourrooms[0], out, environment="sdil/fourrooms-v0")
    return out


def run_with_little_room(place: Path, room: int, *command: object) -> subprocess.CompletedProcess:
    """A command in a process of its own, with so many bytes free on the small disk."""
    free = os.statvfs(place).f_bavail * os.statvfs(place).f_frsize
    (place / "filling").write_bytes(bytes(max(0, free - room)))
    return subprocess.run(
        [sys.executable, "-m", "sdil.cli", *map(str, command)],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("room", [0, 100_000, 1_000_000])
@pytest.mark.parametrize("what", ["collect", "train", "judge", "score", "curate", "report"])
def test_every_command_says_in_one_sentence_that_the_disk_is_full(
    small_disk, folder, tmp_path, what, room
):
    out = small_disk / "out"
    judgement = tmp_path / "judgement"
    if what in ("score", "curate", "report"):
        sdil.judge(sdil.Judge(clone_updates=20, distance_updates=20), folder, judgement)
    command = {
        "collect": ["collect", "fourrooms", "--clean", 100, "--noisy", 200, "--out", out],
        "train": ["train", "bc", "--data", folder, "--out", out, "--hidden", 512],
        "judge": ["judge", "--data", folder, "--out", out, "--hidden", 512],
        "score": ["score", judgement, "--data", folder, "--out", out.with_suffix(".parquet")],
        "curate": ["curate", judgement, "--data", folder, "--keep-share", 1, "--out", out],
        "report": ["report", judgement, "--out", out.with_suffix(".html")],
    }[what]
    done = run_with_little_room(small_disk, room, *command)
    if done.returncode == 0:
        assert room > 0  # there was room enough
        return
    said = done.stderr.strip().splitlines()
    assert done.returncode == 2, done.stderr
    assert all(line.startswith("  ") for line in said[1:]), done.stderr  # one sentence
    assert "the disk is full" in " ".join(done.stderr.split())
    assert "are free there" in " ".join(done.stderr.split())
    hidden = [p.name for p in small_disk.iterdir() if p.name.startswith(".")]
    assert not hidden


def test_arrays_are_whole_after_a_full_disk(small_disk, demos):
    """What was there before is as it was."""
    out = small_disk / "demos"
    few = sdil.Demonstrations(demos.clean[:2], demos.noisy[:2], demos.spaces)
    sdil.save_demonstrations(few, out)
    (small_disk / "filling").write_bytes(bytes(1_300_000))
    with pytest.raises(InputError, match="the disk is full"):
        sdil.save_demonstrations(demos, out, overwrite=True)
    again = sdil.load_demonstrations(out)
    np.testing.assert_array_equal(again.clean[0].actions, few.clean[0].actions)
    assert [p.name for p in small_disk.iterdir() if p.name.startswith(".")] == []


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, OSError, InputError])
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_no_temporary_name_is_left_by_a_failure(tmp_path, kind, error):
    place = tmp_path / "x"

    def write():
        if kind == "file":
            with new_file(place) as temporary:
                assert temporary.parent == tmp_path
                temporary.write_text("half")
                raise error("on the way")
        with new_folder(place, overwrite=False, marker="m") as temporary:
            (temporary / "half").write_text("half")
            raise error("on the way")

    with pytest.raises((error, InputError)):
        write()
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_written_as_people_read_it_and_as_the_umask_says(tmp_path):
    before = os.umask(0o027)
    try:
        write_json(tmp_path / "x.json", {"a": ["ä", 1]})
        with new_folder(tmp_path / "d", overwrite=False, marker="m") as folder:
            (folder / "m").touch()
        assert os.umask(0o027) == 0o027  # it was only looked at
    finally:
        os.umask(before)
    assert (tmp_path / "x.json").read_text("utf-8") == '{\n  "a": [\n    "ä",\n    1\n  ]\n}\n'
    assert read_json(tmp_path / "x.json", what="x") == {"a": ["ä", 1]}
    assert (tmp_path / "x.json").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "d").stat().st_mode & 0o777 == 0o750


def test_how_much_is_needed_is_said_only_where_it_is_known(tmp_path):
    with pytest.raises(InputError, match=r"is full \(it needs about 1000000000\.0 GB, and [\d.]+ "):
        require_room(tmp_path / "deep" / "x", 10**18)
    require_room(tmp_path / "deep" / "x", 1)
    with (
        pytest.raises(InputError, match=r"the disk is full \([\d.]+ \wB are"),
        new_file(tmp_path / "x"),
    ):
        raise OSError(errno.EDQUOT, "Disk quota exceeded")
    with (
        pytest.raises(InputError, match=r"the disk is full \([\d.]+ \wB are"),
        new_folder(tmp_path / "y", overwrite=False, marker="m"),
    ):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert [show_bytes(n) for n in (0, 999, 1_000, 999_999, 10**9, 10**13)] == [
        *("0 bytes", "999 bytes", "1.0 kB", "1000.0 kB", "1.0 GB", "10000.0 GB")
    ]


def test_what_cannot_be_written_is_said_and_what_is_no_matter_of_files_is_left_alone(tmp_path):
    with (
        pytest.raises(InputError, match=f"cannot write {tmp_path / 'x'}: Read-only file system"),
        clear_errors(tmp_path / "x"),
    ):
        raise OSError(errno.EROFS, "Read-only file system")
    with (
        pytest.raises(InputError, match=r"cannot write .*: nobody said why"),
        clear_errors(tmp_path),
    ):
        raise OSError("nobody said why")
    with pytest.raises(ZeroDivisionError), clear_errors(tmp_path):
        _ = 1 / 0


def test_who_is_looked_for_goes_on():
    listens = "import signal, sys; signal.signal(signal.SIGHUP, signal.SIG_DFL); print(flush=True)"
    code = f"{listens}; sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        other.stdout.readline()
        assert is_running(str(other.pid))
        other.communicate(b"")
    assert other.returncode == 0


def test_a_process_runs_or_does_not():
    dead = subprocess.Popen([sys.executable, "-c", "pass"])
    dead.wait()
    assert is_running(str(os.getpid())) is True
    assert is_running("1") is True  # somebody else's
    assert is_running(str(dead.pid)) is False
    assert is_running("9" * 40) is True  # no number of a process: nothing is known


def test_a_folder_that_waits_is_named_and_gives_way_to_a_good_one_alone(tmp_path):
    path, aside = tmp_path / "run", tmp_path / ".run.replaced"
    assert replaced_name(path) == aside
    assert waiting(path) == ""
    with pytest.raises(InputError, match=r"run does not exist; make one$"):
        refuse_missing(path, "make one")
    path.mkdir()
    (path / "first").touch()
    assert set_aside(path, is_good=True) == aside
    assert (aside / "first").exists()
    assert waiting(path) == (
        f"; what was there before waits in {aside}: bring it back with: rm -r {path} && "
        f"mv {aside} {path}"
    )
    with pytest.raises(InputError, match=r"run does not exist, but .* left it in .*: mv "):
        refuse_missing(path, "make one")
    path.mkdir()
    refuse_missing(path, "make one")
    (path / "half").touch()
    assert set_aside(path, is_good=False) == aside
    assert not path.exists()
    assert [p.name for p in aside.iterdir()] == ["first"]
    path.mkdir()
    (path / "second").touch()
    assert set_aside(path, is_good=True) == aside
    assert [p.name for p in aside.iterdir()] == ["second"]


def test_an_empty_folder_is_free_and_a_full_one_is_not(tmp_path):
    path = tmp_path / "out"
    refuse_existing(path, overwrite=False, marker="m")
    path.mkdir()
    refuse_existing(path, overwrite=False, marker="m")
    assert not path.exists()
    path.mkdir()
    (path / "m").touch()
    with pytest.raises(InputError, match="exists already"):
        refuse_existing(path, overwrite=False, marker="m")
    refuse_existing(path, overwrite=True, marker="m")
    assert (path / "m").exists()
    with pytest.raises(InputError, match="has no other, so it was not written by this command"):
        refuse_existing(path, overwrite=True, marker="other")


def test_places_that_are_not_there_yet_are_made(tmp_path, monkeypatch):
    with new_folder(tmp_path / "a" / "b" / "c", overwrite=False, marker="m") as folder:
        (folder / "m").touch()
    write_json(tmp_path / "d" / "e" / "x.json", 1)
    assert (tmp_path / "a" / "b" / "c" / "m").exists()
    assert (tmp_path / "d" / "e" / "x.json").exists()
    monkeypatch.chdir(tmp_path / "a" / "b")
    assert replaced_name(Path()) == tmp_path / "a" / ".b.replaced"  # "." has no name of its own


def test_a_missing_file_of_a_folder_says_what_the_folder_is_not(tmp_path):
    with pytest.raises(InputError, match=rf"^{tmp_path} is not a run: run.json is missing$"):
        read_json(tmp_path / "run.json", what="a run")
    replaced_name(tmp_path / "run").mkdir()
    with pytest.raises(InputError, match=r"run\.json is missing; what was there before waits in"):
        read_json(tmp_path / "run" / "run.json", what="a run")
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(InputError, match=r"run\.json: cannot be read as JSON"):
        read_json(tmp_path / "run.json", what="a run")


@pytest.mark.slow
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
        max_leaves=12,
    )
)
def test_json_is_laid_out_as_python_does(value):
    assert files._indented(value) == json.dumps(value, indent=2, ensure_ascii=False)
