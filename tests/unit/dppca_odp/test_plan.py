import json
import math
import re
import subprocess
import sys
from fractions import Fraction
from typing import ClassVar

import numpy as np
import polars as pl
import pytest
from opendp.mod import OpenDPException
from pydantic import ValidationError

from accountant import (
    Accountant,
    Budget,
    BudgetExceeded,
    Charge,
    CommittedRule,
    GaussianRule,
    KeyConflict,
    PrivacyUnit,
    SumRule,
    TableMismatch,
    UnitMismatch,
)
from accountant.gaussian import gaussian_epsilon
from dppca_odp.errors import InvalidPlan, UnusableTable
from dppca_odp.plan import Plan, make_plan, then_plan
from dppca_odp.releases import Release
from dppca_odp.spaces import matrix_domain, rows_metric

COLUMNS = ("a", "b", "c")
UNIT = PrivacyUnit(rows_per_person=2)
CLIPPED = {"kind": "clipped", "clipping_bound": 50}
PMWM = {"kind": "pmwm", "lower_bound": 0, "upper_bound": 100}
HUBER = {"kind": "huber", "lowest_scale": -5, "highest_scale": 5, "scale_fraction": "1/4"}


OLD_HASH = "03ddaa68cc3c12757f8c829c37d4fa53c25b243e01ff246f11f08b7866eee882"


def directions(**changes):
    return {"kind": "directions", "name": "main", "components": 2} | changes


def scree(method=CLIPPED, **changes):
    return {
        "kind": "scree",
        "name": method["kind"],
        "method": method,
        "directions": "main",
    } | changes


RELEASES = [directions(), scree(CLIPPED), scree(PMWM, weight="2"), scree(HUBER, weight="1/3")]


def document(**changes):
    return {
        "budget": {"epsilon": "1", "delta": "1e-6"},
        "unit": {"rows_per_person": 2},
        "columns": list(COLUMNS),
        "releases": RELEASES,
    } | changes


def plan(**changes):
    return Plan.model_validate(document(**changes))


@pytest.fixture
def table():
    return np.random.default_rng(21).normal(size=(60, 3)) * [3.0, 2.0, 1.0]


@pytest.fixture
def accountant(tmp_path):
    return Accountant.grant(
        tmp_path / "ledger.db",
        data_set="clinic",
        budget=Budget.of("2", "1e-5"),
        unit=UNIT,
        rows=60,
        columns=COLUMNS,
    )


def kinds(accountant):
    return [entry.kind for entry in accountant.entries()]


class TestDocument:
    def test_json_goes_both_ways(self):
        first = plan()
        assert Plan.model_validate_json(first.model_dump_json()) == first
        assert Plan.model_validate(first.model_dump(mode="json")) == first

    def test_a_bare_name_is_a_column_without_bounds(self):
        assert plan() == plan(columns=[{"name": name} for name in COLUMNS])

    def test_weights_and_fractions_stay_exact(self):
        text = plan().model_dump_json()
        assert '"weight":"1/3"' in text
        assert '"epsilon":"1"' in text
        assert '"delta":"0.000001"' in text or '"delta":"1e-6"' in text

    def test_the_hash_is_that_of_the_same_plan_written_differently(self):
        written = document(budget={"delta": "1/1000000", "epsilon": "1.0"})
        written["releases"] = [directions(weight="1.0"), *RELEASES[1:]]
        text = json.dumps(dict(reversed(written.items())), indent=3)
        assert Plan.model_validate_json(text).hash == plan().hash

    def test_the_hash_is_the_same_in_another_process(self):
        code = "import sys; from dppca_odp.plan import Plan; "
        code += "print(Plan.model_validate_json(sys.stdin.read()).hash)"
        other = subprocess.run(
            [sys.executable, "-c", code],
            input=plan().model_dump_json(),
            capture_output=True,
            text=True,
            check=True,
        )
        assert other.stdout.strip() == plan().hash

    @pytest.mark.parametrize(
        "changes",
        [
            {"budget": {"epsilon": "1.0000001", "delta": "1e-6"}},
            {"unit": {"rows_per_person": 3}},
            {"columns": ["a", "b", "d"]},
            {"columns": ["a", "b", {"name": "c", "upper": 5}]},
            {"columns": ["b", "a", "c"]},
            {"releases": RELEASES[:-1]},
            {"releases": [directions(degree=8), *RELEASES[1:]]},
        ],
        ids=lambda changes: next(iter(changes)),
    )
    def test_another_plan_has_another_hash(self, changes):
        assert plan(**changes).hash != plan().hash

    def test_the_schema_holds_every_method(self):
        text = json.dumps(Plan.model_json_schema())
        for word in ("clipping_bound", "trim_fraction", "scale_fraction", "rows_per_person"):
            assert word in text

    def test_a_plan_cannot_be_changed(self):
        with pytest.raises(ValidationError, match="frozen"):
            plan().budget = Budget.of("9", "1e-6")


class TestReading:
    @pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf"], ids=["plain", "byte order mark"])
    def test_a_plan_is_read_from_its_json(self, tmp_path, start):
        path = tmp_path / "plan.json"
        path.write_bytes(start + plan().model_dump_json().encode())
        assert plan() == Plan.read(path)
        assert plan() == Plan.read(str(path))

    def test_a_plan_that_is_not_there_is_refused(self, tmp_path):
        for path in (tmp_path / "plan.json", tmp_path):
            expected = f"the plan must be a readable UTF-8 file; got {path}. Check the path."
            with pytest.raises(InvalidPlan) as caught:
                Plan.read(path)
            assert expected == str(caught.value)

    def test_a_plan_in_another_encoding_is_refused(self, tmp_path):
        (tmp_path / "plan.json").write_bytes(plan().model_dump_json().encode("utf-16"))
        with pytest.raises(InvalidPlan, match="the plan must be a readable UTF-8 file; got"):
            Plan.read(tmp_path / "plan.json")

    def test_a_file_that_is_no_json_is_refused(self, tmp_path):
        (tmp_path / "plan.json").write_text("budget: 1")
        with pytest.raises(InvalidPlan, match=r"^plan\.json: the file must be JSON; got expected"):
            Plan.read(tmp_path / "plan.json")

    @pytest.mark.parametrize(
        ("changes", "text"),
        [
            ({"seed": 1}, "seed must not be there; got an unknown key. Check its spelling."),
            ({"unit": {}}, "unit.rows_per_person must be given; got nothing. Add it."),
            (
                {"unit": {"rows_per_person": 0}},
                "unit.rows_per_person must be at least 1; got 0. Change that value.",
            ),
            (
                {"budget": {"epsilon": 0.1, "delta": "1e-6"}},
                "budget.epsilon: epsilon must be text or an integer; got the float 0.1. "
                'Write it as "0.1".',
            ),
            (
                {"columns": ["a", "a"]},
                "columns and labels must have different names; got a, a. Rename one.",
            ),
        ],
        ids=str,
    )
    def test_a_problem_of_a_plan_is_one_line_that_says_where_it_is(self, tmp_path, changes, text):
        (tmp_path / "plan.json").write_text(json.dumps(document(**changes)))
        with pytest.raises(InvalidPlan) as caught:
            Plan.read(tmp_path / "plan.json")
        assert f"plan.json: {text}" == str(caught.value)


