"""What a plan may cost: epsilon and delta, a mu, or a share of what remains."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import ROUND_DOWN, Context, Decimal
from fractions import Fraction
from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag

from accountant import Accountant, GaussianBudget
from accountant.amounts import Amount, root_below, show_delta_up, show_down
from accountant.facts import Fact
from accountant.gaussian import gaussian_epsilon
from accountant.specs import AnyBudget, Budget, PrivacyUnit
from dppca_odp.errors import InvalidPlan

#: A delta is far below one over the number of people if it is so many times smaller.
FAR_BELOW = 10


class MuBudget(Fact):
    """All stages together cost this mu under the rule `gaussian`; deltas are split from delta."""

    mu: Annotated[Amount, Field(gt=0)]
    delta: Amount

    def pair(self) -> Budget:
        """The (epsilon, delta) of one Gaussian of that mu, epsilon rounded down to 12 digits.

        Raises:
            ValueError: a mu too small to have an epsilon at this delta, or too large.
        """
        epsilon = gaussian_epsilon(self.mu, self.delta)
        if not 0 < epsilon < math.inf:
            raise ValueError(
                f"mu must have an epsilon above 0 at delta {show_delta_up(self.delta)}; got mu "
                f"{show_down(self.mu)}. Change one of them."
            )
        return Budget.of(_short(Fraction(epsilon)), self.delta)


class ShareBudget(Fact):
    """A share of what remains in the pool when the plan is paid for."""

    share: Annotated[Amount, Field(gt=0, le=1)]

    def of(self, accountant: Accountant) -> Budget | MuBudget:
        """The share, in the amounts that the grant counts, rounded down to 12 digits.

        Raises:
            InvalidPlan: nothing remains.
        """
        left = accountant.remaining()
        if left.is_empty:
            raise InvalidPlan(
                f"share must be of something that remains; got {left.show_down()}. Ask the "
                "privacy officer."
            )
        if isinstance(left, GaussianBudget):
            mu = _short(root_below(self.share * left.mu_squared))
            aside = _short(self.share * left.delta)  # if there is any, what pays for sparse ones
            return MuBudget(mu=mu, delta=aside or accountant.budget.delta)
        return Budget.of(_short(self.share * left.epsilon), _short(self.share * left.delta))


def _short(amount: Fraction) -> Fraction:
    """Twelve significant digits, rounded down."""
    short = Context(prec=12, rounding=ROUND_DOWN)
    return Fraction(short.divide(Decimal(amount.numerator), Decimal(amount.denominator)))


def _form(given: Any) -> str:
    """Which of the three it is; tags with blanks stay out of the paths of errors."""
    for form, kind in (("mu", MuBudget), ("share", ShareBudget)):
        if isinstance(given, kind) or (isinstance(given, dict) and form in given):
            return f"a {form}"
    return "epsilon and delta"


PlanBudget = Annotated[
    Annotated[Budget, Tag("epsilon and delta")]
    | Annotated[MuBudget, Tag("a mu")]
    | Annotated[ShareBudget, Tag("a share")],
    Discriminator(_form),
]
"""A plan's budget in any of the three forms."""


def delta_cautions(delta: Fraction, rows: int, unit: PrivacyUnit) -> Iterator[str]:
    """That a delta is large for so many people, who are the fewest if all have all their rows."""
    people = math.ceil(rows / unit.rows_per_person)
    if delta * people * FAR_BELOW >= 1:
        advised = math.ceil(math.log10(FAR_BELOW**2 * people))
        yield (
            f"delta {show_delta_up(delta)} should be far below one over the number of people, "
            f"{people} at least: with that probability all rows of one may be told. "
            f"Take 1e-{advised}."
        )


def left_cautions(left: AnyBudget) -> Iterator[str]:
    """That what is left of epsilon cannot be spent, since each charge needs some delta."""
    if isinstance(left, Budget) and left.epsilon and not left.delta:
        yield (
            f"it takes all delta that is left, so that epsilon {show_down(left.epsilon)} remains "
            "and cannot be spent: every charge needs some delta. Take less of it."
        )
