"""What the officer does: grant and raise a budget, set parts of it aside, void a charge."""

from __future__ import annotations

import re
from collections.abc import Iterable

from accountant.amounts import to_text
from accountant.books import Book
from accountant.composition import require_fit, require_spendable
from accountant.entries import Allocation, Grant, Raise, Void
from accountant.errors import GrantConflict, InvalidAmount, OutOfOrder
from accountant.facts import check_title, look_alike, quoted
from accountant.ledger import Transaction
from accountant.rules import GaussianRule
from accountant.specs import AnyBudget, Budget, TableFacts


def grant(transaction: Transaction, data_set: str, terms: Grant, reason: str | None) -> None:
    """Grant once. The same terms again change nothing; more with a reason is a raise."""
    check_terms(data_set, terms)
    book = transaction.book(data_set)
    if book.grant is None:
        _require_distinct(data_set, "data_set", transaction.data_sets())
        transaction.append(data_set, "grant", terms)
        return
    standing, budget = book.terms(), book.promise
    if terms.unit != standing.unit or not _same_table(terms.table, standing.table):
        raise GrantConflict(
            f"grant must keep its unit and its table; got {terms.unit} and "
            f"{terms.table or 'any table'}, where {data_set!r} has {standing.unit} and "
            f"{standing.table or 'any table'}. Use those terms."
        )
    if (terms.rule, terms.set_aside) != (standing.rule, standing.set_aside):
        raise GrantConflict(
            f"grant must keep its rule and what is set aside; got {_counted(terms)}, where "
            f"{data_set!r} has {_counted(standing)}. Use those terms."
        )
    if terms.budget == budget or (reason is None and terms.budget == standing.budget):
        return
    _require_raise("grant", data_set, terms.budget, budget, reason)
    _require_more(data_set, book, terms.budget)
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
    book = transaction.book(data_set, allocation=allocation)
    standing = book.pools.get(allocation)
    terms = terms.model_copy(update={"budget": book.rule.part(terms.budget)})
    require_spendable(terms.budget)
    if standing is None:
        _require_distinct(allocation, "allocation", transaction.allocations(data_set))
        _require_room(book, terms.budget)
        transaction.append(data_set, "allocation", terms, allocation=allocation)
        return
    if terms.budget == standing.granted:
        return
    _require_raise("allocation", allocation, terms.budget, standing.granted, reason)
    _require_room(book, terms.budget - standing.granted)
    _raise_to(transaction, data_set, allocation, terms.budget, terms.actor, reason)


def _require_room(book: Book, part: AnyBudget) -> None:
    """BudgetExceeded unless the free pool holds this part."""
    free, advice = book.pool(None), ""
    lacking = part.beyond(free.remaining).coordinates[0]
    if isinstance(book.rule, GaussianRule) and not lacking:
        advice = book.rule.advice(part, free.remaining, book.promise, part)
    require_fit(part, free.granted, free.spent, advice=advice)


def void(transaction: Transaction, data_set: str, release_key: str, terms: Void) -> None:
    """Give a charge back whose measurement never started.

    The key may be the beginning that reports show, if only one charge has it.

    Raises:
        OutOfOrder: there is no such charge, or it may have looked at the table.
    """
    release_key = _whole_key(transaction, data_set, release_key)
    attempt = transaction.book(data_set, release_key=release_key).attempts.get(release_key)
    if attempt is None:
        raise OutOfOrder(
            f"release_key must be that of a charge; got {quoted(release_key)}, which is none. "
            "Copy it from the report."
        )
    if attempt.state != "charged":
        raise OutOfOrder(
            f"release_key must be that of a charge that never started; got {release_key!r}, which "
            f"is {attempt.state}. What may have looked at the table stays charged."
        )
    transaction.append(
        data_set, "void", terms, release_key=release_key, allocation=attempt.allocation
    )


def _whole_key(transaction: Transaction, data_set: str, shown: str) -> str:
    """The one key that a report shows so, or the text itself."""
    head, mark, number = shown.partition("#")
    if not re.fullmatch("[0-9a-f]{12}", head):
        return shown
    meant = [
        key for key in transaction.keys(data_set, head) if key.partition("#")[1:] == (mark, number)
    ]
    return meant[0] if len(meant) == 1 else shown


def _require_distinct(name: str, parameter: str, others: Iterable[str]) -> None:
    """Refuse a new name that people could take for another."""
    for other in others:
        if look_alike(name, other):
            raise GrantConflict(
                f"{parameter} must differ from {other!r} by more than the form of its letters; "
                f"got {name!r}. Use the name that is there."
            )


def _same_table(given: TableFacts | None, standing: TableFacts | None) -> bool:
    """Whether the table is that of the grant; left out it is, and the order is free."""
    if given is None or standing is None:
        return given is None
    return given.rows == standing.rows and set(given.columns) == set(standing.columns)


def _counted(terms: Grant) -> str:
    return f"the rule {terms.rule} with delta {to_text(terms.set_aside)} set aside"


def _require_raise(
    what: str, name: str, budget: AnyBudget, standing: AnyBudget, reason: str | None
) -> None:
    if not standing.fits_within(budget):
        raise GrantConflict(
            f"{what} must never be lowered; got {budget}, where {name!r} has {standing}. "
            "State at least that."
        )
    if reason is None:
        raise GrantConflict(
            f"{what} must keep its budget, or be raised with a reason; got {budget} without one, "
            f"where {name!r} has {standing}. Give a reason to raise it."
        )


def _require_more(data_set: str, book: Book, budget: Budget) -> None:
    """Refuse a raise of the promise after which the grant would hold no more."""
    granted = book.balance(None).total.granted
    try:
        more = book.rule.capacity(budget)
    except InvalidAmount:  # what is set aside, or kept for rounding, would outweigh delta
        more = book.rule.nothing
    if more == granted or not granted.fits_within(more):
        raise GrantConflict(
            f"grant must hold more after a raise; got {more.show_down()}, where {data_set!r} has "
            f"{granted.show_down()}. Raise delta as well: a larger epsilon weighs more on what is "
            "kept for rounding."
        )


def _raise_to(
    transaction: Transaction,
    data_set: str,
    allocation: str | None,
    budget: AnyBudget,
    actor: str,
    reason: str | None,
) -> None:
    raised = Raise(budget=budget, actor=actor, reason=reason or "")
    transaction.append(data_set, "raise", raised, allocation=allocation)
