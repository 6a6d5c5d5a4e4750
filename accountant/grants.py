"""What the officer does: grant and raise a budget, set parts of it aside, void a charge."""

from __future__ import annotations

import getpass
from collections.abc import Iterable

from accountant.books import Book
from accountant.composition import require_fit, require_spendable
from accountant.entries import Allocation, Grant, Raise, Void
from accountant.errors import GrantConflict, InvalidValue, OutOfOrder
from accountant.facts import check_name, check_title, in_one_line, look_alike
from accountant.ledger import Transaction
from accountant.specs import Budget


def user() -> str:
    """The person at work, as the machine names them."""
    try:
        return check_name(getpass.getuser(), "user")
    except (ImportError, KeyError, OSError, InvalidValue):
        return "unknown"


def grant(transaction: Transaction, data_set: str, terms: Grant, reason: str | None) -> None:
    """Grant once. The same terms again change nothing; more with a reason is a raise."""
    check_terms(data_set, terms)
    book = transaction.book(data_set)
    if book.grant is None:
        _require_distinct(data_set, "data_set", transaction.data_sets())
        transaction.append(data_set, "grant", terms)
        return
    standing, whole = book.terms(), book.balance(None).total.granted
    kept = terms.table == standing.table or (reason is not None and terms.table is None)
    if terms.unit != standing.unit or not kept:
        raise _conflict(book, terms, whole)
    if terms.budget == whole or (reason is None and terms.budget == standing.budget):
        return
    if reason is None or not whole.fits_within(terms.budget):
        raise _conflict(book, terms, whole)
    _raise_to(transaction, data_set, None, terms.budget, terms.actor, reason)


def check_terms(data_set: str, terms: Grant) -> None:
    """Refuse what cannot be granted, whatever the ledger says."""
    check_title(data_set, "data_set")
    require_spendable(terms.budget)


def allocate(
    transaction: Transaction,
    data_set: str,
    allocation: str,
    terms: Allocation,
    reason: str | None,
) -> None:
    """Set a part of the free pool aside, once; more with a reason is a raise."""
    check_title(allocation, "allocation")
    require_spendable(terms.budget)
    book = transaction.book(data_set, allocation=allocation)
    free, standing = book.pool(None), book.pools.get(allocation)
    if standing is None:
        _require_distinct(allocation, "allocation", transaction.allocations(data_set))
        require_fit(terms.budget, free.granted, free.spent)
        transaction.append(data_set, "allocation", terms, allocation=allocation)
        return
    if terms.budget == standing.granted:
        return
    if reason is None or not standing.granted.fits_within(terms.budget):
        raise GrantConflict(
            f"allocation must keep its budget, and may only be raised; got {terms.budget}, where "
            f"{allocation!r} has {standing.granted}. Give a larger budget and a reason."
        )
    require_fit(terms.budget - standing.granted, free.granted, free.spent)
    _raise_to(transaction, data_set, allocation, terms.budget, terms.actor, reason)


def void(transaction: Transaction, data_set: str, release_key: str, terms: Void) -> None:
    """Give a charge back whose measurement never started.

    Raises:
        OutOfOrder: there is no such charge, or it may have looked at the table.
    """
    attempt = transaction.book(data_set, release_key=release_key).attempts.get(release_key)
    if attempt is None or attempt.state != "charged":
        found = attempt.state if attempt else "no charge"
        raise OutOfOrder(
            f"release_key must be that of a charge that never started; got {release_key!r}, which "
            f"is {found}. What may have looked at the table stays charged."
        )
    transaction.append(
        data_set, "void", terms, release_key=release_key, allocation=attempt.allocation
    )


def _require_distinct(name: str, parameter: str, others: Iterable[str]) -> None:
    """Refuse a new name that people could take for another."""
    for other in others:
        if look_alike(name, other):
            raise GrantConflict(
                f"{parameter} must differ from {other!r} by more than the form of its letters; "
                f"got {name!r}. Use the name that is there."
            )


def _raise_to(
    transaction: Transaction,
    data_set: str,
    allocation: str | None,
    budget: Budget,
    actor: str,
    reason: str,
) -> None:
    with in_one_line():
        raised = Raise(budget=budget, actor=actor, reason=reason)
    transaction.append(data_set, "raise", raised, allocation=allocation)


def _conflict(book: Book, terms: Grant, whole: Budget) -> GrantConflict:
    standing = book.terms()
    return GrantConflict(
        f"grant must keep its terms, and its budget may only be raised; got {terms.budget} for "
        f"{terms.unit}, {terms.table or 'any table'}, where {book.data_set!r} has {whole} for "
        f"{standing.unit}, {standing.table or 'any table'}. Use those terms, or give a larger "
        "budget and a reason."
    )
