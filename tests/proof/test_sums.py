"""Integer sums over pairs: exact, and moved by a changed row as far as the map says."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from math import inf, isfinite, nan

import numpy as np
import pytest

from dppca_odp.primitives.columns import make_leading_columns, make_projection
from dppca_odp.primitives.pairs import (
    Pairing,
    make_half_squared_differences,
    make_part_of_pairs,
    then_half_squared_differences,
)
from dppca_odp.primitives.sums import (
    FULL_UNITS,
    allocated_units,
    make_clamped_sum,
    then_clamped_sum,
)
from dppca_odp.spaces import matrix_domain, rows_metric
from dppca_odp.values import LARGEST_VALUE, as_matrix, clamp

from .exact_laws import (
    Result,
    neighbouring_results,
    pairs_of,
    results_of,
    squared_distance,
)

#: Rows, by their number of columns.
ALPHABETS = {
    1: ((0.0,), (2.0,), (0.8,), (nan,)),
    2: ((0.0, 0.0), (2.0, 2.0), (-inf, 1e308)),
}
LIMITS = {"lower": 0.25, "upper": 1.5}
#: Columns, letters, rows, degree.
UNIVERSES = [
    *[(1, 4, *shape) for shape in [(2, 1), (3, 1), (4, 1), (3, 2), (4, 2)]],
    *[(1, 3, *shape) for shape in [(5, 1), (5, 2), (5, 4)]],
    *[(2, 3, *shape) for shape in [(2, 1), (4, 1), (5, 1), (3, 2), (4, 2), (5, 2), (5, 4)]],
    *[(2, 2, *shape) for shape in [(6, 1), (6, 2), (6, 4)]],
]


def pairing(rows: int, degree: int) -> Pairing:
    return Pairing(rows, degree, np.random.default_rng(rows).permutation(rows))


def space(rows: int, columns: int):
    return matrix_domain(rows, columns), rows_metric()


def chain(columns: int, rows: int, degree: int, **limits):
    return make_half_squared_differences(
        *space(rows, columns), pairing=pairing(rows, degree)
    ) >> then_clamped_sum(**(limits or LIMITS))


@cache
def sums(columns: int, letters: int, rows: int, degree: int) -> dict:
    transformation = chain(columns, rows, degree)
    return results_of(
        lambda table: transformation(np.array(table)), ALPHABETS[columns][:letters], rows
    )


@cache
def sum_pairs(universe, changed: int) -> set[tuple[Result, Result]]:
    _, letters, *_ = universe
    return neighbouring_results(sums(*universe), letters, changed)


def squared_move(universe, changed: int) -> int:
    return max(squared_distance(*both) for both in sum_pairs(universe, changed))


def squared_map(universe, changed: int) -> Fraction:
    columns, _, rows, degree = universe
    return Fraction(chain(columns, rows, degree).map(changed)) ** 2


# Which rows meet.


@pytest.mark.parametrize("rows", range(2, 10))
def test_each_row_is_in_degree_pairs_and_no_pair_comes_twice(rows):
    degrees = [1, *range(2, rows, 2)]
    for degree in degrees:
        pairs = pairs_of(pairing(rows, degree))
        met = np.bincount(np.ravel(pairs), minlength=rows)
        assert pairing(rows, degree).pairs == len(pairs) == len({frozenset(p) for p in pairs})
        idle = rows % 2 if degree == 1 else 0
        assert sorted([0] * idle + [degree] * (rows - idle)) == sorted(met)


# Sums.


def held(value: float) -> float:
    return 0.0 if value != value else min(max(value, -LARGEST_VALUE), LARGEST_VALUE)


def integer_sums(
    table, pairs, lower: float, upper: float, units: int = FULL_UNITS
) -> tuple[int, ...]:
    """The sums from their definition, one number at a time."""

    def counted(one: float, other: float) -> int:
        half = 0.5 * (held(one) - held(other)) ** 2
        return round((min(max(half, lower), upper) - lower) / (upper - lower) * units)

    columns = zip(*table, strict=True)
    return tuple(sum(counted(column[a], column[b]) for a, b in pairs) for column in columns)


@pytest.mark.parametrize("universe", UNIVERSES)
def test_sums_are_those_of_the_definition(universe):
    columns, letters, rows, degree = universe
    pairs = pairs_of(pairing(rows, degree))
    expected = results_of(
        lambda table: integer_sums(table, pairs, **LIMITS), ALPHABETS[columns][:letters], rows
    )
    assert expected == sums(*universe)


@pytest.mark.parametrize("degree", [1, 16])
def test_sums_are_those_of_the_definition_across_blocks(degree):
    rows = 9001
    table = np.random.default_rng(1).standard_normal((rows, 2))
    table[::100] *= 1e200
    expected = integer_sums(table.tolist(), pairs_of(pairing(rows, degree)), **LIMITS)
    assert expected == tuple(chain(2, rows, degree)(table))


@pytest.mark.parametrize("universe", UNIVERSES)
def test_one_changed_row_moves_the_sums_exactly_as_far_as_the_map(universe):
    assert float(squared_map(universe, 1)) == pytest.approx(squared_move(universe, 1), rel=1e-15)
    assert squared_move(universe, 1) <= squared_map(universe, 1)


@pytest.mark.parametrize("universe", UNIVERSES)
def test_two_changed_rows_move_the_sums_at_most_as_far_as_the_map(universe):
    assert squared_move(universe, 2) <= squared_map(universe, 2)


@pytest.mark.parametrize(
    "universe", [(1, 4, 4, 1), (1, 3, 5, 2), (2, 3, 4, 1), (2, 3, 5, 2), (2, 2, 6, 4)]
)
def test_two_changed_rows_that_do_not_meet_attain_the_map(universe):
    assert float(squared_map(universe, 2)) == pytest.approx(squared_move(universe, 2), rel=1e-15)


@pytest.mark.parametrize("universe", UNIVERSES)
def test_half_the_range_is_exceeded(universe):
    claimed_with_half_the_range = squared_map(universe, 1) / 4
    assert squared_move(universe, 1) > claimed_with_half_the_range


# Sums with units of their own for each column: the allocation of the noise.

ALLOCATED = {
    "least variance": allocated_units([1.25 * 9, 1.25], 0.5),
    "in between": allocated_units([1.25, 1.25 * 1000], 0.75),
    "least units": allocated_units([1.25, 1e-300], 0.5),
    "one column": np.array([0, FULL_UNITS]),
}
IN_TWO_COLUMNS = [universe for universe in UNIVERSES if universe[0] == 2]


@pytest.mark.parametrize("allocation", ALLOCATED)
@pytest.mark.parametrize("universe", IN_TWO_COLUMNS)
def test_allocated_sums_move_exactly_as_far_as_the_map_and_farther_than_half_of_it(
    universe, allocation
):
    columns, letters, rows, degree = universe
    transformation = chain(columns, rows, degree, **LIMITS, units=ALLOCATED[allocation])
    found = results_of(
        lambda table: transformation(np.array(table)), ALPHABETS[columns][:letters], rows
    )
    for changed in (1, 2):
        moved = max(
            squared_distance(*both) for both in neighbouring_results(found, letters, changed)
        )
        stated = Fraction(transformation.map(changed)) ** 2
        assert moved <= stated
        if changed == 1:
            assert float(stated) == pytest.approx(moved, rel=1e-15)
            assert moved > stated / 4


@pytest.mark.parametrize("allocation", ALLOCATED)
@pytest.mark.parametrize("degree", [1, 2, 16])
def test_allocated_sums_are_those_of_the_definition(allocation, degree):
    rows, units = 301, ALLOCATED[allocation]
    table = np.random.default_rng(4).standard_normal((rows, 2))
    pairs = pairs_of(pairing(rows, degree))
    expected = [
        integer_sums(table[:, at : at + 1].tolist(), pairs, **LIMITS, units=int(each))
        for at, each in enumerate(units)
    ]
    assert [total for (total,) in expected] == chain(2, rows, degree, **LIMITS, units=units)(table)


def test_sums_do_not_depend_on_the_order_of_pairs():
    generator = np.random.default_rng(2)
    pairs = generator.lognormal(sigma=9, size=(70_000, 2))
    total = make_clamped_sum(*space(*pairs.shape), lower=[0, 1], upper=[3, 1e9])
    assert total(pairs) == total(generator.permutation(pairs)) == total(pairs[::-1])


def test_a_column_without_range_takes_no_part():
    limits = {"lower": [0.0, 2.0], "upper": [1.0, 2.0]}
    table = np.array([[0.0, 5.0], [9.0, nan], [inf, 1e308], [1.0, -inf]])
    transformation = chain(2, 4, 2, **limits)
    alone = chain(1, 4, 2, lower=0.0, upper=1.0)
    assert [*alone(table[:, :1]), 0] == transformation(table)
    assert alone.map(1) == transformation.map(1)
    assert not chain(2, 4, 2, lower=1.0, upper=1.0).map(1)


@pytest.mark.parametrize("value", [nan, inf, -inf, 1e308, -1e308, 5e-324])
def test_a_value_of_any_kind_adds_at_most_the_range(value):
    values = np.array([[value]])
    for lower, upper in [(0.0, 1.0), (-1e200, 1e200), (0.0, 5e-324), (1.0, np.nextafter(1.0, 2))]:
        (total,) = make_clamped_sum(*space(1, 1), lower=lower, upper=upper)(values)
        assert 0 <= total <= FULL_UNITS
        assert isfinite(total)


@pytest.mark.parametrize("bound", [1.1e200, 1e307, inf, nan])
def test_bounds_whose_range_could_overflow_are_refused(bound):
    for limits in [{"lower": -bound, "upper": 1.0}, {"lower": 0.0, "upper": bound}]:
        with pytest.raises(ValueError, match="within"):
            make_clamped_sum(*space(1, 1), **limits)


@pytest.mark.parametrize("changed", [1, 3])
def test_a_ring_moves_the_mean_by_the_same_for_every_degree(changed):
    rows = 60

    def mean_moves(degree: int) -> Fraction:
        whole = pairing(rows, degree).pairs * FULL_UNITS
        return Fraction(chain(1, rows, degree).map(changed)) / whole

    assert {Fraction(2 * changed, rows)} == {mean_moves(degree) for degree in (1, 2, 4, 16, 58)}


# Stability of the parts, in rows.


def column(values) -> np.ndarray:
    return np.array(values)[:, np.newaxis]


def rows_differ(one: np.ndarray, other: np.ndarray) -> int:
    return int((one != other).any(axis=1).sum())


@pytest.mark.parametrize(("start", "stop"), [(0, 2), (2, 5), (0, 5), (4, 5)])
@pytest.mark.parametrize("changed", [1, 2, 4])
def test_a_part_of_pairs_differs_as_much_as_the_map(start, stop, changed):
    part = make_part_of_pairs(*space(5, 1), start=start, stop=stop)
    results = results_of(lambda w: part(column(w)).ravel(), (0.0, 1.0), 5)
    differ = (np.not_equal(*both).sum() for both in neighbouring_results(results, 2, changed))
    assert part.map(changed) == max(differ)


@pytest.mark.parametrize("letter", [(0.0, 0.0, 0.0), (nan, inf, -1e308), (1e-320, 1e150, 3.0)])
@pytest.mark.parametrize("changed", [1, 2])
def test_a_projection_of_other_rows_stays_the_same_to_the_last_bit(letter, changed):
    rows = 5000
    generator = np.random.default_rng(3)
    table = generator.standard_normal((rows, 3))
    project = make_projection(*space(rows, 3), directions=generator.standard_normal((3, 2)))
    for place in (0, 1, 4095, 4096, rows - changed):
        other = table.copy()
        other[place : place + changed] = letter
        assert project.map(changed) == rows_differ(project(table), project(other))


@pytest.mark.parametrize("columns", [1, 2, 3])
@pytest.mark.parametrize("changed", [1, 2])
def test_leading_columns_differ_at_most_as_much_as_the_map(columns, changed):
    rows, letters = 3, ((0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (0.0, 0.0, 2.0), (-1.0, 5.0, 2.0))
    leading = make_leading_columns(*space(rows, 3), columns=columns)
    results = results_of(lambda table: map(tuple, leading(np.array(table))), letters, rows)
    for data_set, result in results.items():
        assert tuple(letters[letter][:columns] for letter in data_set) == result
    differ = [
        sum(row != other for row, other in zip(*both, strict=True))
        for both in neighbouring_results(results, len(letters), changed)
    ]
    assert leading.map(changed) == max(differ)


def test_every_number_is_clamped_to_a_finite_one_and_small_ones_are_kept():
    numbers = [nan, inf, -inf, 1e308, -1e308, 1e100, -3.5, 5e-324, -0.0]
    table = np.array(numbers)
    expected = [held(number) for number in numbers]
    assert expected == clamp(table).tolist()
    np.testing.assert_array_equal(numbers, table)
    assert [0.0, 1.0, 2.0] == clamp([False, True, 2]).tolist()


@pytest.mark.parametrize("shape", [(3, 2), (2, 3), (6,), (2, 2), (3, 2, 1)])
def test_a_matrix_has_the_public_shape_or_is_refused(shape):
    if shape == (3, 2):
        assert shape == as_matrix(np.zeros(shape, dtype=int), 3, 2).shape
    else:
        with pytest.raises(ValueError, match="must be 3 by 2"):
            as_matrix(np.zeros(shape), 3, 2)


@pytest.mark.parametrize(("rows", "degree"), [(4, 1), (5, 1), (5, 2), (5, 4), (6, 2), (6, 4)])
@pytest.mark.parametrize("changed", [1, 2])
def test_pairs_differ_at_most_as_much_as_the_map(rows, degree, changed):
    paired = make_half_squared_differences(*space(rows, 1), pairing=pairing(rows, degree))
    results = results_of(lambda x: np.ravel(paired(column(x))), (0.0, 1.0), rows)
    differ = [np.not_equal(*both).sum() for both in neighbouring_results(results, 2, changed)]
    assert max(differ) <= paired.map(changed)
    assert changed > 1 or paired.map(changed) == max(differ)


def test_projection_then_pairs_is_one_chain():
    directions = [[0.6], [0.8]]
    both = make_projection(*space(4, 2), directions=directions) >> then_half_squared_differences(
        pairing=Pairing(4, 1, np.arange(4))
    )
    table = np.array([[5.0, 0.0], [0.0, 0.0], [0.0, nan], [0.0, 5.0]])
    halves, stability = [[4.5], [8.0]], [0, 1, 2, 2]
    assert halves == np.asarray(both(table)).tolist()
    assert stability == [both.map(changed) for changed in range(4)]
