import re

import numpy as np
import pytest
from opendp.mod import OpenDPException

from dppca_odp.primitives.blocks import BLOCK_ROWS
from dppca_odp.primitives.columns import then_projection
from dppca_odp.primitives.pairs import (
    Pairing,
    draw_pairing,
    make_half_squared_differences,
    make_part_of_pairs,
    number_of_pairs,
    ring_degree,
    then_half_squared_differences,
    then_part_of_pairs,
)
from dppca_odp.spaces import matrix_domain, rows_metric
from dppca_odp.values import LARGEST_VALUE


def in_file_order(rows, degree):
    return Pairing(rows, degree, np.arange(rows))


def neighbours(pairing):
    """The pairs of row numbers, found by pairing powers of two."""
    differences = np.concatenate([*pairing.differences(2.0 ** np.arange(pairing.rows)[:, None])])
    pairs = []
    for value in np.abs(differences.ravel()):
        low = int(value) & -int(value)
        pairs.append((low.bit_length() - 1, (int(value) + low).bit_length() - 1))
    return pairs


def test_disjoint_pairs_use_each_row_once():
    assert [(0, 1), (2, 3), (4, 5)] == neighbours(in_file_order(6, 1))


def test_an_odd_table_leaves_one_row_idle():
    assert [(0, 1), (2, 3), (4, 5)] == neighbours(in_file_order(7, 1))


def test_a_ring_of_degree_two_pairs_each_row_with_the_next():
    assert [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)] == neighbours(in_file_order(5, 2))


@pytest.mark.parametrize(("rows", "degree"), [(3, 2), (8, 2), (9, 4), (9, 8), (12, 10)])
def test_every_row_of_a_ring_is_in_degree_different_pairs(rows, degree):
    pairs = neighbours(draw_pairing(rows, degree))
    assert len(pairs) == rows * degree // 2 == draw_pairing(rows, degree).pairs
    assert len(pairs) == number_of_pairs(rows, degree)
    assert len({frozenset(pair) for pair in pairs}) == len(pairs)
    counts = np.bincount(np.array(pairs).ravel(), minlength=rows)
    assert counts.tolist() == [degree] * rows


@pytest.mark.parametrize(("rows", "expected"), [(0, 0), (1, 0), (2, 1), (3, 1), (10, 5), (11, 5)])
def test_disjoint_pairs_are_half_as_many_as_rows_rounded_down(rows, expected):
    assert expected == number_of_pairs(rows, 1)


@pytest.mark.parametrize("degree", [1, 6])
def test_blocks_do_not_change_the_pairs(degree):
    rows = 2 * BLOCK_ROWS + 7
    pairing = draw_pairing(rows, degree)
    values = np.arange(rows, dtype=float)[:, None]
    found = np.sort(np.abs(np.concatenate([*pairing.differences(values)]).ravel()))
    shuffled = values[pairing.order, 0]
    if degree == 1:
        expected = shuffled[0 : rows - 1 : 2] - shuffled[1:rows:2]
    else:
        expected = np.concatenate([shuffled - np.roll(shuffled, -s) for s in (1, 2, 3)])
    assert np.array_equal(np.sort(np.abs(expected)), found)


def test_the_order_is_fresh_at_every_draw():
    assert not np.array_equal(draw_pairing(1000, 1).order, draw_pairing(1000, 1).order)


@pytest.mark.parametrize("rows", [-1, 0, 1])
def test_a_pairing_needs_two_rows(rows):
    with pytest.raises(
        ValueError, match=f"^rows must be at least 2; got {rows}. A pair needs two rows.$"
    ):
        Pairing(rows, 1, np.arange(max(rows, 0)))


@pytest.mark.parametrize("degree", [-2, 0, 3, 6])
def test_a_degree_that_no_ring_has_is_refused(degree):
    with pytest.raises(ValueError, match=f"degree must be 1, or even .* got {degree} for 6 rows"):
        in_file_order(6, degree)


@pytest.mark.parametrize("order", [[0, 1, 1], [0, 1], [1, 2, 3]])
def test_an_order_that_is_no_permutation_is_refused(order):
    with pytest.raises(
        ValueError,
        match=r"^order must be a permutation of 3 positions; got .*\. Use draw_pairing\.$",
    ):
        Pairing(3, 1, np.array(order))


@pytest.mark.parametrize(
    ("rows", "asked", "given"), [(100, 16, 16), (17, 16, 16), (16, 16, 14), (4, 16, 2), (3, 2, 2)]
)
def test_the_degree_is_fitted_to_a_small_table(rows, asked, given):
    assert given == ring_degree(rows, asked)


def test_a_ring_needs_three_rows():
    with pytest.raises(
        ValueError, match=r"^rows must be at least 3 for a ring; got 2\. Give more rows\.$"
    ):
        ring_degree(2, 16)


@pytest.mark.parametrize("degree", [0, 1, 3, -2])
def test_the_degree_asked_of_a_ring_must_be_even(degree):
    with pytest.raises(
        ValueError, match=f"^degree must be even and at least 2; got {degree}. Use 16.$"
    ):
        ring_degree(100, degree)


@pytest.mark.parametrize("degree", [1, 2])
def test_differences_leave_the_table_as_it_was(degree):
    table = np.array([[np.inf], [1.0], [np.nan]])
    list(in_file_order(3, degree).differences(table))
    assert np.array_equal([[np.inf], [1.0], [np.nan]], table, equal_nan=True)


