from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from opendp.mod import OpenDPException
from pydantic import ValidationError

from accountant import Accountant, ApproximateLoss, Budget, GaussianLoss, PrivacyUnit
from accountant.errors import InvalidValue
from accountant.facts import first_problem
from dppca_odp.columns import Label
from dppca_odp.directions import NoisyDirections
from dppca_odp.errors import InvalidPlan
from dppca_odp.frame import Frame
from dppca_odp.plan import Plan
from dppca_odp.planned import Setting
from dppca_odp.releases import Release
from dppca_odp.scores.additive import ROW, additive_stage
from dppca_odp.scores.cells import Cells, Histogram
from dppca_odp.scores.frames import PrivateFrame
from dppca_odp.scores.scores import (
    ScorePicture,
    Scores,
    make_score_picture,
    make_scores,
    then_score_picture,
    then_scores,
)
from dppca_odp.scores.sparse import sparse_stage
from dppca_odp.spaces import matrix_domain, rows_metric
from dppca_odp.values import LARGEST_VALUE

SQUARE = Frame(x_low=-1, x_high=1, y_low=-1, y_high=1)
CITY = Label(name="city", levels=("york", "bath"))
UNIT = PrivacyUnit(rows_per_person=1)
SETTING = Setting(rows=20, names=("a", "b", "c"), components=3, unit=PrivacyUnit(rows_per_person=2))
GROUPED = SETTING._replace(labels=(CITY,))
SHARE = Budget.of("1/3", "1e-6")
#: Laplace noise of this epsilon is 0 but for a chance below 1e-200.
LOUD = Budget.of(1000, "1e-6")
AXES = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))


def scores(**changes):
    usual = {"name": "scores", "directions": "d", "histogram": "sparse"}
    return Scores.model_validate(usual | changes)


def plan(**changes):
    """A plan of one scores release on public axes and a public square."""
    usual = {"directions": AXES, "frame": SQUARE, "bins": (2, 2)}
    return Plan(
        budget=LOUD,
        unit=UNIT,
        columns=("a", "b", "c"),
        labels=(CITY,),
        releases=(scores(**usual | changes),),
    )


@pytest.fixture
def accountant(tmp_path):
    return Accountant.grant(
        tmp_path / "ledger.db", data_set="homes", budget=Budget.of(9000, "1e-4"), unit=UNIT
    )


def table(*cells_of_rows):
    """Rows (a, b, c, city), so many of each."""
    rows = [row for row, times in cells_of_rows for _ in range(times)]
    return pl.DataFrame(rows, schema=["a", "b", "c", "city"], orient="row")


HOMES = table(
    ((-0.5, -0.5, 0.5, "york"), 3), ((0.5, -0.5, 0.5, "york"), 1),
    ((0.5, 0.5, 0.5, "york"), 2), ((0.5, 0.5, -0.5, "leeds"), 4),
    ((-0.5, 0.5, -0.5, None), 4), ((0.5, 5.0, 0.5, "york"), 7),
)  # fmt: skip


