import math
import re
from fractions import Fraction

import numpy as np
import pytest
from opendp.mod import OpenDPException
from pydantic import ValidationError

from accountant.errors import InvalidValue
from dppca_odp.primitives.quantiles import (
    Quantile,
    SearchGrid,
    counts_below,
    make_signed_quantile,
    make_unbounded_quantile,
    signed_answer,
    then_signed_quantile,
    then_unbounded_quantile,
)
from dppca_odp.spaces import matrix_domain, rows_metric

NO_NOISE = 1e4  # at this rate a geometric draw is 0 but for one time in e^10000


def quantile(
    rows=9, columns=1, *, column=0, level=0.5, points=(1, 2, 4, 8), target=NO_NOISE, counts=NO_NOISE
):
    return make_unbounded_quantile(
        matrix_domain(rows, columns),
        rows_metric(),
        column=column,
        quantile=level,
        points=points,
        epsilon_target=target,
        epsilon_counts=counts,
    )


def signed(rows=9, columns=1, **changes):
    asked = {"column": 0, "level": 0.5, "points": (1, 2, 4, 8)}
    asked |= {"target": NO_NOISE, "counts": NO_NOISE} | changes
    return make_signed_quantile(
        matrix_domain(rows, columns),
        rows_metric(),
        column=asked["column"],
        quantile=asked["level"],
        points=asked["points"],
        epsilon_target=asked["target"],
        epsilon_counts=asked["counts"],
    )


def test_the_default_grid_is_the_sources():
    points = SearchGrid().points()
    assert 5000 == len(points)
    assert pytest.approx([0.001, 1.001**2 - 1], rel=1e-9) == points[[0, 1]]
    assert pytest.approx(1.001**5000 - 1, rel=1e-9) == points[-1]
    assert 147.04 == round(points[-1], 2)


def test_grid_points_start_at_lower_and_grow_by_unit_and_beta():
    points = SearchGrid(lower=-2, unit=3, beta=2, steps=3).points()
    assert pytest.approx([-2 + 3, -2 + 9, -2 + 21], rel=1e-12) == points


@pytest.mark.parametrize(
    ("grid", "name"),
    [
        ({"beta": 1}, "beta"),
        ({"beta": 0.5}, "beta"),
        ({"beta": float("inf")}, "beta"),
        ({"unit": 0}, "unit"),
        ({"unit": -1}, "unit"),
        ({"steps": 0}, "steps"),
        ({"steps": 1_000_001}, "steps"),
        ({"lower": float("nan")}, "lower"),
        ({"base": 2}, "base"),
    ],
)
def test_a_grid_that_is_no_grid_is_refused(grid, name):
    with pytest.raises(ValidationError, match=f"(?m)^{name}$"):
        SearchGrid.model_validate(grid)


def test_a_grid_that_overflows_is_refused():
    with pytest.raises(InvalidValue, match="beta and steps must keep the grid finite"):
        SearchGrid(beta=2, steps=2000)


def test_a_grid_too_fine_for_floats_is_refused():
    with pytest.raises(InvalidValue, match="beta and unit must give increasing grid points"):
        SearchGrid(lower=1e12, unit=1e-9)


def test_counts_are_strict():
    values = np.array([1.0, 2.0, 2.0, 3.0])
    assert [0, 1, 3, 4] == counts_below(values, np.array([1.0, 2.0, 2.5, 9.0]))


def test_nan_is_above_every_point_and_infinities_are_at_the_ends():
    values = np.array([np.nan, np.inf, -np.inf])
    assert [1, 1] == counts_below(values, np.array([0.0, 1e308]))


def test_without_noise_the_answer_is_the_first_point_with_more_than_its_share_below():
    values = np.array([[0.5], [0.6], [1.5], [1.6], [1.7], [3.0], [5.0], [6.0], [7.0]])
    assert Quantile(1.0, capped=False) == quantile(level=0.1)(values)
    assert Quantile(2.0, capped=False) == quantile(level=0.5)(values)
    assert Quantile(4.0, capped=False) == quantile(level=0.6)(values)
    assert Quantile(8.0, capped=False) == quantile(level=0.99)(values)


def test_a_search_that_ends_without_an_answer_says_so():
    assert Quantile(8.0, capped=True) == quantile()(np.full((9, 1), 1e9))


