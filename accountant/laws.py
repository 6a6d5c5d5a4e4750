"""What composed losses tell at most: the law of the likelihood ratio of their hardest cases.

No mechanism with a given loss is easier to test than one known pair of laws P and Q: for pure
epsilon, randomised response; for approximate, the same unless, with probability delta, the truth
is told; for Gaussian, two unit normals mu apart. If all losses were fixed beforehand, the product
of the pairs bounds the releases together, even where one was chosen after the answers of another
(Zhu, Dong and Wang 2022, Optimal Accounting of Differential Privacy, theorem 10).

There the logarithm L of P/Q is a sum of independent parts: binomial votes, infinity with the
probability that a truth is told, and one normal. So the composition is (epsilon, delta)-private
with, exactly,
    delta(epsilon) = P(L > epsilon) - e^epsilon Q(L > epsilon).
Replacing a law by another within total variation `leak` adds (1 + e^epsilon) leak.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

from accountant.amounts import float_above, root_above
from accountant.gaussian import gaussian_epsilon
from accountant.losses import ApproximateLoss, GaussianLoss, Loss, PureLoss

_LARGEST = 100.0  # a larger epsilon or mu is read as this one, beyond all that is private
_SMALLEST_MU = 1e-4  # for an epsilon a smaller one is read as this one: see `_above`
_FAR = 40.0  # |L| beyond this is read as infinite
_MOST_VALUES = 1024  # more are thinned out, which adds less than 1e-5 of delta each time
_MOST_VOTES = 10**7  # more are read as a Gaussian that no epsilon exceeds, whose mu^2 per vote is
_PER_VOTE = Fraction("1.5708")  # times epsilon^2: pi / 2, rounded up
_ROUNDING = 5e-9  # of every delta: more than floats can take from one; see `_above`
_HALVINGS = 60  # of an interval for epsilon

_Values = dict[float, float]
"""The finitely many values of L that are likely under P, and infinity, with probabilities."""


@dataclass(frozen=True, slots=True)
class Law:
    """The law of L: some of these values, with these probabilities under P, plus a normal."""

    values: tuple[tuple[float, float], ...]
    mu: float
    leak: float

    @classmethod
    def of(cls, losses: Iterable[Loss], negligible: float) -> Law:
        """The law of losses that were all fixed before.

        A value of less probability than `negligible` is read as infinite.
        """
        return _law(tuple(losses), negligible)

    def delta(self, epsilon: float) -> float:
        """At most this delta at this epsilon, of any sign."""
        odds = math.exp(epsilon)
        parts = (
            p * (self._above(epsilon - value, 1) - math.exp(epsilon - value) * tail)
            for value, p in self.values
            for tail in (self._above(epsilon - value, -1) if value < math.inf else 0.0,)
        )
        ideal = math.fsum(max(part, 0.0) for part in parts)
        return min(ideal * (1 + _ROUNDING) + (1 + odds) * self.leak, 1.0)

    def epsilon(self, delta: float) -> float:
        """At most this epsilon, not below 0, at this delta; infinity if there is none."""
        law = replace(self, mu=_SMALLEST_MU) if 0 < self.mu < _SMALLEST_MU else self
        if law.delta(0.0) <= delta:
            return 0.0
        low, high = 0.0, law._lowest()
        if law.delta(high) > delta:
            return math.inf
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (low, middle) if law.delta(middle) <= delta else (middle, high)
        return high

    def _lowest(self) -> float:
        """About the epsilon with the smallest delta: it falls, until the leak makes it rise.

        Delta is convex in e^epsilon, so that two of three parts of an interval hold the smallest.
        """
        low, high = 0.0, 2 * _FAR
        for _ in range(_HALVINGS if self.leak else 0):
            third = (high - low) / 3
            rises = self.delta(low + third) <= self.delta(high - third)
            low, high = (low, high - third) if rises else (low + third, high)
        return high

    def false_positive_rate(self, t: float) -> float:
        """The probability under Q that L is above t."""
        return math.fsum(
            p * math.exp(-value) * self._above(t - value, -1) for value, p in self.values
        )

    def _above(self, gap: float, sign: int) -> float:
        """The probability that the normal, of mean +-mu^2/2 and variance mu^2, is above this.

        Where it matters its argument is below 8, so that it is off by 1e-14 of itself, and the
        difference that is made of two of them by 8 / mu times as much: 1e-9 at the smallest mu.
        """
        if self.mu == 0:
            return float(gap < 0)
        return math.erfc((gap / self.mu - sign * self.mu / 2) / math.sqrt(2)) / 2


def composed_epsilon(losses: Iterable[Loss], delta: Fraction) -> float:
    """The epsilon of losses that were all fixed before, at this delta, rounded up.

    Gaussians alone need no law: their mu^2 add.
    """
    return _composed_epsilon(tuple(losses), delta)


@lru_cache(maxsize=4096)
def _composed_epsilon(losses: tuple[Loss, ...], delta: Fraction) -> float:
    gaussian = [loss for loss in losses if isinstance(loss, GaussianLoss)]
    if len(gaussian) == len(losses):
        mu = root_above(sum((loss.count * loss.mu**2 for loss in gaussian), Fraction(0)))
        leak = sum((loss.count * loss.leak for loss in gaussian), Fraction(0))
        return gaussian_epsilon(mu, delta, leak)
    if all(isinstance(loss, PureLoss) for loss in losses) and delta == 0:
        pure = (loss.count * loss.epsilon for loss in losses if isinstance(loss, PureLoss))
        return float_above(sum(pure, Fraction(0)))
    below = float(delta) * (1 - 1e-15)
    return Law.of(losses, negligible=below * 1e-10).epsilon(below)


@lru_cache(maxsize=4096)
def _law(losses: tuple[Loss, ...], negligible: float) -> Law:
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
    told = -math.expm1(math.fsum(logs_untold))
    values: _Values = {0.0: 1.0 - told, math.inf: told}
    for epsilon, count in sorted(counts.items()):
        values = _composed(values, _votes(epsilon, count, negligible), negligible)
    return Law(
        values=tuple((value, p) for value, p in values.items() if p > 0),
        mu=float(_capped(root_above(mu_squared))),
        leak=float(_capped(leak)),
    )


def _capped(amount: Fraction) -> Fraction:
    """The smallest float at least the amount, but at most `_LARGEST`."""
    return Fraction(min(float_above(amount), _LARGEST))


def _votes(epsilon: float, count: int, negligible: float) -> _Values:
    """L of `count` randomised responses, from the most likely number of true ones outwards.

    What is too unlikely to be counted is read as infinite.
    """
    odds = math.exp(epsilon)
    mode = min(math.floor((count + 1) * odds / (1 + odds)), count)
    weights, weight = {mode: 1.0}, 1.0
    for true in range(mode, count):
        weight *= (count - true) / (true + 1) * odds
        if weight < negligible:
            break
        weights[true + 1] = weight
    weight = 1.0
    for true in range(mode, 0, -1):
        weight *= true / (count - true + 1) / odds
        if weight < negligible:
            break
        weights[true - 1] = weight
    total = math.fsum(weights.values())
    left_out = count + 1 - len(weights)  # each of less weight than negligible
    votes = {epsilon * (2 * true - count): weight / total for true, weight in weights.items()}
    return {**votes, math.inf: left_out * negligible}


def _composed(first: _Values, second: _Values, negligible: float) -> _Values:
    """The law of the sum of two independent parts."""
    values: _Values = defaultdict(float)
    for value, p in first.items():
        for other, share in second.items():
            values[value + other] += p * share
    return _thinned(values, negligible)


def _thinned(values: _Values, negligible: float) -> _Values:
    """A law with fewer values that is no harder to tell apart.

    A value is split between its neighbours on a grid so that its probability under P and under Q
    stays what it was. To forget which of the two it was gives the old law back.
    """
    likely = {value: p for value, p in values.items() if abs(value) <= _FAR and p >= negligible}
    thin: _Values = likely
    if len(likely) > _MOST_VALUES:
        thin = defaultdict(float)
        step = _step(likely)
        for value, p in likely.items():
            cell = math.floor(value / step)
            up = math.expm1(value - cell * step)
            share = up / (up - math.expm1(value - (cell + 1) * step))
            thin[cell * step] += p * (1 - share)
            thin[(cell + 1) * step] += p * share
    thin[math.inf] = math.fsum(p for value, p in values.items() if value not in likely)
    return thin


def _step(values: _Values) -> float:
    """The width of `_MOST_VALUES` cells, or less where many of them would be empty."""
    step = (max(values) - min(values)) / _MOST_VALUES
    for _ in range(10):  # a thousandth of it is fine enough
        if len({math.floor(2 * value / step) for value in values}) > _MOST_VALUES:
            break
        step /= 2
    return step
