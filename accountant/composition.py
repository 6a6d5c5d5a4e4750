"""What may be asked for, and what happens when it does not fit."""

from __future__ import annotations

import math
from collections.abc import Iterable

from accountant.amounts import to_text
from accountant.errors import AccountantError, InvalidAmount
from accountant.specs import NOTHING, AnyBudget, Budget, GaussianBudget

GRID = 10**300 * math.lcm(*range(1, 101))  # every amount of money is a multiple of 1 / GRID
LARGEST = 10**100


class BudgetExceeded(AccountantError):
    """A request that does not fit in what remains. Nothing was charged.

    `allocation`: the one that was asked; None for the free pool. `advice`: what would fit.
    """

    def __init__(
        self,
        asked: AnyBudget,
        granted: AnyBudget,
        spent: AnyBudget,
        allocation: str | None = None,
        advice: str = "",
    ) -> None:
        super().__init__(asked, granted, spent, allocation, advice)  # so that it pickles
        self.asked = asked
        self.granted = granted
        self.spent = spent
        self.allocation = allocation
        self.advice = advice

    @property
    def remaining(self) -> AnyBudget:
        """Granted less spent."""
        return self.granted - self.spent

    @property
    def shortfall(self) -> AnyBudget:
        """By how much the request is too large, in each coordinate."""
        return self.asked.beyond(self.remaining)

    @property
    def largest(self) -> AnyBudget:
        """The largest request that would fit, in each coordinate."""
        return self.remaining

    def __str__(self) -> str:
        most = f"Ask for at most {self.largest.show_down()}."
        advice = self.advice or ("Ask the privacy officer." if self.largest.is_empty else most)
        whose = f" of allocation {self.allocation!r}" if self.allocation else ""
        excess = f", too large by {self.shortfall.show_up()}"
        if isinstance(self.asked, GaussianBudget):  # where squares add: no difference of two mu
            excess = ""
        return (
            f"request must fit in what remains{whose}, {self.remaining.show_down()} "
            f"(spent {self.spent.show_up()} of {self.granted.show_down()}); "
            f"got {self.asked.show_up()}{excess}. {advice}"
        )


def total(budgets: Iterable[Budget]) -> Budget:
    """The exact sum."""
    return NOTHING.plus(budgets)


def require_spendable(budget: AnyBudget) -> None:
    """Grants and charges need epsilon above zero and delta strictly between zero and one.

    And they lie on a grid, so that no sum of them needs more digits than can be written: one
    analyst's odd fractions must not stop the sums of others. A Gaussian budget needs a mu.
    """
    names: tuple[str, ...] = ("epsilon", "delta")
    if isinstance(budget, GaussianBudget):
        names = ("mu_squared", "delta", "leak")
    for name, amount in zip(names, budget.coordinates, strict=True):
        if GRID % amount.denominator or amount > LARGEST:
            raise InvalidAmount(
                f"{name} must be a decimal of at most 300 places or a simple fraction, at most "
                f"1e100; got {to_text(amount)[:40]}. Round it."
            )
    if budget.coordinates[0] == 0:
        raise InvalidAmount(f'{names[0]} must be above 0; got 0. Use an amount such as "0.5".')
    if isinstance(budget, Budget) and budget.delta == 0:
        raise InvalidAmount('delta must be between 0 and 1; got 0. Use a small one such as "1e-6".')


def require_fit(
    asked: AnyBudget,
    granted: AnyBudget,
    spent: AnyBudget,
    allocation: str | None = None,
    advice: str = "",
) -> None:
    """Raise BudgetExceeded unless what was spent and what is asked fit in the grant."""
    if not asked.fits_within(granted - spent):
        raise BudgetExceeded(asked, granted, spent, allocation, advice)