class TestLabels:
    LABELS = ({"name": "group", "levels": ["x", "y"]},)

    def test_names_of_labels_come_after_those_of_the_columns(self):
        asked = plan(labels=self.LABELS)
        assert COLUMNS == asked.column_names
        assert (*COLUMNS, "group") == asked.table_names

    def test_a_plan_with_labels_is_another_plan_and_goes_both_ways(self):
        asked = plan(labels=self.LABELS)
        assert plan().hash != asked.hash
        assert asked == Plan.model_validate_json(asked.model_dump_json())
        assert plan() == plan(labels=())

    def test_a_label_with_the_name_of_a_column_is_refused(self):
        expected = "columns and labels must have different names; got a, b, c, b. Rename one."
        with pytest.raises(ValidationError, match=expected):
            plan(labels=[{"name": "b", "levels": ["x"]}])

    def test_labels_change_neither_the_price_nor_the_stages(self):
        asked = plan(labels=self.LABELS)
        assert plan().preview(60) == asked.preview(60)
        assert plan().make(60).map(2) == asked.make(60).map(2)

    def test_the_release_measures_columns_alone(self, table, tmp_path):
        accountant = Accountant.grant(
            tmp_path / "ledger.db",
            data_set="clinic",
            budget=Budget.of("2", "1e-5"),
            unit=UNIT,
            rows=60,
            columns=(*COLUMNS, "group"),
        )
        frame = pl.DataFrame(table, schema=list(COLUMNS)).with_columns(
            pl.Series("group", ["x", "y", "z"] * 20)
        )
        release = plan(labels=self.LABELS).run(frame, accountant)
        assert COLUMNS == release.columns
        assert (3, 2) == np.array(release["main"].vectors).shape

    def test_a_matrix_is_refused_and_nothing_is_charged(self, table, accountant):
        with pytest.raises(UnusableTable, match="a table with labels must be a data frame or a"):
            plan(labels=self.LABELS).run(table, accountant)
        assert Budget.of(0, 0) == accountant.spent()


