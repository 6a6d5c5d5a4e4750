"""The keeper of one data set's budget: asks the ledger, refuses or charges, forgets everything."""

from __future__ import annotations

import getpass
import os
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from accountant.books import Book
from accountant.composition import BudgetExceeded, require_fit, require_spendable
from accountant.entries import Entry, Grant, Refusal, Rejection, Started
from accountant.errors import (
    AccountantError,
    GrantConflict,
    InvalidValue,
    NoGrant,
    TableMismatch,
    UnitMismatch,
)
from accountant.facts import check_name, in_one_line, one_line
from accountant.keys import (
    Authorization,
    StoredRelease,
    attempts_under,
    check_key,
    newest_release,
)
from accountant.ledger import Ledger, Transaction
from accountant.specs import Budget, Charge, PrivacyUnit, Split, TableFacts
from accountant.statements import Statement


class Accountant:
    """A handle on one granted data set. It holds no balance: copies cannot fork the budget."""

    def __init__(self, ledger: str | os.PathLike[str] | Ledger, *, data_set: str) -> None:
        if not isinstance(ledger, Ledger):
            path = Path(ledger).absolute()
            if os.path.isdir(path.parent) and not os.path.exists(path):
                raise _no_grant(path, data_set)
            ledger = Ledger(path)
        self.ledger = ledger
        self.data_set = data_set
        self._book()

    @classmethod
    def grant(
        cls,
        ledger: str | os.PathLike[str] | Ledger,
        *,
        data_set: str,
        budget: Budget,
        unit: PrivacyUnit,
        rows: int | None = None,
        columns: Iterable[str] | None = None,
        actor: str | None = None,
        purpose: str = "",
    ) -> Accountant:
        """Grant a budget once. The same terms again change nothing; others are refused.

        Rows and columns left out are recorded by the first release, before its charge.
        """
        check_name(data_set, "data_set")
        require_spendable(budget)
        if (rows is None) != (columns is None):
            raise InvalidValue(
                "rows and columns must be given together; got one of them. Give both or neither."
            )
        table = None if rows is None or columns is None else _table(rows, columns)
        with in_one_line():
            terms = Grant(
                budget=budget, unit=unit, table=table, actor=actor or _user(), purpose=purpose
            )
        if not isinstance(ledger, Ledger):
            ledger = Ledger.create(ledger)
        with ledger.transaction() as transaction:
            for other in transaction.data_sets():
                if other != data_set and other.casefold() == data_set.casefold():
                    raise GrantConflict(
                        f"data_set must differ from {other!r} by more than case; got {data_set!r}. "
                        "Use the name that has a grant."
                    )
            standing = transaction.book(data_set).grant
            if standing is None:
                transaction.append(data_set, "grant", terms)
            elif (standing.budget, standing.unit, standing.table) != (budget, unit, table):
                raise GrantConflict(
                    f"grant must keep its terms; got {budget} for {unit}, {table or 'any table'}, "
                    f"where {data_set!r} has {standing.budget} for {standing.unit}, "
                    f"{standing.table or 'any table'}. Use those terms."
                )
        return cls(ledger, data_set=data_set)

    def __repr__(self) -> str:
        return f"Accountant({str(self.ledger.path)!r}, data_set={self.data_set!r})"

    @property
    def granted(self) -> Budget:
        """The whole budget."""
        return self._book().terms().budget

    @property
    def unit(self) -> PrivacyUnit:
        """Who is protected."""
        return self._book().terms().unit

    @property
    def table(self) -> TableFacts | None:
        """The rows and columns on record, if any yet."""
        return self._book().table

    def spent(self) -> Budget:
        """The sum of all charges."""
        return self._book().spent

    def remaining(self) -> Budget:
        """Granted less spent."""
        return self._book().remaining()

    def entries(self) -> tuple[Entry, ...]:
        """This data set's entries in the ledger."""
        return tuple(entry for entry in self.ledger.entries() if entry.data_set == self.data_set)

    def statement(self) -> Statement:
        """What the ledger says about this data set."""
        return Statement.of(self.ledger.audit(), self.data_set)

    def split(self, budget: Budget, split: Split) -> dict[str, Budget]:
        """The parts of a budget by stage, as `Split.divide`: exact, and nothing is charged."""
        return split.divide(budget)

    def check_unit(self, unit: PrivacyUnit) -> None:
        """Raise UnitMismatch unless the grant protects this unit; `authorize` checks it again."""
        _match_unit(self._book(), unit)

    def stored(self, key: str, plan_hash: str) -> StoredRelease | None:
        """The newest release under this key; KeyConflict if the key is another plan's."""
        check_key(key)
        return newest_release(attempts_under(self._book(), key, plan_hash))

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
        check_key(charge.release_key)
        require_spendable(charge.budget)
        read = _table(rows, columns)
        charge = charge.model_copy(update={"actor": charge.actor or _user()})
        refused: AccountantError
        with self.ledger.transaction() as transaction:
            book = transaction.book(self.data_set)
            _match_unit(book, charge.unit)
            try:
                _match_table(book, read)
                attempts = attempts_under(book, charge.release_key, charge.plan_hash)
                stored = newest_release(attempts)
                if stored and not fresh:
                    return stored
                require_fit(charge.budget, book.terms().budget, book.spent)
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
        with self.ledger.transaction() as transaction:
            transaction.append(self.data_set, "started", Started(), authorization.release_key)

    def store(self, authorization: Authorization, release: dict[str, Any]) -> None:
        """Record what was released. Once, after `start`."""
        with self.ledger.transaction() as transaction:
            transaction.append(self.data_set, "release", release, authorization.release_key)

    def reject(self, reason: str) -> None:
        """Record that data could not be used. The reason must be public; nothing is charged."""
        reason = one_line(reason)
        check_name(reason, "reason")
        with self.ledger.transaction() as transaction:
            self._reject(transaction, reason)

    def _book(self) -> Book:
        books = self.ledger.audit().books
        book = books.get(self.data_set)
        if book is None:
            raise _no_grant(self.ledger.path, self.data_set, books)
        return book

    def _charge(self, transaction: Transaction, charge: Charge, read: TableFacts) -> Authorization:
        book = transaction.book(self.data_set)
        earlier = book.attempts.get(charge.release_key, ())
        repeated = any(attempt.release is None for attempt in earlier)
        key = book.next_key(charge.release_key)
        charge = charge.model_copy(update={"release_key": key})
        seen = book.table.columns if book.table else ()
        if not set(read.columns) <= set(seen):
            table = _table(read.rows, dict.fromkeys((*seen, *read.columns)))
            transaction.append(self.data_set, "table", table)
        entry = transaction.append(self.data_set, "charge", charge, key)
        return Authorization(entry.sequence, key, charge, repeated)

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
        transaction.append(self.data_set, "refusal", refusal)

    def _reject(self, transaction: Transaction, reason: str) -> None:
        transaction.append(self.data_set, "rejection", Rejection(reason=reason, actor=_user()))


def _match_unit(book: Book, unit: PrivacyUnit) -> None:
    granted = book.terms().unit
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
    with in_one_line():
        return TableFacts(rows=rows, columns=tuple(columns))


def _no_grant(path: Path, data_set: str, granted: Iterable[str] = ()) -> NoGrant:
    others = ", ".join(repr(name) for name in granted)
    return NoGrant(
        f"data set must have a grant in {path}; got {data_set!r}, which has none"
        f"{f' (it grants {others})' if others else ''}. The privacy officer types: "
        f"accountant grant {shlex.quote(str(path))} --dataset {shlex.quote(data_set)} "
        "--epsilon E --delta D --rows-per-person C"
    )


def _user() -> str:
    try:
        return check_name(getpass.getuser(), "user")
    except (ImportError, KeyError, OSError, InvalidValue):
        return "unknown"
