"""The composed epsilon against the exact law: never below it, and at most a thousandth above."""

from __future__ import annotations

import random
from collections.abc import Sequence
from fractions import Fraction
from math import exp, expm1, inf, log1p

import numpy as np
import pytest
from dp_accounting.pld import common, privacy_loss_distribution
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import log_ndtr
from scipy.stats import binom

from accountant.gaussian import gaussian_mu
from accountant.laws import composed_epsilon
from accountant.losses import ApproximateLoss, GaussianLoss, Loss, PureLoss

MILLIONTH = Fraction(1, 10**6)
ROOM = 1e-3


def exact_delta(losses: Sequence[Loss], epsilon: float) -> float:
    """Every pattern of votes on its own, the Gaussian in closed form, 1 - prod(1 - delta)."""
    values, logs, log_untold, mu_squared, leak = np.zeros(1), np.zeros(1), 0.0, 0.0, 0.0
    for loss in losses:
        for _ in range(loss.count):
            if isinstance(loss, GaussianLoss):
                mu_squared += float(loss.mu) ** 2
                leak += float(loss.leak)
                continue
            vote = float(loss.epsilon)
            if isinstance(loss, ApproximateLoss):
                log_untold += log1p(-float(loss.delta))
            values = np.concatenate([values + vote, values - vote])
            logs = np.concatenate([logs - np.log1p(exp(-vote)), logs - np.log1p(exp(vote))])
    gaps = epsilon - values
    if mu_squared:
        mu = np.sqrt(mu_squared)
        first = np.exp(logs + log_ndtr(mu / 2 - gaps / mu))
        second = np.exp(logs + gaps + log_ndtr(-mu / 2 - gaps / mu))
        told = float((first - second).sum())
    else:
        told = float((np.exp(logs) * -np.expm1(np.minimum(gaps, 0))).sum())
    return -expm1(log_untold) + exp(log_untold) * told + (1 + exp(epsilon)) * leak


def exact_epsilon(losses: Sequence[Loss], delta: float) -> float:
    """The smallest. A leak makes delta rise again for larger ones."""
    if exact_delta(losses, 0.0) <= delta:
        return 0.0
    enough = [e for e in (0.01, 0.1, *range(1, 61)) if exact_delta(losses, e) <= delta]
    if not enough:
        return inf
    return float(
        brentq(lambda e: exact_delta(losses, e) - delta, 0, enough[0], xtol=1e-13, rtol=1e-14)
    )


def mixture(seed: int) -> tuple[list[Loss], Fraction]:
    """Up to 12 pure votes, and perhaps Gaussians, truths and leaks."""
    draw = random.Random(seed)
    delta = Fraction(1, 10 ** draw.choice([4, 6, 8, 10]))
    votes = draw.randint(0, 12)
    losses: list[Loss] = [
        PureLoss(epsilon=Fraction(draw.randint(1, 2000), draw.choice([1000, 10_000])))
        for _ in range(votes)
    ]
    for _ in range(draw.randint(0, 3)):
        leak = Fraction(draw.choice([0, 0, 1]), 10**20)
        losses.append(GaussianLoss(mu=Fraction(draw.randint(1, 1500), 1000), leak=leak))
    for _ in range(draw.randint(0, 2) if votes < 11 else 0):
        epsilon = Fraction(draw.randint(1, 500), 1000)
        losses.append(ApproximateLoss(epsilon=epsilon, delta=delta / draw.randint(3, 1000)))
    draw.shuffle(losses)
    return losses, delta


@pytest.mark.parametrize("block", range(8))
def test_200_mixtures_are_never_below_their_law_and_hardly_above(block):
    for seed in range(25 * block, 25 * block + 25):
        losses, delta = mixture(seed)
        found, exact = composed_epsilon(losses, delta), exact_epsilon(losses, float(delta))
        assert exact - 1e-12 <= found <= exact + ROOM, (seed, found, exact)


@pytest.mark.parametrize("block", range(4))
def test_losses_a_twentieth_smaller_are_below_their_law(block):
    for seed in range(25 * block, 25 * block + 25):
        losses, delta = mixture(seed)
        smaller = [
            loss.model_copy(update={"mu": loss.mu * Fraction(19, 20)})
            if isinstance(loss, GaussianLoss)
            else loss.model_copy(update={"epsilon": loss.epsilon * Fraction(19, 20)})
            for loss in losses
        ]
        exact = exact_epsilon(losses, float(delta))
        if 0 < exact < inf:
            assert composed_epsilon(smaller, delta) < exact


def votes_on_lattice(losses: Sequence[PureLoss], step: Fraction) -> tuple[np.ndarray, np.ndarray]:
    """The values of the law of epsilons that are multiples of ``step``, with probabilities."""
    law, lowest = np.ones(1), 0
    for loss in losses:
        every = int(2 * loss.epsilon / step)
        spread = np.zeros(every * loss.count + 1)
        true = 1 / (1 + exp(-float(loss.epsilon)))
        spread[::every] = binom.pmf(np.arange(loss.count + 1), loss.count, true)
        law, lowest = np.convolve(law, spread), lowest - every * loss.count // 2
    return (np.arange(len(law)) + lowest) * float(step), law


