from fractions import Fraction
from math import inf, nan, sqrt

import numpy as np
import opendp.prelude as dp
import pytest
from opendp.mod import OpenDPException
from pydantic import ValidationError

from accountant import Budget
from dppca_odp.frame import Frame
from dppca_odp.primitives.noise import gaussian_stage, gaussian_to_approximate, stage_loss
from dppca_odp.scores.additive import (
    ROW,
    additive_stage,
    counts_sensitivity,
    make_additive_histogram,
    make_cell_counts,
    make_grouped_additive_histogram,
    then_additive_histogram,
    then_cell_counts,
)
from dppca_odp.scores.cells import BLOCK_ROWS, Cells, normalised
from dppca_odp.scores.sparse import (
    _cell_map_domain,
    _cell_map_metric,
    make_cell_map,
    make_grouped_sparse_histogram,
    make_sparse_histogram,
    make_threshold_noise,
    sparse_stage,
    then_cell_map,
    then_sparse_histogram,
    then_threshold_noise,
)
from dppca_odp.spaces import gaussian_privacy, integers_domain, matrix_domain, rows_metric

UNIT = Frame(x_low=0, x_high=1, y_low=0, y_high=1)
FOUR = Cells(frame=UNIT, bins=(2, 2))
SIX = Cells(frame=UNIT, bins=(3, 2))
#: So large that Laplace noise is 0 but for a chance below 1e-200; counts of 2 or more leave.
QUIET = Budget.of(1000, "1e-6")
SHARE = Budget.of("1", "1e-6")
GROUPED = {
    make_additive_histogram: make_grouped_additive_histogram,
    make_sparse_histogram: make_grouped_sparse_histogram,
}
MAKERS = list(GROUPED)
KINDS = pytest.mark.parametrize("make", MAKERS, ids=["additive", "sparse"])


def by_group(groups, bins=(2, 2)):
    return Cells(frame=UNIT, bins=bins, groups=groups)


def space(rows, cells):
    return matrix_domain(rows, 2 if cells.groups == 1 else 3), rows_metric()


def points(*cells_of_rows):
    """Rows at (x, y) or (x, y, code), so many of each."""
    return np.array([row for row, times in cells_of_rows for _ in range(times)], dtype=np.float64)


