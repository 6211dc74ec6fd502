"""Tables of a PostgreSQL server: the same numbers, and no password anywhere."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
from layouts import episodes, flat, table_of

import sdil
from sdil.errors import InputError

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed: sdil[postgres]")
pytestmark = pytest.mark.slow


def find_binaries() -> Path | None:
    for folder in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True):
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    return None


@pytest.fixture(scope="module")
def server():
    """The address of a new server with a table of steps."""
    binaries = find_binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL server on this machine (Debian: apt install postgresql)")
    folder = Path(tempfile.mkdtemp(prefix="sdil-pg-"))
    account = {}
    if os.geteuid() == 0:  # PostgreSQL refuses to run as root
        names = {user.pw_name for user in pwd.getpwall()}
        user = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
        os.chown(folder, user.pw_uid, user.pw_gid)
        account = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    run = {"cwd": folder, "env": {"LC_ALL": "C", "PATH": os.environ["PATH"]}, **account}
    subprocess.run(
        [binaries / "initdb", "-D", folder / "data", "-U", "me", "-A", "trust", "-N"],
        check=True,
        capture_output=True,
        **run,
    )
    options = ["-c", "listen_addresses=", "-c", "fsync=off", "-k", str(folder)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [binaries / "postgres", "-D", folder / "data", *options], stdout=log, stderr=log, **run
        )
    try:
        url = f"postgresql://me:secret@/postgres?host={folder}"
        for _ in range(100):
            try:
                with psycopg.connect(url) as connection:
                    fill(connection)
                break
            except psycopg.OperationalError:
                time.sleep(0.2)
        yield url
    finally:
        process.terminate()
        process.wait(timeout=30)
        shutil.rmtree(folder, ignore_errors=True)


def fill(connection):
    columns = table_of()
    kinds = {"i": "bigint", "f": "double precision", "b": "boolean", "O": "text"}
    types = {n: kinds[np.asarray(v).dtype.kind] for n, v in columns.items()}
    types |= {f"action_{i}": "real" for i in range(2)}
    names = ", ".join(f'"{n}" {kind}' for n, kind in types.items())
    connection.execute(f"CREATE TABLE steps ({names})")
    marks = ", ".join(["%s"] * len(columns))
    with connection.cursor() as cursor:
        rows = list(zip(*(np.asarray(v).tolist() for v in columns.values()), strict=True))
        cursor.executemany(f"INSERT INTO steps VALUES ({marks})", rows)


def test_a_table_of_a_server(server):
    demos = sdil.read(server, clean="success", table="steps")
    assert demos.clean.ids == ("0", "3")
    for t in [*demos.clean, *demos.noisy]:
        e = episodes()[int(t.id)]
        np.testing.assert_array_equal(t.observations, flat(e, len(e["action"])))
        np.testing.assert_array_equal(t.actions, e["action"])
    assert "secret" not in str(demos.origin)


def test_what_is_not_there_is_said_without_the_password(server):
    with pytest.raises(InputError, match="there is no table 'other'") as refused:
        sdil.read(server, clean="0", table="other")
    assert "secret" not in str(refused.value)
    with pytest.raises(InputError, match="PostgreSQL") as refused:
        sdil.read("postgresql://me:secret@/nothing?host=/nowhere", clean="0")
    assert "secret" not in str(refused.value)


def test_no_run_keeps_a_password(server):
    from sdil.formats.data import absolute

    with pytest.raises(InputError, match="PGPASSWORD"):
        absolute(f"{server}&clean=0")
    assert "clean=0" in absolute(server.replace(":secret", "") + "&clean=0")