class TestRefusals:
    @pytest.mark.parametrize("axes", [(1, 1), (2, 2), (1, 4), (9, 1)])
    def test_axes_that_are_equal_or_not_there_are_refused(self, axes):
        expected = (
            f"^axes must be two different components of 3; got {axes[0]} and {axes[1]}. "
            "Count from 1.$"
        )
        with pytest.raises(ValueError, match=expected):
            scores(axes=axes).check(columns=3, components=3, labels=())

    @pytest.mark.parametrize("labels", [(), (CITY,)], ids=["none", "another"])
    def test_groups_that_are_not_declared_are_refused(self, labels):
        expected = r"^groups must be a declared label; got town\. Declare it under labels\.$"
        with pytest.raises(ValueError, match=expected):
            scores(groups="town").check(columns=3, components=3, labels=labels)

    def test_what_suits_the_plan_is_not_refused(self):
        for axes in ((1, 2), (3, 1)):
            scores(axes=axes, groups="city").check(columns=3, components=3, labels=(CITY,))

    @pytest.mark.parametrize(
        ("key", "value", "where"),
        [
            ("axes", (0, 1), "axes.0"),
            ("axes", (1, -1), "axes.1"),
            ("bins", (0, 5), "bins.0"),
            ("bins", (5, 4097), "bins.1"),
            ("histogram", "density", "histogram"),
            ("frame_weight", "0", "frame_weight"),
            ("histogram_weight", "-1", "histogram_weight"),
            ("weight", 0.5, "weight"),
            ("colour", "red", "colour"),
        ],
    )
    def test_a_parameter_out_of_range_is_refused(self, key, value, where):
        with pytest.raises(ValidationError, match=f"(?m)^{where}$"):
            scores(**{key: value})

    def test_a_histogram_has_no_default(self):
        with pytest.raises(InvalidValue, match=r"^histogram\b"):
            Scores(name="scores", directions="d")

    def test_a_frame_out_of_order_is_refused_with_its_sides(self):
        """The words are those of the frame, not of the other kind of frame it is not."""
        sides = {"x_low": 1, "x_high": 0, "y_low": 0, "y_high": 1}
        with pytest.raises(ValidationError) as caught:
            scores(frame=sides)
        assert "x_low and y_low must be below x_high and y_high" in first_problem(caught.value)

    @pytest.mark.parametrize(
        ("changes", "text"),
        [
            ({"axes": (1, 4)}, "axes must be two different components of 3; got 1 and 4"),
            ({"axes": (2, 2)}, "axes must be two different components of 3; got 2 and 2"),
            ({"groups": "town"}, "groups must be a declared label; got town"),
            ({"directions": "d"}, "directions of scores must name an earlier release"),
            ({"directions": [[1], [0], [0]]}, "axes must be two different components of 1"),
        ],
        ids=str,
    )
    def test_a_plan_that_its_scores_do_not_suit_is_no_plan(self, changes, text):
        with pytest.raises(InvalidValue, match=text):
            plan(**changes)

    def test_a_label_with_the_name_of_a_column_is_refused(self):
        label = Label(name="a", levels=("x",))
        expected = "columns and labels must have different names; got a, b, c, a. Rename one."
        with pytest.raises(ValidationError, match=expected):
            Plan.model_validate(plan().model_dump() | {"labels": (label,)})

    def test_a_second_label_of_one_name_is_refused(self):
        with pytest.raises(ValidationError, match="columns and labels must have different names"):
            Plan.model_validate(plan().model_dump() | {"labels": (CITY, CITY)})

    @pytest.mark.parametrize("histogram", ["sparse", "additive"])
    def test_a_budget_too_small_for_the_frame_is_refused_before_any_charge(
        self, accountant, histogram
    ):
        small = plan(histogram=histogram, frame=PrivateFrame())
        small = small.model_copy(update={"budget": Budget.of("1e-14", "1e-6")})
        with pytest.raises(InvalidPlan):
            small.run(HOMES, accountant)
        assert Budget.of(0, 0) == accountant.spent()

    def test_a_matrix_has_no_labels(self, accountant):
        with pytest.raises(ValueError, match=r"^a table with labels must be a data frame"):
            plan(groups="city").run(np.zeros((9, 3)), accountant)
        assert Budget.of(0, 0) == accountant.spent()


class TestShares:
    @pytest.mark.parametrize(
        ("frame", "histogram"), [("1", "1"), ("1", "3"), ("2/7", "1e-3"), ("1e6", "1/3")]
    )
    def test_frame_and_histogram_split_epsilon_by_weight_exactly(self, frame, histogram):
        shares = scores(frame_weight=frame, histogram_weight=histogram).shares(SHARE)
        whole = Fraction(frame) + Fraction(histogram)
        expected = {
            "frame": Budget.of(SHARE.epsilon * Fraction(frame) / whole, 0),
            "histogram": Budget.of(SHARE.epsilon * Fraction(histogram) / whole, SHARE.delta),
        }
        assert expected == shares
        assert SHARE == shares["frame"] + shares["histogram"]

    def test_a_public_frame_leaves_all_to_the_histogram(self):
        method = scores(frame=SQUARE, frame_weight="5")
        assert {"histogram": SHARE} == method.shares(SHARE)
        (stage,) = method.stages(SHARE, SETTING)
        assert ("histogram", SHARE) == (stage.stage.name, stage.stage.budget)

    @pytest.mark.parametrize("histogram", ["sparse", "additive"])
    def test_the_stages_sum_to_the_share_exactly(self, histogram):
        lines = scores(histogram=histogram, frame_weight="1/7").stages(SHARE, SETTING)
        assert ["frame", "histogram"] == [line.stage.name for line in lines]
        budgets = [line.stage.budget for line in lines]
        assert SHARE == budgets[0] + budgets[1]
        assert all(line.noise and line.noise_scale > 0 for line in lines)


