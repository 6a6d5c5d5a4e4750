from typing import Annotated

import pytest
from pydantic import Field, ValidationError

from accountant.errors import InvalidAmount, InvalidValue
from accountant.facts import Fact, check_name, check_words
from accountant.specs import Budget, PrivacyUnit, Stage, TableFacts


def test_words_may_be_empty_and_names_may_not() -> None:
    assert check_words("", "purpose") == ""
    assert check_name("déjà vu", "data_set") == "déjà vu"
    with pytest.raises(InvalidValue, match=r"^data_set must not be blank; got ' '\."):
        check_name(" ", "data_set")


@pytest.mark.parametrize("text", ["a\nb", "a\x1b[31m", "a\x00", "\ud800"])
def test_what_does_not_print_on_one_line_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue, match=r"^purpose must be printable text on one line; got "):
        check_words(text, "purpose")


@pytest.mark.parametrize(
    ("facts", "line"),
    [
        (
            {"rows": 0, "columns": ("a", "a")},
            "rows must be at least 1; got 0. Change that value.",
        ),
        (
            {"rows": 1, "columns": ("a", "a")},
            "columns must be different names, at least one; got a, a. Name each column once.",
        ),
        ({"rows": 1}, "columns must be given; got nothing. Add it."),
        (
            {"rows": 1, "columns": ("a",), "colour": 1},
            "colour must not be there; got an unknown key. Check its spelling.",
        ),
        ({"rows": 1, "columns": ("a", " ")}, "columns.1: columns must not be blank; got ' '."),
    ],
)
def test_the_first_mistake_becomes_one_line(facts: dict[str, object], line: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        TableFacts(**facts)
    assert str(caught.value).startswith(line)


def test_a_call_gets_one_line_and_validation_what_pydantic_reports() -> None:
    for unknown in ({}, {"rows_per_person": "2"}, {"rows_per_person": 0}, {"rows": 1}):
        with pytest.raises(InvalidValue) as caught:
            PrivacyUnit(**unknown)
        assert " must " in str(caught.value)
        assert "\n" not in str(caught.value)
        assert caught.value.__suppress_context__
        with pytest.raises(ValidationError):
            PrivacyUnit.model_validate(unknown)


def test_what_was_raised_in_our_words_is_raised_as_it_was() -> None:
    with pytest.raises(InvalidAmount, match=r"^epsilon must not be negative; got -1\. Use zero"):
        Budget(epsilon=-1, delta=0)
    nested = {"name": "s", "budget": {"epsilon": "-1", "delta": "0"}, "losses": ()}
    with pytest.raises(InvalidValue, match=r"^budget\.epsilon: epsilon must not be negative"):
        Stage(**nested)
    with pytest.raises(ValidationError) as caught:
        Stage.model_validate(nested)
    assert caught.value.errors()[0]["loc"] == ("budget", "epsilon")


def test_nested_facts_are_built_without_the_detour_of_a_call() -> None:
    assert not Stage.__pydantic_custom_init__


class Everything(Fact):
    switch: bool = True
    number: float = 0.5
    whole: int = 1
    even: Annotated[int, Field(multiple_of=2)] = 2
    third: Annotated[int, Field(multiple_of=3)] = 3
    text: str = ""
    some: Annotated[tuple[float, ...], Field(min_length=1, max_length=2)] = (1.0,)
    object: dict[str, int] = Field(default_factory=dict)
    unit: PrivacyUnit = PrivacyUnit(rows_per_person=1)
    low: Annotated[float, Field(ge=0, lt=0.5)] = 0.0
    high: Annotated[float, Field(gt=1, le=1e200)] = 2.0


@pytest.mark.parametrize(
    ("field", "value", "must"),
    [
        ("switch", "maybe", "be true or false; got 'maybe'"),
        ("switch", [], "be true or false; got []"),
        ("number", "x", "be a number; got 'x'"),
        ("number", None, "be a number; got None"),
        ("whole", "x", "be a whole number; got 'x'"),
        ("whole", 1.5, "be a whole number; got 1.5"),
        ("even", 3, "be even; got 3"),
        ("third", 4, "be a multiple of 3; got 4"),
        ("text", 5, "be text; got 5"),
        ("some", 5, "be a list; got 5"),
        ("some", (), "hold at least 1; got ()"),
        ("some", [1, 2, 3], "hold at most 2; got [1, 2, 3]"),
        ("object", 5, "be an object; got 5"),
        ("unit", 5, "be a PrivacyUnit, or an object with its fields; got 5"),
        ("low", -1, "be at least 0; got -1"),
        ("low", 0.5, "be below 0.5; got 0.5"),
        ("high", 1, "be above 1; got 1"),
        ("high", 1e201, "be at most 1e+200; got 1e+201"),
    ],
)
def test_problems_are_said_as_people_say_them(field: str, value: object, must: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        Everything(**{field: value})
    assert str(caught.value) == f"{field} must {must}. Change that value."


def test_a_name_that_is_no_text_is_refused() -> None:
    with pytest.raises(InvalidValue, match=r"^data_set must be text; got 3\. Write it"):
        check_name(3, "data_set")  # type: ignore[arg-type]


def test_a_value_without_a_name_is_told_where_it_belongs() -> None:
    with pytest.raises(InvalidValue, match=r"^PrivacyUnit must be given its values by name; got "):
        PrivacyUnit(5)  # type: ignore[call-arg, misc]
