import math
from fractions import Fraction

import pytest

from dppca_odp.errors import InvalidPlan
from dppca_odp.factors import MARGIN, WASTE, largest_factor

ONE = Fraction(1)


def counted(cost):
    """The cost, and the factors it was asked at."""
    asked = []

    def count(factor):
        asked.append(factor)
        return Fraction(cost(float(factor)))

    return count, asked


CURVES = {
    "linear": lambda t: 0.5 * t,
    "root of squares": lambda t: math.hypot(0.3 * t, 0.4 * t**1.1),
    "steep": lambda t: 0.2 * t + 0.1 * t**3,
    "flat": lambda t: 0.9 * t**0.3,
    "shifted": lambda t: max(0.0, 0.8 * t - 0.5),
    "nothing at first": lambda t: max(0.0, t - 700.0),
    "already there": lambda t: (1 - 5e-7) * t,
    "a little above": lambda t: (1 - 1e-12) * t,
    "steps": lambda t: math.ceil(1e7 * 0.6 * t) / 1e7,
}


@pytest.mark.parametrize("epsilon", [ONE, Fraction(3, 10**4), Fraction(17)])
@pytest.mark.parametrize("name", CURVES)
def test_the_cost_just_fits_in_epsilon(name, epsilon):
    cost, asked = counted(lambda t: float(epsilon) * CURVES[name](t))
    factor = largest_factor(cost, epsilon)
    assert epsilon * (1 - WASTE) <= cost(factor) <= epsilon * (1 - MARGIN)
    assert len(asked) < 30


@pytest.mark.parametrize("name", ["linear", "root of squares", "already there", "a little above"])
def test_smooth_costs_need_few_tries(name):
    cost, asked = counted(CURVES[name])
    largest_factor(cost, ONE)
    assert len(asked) <= 5


def test_the_factor_is_a_short_decimal():
    cost, _ = counted(lambda t: math.pi / 10 * t)
    factor = largest_factor(cost, ONE)
    digits = f"{float(factor):.11e}"
    assert Fraction(digits) == factor


def test_a_cost_that_jumps_over_epsilon_keeps_below_it():
    cost, _ = counted(lambda t: 0.5 if t < 1.5 else 2.0)
    factor = largest_factor(cost, ONE)
    assert Fraction(1.49) < factor < Fraction(1.5)


def test_a_cost_far_above_epsilon_is_refused():
    cost, _ = counted(lambda t: 400.0)
    expected = (
        "^losses that were fixed before must come to at most 1; got some that compose to 400. "
        "Use the composition sum.$"
    )
    with pytest.raises(InvalidPlan, match=expected):
        largest_factor(cost, ONE)
