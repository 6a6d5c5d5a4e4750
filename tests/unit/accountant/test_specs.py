from fractions import Fraction
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from accountant.charges import Charge
from accountant.errors import InvalidAmount, InvalidValue
from accountant.losses import GaussianLoss, PureLoss
from accountant.specs import Budget, PrivacyUnit, Split, Stage, StageWeight, TableFacts

ONE = Budget.of("1", "1e-6")
STAGES = Split(
    weights=(
        StageWeight(name="quantile", weight=Fraction(1, 2), uses_delta=False),
        StageWeight(name="mean", weight=Fraction(1, 2), uses_delta=True),
    )
)
CHARGE = Charge(
    release_key="scree",
    plan_hash="f00",
    unit=PrivacyUnit(rows_per_person=5),
    budget=ONE,
    stages=(
        Stage(
            name="quantile",
            budget=Budget.of("0.5", 0),
            losses=(PureLoss(epsilon=Fraction(1, 20), count=10),),
        ),
        Stage(
            name="mean", budget=Budget.of("0.5", "1e-6"), losses=(GaussianLoss(mu=Fraction(1, 9)),)
        ),
    ),
    actor="ana",
    purpose="annual report",
)


@pytest.mark.parametrize(
    "fact",
    [PrivacyUnit(rows_per_person=5), ONE, STAGES, CHARGE, TableFacts(rows=3, columns=("a", "b"))],
)
def test_json_goes_both_ways(fact: BaseModel) -> None:
    assert fact == type(fact).model_validate_json(fact.model_dump_json())


@pytest.mark.parametrize(
    ("model", "fields", "complaint"),
    [
        (PrivacyUnit, {}, "rows_per_person"),
        (PrivacyUnit, {"rows_per_person": 0}, "rows_per_person"),
        (PrivacyUnit, {"rows_per_person": True}, "rows_per_person"),
        (PrivacyUnit, {"rows_per_person": 1, "relation": "add-remove"}, "relation"),
        (PrivacyUnit, {"rows_per_person": 1, "colour": 1}, "colour"),
        (Budget, {"epsilon": "1"}, "delta"),
        (Budget, {"delta": "0"}, "epsilon"),
        (Budget, {"epsilon": "1", "delta": "1"}, "delta must be below 1"),
        (Budget, {"epsilon": 0.5, "delta": "0"}, "epsilon must be text or an integer"),
        (Budget, {"epsilon": "-1", "delta": "0"}, "epsilon must not be negative"),
        (TableFacts, {"rows": 0, "columns": ["a"]}, "rows"),
        (TableFacts, {"rows": 1, "columns": []}, "columns must be different names"),
        (TableFacts, {"rows": 1, "columns": ["a", "a"]}, "columns must be different names"),
        (TableFacts, {"rows": 1, "columns": [" "]}, "must not be blank"),
        (TableFacts, {"rows": 1, "columns": ["a\nb"]}, "must be printable text on one line"),
        (StageWeight, {"name": "x", "weight": "0", "uses_delta": True}, "weight must be above 0"),
        (StageWeight, {"name": "", "weight": "1", "uses_delta": True}, "name must not be blank"),
        (Split, {"weights": []}, "weights must have different names"),
    ],
)
def test_a_spec_that_makes_no_sense_is_refused(
    model: type[BaseModel], fields: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ValidationError, match=complaint):
        model.model_validate(fields)


def test_a_split_needs_different_names() -> None:
    with pytest.raises(InvalidValue, match="weights must have different names"):
        Split(weights=(STAGES.weights[0], STAGES.weights[0]))


def test_a_spec_is_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        ONE.epsilon = Fraction(2)


def test_budgets_add_and_subtract_exactly() -> None:
    tenth = Budget.of("0.1", "1e-7")
    assert sum([tenth] * 9, start=tenth) == ONE
    assert Budget.of("0.9", "9e-7") == ONE - tenth


def test_a_difference_below_zero_is_refused() -> None:
    with pytest.raises(InvalidAmount, match="epsilon must not be negative"):
        Budget.of("0.1", "0") - ONE


def test_a_sum_of_deltas_up_to_one_is_refused() -> None:
    with pytest.raises(InvalidAmount, match="delta must be below 1; got 1"):
        Budget.of(1, "0.5") + Budget.of(1, "0.5")


def test_a_budget_from_amounts_names_what_is_wrong() -> None:
    with pytest.raises(InvalidAmount, match=r"^epsilon must be text or an integer"):
        Budget.of(0.1, "1e-6")
    with pytest.raises(InvalidAmount, match=r"^delta must not be negative"):
        Budget.of(1, "-1e-6")


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (Budget.of("1", "1e-6"), True),
        (Budget.of("0.5", "0"), True),
        (Budget.of("1.0000001", "0"), False),
        (Budget.of("0", "1.1e-6"), False),
    ],
)
def test_a_budget_fits_only_in_both_coordinates(asked: Budget, expected: bool) -> None:
    assert expected is asked.fits_within(ONE)


def test_a_budget_reads_in_plain_words() -> None:
    third = Budget.of("1/3", "1/3000000")
    assert str(third) == "epsilon 1/3 and delta 1/3000000"
    assert third.show_up() == "epsilon 0.333334 and delta 3.33334e-7"
    assert third.show_down() == "epsilon 0.333333 and delta 3.33333e-7"


@pytest.mark.parametrize(
    ("rows", "expected"),
    [(1, "one person, at most 1 row (change-one)"), (5, "one person, at most 5 rows (change-one)")],
)
def test_a_unit_reads_in_plain_words(rows: int, expected: str) -> None:
    assert expected == str(PrivacyUnit(rows_per_person=rows))


def test_delta_goes_only_to_the_stages_that_use_it() -> None:
    expected = {"quantile": Budget.of("0.5", 0), "mean": Budget.of("0.5", "1e-6")}
    assert expected == STAGES.divide(ONE)


def test_delta_without_a_stage_that_uses_it_is_refused() -> None:
    with pytest.raises(InvalidAmount, match="delta must be 0 when no stage uses it; got 1e-6"):
        Split(weights=STAGES.weights[:1]).divide(ONE)


def test_a_pure_budget_needs_no_stage_with_delta() -> None:
    pure = Budget.of("1", 0)
    assert {"quantile": pure} == Split(weights=STAGES.weights[:1]).divide(pure)


@pytest.mark.parametrize("delta", ["1e-5", "1e-8", "1e-10"])
def test_three_thirds_of_delta_are_the_whole(delta: str) -> None:
    thirds = Split(
        weights=tuple(StageWeight(name=name, weight=Fraction(1), uses_delta=True) for name in "abc")
    )
    whole = Budget.of("0.1", delta)
    first, *rest = thirds.divide(whole).values()
    assert whole == sum(rest, start=first)


@pytest.mark.parametrize(
    "budget", [Budget.of("0.999999999999", "1e-6"), Budget.of("1", "0.99999e-6")]
)
def test_stages_may_not_exceed_their_charge(budget: Budget) -> None:
    fields = CHARGE.model_dump(mode="json") | {"budget": budget.model_dump(mode="json")}
    with pytest.raises(ValidationError, match="stages must come to at most the charge"):
        Charge.model_validate(fields)