class TestCells:
    def test_cells_are_counted_along_x_first_then_up(self):
        rows = points(([0.1, 0.1], 1), ([0.5, 0.1], 2), ([0.9, 0.1], 3), ([0.1, 0.9], 4))
        assert [1, 2, 3, 4, 0, 0] == SIX.counts(rows).tolist()

    def test_the_frame_is_cut_where_it_lies(self):
        cells = Cells(frame=Frame(x_low=-4, x_high=4, y_low=10, y_high=30), bins=(4, 2))
        rows = points(([-3.9, 11], 1), ([-0.1, 19.9], 2), ([0, 20], 3), ([3.9, 29], 4))
        assert [1, 2, 0, 0, 0, 0, 3, 4] == cells.counts(rows).tolist()

    def test_a_lower_edge_belongs_to_its_bin_and_the_upper_edge_to_the_last(self):
        edges = np.column_stack([np.arange(9) / 8, np.zeros(9)])
        cells = Cells(frame=UNIT, bins=(8, 1))
        assert [1, 1, 1, 1, 1, 1, 1, 2] == cells.counts(edges).tolist()
        corner = np.array([[1.0, 1.0]])
        assert [0, 0, 0, 1] == FOUR.counts(corner).tolist()

    @pytest.mark.parametrize("bad", [nan, inf, -inf, -1e-300, 1 + 2.0**-52, 1e308, -1e308])
    @pytest.mark.parametrize("column", [0, 1])
    def test_points_outside_the_frame_are_not_counted(self, bad, column):
        rows = np.full((2, 2), 0.25)
        rows[0, column] = bad
        assert [1, 0, 0, 0] == FOUR.counts(rows).tolist()

    @pytest.mark.parametrize(("low", "high"), [(-1e200, 1e200), (0, 5e-324), (1, 1 + 2.0**-52)])
    def test_the_widest_and_the_narrowest_frame_hold_their_ends(self, low, high):
        cells = Cells(frame=Frame(x_low=low, x_high=high, y_low=0, y_high=1), bins=(2, 1))
        assert [1, 1] == cells.counts(np.array([[low, 0.5], [high, 0.5]])).tolist()

    def test_a_narrow_frame_far_from_zero_is_cut_evenly(self):
        width = 7 * 2.0**-32
        frame = Frame(x_low=1e6, x_high=1e6 + width, y_low=0, y_high=1)
        centres = 1e6 + (np.arange(7) + 0.5) * width / 7
        rows = np.column_stack([centres, np.full(7, 0.5)])
        assert [1] * 7 == Cells(frame=frame, bins=(7, 1)).counts(rows).tolist()

    def test_counts_do_not_depend_on_blocks(self):
        rows = np.random.default_rng(3).uniform(-0.2, 1.2, size=(BLOCK_ROWS + 3, 2))
        cells = Cells(frame=UNIT, bins=(5, 4))
        expected, _, _ = np.histogram2d(rows[:, 1], rows[:, 0], bins=(4, 5), range=((0, 1), (0, 1)))
        assert expected.ravel().tolist() == cells.counts(rows).tolist()

    def test_no_rows_have_no_counts(self):
        assert [0, 0, 0, 0] == FOUR.counts(np.empty((0, 2))).tolist()

    def test_every_group_has_all_cells(self):
        rows = points(([0.1, 0.1, 0], 1), ([0.9, 0.9, 1], 2), ([0.9, 0.1, 2], 3))
        expected = [1, 0, 0, 0, 0, 0, 0, 2, 0, 3, 0, 0]
        assert expected == by_group(3).counts(rows).tolist()
        assert 12 == by_group(3).number

    @pytest.mark.parametrize("code", [3.0, -1.0, nan, inf, -inf, 1e300])
    def test_what_is_no_code_is_in_the_last_group(self, code):
        rows = np.array([[0.1, 0.1, code]])
        assert [0, 0, 1] == by_group(3, (1, 1)).counts(rows).tolist()

    @pytest.mark.parametrize(
        ("key", "value", "where"),
        [
            ("bins", (0, 2), "bins.0"),
            ("bins", (2, -1), "bins.1"),
            ("bins", (4097, 1), "bins.0"),
            ("bins", (2,), "bins.1"),
            ("groups", 0, "groups"),
            ("colour", 1, "colour"),
        ],
    )
    def test_a_grid_out_of_range_is_refused(self, key, value, where):
        with pytest.raises(ValidationError, match=f"(?m)^{where}$"):
            Cells.model_validate({"frame": UNIT, "bins": (2, 2), key: value})


class TestCellCounts:
    def test_counts_before_noise_are_whole_rows(self):
        """Algorithm 3, line by line: how many rows lie in each cell."""
        rows = points(([0.1, 0.1], 3), ([0.9, 0.9], 1), ([2, 2], 5))
        made = make_cell_counts(*space(9, FOUR), cells=FOUR)
        assert [3 * ROW, 0, 0, ROW] == made(rows)

    def test_counts_by_group_before_noise(self):
        """Algorithm 5: the same for each group."""
        rows = points(([0.1, 0.1, 0], 3), ([0.1, 0.1, 1], 2), ([0.9, 0.9, 7], 1))
        made = make_cell_counts(*space(6, by_group(2)), cells=by_group(2))
        assert [3 * ROW, 0, 0, 0, 2 * ROW, 0, 0, ROW] == made(rows)

    def test_the_map_is_root_two_rows_rounded_up_and_no_more_than_there_are(self):
        made = make_cell_counts(*space(5, FOUR), cells=FOUR)
        assert 0 == made.map(0)
        for d_in in (1, 2, 5):
            assert Fraction(made.map(d_in)) ** 2 >= 2 * (d_in * ROW) ** 2
            assert pytest.approx(sqrt(2) * d_in * ROW, rel=1e-15) == made.map(d_in)
        assert made.map(5) == made.map(9)

    def test_a_changed_row_or_label_attains_the_map(self):
        cells = by_group(2)
        made = make_cell_counts(*space(2, cells), cells=cells)
        here, there = ([0.1, 0.1, 0], 2), ([0.1, 0.1, 1], 2)
        moved = np.subtract(made(points(here)), made(points(there))).astype(float)
        assert pytest.approx(made.map(2), rel=1e-15) == np.linalg.norm(moved)

    def test_the_output_is_a_vector_of_all_cells(self):
        made = make_cell_counts(*space(5, SIX), cells=SIX)
        assert integers_domain(6) == made.output_domain


