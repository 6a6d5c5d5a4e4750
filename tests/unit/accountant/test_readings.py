import subprocess
import sys
from fractions import Fraction
from math import inf

import pytest
from pydantic import ValidationError

from accountant.gaussian import gaussian_epsilon, gaussian_mu, lifted_mu
from accountant.laws import NEGLIGIBLE, Law, composed_epsilon
from accountant.losses import ApproximateLoss, GaussianLoss, Loss, PureLoss
from accountant.readings import (
    DELTAS,
    Reading,
    reading_of_budget,
    reading_of_gaussian,
    reading_of_losses,
)
from accountant.risk import risk_of_budget, risk_of_losses
from accountant.rules import GaussianRule
from accountant.specs import Budget, GaussianBudget

MILLIONTH = Fraction(1, 10**6)
RULE = GaussianRule(budget=Budget.of("1", "1e-6"), set_aside=Fraction(1, 10**7))


def pure(epsilon: str | Fraction, count: int = 1) -> PureLoss:
    return PureLoss(epsilon=Fraction(epsilon), count=count)


def gaussian(mu: str | Fraction, leak: str = "0", count: int = 1) -> GaussianLoss:
    return GaussianLoss(mu=Fraction(mu), leak=Fraction(leak), count=count)


def approximate(epsilon: str, delta: str, count: int = 1) -> ApproximateLoss:
    return ApproximateLoss(epsilon=Fraction(epsilon), delta=Fraction(delta), count=count)


def epsilons(reading: Reading) -> dict[Fraction, float]:
    return {point.delta: point.epsilon for point in reading.curve}


PLAN: list[Loss] = [
    pure("0.05", 10),
    gaussian(Fraction(gaussian_mu(Fraction(1, 2), MILLIONTH)), "1e-20"),
]


def test_the_checked_numbers_of_a_plan() -> None:
    reading = reading_of_losses(PLAN)
    assert epsilons(reading)[MILLIONTH] == pytest.approx(0.7927, abs=5e-5)
    assert reading.mu == pytest.approx(0.2016, abs=2e-4)
    assert (Fraction(1, 10**18), Fraction(1, 10**20)) == (reading.uncovered, reading.leak)
    assert 0 < reading.looseness < 2e-3
    assert ("losses", tuple(PLAN)) == (reading.basis, reading.losses)


def test_the_curve_has_the_fixed_deltas_and_those_that_are_given() -> None:
    assert list(DELTAS) == list(epsilons(reading_of_losses(PLAN)))
    assert [Fraction(1, 10**k) for k in range(3, 13)] == list(DELTAS)
    more = reading_of_losses(PLAN, [Fraction(1, 7), MILLIONTH, Fraction(0)])
    assert [Fraction(1, 7), *DELTAS, Fraction(0)] == list(epsilons(more))
    assert Fraction(1, 10**9 + 7) in epsilons(reading_of_budget(Budget.of(1, "1/1000000007")))
    assert RULE.budget.delta in epsilons(
        reading_of_gaussian(GaussianBudget.of(1, 0), [RULE.budget.delta])
    )


def test_gaussians_are_read_in_closed_form() -> None:
    reading = reading_of_losses([gaussian("0.3"), gaussian("0.1", "1e-15", 16)])
    mu, leak = Fraction(1, 2), 16 * Fraction(1, 10**15)
    assert (0.5, 0.0, 0, leak) == (
        reading.mu, reading.looseness, reading.uncovered, reading.leak
    )  # fmt: skip
    assert {d: gaussian_epsilon(mu, d, leak) for d in DELTAS} == epsilons(reading)


def test_a_delta_of_nothing_needs_pure_losses() -> None:
    nothing = Fraction(0)
    assert epsilons(reading_of_losses([pure("0.1", 3)], [nothing]))[nothing] == pytest.approx(0.3)
    for losses in (PLAN, [gaussian(1)], [approximate("1", "1e-9"), pure(1)]):
        assert epsilons(reading_of_losses(losses, [nothing]))[nothing] == inf


def test_what_is_too_large_for_a_law_is_added() -> None:
    reading = reading_of_losses([pure(30, 2), approximate("20", "1e-7", 3)])
    assert epsilons(reading)[MILLIONTH] == 120
    assert epsilons(reading)[Fraction(1, 10**7)] == inf
    squares = 2 * lifted_mu(30) ** 2 + 3 * lifted_mu(20) ** 2
    assert reading.mu == pytest.approx(squares**0.5)
    assert (3 * Fraction(1, 10**7), 1.0) == (reading.uncovered, reading.looseness)


def test_a_large_gaussian_hardly_becomes_looser_by_a_small_vote() -> None:
    reading = reading_of_losses([gaussian(20), pure("0.1")])
    assert 20 < reading.mu < 20.001
    assert reading.looseness < 1e-3


