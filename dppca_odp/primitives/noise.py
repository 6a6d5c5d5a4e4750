"""The Gaussian stage: integer Gaussians from OpenDP, accounted as Gaussian differential privacy.

Why one room holds both the noise and its loss: a zCDP bound rho of a *Gaussian* is exactly
mu-GDP with mu = sqrt(2 rho); of other mechanisms it is not (randomised response is a
counterexample). So these constructors build their own Gaussians and accept no measurement; what
they give states mu as its output measure, and is priced as (epsilon, delta) only afterwards.

Why a least scale: OpenDP's noise is a Gaussian on the integers. At scale s it lies within
0.0202/s^2 in total variation of the Gaussian rounded to integers (the leading term of the
midpoint rule, (1/48) E|Z^2 - 1| / s^2), and a rounded Gaussian is exactly mu-GDP, being
post-processing of one. At small scales it is not: raw counts at (8, 1e-6) leak 1.6 times the
delta. From s = 2^30 on the distance is below 2e-20 for each number; it is not ignored but stated,
as ``leak``: if every answer is within ``leak`` of a mu-GDP one, then
delta = delta_GDP(mu, epsilon) + (1 + e^epsilon) leak.

Source: Dong, Roth and Su (2022), Gaussian differential privacy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import opendp.prelude as dp
from opendp.mod import Domain, Measurement, Metric, Transformation

from accountant.amounts import float_above, float_below, root_above, root_below
from accountant.errors import InvalidAmount
from accountant.gaussian import gaussian_epsilon, gaussian_mu
from accountant.losses import GaussianLoss
from accountant.specs import Budget
from dppca_odp.spaces import (
    approximate,
    gaussian_privacy,
    integers_domain,
    integers_metric,
    is_measured_in,
    to_then,
)

#: The least noise scale, in integer units.
LEAST_SCALE = 2**30
#: Calibrate this much below a share, so that float sums of stages stay under the exact budget.
MARGIN = Fraction(1, 10**12)
#: Total variation per number between integer and rounded Gaussian, times scale squared.
ROUNDING = Fraction(21, 1000)


def lowered(amount: Fraction) -> float:
    """The float a little below an exact amount."""
    return float_below(amount * (1 - MARGIN))


def stage_loss(share: Budget) -> tuple[float, float]:
    """(epsilon, delta) as floats, a little below an exact share: what a stage may cost."""
    return lowered(share.epsilon), lowered(share.delta)


class GaussianStage(NamedTuple):
    """How a Gaussian stage runs: its loss, and its noise scale in integer units."""

    loss: GaussianLoss
    scale: float

    @property
    def mu(self) -> float:
        """The loss as a number."""
        return float(self.loss.mu)


class Link(NamedTuple):
    """One question of a chain."""

    share: Fraction
    """Of the chain's mu squared."""
    numbers: int
    """How many integers answer it."""


class Noisy(NamedTuple):
    """Sums with Gaussian noise, and its scale, in integer units."""

    sums: list[int]
    scale: float


def gaussian_stage(
    share: Budget,
    *,
    sensitivity: float,
    numbers: int,
    least_sensitivity: float | None = None,
) -> GaussianStage:
    """The Gaussian stage that a share pays for, of so many integers.

    ``sensitivity`` is in integer units; it decides how fine the noise is, and with it the leak.
    Where it may turn out smaller, ``least_sensitivity`` is what the leak is stated for, so that the
    loss is the same either way. The loss is the most that the share pays for; the noise is
    calibrated a little below it, so that the map of the finished measurement, rounded up, stays
    under it.

    Raises:
        ValueError: a share without epsilon or delta, or one that integers this coarse cannot keep.
    """
    least = least_sensitivity or sensitivity
    loss = _most(share, lambda mu: _leak(numbers, _scale(least, lowered(Fraction(mu)))))
    scale = _scale(sensitivity, lowered(loss.mu))
    noise = dp.m.make_gaussian(integers_domain(1), integers_metric(), scale=scale)
    if _mu(Fraction(noise.map(sensitivity))) > loss.mu:
        raise ValueError(
            f"a Gaussian stage must keep its share in floating point; got {share}. Ask for more."
        )
    return GaussianStage(loss, scale)


def chain_loss(share: Budget, links: Sequence[Link], *, least_sensitivity: float) -> GaussianLoss:
    """The loss of the chain that a share pays for: all of its mu, and the leak of all its noises.

    Raises:
        ValueError: as ``gaussian_stage``.
    """
    return _most(share, lambda mu: _chain_leak(links, Fraction(mu), least_sensitivity))


