"""What the entries say about one data set, and which entry may follow them.

The rules here guard every append and are the same that `verify` replays: an entry is accepted,
or its problems are named and it is not counted. `verify_export` states them a second time, for
those who do not trust this package; a change here is a change there.

A book that takes in a whole ledger knows all its keys and allocations; one that is resumed from a
balance knows those it was told.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, cast

from accountant.balances import EMPTY, Balance, Pool, empty_pool
from accountant.charges import Charge
from accountant.composition import require_spendable
from accountant.entries import (
    KINDS,
    Allocation,
    Entry,
    Grant,
    Raise,
    Refusal,
    canonical_json,
)
from accountant.errors import InvalidAmount, InvalidValue
from accountant.facts import AnyFact, Fact, check_name
from accountant.rules import GrantRule, SumRule
from accountant.specs import AnyBudget, Budget, TableFacts

State = Literal["charged", "started", "released", "voided"]

#: What an attempt must be, and what it becomes, by the kind of entry.
STEPS: dict[str, tuple[State, State]] = {
    "started": ("charged", "started"),
    "release": ("started", "released"),
    "void": ("charged", "voided"),
}


@dataclass(slots=True)
class Attempt:
    """One charge and what became of it."""

    sequence: int
    plan_hash: str
    cost: AnyBudget
    allocation: str | None
    state: State = "charged"


class RuleError(Exception):
    """The entry breaks the rule in the message."""


@dataclass(slots=True)
class Book:
    """The state of one data set after the entries added so far."""

    data_set: str
    grant: Grant | None = None
    budget: Budget | None = None  # of the grant, as it was raised since
    rule: GrantRule = field(default_factory=SumRule)  # of the grant
    table: TableFacts | None = None
    pools: dict[str | None, Pool] = field(default_factory=dict)  # None: the free pool
    allocations: Pool = EMPTY  # all of them together
    attempts: dict[str, Attempt] = field(default_factory=dict)  # by the key as charged
    counts: dict[str, int] = field(default_factory=dict)  # attempts by the key as given
    _written: dict[str, tuple[Pool | None, str]] = field(default_factory=dict)  # pools, as text

    def terms(self) -> Grant:
        """The grant, once there is one. Its budget may have been raised since."""
        if self.grant is None:
            raise RuleError("a grant must come first")
        return self.grant

    @property
    def promise(self) -> Budget:
        """The epsilon and delta of the whole grant, as raised since."""
        return self.budget or self.terms().budget

    def pool(self, allocation: str | None) -> Pool:
        """What charges to this allocation draw on."""
        pool = self.pools.get(allocation)
        if pool is None:
            raise RuleError(f"there is no allocation {allocation!r}")
        return pool

    def balance(self, allocation: str | None) -> Balance:
        """What stands in the pools, and in this one of the allocations."""
        return Balance.model_validate(self._balance(allocation))

    def _balance(self, allocation: str | None) -> dict[str, Pool | None]:
        return {
            "allocation": None if allocation is None else self.pools.get(allocation),
            "allocations": self.allocations,
            "free": self.pools.get(None, EMPTY),
        }

    def balance_text(self, allocation: str | None) -> str:
        """The balance as entries state it: the canonical JSON of its three pools."""
        pools = sorted(self._balance(allocation).items())
        parts = (f'"{name}":{self._pool_text(name, pool)}' for name, pool in pools)
        return f"{{{','.join(parts)}}}"

    def _pool_text(self, name: str, pool: Pool | None) -> str:
        """Canonical JSON of a pool. It is written anew only where it is another than before."""
        known, text = self._written.get(name, (None, "null"))
        if known is not pool:
            text = canonical_json(None if pool is None else pool.model_dump(mode="json"))
            self._written[name] = pool, text
        return text

    def next_key(self, key: str) -> str:
        """The key of the next attempt: KEY, then KEY#2, KEY#3 and so on."""
        number = self.counts.get(key, 0) + 1
        return key if number == 1 else f"{key}#{number}"

    def resume(self, balance: Balance, allocation: str | None) -> None:
        """Go on from the balance that an entry about this allocation stated."""
        self.pools[None], self.allocations = balance.free, balance.allocations
        if allocation is not None:
            self.recall_pool(allocation, balance)

    def recall_pool(self, allocation: str, balance: Balance) -> None:
        """Take in what the last entry about an allocation stated about it."""
        if balance.allocation is not None:
            self.pools[allocation] = balance.allocation

    def recall(self, entry: Entry) -> None:
        """Take an entry in whose effect on the balance is known."""
        match entry.kind:
            case "grant":
                self._open(read_body(entry, Grant))
            case "raise":
                self._note_raise(entry.allocation, read_body(entry, Raise))
            case "table":
                self.table = read_body(entry, TableFacts)
            case "charge":
                self._note_attempt(entry, read_body(entry, Charge))
            case _:
                self.attempts[entry.release_key or ""].state = STEPS[entry.kind][1]

    def add(self, entry: Entry) -> str | None:
        """Take the entry in, or say in one sentence why it does not belong here."""
        try:
            if entry.kind not in KINDS:
                raise RuleError(f"kind {entry.kind!r} is unknown")
            model = KINDS[entry.kind]
            body: Any = read_document(entry) if model is None else read_body(entry, model)
            if entry.kind != "grant":
                self.terms()
            if entry.kind not in ("charge", *STEPS):
                _require_none(entry, "release_key")
            if entry.kind in ("grant", "table", "rejection"):
                _require_none(entry, "allocation")
            match entry.kind:
                case "grant":
                    self._add_grant(body)
                case "raise":
                    self._add_raise(entry.allocation, body)
                case "allocation":
                    self._add_allocation(entry.allocation, body)
                case "table":
                    self._add_table(body)
                case "charge":
                    self._add_charge(entry, body)
                case "void":
                    self._add_void(entry)
                case "started" | "release":
                    self._advance(entry)
                case "refusal":
                    self._add_refusal(entry.allocation, body)
        except (RuleError, InvalidAmount, ArithmeticError) as problem:
            return str(problem)
        return None

    def _add_grant(self, grant: Grant) -> None:
        if self.grant is not None:
            raise RuleError("the data set was granted before")
        require_spendable(grant.budget)
        self._open(grant)
        self._grow(None, self.rule.capacity(grant.budget))

    def _open(self, grant: Grant) -> None:
        self.grant, self.table, self.budget = grant, grant.table, grant.budget
        self.rule = grant.counting
        self.pools[None] = self.allocations = empty_pool(self.rule.nothing)

    def _add_raise(self, name: str | None, raised: Raise) -> None:
        require_spendable(raised.budget)
        if name is None:
            before, after = self.balance(None).total.granted, self._capacity(raised.budget)
        else:
            before, after = self.pool(name).granted, raised.budget
        if after == before or not before.fits_within(after):
            raise RuleError(f"a raise must be to more than {before}")
        if name is None:
            self._note_raise(name, raised)
            self._grow(None, after - before)
        else:
            self._set_aside(name, after - before)

    def _capacity(self, budget: AnyBudget) -> AnyBudget:
        """What the grant holds when it has this budget, which no coordinate lowers."""
        if not isinstance(budget, Budget):
            raise RuleError("a grant has a budget of epsilon and delta")
        if self.budget and not self.budget.fits_within(budget):
            raise RuleError(f"a raise must be to more than {self.budget}")
        return self.rule.capacity(budget)

    def _note_raise(self, name: str | None, raised: Raise) -> None:
        if name is None and isinstance(raised.budget, Budget):
            self.budget = raised.budget

    def _add_allocation(self, name: str | None, allocation: Allocation) -> None:
        if name is None:
            raise RuleError("an allocation must have a name")
        try:
            check_name(name, "allocation")
        except InvalidValue as problem:
            raise RuleError(str(problem)) from None
        if name in self.pools:
            raise RuleError(f"allocation {name!r} was made before")
        require_spendable(allocation.budget)
        self._set_aside(name, allocation.budget)

    def _set_aside(self, name: str, budget: AnyBudget) -> None:
        """Move a budget from the free pool into an allocation."""
        free, part = self.pool(None), Pool(granted=budget, spent=self.rule.nothing)
        if not budget.fits_within(free.remaining):
            raise RuleError(f"the free pool held {free.remaining.show_down()}")
        self.pools[None] = free - part
        self.allocations += part
        self._grow(name, budget)

    def _grow(self, name: str | None, budget: AnyBudget) -> None:
        """Put a budget into a pool."""
        nothing = self.rule.nothing
        before = self.pools.get(name) or empty_pool(nothing)
        self.pools[name] = before + Pool(granted=budget, spent=nothing)

    def _add_table(self, table: TableFacts) -> None:
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
        if entry.release_key != charge.release_key:
            raise RuleError("the release key differs from the one in the body")
        if charge.release_key != self.next_key(key):
            raise RuleError(f"the release key must be {self.next_key(key)!r}")
        if key in self.attempts and self.attempts[key].plan_hash != charge.plan_hash:
            raise RuleError("the release key was used for another plan")
        if charge.unit != self.terms().unit:
            raise RuleError(f"the charge protects {charge.unit}, the grant {self.terms().unit}")
        if self.table is None:
            raise RuleError("the table must be recorded before a charge")
        require_spendable(charge.budget)
        pool = self.pool(entry.allocation)
        attempt = self._note_attempt(entry, charge)
        after = pool.charged(attempt.cost)
        if after is None:
            attempt.cost = self.rule.nothing  # not counted, so that a void cannot give it back
            raise RuleError(f"the charge exceeds what remained, {pool.remaining.show_down()}")
        self._put(entry.allocation, after)

    def _note_attempt(self, entry: Entry, charge: Charge) -> Attempt:
        key, _, number = charge.release_key.partition("#")
        self.counts[key] = int(number or 1)
        cost = charge.cost(self.rule)
        attempt = Attempt(entry.sequence, charge.plan_hash, cost, entry.allocation)
        self.attempts[charge.release_key] = attempt
        return attempt

    def _put(self, name: str | None, after: Pool) -> None:
        """Put a pool in the place of what it was."""
        if name is not None:
            self.allocations = self.allocations - self.pool(name) + after
        self.pools[name] = after

    def _advance(self, entry: Entry) -> Attempt:
        attempt = self.attempts.get(entry.release_key or "")
        before, after = STEPS[entry.kind]
        if attempt is None:
            raise RuleError("no charge has this release key")
        if entry.allocation != attempt.allocation:
            raise RuleError("the charge with this release key is another allocation's")
        if attempt.state != before:
            raise RuleError(f"the release must be {before}; it is {attempt.state}")
        attempt.state = after
        return attempt

    def _add_void(self, entry: Entry) -> None:
        attempt = self._advance(entry)
        before = self.pool(attempt.allocation)
        after = Pool(granted=before.granted, spent=before.spent - attempt.cost)
        self._put(attempt.allocation, after)

    def _add_refusal(self, name: str | None, refusal: Refusal) -> None:
        pool = self.pool(name)
        if (refusal.granted, refusal.spent) != (pool.granted, pool.spent):
            raise RuleError("the refusal states another balance than the entries before it")
        if refusal.remaining != pool.remaining:
            raise RuleError("the refusal states another remainder than granted less spent")
        if refusal.shortfall != refusal.asked.beyond(refusal.remaining):
            raise RuleError("the refusal states another shortfall than asked less remaining")
        if refusal.asked.fits_within(refusal.remaining):
            raise RuleError("the refused request would have fitted")


