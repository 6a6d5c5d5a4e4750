"""Each entry states the balance that it leaves, so that the next needs no other entries."""

import sqlalchemy as sa
from alembic import op

revision = "2"
down_revision = "1"

NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Two columns, which older entries leave empty, and the indexes that find the last balance."""
    op.add_column("entries", sa.Column("allocation", NAME))
    op.add_column("entries", sa.Column("balance", sa.Text))
    op.create_index("entries_by_data_set", "entries", ["data_set", "sequence"])
    op.create_index("entries_by_allocation", "entries", ["data_set", "allocation", "sequence"])
