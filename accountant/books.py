"""What the entries say about one data set, and which entry may follow them.

The rules here guard every append and are the same that `verify` replays: an entry is accepted,
or its problems are named and it is not counted.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, TypeVar, cast

from accountant.composition import NOTHING, require_spendable, shortfall
from accountant.entries import Entry, Grant, Refusal, Rejection, Started, canonical_json
from accountant.errors import InvalidAmount
from accountant.facts import Fact
from accountant.specs import Budget, Charge, TableFacts

AnyFact = TypeVar("AnyFact", bound=Fact)
State = Literal["charged", "started", "released"]


@dataclass(slots=True)
class Attempt:
    """One charge and what became of it."""

    sequence: int
    time: str
    charge: Charge
    state: State = "charged"
    release: dict[str, Any] | None = None


class RuleError(Exception):
    """The entry breaks the rule in the message."""


@dataclass(slots=True)
class Book:
    """The state of one data set after the entries added so far."""

    data_set: str
    grant: Grant | None = None
    granted_at: str = ""
    table: TableFacts | None = None
    spent: Budget = NOTHING
    attempts: dict[str, list[Attempt]] = field(default_factory=dict)  # by the key as given
    by_key: dict[str, Attempt] = field(default_factory=dict)  # by the key as charged
    refusals: list[tuple[Entry, Refusal]] = field(default_factory=list)
    rejections: list[tuple[Entry, Rejection]] = field(default_factory=list)

    def terms(self) -> Grant:
        """The grant, once there is one."""
        if self.grant is None:
            raise RuleError("a grant must come first")
        return self.grant

    def remaining(self) -> Budget:
        """Granted less spent."""
        return self.terms().budget - self.spent

    def next_key(self, key: str) -> str:
        """The key of the next attempt: KEY, then KEY#2, KEY#3 and so on."""
        number = len(self.attempts.get(key, ())) + 1
        return key if number == 1 else f"{key}#{number}"

    def add(self, entry: Entry) -> str | None:
        """Take the entry in, or say in one sentence why it does not belong here."""
        try:
            if entry.kind != "grant":
                self.terms()
            match entry.kind:
                case "grant":
                    self._add_grant(entry, _read(entry, Grant))
                case "table":
                    self._add_table(entry, _read(entry, TableFacts))
                case "charge":
                    self._add_charge(entry, _read(entry, Charge))
                case "started":
                    _read(entry, Started)
                    self._advance(entry, "charged", "started")
                case "release":
                    self._advance(entry, "started", "released", _document(entry.body, "release"))
                case "refusal":
                    self._add_refusal(entry, _read(entry, Refusal))
                case "rejection":
                    _require_no_key(entry)
                    self.rejections.append((entry, _read(entry, Rejection)))
                case _:
                    raise RuleError(f"kind {entry.kind!r} is unknown")
        except (RuleError, InvalidAmount) as problem:
            return str(problem)
        return None

    def _add_grant(self, entry: Entry, grant: Grant) -> None:
        _require_no_key(entry)
        if self.grant is not None:
            raise RuleError("the data set was granted before")
        require_spendable(grant.budget)
        self.grant, self.granted_at, self.table = grant, entry.time, grant.table

    def _add_table(self, entry: Entry, table: TableFacts) -> None:
        _require_no_key(entry)
        if self.terms().table is not None:
            raise RuleError("the table was named in the grant")
        if self.table is not None and (
            table.rows != self.table.rows
            or table.columns[: len(self.table.columns)] != self.table.columns
            or table.columns == self.table.columns
        ):
            raise RuleError("the table was recorded before, and this adds no columns to it")
        self.table = table

    def _add_charge(self, entry: Entry, charge: Charge) -> None:
        key = charge.release_key.partition("#")[0]
        earlier = self.attempts.setdefault(key, [])
        if entry.release_key != charge.release_key:
            raise RuleError("the release key differs from the one in the body")
        if charge.release_key != self.next_key(key):
            raise RuleError(f"the release key must be {self.next_key(key)!r}")
        if any(attempt.charge.plan_hash != charge.plan_hash for attempt in earlier):
            raise RuleError("the release key was used for another plan")
        if charge.unit != self.terms().unit:
            raise RuleError(f"the charge protects {charge.unit}, the grant {self.terms().unit}")
        if self.table is None:
            raise RuleError("the table must be recorded before a charge")
        require_spendable(charge.budget)
        attempt = Attempt(entry.sequence, entry.time, charge)
        earlier.append(attempt)
        self.by_key[charge.release_key] = attempt
        remaining = self.remaining()
        if not charge.budget.fits_within(remaining):
            raise RuleError(f"the charge exceeds what remained, {remaining.show_down()}")
        _ = remaining - charge.budget  # this remainder, too, must have a bearable number of digits
        self.spent += charge.budget

    def _advance(
        self, entry: Entry, before: State, after: State, release: dict[str, Any] | None = None
    ) -> None:
        attempt = self.by_key.get(entry.release_key or "")
        if attempt is None:
            raise RuleError("no charge has this release key")
        if attempt.state != before:
            raise RuleError(f"the release must be {before}; it is {attempt.state}")
        attempt.state, attempt.release = after, release

    def _add_refusal(self, entry: Entry, refusal: Refusal) -> None:
        _require_no_key(entry)
        if (refusal.granted, refusal.spent) != (self.terms().budget, self.spent):
            raise RuleError("the refusal states another balance than the entries before it")
        if refusal.remaining != self.remaining():
            raise RuleError("the refusal states another remainder than granted less spent")
        if refusal.shortfall != shortfall(refusal.asked, refusal.remaining):
            raise RuleError("the refusal states another shortfall than asked less remaining")
        if refusal.asked.fits_within(refusal.remaining):
            raise RuleError("the refused request would have fitted")
        self.refusals.append((entry, refusal))


def _document(body: str, kind: str) -> dict[str, Any]:
    try:
        document = json.loads(body)
        canonical = canonical_json(document) == body
    except (TypeError, ValueError, RecursionError):
        raise RuleError("the body is not JSON") from None
    if not isinstance(document, dict) or not canonical:
        raise RuleError(f"the body is not written as a {kind} is")
    return document


@lru_cache(maxsize=10_000)
def _fact(body: str, kind: str, model: type[Fact]) -> Fact:
    document = _document(body, kind)
    try:
        fact = model.model_validate(document)
    except ValueError:
        raise RuleError(f"the body is not a valid {kind}") from None
    if canonical_json(fact.model_dump(mode="json")) != body:
        raise RuleError(f"the body is not written as a {kind} is")
    return fact


def _read(entry: Entry, model: type[AnyFact]) -> AnyFact:
    """The body of the entry. Facts are frozen and depend on the text alone: each is read once."""
    return cast(AnyFact, _fact(entry.body, entry.kind, model))


def _require_no_key(entry: Entry) -> None:
    if entry.release_key is not None:
        raise RuleError(f"a {entry.kind} has no release key")
