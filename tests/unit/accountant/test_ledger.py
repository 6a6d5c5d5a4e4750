import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from shutil import copyfile
from typing import Any

import pytest

from accountant import Accountant, Charge, Ledger, LedgerUnreadable, OutOfOrder
from accountant.databases import sqlite as storage
from accountant.entries import Rejection, Started
from accountant.keys import Authorization

from ...users import as_somebody

Make = Callable[..., Charge]


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder everybody may enter, unlike those of pytest."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture
def shared(finished: Path, open_folder: Path) -> Accountant:
    """A copy of the finished ledger in the open folder."""
    return Accountant(copyfile(finished, open_folder / "ledger.db"), data_set="survey")


def test_a_new_ledger_is_empty_and_leaves_no_draft(path: Path) -> None:
    assert Ledger.create(path).entries() == ()
    assert [path.name] == [file.name for file in path.parent.iterdir()]


def test_creating_again_opens_what_is_there(keeper: Accountant, path: Path) -> None:
    assert Ledger.create(path).entries() == keeper.ledger.entries()


def test_losing_the_race_to_create_keeps_the_winner(
    keeper: Accountant, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exists = Path.exists
    with monkeypatch.context() as patch:  # as it was a moment ago
        patch.setattr(Path, "exists", lambda self: self != path and exists(self))
        storage.SQLiteFile(path).create()
    assert [entry.kind for entry in keeper.entries()] == ["grant"]
    assert [path.name] == [file.name for file in path.parent.iterdir()]


def test_a_path_may_hold_any_characters(tmp_path: Path) -> None:
    path = tmp_path / "a b?c#d%20é.db"
    assert Ledger.create(path).entries() == ()
    assert path.exists()


def test_a_relative_path_survives_a_change_of_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ledger = Ledger.create("ledger.db")
    monkeypatch.chdir(tmp_path.parent)
    assert ledger.entries() == ()


def write_text(path: Path) -> None:
    path.write_text("epsilon,delta\n1,1e-6\n" * 100)


def write_other_database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE entries (sequence INTEGER)")


def write_newer_ledger(path: Path) -> None:
    Ledger.create(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE ledger_format SET version_num = '99'")
        connection.commit()


UNREADABLE: list[tuple[Callable[[Path], object], str]] = [
    (Path.mkdir, "it is a folder"),
    (Path.touch, "the file is empty"),
    (write_text, "it is no database"),
    (write_other_database, "it is a database but no ledger"),
    (write_newer_ledger, "its format is 99, not 2"),
]


@pytest.mark.parametrize(("write", "why"), UNREADABLE)
@pytest.mark.parametrize("reader", [Ledger, Ledger.create])
def test_what_is_no_ledger_is_refused_in_one_line(
    path: Path, write: Callable[[Path], object], why: str, reader: Callable[[Path], object]
) -> None:
    write(path)
    before = None if path.is_dir() else path.read_bytes()
    with pytest.raises(LedgerUnreadable) as caught:
        reader(path)
    message = str(caught.value)
    assert message.startswith(f"ledger must be a usable ledger; got {path}: {why}")
    assert "\n" not in message
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    assert before == (None if path.is_dir() else path.read_bytes())


def test_a_missing_file_is_refused_and_not_created(path: Path) -> None:
    with pytest.raises(LedgerUnreadable, match="there is no such file"):
        Ledger(path)
    assert not path.exists()


@pytest.mark.parametrize("reader", [Ledger, Ledger.create])
def test_a_missing_folder_is_refused(path: Path, reader: Callable[[Path], object]) -> None:
    with pytest.raises(LedgerUnreadable, match=r"its folder does not exist\. Create the folder"):
        reader(path / "none" / "ledger.db")


@pytest.mark.parametrize("kept", [0.95, 0.7, 0.4, 0.1])
def test_a_truncated_ledger_is_refused(history: Accountant, path: Path, kept: float) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * kept)])
    with pytest.raises(LedgerUnreadable, match=r"it is damaged|it is no database|no such table"):
        Ledger(path).check_storage()


def test_a_read_only_ledger_can_be_read_and_not_written(shared: Accountant) -> None:
    path = Path(shared.ledger.address)
    path.chmod(0o444)
    before = shared.entries()
    with as_somebody():
        assert before == Ledger(path).entries()
        with pytest.raises(LedgerUnreadable, match="it cannot be written"):
            shared.reject("no rows")


def test_a_secret_ledger_is_refused(shared: Accountant) -> None:
    path = Path(shared.ledger.address)
    path.chmod(0)
    with as_somebody(), pytest.raises(LedgerUnreadable, match="it cannot be opened"):
        Ledger(path)


def test_a_read_only_folder_is_refused(open_folder: Path) -> None:
    folder = open_folder / "closed"
    folder.mkdir(mode=0o555)
    with as_somebody(), pytest.raises(LedgerUnreadable, match="it cannot be opened"):
        Ledger.create(folder / "ledger.db")


def test_a_folder_that_cannot_be_entered_is_refused(open_folder: Path) -> None:
    folder = open_folder / "closed"
    folder.mkdir(mode=0o000)
    with as_somebody(), pytest.raises(LedgerUnreadable, match="Permission denied"):
        Ledger(folder / "ledger.db")


def test_a_locked_ledger_says_so(
    keeper: Accountant, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "BUSY_SECONDS", 0.05)
    storage._engine.cache_clear()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerUnreadable, match=r"it was locked .* Try again when it is free"):
            keeper.reject("no rows")
    assert [entry.kind for entry in keeper.entries()] == ["grant"]