class TestCellMap:
    def test_only_cells_with_rows_are_there(self):
        """Algorithm 4: the counts that are not 0."""
        rows = points(([0.1, 0.1], 3), ([0.9, 0.9], 1), ([nan, 0.5], 1))
        assert {0: 3, 3: 1} == make_cell_map(*space(5, FOUR), cells=FOUR)(rows)

    def test_cells_of_groups_are_different_cells(self):
        """Algorithm 6: the same within each group."""
        rows = points(([0.1, 0.1, 0], 3), ([0.1, 0.1, 1], 1), ([0.9, 0.9, -5], 1))
        assert {0: 3, 4: 1, 7: 1} == make_cell_map(*space(5, by_group(2)), cells=by_group(2))(rows)

    def test_no_rows_inside_make_an_empty_map(self):
        assert {} == make_cell_map(*space(2, FOUR), cells=FOUR)(np.full((2, 2), 9.0))

    def test_the_map_bounds_cells_rows_and_the_largest_change(self):
        made = make_cell_map(*space(5, FOUR), cells=FOUR)
        assert [(0, 0, 0), (2, 2, 1), (6, 6, 3)] == [tuple(made.map(d)) for d in (0, 1, 3)]


@pytest.mark.parametrize("make", [make_cell_counts, make_cell_map])
class TestSpaces:
    @pytest.mark.parametrize(
        ("columns", "groups", "wanted"), [(3, 1, 2), (1, 1, 2), (2, 2, 3), (4, 2, 3)]
    )
    def test_columns_that_do_not_fit_the_groups_are_refused(self, make, columns, groups, wanted):
        expected = (
            f"^input_domain must have {wanted} columns for {groups} groups; got {columns}. "
            "Give x, y and, for groups, their code.$"
        )
        with pytest.raises(ValueError, match=expected):
            make(matrix_domain(4, columns), rows_metric(), cells=by_group(groups))

    def test_more_rows_than_counts_can_hold_are_refused(self, make):
        expected = r"^input_domain must have fewer than 2\^31 rows; got 2147483648\. Use fewer\.$"
        with pytest.raises(ValueError, match=expected):
            make(*space(2**31, FOUR), cells=FOUR)
        make(*space(2**31 - 1, FOUR), cells=FOUR)

    @pytest.mark.parametrize(
        ("domain", "metric", "name"),
        [
            (integers_domain(3), rows_metric(), "input_domain"),
            (matrix_domain(4, 2), dp.symmetric_distance(), "input_metric"),
        ],
        ids=["domain", "metric"],
    )
    def test_another_space_is_refused(self, make, domain, metric, name):
        with pytest.raises(ValueError, match=f"^{name} must be"):
            make(domain, metric, cells=FOUR)

    def test_a_table_of_another_shape_is_refused_without_its_values(self, make):
        expected = r"the matrix must be 3 by 2; got shape \(2, 2\)"
        with pytest.raises(OpenDPException, match=expected) as caught:
            make(*space(3, FOUR), cells=FOUR)(np.full((2, 2), 31337.25))
        assert "31337" not in str(caught.value)


