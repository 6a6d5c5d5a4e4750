"""How losses compose: what stages cost together, and what a grant can hold.

- `sum`: epsilons and deltas add. Valid even if each release, and its cost, was chosen after the
  answers of those before (Dwork and Roth 2014, theorem 3.16; Rogers and others 2016).
- `gaussian`: every loss is read as a Gaussian one, and mu squared adds. A grant (epsilon, delta)
  fixes for ever what is set aside for (epsilon, delta) losses, and with the rest of its delta the
  mu that may be spent. Valid for choices after the answers, costs included: a filter has the
  parameters of fixed losses in Gaussian differential privacy (Smith and Thakurta 2022, Fully
  Adaptive Composition for Gaussian Differential Privacy), and what is set aside bounds, on every
  path, the probability that another loss tells more.
- `committed`: within one plan, whose losses were all fixed before it ran: see `laws`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import suppress
from fractions import Fraction
from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator

from accountant.amounts import (
    Amount,
    in_short,
    root_below,
    show_delta_down,
    show_delta_up,
    show_down,
    show_up,
)
from accountant.errors import InvalidAmount
from accountant.facts import Fact
from accountant.gaussian import exponential_above, gaussian_epsilon, gaussian_mu, lifted_mu
from accountant.laws import composed_epsilon
from accountant.losses import ApproximateLoss, GaussianLoss, Loss, PureLoss, check_delta
from accountant.specs import NOTHING, AnyBudget, Budget, GaussianBudget, Stage

_FOR_ROUNDING = Fraction(1, 2**20)  # of a grant's delta: for Gaussian noise that is integers
_LARGEST_EPSILON = 100  # of a Gaussian grant


class SumRule(Fact):
    """Epsilons add and deltas add, as the stages state them."""

    nothing: ClassVar = NOTHING
    kind: Literal["sum"] = "sum"

    def cost(self, stages: Iterable[Stage]) -> Budget:
        """The sum of the stages' budgets."""
        first, *others = [stage.budget for stage in stages] or [NOTHING]
        return first.plus(others)

    def capacity(self, budget: Budget) -> Budget:
        """What a grant of this budget holds: the budget."""
        return budget

    def part(self, budget: AnyBudget) -> Budget:
        """The part of a grant that is asked for so.

        Raises:
            InvalidAmount: it is no epsilon and delta.
        """
        if not isinstance(budget, Budget):
            raise InvalidAmount(
                f"budget must be epsilon and delta under the rule sum; got {budget}. Give both."
            )
        return budget


_SUM = SumRule()


class CommittedRule(Fact):
    """All losses, fixed before, composed at this delta."""

    kind: Literal["committed"] = "committed"
    delta: Amount

    _delta_below_one = field_validator("delta")(check_delta)

    def cost(self, stages: Iterable[Stage]) -> Budget:
        """(epsilon, delta) of all losses together, rounded up."""
        losses = stated_losses(stages)
        if not losses:
            return NOTHING
        epsilon = composed_epsilon(losses, self.delta)
        if math.isinf(epsilon):
            raise InvalidAmount(
                f"losses must keep delta {self.delta}; got some that no epsilon covers. "
                "Give the plan more delta."
            )
        return Budget.of(Fraction(epsilon), self.delta)

    def capacity(self, budget: Budget) -> Budget:
        """What a plan of this budget holds: the budget."""
        return budget


