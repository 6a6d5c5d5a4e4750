import numpy as np
import pytest

from dppca_odp.primitives.postprocess import (
    nonincreasing,
    nonnegative,
    proportions_of_variance,
)

# Worked by hand: 0, 2, 3 pool to their mean 5/3; the sum is 11.
RAW = [5.0, -0.2, 2.0, 3.0, 1.0]
NONNEGATIVE = [5.0, 0.0, 2.0, 3.0, 1.0]
NONINCREASING = [5.0, 5 / 3, 5 / 3, 5 / 3, 1.0]
PROPORTIONS = [5 / 11, 5 / 33, 5 / 33, 5 / 33, 1 / 11]


def test_a_negative_variance_becomes_zero():
    assert NONNEGATIVE == nonnegative(RAW).tolist()


def test_the_nearest_nonincreasing_sequence_pools_what_rises():
    assert pytest.approx(NONINCREASING, rel=1e-12) == nonincreasing(NONNEGATIVE)


def test_a_sequence_that_falls_already_is_kept():
    assert [4.0, 4.0, 1.0, 0.0] == nonincreasing([4.0, 4.0, 1.0, 0.0]).tolist()


def test_pooling_keeps_the_sum():
    values = np.random.default_rng(3).exponential(size=9)
    assert pytest.approx(values.sum(), rel=1e-12) == nonincreasing(values).sum()


def test_proportions_are_shares_of_the_reported_sum():
    assert pytest.approx(PROPORTIONS, rel=1e-12) == proportions_of_variance(NONINCREASING)


def test_proportions_of_nothing_are_zero():
    assert [0.0, 0.0] == proportions_of_variance([0.0, 0.0]).tolist()


def test_one_component_has_the_whole_variance():
    assert [1.0] == proportions_of_variance(nonincreasing(nonnegative([0.25]))).tolist()


def test_the_input_is_left_as_it_was():
    values = np.array(RAW)
    nonnegative(values)
    nonincreasing(values)
    proportions_of_variance(values)
    assert RAW == values.tolist()
