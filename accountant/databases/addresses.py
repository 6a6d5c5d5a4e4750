"""Which database an address means."""

from __future__ import annotations

import os
import re
from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from accountant.databases.database import Database
from accountant.databases.postgresql import PostgreSQLDatabase
from accountant.databases.sqlite import SQLiteFile
from accountant.errors import InvalidValue
from accountant.facts import quoted

_DRIVER = "postgresql+psycopg"


def find_database(address: str | os.PathLike[str]) -> Database:
    """An SQLite file for a path, PostgreSQL for `postgresql+psycopg://USER@HOST/NAME`."""
    text = os.fspath(address)
    if "://" not in text and not re.match(r"postgres\w*(\+\w+)?:|.*password\s*=", text, re.I):
        return SQLiteFile(Path(text).absolute())
    url = _url(text)
    if url is None or url.drivername not in (_DRIVER, "postgresql"):
        kind = text.partition(":")[0]
        raise InvalidValue(
            f"ledger must be a path, or an address of PostgreSQL that can be read; got one of kind "
            f"{quoted(kind if kind.isalnum() or '+' in kind else '?')}. "
            f"Write {_DRIVER}://USER@HOST/NAME."
        )
    return PostgreSQLDatabase(url.set(drivername=_DRIVER))


def _url(text: str) -> URL | None:
    """The address, or None; an error that quotes it, with its password, ends here."""
    try:
        return make_url(text)
    except (ArgumentError, ValueError):
        return None


def shown(address: str | os.PathLike[str]) -> str:
    """The address as people may see it: without a password."""
    return find_database(address).address