def test_a_table_of_another_shape_is_refused_without_its_values():
    halve = make_half_squared_differences(
        matrix_domain(4, 2), rows_metric(), pairing=in_file_order(4, 1)
    )
    part = make_part_of_pairs(matrix_domain(4, 2), rows_metric(), start=0, stop=2)
    for transformation in (halve, part):
        with pytest.raises(
            OpenDPException, match=r"the matrix must be 4 by 2; got shape"
        ) as caught:
            transformation(np.full((3, 2), 31337.25))
        assert "31337" not in str(caught.value)


def test_half_squared_differences_are_the_sources_w():
    halve = make_half_squared_differences(
        matrix_domain(4, 2), rows_metric(), pairing=in_file_order(4, 1)
    )
    w = halve(np.array([[1.0, 0.0], [4.0, 2.0], [5.0, 5.0], [5.0, 9.0]]))
    assert [[4.5, 2.0], [0.0, 8.0]] == np.asarray(w).tolist()


@pytest.mark.parametrize("degree", [2, 4, 10])
def test_the_mean_over_the_complete_ring_is_the_sample_variance(degree):
    rows = degree + 1
    table = np.random.default_rng(2).normal(size=(rows, 3))
    halve = make_half_squared_differences(
        matrix_domain(rows, 3), rows_metric(), pairing=draw_pairing(rows, degree)
    )
    assert np.allclose(np.asarray(halve(table)).mean(axis=0), table.var(axis=0, ddof=1))


@pytest.mark.parametrize("degree", [1, 2])
def test_half_squared_differences_of_the_largest_floats_are_finite(degree):
    halve = make_half_squared_differences(
        matrix_domain(3, 1), rows_metric(), pairing=in_file_order(3, degree)
    )
    w = np.asarray(halve(np.array([[1e308], [-1e308], [np.nan]])))
    assert [2 * LARGEST_VALUE**2] == w[0].tolist()
    assert np.isfinite(w).all()


@pytest.mark.parametrize(
    ("degree", "expected"),
    [(1, [0, 1, 2, 5, 5]), (4, [0, 4, 8, 20, 20])],
    ids=["disjoint", "ring"],
)
def test_changed_rows_reach_degree_pairs_each_until_all_are_reached(degree, expected):
    halve = make_half_squared_differences(
        matrix_domain(10, 1), rows_metric(), pairing=in_file_order(10, degree)
    )
    assert expected == [halve.map(d) for d in (0, 1, 2, 5, 9)]


def test_a_pairing_for_another_number_of_rows_is_refused():
    with pytest.raises(ValueError, match=r"^pairing must be for 10 rows; got 8\. Draw one"):
        make_half_squared_differences(
            matrix_domain(10, 1), rows_metric(), pairing=in_file_order(8, 1)
        )


def test_a_part_of_pairs_is_an_interval_of_positions():
    part = make_part_of_pairs(matrix_domain(5, 1), rows_metric(), start=1, stop=4)
    assert [1.0, 2.0, 3.0] == part(np.arange(5.0)[:, None]).ravel().tolist()
    assert [0, 1, 3, 3] == [part.map(d) for d in (0, 1, 3, 5)]


@pytest.mark.parametrize(("start", "stop"), [(0, 20), (0, 7), (7, 20), (19, 20)])
def test_a_part_of_pairs_that_are_not_stored_has_the_same_pairs(start, stop):
    pairs = make_half_squared_differences(
        matrix_domain(41, 2), rows_metric(), pairing=draw_pairing(41, 1)
    )
    table = np.random.default_rng(32).normal(size=(41, 2))
    found = np.asarray((pairs >> then_part_of_pairs(start=start, stop=stop))(table))
    assert np.array_equal(np.asarray(pairs(table))[start:stop], found)


def test_a_part_of_a_ring_is_refused():
    ring = make_half_squared_differences(
        matrix_domain(10, 2), rows_metric(), pairing=draw_pairing(10, 4)
    )
    expected = (
        "pairs must be disjoint to be parted; got a ring of degree 4. Draw pairs of degree 1."
    )
    with pytest.raises(OpenDPException, match=re.escape(expected)):
        (ring >> then_part_of_pairs(start=0, stop=7))(np.zeros((10, 2)))


@pytest.mark.parametrize(("start", "stop"), [(-1, 2), (2, 2), (3, 2), (0, 6)])
def test_a_part_outside_the_pairs_is_refused(start, stop):
    with pytest.raises(
        ValueError, match=f"^start and stop must mark .* 0 to 5; got {start} and {stop}. Keep"
    ):
        make_part_of_pairs(matrix_domain(5, 1), rows_metric(), start=start, stop=stop)


def test_the_parts_chain_from_rows_to_pairs():
    chain = (
        (matrix_domain(10, 2), rows_metric())
        >> then_projection(directions=[[1.0], [0.0]])
        >> then_half_squared_differences(pairing=in_file_order(10, 1))
        >> then_part_of_pairs(start=0, stop=2)
    )
    table = np.column_stack([np.arange(10.0), np.full(10, 1e9)])
    assert [[0.5], [0.5]] == np.asarray(chain(table)).tolist()
    assert 2 == chain.map(3)


def test_more_pairs_than_64_bits_can_sum_are_refused_before_an_order_is_drawn():
    with pytest.raises(ValueError, match="pairs must be fewer than 2\\^31; got 2147581952"):
        draw_pairing(65_539, 65_536)
    with pytest.raises(ValueError, match="pairs must be fewer than 2\\^31"):
        draw_pairing(2**28, 16)