class TestStages:
    @pytest.mark.parametrize("frame", [SQUARE, PrivateFrame()], ids=["public", "private"])
    @pytest.mark.parametrize("groups", [None, "city"])
    def test_the_sparse_stage_is_what_the_measurement_uses(self, frame, groups):
        method = scores(frame=frame, groups=groups)
        share = method.shares(SHARE)["histogram"]
        line = method.stages(SHARE, GROUPED)[-1]
        sparse = sparse_stage(share, d_in=2)
        assert (ApproximateLoss(epsilon=share.epsilon, delta=share.delta),) == line.stage.losses
        assert sparse.scale == line.noise_scale
        assert f"scale of the noise on counts; below {sparse.threshold} they are left out" == (
            line.noise
        )
        found = picture(method)
        assert (line.noise_scale, sparse.threshold) == found.histogram[1:]

    @pytest.mark.parametrize("frame", [SQUARE, PrivateFrame()], ids=["public", "private"])
    @pytest.mark.parametrize("groups", [None, "city"])
    def test_the_additive_stage_is_what_the_measurement_uses(self, frame, groups):
        method = scores(frame=frame, groups=groups, histogram="additive", bins=(3, 2))
        line = method.stages(SHARE, GROUPED)[-1]
        numbers = 6 if groups is None else 18
        stage = additive_stage(method.shares(SHARE)["histogram"], cells=numbers, d_in=2)
        (loss,) = line.stage.losses
        assert isinstance(loss, GaussianLoss)
        assert stage.loss == loss
        assert stage.scale / ROW == line.noise_scale
        assert "standard deviation of the noise on counts" == line.noise
        assert (line.noise_scale, None) == picture(method).histogram[1:]


def picture(method):
    """What the measurement answers on 20 rows of noise, and codes."""
    rows = np.random.default_rng(1).normal(size=(20, 4))
    rows[:, 3] = np.arange(20) % 3
    made = method.make(
        matrix_domain(20, 4),
        rows_metric(),
        share=SHARE,
        setting=GROUPED,
        earlier={"d": NoisyDirections(np.eye(3), 0.0)},
    )
    return made(rows)


class TestGroups:
    def test_without_groups_there_is_one_of_all(self):
        assert ("all",) == scores().group_names((CITY,))
        assert Cells(frame=SQUARE, bins=(20, 20)) == scores().cells(SQUARE, (CITY,))

    def test_with_groups_there_are_the_levels_and_the_rest(self):
        method = scores(groups="city", bins=(4, 5))
        assert ("york", "bath", "rest") == method.group_names(
            (Label(name="z", levels=("z",)), CITY)
        )
        assert Cells(frame=SQUARE, bins=(4, 5), groups=3) == method.cells(SQUARE, (CITY,))

    def test_a_group_without_mass_is_named_and_warned_about(self):
        mass = np.zeros((3, 2, 2))
        mass[1, 0, 0] = 1
        answer = ScorePicture(SQUARE, Histogram(mass, 2.5, 7), ("searched too far",))
        found = scores(groups="city").released(answer, GROUPED)
        assert ("york", "rest") == found.empty
        told = (
            "its histogram is all zero: no rows are in it, or too few for this noise. "
            "Fewer bins or a larger share show smaller groups."
        )
        assert ("searched too far", f"york: {told}", f"rest: {told}") == found.warnings

    def test_the_record_holds_what_was_answered(self):
        mass = np.array([[[0.25, 0.75]]])
        answer = ScorePicture(SQUARE, Histogram(mass, 2.5, 7), ())
        found = scores(axes=(3, 1)).released(answer, SETTING)
        assert ("scores", "d", (3, 1), "sparse") == (
            found.name,
            found.directions,
            found.axes,
            found.histogram,
        )
        assert (SQUARE, 2.5, 7, None) == (
            found.frame,
            found.noise_scale,
            found.threshold,
            found.label,
        )
        assert (("all",), (((0.25, 0.75),),), (), ()) == (
            found.groups,
            found.mass,
            found.empty,
            found.warnings,
        )


