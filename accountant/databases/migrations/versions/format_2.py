"""Each entry states the balance that it leaves, so that the next needs no other entries."""

import sqlalchemy as sa
from alembic import op

revision = "2"
down_revision = "1"

NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


#: INSERT OR REPLACE would delete an entry without a word to the trigger that refuses deletions.
REFUSE_REPLACING_ON_SQLITE = (
    "CREATE TRIGGER entries_refuse_replacing BEFORE INSERT ON entries "
    "WHEN EXISTS (SELECT 1 FROM entries WHERE sequence = NEW.sequence) "
    "BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END"
)

#: Only who owns the table, or is a member of the role that does, writes what an officer writes.
OFFICER_ON_POSTGRESQL = (
    """
    CREATE FUNCTION entries_require_officer() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF NEW.kind IN ('grant', 'raise', 'allocation', 'void') AND NOT pg_has_role(
            session_user, (SELECT relowner FROM pg_class WHERE oid = TG_RELID), 'MEMBER'
        ) THEN
            RAISE insufficient_privilege USING MESSAGE = format(
                'only the role of the privacy officer may write a %s', NEW.kind
            );
        END IF;
        RETURN NEW;
    END $$
    """,
    "CREATE TRIGGER entries_require_officer BEFORE INSERT ON entries "
    "FOR EACH ROW EXECUTE FUNCTION entries_require_officer()",
)


def upgrade() -> None:
    """Two columns, which older entries leave empty, and the indexes that find the last balance."""
    op.add_column("entries", sa.Column("allocation", NAME))
    op.add_column("entries", sa.Column("balance", sa.Text))
    op.create_index("entries_by_data_set", "entries", ["data_set", "sequence"])
    op.create_index("entries_by_allocation", "entries", ["data_set", "allocation", "sequence"])
    if op.get_bind().dialect.name == "postgresql":
        for statement in OFFICER_ON_POSTGRESQL:
            op.execute(statement)
    else:
        op.execute(REFUSE_REPLACING_ON_SQLITE)
