"""Which database an address means."""

from __future__ import annotations

import os
from pathlib import Path

from sqlalchemy import make_url
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
    if "://" not in text:
        return SQLiteFile(Path(text).absolute())
    kind = text.partition("://")[0]
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise InvalidValue(
            f"ledger must be a path or an address; got one of kind {quoted(kind)} that cannot be "
            f"read. Write {_DRIVER}://USER@HOST/NAME."
        ) from None
    if url.drivername not in (_DRIVER, "postgresql"):
        raise InvalidValue(
            f"ledger must be a path or an address of PostgreSQL; got {quoted(kind)}. "
            f"Write {_DRIVER}://USER@HOST/NAME."
        )
    return PostgreSQLDatabase(url.set(drivername=_DRIVER))


def shown(address: str | os.PathLike[str]) -> str:
    """The address as people may see it: without a password."""
    return find_database(address).address