@pytest.mark.parametrize("loss", [pure("1e-900"), pure("1e-9"), approximate("1e-9", "0")])
def test_tiny_losses_are_lifted(loss: Loss) -> None:
    reading = reading_of_losses([loss, loss, gaussian("1e-12")])
    assert 1e-12 <= reading.mu < 2e-9
    assert reading.looseness < 1e-9


def test_no_float_holds_the_mu_of_some() -> None:
    reading = reading_of_losses([pure(Fraction(10**999)), gaussian(1)])
    assert (inf, 1.0) == (reading.mu, reading.looseness)
    assert {inf} == set(epsilons(reading).values())


def test_likely_truths_are_not_counted_twice() -> None:
    reading = reading_of_losses([approximate("0", "1/2"), approximate("0", "1/2")])
    assert Fraction(3, 4) <= reading.uncovered <= Fraction(3, 4) + Fraction(1, 10**9)
    assert reading_of_losses([approximate("0", "1e-9", 7)]).uncovered == 7 * Fraction(1, 10**9)
    assert reading_of_losses([approximate("0", "1/2", 10**9)]).uncovered == 1


def test_the_risk_is_that_of_the_room_next_door() -> None:
    budget = Budget.of("1", "1e-6")
    assert reading_of_losses(PLAN).risk == risk_of_losses(PLAN)
    assert reading_of_budget(budget).risk == risk_of_budget(budget)
    assert reading_of_losses([approximate("1", "1e-6")]).risk.basis == "losses"
    alone = risk_of_losses([gaussian(1)]).advantage
    aside = reading_of_gaussian(GaussianBudget.of(1, "1e-6"), [RULE.budget.delta]).risk.advantage
    assert alone + 1e-7 < aside < alone + 3e-6


def test_a_gaussian_total_is_read_by_its_three_amounts_each_on_its_own() -> None:
    """Whatever the grant. More of truths or of leaks is a larger epsilon."""
    plain = reading_of_gaussian(GaussianBudget.of("1/4"))
    told = reading_of_gaussian(GaussianBudget.of("1/4", "5e-7"))
    leaked = reading_of_gaussian(GaussianBudget.of("1/4", 0, "1e-8"))
    half, leak = Fraction(1, 2 * 10**6), Fraction(1, 10**8)
    assert [(0.5, 0, 0), (0.5, half, 0), (0.5, 0, leak)] == [
        (reading.mu, reading.uncovered, reading.leak) for reading in (plain, told, leaked)
    ]
    mu = Fraction(1, 2)
    assert gaussian_epsilon(mu, MILLIONTH) == epsilons(plain)[MILLIONTH]
    assert gaussian_epsilon(mu, half) == epsilons(told)[MILLIONTH] > epsilons(plain)[MILLIONTH]
    assert gaussian_epsilon(mu, MILLIONTH, leak) == epsilons(leaked)[MILLIONTH]
    assert epsilons(leaked)[MILLIONTH] > epsilons(plain)[MILLIONTH]
    assert epsilons(told)[half * 2 / 10] == inf


def test_the_delta_of_a_reading_is_that_of_its_curve() -> None:
    for reading in (
        reading_of_losses(PLAN),
        reading_of_budget(Budget.of(1, "1e-6")),
        reading_of_gaussian(GaussianBudget.of("1/4", "1e-10"), [RULE.budget.delta]),
    ):
        for point in reading.curve:
            if 0 < point.epsilon < inf:
                found = reading.delta(point.epsilon)
                assert found == pytest.approx(float(point.delta), rel=1e-6)


def test_many_losses_are_read_as_they_are_charged() -> None:
    losses = [pure(Fraction(i + 7, 3500), 1000 - i) for i in range(20)]
    composed = composed_epsilon(losses, MILLIONTH)
    assert epsilons(reading_of_losses(losses))[MILLIONTH] == pytest.approx(composed, rel=1e-4)
    assert len(Law.of(losses, NEGLIGIBLE).values) <= 1026


@pytest.mark.parametrize(
    "reading",
    [
        reading_of_losses(PLAN, [Fraction(0)]),
        reading_of_losses([pure(Fraction(10**999))]),
        reading_of_budget(Budget.of(1, "1e-6")),
        reading_of_gaussian(GaussianBudget.of(1, "1e-7"), [RULE.budget.delta]),
    ],
    ids=["losses", "infinite", "budget", "gaussian"],
)
def test_json_goes_both_ways_and_nothing_is_changed_later(reading: Reading) -> None:
    assert reading == Reading.model_validate_json(reading.model_dump_json())
    with pytest.raises(ValidationError, match="frozen"):
        reading.mu = 0.0


def test_no_numerical_library_is_needed() -> None:
    script = (
        "import sys; from accountant.readings import *; from accountant.losses import *;"
        "reading_of_losses([PureLoss(epsilon='0.1', count=9), GaussianLoss(mu='1')]);"
        "print(*sys.modules, sep='\\n')"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    assert "accountant" in loaded
    assert loaded.isdisjoint({"numpy", "scipy", "dp_accounting", "riskcal"})
