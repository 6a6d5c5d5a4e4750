"""Replays a ledger and names every problem with its position."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction

from accountant.balances import empty_pool
from accountant.books import Book, RuleError, read_balance
from accountant.entries import GENESIS, Entry
from accountant.errors import LedgerUnreadable

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00", re.ASCII)


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong with the entry at this place, counted from 1."""

    position: int
    message: str


@dataclass(slots=True)
class Audit:
    """The books of all data sets, and the problems met while keeping them."""

    books: dict[str, Book] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    count: int = 0
    last: Entry | None = None
    _drift: dict[str, dict[str | None, tuple[Fraction, ...] | None]] = field(default_factory=dict)

    @property
    def last_hash(self) -> str:
        """The hash of the last entry. Kept elsewhere, it shows whether the end was cut off."""
        return self.last.hash if self.last else GENESIS

    def add(self, entry: Entry) -> None:
        """Check the next entry against the chain and against the book of its data set."""
        self.count += 1
        found = [*self._chain_problems(entry)]
        book = self.books.setdefault(entry.data_set, Book(entry.data_set))
        if problem := book.add(entry):
            found.append(problem)
        found += self._balance_problems(book, entry)
        self.problems += [Problem(self.count, message) for message in found]
        self.last = entry

    def _chain_problems(self, entry: Entry) -> Iterable[str]:
        if entry.sequence != self.count:
            yield f"the sequence number must be {self.count}; it is {entry.sequence}"
        if entry.previous_hash != self.last_hash:
            yield "the entry does not follow the one before it: the previous hash differs"
        if entry.hash != entry.digest():
            yield "the entry was changed: its hash does not match its content"
        if not _TIME.fullmatch(str(entry.time)):
            yield "the time is not UTC with microseconds"
        elif self.last and str(entry.time) < str(self.last.time):
            yield "the time is before that of the entry before it"

    def _balance_problems(self, book: Book, entry: Entry) -> Iterable[str]:
        """One entry is named, not all that follow it: where the difference is not that of before.

        Entries of format 1 state no balance.
        """
        drift = self._drift.get(entry.data_set)
        if entry.balance is None:
            if drift is not None:
                yield "the balance is missing"
            return
        drift = self._drift.setdefault(entry.data_set, {})
        if entry.balance == book.balance_text(entry.allocation):
            drift.update(dict.fromkeys(("free", "all", entry.allocation)))
            return
        try:
            stated = read_balance(entry.balance)
        except RuleError as problem:
            yield str(problem).replace("body", "balance")
            return
        right, new = book.balance(entry.allocation), False
        nothing = empty_pool(book.rule.nothing)
        for name, ours, theirs in (
            ("free", right.free, stated.free),
            ("all", right.allocations, stated.allocations),
            (entry.allocation, right.allocation or nothing, stated.allocation or nothing),
        ):
            now = ours.differs_by(theirs)
            new = new or now is None or (any(now) and now != drift.get(name))
            drift[name] = now
        if new or (right.allocation is None) != (stated.allocation is None):
            yield "the balance is not what the entries before it and this one leave"


def verify(entries: Iterable[Entry]) -> list[Problem]:
    """Every problem of the entries, in order; none when the ledger is sound."""
    audit = Audit()
    for entry in entries:
        audit.add(entry)
    return audit.problems


def require_sound(audit: Audit, address: str) -> None:
    """Raise LedgerUnreadable if the audit met a problem."""
    if audit.problems:
        raise unsound(address, audit.problems[0].position, audit.problems[0].message)


def unsound(address: str, position: object, why: str) -> LedgerUnreadable:
    """The error for an entry that this package has not written."""
    return LedgerUnreadable(
        f"ledger must be sound; got {address}, where entry {position} is wrong: {why}. "
        f"Run `accountant verify {shlex.quote(address)}`."
    )
