"""The integer Gaussian: how near it is to Gaussian differential privacy, and what the map adds."""

from __future__ import annotations

from fractions import Fraction
from math import isqrt, sqrt

import numpy as np
import opendp.prelude as dp
import pytest
from opendp.mod import OpenDPException
from scipy.special import ndtr

from accountant.gaussian import gaussian_delta, gaussian_epsilon, gaussian_mu
from accountant.losses import GaussianLoss
from accountant.specs import Budget
from dppca_odp.primitives.noise import (
    LEAST_SCALE,
    ROUNDING,
    Link,
    gaussian_stage,
    gaussian_to_approximate,
    make_gaussian,
    make_gaussian_chain,
    stage_loss,
)
from dppca_odp.primitives.sums import make_clamped_sum
from dppca_odp.spaces import integers_domain, integers_metric, matrix_domain, rows_metric

SPACE = matrix_domain(9, 2), rows_metric()
SCALES = [2, 4, 8, 16, 32, 64]
#: 1/48 of E|Z^2 - 1|, where the midpoint rule puts the distance.
LIMIT = 4 * np.exp(-0.5) / np.sqrt(2 * np.pi) / 48


def integers(scale: float) -> np.ndarray:
    most = int(12 * scale) + 4
    return np.arange(-most, most + 1)


def integer_gaussian(scale: float) -> np.ndarray:
    weights = np.exp(-((integers(scale) / scale) ** 2) / 2)
    return weights / weights.sum()


def rounded_gaussian(scale: float) -> np.ndarray:
    near_zero = -np.abs(integers(scale))  # differences of small tails keep their digits
    return ndtr((near_zero + 0.5) / scale) - ndtr((near_zero - 0.5) / scale)


def rounding_distance(scale: float) -> float:
    return float(np.abs(integer_gaussian(scale) - rounded_gaussian(scale)).sum() / 2)


def integer_delta(epsilon: float, scale: float, *, numbers: int) -> float:
    """The true delta when each of ``numbers`` integers with this noise moves by one."""
    here = integer_gaussian(scale)
    there = np.roll(here, 1)
    there[0] = 0.0
    p, q = here, there
    for _ in range(numbers - 1):
        p, q = np.outer(p, here).ravel(), np.outer(q, there).ravel()
    return float(np.maximum(p - np.exp(epsilon) * q, 0).sum())


@pytest.mark.parametrize("scale", SCALES)
def test_distance_to_a_rounded_gaussian_is_at_most_the_claim(scale):
    actual = rounding_distance(scale) * scale**2
    assert float(ROUNDING) / 2 < actual <= ROUNDING
    assert pytest.approx(actual, rel=0.2 / scale**2) == LIMIT


# epsilon, delta, how many times that delta the integer Gaussian has on raw counts, where one row
# leaves one cell for another (checked values)
@pytest.mark.parametrize(("epsilon", "delta", "times"), [(3, 1e-5, 1.11), (8, 1e-6, 1.64)])
def test_raw_counts_leak_more_than_their_gaussian(epsilon, delta, times):
    scale = sqrt(2) / gaussian_mu(epsilon, delta)
    assert times == pytest.approx(integer_delta(epsilon, scale, numbers=2) / delta, abs=0.01)


@pytest.mark.parametrize("numbers", [1, 2])
@pytest.mark.parametrize("scale", [1, 2, 4, 8, 16])
def test_leak_covers_what_integers_add(scale, numbers):
    mu = sqrt(numbers) / scale
    for epsilon in np.linspace(0, 4 * mu, 9):
        leak = numbers * float(ROUNDING) / scale**2
        claimed = gaussian_delta(mu, float(epsilon)) + (1 + np.exp(epsilon)) * leak
        assert integer_delta(epsilon, scale, numbers=numbers) <= claimed


