"""All that is particular to SQLite: opening, creating, locking, and its errors in plain words."""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sqlalchemy import Connection, Engine, MetaData, NullPool, create_engine, event
from sqlalchemy.exc import DBAPIError

from accountant.errors import LedgerUnreadable

_APPLICATION_ID = 0x6C656467  # "ledg" in the file header: what tells a ledger from any database
_SCHEMA_VERSION = 1
_BUSY_SECONDS = 30.0

RESTORE = "Restore a copy, and count as spent what was charged since: a copy forgets it"

_TRIGGERS = tuple(
    f"CREATE TRIGGER entries_refuse_{action.lower()} BEFORE {action} ON entries "
    "BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END"
    for action in ("UPDATE", "DELETE")
)


def open_engine(file: Path, mode: str = "rw") -> Engine:
    """An engine on an existing file that leaves all transaction control to us.

    Each use opens its own connection, so forks and threads share nothing. Writers pass the
    execution option `begin="BEGIN IMMEDIATE"` and hold the lock from their first read on.
    """

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"{file.as_uri()}?mode={mode}", uri=True, timeout=_BUSY_SECONDS, isolation_level=None
        )
        connection.text_factory = lambda raw: raw.decode("utf-8", errors="replace")
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


def create_file(file: Path, metadata: MetaData) -> None:
    """Make an empty ledger appear at once and whole, unless something is there already."""
    draft = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
    try:
        with open_engine(draft, mode="rwc").begin() as connection:
            metadata.create_all(connection)
            for statement in _TRIGGERS:
                connection.exec_driver_sql(statement)
            connection.exec_driver_sql(f"PRAGMA application_id = {_APPLICATION_ID}")
            connection.exec_driver_sql(f"PRAGMA user_version = {_SCHEMA_VERSION}")
        with suppress(FileExistsError):
            os.link(draft, file)
    finally:
        draft.unlink(missing_ok=True)


def check_file(path: Path) -> None:
    """Refuse what is no file, and an empty one, before SQLite takes it for a database."""
    if path.is_dir():
        raise _unreadable(path, "it is a folder", "Name a file in it")
    if not path.parent.is_dir():
        raise _unreadable(path, "its folder does not exist", "Create the folder first")
    if not path.is_file():
        raise _unreadable(path, "there is no such file", "Check the path, or create it with grant")
    if path.stat().st_size == 0:
        raise _unreadable(path, "the file is empty", "Delete it, or choose another path")


def check_identity(connection: Connection, path: Path) -> None:
    """Refuse a database that is not a ledger of this version."""
    if connection.exec_driver_sql("PRAGMA application_id").scalar_one() != _APPLICATION_ID:
        raise _unreadable(path, "it is a database but no ledger", "Choose another path")
    version = connection.exec_driver_sql("PRAGMA user_version").scalar_one()
    if version != _SCHEMA_VERSION:
        raise _unreadable(
            path, f"its format is {version}, not {_SCHEMA_VERSION}", "Use a matching version"
        )


def check_pages(connection: Connection, path: Path) -> None:
    """Refuse a file whose pages are damaged or missing."""
    if connection.exec_driver_sql("PRAGMA quick_check(1)").scalar_one() != "ok":
        raise _unreadable(path, "it is damaged", RESTORE)


@contextmanager
def in_plain_words(path: Path) -> Iterator[None]:
    """Turn errors of the database and of the file system into LedgerUnreadable."""
    try:
        yield
    except DBAPIError as error:
        raise _explain(path, error.orig) from None
    except OSError as error:
        why = error.strerror or str(error)
        raise _unreadable(path, why, "Check the folder and its permissions") from None


def _explain(path: Path, cause: BaseException | None) -> LedgerUnreadable:
    name = getattr(cause, "sqlite_errorname", "")
    for start, (why, advice) in _REASONS.items():
        if name.startswith(start):
            return _unreadable(path, why, advice)
    return _unreadable(path, str(cause), "Check the disk; the ledger itself may be sound")


_REASONS = {
    "SQLITE_NOTADB": ("it is no database", "Choose another path"),
    "SQLITE_CORRUPT": ("it is damaged", RESTORE),
    "SQLITE_READONLY": ("it cannot be written", "Make the file and its folder writable"),
    "SQLITE_CANTOPEN": ("it cannot be opened", "Make the file and its folder accessible"),
    "SQLITE_BUSY": (f"it was locked for {_BUSY_SECONDS:.0f} s", "Try again when it is free"),
    "SQLITE_IOERR": ("the disk failed or is full", "Make room or check it, and try again"),
    "SQLITE_FULL": ("the disk is full", "Make room and try again"),
}


def _unreadable(path: Path, why: str, advice: str) -> LedgerUnreadable:
    return LedgerUnreadable(f"ledger must be a usable ledger file; got {path}: {why}. {advice}.")
