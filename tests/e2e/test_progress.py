"""The display of runs on a real terminal and in a real pipe: when it is there, and when not."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from accountant import Accountant, Budget, Ledger, PrivacyUnit, verify
from dppca_odp import Directions, Plan

ROWS = 4 * 4096
PLAN = Plan(
    budget=Budget.of("1", "1e-7"),
    unit=PrivacyUnit(rows_per_person=1),
    columns=("a", "b"),
    releases=(
        Directions(name="axes [red]", components=2),
        Directions(name="again", components=1),
    ),
)
#: A process that runs the plan with these keys and choices, one after the other; what lasts takes
#: 40 ms for each of the 32 differences of a pass.
PRELUDE = """
import sys, time
from accountant import Accountant
from dppca_odp import Plan, directions

quick = directions.integer_directions

def slow(differences):
    time.sleep(0.04)
    return quick(differences)

def run(key, progress=None, lasts=True):
    directions.integer_directions = slow if lasts else quick
    accountant = Accountant("ledger.db", data_set="visits")
    Plan.read("plan.json").run("visits.parquet", accountant, key, progress=progress)
    sys.stderr.write(f"<{key}>")
    sys.stderr.flush()
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    table = np.random.default_rng(5).normal(size=(ROWS, 2)) * [3, 1]
    pl.DataFrame(table, schema=["a", "b"]).write_parquet(tmp_path / "visits.parquet")
    (tmp_path / "plan.json").write_text(PLAN.model_dump_json(), encoding="utf-8")
    Accountant.grant(
        tmp_path / "ledger.db", data_set="visits", budget=Budget.of("3", "1e-6"), unit=PLAN.unit
    )
    return tmp_path


def start(place: Path, script: str, stderr: int) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", PRELUDE + script],
        cwd=place,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "100"},
        stdout=subprocess.PIPE,
        stderr=stderr,
    )


def on_terminal(place: Path, script: str, leave_at: bytes | None = None) -> bytes:
    """What runs write to a terminal that is their stderr; it may be closed at some words."""
    ours, theirs = pty.openpty()
    process = start(place, script, theirs)
    os.close(theirs)
    written = b""
    while leave_at is None or leave_at not in written:
        try:
            written += os.read(ours, 4096)
        except OSError:  # how Linux says that nobody has the terminal open any more
            break
    os.close(ours)
    assert process.communicate(timeout=120)[0] == b"done\n"
    return written


def releases_stored(place: Path) -> int:
    entries = Ledger(place / "ledger.db").entries()
    assert verify(entries) == []
    kinds = [entry.kind for entry in entries if entry.kind not in ("grant", "table")]
    assert kinds == ["charge", "started", "release"] * (len(kinds) // 3)
    return len(kinds) // 3


def test_a_terminal_shows_long_runs_alone_and_keeps_nothing(place: Path) -> None:
    short = 'run("short", lasts=False)'
    script = f'{short}; run("unwanted", progress=False); run("long"); print("done")'
    written = on_terminal(place, script)
    assert written.startswith(b"<short><unwanted>")
    for words in (b"axes [red] (1 of 2), pass 1", b"again (2 of 2), pass 1", b" of 4 blocks"):
        assert words in written
    assert written.endswith(b"\x1b[2K<long>")  # the line is erased
    assert releases_stored(place) == 3


def test_a_terminal_that_is_closed_costs_no_release(place: Path) -> None:
    script = """
try:
    run("left")
except OSError:  # when it writes its last words, to nobody
    print("done")
"""
    assert b"blocks of rows" in on_terminal(place, script, leave_at=b"blocks of rows")
    assert releases_stored(place) == 1


def test_a_pipe_shows_what_is_asked_for_alone(place: Path) -> None:
    script = """
run("silent")
from dppca_odp.__main__ import app
app(["run", "plan.json", "--data", "visits.parquet", "--ledger", "ledger.db", "--dataset",
     "visits", "--out", "out", "--progress"], standalone_mode=False)
"""
    written = start(place, script, subprocess.PIPE).communicate(timeout=120)[1]
    assert written.startswith(b"<silent>\x1b")
    assert b"axes [red] (1 of 2), pass 1" in written
    assert releases_stored(place) == 2
