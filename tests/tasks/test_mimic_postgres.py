"""MIMIC-IV from a real PostgreSQL server, started here from the machine's own binaries."""

from __future__ import annotations

import gzip
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from test_mimic import demo_folder
from tiny_mimic import three_patients

from sdil.errors import InputError
from sdil.tasks.mimic.build import build
from sdil.tasks.mimic.pipeline import Limits, Pipeline
from sdil.tasks.mimic.postgres import copy_tables
from sdil.tasks.mimic.sources import COLUMNS, open_tables

pytestmark = pytest.mark.slow
psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed: sdil[postgres]")

# the types of the official schema (mimic-code, buildmimic/postgres/create.sql)
TYPES = {
    "BIGINT": "INTEGER",
    "INTEGER": "INTEGER",
    "DOUBLE": "DOUBLE PRECISION",
    "VARCHAR": "VARCHAR(255)",
    "TIMESTAMP": "TIMESTAMP(0)",
}
OTHERWISE = {"dod": "DATE", "icd_code": "CHAR(7)", "gender": "CHAR(1)"}


def find_binaries() -> Path | None:
    for folder in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True):
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    found = shutil.which("initdb")
    return Path(found).resolve().parent if found and shutil.which("postgres") else None


@pytest.fixture(scope="module")
def server():
    """The address of a new, empty server, up to the name of the database."""
    binaries = find_binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL server on this machine (Debian: apt install postgresql)")
    folder = Path(tempfile.mkdtemp(prefix="sdil-pg-"))  # short: a socket's path is limited
    account = {}
    if os.geteuid() == 0:  # PostgreSQL refuses to run as root
        names = {user.pw_name for user in pwd.getpwall()}
        user = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
        os.chown(folder, user.pw_uid, user.pw_gid)
        account = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    run = {"cwd": folder, "env": {"LC_ALL": "C", "PATH": os.environ["PATH"]}, **account}
    process = None
    try:
        subprocess.run(
            [binaries / "initdb", "-D", folder / "data", "-U", "mimic", "-A", "trust", "-N"],
            check=True,
            capture_output=True,
            **run,
        )
        options = ["-c", "listen_addresses=", "-c", "fsync=off", "-k", str(folder)]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [binaries / "postgres", "-D", folder / "data", *options],
                stdout=log,
                stderr=log,
                **run,
            )
        _wait_for(f"postgresql://mimic@/postgres?host={folder}")
        yield folder
    finally:
        if process is not None:
            process.terminate()
            process.wait(timeout=30)
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for(url: str) -> None:
    for _ in range(100):
        try:
            psycopg.connect(url).close()
            return
        except psycopg.OperationalError:
            time.sleep(0.2)
    pytest.fail("PostgreSQL did not start")


def load(server: Path, name: str, mimic: Path) -> str:
    """Load a folder of CSV.gz as the official scripts do; returns the address."""
    with psycopg.connect(
        f"postgresql://mimic@/postgres?host={server}", autocommit=True
    ) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    url = f"postgresql://mimic@/{name}?host={server}"
    with psycopg.connect(url) as connection, connection.cursor() as cursor:
        for schema in ("mimiciv_hosp", "mimiciv_icu"):
            cursor.execute(f"CREATE SCHEMA {schema}")
        for short, table in open_tables(mimic).items():
            path = next(name for name in COLUMNS if name.endswith(f"/{short}"))
            needed = COLUMNS[path]
            where = f"mimiciv_{path.replace('/', '.')}"
            columns = ", ".join(
                f"{c} {OTHERWISE.get(c) or TYPES.get(needed.get(c, ''), 'TEXT')}"
                for c in table.columns
            )
            cursor.execute(f"CREATE TABLE {where} ({columns})")
            command = f"COPY {where} FROM STDIN WITH (FORMAT csv, HEADER, NULL '')"
            with cursor.copy(command) as copy, gzip.open(table.path, "rb") as file:
                while block := file.read(1 << 20):
                    copy.write(block)
    return url


def test_both_routes_agree_on_three_patients(server, tmp_path):
    mimic = three_patients().write(tmp_path / "mimic")
    url = load(server, "tiny", mimic)
    assert_same(url, mimic, tmp_path)
    again = copy_tables(url, tmp_path / "server")
    copies = list((tmp_path / "server").glob("postgres-*"))
    assert len(copies) == len(again)  # copied once
    assert {path.stat().st_mode & 0o777 for path in copies} == {0o600}


@pytest.mark.slow
def test_both_routes_agree_on_the_demo(server, tmp_path):
    mimic = demo_folder()
    assert_same(load(server, "demo", mimic), mimic, tmp_path)


def assert_same(url: str, mimic: Path, tmp_path: Path) -> None:
    limits = Limits(memory_gb=2, threads=1)
    cache = tmp_path / "server"
    from_server = build(Pipeline(copy_tables(url, cache), cache, limits))
    from_files = build(Pipeline(open_tables(mimic), tmp_path / "files", limits))
    assert from_server.quality == from_files.quality
    for part, demos in from_files.parts.items():
        assert demos == from_server.parts[part]


def test_what_is_missing_is_named(server, tmp_path):
    url = load(server, "lacking", three_patients().write(tmp_path / "mimic"))
    with psycopg.connect(url) as connection:
        connection.execute("ALTER TABLE mimiciv_icu.icustays DROP COLUMN intime")
    with pytest.raises(InputError, match=r"mimiciv_icu.icustays: column intime missing; MIMIC-IV"):
        copy_tables(url, tmp_path / "cache")
    with psycopg.connect(url) as connection:
        connection.execute("DROP TABLE mimiciv_icu.icustays")
    with pytest.raises(InputError, match=r"mimiciv_icu.icustays is missing; MIMIC-IV 2\.2"):
        copy_tables(url, tmp_path / "cache")
    with pytest.raises(InputError, match="cannot be reached"):
        copy_tables(f"postgresql://mimic@/none?host={server}", tmp_path / "cache")
