"""A ledger or an export of one, read alike."""

from __future__ import annotations

from collections.abc import Iterator

from accountant.databases.addresses import shown
from accountant.entries import Entry
from accountant.errors import NoGrant
from accountant.exports import is_export, read_export
from accountant.ledger import Ledger
from accountant.statements import Statement, read_statements


def entries_of(address: str) -> Iterator[Entry]:
    """All entries in order, sound or not; the storage of a ledger is checked first."""
    if is_export(address):
        return read_export(address)
    ledger = Ledger(address)
    ledger.check_storage()
    return ledger.stream()


def statements_of(address: str, data_set: str | None = None) -> dict[str, Statement]:
    """The statements of all data sets, or that of one.

    Raises:
        LedgerUnreadable: the entries are not sound.
        NoGrant: there is no such data set.
    """
    name = address if is_export(address) else shown(address)
    statements = read_statements(entries_of(address), name)
    if data_set is None:
        return statements
    if data_set not in statements:
        known = ", ".join(repr(other) for other in statements) or "none"
        raise NoGrant(
            f"data set must be one of {name}; got {data_set!r}, where there is {known}. "
            "Check the spelling."
        )
    return {data_set: statements[data_set]}