class TestBadInput:
    @pytest.mark.parametrize(
        ("budget", "text"),
        [
            ({"epsilon": "0", "delta": "1e-6"}, "epsilon must be above 0; got 0"),
            ({"epsilon": "-1", "delta": "1e-6"}, "epsilon must not be negative; got '-1'"),
            ({"epsilon": "nan", "delta": "1e-6"}, "epsilon must be a finite number; got 'nan'"),
            ({"epsilon": "inf", "delta": "1e-6"}, "epsilon must be a finite number; got 'inf'"),
            ({"epsilon": 0.1, "delta": "1e-6"}, 'got the float 0.1. Write it as "0.1"'),
            ({"epsilon": "1", "delta": "0"}, "delta must be between 0 and 1; got 0. Use a small"),
            ({"epsilon": "1", "delta": "1"}, "delta must be below 1; got 1"),
            ({"epsilon": "1", "delta": "2"}, "delta must be below 1; got 2"),
            ({"epsilon": "1", "delta": "-1e-6"}, "delta must not be negative; got '-1e-6'"),
            ({"epsilon": "1", "delta": 1e-6}, 'got the float 1e-06. Write it as "1e-06"'),
            ({"epsilon": "1"}, "delta\n  Field required"),
            ({"epsilon": "1", "delta": "1e-6", "rho": 1}, "rho\n  Extra inputs are not"),
        ],
        ids=str,
    )
    def test_a_budget_that_cannot_be_spent_is_refused(self, budget, text):
        with pytest.raises(ValidationError) as caught:
            plan(budget=budget)
        assert text in str(caught.value)

    @pytest.mark.parametrize(
        ("unit", "where"),
        [
            ({"rows_per_person": 0}, "unit.rows_per_person"),
            ({"rows_per_person": 1.5}, "unit.rows_per_person"),
            ({}, "unit.rows_per_person"),
            ({"rows_per_person": 1, "relation": "add-remove"}, "unit.relation"),
        ],
        ids=str,
    )
    def test_another_unit_is_refused(self, unit, where):
        with pytest.raises(ValidationError, match=f"(?m)^{where}$"):
            plan(unit=unit)

    @pytest.mark.parametrize(
        ("changes", "where"),
        [
            ({"seed": 1}, "seed"),
            ({"columns": ["a", {"name": "b", "dtype": "float"}]}, "columns.1.dtype"),
            ({"releases": [directions(k=2)]}, "releases.0.directions.k"),
            (
                {"releases": [directions(), scree(CLIPPED | {"C": 5})]},
                "releases.1.scree.method.clipped.C",
            ),
            (
                {"releases": [directions(), scree(PMWM | {"grid": {"base": 2}})]},
                "releases.1.scree.method.pmwm.grid.base",
            ),
        ],
        ids=["plan", "column", "release", "method", "grid"],
    )
    def test_an_unknown_key_is_refused_where_it_stands(self, changes, where):
        with pytest.raises(ValidationError, match=f"(?m)^{where}\n  Extra inputs"):
            plan(**changes)

    @pytest.mark.parametrize("key", ["budget", "unit", "columns", "releases"])
    def test_every_key_is_needed(self, key):
        asked = document()
        del asked[key]
        with pytest.raises(ValidationError, match=f"(?m)^{key}\n  Field required"):
            Plan.model_validate(asked)

    @pytest.mark.parametrize("key", ["columns", "releases"])
    def test_an_empty_list_is_refused(self, key):
        with pytest.raises(ValidationError, match=f"(?m)^{key}$"):
            plan(**{key: []})

    def test_columns_must_have_different_names(self):
        with pytest.raises(
            ValidationError, match=r"columns and labels must have different names; got a, b, a\. "
        ):
            plan(columns=["a", "b", "a"])

    def test_releases_must_have_different_names(self):
        with pytest.raises(
            ValidationError, match=r"releases must have different names; got main, main\. Rename"
        ):
            plan(releases=[directions(), directions()])

    def test_more_components_than_columns_are_refused(self):
        expected = "components must be at most the number of columns, 3; got 4. Use fewer."
        with pytest.raises(ValidationError, match=expected):
            plan(releases=[directions(components=4)])

    @pytest.mark.parametrize(
        "releases",
        [
            [scree(), directions()],
            [directions(), scree(directions="none")],
            [directions(), scree(), scree(PMWM, directions="clipped")],
        ],
        ids=["a later one", "no such", "eigenvalues"],
    )
    def test_directions_must_be_an_earlier_release_of_directions(self, releases):
        expected = "directions of .* must name an earlier release of directions; got .* Plan it"
        with pytest.raises(ValidationError, match=expected):
            plan(releases=releases)

    @pytest.mark.parametrize(
        "given",
        [
            [],
            [[], [], []],
            [[1.0], [0.0]],
            [[1.0, 0.0], [0.0], [0.0]],
            [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]],
        ],
        ids=["nothing", "no columns", "too few rows", "ragged", "k above p"],
    )
    def test_public_directions_of_another_shape_are_refused(self, given):
        with pytest.raises(ValidationError, match=r"directions must have one row per column \(3\)"):
            plan(releases=[scree(directions=given)])

    @pytest.mark.parametrize(
        "given", [[[1.0], [1.0], [0.0]], [[2.0], [0.0], [0.0]], [[1, 1], [0, 0], [0, 0]]]
    )
    def test_public_directions_must_be_orthonormal(self, given):
        with pytest.raises(
            ValidationError, match="directions must be orthonormal; got columns that are not"
        ):
            plan(releases=[scree(directions=given)])

    def test_public_directions_of_any_size_are_answered_without_a_warning(self):
        with pytest.raises(
            ValidationError, match="directions must be orthonormal; got columns that are not"
        ):
            plan(releases=[scree(directions=[[1e200], [1e200], [0.0]])])

    def test_public_directions_must_be_finite(self):
        with pytest.raises(ValidationError, match="finite number"):
            plan(releases=[scree(directions=[[float("nan")], [1.0], [0.0]])])

    def test_clipping_bounds_for_another_number_of_components_are_refused(self):
        expected = "clipping_bound must be one number or one for each of 2 components; got 3"
        with pytest.raises(ValidationError, match=expected):
            plan(releases=[directions(), scree(CLIPPED | {"clipping_bound": [1, 2, 3]})])

    @pytest.mark.parametrize(
        ("method", "text"),
        [
            (CLIPPED | {"clipping_bound": 0}, "greater than 0"),
            (CLIPPED | {"clipping_bound": -1}, "greater than 0"),
            (PMWM | {"lower_bound": 100}, "lower_bound must be below upper_bound"),
            (PMWM | {"lower_bound": 101}, "lower_bound must be below upper_bound"),
            (PMWM | {"grid": {"beta": 1}}, "greater than 1"),
            (PMWM | {"trim_fraction": 0.5}, "less than 0.5"),
            (PMWM | {"trim_fraction": -0.1}, "greater than or equal to 0"),
            (HUBER | {"lowest_scale": 5}, "lowest_scale must be below highest_scale"),
            (HUBER | {"scale_fraction": 0.25}, 'Write it as "0.25"'),
        ],
        ids=str,
    )
    def test_a_method_out_of_range_is_refused(self, method, text):
        with pytest.raises(ValidationError, match=text):
            plan(releases=[directions(), scree(method)])

    @pytest.mark.parametrize(
        "method",
        [CLIPPED | {"clipping_bound": 1e308}, PMWM | {"lower_bound": -1e308, "upper_bound": 1e308}],
        ids=["clipped", "pmwm"],
    )
    def test_bounds_that_leave_no_room_for_noise_are_refused(self, method):
        with pytest.raises(ValidationError, match="bound"):
            plan(releases=[directions(), scree(method)])


class TestShares:
    def test_shares_follow_weights_and_sum_to_the_budget_exactly(self):
        shares = plan().shares()
        # weights 1, 1, 2 and 1/3: thirteenths of the budget
        assert {
            "main": Fraction(3, 13),
            "clipped": Fraction(3, 13),
            "pmwm": Fraction(6, 13),
            "huber": Fraction(1, 13),
        } == {name: share.epsilon for name, share in shares.items()}
        assert 1 == sum(share.epsilon for share in shares.values())
        assert Fraction("1e-6") == sum(share.delta for share in shares.values())

    def test_components_come_from_directions_named_or_given(self):
        given = [[1.0], [0.0], [0.0]]
        asked = plan(releases=[directions(), scree(), scree(PMWM, directions=given)])
        assert [2, 2, 1] == [asked.components(release) for release in asked.releases]