@pytest.mark.parametrize("scale", [2, 4, 8, 16])
def test_without_the_leak_integers_exceed_their_gaussian(scale):
    for epsilon in np.linspace(0, 4 / scale, 9):
        claimed = gaussian_delta(1 / scale, float(epsilon))
        assert integer_delta(epsilon, scale, numbers=1) > claimed


# The constructors.

DELTA = 1e-6


def gaussian(scale: float, *, size: int = 3):
    return make_gaussian(integers_domain(size), integers_metric(), scale=scale)


def priced(measurement, distance, *, delta: float = DELTA):
    return gaussian_to_approximate(measurement, delta=delta).map(distance)


def chain_of(shares, *, d_in: int, loss: GaussianLoss, columns: int = 2):
    """Noisy sums of values clamped to [0, 1]; answers their scales."""
    space = matrix_domain(9, columns), rows_metric()
    total = make_clamped_sum(*space, lower=0.0, upper=1.0)
    return make_gaussian_chain(
        *space,
        d_in=d_in,
        loss=loss,
        links=[Link(Fraction(share), columns) for share in shares],
        least_sensitivity=total.map(d_in),
        run=lambda ask: [ask(total).scale for _ in shares],
    )


@pytest.mark.parametrize("scale", [0.9, 8.0, LEAST_SCALE / 2, np.nextafter(2.0**30, 0)])
def test_small_scales_are_refused(scale):
    with pytest.raises(ValueError, match=r"at least 2\^30"):
        gaussian(scale)


def assert_map_is_just_above(measurement, distance, mu_squared: Fraction, leak) -> None:
    """Never below the exact mu with its leak, nor the epsilon of both, and within 1e-12 of it."""
    claimed_mu, claimed_leak = measurement.map(distance)
    assert mu_squared <= claimed_mu**2 <= mu_squared * (1 + Fraction(1, 10**12))
    assert leak == claimed_leak
    claimed = priced(measurement, distance)
    epsilon, _ = claimed
    mu = Fraction(isqrt(int(mu_squared * 4**200)), 2**200)
    least = gaussian_epsilon(mu, DELTA, leak=leak)
    assert (epsilon, DELTA) == claimed
    assert gaussian_epsilon(mu, DELTA) <= least <= epsilon <= least * (1 + 1e-12)


@pytest.mark.parametrize("scale", [2.0**30, 2.0**33 / 3, 1e12])
@pytest.mark.parametrize("ratio", [1e-4, 0.1, 1.0, 2.2])
def test_map_is_the_gaussian_one_rounded_up(scale, ratio):
    sensitivity = float(ratio * scale)
    mu_squared = (Fraction(sensitivity) / Fraction(scale)) ** 2
    leak = 3 * ROUNDING / Fraction(scale) ** 2
    assert_map_is_just_above(gaussian(scale, size=3), sensitivity, mu_squared, leak)


@pytest.mark.parametrize("shares", [["1"], ["1/2", "1/3"], ["1/30"] * 30, ["1e-6", "0.999999"]])
@pytest.mark.parametrize("mu", ["1e-3", "0.268", "5"])
def test_map_of_a_chain_is_just_above_the_joint_gaussian_of_its_noises(shares, mu):
    chain = chain_of(shares, d_in=2, loss=GaussianLoss(mu=mu, leak="1e-12"))
    sensitivity = Fraction(make_clamped_sum(*SPACE, lower=0.0, upper=1.0).map(2))
    scales = [Fraction(scale) for scale in chain(np.zeros((9, 2)))]
    mu_squared = sum((sensitivity / scale) ** 2 for scale in scales)
    claimed, leak = chain.map(1)
    assert mu_squared <= claimed**2 <= mu_squared * (1 + Fraction(5, 10**12))
    assert claimed**2 <= Fraction(mu) ** 2 * sum(map(Fraction, shares))
    assert sum(2 * ROUNDING / scale**2 for scale in scales) <= leak
    assert chain.map(1) == chain.map(2)
    if mu == "0.268":
        assert_map_is_just_above(chain, 2, claimed**2, leak)