def _most(share: Budget, leak_at: Callable[[float], Fraction]) -> GaussianLoss:
    """The largest mu that a share pays for beside the leak that it has; a leak grows with mu."""
    epsilon, delta = stage_loss(share)
    if not (epsilon > 0 and delta > 0):
        raise ValueError(
            f"a Gaussian stage must have epsilon and delta; got {share}. Give the plan both."
        )
    try:
        mu = gaussian_mu(epsilon, delta, leak=leak_at(gaussian_mu(epsilon, delta)))
        return GaussianLoss(mu=Fraction(mu), leak=leak_at(mu))
    except (InvalidAmount, ArithmeticError):
        raise ValueError(
            "a Gaussian stage must have a share that noise on 64-bit integers can keep; got "
            f"{share}. Ask for less epsilon or more delta."
        ) from None


def gaussian_to_approximate(measurement: Measurement, *, delta: float) -> Measurement:
    """The same measurement, with Gaussian privacy read as (epsilon, delta) at a public delta.

    Its map is the least epsilon at which mu-GDP, up to the leak, keeps the delta; (0, 0) at no
    loss. Corollary 2.13 of Dong, Roth and Su (2022).

    Raises:
        ValueError: another output measure, or a delta outside (0, 1).

    >>> from dppca_odp.spaces import integers_domain, integers_metric
    >>> m = make_gaussian(integers_domain(2), integers_metric(), scale=2.0**40)
    >>> round(gaussian_to_approximate(m, delta=1e-6).map(2.0**39)[0], 6)
    2.254085
    """
    if not is_measured_in(measurement, gaussian_privacy()):
        raise ValueError(
            f"measurement must be of Gaussian differential privacy; got "
            f"{measurement.output_measure}. Take one of make_gaussian."
        )
    if not 0 < delta < 1:
        raise ValueError(f"delta must be in (0, 1); got {delta}. Use a small one such as 1e-6.")

    def price(d_in: Any) -> tuple[float, float]:
        mu, leak = measurement.map(d_in)
        return (gaussian_epsilon(mu, delta, leak=leak), delta) if mu else (0.0, 0.0)

    return dp.m.make_user_measurement(
        measurement.input_domain,
        measurement.input_metric,
        approximate(),
        lambda data: measurement(data),
        price,
    )


def make_gaussian(input_domain: Domain, input_metric: Metric, *, scale: float) -> Measurement:
    """A vector of integers plus an integer Gaussian.

    ==================  ==================================================
    input domain        vectors of 64-bit integers, size public
    input metric        Euclidean distance
    output              vector of integers, same size
    output measure      Gaussian differential privacy
    privacy map         d -> (d/scale rounded up, 0.021 size/scale^2); 0 -> (0, 0)
    cost                one OpenDP draw a number
    ==================  ==================================================

    Proof: the module's text; OpenDP proves rho = d^2 / (2 scale^2), and mu = sqrt(2 rho).

    Source: eigenvalues document, section 2 (Gaussian-DP calibration).

    Raises:
        ValueError: a scale below 2^30, a domain of unknown size.

    >>> from dppca_odp.spaces import integers_domain, integers_metric
    >>> m = make_gaussian(integers_domain(2), integers_metric(), scale=2.0**40)
    >>> mu, leak = m.map(2.0**39)
    >>> float(mu), 0 < leak < 1e-25
    (0.5, True)
    """
    size = _size(input_domain)
    _check(scale)
    if input_metric != integers_metric():
        raise ValueError(
            f"input_metric must be l2_distance(T=f64); got {input_metric}. Use integers_metric()."
        )
    gaussian = dp.m.make_gaussian(input_domain, input_metric, scale=scale)
    return dp.m.make_user_measurement(
        input_domain,
        input_metric,
        gaussian_privacy(),
        lambda sums: gaussian(sums),
        lambda d_in: _loss(gaussian.map(d_in), _leak(size, scale)),
    )


AskSums = Callable[[Transformation], Noisy]