class TestNormalised:
    def test_negative_counts_are_clipped_and_the_rest_sums_to_one(self):
        """Algorithm 3 after the noise, on noisy counts that are known."""
        mass = normalised(np.array([3.0, -2.0, 0.0, 1.0]), FOUR)
        assert [[[0.75, 0.0], [0.0, 0.25]]] == mass.tolist()

    def test_the_shape_is_groups_by_y_by_x(self):
        assert (1, 2, 3) == normalised(np.ones(6), SIX).shape
        assert (4, 2, 3) == normalised(np.ones(24), by_group(4, (3, 2))).shape

    def test_each_group_sums_to_one_of_its_own(self):
        """Algorithm 5 after the noise."""
        mass = normalised(np.array([1.0, 3.0, 10.0, 10.0]), by_group(2, (2, 1)))
        assert [[[0.25, 0.75]], [[0.5, 0.5]]] == mass.tolist()

    def test_a_group_without_mass_is_zero_and_leaves_the_others_alone(self):
        mass = normalised(np.array([-1.0, 0.0, 2.0, -9.0]), by_group(2, (2, 1)))
        assert [[[0.0, 0.0]], [[1.0, 0.0]]] == mass.tolist()


class TestAdditive:
    def test_many_rows_give_their_shares(self):
        """Algorithm 3 as a whole: noise below 2 rows of 100,000."""
        rows = points(([0.1, 0.1], 75_000), ([0.9, 0.9], 25_000))
        made = make_additive_histogram(
            *space(100_000, FOUR), cells=FOUR, share=Budget.of(5, "1e-6"), d_in=1
        )
        found = made(rows)
        assert (1, 2, 2) == found.mass.shape
        assert np.allclose([[[0.75, 0], [0, 0.25]]], found.mass, atol=1e-3)
        assert (found.mass >= 0).all()
        assert pytest.approx(1) == found.mass.sum()
        assert found.threshold is None

    def test_many_rows_give_the_shares_of_each_group(self):
        """Algorithm 5 as a whole: the rest group too."""
        cells = by_group(3, (2, 1))
        rows = points(
            ([0.1, 0.5, 0], 60_000), ([0.9, 0.5, 0], 20_000),
            ([0.1, 0.5, 1], 40_000), ([0.9, 0.5, -1], 40_000),
        )  # fmt: skip
        made = make_grouped_additive_histogram(
            *space(160_000, cells), cells=cells, share=Budget.of(5, "1e-6"), d_in=1
        )
        expected = [[[0.75, 0.25]], [[1.0, 0.0]], [[0.0, 1.0]]]
        assert np.allclose(expected, made(rows).mass, atol=1e-3)

    def test_no_mass_is_zeros_and_no_error(self):
        """Where the source stops with an error: one cell, whose noise is negative half the time."""
        one = Cells(frame=UNIT, bins=(1, 1))
        made = make_additive_histogram(*space(2, one), cells=one, share=SHARE, d_in=1)
        nowhere = np.full((2, 2), 9.0)
        assert {0.0, 1.0} == {made(nowhere).mass.item() for _ in range(200)}

    def test_the_stage_and_the_measurement_use_the_same_scale(self):
        stage = additive_stage(SHARE, cells=4, d_in=3)
        made = make_additive_histogram(*space(9, FOUR), cells=FOUR, share=SHARE, d_in=3)
        assert stage.scale / ROW == made(np.full((9, 2), 0.5)).noise_scale
        assert stage == gaussian_stage(SHARE, sensitivity=counts_sensitivity(3), numbers=4)
        assert pytest.approx(sqrt(2) * 3 / stage.mu) == stage.scale / ROW

    def test_every_group_has_the_whole_budget(self):
        alone = additive_stage(SHARE, cells=FOUR.number, d_in=1)
        grouped = additive_stage(SHARE, cells=by_group(50).number, d_in=1)
        assert pytest.approx(alone.scale, rel=1e-9) == grouped.scale

    @pytest.mark.parametrize("share", [Budget.of(0, "1e-6"), Budget.of(1, 0)], ids=str)
    def test_a_share_without_epsilon_or_delta_is_refused(self, share):
        with pytest.raises(ValueError, match=r"^a Gaussian stage must have epsilon and delta; got"):
            make_additive_histogram(*space(9, FOUR), cells=FOUR, share=share, d_in=1)