def test_the_last_point_can_also_be_an_answer():
    assert Quantile(8.0, capped=False) == quantile()(np.full((9, 1), 7.0))


def test_only_the_named_column_is_searched():
    table = np.column_stack([np.full(9, 1e9), np.full(9, 3.0)])
    assert Quantile(4.0, capped=False) == quantile(columns=2, column=1)(table)


def test_a_search_longer_than_one_batch_of_noise_goes_on():
    points = np.arange(1.0, 2001.0)
    assert Quantile(1501.0, capped=False) == quantile(points=points)(np.full((9, 1), 1500.5))


@pytest.mark.parametrize("fill", [np.nan, np.inf, -np.inf, 1e308])
def test_every_float_is_answered(fill):
    answer = quantile()(np.full((9, 1), fill))
    assert answer == (Quantile(1.0, capped=False) if fill < 0 else Quantile(8.0, capped=True))


def test_a_row_costs_the_sum_of_both_rates_and_rows_add():
    search = quantile(target=0.25, counts=0.5)
    assert [0.0, 0.75, 1.5, 6.75] == [search.map(d) for d in (0, 1, 2, 9)]


def test_no_more_rows_can_change_than_there_are():
    search = quantile(target=0.25, counts=0.5)
    assert search.map(9) == search.map(1000)


def test_a_rate_whose_inverse_is_no_float_is_rounded_to_more_noise():
    assert quantile(target=0.3, counts=0.3).map(1) <= 0.6


@pytest.mark.parametrize("column", [-1, 1])
def test_an_unknown_column_is_refused(column):
    with pytest.raises(
        ValueError, match=f"^column must be between 0 and 0; got {column}. Count from 0.$"
    ):
        quantile(column=column)


@pytest.mark.parametrize("level", [0.0, 1.0, -0.1, 1.1, float("nan")])
def test_a_quantile_outside_0_to_1_is_refused(level):
    with pytest.raises(
        ValueError, match=rf"^quantile must be in \(0, 1\); got {level}\. Use 0\.5 for the median"
    ):
        quantile(level=level)


@pytest.mark.parametrize("points", [[], [[1.0, 2.0]], [1.0, float("inf")], [float("nan")]], ids=str)
def test_points_that_are_no_list_of_finite_numbers_are_refused(points):
    with pytest.raises(
        ValueError,
        match=r"^points must be a list of finite numbers; got shape \(.* Use SearchGrid\.$",
    ):
        quantile(points=points)


@pytest.mark.parametrize("points", [[1.0, 1.0], [2.0, 1.0]])
def test_points_that_do_not_increase_are_refused(points):
    with pytest.raises(ValueError, match=r"^points must increase; got some that do not\. Sort"):
        quantile(points=points)


@pytest.mark.parametrize(
    "rate", [0.0, -1.0, float("inf"), float("nan"), 5e-324, math.nextafter(2.0**-40, 0)]
)
@pytest.mark.parametrize(("key", "name"), [("target", "_target"), ("counts", "_counts")])
def test_a_rate_below_the_least_is_refused_before_any_data(key, name, rate):
    expected = re.escape(
        f"epsilon{name} must be at least 2^-40 and finite; got {rate}. Give a larger share."
    )
    for make in (quantile, signed):
        with pytest.raises(ValueError, match=f"^{expected}$"):
            make(**{key: rate})


def test_the_least_rate_is_answered():
    search = quantile(target=2.0**-40, counts=2.0**-40)
    assert 2.0**-39 == search.map(1)
    assert search(np.zeros((9, 1))).value in (1.0, 2.0, 4.0, 8.0)


@pytest.mark.parametrize(
    ("rows", "level", "target"),
    [(9, 0.5, 4), (10, 0.5, 5), (10, 0.1, 1), (10, 0.3, 2), (10, 0.7, 6), (3, 0.999, 2)],
)
def test_the_target_is_the_level_of_the_rows_rounded_down_exactly(rows, level, target):
    assert target == math.floor(Fraction(level) * rows)
    search = quantile(rows, level=level, points=[1.0])
    for below in range(rows + 1):
        values = np.r_[np.zeros(below), np.full(rows - below, 9.0)][:, None]
        assert (below <= target) == search(values).capped