class TestPreview:
    def test_the_stages_are_in_order_and_sum_to_the_budget_exactly(self):
        shown = plan().preview(60)
        assert [
            "main: matrix",
            "clipped: mean",
            "pmwm: quantile",
            "pmwm: mean",
            "huber: scale",
            "huber: gradient descent",
        ] == [line.stage.name for line in shown.stages]
        assert 1 == sum(line.stage.budget.epsilon for line in shown.stages)
        assert Fraction("1e-6") == sum(line.stage.budget.delta for line in shown.stages)

    def test_it_needs_no_data_but_the_shape(self):
        shown = plan().preview(60, 3)
        assert (60, 3) == (shown.rows, shown.columns)
        assert shown == plan().preview(60)
        assert "60 rows by 3 columns" in str(shown)

    def test_another_number_of_columns_is_refused(self):
        with pytest.raises(
            InvalidPlan, match=r"columns must be 3, as the plan declares; got 4\. Count"
        ):
            plan().preview(60, 4)

    def test_a_table_too_small_names_the_release_that_cannot_run(self):
        with pytest.raises(
            InvalidPlan, match=r"huber: pairs must be at least 4 \(8 rows\) for Huber; got 3"
        ):
            plan().preview(7)
        with pytest.raises(
            InvalidPlan, match=r"main: rows must be at least 3 for a ring; got 2\. Give"
        ):
            plan().preview(2)

    @pytest.mark.parametrize("rows", [-3, -1, 0, 1])
    @pytest.mark.parametrize("method", [CLIPPED, PMWM | {"pair_rows": "reuse"}])
    def test_fewer_than_two_rows_are_refused(self, rows, method):
        asked = plan(releases=[scree(method, directions=[[1.0], [0.0], [0.0]])])
        with pytest.raises(
            InvalidPlan, match=f"^rows must be at least 2; got {rows}. A pair needs"
        ):
            asked.preview(rows)


class TestGuesses:
    def test_one_guess_is_for_all_components_and_several_for_each(self):
        shown = plan().preview(60, guesses={"clipped": 4, "pmwm": [10.0, 2.0]})
        guessed = {scree.name: scree.eigenvalues for scree in shown.screes}
        assert {"clipped": (4.0, 4.0), "pmwm": (10.0, 2.0), "huber": ()} == guessed
        of_a_list = plan().preview(60, guesses={"clipped": [4.0], "pmwm": [10.0, 2.0]})
        assert shown == of_a_list

    def test_the_noise_is_that_of_the_methods_share(self):
        (stage,) = [line for line in plan().preview(60).stages if line.stage.name[:7] == "clipped"]
        clipped = plan().preview(60, guesses={"clipped": 4}).screes[0]
        assert stage.noise_scale == pytest.approx(max(clipped.noise_scales), rel=1e-9)
        assert clipped.sampling_scales == pytest.approx([4 * math.sqrt(4 / 60)] * 2)
        committed = plan(composition="committed").preview(60, guesses={"clipped": 4}).screes[0]
        assert committed.noise_scales[0] < 0.9 * clipped.noise_scales[0]

    @pytest.mark.parametrize(
        ("guesses", "problem"),
        [
            ({"axes": 1}, "guesses must be of the screes clipped, pmwm, huber; got one of axes."),
            (
                {"pmwm": [1] * 3},
                "guesses of pmwm must be one number or one for each of 2 components; ",
            ),
            ({"pmwm": []}, "guesses of pmwm must be one number or one for each of 2 components; "),
            ({"pmwm": [1, 0]}, "guesses of pmwm must be above 0 and at most 1e+200; got 0."),
            ({"pmwm": math.nan}, "guesses of pmwm must be above 0 and at most 1e+200; got nan."),
            ({"pmwm": math.inf}, "guesses of pmwm must be above 0 and at most 1e+200; got inf."),
        ],
    )
    def test_guesses_that_do_not_suit_are_refused(self, guesses, problem):
        with pytest.raises(InvalidPlan, match=f"^{re.escape(problem)}"):
            plan().preview(60, guesses=guesses)


class TestComparison:
    @pytest.mark.parametrize("composition", ["sum", "committed"])
    def test_the_same_stages_by_each_rule(self, composition):
        shown = plan(composition=composition).preview(60)
        assert composition == shown.composition
        stages = [line.stage for line in shown.stages]
        assert shown.costs.sum == sum((stage.budget for stage in stages), start=Budget.of(0, 0))
        used_up = {"sum": shown.costs.sum, "committed": shown.costs.committed}[composition]
        assert 1 - 1e-6 < used_up.epsilon <= 1
        assert shown.costs.committed.epsilon < 0.8 * shown.costs.sum.epsilon
        assert 0 < shown.costs.gaussian.mu_squared < 1

    def test_the_noise_of_both_compositions_at_the_same_budget(self):
        alone, committed = (plan(composition=name).preview(60) for name in ("sum", "committed"))
        assert alone.noise_scales == committed.noise_scales
        for shown, scales in (
            (alone, alone.noise_scales.sum),
            (committed, alone.noise_scales.committed),
        ):
            assert tuple(line.noise_scale for line in shown.stages) == scales

    def test_a_plan_that_cannot_be_committed_says_so(self):
        only = SCORES | {"directions": [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]}
        shown = plan(releases=[only]).preview(60)
        assert shown.costs.committed is shown.noise_scales.committed is None
        assert "committed" in str(shown)


