"""The risk is that of the hardest pair of laws: never below the exact one, and hardly above it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import exp, pi, sqrt
from statistics import NormalDist

import numpy as np
import pytest
from dp_accounting.pld import common, privacy_loss_distribution
from hypothesis import given, settings
from hypothesis import strategies as st
from riskcal import analysis
from scipy.special import erf
from scipy.stats import binom

from accountant.gaussian import gaussian_mu
from accountant.losses import ApproximateLoss, GaussianLoss, Loss, PureLoss
from accountant.risk import FALSE_POSITIVE_RATES, Risk, risk_of_budget, risk_of_losses
from accountant.specs import Budget

NORMAL = NormalDist()
EXACT = 1e-8  # room above an exact value where nothing is thinned out
THINNED = 1e-3  # relative room where there is
FLOATS = 1e-13  # room below for the floats of the exact laws in this file


def numbers(risk: Risk) -> np.ndarray:
    return np.array([risk.advantage, *(rate.at_most for rate in risk.true_positive_rates)])


def best_test(alternative: np.ndarray, null: np.ndarray) -> np.ndarray:
    """The exact advantage and true-positive rates between two finite laws (Neyman, Pearson)."""
    seen = (alternative > 0) | (null > 0)
    alternative, null = alternative[seen], null[seen]
    with np.errstate(divide="ignore"):
        order = np.argsort(-(alternative / null), kind="stable")
    false = np.concatenate([[0.0], np.cumsum(null[order])])
    true = np.concatenate([[0.0], np.cumsum(alternative[order])])
    rates = np.interp(FALSE_POSITIVE_RATES, false, true)
    return np.array([(true - false).max(), *rates])


def answers(loss: Loss) -> tuple[list[float], list[float]]:
    """The hardest pair of laws of one pure or approximate loss."""
    delta = float(loss.delta) if isinstance(loss, ApproximateLoss) else 0.0
    true = (1 - delta) / (1 + exp(-float(loss.epsilon)))
    false = (1 - delta) / (1 + exp(float(loss.epsilon)))
    told = ([delta, 0.0], [0.0, delta]) if delta else ([], [])
    return [*told[0], true, false], [*told[1], false, true]


def all_answers(losses: Iterable[Loss]) -> tuple[np.ndarray, np.ndarray]:
    """The two laws of all answers together, every pattern on its own."""
    pairs = [answers(loss) for loss in losses for _ in range(loss.count)]
    first, second = np.ones(1), np.ones(1)
    for alternative, null in pairs:
        first = np.outer(first, alternative).ravel()
        second = np.outer(second, null).ravel()
    return first, second


def assert_just_above(risk: Risk, exact: np.ndarray, *, room: np.ndarray | float = EXACT) -> None:
    assert np.all(numbers(risk) >= exact - FLOATS)
    assert np.all(numbers(risk) <= exact + room)


epsilons = st.fractions(0, 3, max_denominator=100)
pure = st.builds(PureLoss, epsilon=epsilons)
approximate = st.builds(
    ApproximateLoss, epsilon=epsilons, delta=st.fractions(0, Fraction(1, 2), max_denominator=1000)
)


@settings(deadline=None)
@given(st.lists(pure, min_size=1, max_size=5), st.integers(1, 2))
def test_pure_losses_mean_what_every_pattern_of_answers_tells(losses, count):
    losses = [loss.model_copy(update={"count": count}) for loss in losses]
    assert_just_above(risk_of_losses(losses), best_test(*all_answers(losses)))


@settings(deadline=None)
@given(st.lists(approximate, min_size=1, max_size=4))
def test_approximate_losses_mean_what_every_pattern_of_answers_tells(losses):
    assert_just_above(risk_of_losses(losses), best_test(*all_answers(losses)))


def test_a_risk_of_losses_a_twentieth_smaller_is_told_apart():
    losses = [PureLoss(epsilon=Fraction(1, 10), count=5), PureLoss(epsilon=Fraction(1, 3))]
    smaller = [
        loss.model_copy(update={"epsilon": loss.epsilon * Fraction(19, 20)}) for loss in losses
    ]
    exact = best_test(*all_answers(losses))
    assert np.all(numbers(risk_of_losses(smaller)) < exact * 0.998)


# Gaussians.


def gaussian_risk(mu: float, leak: float = 0.0) -> np.ndarray:
    rates = [NORMAL.cdf(NORMAL.inv_cdf(rate + leak) + mu) + leak for rate in FALSE_POSITIVE_RATES]
    return np.array([2 * NORMAL.cdf(mu / 2) - 1 + 2 * leak, *rates])


@pytest.mark.parametrize("mu", ["0.001", "0.1", "1/2", "1", "2", "7"])
@pytest.mark.parametrize("count", [1, 2, 100])
@pytest.mark.parametrize("leak", ["0", "1e-6", "1e-3"])
def test_gaussians_mean_what_their_formula_says(mu, count, leak):
    loss = GaussianLoss(mu=Fraction(mu), leak=Fraction(leak), count=count)
    exact = gaussian_risk(sqrt(count) * float(loss.mu), count * float(loss.leak))
    assert_just_above(risk_of_losses([loss]), np.minimum(exact, 1))


def cells(mu: float) -> tuple[np.ndarray, np.ndarray]:
    """Two normals, mu apart, told to one part in 200: a little less than the truth."""
    edges = np.arange(-9.0, 9.0 + mu, 1 / 200)
    laws = []
    for mean in (mu, 0.0):
        below = np.concatenate([[0.0], (1 + erf((edges - mean) / sqrt(2))) / 2, [1.0]])
        laws.append(np.diff(below))
    return laws[0], laws[1]


def test_a_leak_lets_the_attacker_gain_that_much():
    leak, rate = 0.01, FALSE_POSITIVE_RATES[2]
    alternative, null = cells(0.5)
    rejected = np.cumsum(null[::-1])[::-1] <= rate + leak
    for law, source, sink in ((alternative, ~rejected, rejected), (null, rejected, ~rejected)):
        moved = leak * law * source / law[source].sum()
        law += leak * law * sink / law[sink].sum() - moved
    reached = best_test(alternative, null)[3]
    claimed = risk_of_losses([GaussianLoss(mu=Fraction(1, 2), leak=Fraction(1, 100))])
    assert reached <= claimed.true_positive_rates[2].at_most <= reached + 1e-3
    unleaked = risk_of_losses([GaussianLoss(mu=Fraction(1, 2))])
    assert reached > unleaked.true_positive_rates[2].at_most + 2 * leak


@settings(deadline=None, max_examples=30)
@given(st.lists(st.one_of(pure, approximate), max_size=2), st.fractions(Fraction(1, 10), 3))
def test_mixtures_mean_what_every_pattern_and_every_number_tell(losses, mu):
    patterns, normals = all_answers(losses), cells(float(mu))
    laws = [np.outer(*pair).ravel() for pair in zip(patterns, normals, strict=True)]
    risk = risk_of_losses([*losses, GaussianLoss(mu=mu)])
    assert np.all(numbers(risk) >= best_test(*laws) - FLOATS)
    assert np.all(numbers(risk) <= best_test(*laws) + 1e-4)


# Many answers.


def votes_on_grid(epsilons: Sequence[int], step: float) -> tuple[np.ndarray, np.ndarray]:
    """The laws of the loss of pure losses that are multiples of ``step``."""
    law = np.ones(1)
    for epsilon in epsilons:
        true = 1 / (1 + exp(-epsilon * step))
        longer = np.zeros(len(law) + 2 * epsilon)
        longer[: len(law)] += (1 - true) * law
        longer[2 * epsilon :] += true * law
        law = longer
    losses = (np.arange(len(law)) - len(law) // 2) * step
    return law, law * np.exp(-losses)


@settings(deadline=None, max_examples=15)
@given(
    st.lists(st.integers(1, 20), min_size=12, max_size=30, unique=True),
    st.lists(st.integers(20, 1000), max_size=10, unique=True),
    st.sampled_from([0.001, 0.0001]),
)
def test_many_different_epsilons_are_thinned_out_to_the_safe_side(small, large, step):
    epsilons = sorted({*small, *large})
    losses = [PureLoss(epsilon=Fraction(str(step)) * epsilon) for epsilon in epsilons]
    exact = best_test(*votes_on_grid(epsilons, step))
    assert_just_above(risk_of_losses(losses), exact, room=THINNED * exact)


def test_a_gap_between_values_does_not_make_the_grid_coarse():
    epsilons = [*range(1, 50), 30_000]
    losses = [PureLoss(epsilon=Fraction(epsilon, 10_000)) for epsilon in epsilons]
    exact = best_test(*votes_on_grid(epsilons, 0.0001))
    assert_just_above(risk_of_losses(losses), exact, room=1e-4 * exact)


@pytest.mark.parametrize(
    ("epsilon", "count"), [("0.1", 100), ("0.03", 2000), ("1e-3", 10**6), ("4e-3", 10**6)]
)
def test_large_counts_are_binomial(epsilon, count):
    pure = PureLoss(epsilon=Fraction(epsilon), count=count)
    true = 1 / (1 + exp(-float(pure.epsilon)))
    votes = np.arange(count + 1)
    exact = best_test(binom.pmf(votes, count, true), binom.pmf(votes, count, 1 - true))
    assert_just_above(risk_of_losses([pure]), exact, room=THINNED * exact)


def test_no_epsilon_exceeds_the_gaussian_that_stands_for_larger_counts():
    epsilons = np.concatenate([np.geomspace(1e-4, 1, 200), np.linspace(1, 60, 600)])
    assert np.all(erf(sqrt(pi / 2) * epsilons / sqrt(8)) >= np.tanh(epsilons / 2))
    many = numbers(risk_of_losses([PureLoss(epsilon=Fraction("1e-5"), count=10**10)]))
    assert np.all(many >= gaussian_risk(1.0))
    assert many == pytest.approx(gaussian_risk(sqrt(pi / 2)), rel=1e-4)


# An independent implementation.


@pytest.mark.parametrize("epsilon", [0.0, 0.01, 1.0, 5.0, 30.0])
@pytest.mark.parametrize("delta", [0.0, 1e-6, 0.3])
def test_a_budget_means_what_riskcal_says(epsilon, delta):
    rates = np.array(FALSE_POSITIVE_RATES)
    beta = analysis.get_beta_from_adp(epsilon=epsilon, delta=delta, alpha=rates)
    advantage = analysis.get_advantage_from_adp(epsilon=epsilon, delta=delta)
    budget = Budget.of(Fraction(epsilon), Fraction(delta))
    assert_just_above(risk_of_budget(budget), np.array([advantage, *(1 - beta)]))


def from_riskcal(losses: Iterable[Loss], step: float) -> np.ndarray:
    parts = []
    for loss in losses:
        match loss:
            case GaussianLoss():
                part = privacy_loss_distribution.from_gaussian_mechanism(
                    1 / float(loss.mu), value_discretization_interval=step
                )
            case _:
                delta = float(loss.delta) if isinstance(loss, ApproximateLoss) else 0.0
                parameters = common.DifferentialPrivacyParameters(float(loss.epsilon), delta)
                part = privacy_loss_distribution.from_privacy_parameters(parameters, step)
        parts.append(part.self_compose(loss.count) if loss.count > 1 else part)
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.compose(part)
    beta = analysis.get_beta_from_pld(whole, alpha=np.array(FALSE_POSITIVE_RATES))
    return np.array([analysis.get_advantage_from_pld(whole), *(1 - beta)])


MU = Fraction(gaussian_mu(Fraction(1, 2), Fraction(1, 10**6)))


# Every epsilon here is on the grid, so that rounding to it adds nothing. Its floats may leave a
# rate a few millionths too small, and more on a finer grid.
@pytest.mark.parametrize(
    "losses",
    [
        [PureLoss(epsilon=Fraction(1, 20), count=10), GaussianLoss(mu=MU)],
        [PureLoss(epsilon=Fraction(1, 2)), PureLoss(epsilon=Fraction(1, 4), count=7)],
        [
            PureLoss(epsilon=Fraction(1, 8)),
            ApproximateLoss(epsilon=Fraction(1, 16), delta=Fraction(1, 10**5), count=5),
            GaussianLoss(mu=Fraction(1, 3), count=2),
        ],
        [GaussianLoss(mu=Fraction(1))],
        [PureLoss(epsilon=Fraction(1))],
    ],
)
def test_losses_mean_what_riskcal_says(losses):
    assert numbers(risk_of_losses(losses)) == pytest.approx(from_riskcal(losses, 1e-4), rel=1e-4)
