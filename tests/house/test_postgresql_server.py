"""The PostgreSQL server of the tests is real, durable, crashes when told and leaves nothing."""

import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import Mock

import psycopg
import pytest

from .. import postgresql
from ..postgresql import NoServer, PostgresqlServer, find_binaries, running_server, skip_or_fail

KILLED = """
import os, signal
from postgresql import running_server

with running_server() as server:
    print(server.folder, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def connect(url: str) -> psycopg.Connection:
    return psycopg.connect(url.replace("+psycopg", ""))


@pytest.mark.parametrize("setting", ["fsync", "full_page_writes", "synchronous_commit"])
def test_what_durability_rests_on_is_on(postgresql_server: PostgresqlServer, setting: str) -> None:
    with connect(postgresql_server.url) as connection:
        assert connection.execute(f"SHOW {setting}").fetchone() == ("on",)


def test_it_does_not_listen_on_the_network(postgresql_server: PostgresqlServer) -> None:
    with connect(postgresql_server.url) as connection:
        assert connection.execute("SHOW listen_addresses").fetchone() == ("",)


def test_each_database_is_new_and_its_own(
    postgresql_url: str, postgresql_server: PostgresqlServer
) -> None:
    tables = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
    with postgresql_server.fresh_database() as other_url, connect(postgresql_url) as connection:
        connection.execute("CREATE TABLE mine ()")
        connection.commit()
        with connect(other_url) as other:
            assert connection.execute(tables).fetchall() == [("mine",)]
            assert other.execute(tables).fetchall() == []
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        connect(other_url)


def test_what_was_committed_outlives_a_crash(own_postgresql: PostgresqlServer) -> None:
    connection = connect(own_postgresql.url)
    connection.execute("CREATE TABLE kept (number integer)")
    connection.execute("INSERT INTO kept VALUES (1)")
    connection.commit()
    connection.execute("INSERT INTO kept VALUES (2)")
    own_postgresql.kill()
    with pytest.raises(psycopg.OperationalError):
        connection.commit()
    connection.close()
    with pytest.raises(psycopg.OperationalError):
        connect(own_postgresql.url)
    own_postgresql.start()
    with connect(own_postgresql.url) as connection:
        assert connection.execute("SELECT number FROM kept").fetchall() == [(1,)]


@pytest.mark.usefixtures("postgresql_server")  # skipped where there can be none
def test_it_is_gone_when_the_tests_are_killed() -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=Path(__file__).parents[1],
    )
    assert (done.returncode, done.stderr) == (-signal.SIGKILL, "")
    folder = Path(done.stdout.strip())
    assert folder.name.startswith("postgresql-")
    deadline = time.monotonic() + 30
    while folder.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not folder.exists()


def test_without_a_server_a_test_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match=r"no binaries.*package `postgresql`"):
        skip_or_fail("no binaries")


def test_an_empty_ci_is_no_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "")
    with pytest.raises(pytest.skip.Exception):
        skip_or_fail("no binaries")


def test_without_a_server_a_test_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match=r"no binaries.*package `postgresql`"):
        skip_or_fail("no binaries")


@pytest.mark.parametrize("problem", [NoServer("not here"), PermissionError("not here")])
def test_a_server_that_cannot_start_fails_the_test_in_ci(
    monkeypatch: pytest.MonkeyPatch, problem: Exception
) -> None:
    monkeypatch.setenv("CI", "true")
    monkeypatch.setattr(postgresql, "find_binaries", Mock(side_effect=problem))
    with pytest.raises(pytest.fail.Exception, match="not here"), running_server():
        pass


def test_binaries_are_looked_for_on_path_then_in_debians_newest_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    with pytest.raises(NoServer, match="not installed"):
        find_binaries(tmp_path)
    for folder in ("9.6/bin", "15/bin", "path"):  # each goes before those already there
        (tmp_path / folder).mkdir(parents=True)
        for name in ("initdb", "postgres", "pg_ctl"):
            (tmp_path / folder / name).touch(mode=0o755)
        assert find_binaries(tmp_path) == tmp_path / folder
