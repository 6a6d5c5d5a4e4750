"""What can go wrong above the accountant. Every message holds public facts only."""

from __future__ import annotations


class DppcaError(Exception):
    """The base of this package's errors."""


class InvalidPlan(DppcaError, ValueError):
    """A plan that cannot run on a table of this shape."""


class InvalidRelease(DppcaError, ValueError):
    """A file that is not a release."""


class UnusableTable(DppcaError, ValueError):
    """A table that does not fit its declared schema; decided at the holder, before any charge."""


class NoTable(UnusableTable):
    """No file at that path: a slip in typing, of which the ledger takes no note."""


class ReleaseFailed(DppcaError):
    """A measurement that stopped after its charge; the charge stays."""


class LossExceedsCharge(DppcaError):
    """A measurement whose own privacy map exceeds its planned charge: a bug, stopped in time."""


class PoorOutlook(UserWarning):
    """Said before a charge, from public numbers alone: what is paid for will likely be noise."""
