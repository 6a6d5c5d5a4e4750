"""One factor for all shares of a plan, with which its losses together just cost what they may.

Under the sum rule shares of the budget are what stages may cost. When all losses are fixed
before anything runs they cost less together, so each release may have more: every epsilon is
multiplied by one factor, and deltas and weights stay. A budget in mu is met in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from dppca_odp.errors import InvalidPlan

#: Below the budget by at least this part of it, so that other floating point agrees...
MARGIN = Fraction(1, 10**9)
#: ... and by at most this.
WASTE = Fraction(1, 10**6)
_DIGITS = 12
_MOST_TRIES = 60
LEAST = Fraction(9, 10)  # at 1 the sum rule holds: a factor far below it is a failure of numerics

Point = tuple[Fraction, Fraction]


def largest_factor(
    cost: Callable[[Fraction], Fraction], most: Fraction, least: Fraction = LEAST
) -> Fraction:
    """The factor, of at most 12 digits, at which the cost just fits; not below the least.

    ``cost`` never falls. Few tries: secants of the logarithms, between what fits and what does not.

    Raises:
        InvalidPlan: none fits that is worth it.
    """
    enough, limit = most * (1 - WASTE), most * (1 - MARGIN)
    tried: list[Point] = []
    fits: Fraction | None = None
    fails: Fraction | None = None
    factor = Fraction(1)
    for _ in range(_MOST_TRIES):
        found = cost(factor)
        tried.append((factor, found))
        if enough <= found <= limit:
            return factor
        if found <= limit:
            fits = factor
        else:
            fails = factor
        if fits is None and factor < least:
            break
        factor = _shortened(_next(tried, fits, fails, aim=(enough + limit) / 2))
    if fits is None:
        raise InvalidPlan(
            f"losses that were fixed before must come to at most {float(most):.6g}; got some that "
            f"compose to {float(tried[0][1]):.6g}. Use the composition sum."
        )
    return fits


def _next(
    tried: list[Point], fits: Fraction | None, fails: Fraction | None, *, aim: Fraction
) -> Fraction:
    """Where the secant through the last two tries meets the aim; halfway if that is no help."""
    guess = _secant(tried, aim)
    low = fits or Fraction(0)
    if fails is None:
        return guess if guess > low else 2 * low
    return guess if low < guess < fails else (low + fails) / 2


def _secant(tried: list[Point], aim: Fraction) -> Fraction:
    """In logarithms; from one point only, with slope 1. Zero if there is none."""
    factor, cost = tried[-1]
    if not cost:
        return Fraction(0)
    slope = 1.0
    if len(tried) > 1 and tried[-2][1]:
        other, other_cost = tried[-2]
        rise = math.log(cost / other_cost)
        slope = rise / math.log(factor / other) if rise else 1.0
    steps = max(min(math.log(aim / cost) / slope, 5.0), -5.0)
    return factor * Fraction(math.exp(steps))


def _shortened(factor: Fraction) -> Fraction:
    """The nearest decimal of 12 significant digits."""
    return Fraction(f"{float(factor):.{_DIGITS - 1}e}")
