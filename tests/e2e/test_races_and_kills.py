import signal
import subprocess
import sys
from pathlib import Path

import pytest

from accountant import Accountant, Budget, Ledger, PrivacyUnit, verify

PRELUDE = """
import os, signal, sys
from accountant import Accountant, Budget, BudgetExceeded, Charge, PrivacyUnit

path, name = sys.argv[1:]

def charge(key, epsilon):
    budget = Budget.of(epsilon, "1e-6")
    return Charge(release_key=key, plan_hash="f00", unit=PrivacyUnit(rows_per_person=1),
                  budget=budget, stages=())
"""
RACE = (
    PRELUDE
    + """
keeper = Accountant(path, data_set="survey")
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
GRANT_RACE = (
    PRELUDE
    + """
print("ready", flush=True)
sys.stdin.readline()
keeper = Accountant.grant(
    path, data_set="survey", budget=Budget.of("1", "1e-5"), unit=PrivacyUnit(rows_per_person=1)
)
print(keeper.granted)
"""
)
KILLED_AFTER_STARTED = (
    PRELUDE
    + """
keeper = Accountant(path, data_set="survey")
keeper.start(keeper.authorize(charge("k", "0.1"), rows=3, columns=["a"]))
os.kill(os.getpid(), signal.SIGKILL)
"""
)
KILLED_IN_A_TRANSACTION = (
    PRELUDE
    + """
keeper = Accountant(path, data_set="survey")
with keeper.ledger.transaction() as transaction:
    for number in range(2000):
        transaction._connection.exec_driver_sql("PRAGMA cache_size = 1")
        transaction.append("survey", "rejection", {"actor": "", "reason": "x" * 4000})
        if number == 50:
            os.kill(os.getpid(), signal.SIGKILL)
"""
)
TERMS = {"data_set": "survey", "unit": PrivacyUnit(rows_per_person=1)}


def launch(script: str, path: Path, name: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", script, str(path), name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def race(script: str, path: Path, runners: int = 2) -> list[str]:
    """Start all, wait until all are ready, let go, and return what each printed."""
    started = [launch(script, path, f"runner {number}") for number in range(runners)]
    for process in started:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in started:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    answers = [process.communicate(timeout=60)[0].strip() for process in started]
    assert [process.returncode for process in started] == [0] * runners
    return answers


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.mark.parametrize("_again", range(5))
def test_two_processes_race_for_the_last_tenth_and_one_wins(path: Path, _again: int) -> None:
    keeper = Accountant.grant(path, budget=Budget.of("0.1", "1e-5"), **TERMS)
    assert sorted(race(RACE, path)) == ["refused", "released"]
    kinds = sorted(entry.kind for entry in keeper.entries())
    assert kinds == ["charge", "grant", "refusal", "release", "started", "table"]
    assert keeper.spent() == Budget.of("0.1", "1e-6")
    assert verify(keeper.ledger.entries()) == []


def test_four_processes_with_room_for_all_are_all_served(path: Path) -> None:
    keeper = Accountant.grant(path, budget=Budget.of("0.4", "1e-5"), **TERMS)
    assert race(RACE, path, runners=4) == ["released"] * 4
    assert keeper.remaining() == Budget.of(0, "6e-6")
    assert verify(keeper.ledger.entries()) == []


@pytest.mark.parametrize("_again", range(3))
def test_two_processes_create_one_ledger_with_one_grant(path: Path, _again: int) -> None:
    assert race(GRANT_RACE, path) == ["epsilon 1 and delta 1e-5"] * 2
    assert [entry.kind for entry in Ledger(path).entries()] == ["grant"]
    assert [path.name] == [file.name for file in path.parent.iterdir()]


def test_a_process_killed_after_started_leaves_its_charge(path: Path) -> None:
    keeper = Accountant.grant(path, budget=Budget.of("1", "1e-5"), **TERMS)
    killed = launch(KILLED_AFTER_STARTED, path, "")
    killed.communicate(timeout=60)
    assert killed.returncode == -signal.SIGKILL
    assert verify(Ledger(path).entries()) == []
    reopened = Accountant(path, data_set="survey")
    assert reopened.spent() == keeper.spent() == Budget.of("0.1", "1e-6")
    assert [(line.key, line.state) for line in reopened.statement().releases] == [("k", "started")]


def test_a_process_killed_in_a_transaction_leaves_nothing(path: Path) -> None:
    keeper = Accountant.grant(path, budget=Budget.of("1", "1e-5"), **TERMS)
    before = keeper.ledger.entries()
    killed = launch(KILLED_IN_A_TRANSACTION, path, "")
    killed.communicate(timeout=60)
    assert killed.returncode == -signal.SIGKILL
    journal = path.with_name(path.name + "-journal")
    assert journal.exists()  # the transaction had reached the disk and must be undone
    assert before == Ledger(path).entries()
    assert not journal.exists()
    keeper.reject("no rows")
    assert verify(keeper.ledger.entries()) == []
