"""Columns divided by released numbers: a changed row changes that row alone."""

from __future__ import annotations

from functools import cache
from math import inf, nan

import numpy as np
import pytest

from dppca_odp.primitives.columns import make_scaled_columns
from dppca_odp.spaces import matrix_domain, rows_metric
from dppca_odp.values import LARGEST_VALUE

from .exact_laws import neighbouring_results, results_of

ROWS = 4
ALPHABET = ((0.0, 0.0), (2.0, -3.0), (nan, 1e308), (-inf, 5e-324))
SCALES = [(1.0, 1.0), (1e-6, 1e6), (5e-324, 1.7e308), (1e-160, 3.0)]


def scaled(scales):
    return make_scaled_columns(matrix_domain(ROWS, 2), rows_metric(), scales=scales)


@cache
def results(scales):
    divide = scaled(scales)
    return results_of(lambda table: map(tuple, divide(np.array(table)).tolist()), ALPHABET, ROWS)


def rows_differ(one, other) -> int:
    return sum(row != others for row, others in zip(one, other, strict=True))


def most_rows_differ(answers, changed: int) -> int:
    pairs = neighbouring_results(answers, len(ALPHABET), changed)
    return max(rows_differ(*both) for both in pairs)


def quotient(value: float, scale: float) -> float:
    """From the definition, one number at a time."""

    def held(number: float) -> float:
        return 0.0 if number != number else min(max(number, -LARGEST_VALUE), LARGEST_VALUE)

    return held(held(value) / scale)


@pytest.mark.parametrize("scales", SCALES)
def test_rows_are_those_of_the_definition(scales):
    expected = results_of(
        lambda table: (tuple(map(quotient, row, scales)) for row in table), ALPHABET, ROWS
    )
    assert expected == results(scales)


@pytest.mark.parametrize("scales", SCALES)
@pytest.mark.parametrize("changed", [1, 2, 3])
def test_as_many_rows_differ_as_the_map_says(scales, changed):
    assert scaled(scales).map(changed) == most_rows_differ(results(scales), changed)


def test_scales_from_the_table_itself_would_exceed_the_map():
    def divide_by_its_own(table):
        matrix = np.nan_to_num(np.array(table), posinf=1.0, neginf=-1.0)
        return map(tuple, (matrix / (1 + np.abs(matrix).max(axis=0))).tolist())

    own = results_of(divide_by_its_own, ALPHABET, ROWS)
    assert most_rows_differ(own, 1) > scaled((1.0, 1.0)).map(1)