class GaussianRule(Fact):
    """Mu squared adds; so do the deltas of (epsilon, delta) losses, and the leaks of rounding.

    The three are counted apart. Of one delta for truths told and for leaks together, an analyst
    who tells a truth where the answers speak for one table, and lets the others leak, would get
    more than the grant: a leak weighs 1 + e^epsilon, most of it under the other table.
    """

    nothing: ClassVar = GaussianBudget.of(0)
    kind: Literal["gaussian"] = "gaussian"
    budget: Budget
    """Of the grant, when it was given."""
    set_aside: Amount
    """Of its delta, for (epsilon, delta) losses; never changed."""

    @property
    def leak(self) -> Fraction:
        """The total variation that is kept for rounding: it weighs a 2^-20 part of delta."""
        weight = 1 + exponential_above(min(self.budget.epsilon, Fraction(_LARGEST_EPSILON)))
        return in_short(self.budget.delta * _FOR_ROUNDING / weight, up=False)

    def cost(self, stages: Iterable[Stage]) -> GaussianBudget:
        """As `gaussian_cost`: the same under every grant."""
        return gaussian_cost(stages)

    def capacity(self, budget: Budget) -> GaussianBudget:
        """What the grant holds, or would hold when raised to this budget.

        Raises:
            InvalidAmount: nothing is left for a mu, or the epsilon is above 100.
        """
        if budget.epsilon > _LARGEST_EPSILON:
            raise InvalidAmount(
                f"epsilon must be at most {_LARGEST_EPSILON} under the rule gaussian; got "
                f"{show_up(budget.epsilon)}. Grant less."
            )
        rest, leak = budget.delta - self.set_aside, self.leak
        mu = 0.0
        if rest > 0:
            with suppress(InvalidAmount):  # the leak alone weighs more
                mu = gaussian_mu(budget.epsilon, rest, leak)
        if not mu:
            raise InvalidAmount(
                f"delta must leave some for a mu beside {show_delta_up(self.set_aside)} set aside "
                f"and what rounding weighs; got {show_delta_down(budget.delta)}. Grant more delta, "
                "or set less aside."
            )
        return GaussianBudget.of(in_short(Fraction(mu) ** 2, up=False), self.set_aside, leak)

    def part(self, budget: AnyBudget) -> GaussianBudget:
        """The part of the grant that is asked for so, with its share of what rounding needs.

        Raises:
            InvalidAmount: it is no mu.
        """
        if not isinstance(budget, GaussianBudget):
            raise InvalidAmount(
                f"budget must be a mu under the rule gaussian; got {budget}. Give mu, and what of "
                "the delta set aside."
            )
        share = min(budget.mu_squared / self.capacity(self.budget).mu_squared, Fraction(1))
        return GaussianBudget.of(
            in_short(budget.mu_squared, up=True),
            in_short(budget.delta, up=False),
            in_short(self.leak * share, up=False),
        )

    def advice(self, asked: AnyBudget, left: AnyBudget, budget: Budget, last: AnyBudget) -> str:
        """For who asked too much: what would fit; empty if nothing would."""
        lacking = GaussianBudget.of(*asked.beyond(left).coordinates)
        mu_squared = left.coordinates[0]
        if lacking.delta and not lacking.mu_squared:
            smaller = ", or a smaller delta" if left.coordinates[1] else ""
            return (
                "What is set aside does not cover that delta: use a release whose losses are pure "
                f"or Gaussian{smaller}."
            )
        if lacking.leak and not lacking.mu_squared:
            return "What is kept for the rounding of noise is used up: ask the privacy officer."
        if not mu_squared:
            return ""
        mu = root_below(mu_squared)
        epsilon = Fraction(gaussian_epsilon(mu, budget.delta))
        times = last.times_within(left)
        more = f", or {times} more like the last release" if times else ""
        return (
            f"Ask for one Gaussian of at most mu {show_down(mu)}, which is epsilon "
            f"{show_down(epsilon)} at delta {show_delta_up(budget.delta)}{more}."
        )


Rule = Annotated[SumRule | CommittedRule | GaussianRule, Field(discriminator="kind")]
"""Any of the three rules, told apart by `kind`."""


GrantRule = Annotated[SumRule | GaussianRule, Field(discriminator="kind")]
"""A rule by which charges to a grant add up."""

Composition = Literal["sum", "committed"]
"""How the stages of one plan compose."""


def composing_rule(composition: Composition, delta: Fraction) -> SumRule | CommittedRule:
    """The rule of a composition; a committed plan is composed at this delta."""
    return _SUM if composition == "sum" else CommittedRule(delta=delta)


def gaussian_cost(stages: Iterable[Stage]) -> GaussianBudget:
    """What the losses of stages cost by the rule `gaussian`, rounded up.

    Raises:
        InvalidAmount: a stage states no losses, or one that no mu covers.
    """
    mu_squared = delta = leak = Fraction(0)
    for loss in stated_losses(stages):
        match loss:
            case GaussianLoss():
                mu_squared += loss.count * loss.mu**2
                leak += loss.count * loss.leak
            case PureLoss():
                mu_squared += loss.count * _lifted(loss.epsilon) ** 2
            case ApproximateLoss():
                mu_squared += loss.count * _lifted(loss.epsilon) ** 2
                delta += loss.count * loss.delta
    return GaussianBudget.of(*(in_short(sum_, up=True) for sum_ in (mu_squared, delta, leak)))


def hardest(budget: AnyBudget) -> tuple[Loss, ...]:
    """Losses that tell the most of all that a budget covers."""
    if isinstance(budget, Budget):
        return (ApproximateLoss(epsilon=budget.epsilon, delta=budget.delta),)
    mu = in_short(budget.mu_above, up=True)
    told = ApproximateLoss(epsilon=Fraction(0), delta=budget.delta)
    return GaussianLoss(mu=mu, leak=budget.leak), told


def stated_losses(stages: Iterable[Stage]) -> tuple[Loss, ...]:
    """The losses of all stages.

    Raises:
        InvalidAmount: a stage does not state its own.
    """
    listed = tuple(stages)
    for stage in listed:
        if not stage.losses:
            raise InvalidAmount(
                f"stage {stage.name!r} must state its losses; got none. Use the rule sum."
            )
    return tuple(loss for stage in listed for loss in stage.losses)


def _lifted(epsilon: Fraction) -> Fraction:
    mu = lifted_mu(epsilon)
    if math.isinf(mu):
        raise InvalidAmount(
            f"epsilon must be one that a mu covers; got {show_up(epsilon)}. Use the rule sum."
        )
    return Fraction(mu)
