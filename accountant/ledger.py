"""The append-only record. An append reads the last balance, not the whole ledger."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    Executable,
    ScalarSelect,
    Select,
    and_,
    bindparam,
    func,
    insert,
    or_,
    select,
    union_all,
)

from accountant.audit import unsound
from accountant.books import Book, RuleError, read_balance, read_body, read_document
from accountant.charges import Charge
from accountant.databases.addresses import find_database
from accountant.databases.database import Database
from accountant.databases.schema import ENTRIES
from accountant.entries import Entry, draft, seal
from accountant.errors import OutOfOrder
from accountant.facts import Fact

_BATCH = 1000  # entries fetched at a time when all are read

_E = ENTRIES.c
_TERMS = ("grant", "raise", "table")
_KEY: BindParameter[str] = bindparam("key")
#: KEY itself, and KEY#2 and so on: in byte order '$' follows '#'. A range, which an index finds.
_UNDER_KEY = and_(
    _E.release_key >= _KEY,
    _E.release_key < bindparam("beyond"),
    or_(_E.release_key == _KEY, _E.release_key >= bindparam("numbered")),
)
_IS_OWN = _E.data_set == bindparam("data_set")
_ALL = select(ENTRIES).order_by(_E.sequence)
_OWN = _ALL.where(_IS_OWN)
#: Sorted by an expression, so that the database looks these up by kind and key, and does not walk
#: through all entries of the data set because they are in order already.
_SORTED = _E.sequence + 0


def _newest(query: Select[Any], order: ColumnElement[Any] = _E.sequence) -> Select[Any]:
    return query.order_by(None).order_by(order.desc()).limit(1)


def _within(query: Select[Any]) -> ScalarSelect[Any]:
    """A query as a value in another one, about the same table but not about the same row."""
    return query.correlate(None).scalar_subquery()


_INSERT = insert(ENTRIES).execution_options(preserve_rowcount=True)
_HIGHEST = select(func.max(_E.sequence))
_LAST = _newest(_ALL)
_LAST_ABOUT = _newest(_OWN.where(_E.allocation == bindparam("allocation")))
_LAST_CHARGE = _newest(
    _OWN.where(_E.kind == "charge", _E.allocation.is_not_distinct_from(bindparam("allocation")))
)
_LAST_RELEASE = _newest(_OWN.where(_UNDER_KEY, _E.kind == "release"), _SORTED)
#: The terms of a data set, its last entry, and the last of all, some of them twice.
_OPENING = union_all(
    select(ENTRIES).where(_IS_OWN, _E.kind.in_(_TERMS)),
    select(ENTRIES).where(_E.sequence == _within(_HIGHEST.where(_IS_OWN))),
    select(ENTRIES).where(_E.sequence == _within(_HIGHEST)),
)
_NEWEST_KEY = _newest(
    select(_E.release_key).where(_IS_OWN, _UNDER_KEY, _E.kind == "charge"), _SORTED
)
#: All about the first attempt under a key, the newest, and the one of the very key asked for.
_ATTEMPTS = (
    _OWN.order_by(None)
    .order_by(_SORTED)
    .where(
        _E.kind.in_(("charge", "started", "release", "void")),
        or_(
            _E.release_key == _KEY,
            _E.release_key == bindparam("asked"),
            _E.release_key == _within(_NEWEST_KEY),
        ),
    )
)


class Records:
    """The entries in one state of the ledger. Each that is read must match its own hash."""

    def __init__(self, connection: Connection, database: Database) -> None:
        self._connection = connection
        self._database = database
        self._books: dict[str, Book] = {}
        self._learned: set[tuple[str, str]] = set()
        self._tail: Entry | None = None  # the last of the ledger, once a book is open

    def user(self) -> str:
        """Who is at work: the role that connected, or else the user of this machine."""
        return self._database.user(self._connection)

    def batch(self, after: int | None, until: int, data_set: str | None = None) -> list[Entry]:
        """The next entries behind a sequence number, sound or not; none at the end."""
        query = _ALL.where(_E.sequence <= until).limit(_BATCH)
        if after is not None:
            query = query.where(_E.sequence > after)
        if data_set is not None:
            query = query.where(_E.data_set == data_set)
        return [Entry.of(row) for row in self._connection.execute(query)]

    def last(self) -> Entry | None:
        """The last entry of the ledger."""
        return self._one(_LAST)

    def highest(self) -> int | None:
        """The last sequence number."""
        found: int | None = self._connection.execute(_HIGHEST).scalar()
        return found

    def data_sets(self) -> tuple[str, ...]:
        """The names that have a grant, in the order of their grants."""
        query = select(_E.data_set).where(_E.kind == "grant").order_by(_E.sequence)
        return self._names(query)

    def allocations(self, data_set: str) -> tuple[str, ...]:
        """The names of a data set's allocations, in the order they were made."""
        query = select(_E.allocation).where(_E.data_set == data_set, _E.kind == "allocation")
        return self._names(query.order_by(_SORTED))

    def keys(self, data_set: str, beginning: str) -> tuple[str, ...]:
        """The keys of charges that begin so, at most a few."""
        after = beginning[:-1] + chr(ord(beginning[-1]) + 1)
        query = select(_E.release_key).where(
            _E.data_set == data_set,
            _E.kind == "charge",
            _E.release_key >= beginning,
            _E.release_key < after,
        )
        return self._names(query.limit(100))

    def _names(self, query: Executable) -> tuple[str, ...]:
        """A column of names: as text, also where somebody wrote something else."""
        return tuple(map(str, self._connection.execute(query).scalars()))

    def book(
        self, data_set: str, *, release_key: str | None = None, allocation: str | None = None
    ) -> Book:
        """The book of one data set, with what it says about one key and one allocation."""
        if data_set not in self._books:
            self._books[data_set] = self._open(data_set)
        book = self._books[data_set]
        with self._readable():
            if allocation is not None and allocation not in book.pools:
                about = self._one(_LAST_ABOUT, data_set=data_set, allocation=allocation)
                if about and about.balance:
                    book.recall_pool(allocation, read_balance(about.balance))
            if release_key is not None and (data_set, release_key) not in self._learned:
                self._learned.add((data_set, release_key))
                for entry in self._attempts(data_set, release_key):
                    book.recall(entry)
        return book

    def release(self, data_set: str, key: str) -> tuple[Entry, dict[str, Any]] | None:
        """The newest release under a key as it was given."""
        found = self._one(_LAST_RELEASE, data_set=data_set, **_under(key))
        with self._readable():
            return None if found is None else (found, read_document(found))

    def last_charge(self, data_set: str, allocation: str | None) -> Charge | None:
        """The newest charge to a pool, whatever became of it."""
        found = self._one(_LAST_CHARGE, data_set=data_set, allocation=allocation)
        with self._readable():
            return None if found is None else read_body(found, Charge)

    def _open(self, data_set: str) -> Book:
        found = {entry.sequence: entry for entry in self._many(_OPENING, data_set=data_set)}
        entries = [found[sequence] for sequence in sorted(found)]
        self._tail = entries[-1] if entries else None
        book, own = Book(data_set), [entry for entry in entries if entry.data_set == data_set]
        if not own:
            return book
        last = own[-1]
        if last.balance is None:  # of format 1: only adding everything up tells where it stands
            for entry in self._many(_OWN, data_set=data_set):
                book.add(entry)
            return book
        with self._readable():
            for entry in own:
                if entry.kind in _TERMS:
                    book.recall(entry)
            book.resume(read_balance(last.balance), last.allocation)
        return book

    def _attempts(self, data_set: str, release_key: str) -> Iterable[Entry]:
        under = _under(release_key.partition("#")[0])
        return self._many(_ATTEMPTS, data_set=data_set, asked=release_key, **under)

    def _one(self, query: Executable, **parameters: str | None) -> Entry | None:
        row = self._connection.execute(query, parameters).first()
        return None if row is None else self._sound(Entry.of(row))

    def _many(self, query: Executable, **parameters: str | None) -> list[Entry]:
        rows = self._connection.execute(query, parameters).all()
        return [self._sound(Entry.of(row)) for row in rows]

    def _sound(self, entry: Entry) -> Entry:
        if entry.hash != entry.digest():
            raise unsound(
                self._database.address, entry.sequence, "its hash does not match its content"
            )
        return entry

    @contextmanager
    def _readable(self) -> Iterator[None]:
        """What was written by this package can be read by it."""
        try:
            yield
        except (RuleError, KeyError, ValueError) as problem:
            raise unsound(self._database.address, "of that data set", str(problem)) from None


