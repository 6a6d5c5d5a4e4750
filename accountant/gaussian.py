"""Gaussian differential privacy as (epsilon, delta), every answer rounded to the safe side.

Dong, Roth and Su (2022), Gaussian Differential Privacy, corollary 2.13: a mechanism is mu-GDP
if and only if it is (epsilon, delta(epsilon))-private for every epsilon >= 0, where
delta(epsilon) = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu).
If each output law is only within `leak` in total variation of a law of such a mechanism, then
delta(epsilon) + (1 + e^epsilon) leak takes its place.

Answers come from bisection over the floats themselves. Each comparison is made with forty
digits to spare, so the float returned satisfies it and the next one does not.
"""

from __future__ import annotations

import math
import struct
import threading
from collections.abc import Callable
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any

from accountant.amounts import float_above, root_above
from accountant.errors import InvalidAmount

Number = Fraction | int | float

_LOCK = threading.Lock()  # one mpmath context serves all threads, one at a time
_LARGEST_EPSILON = Fraction(10**6)  # a larger one is read as this one, a stronger promise
_SMALLEST_MU = Fraction(1, 10**320)  # a smaller one is read as this one, a weaker promise
_LARGEST_MU = Fraction(10**50)  # a larger one is read as no privacy at all
_FAR = 10**150


def gaussian_delta(mu: Number, epsilon: Number) -> float:
    """The delta of mu-GDP at this epsilon, rounded up."""
    with _LOCK:
        return _gaussian_delta(_exact_mu(mu), _exact_epsilon(epsilon))


def gaussian_mu(epsilon: Number, delta: Number, leak: Number = 0) -> float:
    """The largest float mu for which mu-GDP, up to `leak`, is (epsilon, delta)-private."""
    return _gaussian_mu(_exact_epsilon(epsilon), _exact_delta(delta), _exact(leak, "leak"))


def exponential_above(epsilon: Fraction) -> Fraction:
    """e^epsilon, rounded up; the same digits on every machine, as floats are not."""
    with _LOCK:
        mp = _shared_context()
        mp.dps = 60
        value = mp.exp(_real(mp, epsilon)) * (1 + mp.mpf(10) ** -50)
        mantissa, exponent = value.man_exp
        return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


def gaussian_epsilon(mu: Number, delta: Number, leak: Number = 0) -> float:
    """The smallest float epsilon at which mu-GDP, up to `leak`, has this delta; inf if none."""
    return _gaussian_epsilon(_exact_mu(mu), _exact_delta(delta), _exact(leak, "leak"))


@lru_cache(maxsize=1024)
def lifted_mu(epsilon: Number) -> float:
    """The smallest float mu, above 1e-38, for which mu-GDP promises no more than epsilon-DP.

    The worst pair of laws for epsilon is randomised response: the mu at which its kink, both
    errors 1 / (1 + e^epsilon), lies on the trade-off function of mu-GDP: Phi(-mu/2) at the kink.
    Elsewhere it lies above, as the chords of a convex function do (Dong, Roth and Su 2022).
    """
    exact = _exact(epsilon, "epsilon")
    if exact > _LARGEST_EPSILON:  # as Phi(-x) <= e^(-x^2 / 2) / 2
        return float_above(root_above(8 * exact))

    def falls_short(mu: float) -> bool:
        mp = _context(Fraction(mu) or _SMALLEST_MU, exact)
        error = _normal(mp, -_real(mp, Fraction(mu)) / 2)
        return bool(error * (1 + mp.exp(_real(mp, exact))) * (1 + mp.mpf(10) ** -40) > 1)

    def roughly(mu: float) -> bool:
        small, x = float(exact), mu / math.sqrt(8)
        if small < 1:
            return math.erf(x) < math.tanh(small / 2)
        return math.erfc(x) > 2 / (1 + math.exp(min(small, 700.0)))

    if exact == 0:
        return 0.0
    with _LOCK:
        return math.nextafter(_last_float(falls_short, roughly), math.inf)


def _gaussian_delta(mu: Fraction, epsilon: Fraction) -> float:
    if mu == 0:
        return 0.0
    smallest = math.ulp(0.0)
    return min(1.0, max(smallest, _float_above(_delta(_context(mu, epsilon), mu, epsilon))))


@lru_cache(maxsize=1024)
def _gaussian_mu(epsilon: Fraction, delta: Fraction, leak: Fraction) -> float:
    with _LOCK:
        if not _holds(Fraction(0), epsilon, delta, leak):
            raise InvalidAmount(
                f"leak must be at most delta / (1 + e^epsilon); got {float(leak)!r}. "
                "Use a larger noise scale or a larger delta."
            )
        if delta == 0:
            return 0.0
        return _last_float(
            lambda mu: _holds(Fraction(mu), epsilon, delta, leak),
            lambda mu: _roughly(mu, float(epsilon), float(leak)) <= float(delta),
        )


@lru_cache(maxsize=1024)
def _gaussian_epsilon(mu: Fraction, delta: Fraction, leak: Fraction) -> float:
    def falls_short(epsilon: float) -> bool:
        """Too small, but with hope: the left side falls while its tail is above the leak."""
        exact = Fraction(epsilon)
        if _holds(mu, exact, delta, leak):
            return False
        mp = _context(mu, exact)
        return bool(_tail(mp, mu, exact) > _real(mp, leak))

    with _LOCK:
        if _holds(mu, Fraction(0), delta, leak):
            return 0.0
        if mu == 0 or delta == 0 or mu > _LARGEST_MU or not falls_short(0.0):
            return math.inf
        last = _last_float(
            falls_short,
            lambda epsilon: (
                _roughly(float(mu), epsilon, float(leak)) > float(delta)
                and _rough_tail(float(mu), epsilon) > float(leak)
            ),
        )
        answer = math.nextafter(last, math.inf)
        reached = math.isfinite(answer) and _holds(mu, Fraction(answer), delta, leak)
        return answer if reached else math.inf


