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


def test_a_report_of_several_mistakes_becomes_one_line() -> None:
    with pytest.raises(InvalidValue) as caught, in_one_line():
        TableFacts(rows=0, columns=("a", "a"))
    assert str(caught.value) == (
        "rows must be valid; got 0. Input should be greater than or equal to 1. "
        "columns must be different names, at least one; got a, a. Name each column once."
    )
