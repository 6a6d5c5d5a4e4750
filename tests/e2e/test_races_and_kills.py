"""Real processes that race, and die at every point, on each database."""

import os
import resource
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from shutil import copyfile

import pytest

from accountant import (
    Accountant,
    Authorization,
    Budget,
    Charge,
    Ledger,
    LedgerUnreadable,
    PrivacyUnit,
    StoredRelease,
    verify,
)
from accountant.entries import Rejection

from ..postgresql import PostgresqlServer
from ..users import as_somebody

PRELUDE = """
import os, signal, sys
from accountant import *

address, name = sys.argv[1:]

def charge(key, epsilon):
    budget = Budget.of(epsilon, "1e-6")
    return Charge(release_key=key, plan_hash="f00", unit=PrivacyUnit(rows_per_person=1),
                  budget=budget, stages=())

def die():
    os.kill(os.getpid(), signal.SIGKILL)
"""
RACE = (
    PRELUDE
    + """
keeper = Accountant(address, data_set="survey")
print("ready", flush=True)
sys.stdin.readline()
try:
    granted = keeper.authorize(charge(name, "0.1"), rows=3, columns=["a"])
except BudgetExceeded:
    print("refused")
else:
    keeper.start(granted)
    keeper.store(granted, {})
    print("released")
"""
)
CHARGES = (
    PRELUDE
    + """
keeper = Accountant(address, data_set="survey")
print("ready", flush=True)
sys.stdin.readline()
granted = refused = 0
for number in range(200):
    try:
        keeper.authorize(charge(f"{name} {number}", "0.001"), rows=3, columns=["a"])
        granted += 1
    except BudgetExceeded:
        refused += 1
print(granted, refused)
"""
)
GRANT_RACE = (
    PRELUDE
    + """
print("ready", flush=True)
sys.stdin.readline()
keeper = Accountant.grant(
    address, data_set="survey", budget=Budget.of("1", "1e-5"), unit=PrivacyUnit(rows_per_person=1)
)
print(keeper.granted)
"""
)
#: A process that dies at one point of a release: what it does, and how it is left.
DEATHS = {
    "before the charge is committed": (
        """
keeper = Accountant(address, data_set="survey")
with keeper.ledger.transaction() as transaction:
    transaction.append("survey", "table", TableFacts(rows=3, columns=("a",)))
    transaction.append("survey", "charge", charge("k", "0.1"), release_key="k")
    die()
""",
        [],
    ),
    "after the charge": (
        """
keeper = Accountant(address, data_set="survey")
keeper.authorize(charge("k", "0.1"), rows=3, columns=["a"])
die()
""",
        ["table", "charge"],
    ),
    "before started is committed": (
        """
keeper = Accountant(address, data_set="survey")
granted = keeper.authorize(charge("k", "0.1"), rows=3, columns=["a"])
from accountant.entries import Started
with keeper.ledger.transaction() as transaction:
    transaction.append("survey", "started", Started(), release_key="k")
    die()
""",
        ["table", "charge"],
    ),
    "after started": (
        """
keeper = Accountant(address, data_set="survey")
keeper.start(keeper.authorize(charge("k", "0.1"), rows=3, columns=["a"]))
die()
""",
        ["table", "charge", "started"],
    ),
    "before the release is committed": (
        """
keeper = Accountant(address, data_set="survey")
granted = keeper.authorize(charge("k", "0.1"), rows=3, columns=["a"])
keeper.start(granted)
with keeper.ledger.transaction() as transaction:
    transaction.append("survey", "release", {"value": 1}, release_key="k")
    die()
""",
        ["table", "charge", "started"],
    ),
    "after the release": (
        """
keeper = Accountant(address, data_set="survey")
granted = keeper.authorize(charge("k", "0.1"), rows=3, columns=["a"])
keeper.start(granted)
keeper.store(granted, {"value": 1})
die()
""",
        ["table", "charge", "started", "release"],
    ),
}
KILLED_IN_A_LARGE_TRANSACTION = (
    PRELUDE
    + """
keeper = Accountant(address, data_set="survey")
with keeper.ledger.transaction() as transaction:
    transaction._connection.exec_driver_sql("PRAGMA cache_size = 1")
    for number in range(50):
        transaction.append("survey", "rejection", {"actor": "", "reason": "x" * 4000})
    print("written", flush=True)
    sys.stdin.readline()
    die()
"""
)
UNIT = PrivacyUnit(rows_per_person=1)


def grant(address: str | Path, epsilon: str = "1", delta: str = "1e-5") -> Accountant:
    return Accountant.grant(address, data_set="survey", budget=Budget.of(epsilon, delta), unit=UNIT)


def charge(key: str, epsilon: str = "0.1") -> Charge:
    budget = Budget.of(epsilon, "1e-6")
    return Charge(release_key=key, plan_hash="f00", unit=UNIT, budget=budget, stages=())


