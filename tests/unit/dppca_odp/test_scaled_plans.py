"""Plans whose directions are those of columns divided by released standard deviations."""

import json
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from accountant import Accountant, Budget, PrivacyUnit, verify
from accountant.facts import first_problem
from dppca_odp.__main__ import app
from dppca_odp.errors import InvalidPlan
from dppca_odp.plan import Plan
from dppca_odp.releases import Release

ROWS = 6000
COLUMNS = ("a", "b", "c", "still")
VARIANCES = {"kind": "scree", "name": "variances", "directions": "axes"}
MAIN = {"kind": "directions", "name": "main", "components": 2, "scales": "variances"}
SCREE = {"kind": "scree", "name": "scree", "directions": "main"}
SCORES = {"kind": "scores", "name": "scores", "directions": "main", "histogram": "additive"}


def document(*releases, **changes):
    return {
        "budget": {"epsilon": "8", "delta": "1e-5"},
        "unit": {"rows_per_person": 1},
        "columns": list(COLUMNS),
        "releases": list(releases or (VARIANCES, MAIN, SCREE, SCORES)),
    } | changes


def plan(*releases, **changes):
    return Plan.model_validate(document(*releases, **changes))


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(50)
    correlated = rng.normal(size=(ROWS, 1)) + 0.5 * rng.normal(size=(ROWS, 3))
    return np.column_stack([correlated * [1e6, 1e-6, 1.0], np.full(ROWS, 7.0)])


@pytest.fixture
def accountant(tmp_path):
    return Accountant.grant(
        tmp_path / "ledger.db",
        data_set="clinic",
        budget=Budget.of("20", "1e-4"),
        unit=PrivacyUnit(rows_per_person=1),
    )


class TestDocument:
    def test_json_goes_both_ways(self):
        first = plan()
        assert Plan.model_validate_json(first.model_dump_json()) == first

    def test_components_along_the_axes_are_columns(self):
        assert [4, 2, 2, 2] == [plan().components(release) for release in plan().releases]

    def test_a_stage_for_the_variances_is_previewed(self):
        shown = plan().preview(ROWS)
        assert ["variances: chain", "main: matrix", "scree: chain", "scores: frame"] == [
            line.stage.name for line in shown.stages
        ][:4]
        assert 8 == sum(line.stage.budget.epsilon for line in shown.stages)

    def test_the_releases_in_the_page_of_plans_make_a_plan(self):
        page = (Path(__file__).resolve().parents[3] / "docs" / "plans.md").read_text()
        releases = json.loads(re.search(r"```json\n(.*?)```", page, re.DOTALL).group(1))
        assert [VARIANCES, MAIN, SCREE] == releases
        assert 3 == len(plan(*releases).preview(ROWS).stages)

    @pytest.mark.parametrize(
        "releases",
        [
            [MAIN],
            [MAIN, VARIANCES],
            [VARIANCES, MAIN | {"scales": "none"}],
            [VARIANCES, MAIN | {"scales": ""}],
            [VARIANCES, MAIN, SCREE, MAIN | {"name": "second", "scales": "scree"}],
            [VARIANCES, MAIN, MAIN | {"name": "second", "scales": "main"}],
            [VARIANCES | {"directions": np.eye(4).tolist()}, MAIN],
        ],
        ids=["none", "later", "no such", "empty", "eigenvalues", "directions", "given"],
    )
    def test_scales_must_be_an_earlier_scree_along_the_axes(self, releases):
        with pytest.raises(ValidationError) as caught:
            plan(*releases)
        (told,) = first_problem(caught.value).splitlines()
        assert re.fullmatch(
            r"scales of (main|second) must name an earlier scree along the axes; got \w*\. Plan it "
            r'before, with the directions "axes"\.',
            told,
        )

    def test_directions_cannot_be_named_like_the_axes(self):
        expected = "name must not be axes, which stands for the columns as they are; got axes. "
        with pytest.raises(ValidationError, match=expected):
            plan(MAIN | {"name": "axes", "scales": None})

    def test_bounds_along_the_axes_are_one_for_each_column(self):
        method = {"kind": "clipped", "clipping_bound": [1, 2]}
        expected = "clipping_bound must be one number or one for each of 4 components; got 2"
        with pytest.raises(ValidationError, match=expected):
            plan(VARIANCES | {"method": method})

    def test_scores_along_the_axes_are_columns(self):
        along = SCORES | {"directions": "axes", "axes": [4, 1]}
        assert 4 == plan(along).components(plan(along).releases[0])
        with pytest.raises(ValidationError, match="axes must be two different components of 4"):
            plan(along | {"axes": [5, 1]})

    def test_what_cannot_run_whatever_is_answered_before_is_refused_now(self):
        huber = {"kind": "huber", "lowest_scale": -5, "highest_scale": 5, "scale_fraction": "1/4"}
        with pytest.raises(InvalidPlan, match=r"^pairs must be at least 4 .* for Huber; got 3"):
            plan(VARIANCES, MAIN, SCREE | {"method": huber}).make(6)


