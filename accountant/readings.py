"""A total, read: what losses, a budget or a Gaussian budget mean, as numbers.

No number says all. The curve tells an epsilon for each delta. The mu of the Gaussian that
dominates says it in one number, as loosely as is told beside it, but for what no mu covers. The
risk tells what an attacker gains. All are rounded to the safe side.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from typing import Literal, NamedTuple

from pydantic import ConfigDict

from accountant.amounts import Amount, float_above, float_below, in_short, root_above
from accountant.domination import UNLIKELY, dominating_mu
from accountant.facts import Fact
from accountant.gaussian import gaussian_epsilon, lifted_mu
from accountant.laws import NEGLIGIBLE, Law, composed_epsilon
from accountant.losses import ApproximateLoss, GaussianLoss, Loss, PureLoss
from accountant.risk import Risk, risk_of, risk_of_budget
from accountant.rules import hardest
from accountant.specs import Budget, GaussianBudget

DELTAS = tuple(Fraction(1, 10**places) for places in range(3, 13))

_FARTHEST = 700.0  # a larger epsilon has at most this delta
_LEAST_MU, _LARGEST_MU = 1e-4, 7.0  # beyond, floats cannot tell a law: there mu squared adds
_LEAST_TOLD = 1e-15  # more that is read as infinite is not left to the probability that all is told
_SMALL = Fraction(1, 100)  # where probabilities nearly add
_MOST_VALUES = 400  # of L beside a normal: enough to find mu to the fourth digit
_ROUNDING = 1e-12  # more than the formula of one (epsilon, delta) is off


class Point(Fact):
    """No result is likelier by more than e^epsilon, but for this delta."""

    model_config = ConfigDict(ser_json_inf_nan="strings")

    delta: Amount
    epsilon: float
    """Infinity if there is none."""


class Reading(Fact):
    """What a total means."""

    model_config = ConfigDict(ser_json_inf_nan="strings")

    basis: Literal["losses", "budget", "gaussian"]
    losses: tuple[Loss, ...]
    """The total itself, or, but for what a Gaussian budget sets aside, its hardest case."""
    curve: tuple[Point, ...]
    """By falling delta."""
    mu: float
    """Of the Gaussian that dominates: delta(epsilon) is at most delta_mu(epsilon) + uncovered
    + (1 + e^epsilon) leak, for every epsilon."""
    uncovered: Amount
    """The probability that all may be told."""
    leak: Amount
    """The total variation between each law and one that the mu covers."""
    looseness: float
    """The largest difference, at one false-positive rate, between the true-positive rate that the
    mu allows and the one that the losses allow."""
    risk: Risk

    def delta(self, epsilon: float) -> float:
        """The delta at this epsilon, of any sign."""
        return Law.of(self.losses, NEGLIGIBLE).told_apart().delta(min(epsilon, _FARTHEST))


def reading_of_losses(losses: Iterable[Loss], deltas: Iterable[Fraction] = ()) -> Reading:
    """Of losses that were all fixed before. `deltas`: more points of the curve."""
    known = tuple(losses)
    return _reading(known, _falling(deltas), "losses")


def reading_of_budget(budget: Budget) -> Reading:
    """Of all releases of this total, even if each was chosen after the last."""
    return _reading(hardest(budget), _falling([budget.delta]), "budget")


def reading_of_gaussian(total: GaussianBudget, deltas: Iterable[Fraction] = ()) -> Reading:
    """Of all releases of this total, even if each was chosen after the last."""
    return _reading_of_gaussian(total, _falling(deltas))


@lru_cache(maxsize=1024)
def _reading_of_gaussian(total: GaussianBudget, deltas: tuple[Fraction, ...]) -> Reading:
    """A mu, a probability that all is told and a leak: in closed form."""
    points = (
        Point(
            delta=delta,
            epsilon=gaussian_epsilon(total.mu_above, delta - total.delta, total.leak)
            if delta > total.delta
            else math.inf,
        )
        for delta in deltas
    )
    return Reading(
        basis="gaussian",
        losses=hardest(total),
        curve=tuple(points),
        mu=float_above(total.mu_above),
        uncovered=total.delta,
        leak=total.leak,
        looseness=0.0,
        risk=risk_of_budget(total),
    )


@lru_cache(maxsize=1024)
def _reading(
    losses: tuple[Loss, ...], deltas: tuple[Fraction, ...], basis: Literal["losses", "budget"]
) -> Reading:
    dominating = _dominating(losses)
    return Reading(
        basis=basis,
        losses=losses,
        curve=_curve(losses, deltas),
        **dominating._asdict(),
        risk=risk_of(losses, basis),
    )


def _falling(deltas: Iterable[Fraction]) -> tuple[Fraction, ...]:
    return tuple(sorted({*DELTAS, *deltas}, reverse=True))


def _curve(losses: tuple[Loss, ...], deltas: tuple[Fraction, ...]) -> tuple[Point, ...]:
    """By falling delta."""
    match losses:
        case (ApproximateLoss(count=1) as loss,):
            epsilons = [_epsilon_of_approximate(loss, delta) for delta in deltas]
        case _ if all(isinstance(loss, GaussianLoss) for loss in losses):
            epsilons = [composed_epsilon(losses, delta) for delta in deltas]
        case _:
            law = Law.of(losses, NEGLIGIBLE)
            composed = law.epsilons(float_below(delta) for delta in deltas)
            added = [_added(losses, delta) for delta in deltas]
            epsilons = [min(pair) for pair in zip(composed, added, strict=True)]
    return tuple(
        Point(delta=delta, epsilon=epsilon) for delta, epsilon in zip(deltas, epsilons, strict=True)
    )


def _added(losses: tuple[Loss, ...], delta: Fraction) -> float:
    """The sum of epsilons, where the deltas add to no more than this; infinity otherwise."""
    epsilon = needed = Fraction(0)
    for loss in losses:
        if isinstance(loss, GaussianLoss):
            return math.inf
        epsilon += loss.count * loss.epsilon
        needed += loss.count * loss.delta if isinstance(loss, ApproximateLoss) else 0
    return float_above(epsilon) if needed <= delta else math.inf


def _epsilon_of_approximate(loss: ApproximateLoss, delta: Fraction) -> float:
    """Unless all is told, the law of one vote: e^epsilon falls as delta grows, in one line."""
    if delta < loss.delta:
        return math.inf
    epsilon = float_above(loss.epsilon)
    if delta == loss.delta:
        return epsilon
    less = float_below((delta - loss.delta) / (1 - loss.delta)) * (1 + math.exp(-epsilon))
    if less >= 1:
        return 0.0
    less = max(less - 1e-15, 0.0)  # more than its products are off: a logarithm magnifies that
    return max(epsilon + math.log1p(-less) + _ROUNDING * max(epsilon, 1.0), 0.0)


class _Dominating(NamedTuple):
    mu: float
    uncovered: Fraction
    leak: Fraction
    looseness: float


def _dominating(losses: tuple[Loss, ...]) -> _Dominating:
    """The smallest mu of which `domination` can tell; no more than where mu squared adds."""
    gaussian = [loss for loss in losses if isinstance(loss, GaussianLoss)]
    others = [loss for loss in losses if not isinstance(loss, GaussianLoss) and loss.epsilon]
    leak = in_short(sum((loss.count * loss.leak for loss in gaussian), Fraction(0)), up=True)
    own = sum((loss.count * loss.mu**2 for loss in gaussian), Fraction(0))
    lifted = [(loss.count, lifted_mu(loss.epsilon)) for loss in others]
    told = _told(losses)
    if any(math.isinf(mu) for _, mu in lifted):
        return _Dominating(math.inf, told, leak, 1.0)
    added = own + sum((count * Fraction(mu) ** 2 for count, mu in lifted), Fraction(0))
    most, least = float_above(root_above(added)), float_below(root_above(own))
    if not others:
        return _Dominating(most, told, leak, 0.0)
    between = min(math.erf((most - least) / math.sqrt(8)) + _ROUNDING, 1.0)  # of two Gaussians
    law = Law.of([_untold(loss) for loss in losses], NEGLIGIBLE)
    if not _LEAST_MU <= most <= _LARGEST_MU or law.told > _LEAST_TOLD:
        return _Dominating(most, told, leak, between)
    thin, more = law.untold().thinned(_MOST_VALUES)
    found, gap = dominating_mu(thin)
    gap = min(gap + more, 1.0)
    if found >= most:
        return _Dominating(most, told, leak, min(gap, between))
    beside = Fraction(law.told) + (UNLIKELY if law.mu else 0)
    return _Dominating(found, in_short(told + beside, up=True), leak, gap)


def _untold(loss: Loss) -> Loss:
    match loss:
        case GaussianLoss():
            return loss.model_copy(update={"leak": Fraction(0)})
        case ApproximateLoss():
            return PureLoss(epsilon=loss.epsilon, count=loss.count)
        case _:
            return loss


def _told(losses: tuple[Loss, ...]) -> Fraction:
    """At most this probability that all is told: the sum, or, where that is large, less."""
    telling = [loss for loss in losses if isinstance(loss, ApproximateLoss)]
    added = sum((loss.count * loss.delta for loss in telling), Fraction(0))
    if added <= _SMALL:
        return in_short(added, up=True)
    alone = [loss.model_copy(update={"epsilon": Fraction(0)}) for loss in telling]
    together = Fraction(Law.of(alone, NEGLIGIBLE).told) * (1 + Fraction(_ROUNDING))
    return in_short(min(added, together, Fraction(1)), up=True)