def launch(script: str, address: object, name: str = "") -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", script, str(address), name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def run_to_its_death(script: str, address: object) -> None:
    killed = launch(script, address)
    killed.communicate(timeout=60)
    assert killed.returncode == -signal.SIGKILL


def race(script: str, address: object, runners: int = 2) -> list[str]:
    """Start all, wait until all are ready, let go, and return what each printed."""
    started = [launch(script, address, f"runner {number}") for number in range(runners)]
    for process in started:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in started:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    answers = [process.communicate(timeout=300)[0].strip() for process in started]
    assert [process.returncode for process in started] == [0] * runners
    return answers


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.mark.parametrize("_again", range(3))
def test_two_processes_race_for_the_last_tenth_and_one_wins(address: str, _again: int) -> None:
    keeper = grant(address, epsilon="0.1")
    assert sorted(race(RACE, address)) == ["refused", "released"]
    kinds = sorted(entry.kind for entry in keeper.entries())
    assert kinds == ["charge", "grant", "refusal", "release", "started", "table"]
    assert keeper.spent() == Budget.of("0.1", "1e-6")
    assert verify(keeper.ledger.entries()) == []


def test_four_processes_with_room_for_all_are_all_served(address: str) -> None:
    keeper = grant(address, epsilon="0.4")
    assert race(RACE, address, runners=4) == ["released"] * 4
    assert keeper.remaining() == Budget.of(0, "6e-6")
    assert verify(keeper.ledger.entries()) == []


def test_eight_processes_of_200_charges_are_granted_1000_and_refused_600(address: str) -> None:
    keeper = grant(address, delta="0.5")
    counts = [tuple(map(int, answer.split())) for answer in race(CHARGES, address, runners=8)]
    assert (sum(count[0] for count in counts), sum(count[1] for count in counts)) == (1000, 600)
    assert keeper.spent() == Budget.of("1", "0.001")
    assert keeper.remaining().epsilon == 0
    kinds = [entry.kind for entry in keeper.entries()]
    assert (kinds.count("charge"), kinds.count("refusal")) == (1000, 600)
    assert verify(keeper.ledger.entries()) == []


@pytest.mark.parametrize("_again", range(2))
def test_two_processes_create_one_ledger_with_one_grant(address: str, _again: int) -> None:
    assert race(GRANT_RACE, address) == ["epsilon 1 and delta 1e-5"] * 2
    assert [entry.kind for entry in Ledger(address).entries()] == ["grant"]
    if "://" not in address:
        assert [file.name for file in Path(address).parent.iterdir()] == ["ledger.db"]


@pytest.mark.parametrize("death", DEATHS)
def test_a_process_that_dies_leaves_a_sound_ledger_and_whatever_may_have_looked_is_charged(
    address: str, death: str
) -> None:
    script, left = DEATHS[death]
    grant(address)
    run_to_its_death(PRELUDE + script, address)
    keeper = Accountant(address, data_set="survey")
    entries = keeper.ledger.entries()
    assert [entry.kind for entry in entries] == ["grant", *left]
    assert verify(entries) == []
    paid = "0.1" if "charge" in left else "0"
    assert keeper.spent().epsilon == Budget.of(paid, 0).epsilon
    again = keeper.authorize(charge("k"), rows=3, columns=["a"])
    if "release" in left:
        assert isinstance(again, StoredRelease)
        assert again.release == {"value": 1}
    else:
        assert isinstance(again, Authorization)
        assert again.release_key == ("k#2" if "charge" in left else "k")
    assert verify(keeper.ledger.entries()) == []


def test_a_charge_whose_process_died_before_it_started_is_voided(address: str) -> None:
    grant(address)
    run_to_its_death(PRELUDE + DEATHS["after the charge"][0], address)
    keeper = Accountant(address, data_set="survey")
    keeper.void("k", "its process was killed")
    assert keeper.spent() == Budget.of(0, 0)
    assert verify(keeper.ledger.entries()) == []


def test_a_process_killed_in_a_large_transaction_is_undone_from_the_journal(path: Path) -> None:
    keeper = grant(path)
    before = keeper.ledger.entries()
    killed = launch(KILLED_IN_A_LARGE_TRANSACTION, path)
    killed.communicate("go\n", timeout=60)
    assert killed.returncode == -signal.SIGKILL
    journal = path.with_name(path.name + "-journal")
    assert journal.exists()  # the transaction had reached the disk and must be undone
    assert before == Ledger(path).entries()
    assert not journal.exists()
    keeper.reject("no rows")
    assert verify(keeper.ledger.entries()) == []


