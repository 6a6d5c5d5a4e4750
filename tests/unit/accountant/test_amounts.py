from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from accountant.amounts import (
    Amount,
    float_above,
    float_below,
    parse_amount,
    root_above,
    show_delta_down,
    show_delta_up,
    show_down,
    show_up,
    to_text,
)
from accountant.errors import InvalidAmount


class Holder(BaseModel):
    epsilon: Amount


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, Fraction(1)),
        (0, Fraction(0)),
        ("0.1", Fraction(1, 10)),
        (" +1e-6 ", Fraction(1, 10**6)),
        ("1E+3", Fraction(1000)),
        (".5", Fraction(1, 2)),
        ("1.", Fraction(1)),
        ("1/3", Fraction(1, 3)),
        ("2/6", Fraction(1, 3)),
        (Fraction(2, 7), Fraction(2, 7)),
        (Decimal("0.10"), Fraction(1, 10)),
        (Decimal("1E+2"), Fraction(100)),
        ("1e-999", Fraction(1, 10**999)),
    ],
)
def test_an_exact_amount_is_read_exactly(value: object, expected: Fraction) -> None:
    assert expected == parse_amount(value)


def test_a_float_is_refused_with_the_text_to_write() -> None:
    with pytest.raises(InvalidAmount) as caught:
        parse_amount(0.1, "epsilon")
    expected = 'epsilon must be text or an integer; got the float 0.1. Write it as "0.1".'
    assert expected == str(caught.value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "nan", "inf", "-inf", "Infinity"])
def test_what_is_not_finite_is_refused(value: object) -> None:
    with pytest.raises(InvalidAmount, match=r"^delta must be a finite number; got "):
        parse_amount(value, "delta")


@pytest.mark.parametrize(
    "value",
    ["", " ", "x", "1,5", "1_000", "1/0", "1/-3", "1e", "e5", "0x1", "1 2", "\u0661", "1//2"],
)
def test_text_that_is_no_number_is_refused(value: str) -> None:
    with pytest.raises(InvalidAmount, match=r"^amount must be a finite number; got "):
        parse_amount(value)


@pytest.mark.parametrize("value", [-1, "-0.1", "-1/3", Fraction(-1, 2), Decimal("-1")])
def test_a_negative_amount_is_refused(value: object) -> None:
    with pytest.raises(InvalidAmount, match=r"^weight must not be negative; got "):
        parse_amount(value, "weight")


@pytest.mark.parametrize("value", [True, None, b"1", [1], 1j])
def test_another_type_is_refused(value: object) -> None:
    with pytest.raises(InvalidAmount, match=r"^amount must be text or an integer; got "):
        parse_amount(value)


@pytest.mark.parametrize(
    "value",
    [
        "1e999999999",
        "1e-999999999",
        "1e1000",
        "1e-1000",
        Decimal("1e999999"),
        Decimal("1e-999999"),
        "9" * 1001,
        "1/" + "9" * 1001,
        "1" * 100_000,
        10**1000,
        10**10_000,
        Fraction(1, 10**1000),
    ],
    ids=range(12),
)
def test_an_absurdly_long_number_is_refused_at_once(value: object) -> None:
    with pytest.raises(InvalidAmount, match=r"^amount must have at most 1000 digits; got .{1,80}$"):
        parse_amount(value)


@pytest.mark.parametrize(
    ("amount", "expected"),
    [
        (Fraction(0), "0"),
        (Fraction(1), "1"),
        (Fraction(1000), "1000"),
        (Fraction(10**30), "1e30"),
        (Fraction(1, 10), "0.1"),
        (Fraction(25, 2), "12.5"),
        (Fraction(1, 10**4), "0.0001"),
        (Fraction(1, 10**6), "1e-6"),
        (Fraction(125, 10**8), "1.25e-6"),
        (Fraction(1, 3), "1/3"),
        (Fraction(0.1), "3602879701896397/36028797018963968"),
    ],
)
def test_the_text_is_canonical(amount: Fraction, expected: str) -> None:
    assert expected == to_text(amount)
    assert amount == parse_amount(expected)


@pytest.mark.parametrize(
    ("amount", "down", "up"),
    [
        (Fraction(0), "0", "0"),
        (Fraction(1, 10), "0.1", "0.1"),
        (Fraction(123456), "123456", "123456"),
        (Fraction(1, 3), "0.333333", "0.333334"),
        (Fraction(2, 3), "0.666666", "0.666667"),
        (Fraction(9999999), "9999990", "10000000"),
        (Fraction(9999999, 10**7), "0.999999", "1"),
        (Fraction(1, 3 * 10**6), "3.33333e-7", "3.33334e-7"),
        (Fraction(10**20 + 1), "1e20", "1.00001e20"),
    ],
)
def test_people_see_six_digits_rounded_in_the_stated_direction(
    amount: Fraction, down: str, up: str
) -> None:
    assert (down, up) == (show_down(amount), show_up(amount))


@pytest.mark.parametrize(
    ("delta", "down", "up"),
    [
        (Fraction(0), "0", "0"),
        (Fraction(1, 2), "5e-1", "5e-1"),
        (Fraction(1, 100), "1e-2", "1e-2"),
        (Fraction(1, 3), "3.33333e-1", "3.33334e-1"),
        (Fraction(1, 10**300), "1e-300", "1e-300"),
    ],
)
def test_delta_is_always_scientific(delta: Fraction, down: str, up: str) -> None:
    assert (down, up) == (show_delta_down(delta), show_delta_up(delta))


def test_floats_bracket_the_amount() -> None:
    tenth = Fraction(1, 10)
    assert (float_below(tenth), float_above(tenth)) == (0.09999999999999999, 0.1)
    assert (float_below(Fraction(1, 2)), float_above(Fraction(1, 2))) == (0.5, 0.5)
    assert (
        float_below(Fraction(1, 10**400)),
        float_above(Fraction(1, 10**400)),
    ) == (0.0, 5e-324)
    assert (1.7976931348623157e308, float("inf")) == (
        float_below(Fraction(10**400)),
        float_above(Fraction(10**400)),
    )


def test_a_field_reads_text_and_integers_and_writes_text() -> None:
    assert Fraction(1, 10) == Holder.model_validate_json('{"epsilon": "0.1"}').epsilon
    assert Fraction(2) == Holder.model_validate_json('{"epsilon": 2}').epsilon
    assert Holder(epsilon=Fraction(1, 3)).model_dump_json() == '{"epsilon":"1/3"}'
    assert Holder(epsilon=Fraction(1, 3)).model_dump() == {"epsilon": "1/3"}


@pytest.mark.parametrize("number", ["0.1", "1e400", "1.0"])
def test_a_json_float_is_refused_by_the_name_of_its_field(number: str) -> None:
    with pytest.raises(ValidationError, match="epsilon must be "):
        Holder.model_validate_json('{"epsilon": ' + number + "}")


def test_the_schema_offers_text_and_integers() -> None:
    schema: dict[str, Any] = Holder.model_json_schema()
    assert schema["properties"]["epsilon"]["type"] == ["string", "integer"]


@given(st.fractions(0, 10**12))
def test_a_root_is_rounded_up_by_less_than_a_bit_of_many(amount: Fraction) -> None:
    root = root_above(amount)
    assert root * root >= amount
    below = root - Fraction(1, 1 << 255)
    assert below < 0 or below * below < amount


@given(st.fractions(0, 10**6))
def test_the_root_of_a_square_is_exact(root: Fraction) -> None:
    halves = Fraction(int(root * 1024), 1024)
    assert halves == root_above(halves * halves)