def read_document(entry: Entry) -> dict[str, Any]:
    """The body as a dictionary, if it is canonical JSON."""
    document = _document(entry.body, entry.kind)
    _require_canonical(document, entry.body, entry.kind)
    return document


def read_body(entry: Entry, model: type[AnyFact]) -> AnyFact:
    """The body as a fact. Facts are frozen and depend on the text alone: each is read once."""
    return cast(AnyFact, _fact(entry.body, entry.kind, model))


def read_balance(text: str) -> Balance:
    """The balance that an entry states."""
    return cast(Balance, _fact(text, "balance", Balance))


def _document(body: str, kind: str) -> dict[str, Any]:
    try:
        document = json.loads(body)
    except (TypeError, ValueError, RecursionError):
        raise RuleError("the body is not JSON") from None
    if not isinstance(document, dict):
        raise RuleError(f"the body is not written as a {kind} is")
    return document


def _require_canonical(document: object, body: str, kind: str) -> None:
    try:
        canonical = canonical_json(document) == body
    except InvalidValue:
        canonical = False
    if not canonical:
        raise RuleError(f"the body is not written as a {kind} is")


@lru_cache(maxsize=10_000)
def _fact(body: str, kind: str, model: type[Fact]) -> Fact:
    document = _document(body, kind)
    try:
        fact = model.model_validate(document)
    except ValueError:
        raise RuleError(f"the body is not a valid {kind}") from None
    _require_canonical(fact.model_dump(mode="json"), body, kind)
    return fact


def _require_none(entry: Entry, field_name: str) -> None:
    if getattr(entry, field_name) is not None:
        raise RuleError(f"entries of kind {entry.kind} have no {field_name.replace('_', ' ')}")
