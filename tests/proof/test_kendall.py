"""The spherical Kendall matrix: exact integers, moved by a changed row at most as the map says."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import product
from math import inf, nan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from dppca_odp.directions import (
    UNIT_LENGTH,
    MatrixUnits,
    _join,
    integer_directions,
    make_kendall_matrix,
)
from dppca_odp.primitives.pairs import Pairing
from dppca_odp.spaces import matrix_domain, rows_metric
from dppca_odp.values import clamp

from .exact_laws import (
    DataSet,
    Result,
    neighbouring_results,
    pairs_of,
    results_of,
    squared_distance,
)

#: Rows, by their number of columns: the origin and orthogonal rows first, then extremes.
ALPHABETS = {
    1: ((0.0,), (1.0,), (nan,), (-inf,), (1e308,), (1e-300,)),
    2: ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (nan, inf), (1e308, -1e308), (1e-300, 3e-300)),
    3: ((0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (0.0, 0.0, -2.0), (1e308, inf, nan), (0.3, 0.5, 0.7)),
}
#: Columns, letters, rows, degree.
UNIVERSES = [
    *[(1, 6, *shape) for shape in [(3, 1), (3, 2)]],
    *[(2, 6, *shape) for shape in [(3, 1), (3, 2)]],
    *[(3, 5, *shape) for shape in [(3, 2), (4, 1), (4, 2)]],
    *[(2, 3, *shape) for shape in [(5, 1), (5, 2), (5, 4), (6, 2)]],
]


def pairing(rows: int, degree: int) -> Pairing:
    return Pairing(rows, degree, np.random.default_rng(rows).permutation(rows))


@cache
def kendall(columns: int, rows: int, degree: int):
    return make_kendall_matrix(
        matrix_domain(rows, columns), rows_metric(), pairing=pairing(rows, degree)
    )


@cache
def matrices(universe) -> dict[DataSet, Result]:
    columns, letters, *shape = universe
    matrix = kendall(columns, *shape)
    return results_of(lambda table: matrix(np.array(table)), ALPHABETS[columns][:letters], shape[0])


@cache
def squared_move(universe, changed: int) -> int:
    _, letters, *_ = universe
    pairs = neighbouring_results(matrices(universe), letters, changed)
    return max(squared_distance(*both) for both in pairs)


def squared_map(universe, changed: int) -> Fraction:
    columns, _, *shape = universe
    return Fraction(kendall(columns, *shape).map(changed)) ** 2


# Exactness.


def integer_matrix(table: np.ndarray, pairs, dropped_bits: int = 0) -> tuple[int, ...]:
    """The sum of u u' over pairs in Python's integers, from each pair's own u."""
    held = clamp(table)
    units = integer_directions(np.array([held[a] - held[b] for a, b in pairs]))
    columns = [[int(unit) for unit in column] for column in units.T]
    return tuple(
        sum(a * b for a, b in zip(one, other, strict=True)) >> dropped_bits
        for one, other in product(columns, repeat=2)
    )


@pytest.mark.parametrize("universe", UNIVERSES)
def test_matrix_is_the_sum_in_python_integers(universe):
    columns, letters, rows, degree = universe
    pairs = pairs_of(pairing(rows, degree))
    alphabet = ALPHABETS[columns][:letters]
    expected = results_of(lambda table: integer_matrix(np.array(table), pairs), alphabet, rows)
    assert expected == matrices(universe)


@pytest.mark.parametrize(
    ("rows", "degree", "dropped_bits"), [(9001, 1, 0), (8192, 2, 0), (10_000, 16, 1)]
)
def test_matrix_is_the_sum_across_blocks_and_with_dropped_bits(rows, degree, dropped_bits):
    table = np.random.default_rng(4).standard_t(df=1, size=(rows, 3))
    units = MatrixUnits(rows, 3, degree)
    assert dropped_bits == max(0, (pairing(rows, degree).pairs * 2**40).bit_length() - 56)
    assert (pairing(rows, degree).pairs, dropped_bits) == (units.pairs, units.dropped_bits)
    assert pairing(rows, degree).pairs * 2 ** (40 - dropped_bits) == units.whole
    expected = integer_matrix(table, pairs_of(pairing(rows, degree)), dropped_bits)
    assert expected == tuple(kendall(3, rows, degree)(table))


