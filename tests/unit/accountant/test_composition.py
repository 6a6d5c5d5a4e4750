import pickle

import pytest

from accountant.composition import BudgetExceeded, require_fit, require_spendable, total
from accountant.errors import InvalidAmount
from accountant.specs import Budget

GRANTED = Budget.of("1", "1e-5")


def test_the_total_is_exact() -> None:
    assert total([Budget.of("0.1", "1e-6")] * 10) == GRANTED
    assert Budget.of(0, 0) == total([])


def test_what_fits_to_the_last_digit_passes() -> None:
    assert require_fit(Budget.of("0.1", "1e-6"), GRANTED, Budget.of("0.9", "9e-6")) is None


@pytest.mark.parametrize("asked", [Budget.of("0.2", "1e-6"), Budget.of("0.1", "2e-6")])
def test_one_coordinate_is_enough_to_refuse(asked: Budget) -> None:
    with pytest.raises(BudgetExceeded):
        require_fit(asked, GRANTED, Budget.of("0.9", "9e-6"))


def test_a_refusal_carries_its_numbers() -> None:
    refusal = BudgetExceeded(Budget.of("0.2", "1e-7"), GRANTED, Budget.of("0.9", "1e-6"))
    assert Budget.of("0.1", "9e-6") == refusal.remaining
    assert Budget.of("0.1", 0) == refusal.shortfall
    assert Budget.of("0.1", "9e-6") == refusal.largest
    assert str(refusal) == (
        "request must fit in what remains, epsilon 0.1 and delta 9e-6 "
        "(spent epsilon 0.9 and delta 1e-6 of epsilon 1 and delta 1e-5); "
        "got epsilon 0.2 and delta 1e-7, too large by epsilon 0.1 and delta 0. "
        "Ask for at most epsilon 0.1 and delta 9e-6."
    )


def test_a_refusal_rounds_in_the_safe_direction() -> None:
    text = str(BudgetExceeded(Budget.of("2/3", "1e-6"), GRANTED, Budget.of("2/3", "1e-6")))
    assert "what remains, epsilon 0.333333 and" in text
    assert "(spent epsilon 0.666667 and" in text
    assert "too large by epsilon 0.333334 and" in text


def test_a_refusal_with_nothing_left_sends_to_the_officer() -> None:
    assert str(BudgetExceeded(Budget.of("0.1", "1e-6"), GRANTED, GRANTED)).endswith(
        "Ask the privacy officer."
    )


def test_a_refusal_crosses_processes() -> None:
    refusal = BudgetExceeded(Budget.of("2", "1e-6"), GRANTED, Budget.of(0, 0))
    copy = pickle.loads(pickle.dumps(refusal))
    assert (str(refusal), refusal.largest) == (str(copy), copy.largest)


def test_what_is_spent_needs_both_coordinates() -> None:
    with pytest.raises(InvalidAmount, match=r"^epsilon must be above 0; got 0\."):
        require_spendable(Budget.of(0, "1e-6"))
    with pytest.raises(InvalidAmount, match=r"^delta must be between 0 and 1; got 0\."):
        require_spendable(Budget.of(1, 0))
