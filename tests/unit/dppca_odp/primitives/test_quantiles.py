import numpy as np
import pytest
from pydantic import ValidationError

from dppca_odp.primitives.quantiles import (
    Quantile,
    SearchGrid,
    counts_below,
    make_unbounded_quantile,
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


def test_the_default_grid_is_the_sources():
    points = SearchGrid().points()
    assert len(points) == 5000
    assert points[[0, 1]] == pytest.approx([0.001, 1.001**2 - 1], rel=1e-9)
    assert points[-1] == pytest.approx(1.001**5000 - 1, rel=1e-9)
    assert round(points[-1], 2) == 147.04


def test_grid_points_start_at_lower_and_grow_by_unit_and_beta():
    points = SearchGrid(lower=-2, unit=3, beta=2, steps=3).points()
    assert points == pytest.approx([-2 + 3, -2 + 9, -2 + 21], rel=1e-12)


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
    with pytest.raises(ValidationError, match="beta and steps must keep the grid finite"):
        SearchGrid(beta=2, steps=2000)


def test_a_grid_too_fine_for_floats_is_refused():
    with pytest.raises(ValidationError, match="beta and unit must give increasing grid points"):
        SearchGrid(lower=1e12, unit=1e-9)


def test_counts_are_strict():
    values = np.array([1.0, 2.0, 2.0, 3.0])
    assert counts_below(values, np.array([1.0, 2.0, 2.5, 9.0])) == [0, 1, 3, 4]


def test_nan_is_above_every_point_and_infinities_are_at_the_ends():
    values = np.array([np.nan, np.inf, -np.inf])
    assert counts_below(values, np.array([0.0, 1e308])) == [1, 1]


def test_without_noise_the_answer_is_the_first_point_with_more_than_its_share_below():
    values = np.array([[0.5], [0.6], [1.5], [1.6], [1.7], [3.0], [5.0], [6.0], [7.0]])
    assert quantile(level=0.1)(values) == Quantile(1.0, capped=False)
    assert quantile(level=0.5)(values) == Quantile(2.0, capped=False)
    assert quantile(level=0.6)(values) == Quantile(4.0, capped=False)
    assert quantile(level=0.99)(values) == Quantile(8.0, capped=False)


def test_a_search_that_ends_without_an_answer_says_so():
    assert quantile()(np.full((9, 1), 1e9)) == Quantile(8.0, capped=True)


def test_the_last_point_can_also_be_an_answer():
    assert quantile()(np.full((9, 1), 7.0)) == Quantile(8.0, capped=False)


def test_only_the_named_column_is_searched():
    table = np.column_stack([np.full(9, 1e9), np.full(9, 3.0)])
    assert quantile(columns=2, column=1)(table) == Quantile(4.0, capped=False)


def test_a_search_longer_than_one_batch_of_noise_goes_on():
    points = np.arange(1.0, 2001.0)
    assert quantile(points=points)(np.full((9, 1), 1500.5)) == Quantile(1501.0, capped=False)


@pytest.mark.parametrize("fill", [np.nan, np.inf, -np.inf, 1e308])
def test_every_float_is_answered(fill):
    answer = quantile()(np.full((9, 1), fill))
    assert answer == (Quantile(1.0, capped=False) if fill < 0 else Quantile(8.0, capped=True))


def test_a_row_costs_the_sum_of_both_rates_and_rows_add():
    search = quantile(target=0.25, counts=0.5)
    assert [search.map(d) for d in (0, 1, 2, 9)] == [0.0, 0.75, 1.5, 6.75]


def test_no_more_rows_can_change_than_there_are():
    search = quantile(target=0.25, counts=0.5)
    assert search.map(9) == search.map(1000)


def test_a_rate_whose_inverse_is_no_float_is_rounded_to_more_noise():
    assert quantile(target=0.3, counts=0.3).map(1) <= 0.6


@pytest.mark.parametrize("column", [-1, 1])
def test_an_unknown_column_is_refused(column):
    with pytest.raises(ValueError, match=f"column must be between 0 and 0; got {column}"):
        quantile(column=column)


@pytest.mark.parametrize("level", [0.0, 1.0, -0.1, 1.1, float("nan")])
def test_a_quantile_outside_0_to_1_is_refused(level):
    with pytest.raises(ValueError, match="quantile must be between 0 and 1, exclusive; got"):
        quantile(level=level)


@pytest.mark.parametrize("points", [[], [[1.0, 2.0]], [1.0, float("inf")], [float("nan")]], ids=str)
def test_points_that_are_no_list_of_finite_numbers_are_refused(points):
    with pytest.raises(ValueError, match="points must be a list of finite numbers"):
        quantile(points=points)


@pytest.mark.parametrize("points", [[1.0, 1.0], [2.0, 1.0]])
def test_points_that_do_not_increase_are_refused(points):
    with pytest.raises(ValueError, match="points must increase"):
        quantile(points=points)


@pytest.mark.parametrize("rate", [0.0, -1.0, float("inf"), float("nan")])
@pytest.mark.parametrize(("key", "name"), [("target", "_target"), ("counts", "_counts")])
def test_a_rate_that_is_not_positive_is_refused(key, name, rate):
    with pytest.raises(ValueError, match=f"epsilon{name} must be positive and finite; got {rate}"):
        quantile(**{key: rate})


def test_the_search_chains():
    space = matrix_domain(9, 1), rows_metric()
    chain = space >> then_unbounded_quantile(
        column=0, quantile=0.5, points=[1.0], epsilon_target=0.5, epsilon_counts=0.5
    )
    assert chain.map(1) == 1.0