class Transaction(Records):
    """The only writer for as long as it lasts. Its entries appear together or not at all."""

    def __init__(self, connection: Connection, database: Database) -> None:
        super().__init__(connection, database)
        self.failed = False

    def append(
        self,
        data_set: str,
        kind: str,
        body: Fact | dict[str, Any],
        *,
        release_key: str | None = None,
        allocation: str | None = None,
    ) -> Entry:
        """Seal and write one entry. Raises OutOfOrder if `verify` would object to it."""
        if self.failed:
            raise _ended()
        book = self.book(data_set, release_key=release_key, allocation=allocation)
        entry = draft(
            self._tail,
            data_set=data_set,
            kind=kind,
            body=body,
            release_key=release_key,
            allocation=allocation,
        )
        self.failed = True  # until this entry is written
        if problem := book.add(entry):
            raise OutOfOrder(
                f"{kind} must follow from the entries before it; got one that does not: "
                f"{problem}. Authorize the release again."
            )
        entry = seal(entry, book.balance_text(allocation))
        if self._connection.execute(_INSERT, entry.fields()).rowcount != 1:
            raise self._database.unusable(
                "it took an entry and did not keep it",
                "Look for rules and triggers that are not ours",
            )
        self._tail, self.failed = entry, False
        return entry


class Ledger:
    """A ledger at an address. The handle holds no entries: each read goes to the database."""

    def __init__(self, address: str | os.PathLike[str]) -> None:
        self._database = find_database(address)
        self._database.check()

    @classmethod
    def create(cls, address: str | os.PathLike[str]) -> Ledger:
        """The ledger at this address, made empty if nothing is there."""
        find_database(address).create()
        return cls(address)

    @property
    def address(self) -> str:
        """The path, or the address without its password."""
        return self._database.address

    def __repr__(self) -> str:
        return f"Ledger({self.address!r})"

    def entries(self, data_set: str | None = None) -> tuple[Entry, ...]:
        """All entries in order, sound or not."""
        return tuple(self.stream(data_set))

    def check_storage(self) -> None:
        """Refuse damage that reading the entries may not meet."""
        self._database.check_storage()

    def stream(self, data_set: str | None = None) -> Iterator[Entry]:
        """All entries that are there now, in order. Between them nobody is held up."""
        with self.reading() as records:
            until = records.highest()
        after: int | None = None
        while until is not None:
            with self.reading() as records:
                batch = records.batch(after, until, data_set)
            yield from batch
            if len(batch) < _BATCH:
                return
            after = batch[-1].sequence

    @contextmanager
    def reading(self) -> Iterator[Records]:
        """One state of the ledger."""
        with self._database.reading() as connection:
            yield Records(connection, self._database)

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Hold the ledger, append, and have it durable on leaving; nothing on an exception."""
        with self._database.writing() as connection:
            transaction = Transaction(connection, self._database)
            yield transaction
            if transaction.failed:
                raise _ended()


def upgrade(address: str | os.PathLike[str]) -> str:
    """Bring an older ledger to this format, and tell the one that it had."""
    return find_database(address).upgrade()


def _ended() -> OutOfOrder:
    return OutOfOrder(
        "transaction must end where an entry was refused; got more of it. Begin another one."
    )


def _under(key: str) -> dict[str, str]:
    return {"key": key, "numbered": f"{key}#", "beyond": f"{key}$"}
