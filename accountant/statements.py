"""What the ledger says about one data set, for the person who answers for it."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pydantic import ConfigDict

from accountant.amounts import show_delta_up, show_up
from accountant.audit import Audit, require_sound
from accountant.balances import Pool
from accountant.books import Book, State, read_body
from accountant.charges import Charge
from accountant.entries import Allocation, Entry, Grant, Raise, Refusal, Rejection, Void
from accountant.facts import Fact
from accountant.laws import composed_epsilon
from accountant.readings import Reading, reading_of_budget, reading_of_gaussian
from accountant.risk import Risk, risk_of_budget, risk_of_losses
from accountant.rules import Composition, GrantRule, stated_losses
from accountant.specs import AnyBudget, Budget, GaussianBudget, PrivacyUnit, Stage, TableFacts

PUBLIC = (
    "Public, so not protected: the number of rows, the names and types of the columns, "
    "who is in the table, and how many rows each person has."
)
TRUST = (
    "Trusted: the holder of the table and of this ledger. The guarantee covers what is released "
    "through this ledger and nothing else."
)


class GrantLine(Fact):
    """A grant or a raise: the budget from then on, and why."""

    sequence: int
    time: str
    actor: str
    budget: AnyBudget
    why: str


class AllocationLine(Fact):
    """An allocation as it stands, with its first terms and its raises."""

    name: str
    granted: AnyBudget
    spent: AnyBudget
    remaining: AnyBudget
    grants: tuple[GrantLine, ...]


class VoidLine(Fact):
    """Who gave a charge back, and why."""

    time: str
    actor: str
    reason: str


class ChargeLine(Fact):
    """One charge, and what became of it."""

    model_config = ConfigDict(ser_json_inf_nan="strings")

    sequence: int
    key: str
    time: str
    actor: str
    purpose: str
    allocation: str | None
    plan_hash: str
    budget: Budget
    composition: Composition
    cost: AnyBudget
    """What its pool paid: the budget, or what its losses cost under the rule `gaussian`."""
    state: State
    stored_at: str
    """When the release was stored; empty if none was."""
    void: VoidLine | None
    stages: tuple[Stage, ...]
    composed: float | None
    """The epsilon of its losses together at the delta of its charge, rounded up; None if they are
    not stated. It costs the charge all the same."""
    risk: Risk
    """Of this plan alone: its losses were fixed before it ran."""


class RefusalLine(Fact):
    """One request that did not fit."""

    sequence: int
    key: str
    time: str
    actor: str
    purpose: str
    allocation: str | None
    asked: AnyBudget
    remaining: AnyBudget
    shortfall: AnyBudget


class RejectionLine(Fact):
    """One table that could not be used."""

    sequence: int
    time: str
    actor: str
    reason: str


class Statement(Fact):
    """Everything an officer needs to know about one data set, as of `entries` entries."""

    data_set: str
    guarantee: str
    public: str = PUBLIC
    trust: str = TRUST
    unit: PrivacyUnit
    table: TableFacts | None
    grants: tuple[GrantLine, ...]
    budget: Budget
    """What the whole grant promises, as raised since."""
    rule: GrantRule
    """How charges add up."""
    granted: AnyBudget
    """What may be spent under that rule: the budget itself, or a mu, a delta aside and a leak."""
    spent: AnyBudget
    remaining: AnyBudget
    free: Pool
    """What charges that name no allocation draw on."""
    allocations: tuple[AllocationLine, ...]
    risk_of_spent: Risk
    reading_of_grant: Reading
    """What it means if all of the grant is spent."""
    charges: tuple[ChargeLine, ...]
    refusals: tuple[RefusalLine, ...]
    rejections: tuple[RejectionLine, ...]
    entries: int
    last_hash: str

    def render(self, width: int = 80) -> str:
        """Plain text for a terminal of this width. Spent is rounded up, remaining down."""
        from accountant.reports.text import render_text

        return render_text(self, width)

    def __str__(self) -> str:
        return self.render()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))  # in a notebook as it is printed


def read_statements(entries: Iterable[Entry], address: str) -> dict[str, Statement]:
    """The statement of each data set, in the order of their grants.

    Raises:
        LedgerUnreadable: the entries are not sound.
    """
    audit = Audit()
    folders: dict[str, _Folder] = {}
    for entry in entries:
        audit.add(entry)
        folders.setdefault(entry.data_set, _Folder()).file(entry)
    require_sound(audit, address)
    return {
        name: folder.statement(audit.books[name], audit.count, audit.last_hash)
        for name, folder in folders.items()
    }


@dataclass(slots=True)
class _Folder:
    """The entries of one data set by their kind."""

    of_kind: defaultdict[str, list[Entry]] = field(default_factory=lambda: defaultdict(list))
    stored_at: dict[str, str] = field(default_factory=dict)

    def file(self, entry: Entry) -> None:
        if entry.kind == "release":  # what was released is not needed here, and may be long
            self.stored_at[str(entry.release_key)] = entry.time
        else:
            self.of_kind[entry.kind].append(entry)

    def statement(self, book: Book, count: int, last_hash: str) -> Statement:
        terms, whole = book.terms(), book.balance(None).total
        return Statement(
            data_set=book.data_set,
            guarantee=_guarantee(book.promise, terms.unit),
            unit=terms.unit,
            table=book.table,
            grants=self._grants(None),
            budget=book.promise,
            rule=book.rule,
            granted=whole.granted,
            spent=whole.spent,
            remaining=whole.remaining,
            free=book.pool(None),
            allocations=tuple(
                _allocation(name, pool, self._grants(name))
                for name, pool in book.pools.items()
                if name is not None
            ),
            risk_of_spent=risk_of_budget(whole.spent),
            reading_of_grant=_reading(whole.granted, book.promise),
            charges=tuple(self._charges(book)),
            refusals=tuple(_refusal(entry) for entry in self.of_kind["refusal"]),
            rejections=tuple(_rejection(entry) for entry in self.of_kind["rejection"]),
            entries=count,
            last_hash=last_hash,
        )

    def _grants(self, name: str | None) -> tuple[GrantLine, ...]:
        """The first terms of the grant or of an allocation, and its raises."""
        lines = []
        for entry in self.of_kind["grant" if name is None else "allocation"]:
            if entry.allocation == name:
                terms = read_body(entry, Grant) if name is None else read_body(entry, Allocation)
                lines.append(_grant(entry, terms.budget, terms.actor, terms.purpose))
        for entry in self.of_kind["raise"]:
            if entry.allocation == name:
                raised = read_body(entry, Raise)
                lines.append(_grant(entry, raised.budget, raised.actor, raised.reason))
        return tuple(lines)

    def _charges(self, book: Book) -> Iterator[ChargeLine]:
        voids = {str(entry.release_key): _void(entry) for entry in self.of_kind["void"]}
        for entry in self.of_kind["charge"]:
            key = str(entry.release_key)
            state, stored_at = book.attempts[key].state, self.stored_at.get(key, "")
            yield _charge(entry, book.rule, state, stored_at, voids.get(key))


def _reading(granted: AnyBudget, promised: Budget) -> Reading:
    if isinstance(granted, GaussianBudget):
        return reading_of_gaussian(granted, [promised.delta])
    return reading_of_budget(granted)


def _void(entry: Entry) -> VoidLine:
    void = read_body(entry, Void)
    return VoidLine(time=entry.time, actor=void.actor, reason=void.reason)


def _grant(entry: Entry, budget: AnyBudget, actor: str, why: str) -> GrantLine:
    return GrantLine(sequence=entry.sequence, time=entry.time, actor=actor, budget=budget, why=why)


def _allocation(name: str, pool: Pool, grants: tuple[GrantLine, ...]) -> AllocationLine:
    return AllocationLine(
        name=name,
        granted=pool.granted,
        spent=pool.spent,
        remaining=pool.remaining,
        grants=grants,
    )


def _charge(
    entry: Entry,
    rule: GrantRule,
    state: State,
    stored_at: str,
    void: VoidLine | None,
) -> ChargeLine:
    charge = read_body(entry, Charge)
    stated = all(stage.losses for stage in charge.stages)
    losses = stated_losses(charge.stages) if stated else ()
    return ChargeLine(
        sequence=entry.sequence,
        key=charge.release_key,
        time=entry.time,
        actor=charge.actor,
        purpose=charge.purpose,
        allocation=entry.allocation,
        plan_hash=charge.plan_hash,
        budget=charge.budget,
        composition=charge.composition,
        cost=charge.cost(rule),
        state=state,
        stored_at=stored_at,
        void=void,
        stages=charge.stages,
        composed=composed_epsilon(losses, charge.budget.delta) if losses else None,
        risk=risk_of_losses(losses) if losses else risk_of_budget(charge.budget),
    )


def _refusal(entry: Entry) -> RefusalLine:
    refusal = read_body(entry, Refusal)
    return RefusalLine(
        sequence=entry.sequence,
        key=refusal.release_key,
        time=entry.time,
        actor=refusal.actor,
        purpose=refusal.purpose,
        allocation=entry.allocation,
        asked=refusal.asked,
        remaining=refusal.remaining,
        shortfall=refusal.shortfall,
    )


def _rejection(entry: Entry) -> RejectionLine:
    rejection = read_body(entry, Rejection)
    return RejectionLine(
        sequence=entry.sequence,
        time=entry.time,
        actor=rejection.actor,
        reason=rejection.reason,
    )


def _guarantee(granted: Budget, unit: PrivacyUnit) -> str:
    rows = "1 row" if unit.rows_per_person == 1 else f"{unit.rows_per_person} rows"
    factor = math.exp(min(float(granted.epsilon), 700.0))
    return (
        f"Guarantee: if the rows of any one person (at most {rows}) were replaced by others, the "
        "probability of any result of all releases together would change by at most a factor of "
        f"e^{show_up(granted.epsilon)} (about {factor:.3g}) plus {show_delta_up(granted.delta)}."
    )
