"""One paid measurement: authorise, start, measure, store, in this order.

The charge is durable before the measurement runs. Whatever stops it, its charge stays, and the
error that leaves tells public facts only.
"""

from __future__ import annotations

import math
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from fractions import Fraction
from typing import Any

import numpy as np
from opendp.mod import Measurement

from accountant import (
    Accountant,
    BudgetExceeded,
    Charge,
    KeyConflict,
    StoredRelease,
    TableMismatch,
    UnitMismatch,
)
from accountant.specs import Budget
from dppca_odp.errors import LossExceedsCharge, ReleaseFailed
from dppca_odp.releases import Release

#: What Ctrl-C says before the charge, and while it is made.
UNCHARGED = "Nothing was charged."
UNKNOWN = "It is not known whether this was charged: see the ledger's report."

#: OpenDP's queryables answer one query at a time.
_one_at_a_time = threading.Lock()


def check_loss(measurement: Measurement, d_in: int, planned: Budget) -> None:
    """Compare a measurement's own privacy map with the planned charge, exactly.

    Raises:
        LossExceedsCharge: the map says more, in either coordinate.
    """
    epsilon, delta = measurement.map(d_in)
    if not (
        math.isfinite(epsilon)
        and Fraction(epsilon) <= planned.epsilon
        and Fraction(delta) <= planned.delta
    ):
        raise LossExceedsCharge(
            f"the privacy map must be at most the charge, {planned}; got epsilon {epsilon!r} and "
            f"delta {delta!r}. Nothing was charged: please report this bug."
        )


def charge_and_release(
    accountant: Accountant,
    charge: Charge,
    *,
    measurement: Measurement,
    table: Any,
    columns: tuple[str, ...],
    fresh: bool,
    record: Callable[[Any, str], Release],
) -> Release:
    """Charge, measure and store; or return what is stored under the key, at no cost.

    ``record`` turns the measurement's answer and the release key into the release. What is raised
    after the charge may quote data, so another error leaves, not chained to it.

    Raises:
        BudgetExceeded, KeyConflict, TableMismatch, UnitMismatch: nothing was charged.
        OutOfOrder, LedgerUnreadable: nothing was measured; a charge may stand, not started.
        ReleaseFailed: it was not measured or not stored; the charge stays.
        KeyboardInterrupt: at the end, with what was charged and stored till then.
    """
    told = UNKNOWN
    try:
        with interrupts_deferred("until the release, which may be paid for, is stored"):
            try:
                authorization = accountant.authorize(
                    charge, rows=len(table), columns=columns, fresh=fresh
                )
            except (BudgetExceeded, KeyConflict, TableMismatch, UnitMismatch):
                told = UNCHARGED
                raise
            key = authorization.release_key
            if isinstance(authorization, StoredRelease):
                told = stored(key)
                return from_ledger(authorization)
            told = failed(key)
            accountant.start(authorization)  # its errors quote no data: nothing was measured yet
            try:
                with _one_at_a_time, _silence():
                    answer = measurement(table)
                    release = record(answer, key)
                accountant.store(authorization, release.model_dump(mode="json"))
                told = stored(key)
                return release
            except Exception as error:
                kind = type(error).__name__
    except KeyboardInterrupt:
        raise KeyboardInterrupt(told) from None
    raise ReleaseFailed(f"the release must be measured and stored; got {kind}. {told}")


def stored(key: str) -> str:
    """How to get a release that is paid for."""
    return (
        f"The release is paid for and stored under key {key}: the same run, not fresh, returns it "
        "at no cost."
    )


def failed(key: str) -> str:
    """What became of a charge whose release did not arrive, though it may be in the ledger."""
    return (
        f"Its charge under key {key} stays: run again, which costs nothing if the release is "
        "stored after all, and else pays for a new one."
    )


def from_ledger(stored: StoredRelease) -> Release:
    """A release that was paid for before."""
    return Release.model_validate({**stored.release, "from_ledger": True})


@contextmanager
def _silence() -> Iterator[None]:
    """What floating point does with a row is told by no error and no warning."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def interrupts_told(told: str) -> Iterator[None]:
    """Let Ctrl-C end the block with these words, unless it has some."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        raise KeyboardInterrupt(*(interrupt.args or (told,))) from None


@contextmanager
def interrupts_deferred(waits: str) -> Iterator[None]:
    """Hold Ctrl-C until the block ends, and say how long it waits.

    An interrupt inside a Python callback of OpenDP aborts the interpreter, and one after the
    charge would waste it. Signals reach Python's main thread alone, so other threads need
    nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    seen: list[Any] = []
    before = signal.getsignal(signal.SIGINT)

    def note(number: int, frame: Any) -> None:
        if not seen:
            with suppress(Exception):  # whatever stands behind stderr
                sys.stderr.write(f"interrupted: this waits {waits}\n")
        seen.append((number, frame))

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before if before is not None else signal.SIG_DFL)
        if seen and callable(before):
            before(*seen[-1])
