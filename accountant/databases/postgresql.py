"""A ledger in a PostgreSQL database, for a team."""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from accountant.databases.database import BUSY_SECONDS, Database
from accountant.databases.schema import find_format, migrate
from accountant.errors import LedgerUnreadable

_LOCK = 0x6C656467  # "ledg": the advisory lock that writers of ledgers take, held to the commit
_LOCK_NOT_AVAILABLE = "55P03"
_INSUFFICIENT_PRIVILEGE = "42501"
_ACCESS = "GRANT SELECT, INSERT ON entries TO analyst; GRANT SELECT ON ledger_format TO analyst"

#: For one transaction: how long it waits, that its commit is on disk, and then the lock. A server
#: that promises more than that is left alone. What follows reads what the lock waited for.
_PROMISE_AND_LOCK = text(
    "SELECT set_config('lock_timeout', :patience, true), "
    "CASE WHEN current_setting('synchronous_commit') IN ('off', 'local') "
    "THEN set_config('synchronous_commit', 'on', true) END, "
    f"pg_advisory_xact_lock({_LOCK})"
)


class PostgreSQLDatabase(Database):
    """A database, or the schema of one that the address puts first in `search_path`."""

    def __init__(self, url: URL) -> None:
        self.url = url

    @property
    def address(self) -> str:
        """The address without its passwords."""
        query = {
            name: "***" if "password" in name.lower() else value
            for name, value in self.url.query.items()
        }
        return self.url.set(query=query).render_as_string(hide_password=True)

    def create(self) -> None:
        """Make the tables in one transaction, if there is no ledger yet."""
        with self.writing() as connection:
            if find_format(connection) is None:
                migrate(connection)

    def check(self) -> None:
        """Refuse what is no ledger of this format."""
        with self.reading() as connection:
            self.check_format(find_format(connection))

    def check_storage(self) -> None:
        """Nothing: the server checks its pages, and no entry hides from a reader."""

    def upgrade(self) -> str:
        """Add what the tables of an older format lack."""
        with self.writing() as connection:
            found = self.known_format(find_format(connection))
            migrate(connection)
            return found

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """One state of the database, whatever is committed meanwhile."""
        with self._in_plain_words():
            reader = self._engine.execution_options(isolation_level="REPEATABLE READ")
            with reader.begin() as connection:
                yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Wait for the turn, and only then begin to read."""
        with self._in_plain_words(), self._engine.begin() as connection:
            connection.execute(_PROMISE_AND_LOCK, {"patience": f"{BUSY_SECONDS}s"})
            yield connection

    def user(self, connection: Connection) -> str:
        """The role that connected."""
        return str(connection.info["user"])

    @property
    def _engine(self) -> Engine:
        return _engine(self.url, os.getpid())

    @contextmanager
    def _in_plain_words(self) -> Iterator[None]:
        try:
            yield
        except ModuleNotFoundError:
            raise self.unusable(
                "psycopg is not installed", 'Type: pip install "dppca-odp[postgresql]"'
            ) from None
        except DBAPIError as error:
            raise self._explain(error) from None
        except SQLAlchemyError as error:
            raise self.unusable(str(error).splitlines()[0], "Check the address") from None

    def _explain(self, error: DBAPIError) -> LedgerUnreadable:
        if getattr(error.orig, "sqlstate", None) == _LOCK_NOT_AVAILABLE:
            return self.unusable(f"it was locked for {BUSY_SECONDS} s", "Try again when it is free")
        if getattr(error.orig, "sqlstate", None) == _INSUFFICIENT_PRIVILEGE:
            why = str(error.orig).strip().splitlines()[0]
            return self.unusable(why, f"Who owns the ledger may type: {_ACCESS}")
        told = str(error.orig).strip().splitlines() or ["it does not answer"]
        return self.unusable(told[0].rstrip("."), "Check the address and the server")


@cache
def _engine(url: URL, process: int) -> Engine:
    """The connections of this process. A fork must not use those of its parent."""
    engine = create_engine(url, pool_pre_ping=True, isolation_level="READ COMMITTED")

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, record: Any) -> None:
        """Entries that a policy hides would be missing in sums: let it be an error."""
        with connection.cursor() as cursor:
            cursor.execute("SET row_security = off")
            cursor.execute("SELECT session_user")
            record.info["user"] = cursor.fetchone()[0]
        connection.commit()

    atexit.register(_close, engine, process)
    return engine


def _close(engine: Engine, process: int) -> None:
    """Leave no connection to the server, except those that a parent uses."""
    if process == os.getpid():
        engine.dispose()
