"""The keeper of one data set's budget: asks the ledger, refuses or charges, forgets everything."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, TypeVar

from accountant import grants
from accountant.amounts import parse_amount
from accountant.balances import Balance, Pool
from accountant.books import Book
from accountant.charges import Charge
from accountant.composition import BudgetExceeded, require_fit, require_spendable
from accountant.entries import Allocation, Entry, Grant, Refusal, Rejection, Started, Void
from accountant.errors import (
    AccountantError,
    InvalidValue,
    NoGrant,
    OutOfOrder,
    TableMismatch,
    UnitMismatch,
)
from accountant.facts import LONGEST_WORDS, check_name, check_reason, one_line
from accountant.keys import Authorization, StoredRelease, check_key, check_plan
from accountant.ledger import Ledger, Records, Transaction
from accountant.rules import GaussianRule, GrantRule
from accountant.specs import AnyBudget, Budget, PrivacyUnit, Split, TableFacts
from accountant.statements import Statement, read_statements


class Accountant:
    """A handle on one granted data set. It holds no balance: copies cannot fork the budget.

    `allocation`: the part of the grant that its charges draw on; the free pool if left out.
    """

    def __init__(
        self,
        ledger: str | os.PathLike[str] | Ledger,
        *,
        data_set: str,
        allocation: str | None = None,
    ) -> None:
        check_name(data_set, "data_set")
        if allocation is not None:
            check_name(allocation, "allocation")
        if not isinstance(ledger, Ledger):
            path = Path(ledger).absolute()
            missing = "://" not in os.fspath(ledger) and not os.path.exists(path)
            if missing and os.path.isdir(path.parent):
                raise _no_grant(str(path), data_set, "and there is no such file. Check the path")
            ledger = Ledger(ledger)
        self.ledger = ledger
        self.data_set = data_set
        self.allocation = allocation
        self.pool()

    @classmethod
    def grant(
        cls,
        ledger: str | os.PathLike[str] | Ledger,
        *,
        data_set: str,
        budget: Budget,
        unit: PrivacyUnit,
        rule: Literal["sum", "gaussian"] = "sum",
        set_aside: object = 0,
        rows: int | None = None,
        columns: Iterable[str] | None = None,
        actor: str | None = None,
        purpose: str = "",
        reason: str | None = None,
    ) -> Accountant:
        """Grant a budget once. The same terms again change nothing; others are refused.

        `rule`: how charges add up, see `rules`; under `gaussian`, `set_aside` is the part of delta
        that pays for (epsilon, delta) losses. Neither is ever changed. Rows and columns left out
        are recorded by the first release, before its charge. With a `reason` the grant is raised
        to this budget: the new whole, not what is added.
        """
        if (rows is None) != (columns is None):
            raise InvalidValue(
                "rows and columns must be given together; got one of them. Give both or neither."
            )
        table = None if rows is None or columns is None else _table(rows, columns)
        terms = Grant(
            budget=budget,
            rule=rule,
            set_aside=parse_amount(set_aside, "set_aside"),
            unit=unit,
            table=table,
            actor=actor or "",
            purpose=purpose,
        )
        require_spendable(terms.budget)
        if not isinstance(ledger, Ledger):
            grants.check_terms(data_set, terms)
            ledger = Ledger.create(ledger)
        with ledger.transaction() as transaction:
            grants.grant(transaction, data_set, _signed(terms, transaction), reason)
        return cls(ledger, data_set=data_set)

    def allocate(
        self,
        allocation: str,
        budget: AnyBudget,
        *,
        actor: str | None = None,
        purpose: str = "",
        reason: str | None = None,
    ) -> Accountant:
        """Set a part of the free pool aside, and return the handle that draws on it.

        Under the rule `gaussian` the budget is a `GaussianBudget`: a mu squared, and what it has
        of the delta set aside. The same terms again change nothing. With a `reason` the allocation
        is raised to this budget: the new whole, not what is added.

        Raises:
            BudgetExceeded: the free pool holds less.
            GrantConflict: the allocation has another budget, and this is no raise.
        """
        terms = Allocation(budget=budget, actor=actor or "", purpose=purpose)
        with self.ledger.transaction() as transaction:
            signed = _signed(terms, transaction)
            grants.allocate(transaction, self.data_set, allocation, signed, reason)
        return Accountant(self.ledger, data_set=self.data_set, allocation=allocation)

    def void(self, release_key: str, reason: str, *, actor: str | None = None) -> None:
        """Give back a charge whose measurement never started, with a reason.

        Raises:
            OutOfOrder: there is no such charge, or its measurement may have run.
        """
        check_name(release_key, "release_key")
        terms = Void(actor=actor or "", reason=reason)
        with self.ledger.transaction() as transaction:
            grants.void(transaction, self.data_set, release_key, _signed(terms, transaction))

    def __repr__(self) -> str:
        drawn = f", allocation={self.allocation!r}" if self.allocation else ""
        return f"Accountant({self.ledger.address!r}, data_set={self.data_set!r}{drawn})"

    @property
    def granted(self) -> AnyBudget:
        """What may be spent from the pool that this handle draws on."""
        return self.pool().granted

    @property
    def unit(self) -> PrivacyUnit:
        """Who is protected."""
        with self.ledger.reading() as records:
            return self._book(records).terms().unit

    @property
    def budget(self) -> Budget:
        """What the whole grant promises: epsilon and delta, as raised since."""
        with self.ledger.reading() as records:
            return self._book(records).promise

    @property
    def rule(self) -> GrantRule:
        """How charges add up."""
        with self.ledger.reading() as records:
            return self._book(records).rule

    @property
    def table(self) -> TableFacts | None:
        """The rows and columns on record, if any yet."""
        with self.ledger.reading() as records:
            return self._book(records).table

    def spent(self) -> AnyBudget:
        """The sum of the charges to this handle's pool, without those that were voided."""
        return self.pool().spent

    def remaining(self) -> AnyBudget:
        """Granted less spent, of this handle's pool."""
        return self.pool().remaining

    def pool(self) -> Pool:
        """The part of the grant that this handle draws on."""
        with self.ledger.reading() as records:
            return self._book(records).pool(self.allocation)

    def balance(self) -> Balance:
        """Where the whole grant stands."""
        with self.ledger.reading() as records:
            return self._book(records).balance(self.allocation)

    def entries(self) -> tuple[Entry, ...]:
        """This data set's entries in the ledger."""
        return self.ledger.entries(self.data_set)

    def statement(self) -> Statement:
        """What the ledger says about this data set. It reads and checks the whole ledger."""
        return read_statements(self.ledger.stream(), self.ledger.address)[self.data_set]

    def split(self, budget: Budget, split: Split) -> dict[str, Budget]:
        """The parts of a budget by stage, as `Split.divide`: exact, and nothing is charged."""
        return split.divide(budget)

    def check_unit(self, unit: PrivacyUnit) -> None:
        """Raise UnitMismatch unless the grant protects this unit; `authorize` checks it again."""
        _match_unit(self.unit, unit)

    def stored(self, key: str, plan_hash: str) -> StoredRelease | None:
        """The newest release under this key; KeyConflict if the key is another plan's."""
        check_key(key)
        with self.ledger.reading() as records:
            return self._stored(records, self._book(records, key), key, plan_hash)

    def authorize(
        self,
        charge: Charge,
        *,
        rows: int,
        columns: Iterable[str],
        fresh: bool = False,
    ) -> Authorization | StoredRelease:
        """Refuse, hand back the stored release, or charge; all on disk before this returns.

        `columns` are those the release reads, in any order: some of those that the grant names, or,
        if it names none, any; they are then recorded.

        `fresh` pays again for a new release. So does a charge that left no release.
        """
        key = charge.release_key
        check_key(key)
        require_spendable(charge.budget)
        read = _table(rows, columns)
        refused: AccountantError
        with self.ledger.transaction() as transaction:
            charge = _signed(charge, transaction)
            book = self._book(transaction, key)
            _match_unit(book.terms().unit, charge.unit)
            try:
                _match_table(book, read)
                stored = self._stored(transaction, book, key, charge.plan_hash)
                if stored and not fresh:
                    return stored
                self._require_fit(transaction, book, charge)
            except TableMismatch as error:
                self._reject(transaction, str(error))
                refused = error
            except BudgetExceeded as error:
                self._refuse(transaction, charge, error)
                refused = error
            else:
                return self._charge(transaction, charge, read)
        raise refused

    def start(self, authorization: Authorization) -> None:
        """Record that the measurement runs from here on. Once per authorization."""
        self._follow(authorization, "started", Started())

    def store(self, authorization: Authorization, release: dict[str, Any]) -> None:
        """Record what was released. Once, after `start`."""
        self._follow(authorization, "release", release)

    def reject(self, reason: str) -> None:
        """Record that data could not be used. The reason must be public; nothing is charged."""
        reason = one_line(reason)[:LONGEST_WORDS]
        check_reason(reason, "reason")
        with self.ledger.transaction() as transaction:
            self._reject(transaction, reason)

    def _require_fit(self, records: Records, book: Book, charge: Charge) -> None:
        pool, cost, advice = book.pool(self.allocation), charge.cost(book.rule), ""
        if isinstance(book.rule, GaussianRule) and not cost.fits_within(pool.remaining):
            last = records.last_charge(self.data_set, self.allocation)
            before = cost if last is None else last.cost(book.rule)
            advice = book.rule.advice(cost, pool.remaining, book.promise, before)
        require_fit(cost, pool.granted, pool.spent, self.allocation, advice)

    def _book(self, records: Records, release_key: str | None = None) -> Book:
        book = records.book(self.data_set, release_key=release_key, allocation=self.allocation)
        if book.grant is None:
            others = ", ".join(repr(name) for name in records.data_sets())
            why = f"which has none (it grants {others or 'nothing'}). Check the spelling"
            raise _no_grant(self.ledger.address, self.data_set, why)
        if self.allocation not in book.pools:
            others = ", ".join(repr(name) for name in records.allocations(self.data_set))
            raise NoGrant(
                f"allocation must be made before it is used; got {self.allocation!r}, where data "
                f"set {self.data_set!r} has {others or 'none'}. Check the spelling, or name none: "
                "the free pool."
            )
        return book

    def _stored(
        self, records: Records, book: Book, key: str, plan_hash: str
    ) -> StoredRelease | None:
        check_plan(book, key, plan_hash)
        found = records.release(self.data_set, key) if key in book.attempts else None
        if found is None:
            return None
        entry, release = found
        return StoredRelease(entry.release_key or key, plan_hash, entry.time, release)

    def _charge(self, transaction: Transaction, charge: Charge, read: TableFacts) -> Authorization:
        book = transaction.book(self.data_set)
        key = book.next_key(charge.release_key)
        charge = charge.model_copy(update={"release_key": key})
        seen = book.table.columns if book.table else ()
        if not set(read.columns) <= set(seen):
            table = _table(read.rows, dict.fromkeys((*seen, *read.columns)))
            transaction.append(self.data_set, "table", table)
        entry = transaction.append(
            self.data_set, "charge", charge, release_key=key, allocation=self.allocation
        )
        return Authorization(self.data_set, entry.sequence, key, self.allocation, charge)

    def _follow(
        self, authorization: Authorization, kind: str, body: Started | dict[str, Any]
    ) -> None:
        if authorization.data_set != self.data_set:
            raise OutOfOrder(
                f"authorization must be one of {self.data_set!r}; got one of "
                f"{authorization.data_set!r}. Use the accountant that gave it."
            )
        with self.ledger.transaction() as transaction:
            transaction.append(
                self.data_set,
                kind,
                body,
                release_key=authorization.release_key,
                allocation=authorization.allocation,
            )

    def _refuse(self, transaction: Transaction, charge: Charge, error: BudgetExceeded) -> None:
        refusal = Refusal(
            release_key=charge.release_key,
            plan_hash=charge.plan_hash,
            actor=charge.actor,
            purpose=charge.purpose,
            asked=error.asked,
            granted=error.granted,
            spent=error.spent,
            remaining=error.remaining,
            shortfall=error.shortfall,
        )
        transaction.append(self.data_set, "refusal", refusal, allocation=self.allocation)

    def _reject(self, transaction: Transaction, reason: str) -> None:
        rejection = Rejection(reason=reason, actor=transaction.user())
        transaction.append(self.data_set, "rejection", rejection)


