"""The ledger under load: charges a second, a charge in a long ledger, a report, a verification.

Run: python benchmarks/ledger.py [--entries 1000000] [--postgresql ADDRESS]

Each figure is measured on the disk of the folder for temporary files. The address must be that of
an empty PostgreSQL database.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Literal

from sqlalchemy import insert

from accountant import (
    Accountant,
    Budget,
    Charge,
    Entry,
    GaussianLoss,
    PrivacyUnit,
    PureLoss,
    Stage,
)
from accountant.books import Book
from accountant.databases.schema import ENTRIES
from accountant.entries import Started, draft, seal
from accountant.specs import TableFacts

UNIT = PrivacyUnit(rows_per_person=1)
TINY = Budget.of("1e-9", "1e-12")
STAGES = (Stage(name="mean", budget=TINY, losses=(GaussianLoss(mu="0.001"),)),)
WORKER = """
import sys
from accountant import *
address, name = sys.argv[1:]
keeper = Accountant(address, data_set="race")
budget = Budget.of("0.001", "1e-9")
print("ready", flush=True)
sys.stdin.readline()
granted = 0
for number in range(200):
    try:
        keeper.authorize(Charge(release_key=f"{name} {number}", plan_hash="f00", unit=keeper.unit,
                                budget=budget, stages=()), rows=3, columns=["a"])
        granted += 1
    except BudgetExceeded:
        pass
print(granted)
"""


def charge(key: str) -> Charge:
    """A tiny charge."""
    return Charge(release_key=key, plan_hash="f00", unit=UNIT, budget=TINY, stages=STAGES)


def grant(address: str, data_set: str, rule: Literal["sum", "gaussian"] = "sum") -> Accountant:
    """A grant of (1, 1e-3)."""
    budget = Budget.of("1", "1e-3")
    return Accountant.grant(address, data_set=data_set, budget=budget, unit=UNIT, rule=rule)


def one_process(address: str, charges: int = 300) -> float:
    """Charges a second by one process."""
    keeper = grant(address, "one")
    keeper.authorize(charge("first"), rows=3, columns=["a"])
    start = time.perf_counter()
    for number in range(charges):
        keeper.authorize(charge(f"k{number}"), rows=3, columns=["a"])
    return charges / (time.perf_counter() - start)


def eight_processes(address: str) -> float:
    """Requests a second by 8 processes of 200 each, for a grant that covers 1,000."""
    keeper = grant(address, "race")
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, address, f"w{number}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(8)
    ]
    for worker in workers:
        assert worker.stdout
        worker.stdout.readline()
    start = time.perf_counter()
    for worker in workers:
        assert worker.stdin
        worker.stdin.write("go\n")
        worker.stdin.flush()
    granted = sum(int(worker.communicate()[0]) for worker in workers)
    seconds = time.perf_counter() - start
    assert (granted, keeper.spent().epsilon) == (1000, 1)
    return 1600 / seconds


def commits(folder: Path, number: int = 100) -> float:
    """Durable writes of 4,096 bytes a second that this disk allows."""
    with (folder / "probe").open("wb") as file:
        start = time.perf_counter()
        for _ in range(number):
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())
        return number / (time.perf_counter() - start)


def history(last: Entry, entries: int) -> Iterator[Entry]:
    """So many entries that follow a grant: charges, each started and released."""
    book = Book("long")
    book.add(last)

    def follow(kind: str, body: object, key: str | None) -> Entry:
        nonlocal last
        made = draft(last, data_set="long", kind=kind, body=body, release_key=key)  # type: ignore[arg-type]
        problem = book.add(made)
        assert problem is None, problem
        last = seal(made, book.balance_text(None))
        return last

    yield follow("table", TableFacts(rows=3, columns=("a",)), None)
    for number in range((entries - 2) // 3):
        key = f"key {number}"
        yield follow("charge", charge(key), key)
        yield follow("started", Started(), key)
        yield follow("release", {"value": number}, key)


def write_long(address: str, entries: int) -> Accountant:
    """A ledger of so many entries, written at once and not by so many commits."""
    keeper = grant(address, "long")
    with keeper.ledger.transaction() as transaction:
        last = transaction.last()
        assert last
        batch: list[dict[str, object]] = []
        for entry in history(last, entries):
            batch.append(entry.fields())
            if len(batch) == 5000:
                transaction._connection.execute(insert(ENTRIES), batch)
                batch.clear()
        if batch:
            transaction._connection.execute(insert(ENTRIES), batch)
    return keeper


def median_ms(act: object, times: int = 100) -> float:
    """Milliseconds of one call in the middle."""
    seconds = []
    for number in range(times):
        start = time.perf_counter()
        act(number)  # type: ignore[operator]
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds) * 1000


def one_charge(address: str) -> tuple[float, float, float]:
    """Milliseconds to open, to charge, and of the processor within a charge."""
    opened = median_ms(lambda _: Accountant(address, data_set="long"))
    keeper = Accountant(address, data_set="long")
    started = time.process_time()
    charged = median_ms(lambda n: keeper.authorize(charge(f"new {n}"), rows=3, columns=["a"]))
    return opened, charged, (time.process_time() - started) * 10


def by_rule(address: str, rule: Literal["sum", "gaussian"], times: int = 200) -> float:
    """Milliseconds of the program, without the system's, in a charge of losses not met before."""
    keeper = grant(address, rule, rule)
    charges = []
    for number in range(times):
        losses = PureLoss(epsilon=Fraction(number + 1, 10**9)), GaussianLoss(mu="0.0001")
        stage = Stage(name="mean", budget=TINY, losses=losses)
        charges.append(charge(f"{rule} {number}").model_copy(update={"stages": (stage,)}))
    keeper.authorize(charge("first"), rows=3, columns=["a"])
    started = os.times().user
    for one in charges:
        keeper.authorize(one, rows=3, columns=["a"])
    return (os.times().user - started) / times * 1000


