import subprocess
import sys
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from accountant.gaussian import gaussian_mu
from accountant.losses import ApproximateLoss, GaussianLoss, Loss, PureLoss
from accountant.risk import FALSE_POSITIVE_RATES, Risk, risk_of_budget, risk_of_losses
from accountant.specs import Budget

ROUNDING = 1e-9
LONG = Fraction(10**998 + 1, 10**998 + 3)


def pure(epsilon: str | Fraction, count: int = 1) -> PureLoss:
    return PureLoss(epsilon=Fraction(epsilon), count=count)


def gaussian(mu: str | Fraction, leak: str = "0", count: int = 1) -> GaussianLoss:
    return GaussianLoss(mu=Fraction(mu), leak=Fraction(leak), count=count)


def approximate(epsilon: str, delta: str, count: int = 1) -> ApproximateLoss:
    return ApproximateLoss(epsilon=Fraction(epsilon), delta=Fraction(delta), count=count)


def numbers(risk: Risk) -> list[float]:
    return [risk.advantage, *(rate.at_most for rate in risk.true_positive_rates)]


PLAN = [pure("0.05", 10), gaussian(Fraction(gaussian_mu(Fraction(1, 2), Fraction(1, 10**6))))]
NOTHING = [0.0, *FALSE_POSITIVE_RATES]
EVERYTHING = [1.0, 1.0, 1.0, 1.0]

amounts = st.fractions(0, 2, max_denominator=1000)
counts = st.integers(1, 6)
losses: st.SearchStrategy[Loss] = st.one_of(
    st.builds(PureLoss, epsilon=amounts, count=counts),
    st.builds(GaussianLoss, mu=amounts, leak=amounts.map(lambda x: x / 1000), count=counts),
    st.builds(ApproximateLoss, epsilon=amounts, delta=amounts.map(lambda x: x / 3), count=counts),
)


def test_a_plan_means_far_less_than_the_sum_of_its_parts() -> None:
    assert risk_of_losses(PLAN).advantage == pytest.approx(0.0803126, abs=1e-6)
    assert risk_of_budget(Budget.of("1", "1e-6")).advantage == pytest.approx(0.4621177, abs=1e-6)


def test_the_rates_are_told_where_they_hold() -> None:
    risk = risk_of_losses(PLAN)
    rates = risk.true_positive_rates
    assert FALSE_POSITIVE_RATES == tuple(rate.false_positive_rate for rate in rates)
    assert [rate.at_most for rate in rates] == pytest.approx(
        [0.0018991, 0.0166695, 0.1398870], 1e-4
    )


def test_the_basis_is_told() -> None:
    assert risk_of_losses(PLAN).basis == "losses"
    assert risk_of_budget(Budget.of(1, "1e-6")).basis == "budget"


@pytest.mark.parametrize(
    "nothing", [[], [pure("0")], [pure("0"), gaussian("0"), approximate("0", "0")]]
)
def test_without_a_loss_there_is_nothing_to_gain(nothing: list[Loss]) -> None:
    assert NOTHING == numbers(risk_of_losses(nothing))
    assert NOTHING == numbers(risk_of_budget(Budget.of(0, 0)))


@pytest.mark.parametrize(
    "everything",
    [
        [pure("1000")],
        [pure(Fraction(10**999), 2)],
        [gaussian("1000")],
        [gaussian(Fraction(10**999))],
        [approximate("1e-9", "1/10", 10**15)],
        [approximate("0", str(LONG))],
        [gaussian("0.1", leak="1")],
        [gaussian("0.1", leak=str(10**999))],
        [pure("1", 10**6)],
        [gaussian("1", count=10**15)],
    ],
)
def test_huge_losses_mean_everything(everything: list[Loss]) -> None:
    assert EVERYTHING == numbers(risk_of_losses(everything))


