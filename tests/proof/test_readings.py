"""What is read from a total is never below the exact law, and its mu cannot be smaller."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import exp, inf, sqrt
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_ndtr, ndtr, ndtri

from accountant.domination import dominating_mu, looseness
from accountant.gaussian import gaussian_mu, lifted_mu
from accountant.laws import NEGLIGIBLE, Law
from accountant.losses import ApproximateLoss, GaussianLoss, Loss, PureLoss
from accountant.readings import (
    Reading,
    reading_of_budget,
    reading_of_gaussian,
    reading_of_losses,
)
from accountant.rules import GaussianRule
from accountant.specs import Budget, GaussianBudget

from .test_laws import exact_delta
from .test_risk import all_answers

MILLIONTH = Fraction(1, 10**6)
EPSILONS = np.concatenate([np.linspace(0, 4, 161), np.linspace(4, 30, 105)[1:]])
RATES = np.concatenate([np.geomspace(1e-9, 1e-3, 60), np.linspace(1e-3, 1 - 1e-6, 2000)])
FLOATS = 1e-12


def delta_of_mu(mu: float, epsilons: np.ndarray) -> np.ndarray:
    if mu == 0:
        return np.zeros_like(epsilons)
    head, tail = log_ndtr(mu / 2 - epsilons / mu), log_ndtr(-mu / 2 - epsilons / mu)
    return np.exp(head) - np.exp(epsilons + tail)


def allowed(reading: Reading, epsilons: np.ndarray, *, times: float = 1.0) -> np.ndarray:
    """What the dominating mu, ``times`` itself, and what it does not cover let delta be.

    Losses that were fixed before are even covered by the mu where nothing is told.
    """
    told = float(reading.uncovered)
    beside = told + (1 + np.exp(epsilons)) * float(reading.leak)
    untold = 1 if reading.basis == "gaussian" else 1 - told
    return untold * delta_of_mu(times * reading.mu, epsilons) + beside


def deltas(losses: Sequence[Loss], epsilons: np.ndarray = EPSILONS) -> np.ndarray:
    return np.array([exact_delta(losses, epsilon) for epsilon in epsilons])


def assert_never_above(
    reading: Reading,
    exact: Callable[[np.ndarray], np.ndarray],
    epsilons: np.ndarray = EPSILONS,
) -> None:
    """The exact delta of a total against its curve and against the mu that dominates it."""
    assert np.all(exact(epsilons) <= allowed(reading, epsilons) * (1 + 1e-9) + FLOATS)
    points = [point for point in reading.curve if point.epsilon < inf]
    reached = exact(np.array([point.epsilon for point in points]))
    for point, delta in zip(points, reached, strict=True):
        assert delta <= float(point.delta) * (1 + 1e-9) + 1e-16, point


def votes(*epsilons: str, count: int = 1) -> list[PureLoss]:
    return [PureLoss(epsilon=Fraction(epsilon), count=count) for epsilon in epsilons]


def gaussian(mu: str | Fraction, leak: str = "0") -> GaussianLoss:
    return GaussianLoss(mu=Fraction(mu), leak=Fraction(leak))


def approximate(epsilon: str, delta: str, count: int = 1) -> ApproximateLoss:
    return ApproximateLoss(epsilon=Fraction(epsilon), delta=Fraction(delta), count=count)


TOYS: dict[str, list[Loss]] = {
    "a vote": votes("1"),
    "a small vote": votes("1/100"),
    "ten votes": votes("1/10", count=10),
    "ten different votes": votes(*(f"{i}/40" for i in range(1, 11))),
    "votes unlike each other": votes("2", "1/10", "1/11"),
    "a truth": [approximate("1", "1e-6")],
    "likely truths": [approximate("1", "1/10"), approximate("1/2", "1/20")],
    "votes and truths": [*votes("1/5", count=4), approximate("1/3", "1e-5", 3)],
    "votes and a normal": [*votes("1/20", count=10), gaussian("2/5")],
    "a vote and a narrow normal": [*votes("1"), gaussian("1/50")],
    "all": [*votes("1/3", "1/7"), gaussian("1", "1e-9"), approximate("1/4", "1e-7", 2)],
    "wide": [*votes("1/2", count=6), gaussian("3")],
}


@pytest.mark.parametrize("losses", TOYS.values(), ids=TOYS)
def test_the_exact_law_is_never_above_what_is_read(losses):
    assert_never_above(
        reading_of_losses(losses, [MILLIONTH * 3]), lambda epsilons: deltas(losses, epsilons)
    )


@pytest.mark.parametrize("losses", TOYS.values(), ids=TOYS)
def test_a_mu_that_is_a_twentieth_smaller_does_not_dominate(losses):
    reading = reading_of_losses(losses)
    exact = deltas(losses)
    assert np.any(exact > allowed(reading, EPSILONS, times=0.95) * (1 + 1e-9) + FLOATS)


@pytest.mark.parametrize("losses", TOYS.values(), ids=TOYS)
def test_the_mu_is_hardly_above_the_smallest(losses):
    """A thousandth less is refuted, by a test that is as exact where the laws meet."""
    reading, told = reading_of_losses(losses), float(Law.of(losses, NEGLIGIBLE).told)
    fine = np.concatenate([EPSILONS, np.linspace(0, 4, 4001)])
    plain = [loss.model_copy(update={"leak": Fraction(0)}) if isinstance(loss, GaussianLoss)
             else PureLoss(epsilon=loss.epsilon, count=loss.count) for loss in losses]  # fmt: skip
    exact = np.array([exact_delta(plain, epsilon) for epsilon in fine])
    assert told <= float(reading.uncovered) * (1 + 1e-9)
    assert np.any(exact > delta_of_mu(0.998 * reading.mu, fine))


def trade_off(losses: Sequence[Loss], rates: np.ndarray) -> np.ndarray:
    """The exact true-positive rates of votes and truths, every pattern on its own."""
    alternative, null = all_answers(losses)
    with np.errstate(divide="ignore"):
        order = np.argsort(-(alternative / np.where(null > 0, null, 1e-300)), kind="stable")
    false = np.concatenate([[0.0], np.cumsum(null[order])])
    true = np.concatenate([[0.0], np.cumsum(alternative[order])])
    return np.interp(rates, false, true)


DISCRETE = {
    name: toy for name, toy in TOYS.items() if not any(isinstance(x, GaussianLoss) for x in toy)
    and sum(2 * x.count if isinstance(x, ApproximateLoss) else x.count for x in toy) <= 10
}  # fmt: skip


@pytest.mark.parametrize("losses", DISCRETE.values(), ids=DISCRETE)
def test_no_test_is_better_than_the_dominating_mu(losses):
    reading = reading_of_losses(losses)
    most = ndtr(ndtri(RATES) + reading.mu) + float(reading.uncovered)
    assert np.all(trade_off(losses, RATES) <= most + FLOATS)


@pytest.mark.parametrize("losses", DISCRETE.values(), ids=DISCRETE)
def test_looseness_is_the_largest_difference_on_a_fine_grid(losses):
    """Over false-positive rates themselves, where the code looks at epsilons."""
    plain = [PureLoss(epsilon=loss.epsilon, count=loss.count) for loss in losses]
    rates = np.linspace(1e-6, 1 - 1e-6, 200_001)
    reading = reading_of_losses(plain)
    difference = ndtr(ndtri(rates) + reading.mu) - trade_off(plain, rates)
    assert difference.max() <= reading.looseness <= difference.max() + 1e-6


def rates_of(votes_alone: Sequence[Loss], mu: float) -> tuple[np.ndarray, np.ndarray]:
    """Rates of a fine grid of likelihood-ratio tests of votes beside a normal."""
    alternative, null = all_answers(votes_alone)
    values = np.log(alternative / null)
    t = np.linspace(-12, 12, 100_001)[:, None]
    false = (null * ndtr((values - t) / mu - mu / 2)).sum(axis=1)
    true = (alternative * ndtr((values - t) / mu + mu / 2)).sum(axis=1)
    inside = (false > 1e-15) & (true < 1 - 1e-12)
    return false[inside], true[inside]


@pytest.mark.parametrize(("epsilon", "mu"), [("1", 0.3), ("1/2", 0.2), ("1", 0.05), ("1/4", 1.0)])
def test_no_test_beside_a_normal_needs_a_larger_mu(epsilon, mu):
    """Not even one between those that the search looks at; and one needs nearly as much."""
    alone = votes(epsilon, count=4)
    false, true = rates_of(alone, mu)
    needed = (ndtri(true) - ndtri(false)).max()
    found = reading_of_losses([*alone, gaussian(Fraction(str(mu)))]).mu
    assert needed - 1e-10 <= found <= needed * (1 + 1e-3)


@pytest.mark.parametrize("mu", [0.05, 0.4, 3.0])
def test_looseness_with_a_normal_is_that_of_a_fine_grid(mu):
    """Thresholds of the normal for each pattern of votes at once: every likelihood-ratio test."""
    alone = votes("1/4", count=5)
    false, true = rates_of(alone, mu)
    reading = reading_of_losses([*alone, gaussian(Fraction(str(mu)))])
    difference = (ndtr(ndtri(false) + reading.mu) - true).max()
    assert difference <= reading.looseness <= difference + 3e-4


def test_one_vote_is_the_chord_of_its_mu():
    """By hand: the largest height of G_mu above the chord from 0 to the kink of one vote."""
    (loss,) = votes("1")
    mu, kink = lifted_mu(1), 1 / (1 + exp(1))
    # the chord's slope e is that of G_mu where mu z = 1 + mu^2 / 2, z = -Phi^-1(a)
    z = (1 + mu**2 / 2) / mu
    by_hand = NormalDist().cdf(mu - z) - exp(1) * NormalDist().cdf(-z)
    reading = reading_of_losses([loss])
    assert reading.mu == mu
    assert NormalDist().cdf(-z) < kink
    assert by_hand <= reading.looseness <= by_hand + 1e-8


def test_a_gaussian_alone_is_its_own_mu():
    reading = reading_of_losses([gaussian("3/10"), gaussian("4/10")])
    assert (0.5, 0.0, 0, 0) == (
        reading.mu, reading.looseness, reading.uncovered, reading.leak
    )  # fmt: skip


@pytest.mark.parametrize("mu", [0.001, 0.1, 1.0, 3.0, 5.0])
def test_the_search_finds_the_mu_of_a_gaussian_that_it_knows_only_as_a_law(mu):
    law = Law(values=((0.0, 1.0),), mu=mu, leak=0.0)
    found, loose = dominating_mu(law)
    assert mu <= found <= mu * (1 + 1e-3)
    assert loose <= 1e-3


def test_a_looseness_needs_its_law():
    """A smaller vote under the same mu is told to be looser, by what its chord is lower."""
    one, half = (Law.of(votes(epsilon), NEGLIGIBLE) for epsilon in ("1", "1/2"))
    mu = lifted_mu(1)
    assert looseness(half, mu) > looseness(one, mu) + 0.01


amounts = st.fractions(Fraction(1, 100), Fraction(3, 2), max_denominator=100)
any_loss = st.one_of(
    st.builds(PureLoss, epsilon=amounts, count=st.integers(1, 3)),
    st.builds(GaussianLoss, mu=amounts, leak=st.just(Fraction(1, 10**12))),
    st.builds(ApproximateLoss, epsilon=amounts, delta=st.just(Fraction(1, 10**8))),
)


@settings(deadline=None, max_examples=40)
@given(st.lists(any_loss, min_size=1, max_size=4))
def test_any_exact_law_is_never_above_what_is_read(losses):
    few = np.linspace(0, 6, 25)
    assert_never_above(reading_of_losses(losses), lambda epsilons: deltas(losses, epsilons), few)


@settings(deadline=None, max_examples=40)
@given(st.lists(any_loss, min_size=1, max_size=4), any_loss)
def test_more_losses_never_lower_what_is_read(losses, more):
    """But for a thousandth, to which the search looks."""
    less, whole = reading_of_losses(losses), reading_of_losses([*losses, more])
    assert less.mu <= whole.mu * (1 + 1e-3)
    assert less.uncovered <= whole.uncovered + Fraction(1, 10**17)
    assert less.leak <= whole.leak
    for one, other in zip(less.curve, whole.curve, strict=True):
        assert one.epsilon <= other.epsilon * (1 + 1e-6) + 1e-9


@settings(deadline=None, max_examples=25)
@given(st.lists(any_loss, min_size=2, max_size=4).flatmap(lambda plan: st.permutations(plan)))
def test_order_does_not_matter(losses):
    one, other = reading_of_losses(losses), reading_of_losses(sorted(losses, key=repr))
    assert one.mu == pytest.approx(other.mu, rel=1e-9)
    assert one.looseness == pytest.approx(other.looseness, abs=1e-9)
    assert [p.epsilon for p in one.curve] == pytest.approx([p.epsilon for p in other.curve])
    assert one.risk == other.risk


@settings(deadline=None, max_examples=40)
@given(st.lists(any_loss, max_size=4), st.sets(st.fractions(Fraction(1, 10**14), Fraction(1, 2))))
def test_the_curve_falls_as_delta_grows(losses, more):
    curve = reading_of_losses(losses, more).curve
    assert [point.delta for point in curve] == sorted({point.delta for point in curve})[::-1]
    epsilons = [point.epsilon for point in curve]
    assert epsilons == sorted(epsilons)


# Budgets.


@pytest.mark.parametrize(("epsilon", "delta"), [("1", "1e-6"), ("1/10", "1e-3"), ("3", "1/4")])
def test_a_budget_is_one_vote_or_the_truth(epsilon, delta):
    budget = Budget.of(epsilon, delta)
    reading = reading_of_budget(budget)
    assert_never_above(reading, lambda epsilons: deltas([approximate(epsilon, delta)], epsilons))
    assert reading.mu == lifted_mu(budget.epsilon)
    assert reading.uncovered == budget.delta
    points = {point.delta: point.epsilon for point in reading.curve}
    assert float(budget.epsilon) <= points[budget.delta] <= float(budget.epsilon) * (1 + 1e-15)
    assert all((points[d] == inf) == (d < budget.delta) for d in points)
    for point in reading.curve:
        if 0 < point.epsilon < inf:
            exact = exact_delta([approximate(epsilon, delta)], point.epsilon - 1e-9)
            assert exact > float(point.delta) * (1 - 1e-12)


# Gaussian budgets.

RULE = GaussianRule(budget=Budget.of("1", "1e-6"), set_aside=Fraction(1, 10**7))


def test_a_whole_grant_reads_as_what_was_granted():
    reading = reading_of_gaussian(RULE.capacity(RULE.budget), [RULE.budget.delta])
    points = {point.delta: point.epsilon for point in reading.curve}
    assert 1 - 1e-9 <= points[MILLIONTH] <= 1
    mu = gaussian_mu(1, MILLIONTH - RULE.set_aside, RULE.leak)
    assert mu * (1 - 1e-15) <= reading.mu <= mu * (1 + 1e-15)
    assert (reading.uncovered, reading.leak, reading.looseness) == (RULE.set_aside, RULE.leak, 0.0)


PARTS = [(1, 1), (1, 0), (0, 1), (Fraction(1, 3), Fraction(1, 2))]


@pytest.mark.parametrize(("told", "leaked"), PARTS)
@pytest.mark.parametrize("epsilon", ["1/2", "1", "4"])
def test_any_truths_and_leaks_within_their_accounts_are_never_above_what_is_read(
    epsilon, told, leaked
):
    """Any part of the two; and with all of both, at every point of the curve, hardly below.

    A curve adds truths to what noise tells. A truth is no news where the noise told the same, so
    the law has a little less: it is compared with truths and noise that are drawn independently.
    """
    rule = GaussianRule(budget=Budget.of(epsilon, "1e-5"), set_aside=Fraction(1, 10**6))
    total = rule.capacity(rule.budget).model_copy(update={"leak": Fraction(1, 10**7)})
    reading = reading_of_gaussian(total, [rule.budget.delta])
    truths, leaks = float(told * total.delta), float(leaked * total.leak)
    mu = sqrt(float(total.mu_squared))

    def exact(epsilons: np.ndarray) -> np.ndarray:
        return delta_of_mu(mu, epsilons) + truths + (1 + np.exp(epsilons)) * leaks

    assert_never_above(reading, exact)
    all_told = np.array([reading.delta(epsilon) for epsilon in EPSILONS])
    independent = exact(EPSILONS) - truths * delta_of_mu(mu, EPSILONS)
    assert np.all(np.minimum(independent, 1) <= all_told * (1 + 1e-9))
    points = [point for point in reading.curve if 0 < point.epsilon < inf]
    assert points
    if told == leaked == 1:
        for point in points:
            (reached,) = exact(np.array([point.epsilon]))
            assert reached == pytest.approx(float(point.delta), rel=1e-8)


def test_leaks_weigh_more_at_a_larger_epsilon():
    """A small delta has no epsilon then, where a larger one does; with no leak both have one."""
    total = GaussianBudget.of("4", 0, "1e-12")
    points = {p.delta: p.epsilon for p in reading_of_gaussian(total).curve}
    for delta, epsilon in points.items():
        if epsilon < inf:
            at = np.array([epsilon])
            assert delta_of_mu(2.0, at) + (1 + exp(epsilon)) * 1e-12 <= float(delta) * (1 + 1e-9)
    assert points[MILLIONTH] < inf
    assert points[Fraction(1, 10**12)] == inf
    without = reading_of_gaussian(GaussianBudget.of("4"))
    assert inf not in {point.epsilon for point in without.curve}


def test_nothing_is_read_as_nothing():
    for reading in (
        reading_of_losses([]),
        reading_of_budget(Budget.of(0, 0)),
        reading_of_gaussian(GaussianBudget.of(0)),
    ):
        assert (0.0, 0, 0, 0.0) == (
            reading.mu, reading.uncovered, reading.leak, reading.looseness
        )  # fmt: skip
        assert {0.0} == {point.epsilon for point in reading.curve}
        assert reading.risk.advantage == 0
