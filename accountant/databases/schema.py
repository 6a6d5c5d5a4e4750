"""The one table of a ledger, and the versions of its format."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    inspect,
    text,
)

METADATA = MetaData()

#: Names are compared by their bytes on both databases: SQLite does, PostgreSQL is told to.
Name = Text().with_variant(Text(collation="C"), "postgresql")

Sequence = BigInteger().with_variant(Integer, "sqlite")  # there the table is kept in this order

ENTRIES = Table(
    "entries",
    METADATA,
    Column("sequence", Sequence, primary_key=True, autoincrement=False),
    Column("data_set", Name, nullable=False),
    Column("kind", Name, nullable=False),
    Column("allocation", Name),
    Column("release_key", Name),
    Column("time", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("balance", Text),
    Column("previous_hash", Text, nullable=False),
    Column("hash", Text, nullable=False),
    UniqueConstraint("data_set", "kind", "release_key"),
    Index("entries_by_data_set", "data_set", "sequence"),
    Index("entries_by_allocation", "data_set", "allocation", "sequence"),
)

VERSION_TABLE = "ledger_format"
FORMAT = "2"  # of this package; the newest of migrations/versions


def find_format(connection: Connection) -> str | None:
    """The format that the database says it has; None if it is no ledger, or of format 1."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    found = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()
    return None if found is None else str(found)


def migrate(connection: Connection, start: str | None = None, to: str = FORMAT) -> None:
    """Bring the tables to a format, from that of `start` or from nothing.

    Entries are never rewritten: those of an older format keep their form and their hash.
    """
    from alembic import command  # slow to import, and needed once in the life of a ledger
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", "accountant.databases:migrations")
    config.attributes["connection"] = connection
    if start is not None:
        command.stamp(config, start)
    command.upgrade(config, to)
