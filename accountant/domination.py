"""The Gaussian that dominates losses: the smallest mu whose tests are never worse than theirs.

A test says "P" where the logarithm L of P/Q is above some t; a and b are its false-positive and
true-positive rates. Both trade-off functions, that of the law and G_mu(a) = Phi(Phi^-1(a) + mu),
are concave in a, and delta(t) = max over tests of b - e^t a. As either table can be P, the pair is
symmetric and t >= 0 says all (Dong, Roth and Su 2022, corollary 2.13).

Finitely many tests t_1 < t_2 < ... < t_n are enough, because delta is convex in e^t:

- Domination. Every test lies below the tangents b = delta(t_i) + e^t_i a. For t between t_i and
  t_i+1, b - e^t a is thus at most what it is where these two cross. If that crossing is not above
  G_mu, then delta(t) <= delta_mu(t). So mu is the largest Phi^-1(b) - Phi^-1(a) at a crossing.
  From t_n on, delta(t) <= delta(t_n), which is zero or told apart.
- Looseness. The largest G_mu(a) - b at one a is the largest delta_mu(t) - delta(t) at one t: each
  trade-off function is the lowest of its tangents. In e^t, delta_mu lies below its chord from t_i
  to t_i+1 and delta above both lines b_i - e^t a_i; the gap is largest where these lines cross.

Where L has finitely many values, they are the t: tangents cross in the kinks, and nothing is
lost. Where a normal is added, the gap that bounds too much is halved until little is lost.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import pairwise
from statistics import NormalDist
from typing import NamedTuple

from accountant.amounts import float_below
from accountant.laws import Law

UNLIKELY = Fraction(1, 10**18)  # a probability that no mu has to cover beside a normal

_TESTS = 72  # to begin with, where a normal is added
_HALVINGS = 300  # of gaps between them
_NARROW = 1e-3  # of mu: gaps in t below are not halved, so that floats can tell their ends
_TIGHT = 5e-4  # of mu: so much may be lost
_CLOSE = 1e-4  # of a looseness
_ROUNDING = 2e-9  # of a mu and of a looseness: more than floats can take from one
_STANDARD = NormalDist()


class Threshold(NamedTuple):
    """The test L > t, with its rates."""

    t: float
    false: float
    true: float


def dominating_mu(law: Law) -> tuple[float, float]:
    """The mu that dominates a law where nothing is told and nothing leaks; and the looseness.

    Both rounded up. What falls to `UNLIKELY` is left out if the law has a normal.
    """
    spare = float_below(UNLIKELY) if law.mu else 0.0
    if law.epsilon(spare) == math.inf:
        return math.inf, 1.0
    tests = list(_tests(law))

    def mu_at(false: float, true: float) -> float:
        if true - spare <= false:
            return 0.0
        if true - spare >= 1 or false <= 0:
            return math.inf
        return _STANDARD.inv_cdf(true - spare) - _STANDARD.inv_cdf(false)

    mu, tests = _largest(
        law,
        tests,
        at=lambda test: mu_at(test.false, test.true),
        between=lambda low, high: mu_at(*_crossing(law, low, high)),
        enough=lambda mu: mu * (1 + _TIGHT),
    )
    mu = mu * (1 + _ROUNDING) + _ROUNDING if mu else 0.0
    if not 0 < mu < math.inf:
        return mu, float(mu > 0)
    return mu, looseness(law, mu, tests)


def looseness(law: Law, mu: float, tests: list[Threshold] | None = None) -> float:
    """The largest difference between the true-positive rates of mu and of the law, rounded up."""
    tests = tests or list(_tests(law))

    def at(test: Threshold) -> float:
        return gaussian_delta(mu, test.t) - (test.true - math.exp(test.t) * test.false)

    def between(low: Threshold, high: Threshold) -> float:
        if law.mu == 0:  # the lines cross at an end
            return max(at(low), at(high))
        start, end = math.exp(low.t), math.exp(high.t)
        fewer = low.false - high.false
        odds = min(max((low.true - high.true) / fewer, start), end) if fewer > 0 else end
        share = (odds - start) / (end - start)
        chord = gaussian_delta(mu, low.t) * (1 - share) + gaussian_delta(mu, high.t) * share
        return max(chord - (low.true - odds * low.false), at(low), at(high))

    largest, tests = _largest(law, tests, at, between, enough=lambda gap: gap + _CLOSE)
    return min(max(largest, gaussian_delta(mu, tests[-1].t)) + _ROUNDING, 1.0)


def gaussian_delta(mu: float, t: float) -> float:
    """The delta of mu-GDP, in plain floats."""
    step, half = t / (mu * math.sqrt(2)), mu / math.sqrt(8)
    return (math.erfc(step - half) - math.exp(t) * math.erfc(step + half)) / 2


def _tests(law: Law) -> Iterator[Threshold]:
    """From t = 0 to where delta is zero, or `UNLIKELY` if there is a normal."""
    if law.mu:
        end = law.epsilon(float_below(UNLIKELY))
        yield from (_test(law, end * number / _TESTS) for number in range(_TESTS + 1))
        return
    found, false, true = [], 0.0, 0.0
    for value, p in sorted(law.values, reverse=True):
        if value <= 0:
            break
        found.append(Threshold(value, false, true))
        false, true = false + p * math.exp(-value), true + p
    yield Threshold(0.0, false, true)
    yield from reversed(found)


def _test(law: Law, t: float) -> Threshold:
    return Threshold(t, *law.rates(t))


def _crossing(law: Law, low: Threshold, high: Threshold) -> tuple[float, float]:
    """Where the tangents at two tests cross."""
    if law.mu == 0:
        return low.false, low.true
    fewer = low.false - high.false
    height = (low.true - high.true) - math.exp(low.t) * fewer
    more = height / (math.exp(low.t) * math.expm1(high.t - low.t))
    more = min(max(more, 0.0), fewer)
    return high.false + more, high.true + math.exp(high.t) * more


def _largest(
    law: Law,
    tests: list[Threshold],
    at: Callable[[Threshold], float],
    between: Callable[[Threshold, Threshold], float],
    enough: Callable[[float], float],
) -> tuple[float, list[Threshold]]:
    """At least the largest of what is reached at tests, from what bounds it between them."""
    reached = max(at(test) for test in tests)
    gaps = [(-between(low, high), low, high) for low, high in pairwise(tests)]
    heapq.heapify(gaps)
    for _ in range(_HALVINGS if law.mu and gaps else 0):
        bound, low, high = gaps[0]
        if -bound <= enough(reached) or high.t - low.t < _NARROW * law.mu:
            break
        middle = _test(law, (low.t + high.t) / 2)
        reached = max(reached, at(middle))
        heapq.heapreplace(gaps, (-between(low, middle), low, middle))
        heapq.heappush(gaps, (-between(middle, high), middle, high))
    ends = {test for _, *pair in gaps for test in pair} or set(tests)
    return max([reached, *(-bound for bound, *_ in gaps)]), sorted(ends)
