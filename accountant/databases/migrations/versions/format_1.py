"""Entries that are only ever added."""

import sqlalchemy as sa
from alembic import op

revision = "1"
down_revision = None

NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
SEQUENCE = sa.BigInteger().with_variant(sa.Integer, "sqlite")

REFUSE_ON_SQLITE = tuple(
    f"CREATE TRIGGER entries_refuse_{action.lower()} BEFORE {action} ON entries "
    "BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END"
    for action in ("UPDATE", "DELETE")
)
REFUSE_ON_POSTGRESQL = (
    "CREATE FUNCTION entries_refuse() RETURNS trigger LANGUAGE plpgsql AS "
    "$$ BEGIN RAISE EXCEPTION 'the ledger is append-only'; END $$",
    "CREATE TRIGGER entries_refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON entries "
    "FOR EACH STATEMENT EXECUTE FUNCTION entries_refuse()",
)


def upgrade() -> None:
    """The table, and triggers that refuse changes."""
    op.create_table(
        "entries",
        sa.Column("sequence", SEQUENCE, primary_key=True, autoincrement=False),
        sa.Column("data_set", NAME, nullable=False),
        sa.Column("kind", NAME, nullable=False),
        sa.Column("release_key", NAME),
        sa.Column("time", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("previous_hash", sa.Text, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
        sa.UniqueConstraint("data_set", "kind", "release_key"),
    )
    sqlite = op.get_bind().dialect.name == "sqlite"
    for statement in REFUSE_ON_SQLITE if sqlite else REFUSE_ON_POSTGRESQL:
        op.execute(statement)
