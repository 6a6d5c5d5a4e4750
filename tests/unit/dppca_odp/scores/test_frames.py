import numpy as np
import opendp.prelude as dp
import pytest
from opendp.mod import OpenDPException
from pydantic import ValidationError

from accountant import Budget, PureLoss
from dppca_odp.frame import Frame
from dppca_odp.primitives.quantiles import SearchGrid
from dppca_odp.scores.frames import (
    PrivateFrame,
    make_distances,
    make_score_frame,
    then_distances,
    then_score_frame,
)
from dppca_odp.spaces import integers_domain, matrix_domain, rows_metric
from dppca_odp.values import LARGEST_VALUE

#: So large that the noise of every search is 0 but for a chance below 1e-100.
QUIET = Budget.of(6000, 0)
SHARE = Budget.of("3/4", 0)


def frame_of(table, method=PrivateFrame(), share=QUIET, d_in=1):  # noqa: B008 - frozen
    rows, columns = np.shape(table)
    made = make_score_frame(
        matrix_domain(rows, columns), rows_metric(), method=method, share=share, d_in=d_in
    )
    return made(np.asarray(table, dtype=np.float64))


def first_above(value, grid=PrivateFrame().grid):  # noqa: B008 - frozen
    points = grid.points()
    return float(points[np.searchsorted(points, value, side="right")])


class TestPrivateFrame:
    def test_the_stage_has_three_searches_with_a_third_each(self):
        planned = PrivateFrame().stage(SHARE, d_in=2)
        assert SHARE == planned.stage.budget
        assert (PureLoss(epsilon="1/4", count=3),) == planned.stage.losses
        assert 3 * 2 / 0.25 == planned.noise_scale
        assert "frame" == planned.stage.name

    def test_the_grid_and_the_inflation_are_those_of_the_issue_unless_given(self):
        assert (1.01, 0.2) == (PrivateFrame().grid.beta, PrivateFrame().inflation)

    @pytest.mark.parametrize(
        ("key", "value"),
        [("inflation", 0), ("inflation", -1), ("inflation", float("nan")), ("centre", 0)],
    )
    def test_a_parameter_out_of_range_is_refused(self, key, value):
        with pytest.raises(ValidationError, match=f"(?m)^{key}$"):
            PrivateFrame.model_validate({key: value})

    @pytest.mark.parametrize(
        "parameters",
        [{"inflation": 1e250}, {"grid": {"unit": 1e203, "beta": 1.01}}],
        ids=["inflation", "grid"],
    )
    def test_a_frame_that_can_leave_all_bounds_is_refused_before_any_charge(self, parameters):
        """Otherwise the sides are refused while the measurement runs, after its charge."""
        with pytest.raises(
            ValueError, match=r"grid must end so that the frame stays within 1e\+200; got"
        ):
            make_score_frame(
                matrix_domain(500, 2),
                rows_metric(),
                method=PrivateFrame.model_validate(parameters),
                share=SHARE,
                d_in=1,
            )

    def test_json_goes_both_ways(self):
        given = PrivateFrame(grid=SearchGrid(unit=0.1, beta=1.5, steps=20), inflation=0.5)
        assert given == PrivateFrame.model_validate_json(given.model_dump_json())


