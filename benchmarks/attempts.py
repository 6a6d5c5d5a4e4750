"""One competitor on one table at one budget: our whole plans, our methods alone, and the peers.

The peers release directions and eigenvalues at once, so they meet plans of ours that pay for both.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from benchmarks.contenders import (
    CONTENDERS,
    contender,
    eigenvalues,
    plan_along,
    released,
    whole_plan,
)
from benchmarks.environments import DIFFPRIVLIB, OPENDP, Library, PeerFailed
from benchmarks.schedule import Result, carry_out
from benchmarks.sources import Task, task
from benchmarks.summary import mean, root_mean_square, short
from dppca_odp.releases import ReleasedDirections, ReleasedScree
from dppca_odp.values import Floats


@dataclass(frozen=True)
class Attempt:
    """A competitor, and where it competes."""

    source: str
    rows: int
    columns: int
    components: int
    epsilon: str
    competitor: str
    form: str
    """"along" the true directions, or "whole": directions too."""
    runs: int
    limit: float
    """Processor seconds that one fit of a peer may take."""


@dataclass(frozen=True)
class Peer:
    """A library with what it is told about the table."""

    name: str
    library: Library
    told: Callable[[Task], dict[str, float | None]]
    needs: str


def _largest_norm(given: Task) -> float:
    """Read off the table, to the peer's advantage: that is not private."""
    return float(np.linalg.norm(given.table, axis=1).max())


PEERS = (
    Peer(
        "OpenDP, norm in hindsight",
        OPENDP,
        lambda given: {"row_norm": _largest_norm(given)},
        "the largest row norm; told the table's own",
    ),
    Peer(
        "OpenDP, public norm",
        OPENDP,
        lambda given: {"row_norm": given.row_norm},
        "the same; told a round number",
    ),
    Peer(
        "diffprivlib, norm in hindsight",
        DIFFPRIVLIB,
        lambda given: {"row_norm": _largest_norm(given), "column_bound": None},
        "the centre and the largest row norm around it; told the true centre, and the table's own "
        "norm",
    ),
    Peer(
        "diffprivlib, public norm",
        DIFFPRIVLIB,
        lambda given: {"row_norm": given.row_norm, "column_bound": given.row_norm},
        "the largest row norm and bounds of every column; told a round number for both; half of "
        "epsilon finds the centre",
    ),
)
BY_NAME = {peer.name: peer for peer in PEERS}
#: A peer on a real table: no round bound is known there.
IN_HINDSIGHT = tuple(peer.name for peer in PEERS if "hindsight" in peer.name)


def everyone(peers: Sequence[str] = tuple(BY_NAME)) -> list[str]:
    """All who release directions and eigenvalues: our methods, then these peers."""
    return [each.name for each in CONTENDERS] + list(peers)


def measure(attempts: Sequence[Attempt], *, seconds: float, pool: Executor) -> list[Result]:
    """A record for each attempt that was reached: its errors, or why there are none."""
    runs = carry_out(one_run, attempts, seconds=seconds, pool=pool)
    return [
        {**asdict(attempt), **_summary(results)}
        for attempt, results in zip(attempts, runs, strict=True)
        if results
    ]


def one_run(attempt: Attempt, run: int) -> Result:
    """The squared error of the eigenvalues, the sine of the leading direction's, CPU seconds."""
    try:
        given = task(
            attempt.source,
            rows=attempt.rows,
            columns=attempt.columns,
            components=attempt.components,
            run=run,
        )
        if attempt.form == "along":
            answer = _along(attempt, given)
        elif attempt.competitor in BY_NAME:
            answer = _peer(attempt, given)
        else:
            answer = _whole(attempt, given)
    except PeerFailed as failure:
        return {"problem": str(failure)}
    error = (answer["values"] - given.eigenvalues[: attempt.components]) / given.size
    cosine = min(1.0, abs(float(answer["leading"] @ given.directions[:, 0])))
    return {
        "square": float((error**2).sum()),
        "sine": (1 - cosine**2) ** 0.5,
        "seconds": answer["seconds"],
    }


def _along(attempt: Attempt, given: Task) -> dict[str, Any]:
    directions = given.directions[:, : attempt.components]
    method = contender(attempt.competitor).method(given.known)
    plan = plan_along(directions, method, epsilon=attempt.epsilon, delta=given.delta)
    start = time.process_time()
    values, _ = eigenvalues(plan, given.table)
    return {
        "values": values,
        "leading": directions[:, 0],
        "seconds": time.process_time() - start,
    }


def _whole(attempt: Attempt, given: Task) -> dict[str, Any]:
    plan = whole_plan(
        given.table.shape[1],
        attempt.components,
        contender(attempt.competitor).method(given.known),
        epsilon=attempt.epsilon,
        delta=given.delta,
    )
    start = time.process_time()
    results = released(plan, given.table)
    seconds = time.process_time() - start
    directions, scree = results["directions"], results["scree"]
    assert isinstance(directions, ReleasedDirections)
    assert isinstance(scree, ReleasedScree)
    leading: Floats = np.array(directions.vectors)[:, 0]
    return {"values": np.array(scree.values), "leading": leading, "seconds": seconds}


def _peer(attempt: Attempt, given: Task) -> dict[str, Any]:
    peer = BY_NAME[attempt.competitor]
    settings = peer.told(given) | {
        "epsilon": float(attempt.epsilon),
        "components": attempt.components,
    }
    answer = peer.library.fit(given.table, settings, attempt.limit)
    return answer | {"values": np.array(answer["values"]), "leading": np.array(answer["leading"])}


def _summary(results: list[Result]) -> Result:
    done = [result for result in results if "problem" not in result]
    problems = [result["problem"] for result in results if "problem" in result]
    summary: Result = {"done": len(done), "problem": problems[0] if problems else None}
    if done:
        summary |= {
            "eigenvalues": root_mean_square([result["square"] for result in done]),
            "sine": mean([result["sine"] for result in done]),
            "cpu": short(float(np.median([result["seconds"] for result in done]))),
        }
    return summary