def test_an_entry_cannot_be_replaced(history: Accountant, path: Path) -> None:
    statement = (
        "INSERT OR REPLACE INTO entries (sequence, data_set, kind, time, body, previous_hash, hash)"
        " SELECT 3, data_set, kind, time, body, previous_hash, hash FROM entries WHERE sequence = 1"
    )
    with (
        closing(sqlite3.connect(path)) as connection,
        pytest.raises(sqlite3.IntegrityError, match="the ledger is append-only"),
    ):
        connection.execute(statement)


def test_a_second_name_of_the_file_is_refused(keeper: Accountant, path: Path) -> None:
    """Its journal would have another name, and what it undoes would be lost."""
    other = path.with_name("other.db")
    os.link(path, other)
    for name in (path, other):
        with pytest.raises(LedgerUnreadable, match="it has two names"):
            Ledger(name)
    other.unlink()
    keeper.reject("no rows")


def test_an_index_that_lacks_a_charge_is_found(
    keeper: Accountant, path: Path, charge: Make
) -> None:
    """As after a commit that reached the table and not the index, with its journal lost."""
    keeper.authorize(charge(epsilon="0.9"), rows=10, columns=("a",))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA writable_schema = ON")
        sql = "CREATE INDEX entries_by_data_set ON entries (data_set, sequence)"
        connection.execute("DROP INDEX entries_by_data_set")
        connection.execute(f"{sql} WHERE kind <> 'charge'")
        connection.execute(
            "UPDATE sqlite_master SET sql = ? WHERE name = 'entries_by_data_set'", (sql,)
        )
    with pytest.raises(LedgerUnreadable, match="it is damaged"):
        Ledger(path).check_storage()


def test_a_refused_entry_ends_its_transaction(keeper: Accountant, charge: Make) -> None:
    """Else what it had noted before it was refused would count."""
    keeper.authorize(charge("a", "0.9"), rows=10, columns=("a",))
    before = keeper.ledger.entries()

    def go_on() -> None:
        with keeper.ledger.transaction() as transaction:
            with pytest.raises(OutOfOrder):
                transaction.append("survey", "charge", charge("b", "0.9"), release_key="b")
            transaction.append("survey", "rejection", Rejection(reason="late", actor=""))

    def stop() -> None:
        with keeper.ledger.transaction() as transaction, pytest.raises(OutOfOrder):
            transaction.append("survey", "charge", charge("b", "0.9"), release_key="b")

    for act in (go_on, stop):
        with pytest.raises(OutOfOrder, match="must end where an entry was refused"):
            act()
    assert before == keeper.ledger.entries()


def test_an_entry_that_the_database_swallows_is_noticed(keeper: Accountant, path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "CREATE TRIGGER swallow BEFORE INSERT ON entries BEGIN SELECT RAISE(IGNORE); END"
        )
    with pytest.raises(LedgerUnreadable, match="it took an entry and did not keep it"):
        keeper.reject("no rows")


def test_entries_of_one_transaction_appear_together_or_not_at_all(keeper: Accountant) -> None:
    ledger = keeper.ledger
    before = ledger.entries()

    def stop_half_way() -> None:
        with ledger.transaction() as transaction:
            transaction.append("survey", "rejection", Rejection(reason="one", actor=""))
            assert len(transaction.batch(None, until=9)) == 2
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        stop_half_way()
    assert before == ledger.entries()
    with ledger.transaction() as transaction:
        for reason in ("one", "two"):
            transaction.append("survey", "rejection", Rejection(reason=reason, actor=""))
    assert [entry.sequence for entry in ledger.entries()] == [1, 2, 3]


def test_an_entry_that_verify_would_object_to_is_not_written(keeper: Accountant) -> None:
    with (
        pytest.raises(OutOfOrder, match=r"^started must follow from the entries before it; got "),
        keeper.ledger.transaction() as transaction,
    ):
        transaction.append("survey", "started", Started(), release_key="never")
    assert [entry.kind for entry in keeper.entries()] == ["grant"]


def test_each_commit_is_durable_and_leaves_no_journal(keeper: Accountant, path: Path) -> None:
    with storage.SQLiteFile(path).writing() as connection:
        modes = [
            connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
            for name in ("synchronous", "journal_mode")
        ]
    assert modes == [3, "delete"]  # 3 is EXTRA
    assert [path.name] == [file.name for file in path.parent.iterdir()]


def test_the_work_of_a_charge_does_not_grow_with_the_ledger(
    keeper: Accountant, path: Path, charge: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps, connect = [0], sqlite3.connect

    def counted(*arguments: Any, **options: Any) -> sqlite3.Connection:
        def count() -> None:
            steps[0] += 1

        connection = connect(*arguments, **options)
        connection.set_progress_handler(count, 1)
        return connection

    def work(name: str) -> int:
        with monkeypatch.context() as patch:
            patch.setattr(sqlite3, "connect", counted)
            steps[0] = 0
            authorization = keeper.authorize(charge(name, "1e-6", "1e-12"), rows=3, columns=["a"])
            assert isinstance(authorization, Authorization)
            keeper.start(authorization)
            keeper.stored(name, authorization.charge.plan_hash)
        return steps[0]

    work("first")
    short = work("in a short ledger")
    for number in range(200):
        keeper.authorize(charge(f"key {number}", "1e-6", "1e-12"), rows=3, columns=["a"])
    long = work("in a long ledger")
    assert short > 100
    assert long < short * 1.2
