"""Time and memory of the whole path: releases of a plan, charged to a ledger; counting.

Usage: python -m benchmarks.speed [--release WHAT] [--rows N] [--columns P] [--components K]

Each run is a process of its own. Memory is the peak of the process above that of the same
process on a table of 100 rows, so that imports do not count; it includes the table itself.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]


class Size(NamedTuple):
    """What is released from a table of which size."""

    release: str
    """"directions", a method along given directions, or "directions+" and a method."""
    rows: int
    columns: int
    components: int


def main() -> None:
    """Run one size in processes of its own and print a table."""
    options = arguments()
    size = Size(options.release, options.rows, options.columns, options.components)
    if options.child:
        print(json.dumps(one_run(size)))
        return
    runs = [child(size) for _ in range(options.repeat)]
    table = size.rows * size.columns * 8 / 2**20
    above = max(run["peak"] for run in runs) - child(size._replace(rows=100))["peak"]
    print(f"{size.rows} rows by {size.columns} columns, k = {size.components}")
    for step, title in (("preview", "plan and price"), ("run", size.release)):
        times = [run[step] for run in runs]
        middle = statistics.median(times)
        print(f"  {title:20s} {middle:6.2f} s (of {len(times)}: {max(times):.2f})")
    print(f"  table {table:8.1f} MiB; peak above an empty run {above:.1f} MiB")
    print(f"  that is {above / table:.2f} tables")
    print(f"1000000 points into 64 x 64 cells: {counting():.3f} s (median of 5)")


def one_run(size: Size) -> dict[str, float]:
    """Seconds for a plan's preview and its run, and the peak memory in MiB."""
    import numpy as np

    from accountant import Accountant
    from benchmarks.contenders import columns, contender
    from benchmarks.families import Known
    from dppca_odp import Budget, Directions, Plan, PrivacyUnit, Scree

    unit = PrivacyUnit(rows_per_person=1)
    first, _, second = size.release.partition("+")
    releases: list[Directions | Scree] = []
    along: object = np.eye(size.columns, size.components).tolist()
    if first == "directions":
        releases.append(Directions(name="directions", components=size.components))
        along = "directions"
    if method := second or (first != "directions" and first):
        chosen = contender(method).method(Known(largest=10))
        releases.append(Scree(name="scree", directions=along, method=chosen))  # type: ignore[arg-type]
    plan = Plan(
        budget=Budget.of("2", "1e-6"),
        unit=unit,
        columns=columns(size.columns),
        releases=tuple(releases),
    )
    table = np.random.default_rng(1).normal(size=(size.rows, size.columns))
    table *= np.sqrt(np.linspace(10, 1, size.columns))
    with tempfile.TemporaryDirectory() as folder:
        accountant = Accountant.grant(
            Path(folder) / "ledger.db", data_set="speed", budget=plan.whole, unit=unit
        )
        start = time.perf_counter()
        plan.preview(size.rows)
        planned = time.perf_counter()
        plan.run(table, accountant)
        done = time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    return {"preview": planned - start, "run": done - planned, "peak": peak}


def counting() -> float:
    """Seconds to count a million points on a public frame."""
    import numpy as np

    from dppca_odp import Cells, Frame

    cells = Cells(frame=Frame(x_low=-4, x_high=4, y_low=-4, y_high=4), bins=(64, 64))
    points = np.random.default_rng().normal(size=(1_000_000, 2))
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        cells.counts(points)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def child(size: Size) -> dict[str, float]:
    """One run in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.speed", "--child", "--release", size.release]
    for name, number in zip(("rows", "columns", "components"), size[1:], strict=True):
        command += [f"--{name}", str(number)]
    run = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    measured: dict[str, float] = json.loads(run.stdout)
    return measured


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--release", default="directions+pmwm")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--components", type=int, default=5)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