class TestMeasurement:
    def test_the_map_is_just_below_the_budget_and_covers_the_unit(self):
        measurement = plan().make(60)
        for rows in (1, 2):
            epsilon, delta = measurement.map(rows)
            assert epsilon > 1 - 1e-9
            assert Fraction(epsilon) <= 1
            assert Fraction(delta) <= Fraction("1e-6")
        assert (0.0, 0.0) == measurement.map(0)

    def test_more_rows_than_the_unit_have_no_price(self):
        with pytest.raises(OpenDPException):
            plan().make(60).map(3)

    def test_it_answers_every_release(self, table):
        answers = plan().make(60)(table)
        assert ["main", "clipped", "pmwm", "huber"] == list(answers)
        assert (3, 2) == answers["main"].vectors.shape
        assert answers["main"].noise_scale > 0
        assert [2, 2, 2] == [len(answers[name].values) for name in ("clipped", "pmwm", "huber")]

    def test_eigenvalues_are_taken_along_the_directions_released_before(self):
        rows = 100_000
        turned, _ = np.linalg.qr(np.random.default_rng(22).normal(size=(3, 3)))
        data = np.random.default_rng(23).normal(size=(rows, 3)) * [4.0, 2.0, 0.5] @ turned.T
        asked = plan(
            budget={"epsilon": "30", "delta": "1e-5"},
            unit={"rows_per_person": 1},
            releases=[directions(), scree(CLIPPED | {"clipping_bound": 300})],
        )
        answers = asked.make(rows)(data)
        assert np.abs((answers["main"].vectors * turned[:, :2]).sum(axis=0)).min() > 0.99
        assert pytest.approx([16.0, 4.0], abs=0.6) == answers["clipped"].values

    def test_eigenvalues_are_taken_along_public_directions(self):
        rows = 100_000
        data = np.random.default_rng(24).normal(size=(rows, 3)) * [4.0, 2.0, 0.5]
        asked = plan(
            budget={"epsilon": "20", "delta": "1e-5"},
            unit={"rows_per_person": 1},
            releases=[scree(directions=[[0.0], [1.0], [0.0]])],
        )
        assert pytest.approx([4.0], abs=0.3) == asked.make(rows)(data)["clipped"].values

    @pytest.mark.parametrize("rows", [-1, 0, 1])
    def test_fewer_than_two_rows_are_refused(self, rows):
        with pytest.raises(
            InvalidPlan, match=f"^rows must be at least 2; got {rows}. A pair needs"
        ):
            plan().make(rows)

    def test_a_table_too_small_is_refused(self):
        with pytest.raises(
            InvalidPlan, match=r"pairs must be at least 4 \(8 rows\) for Huber; got 3\."
        ):
            plan().make(7)

    def test_an_epsilon_too_large_for_the_noise_is_refused(self):
        large = plan(budget={"epsilon": "1000", "delta": "1e-6"})
        expected = "a Gaussian stage must have a share that noise on 64-bit integers can keep; got"
        with pytest.raises(InvalidPlan, match=f"^{expected}"):
            large.make(60)
        with pytest.raises(InvalidPlan, match=f"^main: {expected}"):
            large.preview(60)

    def test_an_epsilon_too_small_for_the_search_is_refused_before_any_charge(
        self, table, accountant
    ):
        tiny = plan(budget={"epsilon": "1e-11", "delta": "1e-7"}, releases=RELEASES[::2])
        expected = r"epsilon_target must be at least 2\^-40 and finite; got .* Give a larger share"
        with pytest.raises(InvalidPlan, match=expected):
            tiny.make(60)
        with pytest.raises(InvalidPlan, match=expected):
            tiny.run(table, accountant)
        assert Budget.of(0, 0) == accountant.spent()
        assert ["grant"] == kinds(accountant)

    @pytest.mark.parametrize("budget", [("1e-300", "1e-300"), ("1e-100", "1e-100"), ("1", "1e-30")])
    def test_a_budget_that_no_noise_keeps_is_refused_as_a_plan(self, budget):
        asked = plan(budget=dict(zip(("epsilon", "delta"), budget, strict=True)))
        for work in (asked.preview, asked.make):
            with pytest.raises(InvalidPlan, match="a Gaussian stage must"):
                work(60)

    def test_a_plan_previewed_with_a_tiny_epsilon_can_be_made(self):
        tiny = plan(budget={"epsilon": "1e-9", "delta": "1e-3"})
        assert 6 == len(tiny.preview(60).stages)
        assert Fraction(tiny.make(60).map(2)[0]) <= Fraction("1e-9")

    def test_it_chains_from_prepared_rows(self):
        space = matrix_domain(60, 3), rows_metric()
        chain = space >> then_plan(plan=plan())
        assert chain.map(2) == make_plan(*space, plan=plan()).map(2) == plan().make(60).map(2)


SCORES = {"kind": "scores", "name": "scores", "directions": "main", "histogram": "sparse"}


class TestWeightsOfStages:
    def shares(self, release, weights):
        """Epsilon of each stage of a release that gets a third of it."""
        weighted = json.loads(json.dumps(release))
        weighted.get("method", weighted)["weights"] = weights
        asked = plan(releases=[directions(weight="2"), weighted])
        assert asked == Plan.model_validate_json(asked.model_dump_json())
        lines = asked.stages(60)[1:]
        assert Fraction("1e-6") / 3 == lines[-1].stage.budget.delta
        return {
            line.stage.name.partition(": ")[2]: str(3 * line.stage.budget.epsilon) for line in lines
        }

    @pytest.mark.parametrize(
        ("release", "weights", "expected"),
        [
            (scree(PMWM), {"mean": "3"}, {"quantile": "1/4", "mean": "3/4"}),
            (scree(PMWM), {"quantile": 2, "mean": 6}, {"quantile": "1/4", "mean": "3/4"}),
            (scree(HUBER), {"scale": "3/4"}, {"scale": "1/2", "gradient descent": "1/2"}),
            (scree(HUBER), {"gradient descent": 1}, {"scale": "1/5", "gradient descent": "4/5"}),
            (SCORES, {"frame": "1/2"}, {"frame": "1/3", "histogram": "2/3"}),
            (SCORES | {"frame_weight": 3}, {"histogram": 5}, {"frame": "3/8", "histogram": "5/8"}),
        ],
    )
    def test_those_that_are_given_replace_the_defaults_and_all_are_renormalised(
        self, release, weights, expected
    ):
        assert expected == self.shares(release, weights)

    @pytest.mark.parametrize(
        ("release", "weights", "known", "got"),
        [
            (scree(PMWM), {"median": 1}, "quantile, mean", "1 for median"),
            (scree(PMWM), {"mean": "0"}, "quantile, mean", "0 for mean"),
            (scree(HUBER), {"descent": 1}, "scale, gradient descent", "1 for descent"),
            (SCORES, {"cells": "1/3"}, "frame, histogram", "1/3 for cells"),
            (
                SCORES | {"frame": {"x_low": 0, "x_high": 1, "y_low": 0, "y_high": 1}},
                {"frame": 1},
                "histogram",
                "1 for frame",
            ),
        ],
    )
    def test_other_stages_and_zero_are_refused_in_one_line(
        self, tmp_path, release, weights, known, got
    ):
        weighted = json.loads(json.dumps(release))
        weighted.get("method", weighted)["weights"] = weights
        path = tmp_path / "plan.json"
        path.write_text(json.dumps(document(releases=[directions(), weighted])))
        with pytest.raises(InvalidPlan) as caught:
            Plan.read(path)
        expected = f"weights must be above 0, of the stages {known}; got {got}. Use their names."
        assert str(caught.value).endswith(expected)

    @pytest.mark.parametrize("weights", [[1], "mean", 3])
    def test_weights_without_names_are_refused(self, weights):
        with pytest.raises(ValidationError, match="weights must be an object of stages and amou"):
            plan(releases=[directions(), scree(PMWM | {"weights": weights})])

    def test_a_method_of_one_stage_has_none(self):
        with pytest.raises(ValidationError, match="weights"):
            plan(releases=[directions(), scree(CLIPPED | {"weights": {"mean": 1}})])

    def test_they_are_not_in_the_hash_unless_given(self):
        assert "weights" not in plan().model_dump_json()
        same = [directions(), scree(PMWM | {"weights": {}})]
        assert plan(releases=same).hash == plan(releases=[directions(), scree(PMWM)]).hash
        for weights in ({"mean": 1}, {"mean": "2"}):
            changed = [directions(), scree(PMWM | {"weights": weights})]
            assert plan(releases=same).hash != plan(releases=changed).hash

    def test_the_order_of_names_does_not_matter(self):
        one, other = (
            plan(releases=[directions(), scree(PMWM | {"weights": weights})])
            for weights in ({"mean": 2, "quantile": 1}, {"quantile": 1, "mean": 2})
        )
        assert (one, one.hash) == (other, other.hash)

    def test_the_measurement_costs_what_the_stages_do(self, table):
        weighted = [directions(), scree(PMWM | {"weights": {"mean": "3"}})]
        for composition in ("sum", "committed"):
            asked = plan(releases=weighted, composition=composition)
            assert 1 - 1e-6 < asked.make(60).map(2)[0] <= 1
            assert ["main", "pmwm"] == list(asked.make(60)(table))


