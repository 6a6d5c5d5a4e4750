"""Replays a ledger and names every problem with its position."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from accountant.books import Book
from accountant.entries import GENESIS, Entry

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

    @property
    def head(self) -> str:
        """The hash of the last entry. Kept elsewhere, it shows whether the end was cut off."""
        return self.last.hash if self.last else GENESIS

    def add(self, entry: Entry) -> None:
        """Check the next entry against the chain and against the book of its data set."""
        self.count += 1
        found = [*self._chain_problems(entry)]
        book = self.books.setdefault(entry.data_set, Book(entry.data_set))
        if problem := book.add(entry):
            found.append(problem)
        self.problems += [Problem(self.count, message) for message in found]
        self.last = entry

    def _chain_problems(self, entry: Entry) -> Iterable[str]:
        if entry.sequence != self.count:
            yield f"the sequence number must be {self.count}; it is {entry.sequence}"
        if entry.previous_hash != self.head:
            yield "the entry does not follow the one before it: the previous hash differs"
        if entry.hash != entry.digest():
            yield "the entry was changed: its hash does not match its content"
        if not _TIME.fullmatch(str(entry.time)):
            yield "the time is not UTC with microseconds"
        elif self.last and str(entry.time) < str(self.last.time):
            yield "the time is before that of the entry before it"


def verify(entries: Iterable[Entry]) -> list[Problem]:
    """Every problem of the entries, in order; none when the ledger is sound."""
    audit = Audit()
    for entry in entries:
        audit.add(entry)
    return audit.problems
