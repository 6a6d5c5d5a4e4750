"""Time and memory, as the page shows them."""

from __future__ import annotations

from benchmarks.page.markdown import number, table
from benchmarks.summary import Record
from benchmarks.sweep import exponent, line_of

NUMBERS = ("rows", "columns", "components")


def speed(results: Record) -> str:
    """A table for each number that is varied, and how the time grows with rows."""
    measured = results["speed"]
    releases = list(dict.fromkeys(record["release"] for record in measured["records"]))
    tables = "\n".join(_varied(measured, along, releases) for along in NUMBERS)
    growth = [row for row in (_growth(measured, name) for name in releases) if row]
    head = ["release", "rows", "exponent of the time", "peak at most rows, in tables"]
    return f"""## Speed and memory

Seconds of one release, loading and charge in a ledger included, and peak memory above that of an
empty run, the table included. Each run is a process of its own, one after the other; seconds are
the median of the runs. Directions are released by themselves, and each method along given ones.

![Time and memory against rows, columns and components](images/benchmarks-speed.png)

{tables}
Seconds grow as a power of the number of rows, fitted over the last ten-fold; the peak is in sizes
of the table:

{table(head, growth)}"""


def _varied(measured: Record, along: str, releases: list[str]) -> str:
    lines = {
        name: {record[along]: record for record in line_of(measured, along, name)}
        for name in releases
    }
    sizes = sorted({size for line in lines.values() for size in line})
    rows = [[f"{size:,}", *(_cell(lines[name].get(size)) for name in releases)] for size in sizes]
    others = [f"{measured['middle'][each]:,} {each}" for each in NUMBERS if each != along]
    head = [along, *(f"`{name}`" if name != "directions" else name for name in releases)]
    return f"By {along}, at {' and '.join(others)}:\n\n{table(head, rows)}"


def _cell(record: Record | None) -> str:
    if record is None:
        return "not reached"
    memory = f"{record['mebibytes']:,.0f}" if record["mebibytes"] >= 1 else "<1"
    return f"{number(record['seconds'], digits=2)} s, {memory} MiB"


def _growth(measured: Record, name: str) -> list[str]:
    line = line_of(measured, "rows", name)
    line = [record for record in line if record["rows"] >= line[-1]["rows"] / 10]
    if len(line) < 2:
        return []
    sizes = [record["rows"] for record in line]
    slope = exponent(sizes, [record["seconds"] for record in line])
    whole_table = sizes[-1] * measured["middle"]["columns"] * 8 / 2**20
    peak = line[-1]["mebibytes"] / whole_table
    return [name, f"{sizes[0]:,} to {sizes[-1]:,}", f"{slope:.2f}", f"{peak:.1f}"]
