"""Counts by octave and of a tail: exact, and moved by a changed row as far as the map says."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from math import frexp, inf, nan

import numpy as np
import pytest

from dppca_odp.primitives.octaves import (
    COUNT_UNITS,
    HIGHEST_OCTAVE,
    LOWEST_OCTAVE,
    OCTAVES,
    UPPER_ENDS,
    make_octave_counts,
    make_tail_count,
    then_octave_counts,
    then_tail_count,
)
from dppca_odp.primitives.pairs import Pairing, make_half_squared_differences
from dppca_odp.spaces import matrix_domain, rows_metric
from dppca_odp.values import clamp

from .exact_laws import neighbouring_results, pairs_of, results_of, squared_distance

#: Rows whose half squared differences lie in many octaves, by their number of columns.
ALPHABETS = {
    1: ((0.0,), (2.0,), (-1e150,), (nan,)),
    2: ((0.0, 0.0), (2.0, 1e3), (-1e-30, 5.0)),
    3: ((0.0, 0.0, 0.0), (2.0, 1e3, 1e50)),
}
#: Columns, letters, rows, degree.
UNIVERSES = [
    *[(1, 4, *shape) for shape in [(3, 2), (4, 2)]],
    *[(1, 2, *shape) for shape in [(5, 4), (6, 4)]],
    *[(2, 3, *shape) for shape in [(3, 2), (4, 2)]],
    (2, 2, 5, 4),
    (3, 2, 5, 4),
]
CUTOFFS = {1: [1.5], 2: [1.5, 100.0], 3: [1.5, inf, 1e60]}


def pairs(columns: int, rows: int, degree: int):
    order = np.random.default_rng(rows).permutation(rows)
    space = matrix_domain(rows, columns), rows_metric()
    return make_half_squared_differences(*space, pairing=Pairing(rows, degree, order))


def counts_of(columns: int, rows: int, degree: int):
    return pairs(columns, rows, degree) >> then_octave_counts()


def tail_of(columns: int, rows: int, degree: int):
    return pairs(columns, rows, degree) >> then_tail_count(cutoffs=CUTOFFS[columns])


@cache
def results(question, columns: int, letters: int, rows: int, degree: int):
    transformation = question(columns, rows, degree)
    return results_of(
        lambda table: transformation(np.array(table)), ALPHABETS[columns][:letters], rows
    )


def squared_move(question, universe, changed: int) -> int:
    letters = universe[1]
    moves = neighbouring_results(results(question, *universe), letters, changed)
    return max(squared_distance(*both) for both in moves)


def squared_map(question, universe, changed: int) -> Fraction:
    columns, _, rows, degree = universe
    return Fraction(question(columns, rows, degree).map(changed)) ** 2


@pytest.mark.parametrize("universe", UNIVERSES)
@pytest.mark.parametrize("question", [counts_of, tail_of])
def test_one_changed_row_moves_counts_at_most_as_far_as_the_map(question, universe):
    assert squared_move(question, universe, 1) <= squared_map(question, universe, 1)


@pytest.mark.parametrize("universe", [u for u in UNIVERSES if u[2] > u[3] + 1])
@pytest.mark.parametrize("question", [counts_of, tail_of])
def test_the_map_is_attained_and_half_of_it_is_exceeded(question, universe):
    moved, stated = squared_move(question, universe, 1), squared_map(question, universe, 1)
    assert float(stated) == pytest.approx(moved, rel=1e-15)
    assert moved > stated / 4


@pytest.mark.parametrize("universe", [(1, 4, 4, 2), (2, 3, 4, 2)])
@pytest.mark.parametrize("question", [counts_of, tail_of])
def test_two_changed_rows_move_counts_at_most_as_far_as_the_map(question, universe):
    assert squared_move(question, universe, 2) <= squared_map(question, universe, 2)


def octave(value: float) -> int:
    """The octave from its definition: 2^(e-1) <= value < 2^e."""
    if not value > 0:
        return LOWEST_OCTAVE
    _, exponent = frexp(value)
    return HIGHEST_OCTAVE if value == inf else min(max(exponent, LOWEST_OCTAVE), HIGHEST_OCTAVE)


VALUES = [0.0, -0.0, -3.0, nan, inf, -inf, 5e-324, 1e-300, 2.0**-128, 2.0**-127, 2.0**-126]
VALUES += [np.nextafter(1, 0), 1.0, np.nextafter(1, 2), 3.0, 2.0**127, 2.0**128, 1e308]


def test_counts_are_those_of_the_definition():
    generator = np.random.default_rng(4)
    many = generator.permutation([*VALUES, *generator.lognormal(sigma=40, size=9000)])
    table = np.column_stack([many, generator.permutation(many)])
    counts = np.zeros((2, OCTAVES), dtype=int)
    for row in table:
        for column, value in enumerate(row):
            counts[column, octave(value) - LOWEST_OCTAVE] += 1
    total = make_octave_counts(matrix_domain(*table.shape), rows_metric())
    assert (counts.ravel() * COUNT_UNITS).tolist() == total(table)
    assert counts.sum() == 2 * len(table)


def test_an_octave_ends_where_the_next_begins():
    for place in (1, 100, 127, 254):
        end = UPPER_ENDS[place]
        assert octave(end) == octave(np.nextafter(end, 0)) + 1 == LOWEST_OCTAVE + place + 1


@pytest.mark.parametrize("degree", [1, 4])
def test_a_pair_is_in_the_tail_if_one_of_its_columns_is_beyond_its_cutoff(degree):
    rows, cutoffs = 4200, [2.0, inf, 5.0]
    table = np.random.default_rng(5).standard_normal((rows, 3))
    table[::7, 1] = inf
    table[::11] = nan
    differences = np.diff(clamp(table)[np.array(pairs_of(pairing(rows, degree)))], axis=1)
    values = differences[:, 0] ** 2 / 2
    beyond = sum(row[0] > 2 or row[2] > 5 for row in values)
    chain = make_half_squared_differences(
        matrix_domain(rows, 3), rows_metric(), pairing=pairing(rows, degree)
    ) >> then_tail_count(cutoffs=cutoffs)
    assert chain(table) == [beyond * COUNT_UNITS]


def pairing(rows: int, degree: int) -> Pairing:
    return Pairing(rows, degree, np.random.default_rng(rows).permutation(rows))


def test_a_matrix_of_numbers_that_are_no_pairs_is_counted_too():
    table = np.array([[3.0, nan], [-1.0, inf]])
    tail = make_tail_count(matrix_domain(2, 2), rows_metric(), cutoffs=[1.0, 1.0])
    assert tail(table) == [2 * COUNT_UNITS]
    assert make_tail_count(matrix_domain(2, 2), rows_metric(), cutoffs=[9.0, inf])(table) == [0]


@pytest.mark.parametrize("make", [make_octave_counts, make_tail_count])
def test_counts_that_could_overflow_64_bits_are_refused(make):
    given = {"cutoffs": [1.0]} if make is make_tail_count else {}
    with pytest.raises(ValueError, match="fewer than 2\\^31 rows"):
        make(matrix_domain(2**31, 1), rows_metric(), **given)


def test_another_number_of_cutoffs_is_refused():
    with pytest.raises(ValueError, match="one for each of 2 columns"):
        make_tail_count(matrix_domain(5, 2), rows_metric(), cutoffs=[1.0])
