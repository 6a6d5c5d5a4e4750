"""Errors of eigenvalues along the true directions, at one budget and on the same tables."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.contenders import CONTENDERS, eigenvalues, plan_along
from benchmarks.families import FAMILIES
from benchmarks.hindsight import GRID, Oracle
from benchmarks.schedule import Result, carry_out
from benchmarks.summary import root_mean_square, short
from dppca_odp.values import Floats


@dataclass(frozen=True)
class Point:
    """A law, a size and some budgets: all of them meet the same tables."""

    family: str
    rows: int
    components: int
    epsilons: tuple[str, ...]
    runs: int


def measure(points: Sequence[Point], *, seconds: float, pool: Executor) -> list[Result]:
    """A record for each point and epsilon that was reached."""
    runs = carry_out(one_run, points, seconds=seconds, pool=pool)
    return [
        _record(point, epsilon, results)
        for point, results in zip(points, runs, strict=True)
        for epsilon in point.epsilons
        if results
    ]


def one_run(point: Point, run: int) -> Result:
    """The squared errors of everything on one table; new noise for each epsilon."""
    family = FAMILIES[point.family]
    truth = family.eigenvalues(point.components)
    table = family.table(point.rows, point.components, run)
    rng = family.generator(point.rows, point.components, run, of="hindsight")

    def square(values: Floats) -> Any:
        error = (values - truth) / (truth if family.relative else 1)
        return (error**2).sum(axis=-1)

    oracle = Oracle.of(table, truth.max(), rng)
    directions = np.eye(point.components)
    found: Result = {"none": float(square(table.var(axis=0, ddof=1)))}
    for epsilon in point.epsilons:
        answers = oracle.answers(epsilon=epsilon, delta=family.delta)
        found[epsilon] = {"hindsight": square(answers).tolist()}
        for each in CONTENDERS:
            method = each.method(family.known(point.components))
            plan = plan_along(directions, method, epsilon=epsilon, delta=family.delta)
            values, warned = eigenvalues(plan, table)
            found[epsilon][each.name] = float(square(values)), warned
    return found


def _record(point: Point, epsilon: str, results: list[Result]) -> Result:
    cells: Result = {"none": root_mean_square([result["none"] for result in results])}
    for each in CONTENDERS:
        squares, warned = zip(*(result[epsilon][each.name] for result in results), strict=True)
        cells[each.name] = root_mean_square(squares) | {"warned": short(float(np.mean(warned)))}
    hindsight = np.array([result[epsilon]["hindsight"] for result in results])
    best = int(hindsight.mean(axis=0).argmin())
    largest = FAMILIES[point.family].known(point.components).largest
    constant = {"constant": short(float(GRID[best] * largest))}
    cells["hindsight"] = root_mean_square(hindsight[:, best].tolist()) | constant
    return {
        "family": point.family,
        "rows": point.rows,
        "components": point.components,
        "epsilon": epsilon,
        "cells": cells,
    }
