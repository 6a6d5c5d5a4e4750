"""Counts in cells: which cell a row is in, and how far changed rows move the counts."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from functools import cache
from math import floor, inf, isfinite, nan

import numpy as np
import pytest

from dppca_odp.scores.additive import ROW, make_cell_counts
from dppca_odp.scores.cells import BLOCK_ROWS, Cells
from dppca_odp.scores.frames import Frame
from dppca_odp.scores.sparse import make_cell_map
from dppca_odp.spaces import matrix_domain, rows_metric

from .exact_laws import (
    DataSet,
    Result,
    largest_difference,
    neighbouring_results,
    results_of,
    squared_distance,
)

FRAME = Frame(x_low=-1.0, x_high=1.0, y_low=0.0, y_high=4.0)
#: Inside, on edges (the last upper ones included), outside, and not numbers.
POINTS = (
    (-1.0, 1.0),
    (0.0, 0.0),
    (-0.5, 2.0),
    (0.5, 3.0),
    (1.0, 4.0),
    (1.5, 1.0),
    (nan, 1.0),
    (0.5, -inf),
)
#: One place in three groups, the last of which is the rest; then two rows elsewhere.
LABELLED = (
    *[(0.5, 1.0, code) for code in (0.0, 1.0, 2.0, 3.0, -1.0, nan, inf)],
    (-0.5, 1.0, 0.0),
    (9.0, 1.0, 0.0),
)
#: Rows, groups and changed rows: every data set.
UNIVERSES = [(1, 1), (2, 1), (3, 1), (1, 3), (2, 3), (3, 3)]


def letters_of(groups: int) -> tuple:
    return POINTS if groups == 1 else LABELLED


def cells_of(groups: int) -> Cells:
    return Cells(frame=FRAME, bins=(2, 2), groups=groups)


def space(rows: int, groups: int):
    return matrix_domain(rows, len(letters_of(groups)[0])), rows_metric()


@cache
def counting(rows: int, groups: int):
    return make_cell_counts(*space(rows, groups), cells=cells_of(groups))


@cache
def mapping(rows: int, groups: int):
    return make_cell_map(*space(rows, groups), cells=cells_of(groups))


@cache
def counts(universe) -> dict[DataSet, Result]:
    rows, groups = universe
    return results_of(lambda t: counting(rows, groups)(np.array(t)), letters_of(groups), rows)


@cache
def maps(universe) -> dict[DataSet, Result]:
    """The counts of the cell map, empty cells filled in."""
    rows, groups = universe

    def filled(table) -> list[int]:
        found = mapping(rows, groups)(np.array(table))
        return [found.get(cell, 0) for cell in range(cells_of(groups).number)]

    return results_of(filled, letters_of(groups), rows)


@cache
def count_pairs(universe, changed: int) -> set[tuple[Result, Result]]:
    return neighbouring_results(counts(universe), len(letters_of(universe[1])), changed)


@cache
def map_pairs(universe, changed: int) -> set[tuple[Result, Result]]:
    return neighbouring_results(maps(universe), len(letters_of(universe[1])), changed)


# Which cell.


def bin_of(value: float, low: float, high: float, bins: int) -> int | None:
    """The bin by exact arithmetic; the upper end of the frame belongs to the last bin."""
    if not (isfinite(value) and low <= value <= high):
        return None
    share = (Fraction(value) - Fraction(low)) / (Fraction(high) - Fraction(low))
    return min(floor(share * bins), bins - 1)


def cell_of(row, cells: Cells) -> int | None:
    frame, (across, up) = cells.frame, cells.bins
    x = bin_of(row[0], frame.x_low, frame.x_high, across)
    y = bin_of(row[1], frame.y_low, frame.y_high, up)
    if x is None or y is None:
        return None
    codes = range(cells.groups - 1)
    group = codes.index(row[2]) if cells.groups > 1 and row[2] in codes else cells.groups - 1
    return (group * up + y) * across + x


def tally(table, cells: Cells) -> list[int]:
    found = Counter(cell_of(row, cells) for row in table)
    return [found[cell] for cell in range(cells.number)]


@pytest.mark.parametrize("universe", UNIVERSES)
def test_counts_are_those_of_exact_arithmetic(universe):
    cells = cells_of(universe[1])
    expected = results_of(lambda table: tally(table, cells), letters_of(universe[1]), universe[0])
    assert expected == maps(universe)
    assert expected == {
        key: tuple(c // ROW for c in value) for key, value in counts(universe).items()
    }


def test_every_edge_belongs_to_the_cell_above_it_but_the_last():
    cells = Cells(frame=Frame(x_low=0, x_high=4, y_low=-2, y_high=2), bins=(4, 8))
    edges = [(x, y / 2) for x in range(5) for y in range(-4, 5)]
    table = np.array([*edges, (np.nextafter(4, 5), 0.0), (0.0, np.nextafter(-2, -3))])
    (total,) = np.unique(cells.positions(table[:1]))
    assert total == 0
    assert [cell_of(row, cells) for row in edges] == cells.positions(table).tolist()
    assert tally(table, cells) == cells.counts(table).tolist()


@pytest.mark.parametrize("groups", [1, 4])
def test_counts_across_blocks_are_those_of_exact_arithmetic(groups):
    generator = np.random.default_rng(7)
    rows = BLOCK_ROWS + 100
    table = generator.integers(-70, 70, size=(rows, 2)) / 32  # no rounding
    if groups > 1:
        table = np.column_stack([table, generator.integers(-1, groups + 1, rows)])
    table[::100] *= 1e300
    cells = Cells(frame=Frame(x_low=-2, x_high=2, y_low=-1, y_high=1), bins=(16, 32), groups=groups)
    assert tally(table.tolist(), cells) == cells.counts(table).tolist()


def test_counts_on_a_frame_of_any_place_are_within_rounding_of_exact_arithmetic():
    """A value within rounding of an edge may fall on its other side: still a single cell."""
    generator = np.random.default_rng(8)
    for _ in range(200):
        low, width = generator.normal() * 10.0 ** generator.integers(-3, 4), generator.lognormal()
        frame = Frame(x_low=low, x_high=low + width, y_low=0, y_high=1)
        cells = Cells(frame=frame, bins=(int(generator.integers(1, 60)), 1))
        x = np.append(generator.uniform(frame.x_low, frame.x_high, 50), [frame.x_low, frame.x_high])
        found = cells.positions(np.column_stack([x, np.zeros_like(x)]))
        for value, cell in zip(x.tolist(), found.tolist(), strict=True):
            slack = 1e-9 * width
            around = [
                bin_of(
                    min(max(near, frame.x_low), frame.x_high),
                    frame.x_low,
                    frame.x_high,
                    cells.bins[0],
                )
                for near in (value - slack, value + slack)
            ]
            assert around[0] <= cell <= around[1]


# How far they move.


@pytest.mark.parametrize("changed", [1, 2])
@pytest.mark.parametrize("universe", UNIVERSES)
def test_counts_move_exactly_as_far_as_the_map(universe, changed):
    if changed > universe[0]:
        return
    claimed = Fraction(counting(*universe).map(changed))
    actual = max(squared_distance(*both) for both in count_pairs(universe, changed))
    assert 2 * (changed * ROW) ** 2 == actual
    assert actual <= claimed**2 <= actual * (1 + Fraction(1, 10**15))


@pytest.mark.parametrize("universe", UNIVERSES)
def test_half_the_distance_is_exceeded(universe):
    claimed_with_half_the_sensitivity = Fraction(counting(*universe).map(1)) / 2
    actual = max(squared_distance(*both) for both in count_pairs(universe, 1))
    assert actual > claimed_with_half_the_sensitivity**2


@pytest.mark.parametrize("universe", UNIVERSES)
def test_a_single_row_in_or_out_is_not_enough(universe):
    """A change moves a row from one cell to another: sqrt(2), not 1."""
    actual = max(squared_distance(*both) for both in count_pairs(universe, 1))
    assert actual > ROW**2


def moves(one: Result, other: Result) -> tuple[int, int, int]:
    steps = np.abs(np.subtract(one, other))
    return np.count_nonzero(steps), int(steps.sum()), largest_difference(one, other)


@pytest.mark.parametrize("universe", UNIVERSES)
def test_one_change_moves_the_map_exactly_as_far_as_claimed(universe):
    claimed = mapping(*universe).map(1)
    seen = [moves(*both) for both in map_pairs(universe, 1)]
    attained = tuple(max(of) for of in zip(*seen, strict=True))
    assert claimed == attained
    assert claimed in seen


@pytest.mark.parametrize("universe", [u for u in UNIVERSES if u[0] >= 2])
def test_two_changes_move_the_map_exactly_as_far_as_claimed(universe):
    """All four cells at once, or one of them by two: each bound is attained."""
    claimed = mapping(*universe).map(2)
    seen = [moves(*both) for both in map_pairs(universe, 2)]
    places = min(claimed[0], cells_of(universe[1]).number)
    assert (places, *claimed[1:]) == tuple(max(of) for of in zip(*seen, strict=True))
    assert all(move <= bound for move, bound in zip(claimed, (4, 4, 2), strict=True))


@pytest.mark.parametrize("universe", UNIVERSES)
def test_halved_distances_of_the_map_are_exceeded(universe):
    claimed = mapping(*universe).map(1)
    for at in range(3):
        assert max(moves(*both)[at] for both in map_pairs(universe, 1)) > claimed[at] / 2


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_labels_alone_move_counts_no_farther_than_scores(rows):
    """The first seven letters differ in their label only."""
    same_place = {key: value for key, value in counts((rows, 3)).items() if max(key) < 7}
    distances = (squared_distance(*both) for both in neighbouring_results(same_place, 7, 1))
    assert counting(rows, 3).map(1) == pytest.approx(max(distances) ** 0.5, rel=1e-15)


@pytest.mark.parametrize("universe", UNIVERSES)
def test_empty_cells_are_not_in_the_map(universe):
    rows, groups = universe
    for data_set in counts(universe):
        found = mapping(rows, groups)(np.array([letters_of(groups)[letter] for letter in data_set]))
        assert 0 not in found.values()


def test_no_distance_costs_nothing():
    assert counting(3, 1).map(0) == 0
    assert (0, 0, 0) == mapping(3, 1).map(0)
