"""What privacy losses mean: how well an attacker can tell two candidate records apart.

The attacker knows every row but one, and two candidates for that one: two laws P and Q of all that
is released, the hardest of which is in `laws`. By Neyman and Pearson the true-positive rate (under
P) of a test with false-positive rate a (under Q) is at most
    delta(t) + e^t a,    for every t, and equality is reached where Q(L > t) = a.
So a t that is slightly off may overstate the risk, but never understates it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import Literal

from accountant.facts import Fact
from accountant.laws import NEGLIGIBLE, Law
from accountant.losses import Loss
from accountant.rules import hardest
from accountant.specs import AnyBudget, Budget

FALSE_POSITIVE_RATES = (0.001, 0.01, 0.1)

_ROUNDING = 1e-10  # added to every answer


class TruePositiveRate(Fact):
    """At this false-positive rate, no attacker has a true-positive rate above `at_most`."""

    false_positive_rate: float
    at_most: float


class Risk(Fact):
    """What an attacker who tells two candidate records apart can gain. Rounded up."""

    advantage: float
    """The largest difference between true-positive and false-positive rate."""
    true_positive_rates: tuple[TruePositiveRate, ...]
    basis: Literal["losses", "budget", "mu"]
    """Composed from the losses themselves, or bounded by epsilon and delta alone, or by mu and
    the delta set aside."""


def risk_of_losses(losses: Iterable[Loss]) -> Risk:
    """The risk of one plan, whose losses were all fixed before it ran."""
    return risk_of(tuple(losses), "losses")


def risk_of_budget(budget: AnyBudget) -> Risk:
    """The most that releases of this total can mean, even if each was chosen after the last."""
    return risk_of(hardest(budget), "budget" if isinstance(budget, Budget) else "mu")


@lru_cache(maxsize=4096)
def risk_of(losses: tuple[Loss, ...], basis: Literal["losses", "budget", "mu"]) -> Risk:
    """The risk of these losses, and what they stand for."""
    law = Law.of(losses, NEGLIGIBLE)
    if law.mu == law.leak == 0 and law.values == ((0.0, 1.0),):
        bounds = [0.0, *FALSE_POSITIVE_RATES]
    else:
        rates = (_true_positive_rate(law, rate) for rate in FALSE_POSITIVE_RATES)
        bounds = [min(bound + _ROUNDING, 1.0) for bound in (law.delta(0.0), *rates)]
    return Risk(
        advantage=bounds[0],
        true_positive_rates=tuple(
            TruePositiveRate(false_positive_rate=rate, at_most=at_most)
            for rate, at_most in zip(FALSE_POSITIVE_RATES, bounds[1:], strict=True)
        ),
        basis=basis,
    )


def _true_positive_rate(law: Law, rate: float) -> float:
    """The bound at about the best t. It falls to there, and rises from there on."""
    t = law.threshold(rate + law.leak)
    return law.delta(t) + math.exp(t) * rate
