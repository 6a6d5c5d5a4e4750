import numpy as np
import opendp.prelude as dp
import pytest
from opendp.mod import OpenDPException

from dppca_odp.primitives.columns import (
    BLOCK_ROWS,
    make_leading_columns,
    make_projection,
    make_scaled_columns,
    then_leading_columns,
    then_projection,
    then_scaled_columns,
)
from dppca_odp.spaces import integers_domain, matrix_domain, rows_metric
from dppca_odp.values import LARGEST_VALUE


def leading(rows, present, columns):
    return make_leading_columns(matrix_domain(rows, present), rows_metric(), columns=columns)


def projection(rows, columns, directions):
    return make_projection(matrix_domain(rows, columns), rows_metric(), directions=directions)


def scaled(rows, scales, columns=None):
    domain = matrix_domain(rows, np.size(scales) if columns is None else columns)
    return make_scaled_columns(domain, rows_metric(), scales=scales)


class TestProjection:
    def test_it_gives_coordinates_along_directions(self):
        project = projection(2, 2, [[0.6, 0.8], [0.8, -0.6]])
        answer = project(np.array([[3.0, 4.0], [1.0, 0.0]]))
        assert np.allclose([[5.0, 0.0], [0.6, 0.8]], answer)

    def test_it_does_not_depend_on_blocks(self):
        rows = BLOCK_ROWS + 3
        table = np.random.default_rng(1).normal(size=(rows, 2))
        directions = np.array([[0.6], [0.8]])
        assert np.allclose(table @ directions, projection(rows, 2, directions)(table))

    def test_it_answers_tables_that_are_not_finite(self):
        table = np.array([[np.nan, np.inf], [1e308, -np.inf]])
        answer = projection(2, 2, np.eye(2))(table)
        assert [[0.0, LARGEST_VALUE], [LARGEST_VALUE, -LARGEST_VALUE]] == answer.tolist()

    def test_it_leaves_the_table_as_it_was(self):
        table = np.array([[np.inf], [1.0]])
        projection(2, 1, [[1.0]])(table)
        assert [[np.inf], [1.0]] == table.tolist()

    def test_changed_rows_change_as_many_coordinates(self):
        project = projection(4, 2, np.eye(2))
        assert [0, 1, 3, 9] == [project.map(d) for d in (0, 1, 3, 9)]

    @pytest.mark.parametrize(
        "directions",
        [[1.0, 0.0], [[1.0, 0.0]], np.ones((2, 3)), np.ones((2, 0)), np.ones((3, 1))],
        ids=["a vector", "too few rows", "k above p", "k = 0", "too many rows"],
    )
    def test_directions_of_another_shape_are_refused(self, directions):
        expected = (
            r"^directions must have one row per column \(2\) and 1 to 2 columns; got shape \("
        )
        with pytest.raises(ValueError, match=expected):
            projection(4, 2, directions)

    @pytest.mark.parametrize("bad", [np.nan, np.inf])
    def test_directions_that_are_not_finite_are_refused(self, bad):
        with pytest.raises(ValueError, match=r"^directions must be finite; got NaN or infinity\."):
            projection(4, 2, [[bad], [0.0]])

    def test_a_table_of_another_shape_is_refused_without_its_values(self):
        expected = r"the matrix must be 3 by 2; got shape \(2, 2\)"
        with pytest.raises(OpenDPException, match=expected) as caught:
            projection(3, 2, np.eye(2))(np.full((2, 2), 31337.25))
        assert "31337" not in str(caught.value)


