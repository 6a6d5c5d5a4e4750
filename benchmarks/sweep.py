"""How time and memory grow with rows, columns and components: one process after the other."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from benchmarks.schedule import Result
from benchmarks.speed import Size, child
from benchmarks.summary import short


@dataclass(frozen=True)
class Sweep:
    """One size, and the values that each of its three numbers takes while the others stay."""

    releases: tuple[str, ...]

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    components: tuple[int, ...]
    middle: tuple[int, int, int]
    repeat: int

    def sizes(self) -> list[Size]:
        """From the smallest table, each once and of every release."""
        rows, columns, components = self.middle
        shapes = {(n, columns, components) for n in self.rows}
        shapes |= {(rows, p, min(p, components)) for p in self.columns}
        shapes |= {(rows, columns, k) for k in self.components}
        by_cells = sorted(shapes, key=lambda shape: (shape[0] * shape[1], shape))
        return [Size(release, *shape) for shape in by_cells for release in self.releases]


def measure(sweep: Sweep, *, seconds: float) -> Result:
    """The middle, and a record for each size that was reached; every size once, then again."""
    deadline = time.monotonic() + seconds
    runs: dict[Size, list[dict[str, float]]] = {}
    for size in sweep.repeat * sweep.sizes():
        if time.monotonic() >= deadline:
            break
        runs.setdefault(size, []).append(child(size))
    records = [_record(size, found) for size, found in runs.items()]
    return {"middle": Size("", *sweep.middle)._asdict(), "records": records}


def _record(size: Size, runs: list[dict[str, float]]) -> Result:
    above = max(run["peak"] for run in runs) - _empty_peak(size.release)
    seconds = statistics.median(run["run"] for run in runs)
    return {
        **size._asdict(),
        "runs": len(runs),
        "seconds": short(seconds),
        "mebibytes": short(above),
    }


@cache
def _empty_peak(release: str) -> float:
    return child(Size(release, rows=100, columns=5, components=1))["peak"]


def line_of(measured: Result, along: str, release: str) -> list[Result]:
    """The records of a release that differ from the middle in one number at most, in order."""
    others = {"rows", "columns", "components"} - {along}
    middle = measured["middle"]
    line = [
        record
        for record in measured["records"]
        if record["release"] == release and all(record[each] == middle[each] for each in others)
    ]
    return sorted(line, key=lambda record: record[along])


def exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """The slope of a straight line through the logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
