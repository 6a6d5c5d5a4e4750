import pytest
from pydantic import ValidationError

from dppca_odp.__main__ import first_problem, read_plan
from dppca_odp.errors import InvalidPlan
from dppca_odp.plan import Plan

PLAN = Plan.model_validate(
    {
        "budget": {"epsilon": "1", "delta": "1e-6"},
        "unit": {"rows_per_person": 2},
        "columns": ["a", "b"],
        "releases": [{"kind": "directions", "name": "axes", "components": 2}],
    }
)


@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf"], ids=["plain", "byte order mark"])
def test_a_plan_is_read_from_its_json(tmp_path, start):
    path = tmp_path / "plan.json"
    path.write_bytes(start + PLAN.model_dump_json().encode())
    assert read_plan(path) == PLAN


def test_a_plan_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(InvalidPlan, match="the plan must be a readable UTF-8 file; got"):
        read_plan(tmp_path / "plan.json")
    with pytest.raises(InvalidPlan, match="the plan must be a readable UTF-8 file; got"):
        read_plan(tmp_path)


def test_a_plan_in_another_encoding_is_refused(tmp_path):
    (tmp_path / "plan.json").write_bytes(PLAN.model_dump_json().encode("utf-16"))
    with pytest.raises(InvalidPlan, match="the plan must be a readable UTF-8 file; got"):
        read_plan(tmp_path / "plan.json")


def test_a_file_that_is_no_json_is_refused(tmp_path):
    (tmp_path / "plan.json").write_text("budget: 1")
    with pytest.raises(InvalidPlan, match=r"plan\.json: the plan must be JSON; expected"):
        read_plan(tmp_path / "plan.json")


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"seed": 1}, "seed must not be there: no such key. See 'dppca-odp schema'."),
        ({"unit": {}}, "unit.rows_per_person must be given."),
        ({"unit": {"rows_per_person": 0}}, "unit.rows_per_person must be greater than or equal to"),
        ({"budget": {"epsilon": 0.1, "delta": "1e-6"}}, "budget.epsilon: epsilon must be text or"),
        ({"columns": ["a", "a"]}, "the plan: columns must have different names; got a, a."),
    ],
    ids=str,
)
def test_a_problem_of_a_plan_is_one_line_that_says_where_it_is(changes, text):
    with pytest.raises(ValidationError) as caught:
        Plan.model_validate(PLAN.model_dump(mode="json") | changes)
    line = first_problem(caught.value)
    assert line.startswith(text)
    assert "\n" not in line
