import numpy as np
import pytest

from dppca_odp.primitives.pairs import (
    BLOCK_ROWS,
    LARGEST_VALUE,
    Pairing,
    check_shape,
    draw_pairing,
    hold,
    make_half_squared_differences,
    make_part_of_pairs,
    make_projection,
    ring_degree,
    then_half_squared_differences,
    then_part_of_pairs,
    then_projection,
)
from dppca_odp.spaces import matrix_domain, rows_metric


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
    assert neighbours(in_file_order(6, 1)) == [(0, 1), (2, 3), (4, 5)]


def test_an_odd_table_leaves_one_row_idle():
    assert neighbours(in_file_order(7, 1)) == [(0, 1), (2, 3), (4, 5)]


def test_a_ring_of_degree_two_pairs_each_row_with_the_next():
    assert neighbours(in_file_order(5, 2)) == [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)]


@pytest.mark.parametrize(("rows", "degree"), [(3, 2), (8, 2), (9, 4), (9, 8), (12, 10)])
def test_every_row_of_a_ring_is_in_degree_different_pairs(rows, degree):
    pairs = neighbours(draw_pairing(rows, degree))
    assert len(pairs) == rows * degree // 2 == draw_pairing(rows, degree).pairs
    assert len({frozenset(pair) for pair in pairs}) == len(pairs)
    counts = np.bincount(np.array(pairs).ravel(), minlength=rows)
    assert counts.tolist() == [degree] * rows


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
    with pytest.raises(ValueError, match=f"rows must be at least 2; got {rows}"):
        Pairing(rows, 1, np.arange(max(rows, 0)))


@pytest.mark.parametrize("degree", [-2, 0, 3, 6])
def test_a_degree_that_no_ring_has_is_refused(degree):
    with pytest.raises(ValueError, match=f"degree must be 1, or even .* got {degree} for 6 rows"):
        in_file_order(6, degree)


@pytest.mark.parametrize("order", [[0, 1, 1], [0, 1], [1, 2, 3]])
def test_an_order_that_is_no_permutation_is_refused(order):
    with pytest.raises(ValueError, match="order must be a permutation of the row positions"):
        Pairing(3, 1, np.array(order))


@pytest.mark.parametrize(
    ("rows", "asked", "given"), [(100, 16, 16), (17, 16, 16), (16, 16, 14), (4, 16, 2), (3, 2, 2)]
)
def test_the_degree_is_fitted_to_a_small_table(rows, asked, given):
    assert ring_degree(rows, asked) == given


def test_a_ring_needs_three_rows():
    with pytest.raises(ValueError, match="rows must be at least 3 for a ring; got 2"):
        ring_degree(2, 16)


@pytest.mark.parametrize("degree", [0, 1, 3, -2])
def test_the_degree_asked_of_a_ring_must_be_even(degree):
    with pytest.raises(ValueError, match=f"degree must be even and at least 2; got {degree}"):
        ring_degree(100, degree)


def test_every_float_is_held_in_a_finite_range():
    wild = np.array([np.nan, np.inf, -np.inf, 1e308, -1e308, 2.5])
    limit = LARGEST_VALUE
    assert hold(wild).tolist() == [0.0, limit, -limit, limit, -limit, 2.5]


def test_holding_leaves_the_table_as_it_was():
    table = np.array([[np.inf], [1.0]])
    make_projection(matrix_domain(2, 1), rows_metric(), directions=[[1.0]])(table)
    assert table.tolist() == [[np.inf], [1.0]]


def test_a_table_of_another_shape_is_refused_without_its_values():
    with pytest.raises(ValueError, match=r"^the table must be 3 by 2\.$"):
        check_shape(np.full((2, 2), 31337.25), 3, 2)


def test_projection_gives_coordinates_along_directions():
    directions = np.array([[0.6, 0.8], [0.8, -0.6]])
    project = make_projection(matrix_domain(2, 2), rows_metric(), directions=directions)
    assert np.allclose(project(np.array([[3.0, 4.0], [1.0, 0.0]])), [[5.0, 0.0], [0.6, 0.8]])


