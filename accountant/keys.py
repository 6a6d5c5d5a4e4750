"""Release keys, and what stands under them in the ledger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from accountant.books import Book
from accountant.charges import Charge
from accountant.errors import InvalidValue, KeyConflict
from accountant.facts import check_name

LONGEST_KEY = 190  # so that the numbers of repeated releases fit behind it


@dataclass(frozen=True, slots=True)
class Authorization:
    """A charge that is on disk."""

    data_set: str
    sequence: int
    release_key: str
    allocation: str | None
    charge: Charge


@dataclass(frozen=True, slots=True)
class StoredRelease:
    """A release that was paid for before."""

    release_key: str
    plan_hash: str
    time: str
    release: dict[str, Any]


def check_key(key: str) -> None:
    """Refuse a key that could be taken for a numbered attempt."""
    check_name(key, "release_key")
    if len(key) > LONGEST_KEY:
        raise InvalidValue(
            f"release_key must have at most {LONGEST_KEY} characters; got {len(key)}. Shorten it."
        )
    if "#" in key:
        raise InvalidValue(
            f"release_key must not contain '#', which numbers repeated releases; got {key!r}. "
            "Leave it out."
        )


def check_plan(book: Book, key: str, plan_hash: str) -> None:
    """KeyConflict if the key is another plan's."""
    first = book.attempts.get(key)
    if first is not None and first.plan_hash != plan_hash:
        raise KeyConflict(
            f"release key must belong to one plan; got {key!r}, charged for another plan at entry "
            f"{first.sequence}. Use another key, or the plan of that entry."
        )