@settings(deadline=None)
@given(
    high=st.integers(-(2**40), 2**40),
    low=st.integers(0, 2**36),
    dropped_bits=st.integers(0, 30),
)
def test_dropped_bits_are_a_floor(high, low, dropped_bits):
    expected = ((high << 20) + low) >> dropped_bits
    assert [expected] == _join(np.array([high]), np.array([low]), dropped_bits).tolist()


# The length of a direction.

EXTREMES = st.floats(-2e100, 2e100) | st.sampled_from([0.0, 5e-324, 1e-308, 1.0, 1e-20, 2e100])


@settings(deadline=None)
@given(arrays(np.float64, array_shapes(min_dims=2, max_dims=2, max_side=12), elements=EXTREMES))
def test_integer_directions_are_never_longer_than_the_unit(differences):
    units = integer_directions(differences)
    for unit, difference in zip(units.tolist(), differences, strict=True):
        assert all(entry == int(entry) for entry in unit)
        squared = sum(int(entry) ** 2 for entry in unit)
        assert squared <= UNIT_LENGTH**2
        if difference.any():  # truncation costs at most one unit in each coordinate
            assert squared**0.5 > UNIT_LENGTH - len(unit) ** 0.5 - 1


@pytest.mark.parametrize("columns", [1, 2, 3, 7, 20, 100, 1000])
def test_integer_directions_stay_short_in_many_dimensions(columns):
    generator = np.random.default_rng(5)
    spread = generator.integers(1, 4, size=(2000, 1)) * generator.standard_normal((2000, columns))
    for differences in (spread, np.sign(spread), spread**31, np.exp(90 * spread / 12)):
        units = integer_directions(differences).astype(np.int64)
        assert (units**2).sum(axis=1).max() <= UNIT_LENGTH**2


# The distance between matrices.


@pytest.mark.parametrize("changed", [1, 2])
@pytest.mark.parametrize("universe", UNIVERSES)
def test_changed_rows_move_the_matrix_at_most_as_far_as_the_map(universe, changed):
    assert squared_move(universe, changed) <= squared_map(universe, changed)


@pytest.mark.parametrize("universe", [u for u in UNIVERSES if u[0] > 1])
def test_one_row_turned_by_a_right_angle_attains_the_map(universe):
    assert float(squared_map(universe, 1)) == pytest.approx(squared_move(universe, 1), rel=1e-5)


@pytest.mark.parametrize("universe", [(3, 5, 4, 1), (2, 3, 5, 1), (2, 3, 5, 2), (2, 3, 6, 2)])
def test_two_rows_that_do_not_meet_attain_the_map(universe):
    assert float(squared_map(universe, 2)) == pytest.approx(squared_move(universe, 2), rel=1e-5)


@pytest.mark.parametrize("universe", UNIVERSES)
def test_half_the_length_is_exceeded(universe):
    claimed_with_half_the_sensitivity = squared_map(universe, 1) / 4
    assert squared_move(universe, 1) > claimed_with_half_the_sensitivity


def test_dropped_bits_are_paid_for():
    """Floors move entries that the rows left almost alone: p units in norm."""
    rows, degree = 10_000, 16
    generator = np.random.default_rng(6)
    table = np.zeros((rows, 2))
    table[:, 0] = generator.standard_normal(rows)
    other = table.copy()
    other[0] = 0.0, 1e100
    matrix = kendall(2, rows, degree)
    moved = squared_distance(tuple(matrix(table)), tuple(matrix(other))) ** 0.5
    exact = 2**0.5 * degree * 2**40 / 2
    assert matrix.map(1) == pytest.approx(exact + 2, rel=1e-15)
    assert exact * (1 - 1e-5) < moved <= matrix.map(1)


@pytest.mark.parametrize("changed", [1, 3])
def test_a_ring_moves_the_mean_matrix_by_the_same_for_every_degree(changed):
    rows = 60

    def mean_moves(degree: int) -> float:
        return kendall(2, rows, degree).map(changed) / (pairing(rows, degree).pairs * 2**40)

    expected = pytest.approx(2 * 2**0.5 * changed / rows, rel=1e-15)
    assert [expected] * 5 == [mean_moves(degree) for degree in (1, 2, 4, 16, 58)]
