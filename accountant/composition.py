"""Sequential composition: epsilons and deltas add, whoever chose the next release and why."""

from __future__ import annotations

import math
from collections.abc import Iterable

from accountant.amounts import to_text
from accountant.errors import AccountantError, InvalidAmount
from accountant.specs import Budget

NOTHING = Budget.of(0, 0)
GRID = 10**300 * math.lcm(*range(1, 101))  # every amount of money is a multiple of 1 / GRID
LARGEST = 10**100


class BudgetExceeded(AccountantError):
    """A request that does not fit in what remains. Nothing was charged.

    `allocation`: the one that was asked; None for the free pool.
    """

    def __init__(
        self, asked: Budget, granted: Budget, spent: Budget, allocation: str | None = None
    ) -> None:
        super().__init__(asked, granted, spent, allocation)  # the arguments, so that it pickles
        self.asked = asked
        self.granted = granted
        self.spent = spent
        self.allocation = allocation

    @property
    def remaining(self) -> Budget:
        """Granted less spent."""
        return self.granted - self.spent

    @property
    def shortfall(self) -> Budget:
        """By how much the request is too large, in each coordinate."""
        return shortfall(self.asked, self.remaining)

    @property
    def largest(self) -> Budget:
        """The largest request that would fit, in each coordinate."""
        return self.remaining

    def __str__(self) -> str:
        exhausted = self.largest.epsilon == 0 or self.largest.delta == 0
        most = f"Ask for at most {self.largest.show_down()}."
        whose = f" of allocation {self.allocation!r}" if self.allocation else ""
        return (
            f"request must fit in what remains{whose}, {self.remaining.show_down()} "
            f"(spent {self.spent.show_up()} of {self.granted.show_down()}); "
            f"got {self.asked.show_up()}, too large by {self.shortfall.show_up()}. "
            f"{'Ask the privacy officer.' if exhausted else most}"
        )


def total(budgets: Iterable[Budget]) -> Budget:
    """The exact sum."""
    return sum(budgets, start=NOTHING)


def shortfall(asked: Budget, remaining: Budget) -> Budget:
    """By how much `asked` passes `remaining`, in each coordinate; zero where it fits."""
    return Budget.of(
        max(asked.epsilon - remaining.epsilon, 0), max(asked.delta - remaining.delta, 0)
    )


def require_spendable(budget: Budget) -> None:
    """Grants and charges need epsilon above zero and delta strictly between zero and one.

    And they lie on a grid, so that no sum of them needs more digits than can be written: one
    analyst's odd fractions must not stop the sums of others.
    """
    for name, amount in (("epsilon", budget.epsilon), ("delta", budget.delta)):
        if GRID % amount.denominator or amount > LARGEST:
            raise InvalidAmount(
                f"{name} must be a decimal of at most 300 places or a simple fraction, at most "
                f"1e100; got {to_text(amount)[:40]}. Round it."
            )
    if budget.epsilon == 0:
        raise InvalidAmount('epsilon must be above 0; got 0. Use an amount such as "0.5".')
    if budget.delta == 0:
        raise InvalidAmount('delta must be between 0 and 1; got 0. Use a small one such as "1e-6".')


def require_fit(
    asked: Budget, granted: Budget, spent: Budget, allocation: str | None = None
) -> None:
    """Raise BudgetExceeded unless what was spent and what is asked fit in the grant."""
    if not asked.fits_within(granted - spent):
        raise BudgetExceeded(asked, granted, spent, allocation)