class TestBudgetAsMu:
    def plan(self, mu, delta="1e-6", **more):
        return plan(**{"budget": {"mu": mu, "delta": delta}, "releases": [directions()], **more})

    @pytest.mark.parametrize("delta", ["1e-6", "1e-9"])
    @pytest.mark.parametrize("mu", ["0.05", "1/3", 1, "2.5"])
    def test_one_gaussian_release_is_the_pair_of_that_mu(self, mu, delta):
        asked = self.plan(mu, delta)
        exact = Fraction(gaussian_epsilon(Fraction(mu), Fraction(delta)))
        assert exact * (1 - Fraction(1, 10**5)) < asked.price(60).epsilon <= exact
        assert Fraction(delta) == asked.price(60).delta
        (line,) = asked.stages(60)
        (loss,) = line.stage.losses
        assert Fraction(mu) * (1 - Fraction(1, 10**6)) < loss.mu <= Fraction(mu)

    def test_it_is_kept_as_it_was_given(self):
        asked = self.plan("0.050")
        assert {"mu": "0.05", "delta": "1e-6"} == json.loads(asked.model_dump_json())["budget"]
        assert asked == Plan.model_validate_json(asked.model_dump_json())
        assert asked.hash != self.plan("0.06").hash

    @pytest.mark.parametrize("composition", ["sum", "committed"])
    def test_all_stages_together_cost_that_mu(self, composition):
        asked = plan(budget={"mu": "0.3", "delta": "1e-6"}, composition=composition)
        stages = [line.stage for line in asked.stages(60)]
        cost = GaussianRule(budget=asked.whole, set_aside=0).cost(stages)
        assert Fraction("0.09") * (1 - Fraction(1, 10**6)) <= cost.mu_squared <= Fraction("0.09")
        rule = SumRule() if composition == "sum" else CommittedRule(delta=Fraction("1e-6"))
        assert rule.cost(stages).fits_within(asked.price(60))
        map_epsilon, map_delta = asked.make(60).map(1)
        assert Fraction(map_epsilon) <= asked.price(60).epsilon
        assert Fraction(map_delta) <= asked.price(60).delta

    def test_the_schema_says_so(self):
        schema = Plan.model_json_schema()
        told = [option["$ref"] for option in schema["properties"]["budget"]["oneOf"]]
        assert ["#/$defs/Budget", "#/$defs/MuBudget", "#/$defs/ShareBudget"] == told

    @pytest.mark.parametrize(
        ("budget", "expected"),
        [
            ({"mu": "0", "delta": "1e-6"}, "greater than 0"),
            ({"mu": "1e-9", "delta": "1e-6"}, "mu must have an epsilon above 0 at delta 1e-6; got"),
            ({"mu": "1", "delta": "0"}, "mu must have an epsilon above 0 at delta 0; got mu 1"),
            ({"mu": 0.5, "delta": "1e-6"}, "mu must be text or an integer; got the float 0.5"),
            ({"mu": "1", "delta": "1"}, "delta must be below 1"),
            ({"mu": "1", "epsilon": "1", "delta": "1e-6"}, "Extra inputs are not permitted"),
            ({"mu": "1"}, "Field required"),
        ],
    )
    def test_what_is_no_mu_is_refused(self, budget, expected):
        with pytest.raises(ValidationError, match=expected):
            plan(budget=budget)


class TestBudgetAsShare:
    SHARE: ClassVar = {"budget": {"share": "1/10"}, "releases": [directions()]}

    def keeper(self, path, rule):
        return Accountant.grant(
            path / "ledger.db",
            data_set="shared",
            budget=Budget.of(4, "1e-5"),
            unit=UNIT,
            rule=rule,
        )

    @pytest.mark.parametrize("rule", ["sum", "gaussian"])
    def test_each_run_takes_its_share_of_what_remains_and_a_second_one_nothing(
        self, tmp_path, rule
    ):
        keeper, asked = self.keeper(tmp_path, rule), plan(**self.SHARE)
        table = np.random.default_rng(1).normal(size=(60, 3))
        for number in (1, 2):
            left = keeper.remaining()
            release = asked.run(table, keeper, fresh=number == 2)
            taken = left - keeper.remaining()
            for part, whole in zip(taken.coordinates[:1], left.coordinates, strict=False):
                assert whole / 10 * (1 - Fraction(1, 10**5)) < part <= whole / 10
            assert release.plan_hash == asked.hash
        again = asked.run(table, keeper)
        assert again.from_ledger
        assert left - taken == keeper.remaining()

    def test_without_a_ledger_there_is_nothing_to_share(self):
        for act in (lambda p: p.preview(60), lambda p: p.make(60), lambda p: p.price(60)):
            with pytest.raises(InvalidPlan, match="budget must be in amounts where no ledger is"):
                act(plan(**self.SHARE))

    def test_a_share_of_nothing_is_refused(self, tmp_path):
        keeper = self.keeper(tmp_path, "sum")
        table = np.random.default_rng(1).normal(size=(60, 3))
        plan(budget={"share": 1}, releases=[directions()]).run(table, keeper)
        with pytest.raises(InvalidPlan, match=r"^share must be of something that remains; got eps"):
            plan(**self.SHARE).run(table, keeper)

    @pytest.mark.parametrize("share", [0, "1.5", "-1/10"])
    def test_a_share_is_a_part(self, share):
        with pytest.raises(ValidationError):
            plan(budget={"share": share})


