"""What a ledger is made of: entries of ten kinds, each sealed with the hash of the one before."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from operator import attrgetter
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from accountant.amounts import Amount, to_text
from accountant.charges import Charge
from accountant.errors import InvalidAmount, InvalidValue
from accountant.facts import Fact, Name, Reason, Words
from accountant.rules import GaussianRule, GrantRule, SumRule
from accountant.specs import AnyBudget, Budget, PrivacyUnit, TableFacts

GENESIS = "0" * 64  # stands for the hash before the first entry
_LEFT_OUT_IF_NULL = ("allocation", "balance")  # of what is hashed: format 1 had neither


class Grant(Fact):
    """What may be spent on a data set, for whom, and on which table if that is known already."""

    budget: Budget
    rule: Annotated[Literal["sum", "gaussian"], Field(exclude_if=lambda given: given == "sum")] = (
        "sum"
    )
    """How charges add up; never changed, and left out while it is the sum."""
    set_aside: Annotated[Amount, Field(exclude_if=lambda given: given == 0)] = Fraction(0)
    """Of delta, for (epsilon, delta) losses under the rule `gaussian`; never changed."""
    unit: PrivacyUnit
    table: TableFacts | None
    actor: Words
    purpose: Words

    @property
    def counting(self) -> GrantRule:
        """The rule by which charges add up."""
        if self.rule == "sum":
            return SumRule()
        return GaussianRule(budget=self.budget, set_aside=self.set_aside)

    @model_validator(mode="after")
    def _room_for_charges(self) -> Self:
        if self.rule == "sum" and self.set_aside:
            raise InvalidAmount(
                f"set_aside must be 0 under the rule sum, where all deltas add; got "
                f"{to_text(self.set_aside)}. Leave it out."
            )
        self.counting.capacity(self.budget)
        return self


class Allocation(Fact):
    """A part of the free pool that is set aside for one analyst or project."""

    budget: AnyBudget
    actor: Words
    purpose: Words


class Raise(Fact):
    """From here on a grant, or an allocation, has this larger budget."""

    budget: AnyBudget
    actor: Words
    reason: Reason


class Started(Fact):
    """The measurement may run from here on."""


class Void(Fact):
    """A charge whose measurement never started is given back."""

    actor: Words
    reason: Reason


class Refusal(Fact):
    """A request that did not fit. It charged nothing."""

    release_key: Name
    plan_hash: Name
    actor: Words
    purpose: Words
    asked: AnyBudget
    granted: AnyBudget
    spent: AnyBudget
    remaining: AnyBudget
    shortfall: AnyBudget


class Rejection(Fact):
    """Data that could not be used, for a public reason. It charged nothing."""

    reason: Reason
    actor: Words


#: The kinds of entries, and what the body of each holds; that of a release is free.
KINDS: dict[str, type[Fact] | None] = {
    "grant": Grant,
    "raise": Raise,
    "allocation": Allocation,
    "table": TableFacts,
    "charge": Charge,
    "started": Started,
    "release": None,
    "void": Void,
    "refusal": Refusal,
    "rejection": Rejection,
}


_PLAIN = (str, int, type(None))


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of the ledger. `body` and `balance` are canonical JSON: hashing needs no parsing.

    `allocation`: the one that a charge draws on, or that is made or raised. `balance`: what the
    entry leaves.
    """

    sequence: int
    data_set: str
    kind: str
    allocation: str | None
    release_key: str | None
    time: str
    body: str
    balance: str | None
    previous_hash: str
    hash: str

    @classmethod
    def of(cls, row: Iterable[Any]) -> Entry:
        """The entry of a row, its fields in order. What is no number, text or NULL: as text."""
        values: list[Any] = [value if type(value) in _PLAIN else repr(value) for value in row]
        return cls(*values)

    def digest(self) -> str:
        """SHA-256 of the canonical JSON of every field but `hash`, and but the two while null."""
        content = ",".join(
            f'"{name}":{_CANONICAL.encode(value)}'  # field by field: long ledgers have many
            for name, value in zip(_HASHED, _HASHED_ATTRIBUTES(self), strict=True)
            if value is not None or name not in _LEFT_OUT_IF_NULL
        )
        return hashlib.sha256(f"{{{content}}}".encode("ascii")).hexdigest()

    def fields(self) -> dict[str, Any]:
        """Every field by its name."""
        return dict(zip(self.__slots__, _ATTRIBUTES(self), strict=True))

    def document(self) -> dict[str, Any]:
        """The body as a dictionary."""
        content: dict[str, Any] = json.loads(self.body)
        return content


_ATTRIBUTES = attrgetter(*Entry.__slots__)
_HASHED = sorted({*Entry.__slots__} - {"hash"})
_HASHED_ATTRIBUTES = attrgetter(*_HASHED)
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def draft(
    previous: Entry | None,
    *,
    data_set: str,
    kind: str,
    body: Fact | dict[str, Any],
    release_key: str | None = None,
    allocation: str | None = None,
) -> Entry:
    """The entry that follows `previous`, not sealed yet. Its time is never before that one's."""
    now = datetime.now(UTC).isoformat(timespec="microseconds")
    document = body.model_dump(mode="json") if isinstance(body, Fact) else body
    return Entry(
        sequence=previous.sequence + 1 if previous else 1,
        data_set=data_set,
        kind=kind,
        allocation=allocation,
        release_key=release_key,
        time=max(now, previous.time) if previous else now,
        body=canonical_json(document),
        balance=None,
        previous_hash=previous.hash if previous else GENESIS,
        hash="",
    )


def seal(entry: Entry, balance: str) -> Entry:
    """The entry with the balance that it leaves, as text, and its hash."""
    stated = replace(entry, balance=balance)
    return replace(stated, hash=stated.digest())


def canonical_json(document: object) -> str:
    """ASCII, sorted keys, no spaces, no NaN. InvalidValue if the document has no such form."""
    try:
        return _CANONICAL.encode(document)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidValue(
            f"document must be plain JSON; got one that is not ({error}). "
            "Use text, finite numbers, lists and dictionaries with text keys."
        ) from None