class TestRun:
    @pytest.mark.parametrize("composition", ["sum", "committed"])
    def test_variances_then_directions_then_eigenvalues_and_scores(
        self, table, accountant, composition
    ):
        asked = plan(composition=composition)
        release = asked.run(table, accountant)
        main = release["main"]
        assert pytest.approx(table[:, :3].std(axis=0), rel=0.15) == main.scales[:3]
        assert 1.0 == main.scales[3]
        # of two directions with equal variances the second may be noted as unclear too
        (warning,) = (told for told in main.warnings if told.startswith("column "))
        assert warning.startswith("column still: left unscaled: ")
        assert f"note: main: {warning[:20]}" in str(release)
        assert abs(np.array(main.vectors)[:, 0] @ np.append(np.full(3, 3**-0.5), 0)) > 0.99
        along = table @ np.array(main.loadings)
        assert pytest.approx(along.var(axis=0), rel=0.25) == release["scree"].values
        frame = release["scores"].frame
        assert 2 < frame.x_high - frame.x_low < 30
        assert ("variances",) == tuple(scree.name for scree in release.column_variances)
        assert ("scree",) == tuple(scree.name for scree in release.screes)
        assert [] == verify(accountant.entries())
        assert release.budget == accountant.spent()
        again = asked.run(table, accountant)
        assert again.from_ledger
        assert release == again.model_copy(update={"from_ledger": False})

    def test_scores_along_the_axes_are_in_the_units_of_columns(self, table):
        along = SCORES | {"directions": "axes", "axes": [1, 3]}
        frame = plan(along).make(ROWS)(table * [1e-6, 1, 1, 1] + [5, 0, 0, 0])["scores"].frame
        assert 4 < (frame.x_low + frame.x_high) / 2 < 6
        assert -1 < (frame.y_low + frame.y_high) / 2 < 1

    def test_a_plan_file_runs_on_the_command_line(self, table, accountant, tmp_path):
        (tmp_path / "plan.json").write_text(json.dumps(document()))
        pl.DataFrame(table, schema=list(COLUMNS)).write_csv(tmp_path / "table.csv")
        words = ["run", "plan.json", "--data", "table.csv", "--ledger", "ledger.db"]
        paths = [word if "." not in word else str(tmp_path / word) for word in words]
        out = str(tmp_path / "out")
        result = CliRunner().invoke(app, [*paths, "--dataset", "clinic", "--out", out])
        assert 0 == result.exit_code, result.output
        assert "main, in data units" in result.output
        assert "still: left unscaled" in " ".join(result.output.split())
        release = Release.read(tmp_path / "out" / "release.json")
        assert 4 == len(release["main"].scales)
        assert (tmp_path / "out" / "scree.png").exists()