class TestScoreFrame:
    def test_centre_and_radius_are_those_of_the_searches(self):
        """Algorithm 2 fully unbounded, with noise that is 0: the first grid points above."""
        table = np.tile([5.0, -3.0], (40, 1))
        x, y = first_above(5.0), -first_above(3.0)
        half = 1.2 * first_above(np.hypot(5 - x, -3 - y))
        expected = [x - half, x + half, y - half, y + half]
        found = frame_of(table)
        assert np.allclose(expected, list(found.frame.model_dump().values()), rtol=1e-12)
        assert () == found.warnings

    def test_the_radius_reaches_99_of_100_points(self):
        table = np.zeros((200, 2))
        table[:, 0] = np.linspace(-10, 10, 200)
        frame = frame_of(table).frame
        distance = np.hypot(
            table[:, 0] - (frame.x_low + frame.x_high) / 2,
            table[:, 1] - (frame.y_low + frame.y_high) / 2,
        )
        half = (frame.x_high - frame.x_low) / 2
        assert pytest.approx(1.2 * first_above(np.sort(distance)[198]), rel=1e-9) == half

    def test_it_is_a_square_around_most_points(self):
        table = np.random.default_rng(0).normal(size=(5000, 2)) * [3, 1] + [20, -70]
        frame = frame_of(table, share=Budget.of(10, 0)).frame
        assert pytest.approx(frame.x_high - frame.x_low) == frame.y_high - frame.y_low
        inside = (np.abs(table[:, 0] - (frame.x_low + frame.x_high) / 2) * 2) < (
            frame.x_high - frame.x_low
        )
        assert inside.mean() > 0.98

    def test_far_from_zero_its_sides_still_differ(self):
        """The radius here is a rounding error of the centre: the least side takes over."""
        centre = float(PrivateFrame().grid.points()[4000])
        frame = frame_of(np.tile([np.nextafter(centre, 0), 0.0], (40, 1))).frame
        assert pytest.approx(2e-12 * centre, rel=1e-3) == frame.x_high - frame.x_low
        assert pytest.approx(2e-12 * centre) == frame.y_high - frame.y_low

    def test_the_inflation_widens_it(self):
        table = np.random.default_rng(0).normal(size=(400, 2))
        small, large = (frame_of(table, PrivateFrame(inflation=i)).frame for i in (1, 3))
        assert pytest.approx(2) == (large.x_high - large.x_low) / (small.x_high - small.x_low)

    def test_the_code_of_a_group_is_not_looked_at(self):
        table = np.random.default_rng(0).normal(size=(400, 2))
        with_code = np.column_stack([table, np.full(400, 1e6)])
        assert frame_of(table) == frame_of(with_code)

    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e308, 0.0])
    def test_every_table_is_answered(self, value):
        assert isinstance(frame_of(np.full((30, 2), value), share=SHARE).frame, Frame)

    def test_a_search_that_runs_off_the_grid_is_a_warning(self):
        grid = SearchGrid(beta=1.5, steps=8)
        end = f"{grid.points()[-1]:.6g}"
        found = frame_of(np.tile([1e3, 0.0], (40, 1)), PrivateFrame(grid=grid))
        told = "a search reached the end of the grid"
        advice = "Raise its unit, beta or steps."
        expected = tuple(
            f"{name}: {told} ({end}). {advice}" for name in ("the centre's x", "the radius")
        )
        assert expected == found.warnings

    @pytest.mark.parametrize("d_in", [1, 5])
    def test_the_map_is_just_below_the_share_and_covers_no_more_rows(self, d_in):
        made = make_score_frame(
            matrix_domain(99, 2), rows_metric(), method=PrivateFrame(), share=SHARE, d_in=d_in
        )
        epsilon, delta = made.map(d_in)
        assert 0.75 - 1e-9 < epsilon <= 0.75
        assert 0 == delta
        assert (0.0, 0.0) == made.map(0)
        with pytest.raises(OpenDPException):
            made.map(d_in + 1)

    def test_fewer_than_two_columns_are_refused(self):
        expected = r"^input_domain must have two columns; got 1\. Give two scores\.$"
        with pytest.raises(ValueError, match=expected):
            frame_of(np.zeros((9, 1)))

    @pytest.mark.parametrize("epsilon", [0, "1e-12"])
    def test_a_share_too_small_for_the_searches_is_refused(self, epsilon):
        with pytest.raises(ValueError, match=r"^epsilon_target must be at least 2\^-40 and finite"):
            frame_of(np.zeros((9, 2)), share=Budget.of(epsilon, 0))

    def test_a_grid_that_is_not_positive_is_refused(self):
        method = PrivateFrame(grid=SearchGrid(lower=-1, beta=1.01))
        with pytest.raises(ValueError, match=r"^points must be positive for signed values; got"):
            frame_of(np.zeros((9, 2)), method)


class TestDistances:
    def test_they_are_euclidean_from_the_centre_of_the_first_two_columns(self):
        made = make_distances(matrix_domain(2, 3), rows_metric(), x=1.0, y=-1.0)
        assert [[5.0], [0.0]] == made(np.array([[4.0, 3.0, 99.0], [1.0, -1.0, 99.0]])).tolist()

    def test_nan_counts_as_zero_and_infinities_as_the_largest_value(self):
        made = make_distances(matrix_domain(2, 2), rows_metric(), x=0.0, y=0.0)
        answer = made(np.array([[np.nan, 3.0], [-np.inf, 0.0]]))
        assert [[3.0], [LARGEST_VALUE]] == answer.tolist()

    def test_changed_rows_stay_as_many(self):
        made = make_distances(matrix_domain(9, 2), rows_metric(), x=0.0, y=0.0)
        assert [0, 1, 3] == [made.map(d) for d in (0, 1, 3)]
        assert matrix_domain(9, 1) == made.output_domain

    @pytest.mark.parametrize(
        ("domain", "metric", "name"),
        [
            (integers_domain(3), rows_metric(), "input_domain"),
            (matrix_domain(4, 2), dp.symmetric_distance(), "input_metric"),
        ],
        ids=["domain", "metric"],
    )
    def test_another_space_is_refused(self, domain, metric, name):
        with pytest.raises(ValueError, match=f"^{name} must be"):
            make_distances(domain, metric, x=0.0, y=0.0)


def test_the_frame_chains():
    start = matrix_domain(40, 2), rows_metric()
    table = np.tile([5.0, -3.0], (40, 1))
    frame = start >> then_score_frame(method=PrivateFrame(), share=QUIET, d_in=1)
    assert frame_of(table) == frame(table)
    assert [[0.0]] * 40 == (start >> then_distances(x=5.0, y=-3.0))(table).tolist()
