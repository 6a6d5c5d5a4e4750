"""How much is measured: the full form, and a quick one that takes the same roads."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.accuracy import Point
from benchmarks.attempts import IN_HINDSIGHT, Attempt, everyone
from benchmarks.contenders import CONTENDERS
from benchmarks.families import FAMILIES
from benchmarks.sources import REAL_TABLES
from benchmarks.sweep import Sweep

#: Parts of the time: first the speed, alone on the machine, then what is left of it to each.
SHARES = {"speed": 0.3, "whole": 0.35, "real": 0.35, "accuracy": 1.0}


@dataclass(frozen=True)
class Scope:
    """Everything that one run of the command measures."""

    form: str
    minutes: float
    points: tuple[Point, ...]
    whole: tuple[Attempt, ...]
    real: tuple[Attempt, ...]
    sweep: Sweep


def columns_of(family: str, components: int) -> int:
    """The zero-inflated law has four columns."""
    return len(FAMILIES[family].eigenvalues(components))


def _points(
    sizes: dict[int, tuple[tuple[str, ...], int]], components: tuple[int, ...], runs: int
) -> tuple[Point, ...]:
    """Every law at sizes with their epsilons and runs; Gaussian rows at numbers of components."""
    laws = [
        Point(family, rows, columns_of(family, 5), epsilons, runs)
        for family in FAMILIES
        for rows, (epsilons, runs) in sizes.items()
    ]
    by_components = [Point("Gaussian", 10_000, k, ("1",), runs) for k in components]
    return (*laws, *by_components)


def _whole(
    places: tuple[tuple[str, int, int], ...], runs: int, limit: float
) -> tuple[Attempt, ...]:
    return tuple(
        Attempt(source, rows, columns, min(5, columns), "1", name, "whole", runs, limit)
        for source, rows, columns in places
        for name in everyone()
    )


def _real(
    tables: tuple[str, ...], epsilons: tuple[str, ...], runs: int, limit: float
) -> tuple[Attempt, ...]:
    who = [("along", each.name) for each in CONTENDERS]
    who += [("whole", name) for name in everyone(IN_HINDSIGHT)]
    return tuple(
        Attempt(table, 0, 0, 3, epsilon, name, form, runs, limit)
        for table in tables
        for epsilon in epsilons
        for form, name in who
    )


RELEASES = ("directions", *(each.name for each in CONTENDERS))
THREE = ("0.5", "1", "3")

FULL = Scope(
    form="full",
    minutes=60,
    points=_points(
        {
            1_000: (THREE, 120),
            10_000: (THREE, 60),
            100_000: (THREE, 24),
            1_000_000: (("1",), 8),
        },
        components=(1, 2, 10, 20),
        runs=60,
    ),
    whole=_whole(
        (
            ("Gaussian", 1_000, 5),
            ("Gaussian", 10_000, 5),
            ("Gaussian", 100_000, 5),
            ("Student t4", 10_000, 5),
            ("Gaussian", 10_000, 20),
        ),
        runs=16,
        limit=30,
    ),
    real=_real(tuple(REAL_TABLES), ("1", "3"), runs=10, limit=30),
    sweep=Sweep(
        releases=RELEASES,
        rows=(10_000, 30_000, 100_000, 300_000, 1_000_000),
        columns=(5, 20, 50, 100),
        components=(1, 5, 10, 20),
        middle=(100_000, 20, 5),
        repeat=3,
    ),
)

QUICK = Scope(
    form="quick",
    minutes=2.7,
    points=_points({1_000: (("1",), 6), 10_000: (("1",), 6)}, components=(1, 20), runs=4),
    whole=_whole((("Gaussian", 10_000, 5), ("Gaussian", 10_000, 20)), runs=2, limit=5),
    real=_real(("randhie",), ("1",), runs=2, limit=5),
    sweep=Sweep(
        releases=RELEASES,
        rows=(10_000, 100_000),
        columns=(5, 20),
        components=(5,),
        middle=(10_000, 20, 5),
        repeat=1,
    ),
)
