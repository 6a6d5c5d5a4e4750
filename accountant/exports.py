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
    """Whether this is a file of lines, and no database."""
    path = Path(address)
    return path.is_file() and path.suffix == ".jsonl"


def read_export(address: str | os.PathLike[str]) -> Iterator[Entry]:
    """The entries of an export in order, sound or not. `verify` objects to a line that is none.

    Raises:
        LedgerUnreadable: the file cannot be read.
    """
    try:
        with Path(address).open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                yield _entry(number, line)
    except (OSError, UnicodeDecodeError):
        raise LedgerUnreadable(
            f"export must be a readable file of UTF-8 text; got {address}. Check the path."
        ) from None


def _entry(number: int, line: str) -> Entry:
    try:
        row = json.loads(line)
        if set(row) == set(Entry.__slots__):
            return Entry.of(row)
    except (ValueError, TypeError, RecursionError):
        pass
    return Entry(number, "", "unreadable line", None, None, "", line, None, "", "")