class TestScaledColumns:
    def test_each_column_is_divided_by_its_own_number(self):
        table = np.array([[3e6, 4e-6], [-1e6, 0.0]])
        assert np.allclose([[3.0, 4.0], [-1.0, 0.0]], scaled(2, [1e6, 1e-6])(table))

    def test_it_does_not_depend_on_blocks(self):
        table = np.random.default_rng(2).normal(size=(BLOCK_ROWS + 3, 2))
        assert np.array_equal(table / [3.0, 7.0], scaled(BLOCK_ROWS + 3, [3.0, 7.0])(table))

    @pytest.mark.parametrize("scale", [5e-324, 1e-6, 1.0, 1.7e308])
    def test_every_number_has_a_finite_answer(self, scale):
        table = np.array([[np.nan], [np.inf], [-np.inf], [1e308], [5e-324], [-0.0]])
        answer = scaled(6, [scale])(table)
        assert np.abs(answer).max() <= LARGEST_VALUE
        assert 0.0 == answer[0, 0]
        assert -answer[2, 0] == answer[1, 0] == answer[3, 0] == min(1e100 / scale, LARGEST_VALUE)

    def test_it_leaves_the_table_as_it_was(self):
        table = np.array([[np.inf], [1.0]])
        scaled(2, [4.0])(table)
        assert [[np.inf], [1.0]] == table.tolist()

    @pytest.mark.parametrize("scales", [2.0, [2.0], [[1.0, 2.0]], [1.0, 2.0, 3.0]])
    def test_another_number_of_scales_is_refused(self, scales):
        expected = r"^scales must be 2 numbers, one for each column; got shape \("
        with pytest.raises(ValueError, match=expected):
            scaled(4, scales, columns=2)

    @pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf])
    def test_scales_that_cannot_divide_are_refused(self, bad):
        with pytest.raises(ValueError, match=r"^scales must be positive and finite; got .* Use 1"):
            scaled(4, [1.0, bad])

    def test_a_table_of_another_shape_is_refused_without_its_values(self):
        expected = r"the matrix must be 3 by 2; got shape \(2, 2\)"
        with pytest.raises(OpenDPException, match=expected) as caught:
            scaled(3, [1.0, 2.0])(np.full((2, 2), 31337.25))
        assert "31337" not in str(caught.value)


class TestLeadingColumns:
    @pytest.mark.parametrize("columns", [1, 2, 3])
    def test_the_first_columns_are_kept_whatever_they_hold(self, columns):
        table = np.array([[1.0, np.nan, 3.0], [np.inf, 5.0, 1e308]])
        answer = leading(2, 3, columns)(table)
        assert (2, columns) == answer.shape
        assert np.array_equal(table[:, :columns], answer, equal_nan=True)

    def test_the_output_domain_is_the_narrower_one(self):
        made = leading(7, 3, 2)
        assert matrix_domain(7, 2) == made.output_domain
        assert rows_metric() == made.output_metric

    def test_changed_rows_stay_as_many(self):
        assert [0, 1, 3, 9] == [leading(4, 3, 2).map(d) for d in (0, 1, 3, 9)]

    @pytest.mark.parametrize("columns", [-1, 0, 4])
    def test_more_columns_than_there_are_or_none_are_refused(self, columns):
        expected = f"^columns must be between 1 and 3; got {columns}. Use fewer.$"
        with pytest.raises(ValueError, match=expected):
            leading(4, 3, columns)

    @pytest.mark.parametrize(
        ("domain", "metric", "name"),
        [
            (integers_domain(3), rows_metric(), "input_domain"),
            (matrix_domain(4, 3), dp.symmetric_distance(), "input_metric"),
        ],
        ids=["domain", "metric"],
    )
    def test_another_space_is_refused(self, domain, metric, name):
        with pytest.raises(ValueError, match=f"^{name} must be"):
            make_leading_columns(domain, metric, columns=1)

    def test_a_table_of_another_shape_is_refused_without_its_values(self):
        expected = r"the matrix must be 3 by 2; got shape \(3, 1\)"
        with pytest.raises(OpenDPException, match=expected) as caught:
            leading(3, 2, 1)(np.full((3, 1), 31337.25))
        assert "31337" not in str(caught.value)


def test_the_columns_chain():
    chain = (
        (matrix_domain(4, 3), rows_metric())
        >> then_leading_columns(columns=2)
        >> then_scaled_columns(scales=[1.0, 0.5])
        >> then_projection(directions=[[0.0], [1.0]])
    )
    table = np.arange(12.0).reshape(4, 3)
    assert [[2.0], [8.0], [14.0], [20.0]] == chain(table).tolist()
    assert 3 == chain.map(3)
