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
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, lru_cache, partial
from itertools import accumulate

from accountant.amounts import float_above, in_short, root_above
from accountant.gaussian import gaussian_epsilon
from accountant.losses import ApproximateLoss, GaussianLoss, Loss, PureLoss

NEGLIGIBLE = 1e-22  # a value of L of less probability can be read as infinite for any use

_LARGEST = 100.0  # a larger epsilon or mu is read as this one, beyond all that is private
_SMALLEST_MU = 1e-4  # for an epsilon a smaller one is read as this one: see `delta`
_FAR = 40.0  # |L| beyond this is read as infinite, and what is likelier than e^40 as certain
_MOST_VALUES = 1024  # more are thinned out, which adds less than 1e-5 of delta each time
_MOST_PAIRS = 8 * _MOST_VALUES  # of values: for more, both laws are put on one grid
_REACH = 20  # standard deviations of L that such a grid is made for
_BITS = 112  # of a probability on a grid: far more than a float has
_MOST_VOTES = 10**7  # more are read as a Gaussian that no epsilon exceeds, whose mu^2 per vote is
_PER_VOTE = Fraction("1.5708")  # times epsilon^2: pi / 2, rounded up
_UNDERFLOW = 1e-300  # floats below may be zero
_LEAST_DELTA = 1e-60  # beside a normal a smaller one has no epsilon: floats end there
_ROUNDING = 5e-9  # of every delta: more than floats can take from one; see `delta`
_CHORDS, _HALVINGS = 30, 60  # at most, to where a function crosses zero
_CLOSE = 1e-11  # an epsilon this much too large, or of a delta this much too small, is found

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
        """At most this delta at this epsilon, of any sign.

        Where it matters the arguments of erfc are below 6, so that it is off by 1e-14 of itself,
        and the difference of two of them by 8 / mu times as much: 1e-9 at the smallest mu.
        """
        if self.mu == 0:
            parts = [
                p * -math.expm1(epsilon - value) for value, p in self.values if value > epsilon
            ]
        else:
            width, half = self.mu * math.sqrt(2), self.mu / math.sqrt(8)
            parts = [
                p * max(math.erfc(x - half) - math.exp(gap) * math.erfc(x + half), 0.0) / 2
                for value, p in self.values
                for gap in (epsilon - value,)
                for x in (gap / width,)
            ]
        ideal = sum(parts)
        return min(ideal * (1 + _ROUNDING) + (1 + math.exp(epsilon)) * self.leak, 1.0)

    def epsilon(self, delta: float) -> float:
        """At most this epsilon, not below 0, at this delta; infinity if there is none."""
        return self.epsilons([delta])[0]

    def epsilons(self, deltas: Iterable[float]) -> list[float]:
        """The same at deltas that fall: each is looked for above the last."""
        law = self.told_apart()
        last = law._last()
        delta_at, found = cache(law.delta), list[float]()
        low, width = 0.0, last
        for delta in deltas:
            if delta_at(low) <= delta:
                found.append(low)
                continue
            start = low
            high = min(low + width, last)
            while high < last and delta_at(high) > delta:
                low, high, width = high, min(high + 2 * width, last), 2 * width
            if delta_at(high) > delta or (law.mu and delta < _LEAST_DELTA):
                found.append(math.inf)
                continue
            low = _crossing(partial(_excess, delta_at, delta), low, high)
            found.append(low)
            width = max(1.1 * (low - start), _CLOSE)
        return found

    def told_apart(self) -> Law:
        """With a mu that floats can tell from 0."""
        return replace(self, mu=_SMALLEST_MU) if 0 < self.mu < _SMALLEST_MU else self

    def _last(self) -> float:
        """About the epsilon with the smallest delta: it falls, until the leak makes it rise.

        The slope of delta in e^epsilon is that of the leak less the false-positive rate.
        """
        return max(self.threshold(self.leak), 0.0) if self.leak else 2 * _FAR

    def threshold(self, rate: float) -> float:
        """About the first t, from -40 to 80, with at most this false-positive rate, above 0."""
        low, high = -_FAR, min(-math.log(rate), 2 * _FAR)
        if self.mu == 0:
            falling = sorted(self.values, reverse=True)
            rates = accumulate(p * math.exp(-value) for value, p in falling)
            above = (value for (value, _), q in zip(falling, rates, strict=True) if q > rate)
            return next(above, low)

        excess = cache(partial(_excess, self.false_positive_rate, rate))
        middle = min(0.0, high)
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
        if excess(low) <= 0:
            return low
        return _crossing(excess, low, high) if excess(high) <= 0 else high

    @property
    def told(self) -> float:
        """The probability that L is infinite."""
        return dict(self.values).get(math.inf, 0.0)

    def rates(self, t: float) -> tuple[float, float]:
        """The probabilities under Q and under P that L is above t."""
        if self.mu == 0:
            true = sum(p for value, p in self.values if value > t)
        else:
            width, half = self.mu * math.sqrt(2), self.mu / math.sqrt(8)
            true = sum([p * math.erfc((t - v) / width - half) for v, p in self.values]) / 2
        return self.false_positive_rate(t), true

    def false_positive_rate(self, t: float) -> float:
        """The probability under Q that L is above t."""
        if self.mu == 0:
            return sum(p * math.exp(-value) for value, p in self.values if value > t)
        width, half = self.mu * math.sqrt(2), self.mu / math.sqrt(8)
        return (
            sum([p * math.exp(-v) * math.erfc((t - v) / width + half) for v, p in self.values]) / 2
        )

    def untold(self) -> Law:
        """The same, if no truth is told and nothing leaks."""
        likely = [(value, p) for value, p in self.values if value < math.inf]
        whole = math.fsum(p for _, p in likely)
        values = tuple((value, p / whole) for value, p in likely)
        return replace(self, values=values, leak=0.0)

    def thinned(self, most: int) -> tuple[Law, float]:
        """No harder to tell apart, with about so many values if the normal is as wide as a cell.

        And by how much at most its delta is larger: a value counts max(0, 1 - e^(epsilon-value)),
        which is convex in e^-value and bends in one cell, by less than a quarter of its width.
        """
        likely = {value: p for value, p in self.values if value < math.inf}
        step = (max(likely, default=0.0) - min(likely, default=0.0)) / most
        if len(likely) <= most or self.mu < step:
            return self, 0.0
        cells = _split(likely, step)
        values = [*((cell * step, p) for cell, p in sorted(cells.items())), (math.inf, self.told)]
        return replace(self, values=tuple(values)), 2 * max(cells.values()) * math.expm1(step) / 4


