import numpy as np
import pytest
from opendp.mod import OpenDPException

from dppca_odp.primitives.scales import (
    make_dyadic_counts,
    make_dyadic_scale,
    then_dyadic_counts,
    then_dyadic_scale,
)
from dppca_odp.spaces import matrix_domain, rows_metric

NO_NOISE = 1e4


def counts(rows=8, columns=1, *, column=0, blocks=2, lowest=-3, highest=3):
    return make_dyadic_counts(
        matrix_domain(rows, columns),
        rows_metric(),
        column=column,
        blocks=blocks,
        lowest=lowest,
        highest=highest,
    )


def scale(rows=8, columns=1, *, column=0, blocks=2, lowest=-3, highest=3, epsilon=NO_NOISE):
    return make_dyadic_scale(
        matrix_domain(rows, columns),
        rows_metric(),
        column=column,
        blocks=blocks,
        lowest=lowest,
        highest=highest,
        epsilon=epsilon,
    )


def pairs_apart(*halves):
    """Values whose half squared differences, pair by pair, are these."""
    return np.array([[value] for half in halves for value in (0.0, np.sqrt(2 * half))])


@pytest.mark.parametrize(
    ("half", "exponent"),
    [(0.2, -3), (0.5, -1), (0.99, -1), (1.0, 0), (1.99, 0), (2.0, 1), (4.0, 2), (7.99, 2)],
)
def test_a_median_falls_on_the_power_of_two_below_it(half, exponent):
    found = counts(rows=2, blocks=1)(np.array([[0.0], [2.0 * np.sqrt(half / 2)]]))
    assert found == [int(i == exponent + 3) for i in range(7)]


@pytest.mark.parametrize("half", [0.0, 1e-30])
def test_small_medians_are_clamped_to_the_lowest_scale(half):
    assert [1, 0, 0, 0, 0, 0, 0] == counts(rows=2, blocks=1)(pairs_apart(half))


@pytest.mark.parametrize("half", [16.0, 1e300])
def test_large_medians_are_clamped_to_the_highest_scale(half):
    assert [0, 0, 0, 0, 0, 0, 1] == counts(rows=2, blocks=1)(pairs_apart(half))


def test_each_block_counts_its_median_once():
    values = pairs_apart(0.5, 0.5, 4.0, 4.0, 4.0, 0.5)
    assert [0, 0, 1, 0, 0, 1, 0] == counts(rows=12, blocks=2)(values)


def test_what_fills_no_block_is_idle():
    values = np.vstack([pairs_apart(1.0, 1.0, 1.0, 1.0, 8.0), [[1e9]]])
    assert [0, 0, 0, 2, 0, 0, 0] == counts(rows=11, blocks=2)(values)


def test_only_the_named_column_is_counted():
    table = np.column_stack([np.full(4, 1e9), pairs_apart(1.0, 1.0).ravel()])
    assert [0, 0, 0, 2, 0, 0, 0] == counts(rows=4, columns=2, column=1, blocks=2)(table)


@pytest.mark.parametrize("fill", [np.nan, np.inf, -np.inf, 1e308])
def test_every_float_is_answered(fill):
    values = np.zeros((8, 1))
    values[::2] = fill
    assert 2 == sum(counts()(values))


def test_a_changed_value_moves_no_count_by_more_than_one_and_at_most_all_blocks_change():
    assert [0, 1, 2, 2] == [counts(blocks=2).map(d) for d in (0, 1, 2, 8)]


def test_without_noise_the_fullest_scale_wins():
    values = pairs_apart(0.5, 4.0, 4.0, 4.0)
    assert 4.0 == scale(blocks=4)(values)


def test_constant_values_are_on_the_lowest_scale():
    assert 2.0**-10 == scale(lowest=-10, highest=15)(np.ones((8, 1)))


def test_the_price_covers_both_counts_that_a_value_moves():
    measurement = scale(rows=100, blocks=5, epsilon=0.5)
    assert [0.0, 0.5, 1.0, 2.5, 2.5] == [measurement.map(d) for d in (0, 1, 2, 5, 50)]


@pytest.mark.parametrize("epsilon", [0.1, 0.3, 0.7])
def test_the_price_is_never_above_the_epsilon_asked(epsilon):
    assert scale(epsilon=epsilon).map(1) <= epsilon


@pytest.mark.parametrize("column", [-1, 1])
def test_an_unknown_column_is_refused(column):
    with pytest.raises(
        ValueError, match=f"^column must be between 0 and 0; got {column}. Count from 0.$"
    ):
        counts(column=column)


@pytest.mark.parametrize(("lowest", "highest"), [(3, 3), (4, 3), (-1001, 0), (0, 1001)])
def test_scales_out_of_order_or_out_of_reach_are_refused(lowest, highest):
    with pytest.raises(
        ValueError, match=f"^lowest must be under highest.* got {lowest}, {highest}. Widen"
    ):
        counts(lowest=lowest, highest=highest)


@pytest.mark.parametrize("blocks", [0, -1, 5])
def test_blocks_that_cannot_be_filled_are_refused(blocks):
    with pytest.raises(
        ValueError, match=f"^blocks must be between 1 and 4; got {blocks}. Use fewer.$"
    ):
        counts(blocks=blocks)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, float("inf"), float("nan")])
def test_an_epsilon_that_is_not_positive_is_refused(epsilon):
    with pytest.raises(
        ValueError, match=f"^epsilon must be positive and finite; got {epsilon}. Raise the"
    ):
        scale(epsilon=epsilon)


def test_a_table_of_another_shape_is_refused_without_its_values():
    expected = r"the matrix must be 8 by 1; got shape \(8, 2\)"
    with pytest.raises(OpenDPException, match=expected) as caught:
        counts()(np.full((8, 2), 31337.25))
    assert "31337" not in str(caught.value)


def test_counts_and_scale_chain():
    space = matrix_domain(8, 1), rows_metric()
    where = {"column": 0, "blocks": 2, "lowest": -3, "highest": 3}
    assert 2 == (space >> then_dyadic_counts(**where))(pairs_apart(1, 1, 1, 1))[3]
    assert 0.5 == (space >> then_dyadic_scale(**where, epsilon=0.5)).map(1)
