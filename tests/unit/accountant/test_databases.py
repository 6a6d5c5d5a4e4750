"""What each database must do for a ledger, and how older ledgers come to be of this format."""

import os
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, create_engine, text

from accountant import (
    Accountant,
    Authorization,
    Budget,
    InvalidValue,
    Ledger,
    LedgerUnreadable,
    StoredRelease,
    verify,
)
from accountant.databases import postgresql
from accountant.databases.addresses import find_database
from accountant.databases.schema import ENTRIES, METADATA, VERSION_TABLE, migrate
from accountant.entries import Entry
from accountant.ledger import upgrade

from .conftest import COLUMNS, grant, make_charge, release_one

FORMAT_1 = (Path(__file__).parent / "ledger_of_format_1.sql").read_text(encoding="utf-8")


@contextmanager
def by_hand(address: str) -> Iterator[Connection]:
    """A connection that knows nothing of ledgers."""
    url = address if "://" in address else f"sqlite:///{address}"
    engine = create_engine(url)
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def forget(address: str) -> None:
    """Close the connections of this process, and make new ones with what holds now."""
    database = find_database(address)
    assert isinstance(database, postgresql.PostgreSQLDatabase)
    postgresql._engine(database.url, os.getpid()).dispose()
    postgresql._engine.cache_clear()


@pytest.fixture
def of_format_1(address: str) -> str:
    """Nine entries that format 1 wrote: on SQLite its own tables, on PostgreSQL a copy of them."""
    if "://" not in address:
        with closing(sqlite3.connect(address)) as connection:
            connection.executescript(FORMAT_1)
        return address
    inserts = [line for line in FORMAT_1.splitlines() if line.startswith("INSERT")]
    with by_hand(address) as connection:
        migrate(connection, to="1")
        for line in inserts:
            connection.exec_driver_sql(line)
        connection.commit()
    return address


def test_the_tables_are_those_that_the_code_reads(anywhere: Accountant, address: str) -> None:
    with by_hand(address) as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        assert compare_metadata(context, METADATA) == []


@pytest.mark.parametrize("statement", ["UPDATE entries SET kind = 'table'", "DELETE FROM entries"])
def test_the_database_itself_refuses_changes(
    anywhere: Accountant, address: str, statement: str
) -> None:
    with by_hand(address) as connection, pytest.raises(Exception, match="append-only"):
        connection.execute(text(statement))
    assert [entry.kind for entry in anywhere.entries()] == ["grant"]


def test_postgresql_refuses_to_be_emptied(postgresql_url: str) -> None:
    keeper = grant(postgresql_url)
    with by_hand(postgresql_url) as connection, pytest.raises(Exception, match="append-only"):
        connection.execute(text("TRUNCATE entries"))
    assert [entry.kind for entry in keeper.entries()] == ["grant"]


def test_an_older_ledger_is_not_opened_until_it_is_upgraded(of_format_1: str) -> None:
    with pytest.raises(LedgerUnreadable, match=r"its format is 1, not 2\. Type: accountant upg"):
        Ledger(of_format_1)


def test_an_upgrade_rewrites_nothing_and_the_ledger_goes_on(of_format_1: str) -> None:
    assert upgrade(of_format_1) == "1"
    keeper = Accountant(of_format_1, data_set="survey")
    before = keeper.ledger.entries()
    assert len(before) == 9
    assert {entry.balance for entry in before} == {None}
    assert verify(before) == []
    assert keeper.spent() == Budget.of("0.75", "6e-6")
    found = keeper.authorize(make_charge("first", "0.5", "5e-6"), rows=10, columns=COLUMNS)
    assert isinstance(found, StoredRelease)
    release_one(keeper, make_charge("third", "0.25"))
    again = keeper.authorize(make_charge("third", "1e-9", "1e-9"), rows=10, columns=COLUMNS)
    assert isinstance(again, StoredRelease)
    assert keeper.remaining() == Budget.of(0, "3e-6")
    after = keeper.ledger.entries()
    assert before == after[:9]
    assert None not in {entry.balance for entry in after[9:]}
    assert verify(after) == []
    assert [line.state for line in keeper.statement().charges] == [
        "released",
        "started",
        "released",
    ]


def test_an_upgrade_twice_is_an_upgrade_once(of_format_1: str) -> None:
    assert [upgrade(of_format_1), upgrade(of_format_1)] == ["1", "2"]
    assert len(Ledger(of_format_1).entries()) == 9


def test_after_an_upgrade_the_tables_are_those_of_a_new_ledger(of_format_1: str) -> None:
    upgrade(of_format_1)
    with by_hand(of_format_1) as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        assert compare_metadata(context, METADATA) == []


def test_a_newer_ledger_is_left_alone(anywhere: Accountant, address: str) -> None:
    with by_hand(address) as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '99'"))
        connection.commit()
    with pytest.raises(LedgerUnreadable, match=r"its format is 99, not 2\. Use a matching version"):
        Ledger(address)
    with pytest.raises(LedgerUnreadable, match="its format is 99"):
        upgrade(address)


