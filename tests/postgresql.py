"""A real PostgreSQL server for tests: one for each test process that asks, gone when it is gone."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from signal import SIGKILL
from typing import NoReturn
from urllib.parse import quote

import pytest

SECONDS_TO_START = 60
PORT = 5432  # names the socket; nothing listens on the network
LONGEST_SOCKET_ADDRESS = 103  # in bytes: Linux takes 107, macOS 103

#: Durability is part of what is tested, so it is asked for and not left to a default.
#: Shared memory in the data folder works without /dev/shm and leaves nothing there after a crash.
SETTINGS = {
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "listen_addresses": "",
    "dynamic_shared_memory_type": "mmap",
}

#: Runs beside the tests. Makes the data folder, says how that went, and cleans up on a line or on
#: the end of its input, a pipe that only the test process holds: also when that is killed, and
#: then a little later, for a server that is just starting has not yet written its process id.
GUARD = """
trap "" PIPE
"$1/initdb" -D "$2/data" --username=postgres --auth=trust --encoding=UTF8 --locale=C --no-sync >&2
echo $?
read -r line || sleep 1
"$1/pg_ctl" stop --silent --mode=immediate -D "$2/data"
rm -rf "$2"
"""


class NoServer(Exception):
    """No server can be started here."""


def skip_or_fail(reason: str) -> NoReturn:
    """Skip where a developer has no server; fail in CI, where a skip would pass unseen."""
    message = f"no PostgreSQL server: {reason}. Needed: the Debian package `postgresql`"
    if os.environ.get("CI"):
        pytest.fail(f"{message}; CI is set, so this is not skipped", pytrace=False)
    pytest.skip(message)


def find_binaries(debian: Path = Path("/usr/lib/postgresql")) -> Path:
    """The folder of initdb, postgres and pg_ctl: on PATH, else Debian's newest."""
    found = [Path(path).resolve().parent for path in [shutil.which("initdb")] if path]
    found += sorted(debian.glob("[0-9]*/bin"), key=lambda path: -float(path.parent.name))
    for folder in found:
        if all((folder / name).exists() for name in ("initdb", "postgres", "pg_ctl")):
            return folder
    raise NoServer("initdb, postgres and pg_ctl are not installed")


def unprivileged_account() -> pwd.struct_passwd | None:
    """Whom to run as instead of root, which PostgreSQL refuses; None: as we are."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            return pwd.getpwnam(name)
    raise NoServer("it refuses to run as root, and there is no user postgres or nobody")


class PostgresqlServer:
    """A server with its own data folder, listening on a socket in that folder alone."""

    def __init__(self) -> None:
        self._binaries = find_binaries()
        account = unprivileged_account()
        self._identity = (
            {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []} if account else {}
        )
        self._process: subprocess.Popen[bytes] | None = None
        self._numbers = count(1)
        self.folder = self._make_folder()
        self._guard = self._launch(
            ["sh", "-c", GUARD, "sh", self._binaries, self.folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    @property
    def url(self) -> str:
        """Of the database `postgres`, empty in a new server."""
        return self.url_of("postgres")

    def url_of(self, database: str) -> str:
        """In SQLAlchemy's form; the port is said so that PGPORT does not change it."""
        place = quote(str(self.folder))
        return f"postgresql+psycopg://postgres@/{database}?host={place}&port={PORT}"

    @contextmanager
    def fresh_database(self) -> Iterator[str]:
        """The url of a new empty database, dropped afterwards."""
        name = f"test_{next(self._numbers)}"
        self._execute(f"CREATE DATABASE {name}")
        try:
            yield self.url_of(name)
        finally:
            self._execute(f"DROP DATABASE {name} WITH (FORCE)")  # also with connections left open

    def create(self) -> None:
        """Wait until the data folder is made."""
        if self._guard.stdout.readline() != b"0\n":
            raise NoServer(f"initdb fails: {self._log()}")

    def start(self) -> None:
        """Start, also again after `kill`, and wait until it answers."""
        settings = [f"--{name}={value}" for name, value in SETTINGS.items()]
        data = ["-D", self.folder / "data", "-k", self.folder, "-p", str(PORT)]
        self._alive, held = os.pipe()
        try:
            command = [self._binaries / "postgres", *data, *settings]
            self._process = self._launch(command, pass_fds=[held])
        finally:
            os.close(held)
        deadline = time.monotonic() + SECONDS_TO_START
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise NoServer(f"it does not start: {self._log()}")
            time.sleep(0.02)

    def kill(self) -> None:
        """Crash: SIGKILL to the postmaster and all its backends; returns when all are gone."""
        assert self._process is not None
        postmaster = self._process.pid
        # A backend in the middle of work would outlive the postmaster. Where there is no /proc,
        # backends end by themselves when they next wait.
        children = Path(f"/proc/{postmaster}/task/{postmaster}/children")
        backends = children.read_text().split() if children.exists() else []
        for pid in (postmaster, *map(int, backends)):
            with suppress(ProcessLookupError):
                os.kill(pid, SIGKILL)
        self._reap()

    def close(self) -> None:
        """Stop and remove the folder."""
        self._guard.communicate(b"\n")
        self._reap()

    def _reap(self) -> None:
        if self._process is not None:
            self._process.kill()  # no more than a safety where it heeds nothing else
            self._process.wait()
            self._process = None
            os.read(self._alive, 1)  # ends when the last backend is gone: each holds the pipe
            os.close(self._alive)

    def _answers(self) -> bool:
        import psycopg  # here, for a quarter of a second in the many runs that ask for no server

        try:
            self._execute("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    def _execute(self, statement: str) -> None:
        import psycopg

        url = self.url.replace("+psycopg", "")
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(statement)

    def _make_folder(self) -> Path:
        """A private folder that the server's account reaches, with a short name for the socket."""
        for parent in dict.fromkeys((tempfile.gettempdir(), "/tmp")):
            folder = Path(tempfile.mkdtemp(prefix="postgresql-", dir=parent))
            fits = False
            try:
                if self._identity:
                    os.chown(folder, self._identity["user"], self._identity["group"])
                reached = subprocess.run(["test", "-w", folder], **self._identity, check=False)
                socket = os.fsencode(folder / f".s.PGSQL.{PORT}")
                fits = (
                    reached.returncode == 0
                    and os.access(folder, os.W_OK)  # for us too
                    and len(socket) <= LONGEST_SOCKET_ADDRESS
                )
            finally:
                if not fits:
                    folder.rmdir()
            if fits:
                return folder
        raise NoServer("no temporary folder fits a socket and its account; set TMPDIR")

    def _launch(self, command: list[str | Path], **options) -> subprocess.Popen[bytes]:
        """Start a command as the server's account, in its folder, without the user's settings."""
        kept = {name: text for name, text in os.environ.items() if not name.startswith("PG")}
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                command,
                **({"stdout": log} | options),
                stderr=log,
                cwd=self.folder,
                env=kept | {"LC_ALL": "C"},
                start_new_session=True,  # Ctrl-C is for the tests, not for those who serve them
                **self._identity,
            )

    def _log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")[-2000:].strip()


@contextmanager
def running_server() -> Iterator[PostgresqlServer]:
    """A new server, stopped and removed afterwards; skips or fails where there can be none."""
    server = None
    try:
        try:
            server = PostgresqlServer()
            server.create()
            server.start()
        except (NoServer, OSError) as problem:
            skip_or_fail(str(problem))
        yield server
    finally:
        if server is not None:
            server.close()