def test_a_huge_budget_means_everything() -> None:
    assert EVERYTHING == numbers(risk_of_budget(Budget.of(5000, "1e-6")))
    assert EVERYTHING == numbers(risk_of_budget(Budget.of(0, LONG)))


@pytest.mark.parametrize(
    "loss",
    [
        pure(1 / LONG / 10),
        gaussian(1 / LONG / 10),
        pure("1e-4", 10**8),
        gaussian("1e-3", count=10**4),
    ],
)
def test_long_amounts_and_large_counts_are_read(loss: Loss) -> None:
    risk = numbers(risk_of_losses([loss]))
    assert all(low < high < 0.5 for low, high in zip(NOTHING, risk, strict=True))


def test_a_tiny_loss_is_not_nothing() -> None:
    for loss in (pure("1e-900"), gaussian("1e-900"), approximate("0", "1e-900")):
        risk = numbers(risk_of_losses([loss]))
        assert all(low < high < low + ROUNDING for low, high in zip(NOTHING, risk, strict=True))


@given(st.lists(losses, max_size=4).flatmap(lambda plan: st.permutations([*plan, PLAN[0]])))
def test_order_does_not_matter(plan: list[Loss]) -> None:
    assert risk_of_losses(plan) == risk_of_losses(sorted(plan, key=repr))


@given(st.lists(losses, max_size=3), losses)
def test_one_loss_more_is_never_less_risk(plan: list[Loss], loss: Loss) -> None:
    less, more = numbers(risk_of_losses(plan)), numbers(risk_of_losses([*plan, loss]))
    assert all(low <= high + ROUNDING for low, high in zip(less, more, strict=True))


@given(losses, st.integers(1, 5))
def test_a_count_stands_for_as_many_losses(loss: Loss, count: int) -> None:
    single = loss.model_copy(update={"count": 1})
    several = numbers(risk_of_losses([loss.model_copy(update={"count": count})]))
    assert several == pytest.approx(numbers(risk_of_losses([single] * count)), abs=ROUNDING)


@given(st.lists(losses, max_size=4))
def test_rates_are_probabilities_and_no_test_is_worse_than_a_guess(plan: list[Loss]) -> None:
    risk = risk_of_losses(plan)
    rates = [rate.at_most for rate in risk.true_positive_rates]
    assert rates == sorted(rates)
    assert 0 <= risk.advantage <= 1
    for false, true in zip(FALSE_POSITIVE_RATES, rates, strict=True):
        assert false <= true <= min(1, false + risk.advantage + ROUNDING)


@given(
    st.lists(
        st.builds(
            ApproximateLoss, epsilon=amounts, delta=amounts.map(lambda x: x / 99), count=counts
        ),
        max_size=2,
    )
)
def test_losses_never_mean_more_than_their_sum(plan: list[ApproximateLoss]) -> None:
    epsilon = sum(loss.count * loss.epsilon for loss in plan)
    delta = sum(loss.count * loss.delta for loss in plan)
    composed = numbers(risk_of_losses(plan))
    added = numbers(risk_of_budget(Budget.of(epsilon, delta)))
    assert all(low <= high + ROUNDING for low, high in zip(composed, added, strict=True))


def test_json_goes_both_ways_and_nothing_is_changed_later() -> None:
    risk = risk_of_losses(PLAN)
    assert risk == Risk.model_validate_json(risk.model_dump_json())
    with pytest.raises(ValidationError, match="frozen"):
        risk.advantage = 0.0


def test_no_numerical_library_is_needed() -> None:
    script = (
        "import sys; from accountant.risk import *; from accountant.losses import PureLoss;"
        "risk_of_losses([PureLoss(epsilon='0.1', count=9)]);"
        "risk_of_budget(Budget.of('1', '1e-6'));"
        "print(*sys.modules, sep='\\n')"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    assert "accountant" in loaded
    assert loaded.isdisjoint({"numpy", "scipy", "mpmath", "dp_accounting", "riskcal"})