def test_maps_are_zero_at_zero_and_increase():
    measurement = gaussian(2.0**32)
    chain = chain_of(["1/3"] * 3, d_in=1, loss=GaussianLoss(mu=1, leak="1e-12"))
    assert (0, 0) == measurement.map(0.0) == chain.map(0)
    assert (0.0, 0.0) == priced(measurement, 0.0) == priced(chain, 0)
    mus = [measurement.map(2.0**power)[0] for power in range(10, 34)]
    assert sorted(set(mus)) == mus
    epsilons = [priced(measurement, 2.0**power)[0] for power in range(10, 34)]
    assert sorted(epsilons) == epsilons


def test_map_of_a_chain_is_an_error_beyond_the_declared_distance():
    with pytest.raises(OpenDPException):
        chain_of(["1"], d_in=2, loss=GaussianLoss(mu=1, leak="1e-12")).map(3)


def test_a_chain_refuses_a_sum_that_moves_farther_than_it_says_at_another_distance():
    """Its noise is for two rows; OpenDP adds up what the sum's own map says at two."""
    total = make_clamped_sum(*SPACE, lower=0.0, upper=1.0)
    liar = dp.t.make_user_transformation(
        total.input_domain,
        total.input_metric,
        total.output_domain,
        total.output_metric,
        lambda data: total(data),
        _rising(total),
    )
    chain = make_gaussian_chain(
        *SPACE,
        d_in=2,
        loss=GaussianLoss(mu=1, leak="1e-12"),
        links=[Link(Fraction(1), 2)],
        least_sensitivity=total.map(1),
        run=lambda ask: ask(liar),
    )
    with pytest.raises(OpenDPException):
        chain(np.zeros((9, 2)))


def _rising(total):
    """A map that says less the first time it is asked."""
    said = iter([total.map(1)])
    return lambda d_in: next(said, total.map(d_in))


# The stage that a share pays for.

SHARES = [("0.001", "1e-10"), ("1/3", "1e-8"), ("1", "1e-5"), ("20", "1e-5")]


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("sensitivity", [2.0**32, 3e10 * sqrt(2), 2.0**45])
def test_stage_has_the_noise_that_its_loss_states_and_costs_at_most_its_share(share, sensitivity):
    budget = Budget.of(*share)
    stage = gaussian_stage(budget, sensitivity=sensitivity, numbers=4)
    mu_squared = (Fraction(sensitivity) / Fraction(stage.scale)) ** 2
    coarsest = 4 * ROUNDING / Fraction(stage.scale) ** 2
    assert stage.scale >= LEAST_SCALE
    assert mu_squared <= stage.loss.mu**2
    assert coarsest <= stage.loss.leak
    delta = stage_loss(budget)[1]
    stated = gaussian_epsilon(stage.loss.mu, delta, leak=stage.loss.leak)
    assert Fraction(stated) <= budget.epsilon
    measurement, distance = gaussian(stage.scale, size=4), sensitivity
    mu, leak = measurement.map(distance)
    assert mu <= stage.loss.mu
    assert leak <= stage.loss.leak
    epsilon, delta = priced(measurement, distance, delta=delta)
    assert budget.epsilon * (1 - Fraction(1, 10**9)) < Fraction(epsilon) <= budget.epsilon
    assert budget.delta * (1 - Fraction(1, 10**9)) < Fraction(delta) <= budget.delta


def test_stage_of_a_small_sensitivity_states_more_than_its_noise_costs():
    stage = gaussian_stage(Budget.of("1", "1e-5"), sensitivity=1.0, numbers=1)
    assert stage.scale == LEAST_SCALE
    assert stage.mu > 1 / stage.scale


@pytest.mark.parametrize("share", [("1", "0"), ("0", "1e-5")])
def test_stage_without_epsilon_or_delta_is_refused(share):
    with pytest.raises(ValueError, match="epsilon and delta"):
        gaussian_stage(Budget.of(*share), sensitivity=2.0**32, numbers=1)
