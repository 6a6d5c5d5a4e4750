import tracemalloc

import numpy as np
import pytest

from dppca_odp.primitives.blocks import BLOCK_ROWS, InBlocks, blocks_of
from dppca_odp.primitives.pairs import draw_pairing, make_half_squared_differences
from dppca_odp.primitives.sums import then_clamped_sum
from dppca_odp.spaces import matrix_domain, rows_metric

COLUMNS = 5


def peak_bytes(action):
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def ring_of(rows, degree):
    return make_half_squared_differences(
        matrix_domain(rows, COLUMNS), rows_metric(), pairing=draw_pairing(rows, degree)
    )


def table_of(rows):
    return np.random.default_rng(31).normal(size=(rows, COLUMNS))


@pytest.mark.parametrize("rows", [1, BLOCK_ROWS, 2 * BLOCK_ROWS + 7])
def test_blocks_of_a_stored_matrix_are_its_rows(rows):
    table = table_of(rows)
    blocks = list(blocks_of(table, rows, COLUMNS))
    assert max(map(len, blocks)) <= BLOCK_ROWS
    assert np.array_equal(table, np.concatenate(blocks))


@pytest.mark.parametrize("degree", [1, 2, 16])
def test_blocks_of_pairs_are_its_rows_twice_over(degree):
    rows = 2 * BLOCK_ROWS + 7
    pairs = ring_of(rows, degree)(table_of(rows))
    assert isinstance(pairs, InBlocks)
    for _ in "12":
        blocks = list(blocks_of(pairs, *pairs.shape))
        assert max(map(len, blocks)) <= BLOCK_ROWS
        assert np.array_equal(np.asarray(pairs), np.concatenate(blocks))


@pytest.mark.parametrize("degree", [1, 4])
def test_a_block_may_be_overwritten(degree):
    rows = 100
    table = table_of(rows)
    pairs = ring_of(rows, degree)(table)
    for values in (table, pairs):
        before = np.array(values)
        for block in blocks_of(values, *values.shape):
            block[:] = np.nan
        assert np.array_equal(before, np.asarray(values))


@pytest.mark.parametrize("degree", [None, 1, 4])
def test_another_shape_is_refused_before_a_block_is_made(degree):
    values = table_of(20) if degree is None else ring_of(20, degree)(table_of(20))
    expected = rf"the matrix must be 9 by 5; got shape \({len(np.asarray(values))}, 5\)\. Build"
    with pytest.raises(ValueError, match=expected):
        blocks_of(values, 9, COLUMNS)


def test_a_pass_over_a_ring_holds_less_than_a_tenth_of_its_pairs():
    rows, degree = 200_000, 16
    ring, table = ring_of(rows, degree), table_of(rows)
    total = (ring.output_domain, ring.output_metric) >> then_clamped_sum(lower=0.0, upper=9.0)
    pairs = ring(table)
    all_of_it = 8 * rows * degree // 2 * COLUMNS
    assert peak_bytes(lambda: total(pairs)) < all_of_it / 10
    assert peak_bytes(lambda: np.asarray(pairs)) >= all_of_it


@pytest.mark.parametrize("degree", [16, 64])
def test_from_rows_to_a_sum_little_is_held_besides_the_rows(degree):
    rows = 200_000
    ring, table = ring_of(rows, degree), table_of(rows)
    chain = ring >> then_clamped_sum(lower=0.0, upper=9.0)
    assert table.nbytes <= peak_bytes(lambda: chain(table)) < 1.2 * table.nbytes
