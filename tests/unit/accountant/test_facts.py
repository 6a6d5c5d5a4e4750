import pytest

from accountant.errors import InvalidValue
from accountant.facts import check_name, check_words, in_one_line
from accountant.specs import TableFacts


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
            "rows must be greater than or equal to 1; got 0. Change that value.",
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
    with pytest.raises(InvalidValue) as caught, in_one_line():
        TableFacts.model_validate(facts)
    assert str(caught.value).startswith(line)