def composed_epsilon(losses: Iterable[Loss], delta: Fraction) -> float:
    """The epsilon of losses that were all fixed before, at this delta, rounded up.

    Gaussians alone need no law: their mu^2 add.
    """
    return _composed_epsilon(tuple(losses), delta)


@lru_cache(maxsize=4096)
def _composed_epsilon(losses: tuple[Loss, ...], delta: Fraction) -> float:
    gaussian = [loss for loss in losses if isinstance(loss, GaussianLoss)]
    if len(gaussian) == len(losses):
        squares = (in_short(loss.count * loss.mu**2, up=True) for loss in gaussian)
        leaks = (in_short(loss.count * loss.leak, up=True) for loss in gaussian)
        return gaussian_epsilon(
            root_above(sum(squares, Fraction(0))), delta, sum(leaks, Fraction(0))
        )
    if delta == 0:
        if any(loss.mu or loss.leak for loss in gaussian) or any(
            loss.delta for loss in losses if isinstance(loss, ApproximateLoss)
        ):
            return math.inf
        epsilons = (
            in_short(loss.count * loss.epsilon, up=True)
            for loss in losses
            if not isinstance(loss, GaussianLoss)
        )
        return float_above(sum(epsilons, Fraction(0)))
    below = float(delta) * (1 - 1e-15)
    return Law.of(losses, negligible=max(below * 1e-10, _UNDERFLOW)).epsilon(below)


def _crossing(excess: Callable[[float], float], low: float, high: float) -> float:
    """About the first point without an excess, and none itself: low has one, high has none.

    Where chords cross zero, with half the height of an end that stays (the Illinois rule), and
    halfway where that does not do.
    """
    above, below = excess(low), excess(high)
    heights, moved = (above, below), 0
    for step in range(_CHORDS + _HALVINGS):
        if -_CLOSE < below < 0 or high - low <= _CLOSE * abs(high):
            break
        left, right = heights
        middle = high - right * (high - low) / (right - left)
        if step >= _CHORDS or not low < middle < high:
            middle = (low + high) / 2
        found = excess(middle)
        if found > 0:
            low, heights = middle, (found, right / 2 if moved < 0 else right)
            moved = -1
        else:
            high, below, heights = middle, found, (left / 2 if moved > 0 else left, found)
            moved = 1
    return high


