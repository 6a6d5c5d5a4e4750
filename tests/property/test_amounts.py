import math
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from accountant.amounts import (
    float_above,
    float_below,
    parse_amount,
    show_delta_down,
    show_delta_up,
    show_down,
    show_up,
    to_text,
)
from accountant.specs import Budget, Split, StageWeight

ratios = st.fractions(min_value=0, max_value=10**30, max_denominator=10**30)
decimals = st.builds(
    lambda digits, exponent: Fraction(digits) * Fraction(10) ** exponent,
    st.integers(0, 10**25),
    st.integers(-350, 350),
)
floats = st.floats(min_value=0, allow_infinity=False).map(Fraction)
amounts = st.one_of(ratios, decimals, floats)
deltas = amounts.filter(lambda amount: amount < 1)
budgets = st.builds(Budget.of, amounts, deltas)
shares = st.builds(
    lambda weight, uses_delta: (weight, uses_delta),
    st.one_of(st.integers(1, 1000).map(Fraction), ratios.filter(bool)),
    st.booleans(),
)


@given(amounts)
def test_print_then_parse_is_the_identity(amount: Fraction) -> None:
    assert amount == parse_amount(to_text(amount))


@given(amounts)
def test_text_is_canonical(amount: Fraction) -> None:
    text = to_text(amount)
    assert text == to_text(parse_amount(text))


@given(amounts)
def test_what_people_see_brackets_the_amount(amount: Fraction) -> None:
    for low, high in (
        (show_down(amount), show_up(amount)),
        (show_delta_down(amount), show_delta_up(amount)),
    ):
        assert Fraction(low) <= amount <= Fraction(high)
        assert Fraction(high) - Fraction(low) <= amount / 10**5


@given(amounts)
def test_an_amount_of_six_digits_is_shown_exactly(amount: Fraction) -> None:
    shown = Fraction(show_up(amount))
    assert [shown] * 3 == [
        Fraction(show_down(shown)),
        Fraction(show_up(shown)),
        Fraction(show_delta_down(shown)),
    ]


@given(amounts)
def test_floats_are_the_nearest_on_either_side(amount: Fraction) -> None:
    below, above = float_below(amount), float_above(amount)
    assert Fraction(below) <= amount
    assert math.isinf(above) or amount <= Fraction(above)
    assert above in (below, math.nextafter(below, math.inf))


@given(budgets)
def test_a_budget_survives_json(budget: Budget) -> None:
    assert budget == Budget.model_validate_json(budget.model_dump_json())


@given(st.builds(Budget.of, ratios, st.fractions(0, "999/1000")), st.lists(shares, min_size=1))
def test_the_parts_of_a_split_sum_to_the_whole(
    budget: Budget, weights: list[tuple[Fraction, bool]]
) -> None:
    weights = [*weights[:8], (Fraction(1), True)]
    split = Split(
        weights=tuple(
            StageWeight(name=f"stage {number}", weight=weight, uses_delta=uses_delta)
            for number, (weight, uses_delta) in enumerate(weights)
        )
    )
    parts = split.divide(budget)
    assert budget.epsilon == sum(part.epsilon for part in parts.values())
    assert budget.delta == sum(part.delta for part in parts.values())
    for share in split.weights:
        assert share.uses_delta or parts[share.name].delta == 0
        assert parts[share.name].epsilon > 0 or budget.epsilon == 0