Signed = TypeVar("Signed", Grant, Allocation, Void, Charge)


def _signed(terms: Signed, transaction: Transaction) -> Signed:
    """The same, with who is at work where no actor was named."""
    return terms if terms.actor else terms.model_copy(update={"actor": transaction.user()})


def _match_unit(granted: PrivacyUnit, unit: PrivacyUnit) -> None:
    if unit != granted:
        raise UnitMismatch(
            f"unit must be that of the grant, {granted}; got {unit}. State the unit of the grant."
        )


def _match_table(book: Book, read: TableFacts) -> None:
    """The rows on record and, if the grant names columns, some of them, in any order.

    Columns on record are not told: they may come from another plan.
    """
    record, granted = book.table, book.terms().table
    if record is None:
        return
    strange = [name for name in read.columns if granted and name not in granted.columns]
    if read.rows != record.rows or strange:
        told = f" and columns not among them: {', '.join(strange)}" if strange else ""
        raise TableMismatch(
            f"table must be the one on record, {record.rows} rows with the columns of the grant; "
            f"got {read.rows} rows{told}. Use that table."
        )


def _table(rows: int, columns: Iterable[str]) -> TableFacts:
    return TableFacts(rows=rows, columns=tuple(columns))


def _no_grant(address: str, data_set: str, why: str) -> NoGrant:
    """The error for a data set without a grant, with the officer's command."""
    return NoGrant(
        f"data set must have a grant in {address}; got {data_set!r}, {why}. "
        f"For a new one the privacy officer types: accountant grant {shlex.quote(address)} "
        f"--dataset {shlex.quote(data_set)} --epsilon E --delta D --rows-per-person C"
    )
