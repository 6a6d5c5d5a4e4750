"""A ledger in an SQLite file."""

from __future__ import annotations

import os
import secrets
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from sqlalchemy import Connection, Engine, NullPool, create_engine, event
from sqlalchemy.exc import DBAPIError

from accountant.databases.database import BUSY_SECONDS, Database
from accountant.databases.schema import find_format, migrate
from accountant.errors import LedgerUnreadable

_APPLICATION_ID = 0x6C656467  # "ledg" in the file header: what tells a ledger from any database

_LINKED_MOMENTS = 50  # of a fiftieth of a second each

RESTORE = "Restore a copy, and count as spent what was charged since: a copy forgets it"


class SQLiteFile(Database):
    """A file. Each use opens its own connection, so that forks and threads share nothing."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def address(self) -> str:
        """The path."""
        return str(self.path)

    def create(self) -> None:
        """Make the file appear whole: it is linked into place when it is finished."""
        draft = self.path.with_name(f".{self.path.name}.{secrets.token_hex(8)}")
        with self._at_the_file(), self._in_plain_words():
            if self.path.exists() or not self.path.parent.is_dir():
                return
            try:
                with _new_engine(draft, mode="rwc").begin() as connection:
                    migrate(connection)
                    connection.exec_driver_sql(f"PRAGMA application_id = {_APPLICATION_ID}")
                with suppress(FileExistsError):
                    os.link(draft, self.path)
            finally:
                draft.unlink(missing_ok=True)

    def check(self) -> None:
        """Refuse what is no ledger of this format."""
        with self.reading() as connection:
            self.check_format(_format(connection))

    def check_storage(self) -> None:
        """Refuse a file with damaged pages, or with an index that lacks an entry."""
        with self.reading() as connection:
            if connection.exec_driver_sql("PRAGMA integrity_check(1)").scalar_one() != "ok":
                raise self.unusable("it is damaged", RESTORE)

    def upgrade(self) -> str:
        """Add what the tables of an older format lack."""
        with self.writing() as connection:
            found = self.known_format(_format(connection))
            migrate(connection, start=None if find_format(connection) else found)
            return found

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """One state of the file."""
        with self._in_plain_words():
            self._check_file()
            with _engine(self.path).begin() as connection:
                yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Hold the lock from before the first read on."""
        with self._in_plain_words():
            self._check_file()
            writer = _engine(self.path).execution_options(begin="BEGIN IMMEDIATE")
            with writer.begin() as connection:
                yield connection

    def _check_file(self) -> None:
        """Refuse what is no file, and an empty one, before SQLite takes it for a database."""
        with self._at_the_file():
            if self.path.is_dir():
                raise self.unusable("it is a folder", "Name a file in it")
            if not self.path.parent.is_dir():
                raise self.unusable("its folder does not exist", "Create the folder first")
            if not self.path.is_file():
                raise self.unusable(
                    "there is no such file", "Check the path, or create it with grant"
                )
            if self.path.stat().st_size == 0:
                raise self.unusable("the file is empty", "Delete it, or choose another path")
            for _ in range(_LINKED_MOMENTS):  # while it is created it has two
                if self.path.stat().st_nlink == 1:
                    return
                time.sleep(0.02)
            raise self.unusable(
                "it has two names (hard links), and so two journals", "Remove one of them"
            )

    @contextmanager
    def _in_plain_words(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            raise self._explain(error.orig) from None

    @contextmanager
    def _at_the_file(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            why = error.strerror or str(error)
            raise self.unusable(why, "Check the folder and its permissions") from None

    def _explain(self, cause: BaseException | None) -> LedgerUnreadable:
        name = getattr(cause, "sqlite_errorname", "")
        for start, (why, advice) in _REASONS.items():
            if name.startswith(start):
                return self.unusable(why, advice)
        return self.unusable(str(cause), "Check the disk; the ledger itself may be sound")


_REASONS = {
    "SQLITE_NOTADB": ("it is no database", "Choose another path"),
    "SQLITE_CORRUPT": ("it is damaged", RESTORE),
    "SQLITE_READONLY": ("it cannot be written", "Make the file and its folder writable"),
    "SQLITE_CANTOPEN": ("it cannot be opened", "Make the file and its folder accessible"),
    "SQLITE_BUSY": (f"it was locked for {BUSY_SECONDS} s", "Try again when it is free"),
    "SQLITE_IOERR": ("the disk failed or is full", "Make room or check it, and try again"),
    "SQLITE_FULL": ("the disk is full", "Make room and try again"),
}


@cache
def _engine(file: Path) -> Engine:
    """The engine of this file: it remembers compiled queries, and no connection."""
    return _new_engine(file, mode="rw")


def _new_engine(file: Path, mode: str) -> Engine:
    """An engine that leaves all transaction control to us, and keeps no connection open."""

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"{file.as_uri()}?mode={mode}", uri=True, timeout=BUSY_SECONDS, isolation_level=None
        )
        connection.text_factory = lambda raw: raw.decode("utf-8", errors="surrogateescape")
        try:
            connection.execute("PRAGMA synchronous = EXTRA")  # durable when COMMIT returns
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    engine = create_engine("sqlite://", creator=connect, poolclass=NullPool)

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql(connection.get_execution_options().get("begin", "BEGIN"))

    return engine


def _format(connection: Connection) -> str | None:
    """The format of a ledger; format 1 stood in the header alone. None for any other database."""
    if connection.exec_driver_sql("PRAGMA application_id").scalar_one() != _APPLICATION_ID:
        return None
    return find_format(connection) or str(
        connection.exec_driver_sql("PRAGMA user_version").scalar_one()
    )