class TestSparse:
    def test_cells_below_the_threshold_are_left_out_and_the_rest_sums_to_one(self):
        """Algorithm 4 as a whole, with noise that is 0: of 3, 2 and 1 rows, 1 is left out."""
        rows = points(([0.1, 0.1], 3), ([0.9, 0.1], 1), ([0.9, 0.9], 2), ([9, 9], 4))
        found = make_sparse_histogram(*space(10, FOUR), cells=FOUR, share=QUIET, d_in=1)(rows)
        assert [[[0.6, 0.0], [0.0, 0.4]]] == found.mass.tolist()
        assert 2 == found.threshold

    def test_each_group_is_cut_and_normalised_alone(self):
        """Algorithm 6 as a whole: an undeclared code is the rest, an empty group is zero."""
        cells = by_group(4, (2, 1))
        rows = points(
            ([0.1, 0.5, 0], 3), ([0.9, 0.5, 0], 5), ([0.1, 0.5, 1], 1),
            ([0.9, 0.5, 77], 2), ([0.9, 0.5, nan], 1), ([0.1, 0.5, 3], 9),
        )  # fmt: skip
        made = make_grouped_sparse_histogram(*space(21, cells), cells=cells, share=QUIET, d_in=1)
        found = made(rows)
        expected = [[[0.375, 0.625]], [[0.0, 0.0]], [[0.0, 0.0]], [[0.75, 0.25]]]
        assert expected == found.mass.tolist()

    def test_no_mass_is_zeros_and_no_error(self):
        made = make_sparse_histogram(*space(2, FOUR), cells=FOUR, share=SHARE, d_in=1)
        assert [[[0.0, 0.0], [0.0, 0.0]]] == made(np.full((2, 2), nan)).mass.tolist()

    def test_the_stage_and_the_measurement_use_the_same_scale_and_threshold(self):
        stage = sparse_stage(SHARE, d_in=3)
        made = make_sparse_histogram(*space(9, FOUR), cells=FOUR, share=SHARE, d_in=3)
        found = made(np.full((9, 2), 0.5))
        assert stage == (found.noise_scale, found.threshold)
        assert pytest.approx(6.0) == stage.scale

    def test_every_group_has_the_whole_budget(self):
        def parameters(cells):
            make = make_sparse_histogram if cells.groups == 1 else make_grouped_sparse_histogram
            made = make(*space(9, cells), cells=cells, share=SHARE, d_in=1)
            width = 2 if cells.groups == 1 else 3
            return made(np.zeros((9, width)))[1:], made.map(1)

        assert parameters(FOUR) == parameters(by_group(50))

    @pytest.mark.parametrize("epsilon", ["0.01", "1", "4"])
    @pytest.mark.parametrize("delta", ["1e-4", "1e-12"])
    @pytest.mark.parametrize("d_in", [1, 7])
    def test_the_threshold_is_the_smallest_that_keeps_the_share(self, epsilon, delta, d_in):
        share = Budget.of(epsilon, delta)
        stage = sparse_stage(share, d_in=d_in)

        def price(threshold):
            noise = make_threshold_noise(
                _cell_map_domain(), _cell_map_metric(), scale=stage.scale, threshold=threshold
            )
            return noise.map((2 * d_in, 2 * d_in, d_in))

        assert price(stage.threshold)[0] <= share.epsilon
        assert price(stage.threshold)[1] <= share.delta
        assert price(stage.threshold - 1)[1] > share.delta * (1 - Fraction(1, 10**9))

    @pytest.mark.parametrize("share", [Budget.of(0, "1e-6"), Budget.of(1, 0)], ids=str)
    def test_a_share_without_epsilon_or_delta_is_refused(self, share):
        expected = f"^a sparse histogram must have epsilon and delta; got {share}. Give the plan"
        with pytest.raises(ValueError, match=expected):
            make_sparse_histogram(*space(9, FOUR), cells=FOUR, share=share, d_in=1)

    @pytest.mark.parametrize("share", [("1e-18", "1e-6"), ("1", "1e-300")], ids=str)
    def test_a_share_that_no_threshold_keeps_is_refused_in_our_words(self, share):
        with pytest.raises(ValueError, match=r"^a sparse histogram must have"):
            sparse_stage(Budget.of(*share), d_in=1)


