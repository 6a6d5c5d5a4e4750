"""What alembic runs: each format's script, on the connection that it is given."""

from alembic import context

from accountant.databases.schema import VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"],
    version_table=VERSION_TABLE,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