@pytest.mark.parametrize(
    ("parts", "counts"),
    [((3, 4), (400, 300)), ((2, 3, 5, 7, 11), (500, 90, 1000, 100, 30)), ((1, 20), (900, 9))],
)
def test_many_votes_of_several_epsilons_share_a_grid(parts, counts):
    step = Fraction(1, 500)
    losses = [
        PureLoss(epsilon=part * step, count=count)
        for part, count in zip(parts, counts, strict=True)
    ]
    values, law = votes_on_lattice(losses, step)
    for delta in (1e-4, 1e-8, 1e-12):
        exact = brentq(
            lambda e, delta=delta: float((law * -np.expm1(np.minimum(e - values, 0))).sum())
            - delta,
            0, 30, xtol=1e-13, rtol=1e-14,
        )  # fmt: skip
        found = composed_epsilon(losses, Fraction(delta))
        assert exact - 1e-9 <= found <= exact * (1 + 1e-3)


def test_the_checked_numbers():
    gaussian = GaussianLoss(mu=Fraction(gaussian_mu(Fraction(1, 2), MILLIONTH)))
    votes = PureLoss(epsilon=Fraction(1, 20), count=10)
    assert composed_epsilon([votes, gaussian], MILLIONTH) == pytest.approx(0.7927, abs=5e-5)
    third, part = Fraction(1, 3), MILLIONTH / 3
    pipeline = [
        GaussianLoss(mu=Fraction(gaussian_mu(third, part)), count=2),  # directions, histogram
        PureLoss(epsilon=third / 20, count=10),
        GaussianLoss(mu=Fraction(gaussian_mu(third / 2, part))),
    ]
    assert composed_epsilon(pipeline, MILLIONTH) == pytest.approx(0.532, abs=5e-4)


@pytest.mark.parametrize("delta", ["1e-4", "1e-6", "1e-9"])
def test_it_agrees_with_a_composed_privacy_loss_distribution(delta):
    losses = [PureLoss(epsilon=Fraction(1, 10), count=7), GaussianLoss(mu=Fraction(1, 2))]
    votes = common.DifferentialPrivacyParameters(0.1, 0.0)
    composed = (
        privacy_loss_distribution.from_privacy_parameters(votes, value_discretization_interval=1e-4)
        .self_compose(7)
        .compose(
            privacy_loss_distribution.from_gaussian_mechanism(
                2.0, value_discretization_interval=1e-4
            )
        )
    )
    theirs = composed.get_epsilon_for_delta(float(delta))
    assert composed_epsilon(losses, Fraction(delta)) == pytest.approx(theirs, abs=1e-3)


epsilons = st.fractions(Fraction(1, 1000), 2, max_denominator=1000)
any_loss = st.one_of(
    st.builds(PureLoss, epsilon=epsilons, count=st.integers(1, 4)),
    st.builds(GaussianLoss, mu=epsilons, count=st.integers(1, 4)),
    st.builds(ApproximateLoss, epsilon=epsilons, delta=st.just(Fraction(1, 10**9))),
)


@settings(deadline=None)
@given(st.lists(any_loss, min_size=1, max_size=4).flatmap(lambda plan: st.permutations(plan)))
def test_order_does_not_matter_and_more_never_costs_less(plan):
    plan = list(plan)
    whole = composed_epsilon(plan, MILLIONTH)
    assert composed_epsilon(plan[::-1], MILLIONTH) == pytest.approx(whole, rel=1e-6)
    assert composed_epsilon(plan[1:], MILLIONTH) <= whole * (1 + 1e-6) + 1e-9


def test_nothing_costs_nothing_and_a_leak_costs_everything():
    assert composed_epsilon([], MILLIONTH) == 0
    assert composed_epsilon([PureLoss(epsilon=Fraction(0))], MILLIONTH) == 0
    leaks = [
        ApproximateLoss(epsilon=Fraction(0), delta=Fraction(1, 10)),
        GaussianLoss(mu=Fraction(0), leak=Fraction(1, 10)),
    ]
    for leak in leaks:
        assert composed_epsilon([leak], MILLIONTH) == inf
        assert composed_epsilon([leak, PureLoss(epsilon=Fraction(1))], MILLIONTH) == inf


@pytest.mark.parametrize(("epsilon", "low", "high"), [("1e-900", 0, 1e-3), ("1e900", inf, inf)])
def test_extremes_are_answered(epsilon, low, high):
    losses = [PureLoss(epsilon=Fraction(epsilon)), GaussianLoss(mu=Fraction(1, 10**900))]
    assert low <= composed_epsilon(losses, MILLIONTH) <= high


def test_without_a_delta_epsilons_add():
    losses = [PureLoss(epsilon=Fraction(1, 10), count=3), PureLoss(epsilon=Fraction(1, 5))]
    assert Fraction(composed_epsilon(losses, Fraction(0))) >= Fraction(1, 2)
    assert composed_epsilon(losses, Fraction(0)) == 0.5