def test_a_copy_made_within_a_transaction_opens_as_it_was_or_is_refused(
    path: Path, tmp_path: Path
) -> None:
    before = grant(path).ledger.entries()
    writer = launch(KILLED_IN_A_LARGE_TRANSACTION, path)
    assert writer.stdout is not None
    assert writer.stdout.readline() == "written\n"
    whole, alone = tmp_path / "whole.db", tmp_path / "alone.db"
    copyfile(path, whole)
    copyfile(f"{path}-journal", f"{whole}-journal")
    copyfile(path, alone)
    writer.communicate("go\n", timeout=60)
    assert before == Ledger(whole).entries()  # with its journal it is undone
    Ledger(whole).check_storage()
    with suppress(LedgerUnreadable):
        Ledger(alone).check_storage()
        entries = Ledger(alone).entries()
        assert entries == before or verify(entries) != []
    assert before == Ledger(path).entries()


@contextmanager
def full_disk(keeper: Accountant, path: Path) -> Iterator[None]:
    """The kernel lets the file grow no more, and the room within it is used up."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size, hard))
    try:
        with suppress(LedgerUnreadable):
            while True:
                keeper.reject("x")
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, ignored)


@pytest.mark.parametrize("step", ["charge", "started", "release"])
def test_a_full_disk_stops_a_release_at_the_step_that_is_not_durable(path: Path, step: str) -> None:
    keeper, long = grant(path), charge("k" * 190)  # larger than the room that is left

    def authorize() -> Authorization:
        granted = keeper.authorize(long, rows=3, columns=["a"])
        assert isinstance(granted, Authorization)
        return granted

    act: Callable[[], object] = authorize
    if step != "charge":
        granted = authorize()
        act = partial(keeper.start, granted)
        if step == "release":
            keeper.start(granted)
            act = partial(keeper.store, granted, {"value": "x" * 5000})
    with full_disk(keeper, path):
        before = keeper.ledger.entries()
        with pytest.raises(LedgerUnreadable, match="the disk"):
            act()
        assert before == keeper.ledger.entries()
    assert verify(keeper.ledger.entries()) == []
    assert keeper.spent() == Budget.of(*(("0", "0") if step == "charge" else ("0.1", "1e-6")))
    act()
    assert keeper.ledger.entries()[-1].kind == step


@pytest.mark.parametrize("mode", [0o444, 0o000])
def test_a_file_that_cannot_be_written_stops_a_release_before_it_measures(mode: int) -> None:
    """Without the rights of an administrator, who may write everywhere."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        path = Path(folder) / "ledger.db"
        keeper = grant(path)
        granted = keeper.authorize(charge("k"), rows=3, columns=["a"])
        assert isinstance(granted, Authorization)
        before = keeper.ledger.entries()
        path.chmod(mode)
        with as_somebody(), pytest.raises(LedgerUnreadable, match="it cannot be"):
            keeper.start(granted)
        path.chmod(0o644)
        assert before == keeper.ledger.entries()


def test_postgresql_killed_at_once_keeps_what_it_promised(own_postgresql: PostgresqlServer) -> None:
    keeper = grant(own_postgresql.url)
    granted = keeper.authorize(charge("k"), rows=3, columns=["a"])
    assert isinstance(granted, Authorization)
    own_postgresql.kill()
    with pytest.raises(LedgerUnreadable, match="ledger must be a usable ledger; got postgresql"):
        keeper.start(granted)
    own_postgresql.start()
    assert [entry.kind for entry in keeper.entries()] == ["grant", "table", "charge"]
    keeper.start(granted)
    assert keeper.spent() == Budget.of("0.1", "1e-6")
    assert verify(keeper.ledger.entries()) == []


def test_postgresql_killed_within_a_transaction_forgets_it(
    own_postgresql: PostgresqlServer,
) -> None:
    keeper = grant(own_postgresql.url)

    def write_and_lose() -> None:
        with keeper.ledger.transaction() as transaction:
            transaction.append("survey", "rejection", Rejection(reason="lost", actor=""))
            own_postgresql.kill()

    with pytest.raises(LedgerUnreadable):
        write_and_lose()
    own_postgresql.start()
    assert [entry.kind for entry in keeper.entries()] == ["grant"]


def test_a_fork_uses_connections_of_its_own(address: str) -> None:
    keeper = grant(address)
    keeper.reject("before")
    child = os.fork()
    if child == 0:
        try:
            keeper.reject("child")
            os._exit(0)
        finally:
            os._exit(1)
    keeper.reject("parent")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    reasons = [entry.document().get("reason") for entry in keeper.entries()[1:]]
    assert sorted(map(str, reasons)) == ["before", "child", "parent"]
    assert verify(keeper.ledger.entries()) == []


def test_a_ledger_switched_to_a_write_ahead_log_stays_sound(path: Path) -> None:
    keeper = grant(path)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode = WAL").fetchone() == ("wal",)
    keeper.reject("no rows")
    assert verify(Ledger(path).entries()) == []