def seconds_of(*command: str) -> float:
    """Seconds of a command of the script, start and imports included."""
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "accountant", *command], check=True, stdout=subprocess.DEVNULL
    )
    return time.perf_counter() - start


def squares() -> float:
    """Seconds of ten million squares: what to compare the speed of machines by."""
    start = time.process_time()
    sum(number * number for number in range(10**7))
    return time.process_time() - start


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--postgresql")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print(f"ten million squares: {squares():.2f} s of the processor")
        print(f"durable writes that the disk allows: {commits(folder):.0f} a second")
        places = {"SQLite": str(folder / "ledger.db")}
        if arguments.postgresql:
            places["PostgreSQL"] = arguments.postgresql
        for title, address in places.items():
            print(
                f"{title}: {one_process(address):.0f} charges a second by one process, "
                f"{eight_processes(address):.0f} requests a second by eight"
            )
        rules = [
            f"{rule} {by_rule(str(folder / 'rules.db'), rule):.1f} ms"
            for rule in ("sum", "gaussian")
        ]
        print(f"a charge besides the disk, by rule: {', '.join(rules)}")
        for entries in sorted({1000, 10_000, arguments.entries}):
            path = str(folder / f"{entries}.db")
            write_long(path, entries)
            opened, charged, processor = one_charge(path)
            print(
                f"{entries:9,} entries: open {opened:.1f} ms, charge {charged:.1f} ms "
                f"({processor:.1f} ms of it the processor)"
            )
            if entries <= 10_000:
                reports = [
                    f"{form} {seconds_of('report', path, '--format', form):.2f} s"
                    for form in ("text", "html", "json")
                ]
                print(f"          report: {', '.join(reports)}")
            print(f"          verify: {seconds_of('verify', path):.2f} s")


if __name__ == "__main__":
    main()