def test_the_target_of_many_rows_is_exact():
    # 0.3 of 10^6 rows is 299,999.999...; in floating point the product is 300,000
    rows = 10**6
    values = np.r_[np.zeros(300_000), np.full(rows - 300_000, 9.0)][:, None]
    assert Quantile(1.0, capped=False) == quantile(rows, level=0.3, points=[1.0])(values)


def test_a_table_of_another_shape_is_refused_without_its_values():
    for make in (quantile, signed):
        with pytest.raises(OpenDPException, match="the matrix must be 9 by 1; got") as caught:
            make()(np.full((8, 1), 31337.25))
        assert "31337" not in str(caught.value)


class TestSignedQuantile:
    @pytest.mark.parametrize("sign", [1, -1])
    def test_without_noise_the_answer_has_the_sign_of_the_median(self, sign):
        values = np.array([[0.5], [0.6], [3.1], [3.2], [3.3], [3.4], [5.0], [6.0], [7.0]])
        assert Quantile(4.0 * sign, capped=False) == signed()(sign * values)

    def test_levels_are_those_of_the_signed_values(self):
        values = np.array([[-7.0], [-7.0], [-3.0], [0.0], [0.0], [0.0], [3.0], [7.0], [7.0]])
        assert Quantile(-8.0, capped=False) == signed(level=0.2)(values)
        assert Quantile(8.0, capped=False) == signed(level=0.8)(values)
        assert Quantile(0.0, capped=False) == signed(level=0.5)(values)

    @pytest.mark.parametrize(
        ("up", "down", "expected"),
        [
            (0, 0, Quantile(0.0, capped=False)),
            (2, 0, Quantile(4.0, capped=False)),
            (0, 3, Quantile(-8.0, capped=False)),
            (2, 3, Quantile(-2.0, capped=False)),
            (None, 0, Quantile(0.0, capped=True)),
            (None, 1, Quantile(-2.0, capped=True)),
            (1, None, Quantile(2.0, capped=True)),
            (None, None, Quantile(0.0, capped=True)),
        ],
        ids=str,
    )
    def test_two_searches_become_one_answer(self, up, down, expected):
        assert expected == signed_answer(up, down, np.array([1.0, 2.0, 4.0, 8.0]))

    @pytest.mark.parametrize("fill", [np.inf, -np.inf, 1e308])
    def test_every_float_is_answered(self, fill):
        answer = signed()(np.full((9, 1), fill))
        assert math.isfinite(answer.value)
        assert answer.capped

    def test_nan_counts_as_zero(self):
        assert Quantile(0.0, capped=False) == signed()(np.full((9, 1), np.nan))

    def test_only_the_named_column_is_searched(self):
        table = np.column_stack([np.full(9, 1e9), np.full(9, -3.0)])
        assert Quantile(-4.0, capped=False) == signed(columns=2, column=1)(table)

    def test_a_row_costs_one_target_and_two_counts_and_rows_add(self):
        search = signed(target=0.25, counts=0.5)
        assert [0.0, 1.25, 2.5, 11.25] == [search.map(d) for d in (0, 1, 2, 9)]
        assert search.map(9) == search.map(1000)

    @pytest.mark.parametrize("points", [[0.0, 1.0], [-1.0, 1.0]])
    def test_points_that_are_not_positive_are_refused(self, points):
        expected = f"^points must be positive for signed values; got {points[0]}. Use lower 0.$"
        with pytest.raises(ValueError, match=expected):
            signed(points=points)

    @pytest.mark.parametrize("level", [0.0, 1.0, float("nan")])
    def test_a_quantile_outside_0_to_1_is_refused(self, level):
        with pytest.raises(ValueError, match=rf"^quantile must be in \(0, 1\); got {level}"):
            signed(level=level)

    def test_it_chains(self):
        chain = (matrix_domain(9, 1), rows_metric()) >> then_signed_quantile(
            column=0, quantile=0.5, points=[1.0], epsilon_target=0.5, epsilon_counts=0.25
        )
        assert 1.0 == chain.map(1)


def test_the_search_chains():
    space = matrix_domain(9, 1), rows_metric()
    chain = space >> then_unbounded_quantile(
        column=0, quantile=0.5, points=[1.0], epsilon_target=0.5, epsilon_counts=0.5
    )
    assert 1.0 == chain.map(1)
