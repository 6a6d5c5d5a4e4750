"""The append-only record. Every read sees a sound ledger, and every append keeps it sound."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import (
    Column,
    Connection,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    insert,
    select,
)

from accountant import sqlite
from accountant.audit import Audit
from accountant.books import Book
from accountant.entries import Entry, seal
from accountant.errors import LedgerUnreadable, OutOfOrder
from accountant.facts import Fact

METADATA = MetaData()
_ENTRIES = Table(
    "entries",
    METADATA,
    Column("sequence", Integer, primary_key=True, autoincrement=False),
    Column("data_set", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("release_key", Text),
    Column("time", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("previous_hash", Text, nullable=False),
    Column("hash", Text, nullable=False),
    UniqueConstraint("data_set", "kind", "release_key"),
)


def read_entries(path: str | os.PathLike[str]) -> tuple[Entry, ...]:
    """All entries in order as they stand in the file, sound or not."""
    path = Path(path).absolute()
    with sqlite.in_plain_words(path):
        sqlite.check_file(path)
        with sqlite.open_engine(path).begin() as connection:
            return _read(connection, path)


class Transaction:
    """The only writer for as long as it lasts. Its entries appear together or not at all."""

    def __init__(self, connection: Connection, audit: Audit) -> None:
        self._connection = connection
        self._audit = audit

    def book(self, data_set: str) -> Book:
        """What the ledger says about the data set, this transaction's entries included."""
        return self._audit.books.get(data_set) or Book(data_set)

    def data_sets(self) -> tuple[str, ...]:
        """The names that the ledger knows."""
        return tuple(self._audit.books)

    def append(
        self,
        data_set: str,
        kind: str,
        body: Fact | dict[str, Any],
        release_key: str | None = None,
    ) -> Entry:
        """Seal and write one entry. Raises OutOfOrder if `verify` would object to it."""
        entry = seal(
            self._audit.last, data_set=data_set, kind=kind, body=body, release_key=release_key
        )
        self._audit.add(entry)
        if self._audit.problems:
            raise OutOfOrder(
                f"{kind} must follow from the entries before it; got one that does not: "
                f"{self._audit.problems[-1].message}. Authorize the release again."
            )
        self._connection.execute(insert(_ENTRIES).values(entry.fields()))
        return entry


class Ledger:
    """A sound ledger file. The handle holds no entries: each read goes to the file."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()
        self.audit()

    @classmethod
    def create(cls, path: str | os.PathLike[str]) -> Ledger:
        """The ledger at this path, made empty if nothing is there."""
        path = Path(path).absolute()
        with sqlite.in_plain_words(path):
            if path.parent.is_dir() and not path.exists():
                sqlite.create_file(path, METADATA)
        return cls(path)

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r})"

    def entries(self) -> tuple[Entry, ...]:
        """All entries in order."""
        return read_entries(self.path)

    def audit(self) -> Audit:
        """The books as they stand now. Raises LedgerUnreadable if anything is wrong."""
        return _sound(self.entries(), self.path)

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Hold the ledger, append, and have it on disk on leaving; nothing on an exception."""
        with sqlite.in_plain_words(self.path):
            sqlite.check_file(self.path)
            writer = sqlite.open_engine(self.path).execution_options(begin="BEGIN IMMEDIATE")
            with writer.begin() as connection:
                yield Transaction(connection, _sound(_read(connection, self.path), self.path))


def _read(connection: Connection, path: Path) -> tuple[Entry, ...]:
    sqlite.check_identity(connection, path)
    sqlite.check_pages(connection, path)
    rows = connection.execute(select(_ENTRIES).order_by(_ENTRIES.c.sequence))
    return tuple(
        Entry(**{name: _plain(value) for name, value in row.items()}) for row in rows.mappings()
    )


def _plain(value: Any) -> Any:
    """Anything but a number, text or NULL was put there by a stranger: keep it as text."""
    return value if value is None or isinstance(value, int | str) else repr(value)


def _sound(entries: tuple[Entry, ...], path: Path) -> Audit:
    audit = Audit()
    for entry in entries:
        audit.add(entry)
    if audit.problems:
        first = audit.problems[0]
        raise LedgerUnreadable(
            f"ledger must be sound; got {path}, where entry {first.position} is wrong: "
            f"{first.message}. Run `accountant verify {shlex.quote(str(path))}`."
        )
    return audit