def test_a_database_without_a_ledger_is_refused(postgresql_url: str) -> None:
    for act in (Ledger, upgrade):
        with pytest.raises(LedgerUnreadable, match="it is a database but no ledger"):
            act(postgresql_url)


def test_a_key_is_charged_once_by_the_database_itself(anywhere: Accountant, address: str) -> None:
    release_one(anywhere, make_charge())
    copy = (
        "INSERT INTO entries (sequence, data_set, kind, release_key, time, body, previous_hash, "
        "hash) SELECT 99, data_set, kind, release_key, time, body, previous_hash, hash "
        "FROM entries WHERE kind = 'charge'"
    )
    with by_hand(address) as connection, pytest.raises(Exception, match=r"(?i)unique"):
        connection.execute(text(copy))


BAD_ADDRESSES = [
    ("mysql://user@host/name", "of kind 'mysql'"),
    ("sqlite:///ledger.db", "of kind 'sqlite'"),
    ("https://example.org/ledger.db", "of kind 'https'"),
    ("postgresql+asyncpg://host/name", r"of kind 'postgresql\+asyncpg'"),
    ("postgresql://user:secret@host:port/name", "of kind 'postgresql'"),
    ("postgresql://user@host:secret/name", "of kind 'postgresql'"),
    ("postgresql:/user:secret@host/name", "of kind 'postgresql'"),
    ("host=db password=secret", "of kind"),
    ("://", "must be a path, or an address"),
]


@pytest.mark.parametrize(("address", "complaint"), BAD_ADDRESSES)
@pytest.mark.parametrize("opener", [Ledger, Ledger.create, upgrade])
def test_other_addresses_are_refused_in_one_line(
    address: str, complaint: str, opener: Callable[[str], object]
) -> None:
    with pytest.raises(InvalidValue, match=complaint) as caught:
        opener(address)
    error: BaseException | None = caught.value
    while error is not None:
        assert "secret" not in str(error)
        error = error.__context__
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("host", ["/nowhere", "127.0.0.1&port=1"])
def test_a_server_that_is_not_there_is_one_line_without_the_password(host: str) -> None:
    address = f"postgresql+psycopg://ana:secret@/name?host={host}&connect_timeout=2"
    for opener in (Ledger, Ledger.create):
        with pytest.raises(LedgerUnreadable, match="Check the address and the server") as caught:
            opener(address)
        message = str(caught.value)
        assert "\n" not in message
        assert "secret" not in message
        assert caught.value.__cause__ is None


def test_a_handle_shows_no_password(postgresql_url: str) -> None:
    address = postgresql_url.replace("postgres@", "postgres:secret@")
    keeper = grant(address)
    assert "secret" not in repr(keeper)
    assert "secret" not in repr(keeper.ledger)
    assert "postgres:***@" in repr(keeper)
    queried = find_database("postgresql://u@/x?password=secret&sslpassword=secret&host=h")
    assert "secret" not in queried.address
    assert "host=h" in queried.address