class TestThresholdNoise:
    def test_counts_that_equal_the_threshold_leave_and_those_below_do_not(self):
        made = make_threshold_noise(_cell_map_domain(), _cell_map_metric(), scale=1e-3, threshold=5)
        assert {1: 5, 2: 6} == made({0: 4, 1: 5, 2: 6})

    def test_an_empty_cell_never_leaves(self):
        made = make_threshold_noise(_cell_map_domain(), _cell_map_metric(), scale=2.0, threshold=9)
        assert {} == made({})

    def test_the_price_is_that_of_one_threshold_less(self):
        space = _cell_map_domain(), _cell_map_metric()
        ours = make_threshold_noise(*space, scale=2.0, threshold=31)
        theirs = dp.m.make_laplace_threshold(*space, 2.0, 30)
        assert theirs.map((2, 2, 1)) == ours.map((2, 2, 1))
        assert (
            dp.m.make_laplace_threshold(*space, 2.0, 31).map((2, 2, 1))[1] < ours.map((2, 2, 1))[1]
        )

    def test_a_negative_scale_is_refused(self):
        with pytest.raises(OpenDPException, match="scale"):
            make_threshold_noise(_cell_map_domain(), _cell_map_metric(), scale=-1.0, threshold=3)


@KINDS
@pytest.mark.parametrize("cells", [FOUR, by_group(3)], ids=["all rows", "groups"])
def test_the_map_is_just_below_the_share_and_zero_at_zero(make, cells):
    make = make if cells.groups == 1 else GROUPED[make]
    made = make(*space(99, cells), cells=cells, share=SHARE, d_in=2)
    if made.output_measure == gaussian_privacy():
        loss = additive_stage(SHARE, cells=cells.number, d_in=2).loss
        assert made.map(2)[0] <= loss.mu
        assert made.map(2)[1] <= loss.leak
        made = gaussian_to_approximate(made, delta=stage_loss(SHARE)[1])
    epsilon, delta = made.map(2)
    assert 1 - 1e-6 < epsilon <= 1
    assert 0 < delta <= 1e-6
    assert (0.0, 0.0) == made.map(0)
    assert made.map(1)[0] < epsilon


@KINDS
def test_the_map_does_not_depend_on_where_the_frame_lies(make):
    elsewhere = Cells(frame=Frame(x_low=-9, x_high=9e9, y_low=3, y_high=4), bins=(2, 2))
    here, there = (
        make(*space(9, cells), cells=cells, share=SHARE, d_in=1).map(1)
        for cells in (FOUR, elsewhere)
    )
    assert here == there


def test_the_histograms_chain():
    rows = points(([0.1, 0.1], 3), ([0.9, 0.9], 3))
    start = space(6, FOUR)
    noise = then_threshold_noise(scale=1e-3, threshold=2)
    assert {0: 3, 3: 3} == (start >> then_cell_map(cells=FOUR) >> noise)(rows)
    assert [3 * ROW, 0, 0, 3 * ROW] == (start >> then_cell_counts(cells=FOUR))(rows)
    sparse = start >> then_sparse_histogram(cells=FOUR, share=QUIET, d_in=1)
    assert [[[0.5, 0], [0, 0.5]]] == sparse(rows).mass.tolist()
    additive = start >> then_additive_histogram(cells=FOUR, share=SHARE, d_in=1)
    assert (1, 2, 2) == additive(rows).mass.shape


@pytest.mark.parametrize("make", MAKERS)
def test_groups_have_constructors_of_their_own(make):
    with pytest.raises(ValueError, match="groups must be 1; got 3"):
        make(*space(9, by_group(3)), cells=by_group(3), share=SHARE, d_in=1)
    with pytest.raises(ValueError, match="groups must be several; got 1"):
        GROUPED[make](*space(9, FOUR), cells=FOUR, share=SHARE, d_in=1)