def make_gaussian_chain(
    input_domain: Domain,
    input_metric: Metric,
    *,
    d_in: int,
    loss: GaussianLoss,
    links: Sequence[Link],
    least_sensitivity: float,
    run: Callable[[AskSums], Any],
) -> Measurement:
    """What a program makes of noisy integer sums that it asks for, each chosen from those before.

    ==================  ==================================================
    input domain        any
    input metric        any whose distances are integers
    output              that of ``run``
    output measure      Gaussian differential privacy
    privacy map         1..d_in -> at most the loss, and its mu to 4e-12; 0 -> (0, 0);
                        more than d_in: error
    cost                that of the sums
    ==================  ==================================================

    ``run`` gets a function that takes a stable integer sum and answers it with noise: at scale
    sensitivity / (mu sqrt(share)) of the next link, where the sensitivity is the sum's own at
    ``d_in``, or ``least_sensitivity`` if that is more (it decides how coarse the noise can be,
    and so the leak). Links that are left at the end are not spent.

    Proof: OpenDP's adaptive composition adds the zCDP bounds of the links and refuses a sum that
    is more sensitive than its scale allows. Every part is a Gaussian of our own on a stable
    integer sum, so the whole is a Gaussian with mu = sqrt(2 rho), also when sums are chosen from
    earlier answers: shares of mu squared add to at most one. The rest is post-processing.
    Source: Dong, Roth and Su (2022), Corollary 3.3.

    Raises:
        ValueError: no links, or shares that are not positive and at most one together; a loss
            with less leak than the noises have; inside ``run``, a sum without a link, or of
            another number of integers.

    >>> from dppca_odp.spaces import matrix_domain, rows_metric
    >>> m = make_gaussian_chain(matrix_domain(9, 1), rows_metric(), d_in=1,
    ...     loss=GaussianLoss(mu=Fraction(1, 2), leak=Fraction(1, 10**12)),
    ...     links=[Link(Fraction(1, 3), 5), Link(Fraction(2, 3), 1)], least_sensitivity=2.0**32,
    ...     run=lambda ask: None)
    >>> round(float(m.map(1)[0]), 9), m.map(0) == (0, 0)
    (0.5, True)
    """
    if not links or min(at.share for at in links) <= 0 or sum(at.share for at in links) > 1:
        raise ValueError(
            "links must have shares above 0 that come to at most 1; got "
            f"{', '.join(str(link.share) for link in links) or 'none'}. Divide mu squared."
        )
    leak = _chain_leak(links, loss.mu, least_sensitivity)
    if leak > loss.leak:
        raise ValueError(
            f"loss must hold the leak of all noises, {float(leak):.3g}; got {loss}. Take it from "
            "chain_loss."
        )
    mus = _parts(links, loss.mu)
    composition = dp.c.make_adaptive_composition(
        input_domain,
        input_metric,
        dp.zero_concentrated_divergence(),
        d_in,
        [float_above(Fraction(mu) ** 2 / 2) for mu in mus],
    )

    def scale(mu: float, sensitivity: float) -> float:
        return _scale(max(sensitivity, least_sensitivity), lowered(Fraction(mu)))

    def take_links(data: Any) -> Any:
        queryable, free = composition(data), iter(zip(links, mus, strict=True))

        def ask(total: Transformation) -> Noisy:
            link, mu = next(free, (None, 0.0))
            if link is None or total.output_domain != integers_domain(link.numbers):
                raise ValueError(
                    f"a sum must have a link for as many integers; got {total.output_domain}. "
                    "Plan one for it."
                )
            at = scale(mu, total.map(d_in))
            noise = dp.m.make_gaussian(total.output_domain, total.output_metric, scale=at)
            return Noisy(queryable(total >> noise), at)

        return run(ask)

    return dp.m.make_user_measurement(
        input_domain,
        input_metric,
        gaussian_privacy(),
        take_links,
        lambda distance: _loss(composition.map(distance) if distance else 0.0, leak),
    )


def _loss(rho: float, leak: Fraction) -> tuple[Fraction, Fraction]:
    """(mu, leak) of our own Gaussians with joint zCDP bound ``rho``; nothing at no distance."""
    return (_mu(Fraction(rho)), leak) if rho else (Fraction(0), Fraction(0))


def _mu(rho: Fraction) -> Fraction:
    return root_above(2 * rho)


def _leak(numbers: int, scale: float) -> Fraction:
    return numbers * ROUNDING / Fraction(scale) ** 2


def _parts(links: Sequence[Link], mu: Fraction) -> list[float]:
    """The mu of each link, a little below its share."""
    return [lowered(root_below(Fraction(link.share)) * mu) for link in links]


def _chain_leak(links: Sequence[Link], mu: Fraction, least_sensitivity: float) -> Fraction:
    """The leak of all noises, each at the coarsest that it can be."""
    leak = Fraction(0)
    for link, part in zip(links, _parts(links, mu), strict=True):
        leak += _leak(link.numbers, _scale(least_sensitivity, lowered(Fraction(part))))
    return leak


def _scale(sensitivity: float, mu: float) -> float:
    scale = max(float_above(Fraction(sensitivity) / Fraction(mu)), float(LEAST_SCALE))
    if not math.isfinite(scale):
        raise OverflowError
    return scale


def _check(scale: float) -> None:
    if not LEAST_SCALE <= scale < math.inf:
        raise ValueError(
            f"scale must be at least 2^30 integer units; got {scale}. Count in smaller units."
        )


def _size(input_domain: Domain) -> int:
    size = getattr(input_domain, "size", None)
    if size is None or input_domain != integers_domain(size):
        raise ValueError(
            f"input_domain must be vectors of i64 of a fixed size; got {input_domain}. "
            "Use integers_domain."
        )
    return int(size)


then_gaussian: Any = to_then(make_gaussian)
then_gaussian_chain: Any = to_then(make_gaussian_chain)
