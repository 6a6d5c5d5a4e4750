"""Runs in turn on all cores until their time is up, so that no point is left far behind."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from typing import Any, Protocol, TypeVar

CORES = os.cpu_count() or 1


class Repeated(Protocol):
    """Something to be run a number of times."""

    @property
    def runs(self) -> int:
        """How many times, if the time allows."""
        ...


Point = TypeVar("Point", bound=Repeated)
Result = dict[str, Any]


def all_cores() -> ProcessPoolExecutor:
    """A process for each core; OpenDP and its threads would not survive a fork."""
    return ProcessPoolExecutor(CORES, mp_context=multiprocessing.get_context("spawn"))


def carry_out(
    one_run: Callable[[Point, int], Result],
    points: Sequence[Point],
    *,
    seconds: float,
    pool: Executor,
) -> list[list[Result]]:
    """The results of each point, in the order of its runs.

    First one run of each point, then the points in proportion to their numbers of runs. None is
    begun after so many seconds, and none of a point that had a problem.
    """
    deadline = time.monotonic() + seconds
    turns = sorted(
        (run > 0, (run + 0.5) / point.runs, number, run)
        for number, point in enumerate(points)
        for run in range(point.runs)
    )
    results: list[dict[int, Result]] = [{} for _ in points]
    stopped: set[int] = set()
    pending: dict[Future[Result], tuple[int, int]] = {}

    def collect(least: int) -> None:
        while len(pending) > least:
            done, _ = wait(pending, return_when=FIRST_COMPLETED)
            for future in done:
                number, run = pending.pop(future)
                results[number][run] = future.result()
                if "problem" in results[number][run]:
                    stopped.add(number)

    for *_, number, run in turns:
        if time.monotonic() >= deadline:
            break
        if number not in stopped:
            pending[pool.submit(one_run, points[number], run)] = number, run
            collect(least=2 * CORES - 1)
    collect(least=0)
    return [[runs[run] for run in sorted(runs)] for runs in results]
