"""Release keys, and what stands under them in the ledger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from accountant.books import Attempt, Book
from accountant.errors import InvalidValue, KeyConflict
from accountant.facts import check_name
from accountant.specs import Charge


@dataclass(frozen=True, slots=True)
class Authorization:
    """A charge that is on disk. `repeated`: an earlier one under this key left no release."""

    sequence: int
    release_key: str
    charge: Charge
    repeated: bool


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
    if "#" in key:
        raise InvalidValue(
            f"release_key must not contain '#', which numbers repeated releases; got {key!r}. "
            "Leave it out."
        )


def attempts_under(book: Book, key: str, plan_hash: str) -> list[Attempt]:
    """All charges under a key, oldest first; KeyConflict if they are another plan's."""
    attempts = book.attempts.get(key, [])
    if attempts and attempts[0].charge.plan_hash != plan_hash:
        raise KeyConflict(
            f"release key must belong to one plan; got {key!r}, charged for another plan at entry "
            f"{attempts[0].sequence}. Use another key, or the plan of that entry."
        )
    return attempts


def newest_release(attempts: list[Attempt]) -> StoredRelease | None:
    """The newest one that left a release."""
    for attempt in reversed(attempts):
        if attempt.release is not None:
            charge = attempt.charge
            return StoredRelease(
                charge.release_key, charge.plan_hash, attempt.time, attempt.release
            )
    return None
