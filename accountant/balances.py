"""Where the money stands: what may be spent and what was, in the free pool and in allocations."""

from __future__ import annotations

from fractions import Fraction
from operator import add, le

from accountant.facts import Fact
from accountant.specs import NOTHING, AnyBudget


class Pool(Fact):
    """A budget that charges draw on."""

    granted: AnyBudget
    spent: AnyBudget

    @property
    def remaining(self) -> AnyBudget:
        """Granted less spent."""
        return self.granted - self.spent

    def charged(self, cost: AnyBudget) -> Pool | None:
        """The pool when this is spent too; None if it does not fit in what remains."""
        amounts = [*map(add, self.spent.coordinates, cost.like(self.spent))]
        if not all(map(le, amounts, self.granted.like(cost))):
            return None
        return Pool(granted=self.granted, spent=self.spent.of(*amounts))

    def differs_by(self, other: Pool) -> tuple[Fraction, ...] | None:
        """What the other pool says more, coordinate by coordinate; None if by another rule."""
        kind = type(self.granted)
        if not all(type(budget) is kind for budget in (self.spent, other.granted, other.spent)):
            return None
        ours = *self.granted.coordinates, *self.spent.coordinates
        theirs = *other.granted.coordinates, *other.spent.coordinates
        return tuple(their - our for our, their in zip(ours, theirs, strict=True))

    def __add__(self, other: Pool) -> Pool:
        return Pool(granted=self.granted + other.granted, spent=self.spent + other.spent)

    def __sub__(self, other: Pool) -> Pool:
        return Pool(granted=self.granted - other.granted, spent=self.spent - other.spent)


def empty_pool(nothing: AnyBudget) -> Pool:
    """A pool that holds nothing, counted as this nothing is."""
    return Pool(granted=nothing, spent=nothing)


EMPTY = empty_pool(NOTHING)


class Balance(Fact):
    """What an entry leaves. The free pool and all allocations together are the grant."""

    free: Pool
    """What charges that name no allocation draw on."""
    allocations: Pool
    """All allocations together."""
    allocation: Pool | None
    """The allocation that the entry is about, if it is about one."""

    @property
    def total(self) -> Pool:
        """The whole grant: both coordinates of both pools added."""
        return self.free + self.allocations