def _excess(probability: Callable[[float], float], most: float, t: float) -> float:
    """By how much the logarithm of a probability at t is too large. Zero is the smallest float."""
    return math.log(max(probability(t), math.ulp(0.0))) - math.log(max(most, math.ulp(0.0)))


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
    answers = _answers(tuple(sorted(counts.items())), negligible)
    told = -math.expm1(math.fsum(logs_untold))
    values = {value: p * (1.0 - told) for value, p in answers}
    values[math.inf] = values.get(math.inf, 0.0) + told
    return Law(
        values=tuple((value, p) for value, p in values.items() if p > 0),
        mu=float(_capped(root_above(mu_squared))),
        leak=float(_capped(leak)),
    )


@lru_cache(maxsize=1024)
def _answers(
    counts: tuple[tuple[float, int], ...], negligible: float
) -> tuple[tuple[float, float], ...]:
    """L of randomised responses with these epsilons, that often each."""
    values: _Values = {0.0: 1.0}
    spread = math.sqrt(math.fsum(count * epsilon**2 for epsilon, count in counts))
    for epsilon, count in counts:
        votes = _thinned(_votes(epsilon, count, negligible), negligible)
        if len(values) * len(votes) <= _MOST_PAIRS:
            composed = _composed(values, votes)
        else:
            step = min(_REACH * spread, 2 * _FAR) / _MOST_VALUES
            composed = _composed_on_grid(values, votes, step)
        values = _thinned(composed, negligible)
    return tuple(values.items())


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


def _composed(first: _Values, second: _Values) -> _Values:
    """The law of the sum of two independent parts."""
    values: _Values = defaultdict(float)
    for value, p in first.items():
        for other, share in second.items():
            values[value + other] += p * share
    return values


def _composed_on_grid(first: _Values, second: _Values, step: float) -> _Values:
    """The same for many values, each split between its neighbours on the grid first.

    The probabilities, rounded up, are the digits of two large integers, and those of the sum are
    the digits of their product.
    """
    width = 2 * _BITS // 8 + 2  # bytes of a digit: a sum of up to 2^16 products
    lowest, numbers = 0, []
    for values in (first, second):
        cells = _split({value: p for value, p in values.items() if value < math.inf}, step)
        start, end = min(cells), max(cells)
        lowest += start
        digits = (math.ceil(math.ldexp(cells.get(c, 0.0), _BITS)) for c in range(start, end + 1))
        numbers.append(b"".join(digit.to_bytes(width, "little") for digit in digits))
    size = sum(len(number) for number in numbers)
    product = math.prod(int.from_bytes(number, "little") for number in numbers)
    written = product.to_bytes(size, "little")
    summed: _Values = {
        (lowest + place) * step: int.from_bytes(digit, "little") / 2 ** (2 * _BITS)
        for place in range(size // width - 1)
        for digit in (written[place * width : (place + 1) * width],)
    }
    infinite = [values.get(math.inf, 0.0) for values in (first, second)]
    summed[math.inf] = infinite[0] + infinite[1] - infinite[0] * infinite[1]
    return summed


def _thinned(values: _Values, negligible: float) -> _Values:
    """A law with fewer values that is no harder to tell apart."""
    likely = {value: p for value, p in values.items() if abs(value) <= _FAR and p >= negligible}
    thin: _Values = likely
    if len(likely) > _MOST_VALUES:
        step = _step(likely)
        thin = {cell * step: p for cell, p in _split(likely, step).items()}
    thin[math.inf] = math.fsum(p for value, p in values.items() if value not in likely)
    return thin


def _split(values: _Values, step: float) -> dict[int, float]:
    """Cells of a grid, with the probability that they get.

    A value is split between its neighbours on the grid so that its probability under P and under
    Q stays what it was. To forget which of the two it was gives the old law back.
    """
    cells: dict[int, float] = defaultdict(float)
    for value, p in values.items():
        cell = math.floor(value / step)
        up = math.expm1(value - cell * step)
        share = up / (up - math.expm1(value - (cell + 1) * step))
        cells[cell] += p * (1 - share)
        cells[cell + 1] += p * share
    return cells


def _step(values: _Values) -> float:
    """The width of `_MOST_VALUES` cells, or less where many of them would be empty."""
    step = (max(values) - min(values)) / _MOST_VALUES
    for _ in range(10):  # a thousandth of it is fine enough
        if len({math.floor(2 * value / step) for value in values}) > _MOST_VALUES:
            break
        step /= 2
    return step
