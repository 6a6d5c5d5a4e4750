import warnings

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from dppca_odp.values import (
    LARGEST_BOUND,
    LARGEST_VALUE,
    Bound,
    Finite,
    Positive,
    as_matrix,
    clamp,
)


class Table:
    """A table that another library holds."""

    def __array__(self, dtype=None, copy=None):
        return np.array([[1, 2], [3, 4]], dtype=dtype)


def test_the_limits_are_those_of_the_proofs():
    assert (1e100, 1e200) == (LARGEST_VALUE, LARGEST_BOUND)


def test_every_float_is_clamped_to_a_finite_range():
    wild = np.array([np.nan, np.inf, -np.inf, 1e308, -1e308, 2.5])
    expected = [0.0, LARGEST_VALUE, -LARGEST_VALUE, LARGEST_VALUE, -LARGEST_VALUE, 2.5]
    assert expected == clamp(wild).tolist()


def test_clamping_leaves_the_table_as_it_was():
    table = np.array([[np.inf], [1.0]])
    assert clamp(table) is not table
    assert [[np.inf], [1.0]] == table.tolist()


@pytest.mark.parametrize("kind", [np.float32, np.int8, np.uint64, np.bool_, np.longdouble])
def test_other_numbers_become_64_bit_floats(kind):
    numbers = np.array([[0, 1], [1, 0]], dtype=kind)
    for found in (clamp(numbers), as_matrix(numbers, 2, 2)):
        assert np.float64 == found.dtype
        assert [[0.0, 1.0], [1.0, 0.0]] == found.tolist()


def test_numbers_beyond_all_floats_are_converted_without_a_warning():
    huge = np.array([[np.longdouble("1e4000"), -np.longdouble("1e4000")]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [[LARGEST_VALUE, -LARGEST_VALUE]] == clamp(huge).tolist()
        assert [[np.inf, -np.inf]] == as_matrix(huge, 1, 2).tolist()


@pytest.mark.parametrize("table", [[[1, 2], [3, 4]], Table()], ids=["lists", "an array protocol"])
def test_what_turns_into_an_array_is_a_matrix(table):
    assert [[1.0, 2.0], [3.0, 4.0]] == as_matrix(table, 2, 2).tolist()


def test_a_matrix_of_floats_is_not_copied():
    table = np.zeros((2, 2))
    assert as_matrix(table, 2, 2) is table


def test_every_float_is_a_member():
    table = np.array([[np.nan, np.inf], [-np.inf, 1e308]])
    assert np.array_equal(table, as_matrix(table, 2, 2), equal_nan=True)


@pytest.mark.parametrize("shape", [(2, 2), (3, 1), (2, 3), (6,), (), (3, 2, 1)], ids=str)
def test_a_matrix_of_another_shape_is_refused_without_its_values(shape):
    with pytest.raises(ValueError, match="must be") as caught:
        as_matrix(np.full(shape, 31337.25), 3, 2)
    expected = (
        f"the matrix must be 3 by 2; got shape {shape}. Build the measurement for this shape."
    )
    assert expected == str(caught.value)


@pytest.mark.parametrize(
    ("kind", "refused"),
    [
        (Finite, [float("nan"), float("inf"), -float("inf")]),
        (Positive, [0.0, -1.0, float("nan"), float("inf")]),
        (Bound, [1.0000001e200, -1.0000001e200, float("nan"), float("inf")]),
    ],
    ids=["finite", "positive", "bound"],
)
def test_public_numbers_out_of_range_are_refused(kind, refused):
    for value in refused:
        with pytest.raises(ValidationError):
            TypeAdapter(kind).validate_python(value)


@pytest.mark.parametrize(
    ("kind", "accepted"),
    [(Finite, [-1e308, 0.0]), (Positive, [5e-324, 1e308]), (Bound, [-1e200, 0.0, 1e200])],
    ids=["finite", "positive", "bound"],
)
def test_public_numbers_at_the_end_of_their_range_are_kept(kind, accepted):
    assert accepted == [TypeAdapter(kind).validate_python(value) for value in accepted]
