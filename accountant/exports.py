"""A ledger as text: one entry a line, for those who check it without this package."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from accountant.entries import Entry, canonical_json
from accountant.errors import LedgerUnreadable


def write_export(entries: Iterable[Entry]) -> Iterator[str]:
    """The lines, without their ends."""
    return (canonical_json(entry.fields()) for entry in entries)


def is_export(address: str | os.PathLike[str]) -> bool:
    """Whether this is the name of a file of lines, and no ledger."""
    return os.fspath(address).endswith(".jsonl") and "://" not in os.fspath(address)


def read_export(address: str | os.PathLike[str]) -> Iterator[Entry]:
    """The entries of an export in order, sound or not. `verify` objects to a line that is none.

    Raises:
        LedgerUnreadable: the file cannot be read.
    """
    try:
        number = 0
        with Path(address).open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                yield _entry(number, line)
    except (OSError, ValueError):
        raise LedgerUnreadable(
            f"export must be a readable file of UTF-8 text; got {address}. Check the path."
        ) from None
    if number == 0:
        raise LedgerUnreadable(
            f"export must hold entries; got {address}, which is empty. Export it again."
        )


def _entry(number: int, line: str) -> Entry:
    try:
        row = json.loads(line)
        if set(row) == set(Entry.__slots__):
            return Entry.of(row[name] for name in Entry.__slots__)
    except (ValueError, TypeError, RecursionError):
        pass
    return Entry(number, "", "unreadable line", None, None, "", line, None, "", "")