def test_without_the_driver_the_line_to_type_is_named(
    postgresql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget(postgresql_url)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(LedgerUnreadable, match=r'pip install "dppca-odp\[postgresql\]"'):
        Ledger(postgresql_url)


def test_two_schemas_of_one_database_are_two_ledgers(postgresql_url: str) -> None:
    with by_hand(postgresql_url) as connection:
        for name in ("one", "two"):
            connection.execute(text(f"CREATE SCHEMA {name}"))
        connection.commit()
    first, second = (f"{postgresql_url}&options=-csearch_path%3D{name}" for name in ("one", "two"))
    grant(first).reject("only here")
    assert [entry.kind for entry in Ledger(first).entries()] == ["grant", "rejection"]
    with pytest.raises(LedgerUnreadable, match="no ledger"):
        Ledger(second)
    assert [entry.kind for entry in grant(second).entries()] == ["grant"]


def test_a_writer_that_waits_too_long_says_so(
    postgresql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = grant(postgresql_url)
    monkeypatch.setattr(postgresql, "BUSY_SECONDS", "0.1")
    forget(postgresql_url)
    with by_hand(postgresql_url) as other:
        other.execute(text(f"SELECT pg_advisory_xact_lock({postgresql._LOCK})"))
        with pytest.raises(LedgerUnreadable, match="it was locked for"):
            keeper.reject("no rows")
    forget(postgresql_url)
    assert [entry.kind for entry in keeper.entries()] == ["grant"]


def test_a_reader_is_not_held_up_by_a_writer(anywhere: Accountant) -> None:
    with anywhere.ledger.transaction() as transaction:
        transaction.append("survey", "rejection", {"reason": "no rows", "actor": ""})
        assert [entry.kind for entry in anywhere.entries()] == ["grant"]
    assert [entry.kind for entry in anywhere.entries()] == ["grant", "rejection"]


def test_commits_are_durable_where_the_server_is_careless(postgresql_url: str) -> None:
    with by_hand(postgresql_url) as connection:
        name = connection.execute(text("SELECT current_database()")).scalar_one()
        connection.execute(text(f"ALTER DATABASE {name} SET synchronous_commit = off"))
        connection.commit()
    database = find_database(postgresql_url)
    database.create()
    with database.writing() as connection:
        assert connection.execute(text("SHOW synchronous_commit")).scalar_one() == "on"


def test_a_lost_connection_is_replaced(postgresql_url: str) -> None:
    keeper = grant(postgresql_url)
    with psycopg.connect(postgresql_url.replace("+psycopg", ""), autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND datname = current_database()"
        )
    granted = keeper.authorize(make_charge(), rows=10, columns=COLUMNS)
    assert isinstance(granted, Authorization)


def test_what_is_written_on_one_machine_is_read_on_another(anywhere: Accountant) -> None:
    """The same plan under the same key, in a process that shares nothing but the address."""
    release_one(anywhere, make_charge())
    child = os.fork()
    if child == 0:
        found = None
        try:
            found = Accountant(anywhere.ledger, data_set="survey").stored("k", "f00")
        finally:
            os._exit(0 if found and found.release == {"values": [1.5, 2]} else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.fixture
def as_analyst(postgresql_url: str) -> Iterator[str]:
    """The officer's ledger, as docs/ledger.md opens it to an analyst's role."""
    grant(postgresql_url)
    role = f"ana_{os.getpid()}"
    with by_hand(postgresql_url) as connection:
        connection.execute(text(f"CREATE ROLE {role} LOGIN"))
        connection.commit()
        connection.execute(text(f"GRANT SELECT, INSERT ON entries TO {role}"))
        connection.execute(text(f"GRANT SELECT ON ledger_format TO {role}"))
        connection.commit()
        yield postgresql_url.replace("postgres@", f"{role}@")
        connection.execute(text(f"DROP OWNED BY {role}; DROP ROLE {role}"))
        connection.commit()


def test_an_analyst_on_postgresql_charges_and_is_named(as_analyst: str) -> None:
    keeper = Accountant(as_analyst, data_set="survey")
    granted = keeper.authorize(
        make_charge().model_copy(update={"actor": ""}), rows=10, columns=COLUMNS
    )
    assert isinstance(granted, Authorization)
    keeper.start(granted)
    keeper.store(granted, {})
    assert granted.charge.actor == f"ana_{os.getpid()}"
    assert verify(keeper.ledger.entries()) == []


def test_an_analyst_on_postgresql_cannot_do_what_the_officer_does(as_analyst: str) -> None:
    keeper = Accountant(as_analyst, data_set="survey")
    keeper.authorize(make_charge(), rows=10, columns=COLUMNS)
    acts: list[Callable[[], object]] = [
        lambda: keeper.void("k", "mine"),
        lambda: keeper.allocate("ana", Budget.of("0.1", "1e-6")),
        lambda: Accountant.grant(
            as_analyst,
            data_set="survey",
            budget=Budget.of("2", "1e-5"),
            unit=keeper.unit,
            actor="officer",
            reason="more",
        ),
        lambda: Accountant.grant(
            as_analyst, data_set="mine", budget=Budget.of("2", "1e-5"), unit=keeper.unit
        ),
    ]
    for act in acts:
        with pytest.raises(LedgerUnreadable, match="only the role of the privacy officer may"):
            act()
    assert [entry.kind for entry in keeper.entries()] == ["grant", "table", "charge"]


def test_a_role_without_rights_is_told_what_to_ask_for(
    as_analyst: str, postgresql_url: str
) -> None:
    with by_hand(postgresql_url) as connection:
        connection.execute(text(f"REVOKE SELECT ON ledger_format FROM ana_{os.getpid()}"))
        connection.commit()
    with pytest.raises(
        LedgerUnreadable, match=r"GRANT SELECT, INSERT ON entries TO analyst; GRANT"
    ):
        Ledger(as_analyst)


def test_entries_that_a_policy_hides_are_an_error_and_not_a_smaller_sum(
    as_analyst: str, postgresql_url: str
) -> None:
    with by_hand(postgresql_url) as connection:
        connection.execute(text("ALTER TABLE entries ENABLE ROW LEVEL SECURITY"))
        connection.execute(text("CREATE POLICY hide ON entries USING (kind <> 'charge')"))
        connection.commit()
    with pytest.raises(LedgerUnreadable, match="row-level security"):
        Accountant(as_analyst, data_set="survey").spent()


def test_the_columns_of_the_table_are_the_fields_of_an_entry_in_their_order() -> None:
    """Rows are read by place."""
    assert [column.name for column in ENTRIES.columns] == list(Entry.__slots__)