class TestMakeScores:
    TABLE = np.array([[1.0, 2.0, 3.0, 7.0], [np.nan, np.inf, -np.inf, np.nan]])

    def scores(self, directions, label):
        return make_scores(matrix_domain(2, 4), rows_metric(), directions=directions, label=label)(
            self.TABLE
        )

    def test_two_coordinates_of_the_measured_columns(self):
        answer = self.scores([[0.0, 0.6], [0.0, 0.8], [1.0, 0.0]], None)
        assert np.allclose([3.0, 2.2], answer[0])

    def test_the_code_stands_behind_them_untouched(self):
        answer = self.scores([[0.0, 1.0], [0.0, 0.0], [1.0, 0.0]], 3)
        expected = [[3.0, 1.0, 7.0], [-LARGEST_VALUE, 0.0, np.nan]]
        assert np.array_equal(expected, answer, equal_nan=True)

    def test_changed_rows_stay_as_many(self):
        made = make_scores(matrix_domain(2, 4), rows_metric(), directions=np.eye(3, 2), label=3)
        assert [0, 1, 2] == [made.map(d) for d in (0, 1, 2)]
        assert matrix_domain(2, 3) == made.output_domain

    @pytest.mark.parametrize("label", [-1, 0, 2, 4])
    def test_a_label_that_is_measured_or_not_there_is_refused(self, label):
        expected = f"^label must be a column from 3 to 3; got {label}. Count from 0.$"
        with pytest.raises(ValueError, match=expected):
            self.scores(np.eye(3, 2), label)

    @pytest.mark.parametrize("directions", [[[np.nan, 0.0]] * 3, [[np.inf, 0.0]] * 3])
    def test_directions_that_are_not_finite_are_refused(self, directions):
        with pytest.raises(ValueError, match=r"^directions must be finite"):
            self.scores(directions, None)


class TestPicture:
    def make(self, d_in=1, **changes):
        return make_score_picture(
            matrix_domain(9, 2), rows_metric(), method=scores(**changes), labels=(), share=SHARE,
            d_in=d_in,
        )  # fmt: skip

    @pytest.mark.parametrize("histogram", ["sparse", "additive"])
    @pytest.mark.parametrize("frame", [SQUARE, PrivateFrame()], ids=["public", "private"])
    def test_the_map_is_just_below_the_share(self, histogram, frame):
        made = self.make(d_in=3, histogram=histogram, frame=frame)
        epsilon, delta = made.map(3)
        assert 1 / 3 - 1e-6 < epsilon <= SHARE.epsilon
        assert 0 < delta <= SHARE.delta
        assert (0.0, 0.0) == made.map(0)

    def test_a_private_frame_covers_no_more_rows_than_it_paid_for(self):
        with pytest.raises(OpenDPException):
            self.make(d_in=3).map(4)

    def test_a_public_frame_is_the_one_released(self):
        answer = self.make(frame=SQUARE)(np.zeros((9, 2)))
        assert (SQUARE, ()) == (answer.frame, answer.warnings)

    def test_too_few_columns_for_groups_are_refused(self):
        method = scores(groups="city", frame=SQUARE)
        with pytest.raises(ValueError, match=r"^input_domain must have 3 columns for 3 groups"):
            make_score_picture(
                matrix_domain(9, 2), rows_metric(), method=method, labels=(CITY,), share=SHARE,
                d_in=1,
            )  # fmt: skip

    def test_the_picture_chains(self):
        chain = (
            (matrix_domain(2, 3), rows_metric())
            >> then_scores(directions=np.eye(3, 2), label=None)
            >> then_score_picture(
                method=scores(frame=SQUARE, bins=(1, 1)), labels=(), share=LOUD, d_in=1
            )
        )
        assert [[[1.0]]] == chain(np.zeros((2, 3))).histogram.mass.tolist()