class TestCommitted:
    def test_the_composition_is_the_sum_unless_told_and_then_not_in_the_hash(self):
        assert plan() == plan(composition="sum")
        assert "composition" not in plan().model_dump_json()
        # the hash of this plan before there were compositions
        assert plan().hash == OLD_HASH == plan(composition="sum").hash
        committed = plan(composition="committed")
        assert committed.hash != OLD_HASH
        assert "committed" == json.loads(committed.model_dump_json())["composition"]
        assert committed == Plan.model_validate_json(committed.model_dump_json())

    def test_another_composition_is_refused(self):
        with pytest.raises(ValidationError, match="composition"):
            plan(composition="gaussian")

    def test_the_factor_of_the_sum_is_one(self):
        assert 1 == plan().factor(60)
        assert plan().shares() == plan().shares(plan().factor(60))

    def test_one_factor_multiplies_the_epsilon_of_every_release_and_no_delta(self):
        committed = plan(composition="committed")
        factor = committed.factor(60)
        assert 1.3 < factor < 3
        for name, share in committed.shares(factor).items():
            alone = plan().shares()[name]
            assert Budget.of(alone.epsilon * factor, alone.delta) == share
        stages = [line.stage.budget for line in committed.stages(60)]
        assert factor == sum(stage.epsilon for stage in stages)
        assert Fraction("1e-6") == sum(stage.delta for stage in stages)

    def test_every_stage_has_less_noise_than_under_the_sum(self):
        alone, committed = plan().stages(60), plan(composition="committed").stages(60)
        for line, other in zip(alone, committed, strict=True):
            assert line.stage.name == other.stage.name
            if line.noise_scale is not None:
                assert other.noise_scale < 0.8 * line.noise_scale

    def test_it_is_charged_and_released_as_committed(self, table, accountant):
        committed = plan(composition="committed")
        release = committed.run(table, accountant)
        (charge,) = [entry for entry in accountant.entries() if entry.kind == "charge"]
        charged = Charge.model_validate_json(charge.body)
        assert ("committed", "committed") == (charged.composition, release.composition)
        assert charged.budget == committed.budget == accountant.spent()
        assert charged.stages == tuple(line.stage for line in committed.stages(60))
        assert release == Release.model_validate_json(release.model_dump_json())
        assert committed.run(table, accountant).from_ledger

    def test_a_release_by_the_sum_says_nothing_of_it(self, table, accountant):
        release = plan().run(table, accountant)
        assert "sum" == release.composition
        assert "composition" not in release.model_dump_json()

    def test_a_budget_too_small_for_floating_point_is_refused(self):
        tiny = plan(composition="committed", budget={"epsilon": "1e-7", "delta": "1e-9"})
        with pytest.raises(InvalidPlan, match="must come to at most 1e-07; got some that compose"):
            tiny.make(60)


