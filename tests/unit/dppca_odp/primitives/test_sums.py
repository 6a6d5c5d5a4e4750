import math
from fractions import Fraction

import numpy as np
import pytest
from opendp.mod import OpenDPException

from dppca_odp.primitives.blocks import BLOCK_ROWS, MOST_VALUES
from dppca_odp.primitives.sums import (
    FULL_UNITS,
    LEAST_UNITS,
    Limits,
    allocated_units,
    make_clamped_sum,
    sum_sensitivity,
    then_clamped_sum,
)
from dppca_odp.spaces import matrix_domain, rows_metric


def clamped_sum(rows, columns, *, lower, upper):
    return make_clamped_sum(matrix_domain(rows, columns), rows_metric(), lower=lower, upper=upper)


def test_values_become_integers_between_nothing_and_the_full_units():
    total = clamped_sum(5, 1, lower=2.0, upper=4.0)
    values = np.array([[1.0], [2.0], [3.0], [4.0], [9.0]])
    assert [0 + 0 + FULL_UNITS // 2 + FULL_UNITS + FULL_UNITS] == total(values)


def test_each_column_has_its_own_limits():
    total = clamped_sum(1, 3, lower=[0.0, -1.0, 5.0], upper=[4.0, 1.0, 6.0])
    assert [FULL_UNITS // 4, FULL_UNITS // 2, FULL_UNITS // 2] == total(np.array([[1.0, 0.0, 5.5]]))


def test_means_are_read_back_in_data_units():
    values = np.random.default_rng(4).uniform(-3, 3, size=(1001, 2))
    lower, upper = [-3.0, -1.0], [3.0, 1.0]
    sums = clamped_sum(1001, 2, lower=lower, upper=upper)(values)
    means = Limits.of(lower, upper, 2).means(sums, 1001)
    assert pytest.approx(np.clip(values, lower, upper).mean(axis=0), abs=2**-31) == means


def test_the_order_of_rows_does_not_matter_at_all():
    rows = BLOCK_ROWS + 11
    values = np.random.default_rng(5).normal(size=(rows, 1))
    total = clamped_sum(rows, 1, lower=-1.0, upper=1.0)
    assert total(values) == total(values[::-1]) == total(np.sort(values, axis=0))


def test_blocks_are_all_added():
    rows = 2 * BLOCK_ROWS + 1
    total = clamped_sum(rows, 1, lower=0.0, upper=1.0)
    assert total(np.ones((rows, 1))) == [rows * FULL_UNITS]


def test_a_column_without_range_takes_no_part():
    total = clamped_sum(2, 2, lower=[3.0, 0.0], upper=[3.0, 1.0])
    sums = total(np.array([[9.0, 1.0], [-9.0, 1.0]]))
    assert [0, 2 * FULL_UNITS] == sums
    assert FULL_UNITS == total.map(1)
    assert [3.0, 1.0] == Limits.of([3.0, 0.0], [3.0, 1.0], 2).means(sums, 2).tolist()


def test_no_column_with_a_range_has_no_sensitivity():
    assert 0.0 == clamped_sum(2, 2, lower=1.0, upper=1.0).map(2)


def test_every_float_is_answered():
    total = clamped_sum(5, 1, lower=0.0, upper=1.0)
    values = np.array([[np.nan], [np.inf], [-np.inf], [1e308], [-1e308]])
    assert [2 * FULL_UNITS] == total(values)


def test_bounds_far_apart_do_not_overflow():
    total = clamped_sum(2, 1, lower=-1e200, upper=1e200)
    assert [FULL_UNITS + FULL_UNITS // 2] == total(np.array([[1e308], [0.0]]))


@pytest.mark.parametrize("total", [-(2**63), 0, 2**63 - 1])
def test_a_mean_between_the_widest_bounds_is_finite_whatever_the_noise(total):
    means = Limits.of(-1e200, 1e200, 1).means([total], 1)
    assert np.isfinite(means).all()


def test_a_table_of_another_shape_is_refused_without_its_values():
    expected = r"the matrix must be 5 by 1; got shape \(4, 1\)"
    with pytest.raises(OpenDPException, match=expected) as caught:
        clamped_sum(5, 1, lower=0.0, upper=1.0)(np.full((4, 1), 31337.25))
    assert "31337" not in str(caught.value)


def test_the_sensitivity_is_the_root_of_the_columns_times_the_full_units():
    total = clamped_sum(100, 4, lower=0.0, upper=1.0)
    assert [0.0, 2 * FULL_UNITS, 14 * FULL_UNITS] == [total.map(d) for d in (0, 1, 7)]


def test_no_more_rows_can_change_than_there_are():
    total = clamped_sum(3, 1, lower=0.0, upper=1.0)
    assert total.map(3) == total.map(1000) == 3 * FULL_UNITS


@pytest.mark.parametrize("columns", [2, 3, 5, 20])
@pytest.mark.parametrize("d_in", [1, 5, 1000])
def test_the_sensitivity_is_never_below_the_exact_root_and_at_most_a_hair_above(columns, d_in):
    exact_square = Fraction(columns) * (d_in * FULL_UNITS) ** 2
    stated = Fraction(sum_sensitivity([FULL_UNITS] * columns, d_in))
    assert exact_square <= stated**2 <= exact_square * (1 + Fraction(1, 10**15))


def test_the_noise_is_read_back_in_data_units():
    noise = Limits.of(0.0, [1.0, 10.0], 2).noise(2.0**33, 4)
    assert [0.5, 5.0] == noise.tolist()


@pytest.mark.parametrize("rows", [MOST_VALUES, MOST_VALUES + 1])
def test_more_pairs_than_fit_a_64_bit_sum_are_refused(rows):
    with pytest.raises(ValueError, match=f"must have fewer than 2\\^31 rows; got {rows}"):
        clamped_sum(rows, 1, lower=0.0, upper=1.0)


def test_the_largest_sum_that_is_accepted_fits_64_bits():
    clamped_sum(MOST_VALUES - 1, 1, lower=0.0, upper=1.0)
    assert (MOST_VALUES - 1) * FULL_UNITS < 2**63


@pytest.mark.parametrize(
    ("lower", "upper"), [([0.0, 0.0], 1.0), (0.0, [1.0, 2.0]), ([[0.0]], [1.0, 2.0, 3.0, 4.0])]
)
def test_bounds_of_another_number_than_columns_are_refused(lower, upper):
    with pytest.raises(
        ValueError,
        match=r"^lower and upper must be one number, or one for each of 3 columns; got shapes \(",
    ):
        Limits.of(lower, upper, 3)


@pytest.mark.parametrize(
    ("lower", "upper"),
    [
        (0.0, math.inf),
        (-math.inf, 0.0),
        (math.nan, 1.0),
        (0.0, math.nan),
        (-1e308, 1e308),
        (0.0, 1.0000001e200),
        (-1.0000001e200, 0.0),
    ],
)
def test_bounds_beyond_the_largest_are_refused(lower, upper):
    with pytest.raises(
        ValueError, match=r"^lower and upper must be within \+-1e\+200; got others\. Bring"
    ):
        Limits.of(lower, upper, 1)


def test_bounds_out_of_order_are_refused():
    with pytest.raises(
        ValueError, match=r"^lower must not be above upper; got them crossed\. Swap them\.$"
    ):
        Limits.of([0.0, 2.0], [1.0, 1.0], 2)


def test_the_sum_chains():
    space = matrix_domain(9, 1), rows_metric()
    assert [9 * 2**31] == (space >> then_clamped_sum(lower=0.0, upper=2.0))(np.ones((9, 1)))


# Allocation.


def test_equal_allocation_gives_every_width_the_full_units():
    assert [FULL_UNITS, FULL_UNITS, 0] == allocated_units([1e-300, 1e200, 0.0], 1.0).tolist()


@pytest.mark.parametrize(
    ("exponent", "part"), [(0.5, 2**-4), (0.75, 2**-2), (1.0, 1)], ids=["least", "middle", "equal"]
)
def test_units_go_by_the_width_to_one_minus_the_exponent(exponent, part):
    units = allocated_units([256.0, 1.0], exponent)
    assert [FULL_UNITS, part * FULL_UNITS] == units.tolist()


def test_no_width_has_fewer_units_than_the_least():
    assert [FULL_UNITS, LEAST_UNITS] == allocated_units([1e200, 5e-324], 0.5).tolist()


def test_no_widths_have_no_units():
    assert [0, 0] == allocated_units([0.0, 0.0], 0.5).tolist()


@pytest.mark.parametrize("exponent", [0.49, 1.01, math.nan, math.inf, -math.inf])
def test_an_exponent_outside_its_range_is_refused(exponent):
    with pytest.raises(ValueError, match=r"^exponent must be in \[0\.5, 1\]; got .*\. Use 1 for"):
        allocated_units([1.0], exponent)


def with_units(units, *, rows=5):
    return make_clamped_sum(
        matrix_domain(rows, 2), rows_metric(), lower=[2.0, 0.0], upper=[4.0, 1.0], units=units
    )


def test_values_become_integers_up_to_their_units():
    values = np.array([[1.0, 1.0], [3.0, 1.0], [4.0, 0.0], [9.0, 0.0], [2.0, np.nan]])
    assert [2**20 * 5 // 2, 2 * 2**30] == with_units([2**20, 2**30])(values)


def test_means_and_noise_are_read_back_by_their_units():
    limits = Limits.of([2.0, 0.0], [4.0, 1.0], 2, [2**20, 2**30])
    assert [3.0, 0.25] == limits.means([2**22, 2**31], 8).tolist()
    assert [0.25, 2**-13] == limits.noise(2.0**20, 8).tolist()


def test_a_column_without_units_is_its_lower_bound():
    limits = Limits.of(3.0, 3.0, 1, [0])
    assert [3.0] == limits.means([0], 8).tolist()
    assert [0.0] == limits.noise(2.0**40, 8).tolist()


def test_the_sensitivity_is_the_norm_of_the_units():
    assert [0.0, 5 * 2**20, 15 * 2**20] == [
        with_units([3 * 2**20, 4 * 2**20]).map(d) for d in (0, 1, 3)
    ]


@pytest.mark.parametrize(
    "units",
    [[1, 2, 3], [[1, 2]], -1, FULL_UNITS + 1, 0.5, [2.0, 3.0], [True, False], None],
    ids=str,
)
def test_units_that_are_no_integers_of_the_range_are_refused(units):
    with pytest.raises(
        ValueError, match=r"^units must be integers in 0 \.\. 2\^32, one or one for"
    ):
        with_units(units)