class TestInAPlan:
    """Exact cases: a public square, and noise that is 0."""

    def test_all_rows_give_one_histogram(self, accountant):
        found = plan().run(HOMES, accountant)["scores"]
        assert ((("all",), None)) == (found.groups, found.label)
        assert ((((3 / 13, 0.0), (4 / 13, 6 / 13)),)) == found.mass
        assert "given" == found.directions

    def test_by_group_an_undeclared_or_missing_label_is_the_rest(self, accountant):
        release = plan(groups="city").run(HOMES, accountant)
        found = release["scores"]
        york, bath, rest = found.mass
        assert ((0.6, 0.0), (0.0, 0.4)) == york
        assert ((0.0, 0.0), (0.0, 0.0)) == bath
        assert ((0.0, 0.0), (0.5, 0.5)) == rest
        assert ("york", "bath", "rest") == found.groups
        assert ("bath",) == found.empty
        (warning,) = release.warnings
        assert warning.startswith("scores: bath: its histogram is all zero")

    def test_a_label_is_never_measured(self, accountant):
        numbered = HOMES.with_columns(pl.lit(1e9).alias("city"))
        with_label = plan().run(HOMES, accountant, "first")["scores"]
        assert with_label == plan().run(numbered, accountant, "second")["scores"]

    def test_every_group_has_the_whole_budget(self, accountant):
        alone = plan().run(HOMES, accountant)["scores"]
        grouped = plan(groups="city").run(HOMES, accountant)["scores"]
        assert alone.noise_scale == grouped.noise_scale
        assert alone.threshold == grouped.threshold

    @pytest.mark.parametrize(
        ("axes", "expected"),
        [
            ((2, 1), ((3 / 13, 4 / 13), (0.0, 6 / 13))),
            ((3, 1), ((4 / 14, 3 / 14), (4 / 14, 3 / 14))),
        ],
    )
    def test_any_two_components_are_the_axes(self, accountant, axes, expected):
        homes = HOMES.filter(pl.col("b") < 1) if axes == (3, 1) else HOMES
        found = plan(axes=axes).run(homes, accountant)["scores"]
        assert axes == found.axes
        assert expected == found.mass[0]

    def test_directions_come_from_the_same_plan(self, accountant):
        """The histogram is that of the rows along the released vectors."""
        random = np.random.default_rng(8)
        rows = random.normal(size=(300, 3)) * [0.3, 0.2, 0.1]
        homes = pl.DataFrame(rows, schema=["a", "b", "c"]).with_columns(
            pl.lit("york").alias("city")
        )
        release = Plan.model_validate(
            plan().model_dump()
            | {
                "releases": [
                    {"kind": "directions", "name": "d", "components": 3, "weight": "1/99"},
                    plan(axes=(3, 2)).releases[0].model_dump() | {"directions": "d"},
                ]
            }
        ).run(homes, accountant)
        along = rows @ np.array(release["d"].vectors)
        counts, _, _ = np.histogram2d(along[:, 1], along[:, 2], bins=2, range=((-1, 1), (-1, 1)))
        assert np.allclose([counts / counts.sum()], release["scores"].mass)
        assert "d" == release["scores"].directions

    @pytest.mark.parametrize("histogram", ["sparse", "additive"])
    def test_a_private_frame_is_found_and_released(self, accountant, histogram):
        modest = plan(frame=PrivateFrame(), histogram=histogram, groups="city").model_copy(
            update={"budget": Budget.of(2, "1e-6")}
        )
        release = modest.run(HOMES, accountant)
        frame = release["scores"].frame
        assert pytest.approx(frame.x_high - frame.x_low) == frame.y_high - frame.y_low
        assert ["scores: frame", "scores: histogram"] == [stage.name for stage in release.stages]
        assert Budget.of(2, "1e-6") == accountant.spent()
        for name, mass in zip(release["scores"].groups, release["scores"].mass, strict=True):
            whole = 0 if name in release["scores"].empty else 1
            assert pytest.approx(whole) == np.sum(mass)

    @pytest.mark.parametrize("histogram", ["sparse", "additive"])
    def test_a_table_outside_the_frame_is_answered(self, accountant, histogram):
        far = Frame(x_low=50, x_high=51, y_low=50, y_high=51)
        modest = plan(frame=far, histogram=histogram, bins=(1, 1), groups="city").model_copy(
            update={"budget": Budget.of(2, "1e-6")}
        )
        found = modest.run(HOMES, accountant)["scores"]
        shares = [group[0][0] for group in found.mass]
        assert [name in found.empty for name in found.groups] == [share == 0 for share in shares]
        assert set(shares) <= {0.0, 1.0}
        if histogram == "sparse":
            assert found.groups == found.empty

    def test_the_release_goes_both_ways_through_json_and_a_file(self, accountant, tmp_path):
        release = plan(groups="city").run(HOMES, accountant)
        assert release == Release.model_validate_json(release.model_dump_json())
        release.write(tmp_path / "release.json")
        assert release == Release.read(tmp_path / "release.json")
        assert release.scores == (release["scores"],)

    def test_the_same_plan_again_is_the_stored_release_at_no_cost(self, accountant):
        first = plan(groups="city").run(HOMES, accountant)
        again = plan(groups="city").run(HOMES, accountant)
        assert again.from_ledger
        assert first.results == again.results
        assert LOUD == accountant.spent()

    def test_the_plan_goes_both_ways_through_json(self):
        for given in (plan(groups="city"), plan(frame=PrivateFrame(inflation=0.5))):
            assert given == Plan.model_validate_json(given.model_dump_json())

    def test_the_release_holds_no_row(self, accountant):
        secret = HOMES.with_columns(pl.lit(31337.25).alias("c"))
        release = plan(groups="city").run(secret, accountant)
        assert "31337" not in release.model_dump_json()
        assert "leeds" not in release.model_dump_json()