class TestRun:
    def test_the_stages_of_the_preview_are_charged(self, table, accountant):
        release = plan().run(table, accountant)
        shown = plan().preview(60).stages
        assert release.stages == tuple(line.stage for line in shown)
        (charge,) = [entry for entry in accountant.entries() if entry.kind == "charge"]
        charged = Charge.model_validate_json(charge.body)
        assert (charged.budget, charged.stages) == (plan().budget, release.stages)
        assert UNIT == charged.unit
        assert accountant.spent() == plan().budget

    def test_a_release_says_where_it_comes_from(self, table, accountant):
        release = plan().run(table, accountant)
        assert "clinic" == release.data_set
        assert release.release_key == release.plan_hash == plan().hash
        assert (60, COLUMNS) == (release.rows, release.columns)
        assert (release.budget, release.unit) == (plan().budget, UNIT)
        assert ["main", "clipped", "pmwm", "huber"] == [result.name for result in release.results]
        assert {"dppca-odp", "opendp", "numpy"} == set(release.versions)
        assert release.from_ledger is False
        assert release.time.tzinfo is not None

    def test_a_release_holds_no_data(self, accountant):
        cell = 31337.0625
        data = np.full((60, 3), cell)
        text = plan().run(data, accountant).model_dump_json()
        assert "31337" not in text

    def test_a_release_goes_both_ways_through_json(self, table, accountant):
        release = plan().run(table, accountant)
        assert Release.model_validate_json(release.model_dump_json()) == release

    def test_the_ledger_is_written_in_order(self, table, accountant):
        plan().run(table, accountant, actor="ana", purpose="why")
        assert ["grant", "charge", "started", "release"] == kinds(accountant)
        (charge,) = [entry for entry in accountant.entries() if entry.kind == "charge"]
        assert "ana" == charge.document()["actor"]
        assert "why" == charge.document()["purpose"]

    def test_the_same_plan_again_is_the_stored_release_at_no_cost(self, table, accountant):
        first = plan().run(table, accountant)
        again = plan().run(table, accountant)
        assert again.from_ledger is True
        assert again.model_dump() == first.model_dump()
        assert accountant.spent() == plan().budget
        assert ["grant", "charge", "started", "release"] == kinds(accountant)

    def test_a_stored_release_can_be_asked_for(self, table, accountant):
        assert plan().stored(accountant) is None
        first = plan().run(table, accountant, "mine")
        assert plan().stored(accountant) is None
        assert plan().stored(accountant, "mine").results == first.results

    def test_fresh_noise_is_paid_for(self, table, accountant):
        first = plan().run(table, accountant)
        fresh = plan().run(table, accountant, fresh=True)
        assert fresh.from_ledger is False
        assert fresh["clipped"].raw != first["clipped"].raw
        assert fresh.release_key != first.release_key
        assert accountant.spent() == plan().budget + plan().budget

    def test_a_release_stored_by_somebody_else_meanwhile_costs_nothing(self, table, accountant):
        class Table:
            """A table that takes so long to load that the same plan is run elsewhere."""

            def __array__(self, dtype=None, copy=None):
                other = Accountant(accountant.ledger.address, data_set="clinic")
                elsewhere.append(plan().run(table, other))
                return np.asarray(table, dtype=dtype)

        elsewhere = []
        release = plan().run(Table(), accountant)
        assert release.from_ledger is True
        assert release.results == elsewhere[0].results
        assert accountant.spent() == plan().budget

    def test_another_key_is_paid_for(self, table, accountant):
        plan().run(table, accountant, "one")
        assert "two" == plan().run(table, accountant, "two").release_key
        assert accountant.spent() == plan().budget + plan().budget

    def test_a_request_beyond_the_grant_is_refused_and_nothing_more_is_charged(
        self, table, accountant
    ):
        plan().run(table, accountant, "one")
        plan().run(table, accountant, "two")
        with pytest.raises(BudgetExceeded) as caught:
            plan().run(table, accountant, "three")
        assert caught.value.asked == plan().budget
        assert accountant.spent() == plan().budget + plan().budget
        assert "refusal" == kinds(accountant)[-1]

    def test_a_key_of_another_plan_is_refused(self, table, accountant):
        plan().run(table, accountant, "mine")
        with pytest.raises(KeyConflict, match="release key must belong to one plan; got 'mine'"):
            plan(releases=[directions()]).run(table, accountant, "mine")
        assert accountant.spent() == plan().budget

    def test_another_unit_is_refused_before_anything(self, table, accountant):
        with pytest.raises(UnitMismatch, match="unit must be that of the grant"):
            plan(unit={"rows_per_person": 1}).run(table, accountant)
        assert ["grant"] == kinds(accountant)

    @pytest.mark.parametrize(
        ("rows", "columns"), [(59, COLUMNS), (61, COLUMNS), (60, ("a", "b", "d"))], ids=str
    )
    def test_a_table_that_is_not_the_granted_one_is_refused(self, accountant, rows, columns):
        data = np.zeros((rows, 3))
        with pytest.raises(TableMismatch, match="table must be the one on record, 60 rows with"):
            plan(columns=list(columns)).run(data, accountant)
        assert Budget.of(0, 0) == accountant.spent()

    @pytest.mark.parametrize(
        "bad",
        [
            np.full((60, 3), np.nan),
            np.zeros((60, 2)),
            np.zeros((1, 3)),
            [["31337.25x", "1", "2"]] * 60,
        ],
        ids=["missing values", "too narrow", "one row", "text"],
    )
    def test_an_unusable_table_is_recorded_and_nothing_is_charged(self, accountant, bad):
        with pytest.raises(UnusableTable) as caught:
            plan().run(bad, accountant)
        assert Budget.of(0, 0) == accountant.spent()
        assert ["grant", "rejection"] == kinds(accountant)
        assert accountant.entries()[-1].document()["reason"] == str(caught.value)
        assert "31337.25" not in str(caught.value)

    def test_a_table_in_the_place_of_the_accountant_is_told(self, table, accountant):
        expected = "accountant must be an Accountant; got ndarray. Write plan.run(table, "
        with pytest.raises(InvalidPlan, match=re.escape(expected)):
            plan().run(accountant, table)

    @pytest.mark.parametrize("rows", ["many", 400.0, None])
    def test_rows_that_are_no_whole_number_are_told(self, rows):
        with pytest.raises(InvalidPlan, match="rows must be a whole number; got "):
            plan().preview(rows)

    @pytest.mark.parametrize("path", ["absent.csv", "x" * 300 + ".csv"])
    def test_a_path_without_a_file_is_a_slip_that_is_not_recorded(self, accountant, path):
        with pytest.raises(UnusableTable, match=f"data must be a file; got {path}"):
            plan().run(path, accountant)
        assert ["grant"] == kinds(accountant)

    def test_a_table_too_small_for_the_plan_is_refused_and_nothing_is_charged(self, tmp_path):
        accountant = Accountant.grant(
            tmp_path / "small.db", data_set="small", budget=Budget.of("2", "1e-5"), unit=UNIT
        )
        with pytest.raises(
            InvalidPlan, match=r"pairs must be at least 4 \(8 rows\) for Huber; got 3"
        ):
            plan().run(np.zeros((7, 3)), accountant)
        assert Budget.of(0, 0) == accountant.spent()

    @pytest.mark.parametrize("fill", [0.0, 1e308, -np.inf])
    def test_constant_infinite_and_huge_rows_are_answered(self, accountant, fill):
        data = np.zeros((60, 3))
        data[::2] = fill
        release = plan().run(data, accountant)
        assert all(np.isfinite(scree.raw).all() for scree in release.screes)

    def test_a_csv_file_a_data_frame_and_a_matrix_are_the_same_table(
        self, table, accountant, tmp_path
    ):
        frame = pl.DataFrame(table, schema=list(COLUMNS)).select("c", "a", "b")
        frame.write_csv(tmp_path / "table.csv")
        asked = plan(budget={"epsilon": "0.01", "delta": "1e-9"})
        for key, source in enumerate((table, frame, tmp_path / "table.csv")):
            assert 60 == asked.run(source, accountant, str(key)).rows
        assert Budget.of("0.03", "3e-9") == accountant.spent()


def test_bounds_scale_and_missing_constants_reach_the_measurement(tmp_path):
    unit = PrivacyUnit(rows_per_person=1)
    accountant = Accountant.grant(
        tmp_path / "ledger.db", data_set="d", budget=Budget.of("25", "1e-5"), unit=unit
    )
    asked = plan(
        budget={"epsilon": "25", "delta": "1e-5"},
        unit={"rows_per_person": 1},
        columns=[{"name": "a", "lower": 0, "upper": 100, "scale": 10, "missing": 0}],
        releases=[scree(directions=[[1.0]])],
    )
    # missing is 0, one million counts as 100 and becomes 10: half squared differences 0 or 50
    halves = np.r_[np.full(50_000, np.nan), np.full(50_000, 1e6)]
    data = np.random.default_rng(25).permutation(halves)
    assert pytest.approx([25.0], abs=2) == asked.run(data[:, None], accountant)["clipped"].raw
