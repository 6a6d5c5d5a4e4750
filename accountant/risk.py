"""What privacy losses mean: how well an attacker can tell two candidate records apart.

The attacker knows every row but one, and two candidates for that one: two laws P and Q of all that
is released. No mechanism with a given loss is easier to test than one known pair of laws: for pure
epsilon, randomised response; for approximate, the same unless, with probability delta, the truth
is told; for Gaussian, two unit normals mu apart. If all losses were fixed beforehand, the product
of the pairs bounds the releases together, even where one was chosen after the answers of another
(Zhu, Dong and Wang 2022, Optimal Accounting of Differential Privacy, theorem 10).

There the logarithm L of P/Q is a sum of independent parts: binomial votes, infinity with the
probability that a truth is told, and one normal. By Neyman and Pearson the true-positive rate
(under P) of a test with false-positive rate a (under Q) is at most
    P(L > t) + e^t (a - Q(L > t)),    for every t, and equality is reached where Q(L > t) = a.
So a t that is slightly off may overstate the risk, but never understates it.

Replacing a law by another within total variation `leak` moves both rates of a test by at most
`leak`: leaks add to the false-positive rate before the bound and to the true-positive rate after.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from typing import Literal, NamedTuple

from accountant.amounts import float_above, root_above
from accountant.facts import Fact
from accountant.losses import ApproximateLoss, GaussianLoss, Loss, PureLoss
from accountant.specs import Budget

FALSE_POSITIVE_RATES = (0.001, 0.01, 0.1)

_LARGEST = 100.0  # a larger epsilon or mu is read as this one: the risk is 1 - e^-100 or more
_FAR = 40.0  # |L| beyond this is read as infinite, which adds at most e^-40 / a to a rate
_NEGLIGIBLE = 1e-13  # a value of L of less probability is read as infinite
_MOST_VALUES = 1024  # more are thinned out, which adds less than 1e-5 of the risk each time
_MOST_VOTES = 10**7  # more are read as a Gaussian that no epsilon exceeds, whose mu^2 per vote is
_PER_VOTE = Fraction("1.5708")  # times epsilon^2: pi / 2, rounded up
_HALVINGS = 40  # of an interval for t that is shorter than 50
_ROUNDING = 1e-10  # added to every answer: more than rounding can take from one

_Law = dict[float, float]
"""The finitely many values of L that are likely under P, and infinity, with probabilities."""


class TruePositiveRate(Fact):
    """At this false-positive rate, no attacker has a true-positive rate above `at_most`."""

    false_positive_rate: float
    at_most: float


class Risk(Fact):
    """What an attacker who tells two candidate records apart can gain. Rounded up."""

    advantage: float
    """The largest difference between true-positive and false-positive rate."""
    true_positive_rates: tuple[TruePositiveRate, ...]
    basis: Literal["losses", "budget"]
    """Composed from the losses themselves, or bounded by epsilon and delta alone."""


def risk_of_losses(losses: Iterable[Loss]) -> Risk:
    """The risk of one plan, whose losses were all fixed before it ran."""
    return _risk(tuple(losses), "losses")


def risk_of_budget(budget: Budget) -> Risk:
    """The most that releases of this total can mean, even if each was chosen after the last."""
    return _risk((ApproximateLoss(epsilon=budget.epsilon, delta=budget.delta),), "budget")


@lru_cache(maxsize=4096)
def _risk(losses: tuple[Loss, ...], basis: Literal["losses", "budget"]) -> Risk:
    advantage, *rates = _bounds(_profile(losses))
    return Risk(
        advantage=advantage,
        true_positive_rates=tuple(
            TruePositiveRate(false_positive_rate=rate, at_most=at_most)
            for rate, at_most in zip(FALSE_POSITIVE_RATES, rates, strict=True)
        ),
        basis=basis,
    )


class _Profile(NamedTuple):
    """Losses as far as they matter: floats rounded up, equal epsilons counted together."""

    pure: tuple[tuple[float, int], ...]  # epsilon and count, the smallest epsilon first
    mu: float
    truth: float  # the probability that some approximate loss tells the truth
    leak: float


def _profile(losses: tuple[Loss, ...]) -> _Profile:
    counts: dict[float, int] = defaultdict(int)
    mu_squared = leak = Fraction(0)
    logs_untold: list[float] = []  # of the probability that no truth is told
    for loss in losses:
        match loss:
            case GaussianLoss():
                mu_squared += loss.count * _capped(loss.mu) ** 2
                leak += loss.count * _capped(loss.leak)
            case PureLoss():
                counts[float(_capped(loss.epsilon))] += loss.count
            case ApproximateLoss():
                counts[float(_capped(loss.epsilon))] += loss.count
                if loss.delta:
                    delta = min(float_above(loss.delta), math.nextafter(1.0, 0.0))
                    logs_untold.append(float_above(Fraction(loss.count)) * math.log1p(-delta))
    counts.pop(0.0, None)
    for epsilon in [epsilon for epsilon, count in counts.items() if count > _MOST_VOTES]:
        mu_squared += counts.pop(epsilon) * _PER_VOTE * Fraction(epsilon) ** 2
    return _Profile(
        pure=tuple(sorted(counts.items())),
        mu=float(_capped(root_above(mu_squared))),
        truth=-math.expm1(math.fsum(logs_untold)),
        leak=float(_capped(leak)),
    )


def _capped(amount: Fraction) -> Fraction:
    """The smallest float at least the amount, but at most `_LARGEST`."""
    return Fraction(min(float_above(amount), _LARGEST))


def _bounds(profile: _Profile) -> tuple[float, ...]:
    """The advantage, then the true-positive rates."""
    if not any(profile):
        return (0.0, *FALSE_POSITIVE_RATES)
    law: _Law = {0.0: 1.0 - profile.truth, math.inf: profile.truth}
    for epsilon, count in profile.pure:
        law = _composed(law, _thinned(_votes(epsilon, count)))
    test = _Test(law, profile.mu)
    bounds = [test.bound(0.0, 0.0) + 2 * profile.leak]
    for rate in FALSE_POSITIVE_RATES:
        allowed = min(rate + profile.leak, 1.0)
        bounds.append(test.bound(test.threshold(allowed), allowed) + profile.leak)
    return tuple(min(bound + _ROUNDING, 1.0) for bound in bounds)


class _Test:
    """Rejecting Q where L > t: L is a value of the law plus the normal."""

    def __init__(self, law: _Law, mu: float) -> None:
        self._parts = [(value, p, p * math.exp(-value)) for value, p in law.items()]
        self._mu = mu

    def bound(self, t: float, rate: float) -> float:
        """At most this true-positive rate at this false-positive rate."""
        true = math.fsum(p * self._above(t - value, 1) for value, p, _ in self._parts)
        return true + math.exp(t) * (rate - self._false_positive_rate(t))

    def threshold(self, rate: float) -> float:
        """The t with about this false-positive rate."""
        low, high = -_FAR, -math.log(rate)
        for _ in range(_HALVINGS):
            t = (low + high) / 2
            low, high = (t, high) if self._false_positive_rate(t) > rate else (low, t)
        return high

    def _false_positive_rate(self, t: float) -> float:
        return math.fsum(q * self._above(t - value, -1) for value, _, q in self._parts)

    def _above(self, gap: float, sign: int) -> float:
        """The probability that the normal, of mean +-mu^2/2 and variance mu^2, is above this."""
        if self._mu == 0:
            return float(gap < 0)
        return math.erfc((gap / self._mu - sign * self._mu / 2) / math.sqrt(2)) / 2


def _votes(epsilon: float, count: int) -> _Law:
    """L of `count` randomised responses, from the most likely number of true ones outwards."""
    odds = math.exp(epsilon)
    mode = min(math.floor((count + 1) * odds / (1 + odds)), count)
    weights, weight = {mode: 1.0}, 1.0
    for true in range(mode, count):
        weight *= (count - true) / (true + 1) * odds
        if weight < _NEGLIGIBLE:
            break
        weights[true + 1] = weight
    weight = 1.0
    for true in range(mode, 0, -1):
        weight *= true / (count - true + 1) / odds
        if weight < _NEGLIGIBLE:
            break
        weights[true - 1] = weight
    total = math.fsum(weights.values())
    return {epsilon * (2 * true - count): weight / total for true, weight in weights.items()}


def _composed(first: _Law, second: _Law) -> _Law:
    law: _Law = defaultdict(float)
    for value, p in first.items():
        for other, share in second.items():
            law[value + other] += p * share
    return _thinned(law)


def _thinned(law: _Law) -> _Law:
    """A law with fewer values that is no harder to tell apart.

    A value is split between its neighbours on a grid so that its probability under P and under Q
    stays what it was. To forget which of the two it was gives the old law back.
    """
    likely = {value: p for value, p in law.items() if abs(value) <= _FAR and p >= _NEGLIGIBLE}
    thin: _Law = likely
    if len(likely) > _MOST_VALUES:
        thin = defaultdict(float)
        step = _step(likely)
        for value, p in likely.items():
            cell = math.floor(value / step)
            up = math.expm1(value - cell * step)
            share = up / (up - math.expm1(value - (cell + 1) * step))
            thin[cell * step] += p * (1 - share)
            thin[(cell + 1) * step] += p * share
    thin[math.inf] = math.fsum(p for value, p in law.items() if value not in likely)
    return thin


def _step(law: _Law) -> float:
    """The width of `_MOST_VALUES` cells, or less where many of them would be empty."""
    step = (max(law) - min(law)) / _MOST_VALUES
    for _ in range(10):  # a thousandth of it is fine enough
        if len({math.floor(2 * value / step) for value in law}) > _MOST_VALUES:
            break
        step /= 2
    return step