def test_projection_does_not_depend_on_blocks():
    rows = BLOCK_ROWS + 3
    table = np.random.default_rng(1).normal(size=(rows, 2))
    directions = [[0.6], [0.8]]
    project = make_projection(matrix_domain(rows, 2), rows_metric(), directions=directions)
    assert np.allclose(project(table), table @ np.array(directions))


def test_projection_answers_tables_that_are_not_finite():
    project = make_projection(matrix_domain(2, 2), rows_metric(), directions=np.eye(2))
    answer = project(np.array([[np.nan, np.inf], [1e308, -np.inf]]))
    assert answer.tolist() == [[0.0, LARGEST_VALUE], [LARGEST_VALUE, -LARGEST_VALUE]]


@pytest.mark.parametrize(
    "directions",
    [[1.0, 0.0], [[1.0, 0.0]], np.ones((2, 3)), np.ones((2, 0)), np.ones((3, 1))],
    ids=["a vector", "too few rows", "k above p", "k = 0", "too many rows"],
)
def test_directions_of_another_shape_are_refused(directions):
    with pytest.raises(ValueError, match=r"directions must have one row per column \(2\)"):
        make_projection(matrix_domain(4, 2), rows_metric(), directions=directions)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_directions_that_are_not_finite_are_refused(bad):
    with pytest.raises(ValueError, match="directions must be finite"):
        make_projection(matrix_domain(4, 2), rows_metric(), directions=[[bad], [0.0]])


def test_half_squared_differences_are_the_sources_w():
    halve = make_half_squared_differences(
        matrix_domain(4, 2), rows_metric(), pairing=in_file_order(4, 1)
    )
    w = halve(np.array([[1.0, 0.0], [4.0, 2.0], [5.0, 5.0], [5.0, 9.0]]))
    assert w.tolist() == [[4.5, 2.0], [0.0, 8.0]]


@pytest.mark.parametrize("degree", [2, 4, 10])
def test_the_mean_over_the_complete_ring_is_the_sample_variance(degree):
    rows = degree + 1
    table = np.random.default_rng(2).normal(size=(rows, 3))
    halve = make_half_squared_differences(
        matrix_domain(rows, 3), rows_metric(), pairing=draw_pairing(rows, degree)
    )
    assert np.allclose(halve(table).mean(axis=0), table.var(axis=0, ddof=1))


@pytest.mark.parametrize("degree", [1, 2])
def test_half_squared_differences_of_the_largest_floats_are_finite(degree):
    halve = make_half_squared_differences(
        matrix_domain(3, 1), rows_metric(), pairing=in_file_order(3, degree)
    )
    w = halve(np.array([[1e308], [-1e308], [np.nan]]))
    assert w[0].tolist() == [2 * LARGEST_VALUE**2]
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
    assert [halve.map(d) for d in (0, 1, 2, 5, 9)] == expected


def test_a_pairing_for_another_number_of_rows_is_refused():
    with pytest.raises(ValueError, match="pairing must be for 10 rows; got 8"):
        make_half_squared_differences(
            matrix_domain(10, 1), rows_metric(), pairing=in_file_order(8, 1)
        )


def test_a_part_of_pairs_is_an_interval_of_positions():
    part = make_part_of_pairs(matrix_domain(5, 1), rows_metric(), start=1, stop=4)
    assert part(np.arange(5.0)[:, None]).ravel().tolist() == [1.0, 2.0, 3.0]
    assert [part.map(d) for d in (0, 1, 3, 5)] == [0, 1, 3, 3]


@pytest.mark.parametrize(("start", "stop"), [(-1, 2), (2, 2), (3, 2), (0, 6)])
def test_a_part_outside_the_pairs_is_refused(start, stop):
    with pytest.raises(ValueError, match=f"start and stop .* 0 to 5; got {start}, {stop}"):
        make_part_of_pairs(matrix_domain(5, 1), rows_metric(), start=start, stop=stop)


def test_the_parts_chain_from_rows_to_pairs():
    chain = (
        (matrix_domain(10, 2), rows_metric())
        >> then_projection(directions=[[1.0], [0.0]])
        >> then_half_squared_differences(pairing=in_file_order(10, 1))
        >> then_part_of_pairs(start=0, stop=2)
    )
    table = np.column_stack([np.arange(10.0), np.full(10, 1e9)])
    assert chain(table).tolist() == [[0.5], [0.5]]
    assert chain.map(3) == 2
