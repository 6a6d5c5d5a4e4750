"""What a ledger is made of: entries of seven kinds, each sealed with the hash of the one before."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from accountant.errors import InvalidValue
from accountant.facts import Fact, Name, Words
from accountant.specs import Budget, PrivacyUnit, TableFacts

GENESIS = "0" * 64  # stands for the hash before the first entry


class Grant(Fact):
    """What may be spent on a data set, for whom, and on which table if that is known already."""

    budget: Budget
    unit: PrivacyUnit
    table: TableFacts | None
    actor: Words
    purpose: Words


class Started(Fact):
    """The measurement may run from here on."""


class Refusal(Fact):
    """A request that did not fit. It charged nothing."""

    release_key: Name
    plan_hash: Name
    actor: Words
    purpose: Words
    asked: Budget
    granted: Budget
    spent: Budget
    remaining: Budget
    shortfall: Budget


class Rejection(Fact):
    """Data that could not be used, for a public reason. It charged nothing."""

    reason: Name
    actor: Words


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of the ledger. `body` is canonical JSON text, so hashing needs no parsing."""

    sequence: int
    data_set: str
    kind: str
    release_key: str | None
    time: str
    body: str
    previous_hash: str
    hash: str

    def digest(self) -> str:
        """SHA-256 of the canonical JSON of every field but `hash`."""
        fields = self.fields()
        del fields["hash"]
        return hashlib.sha256(canonical_json(fields).encode("ascii")).hexdigest()

    def fields(self) -> dict[str, Any]:
        """Every field by its name."""
        return {name: getattr(self, name) for name in self.__slots__}

    def document(self) -> dict[str, Any]:
        """The body as a dictionary."""
        content: dict[str, Any] = json.loads(self.body)
        return content


def seal(
    previous: Entry | None,
    *,
    data_set: str,
    kind: str,
    body: Fact | dict[str, Any],
    release_key: str | None = None,
) -> Entry:
    """The entry that follows `previous`. Its time is never before that one's."""
    now = datetime.now(UTC).isoformat(timespec="microseconds")
    document = body.model_dump(mode="json") if isinstance(body, Fact) else body
    fields: dict[str, Any] = {
        "sequence": previous.sequence + 1 if previous else 1,
        "data_set": data_set,
        "kind": kind,
        "release_key": release_key,
        "time": max(now, previous.time) if previous else now,
        "body": canonical_json(document),
        "previous_hash": previous.hash if previous else GENESIS,
    }
    return Entry(**fields, hash=Entry(**fields, hash="").digest())


def canonical_json(document: object) -> str:
    """ASCII, sorted keys, no spaces, no NaN. InvalidValue if the document has no such form."""
    try:
        return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidValue(
            f"document must be plain JSON; got one that is not ({error}). "
            "Use text, finite numbers, lists and dictionaries with text keys."
        ) from None
