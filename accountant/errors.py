"""What can go wrong, in words that say what to do.

Every message reads: `<parameter> must <condition>; got <value>. <One thing to do>.`
"""

from __future__ import annotations


class AccountantError(Exception):
    """The root of every error raised on purpose by this package."""


class InvalidValue(AccountantError, ValueError):
    """A name, a count, a key or a document that cannot be used."""


class InvalidAmount(InvalidValue):
    """An epsilon, a delta or a weight that cannot be used."""


class LedgerUnreadable(AccountantError):
    """The path does not lead to a sound ledger that can be used."""


class NoGrant(AccountantError):
    """The data set has no grant in this ledger."""


class GrantConflict(AccountantError):
    """The data set was granted before, on other terms."""


class UnitMismatch(AccountantError):
    """The request protects another unit than the grant."""


class TableMismatch(AccountantError):
    """The table is not the one the grant was made for."""


class KeyConflict(AccountantError):
    """The release key was used before, for another plan."""


class OutOfOrder(AccountantError):
    """The entry cannot follow the entries that are there."""
