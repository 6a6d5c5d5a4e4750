"""Our methods as they stand in a plan. One line here adds one to every table and picture."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from benchmarks.families import Known
from dppca_odp import (
    PMWM,
    Adaptive,
    Budget,
    Clipped,
    Column,
    Directions,
    Huber,
    Plan,
    PrivacyUnit,
    Scree,
    SearchGrid,
)
from dppca_odp.eigenvalues.scree import Method
from dppca_odp.releases import ReleasedDirections, ReleasedScree
from dppca_odp.values import Floats


@dataclass(frozen=True)
class Contender:
    """A method, with the constants that its analyst would set from what is known in public."""

    name: str
    method: Callable[[Known], Method]
    needs: str
    """What must be known in advance, and what it is told here."""


def _grid(reach: float) -> SearchGrid:
    """The source's grid, its step widened to reach so far."""
    step = math.ceil(1000 * (reach + 1) ** (1 / 5000)) / 1000
    return SearchGrid(beta=max(1.001, step))


def _pmwm(known: Known) -> PMWM:
    reach = 10 * known.largest
    return PMWM(lower_bound=0, upper_bound=reach, grid=_grid(reach))


def _huber(known: Known) -> Huber:
    highest = 15 + max(0, math.ceil(2 * math.log2(known.largest / 10)))
    return Huber(lowest_scale=-10, highest_scale=highest, scale_fraction=Fraction(1, 4))


CONTENDERS = (
    Contender("adaptive", lambda known: Adaptive(robust=known.bulk), "nothing"),
    Contender(
        "clipped",
        lambda known: Clipped(clipping_bound=5 * known.largest),
        "a clipping bound; told 5 times the largest eigenvalue",
    ),
    Contender(
        "pmwm", _pmwm, "an interval for the cutoffs; told 0 and 10 times the largest eigenvalue"
    ),
    Contender(
        "huber",
        _huber,
        "a range of scales; told 2^-10 to 2^15, further up for eigenvalues above 10",
    ),
)


def contender(name: str) -> Contender:
    """The contender of this name."""
    return {each.name: each for each in CONTENDERS}[name]


def plan_along(directions: Floats, method: Method, *, epsilon: str, delta: str) -> Plan:
    """Eigenvalues along given directions."""
    given = tuple(map(tuple, directions.tolist()))
    return Plan(
        budget=Budget.of(epsilon, delta),
        unit=PrivacyUnit(rows_per_person=1),
        columns=columns(len(given)),
        releases=(Scree(name="scree", directions=given, method=method),),
    )


def whole_plan(width: int, components: int, method: Method, *, epsilon: str, delta: str) -> Plan:
    """Private directions, and eigenvalues along them, half of the budget each."""
    return Plan(
        budget=Budget.of(epsilon, delta),
        unit=PrivacyUnit(rows_per_person=1),
        columns=columns(width),
        releases=(
            Directions(name="directions", components=components),
            Scree(name="scree", directions="directions", method=method),
        ),
    )


def columns(number: int) -> tuple[Column, ...]:
    """x1, x2 and so on, without bounds."""
    return tuple(Column(name=f"x{place + 1}") for place in range(number))


def released(plan: Plan, table: Floats) -> dict[str, ReleasedDirections | ReleasedScree]:
    """What the plan's measurement answers, as it would leave; nothing is charged."""
    rows = len(table)
    answers = plan.make(rows)(table)
    return {
        release.name: release.released(answers[release.name], plan.setting(release, rows))  # type: ignore[misc]
        for release in plan.releases
    }


def eigenvalues(plan: Plan, table: Floats) -> tuple[Floats, bool]:
    """The eigenvalues of a plan with one scree, and whether it warned of them."""
    scree = released(plan, table)["scree"]
    assert isinstance(scree, ReleasedScree)
    return np.array(scree.values), bool(scree.warnings)
