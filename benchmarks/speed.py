"""Time and memory of the whole path: directions and PMWM through a plan, with a ledger; counting.

Usage: python benchmarks/speed.py [--rows N] [--columns P] [--components K] [--repeat R]

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


def main() -> None:
    """Run each size in processes of its own and print a table."""
    options = arguments()
    if options.child:
        print(json.dumps(one_run(options.rows, options.columns, options.components)))
        return
    runs = [child(options, options.rows) for _ in range(options.repeat)]
    empty = child(options, 100)
    table = options.rows * options.columns * 8 / 2**20
    above = max(run["peak"] for run in runs) - empty["peak"]
    print(f"{options.rows} rows by {options.columns} columns, k = {options.components}")
    for step in ("plan and price", "directions and pmwm"):
        times = [run[step] for run in runs]
        print(f"  {step:20s} {statistics.median(times):6.2f} s (of {len(times)}: {max(times):.2f})")
    print(f"  table {table:8.1f} MiB; peak above an empty run {above:.1f} MiB")
    print(f"  that is {above / table:.2f} tables")
    print(f"1000000 points into 64 x 64 cells: {counting():.3f} s (median of 5)")


def one_run(rows: int, columns: int, components: int) -> dict[str, float]:
    """Seconds for a plan's preview and its run, and the peak memory in MiB."""
    import numpy as np

    from accountant import Accountant
    from dppca_odp import PMWM, Budget, Directions, Plan, PrivacyUnit, Scree

    unit = PrivacyUnit(rows_per_person=1)
    plan = Plan(
        budget=Budget.of("2", "1e-6"),
        unit=unit,
        columns=tuple(f"x{number}" for number in range(columns)),
        releases=(
            Directions(name="directions", components=components),
            Scree(
                name="pmwm",
                directions="directions",
                method=PMWM(lower_bound=0, upper_bound=100),
            ),
        ),
    )
    table = np.random.default_rng().normal(size=(rows, columns))
    table *= np.sqrt(np.linspace(10, 1, columns))
    with tempfile.TemporaryDirectory() as folder:
        accountant = Accountant.grant(
            Path(folder) / "ledger.db", data_set="speed", budget=plan.budget, unit=unit
        )
        start = time.perf_counter()
        plan.preview(rows)
        planned = time.perf_counter()
        plan.run(table, accountant)
        done = time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    return {"plan and price": planned - start, "directions and pmwm": done - planned, "peak": peak}


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


def child(options: argparse.Namespace, rows: int) -> dict[str, float]:
    """One run in a process of its own."""
    command = [sys.executable, __file__, "--child", "--rows", str(rows)]
    command += ["--columns", str(options.columns), "--components", str(options.components)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    measured: dict[str, float] = json.loads(printed)
    return measured


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--components", type=int, default=5)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