def _holds(mu: Fraction, epsilon: Fraction, delta: Fraction, leak: Fraction) -> bool:
    """Whether delta(epsilon) + (1 + e^epsilon) leak is at most delta, with room to spare."""
    mp = _context(mu, epsilon)
    left = _delta(mp, mu, epsilon)
    if leak:
        left += (1 + mp.exp(_real(mp, epsilon))) * _real(mp, leak)
    return bool(left * (1 + mp.mpf(10) ** -40) <= _real(mp, delta))


def _delta(mp: Any, mu: Fraction, epsilon: Fraction) -> Any:
    """The formula at the top, as a high-precision number."""
    if mu == 0:
        return mp.zero
    m, e = _real(mp, mu), _real(mp, epsilon)
    return _normal(mp, m / 2 - e / m) - mp.exp(e) * _tail(mp, mu, epsilon)


def _tail(mp: Any, mu: Fraction, epsilon: Fraction) -> Any:
    """Phi(-mu/2 - epsilon/mu)."""
    m, e = _real(mp, mu), _real(mp, epsilon)
    return _normal(mp, -m / 2 - e / m)


def _normal(mp: Any, x: Any) -> Any:
    """Phi(x); 0 or 1 where the difference is smaller than any amount that can be written."""
    return mp.ncdf(x) if abs(x) < _FAR else mp.mpf(x > 0)


def _roughly(mu: float, epsilon: float, leak: float) -> float:
    """The same in plain floats, good enough to say where to look."""
    if mu == 0:
        return 0.0
    head, tail = math.erfc((epsilon / mu - mu / 2) / math.sqrt(2)) / 2, _rough_tail(mu, epsilon)
    grown = math.exp(min(epsilon + math.log(tail), 0.0)) if tail else 0.0
    return head - grown + leak * (1 + math.exp(min(epsilon, 700.0)))


def _rough_tail(mu: float, epsilon: float) -> float:
    return math.erfc((epsilon / mu + mu / 2) / math.sqrt(2)) / 2


def _context(mu: Fraction, epsilon: Fraction) -> Any:
    """The context, with sixty digits left after all that the formula loses at this point.

    It loses log10(1/mu) digits where its two terms cancel, and up to three times the logarithm
    of the arguments of Phi, whose tails magnify relative errors. Twice that is kept.
    """
    mp = _shared_context()
    size_mu, size_epsilon = _digits(mu), _digits(epsilon)
    mp.dps = 60 + 2 * (abs(size_mu) + 3 * max(0, size_epsilon - size_mu) + max(0, size_epsilon))
    return mp


@cache
def _shared_context() -> Any:
    from mpmath import MPContext

    return MPContext()


def _real(mp: Any, value: Fraction) -> Any:
    return mp.mpf(value.numerator) / value.denominator


def _digits(value: Fraction) -> int:
    """The decimal logarithm, to within one; 0 for 0."""
    if value == 0:
        return 0
    return (value.numerator.bit_length() - value.denominator.bit_length()) * 3 // 10


def _float_above(value: Any) -> float:
    """The smallest float that is surely at least the nonnegative high-precision value."""
    value = value * (1 + value.context.mpf(10) ** -40)
    nearest = float(value)
    return nearest if nearest >= value else math.nextafter(nearest, math.inf)


def _last_float(holds: Callable[[float], bool], roughly: Callable[[float], bool]) -> float:
    """The largest finite float at which `holds`, true at 0 and from some point on false.

    `roughly` says much the same at no cost: it only decides where the search starts.
    """
    end = _bits(math.inf)  # nonnegative floats are ordered like their bits
    low = _bisect(roughly, 0, end)
    high, step = min(low + 1, end), 16
    while low > 0 and not holds(_from_bits(low)):
        low, high, step = max(low - step, 0), low, 4 * step
    while high < end and holds(_from_bits(high)):
        low, high, step = high, min(high + step, end), 4 * step
    return _from_bits(_bisect(holds, low, high))


def _bisect(holds: Callable[[float], bool], low: int, high: int) -> int:
    """The last position at which `holds`, given that it does at `low` and not at `high`."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(_from_bits(middle)) else (low, middle)
    return low


def _bits(value: float) -> int:
    return int(struct.unpack("<q", struct.pack("<d", value))[0])


def _from_bits(bits: int) -> float:
    return float(struct.unpack("<d", struct.pack("<q", bits))[0])


def _exact(value: Number, name: str) -> Fraction:
    """The exact value of a finite nonnegative number; InvalidAmount otherwise."""
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidAmount(f"{name} must be finite; got {value}. Use a finite number.")
    if value < 0:
        raise InvalidAmount(f"{name} must not be negative; got {value}. Use zero or more.")
    return Fraction(value)


def _exact_epsilon(value: Number) -> Fraction:
    return min(_exact(value, "epsilon"), _LARGEST_EPSILON)


def _exact_mu(value: Number) -> Fraction:
    exact = _exact(value, "mu")
    return max(exact, _SMALLEST_MU) if exact else exact


def _exact_delta(value: Number) -> Fraction:
    exact = _exact(value, "delta")
    if exact >= 1:
        raise InvalidAmount(f"delta must be below 1; got {value}. Use a small one such as 1e-6.")
    return exact
