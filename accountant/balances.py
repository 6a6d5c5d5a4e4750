"""Where the money stands: what may be spent and what was, in the free pool and in allocations."""

from __future__ import annotations

from fractions import Fraction
from itertools import zip_longest

from accountant.facts import Fact
from accountant.rules import NOTHING
from accountant.specs import AnyBudget


class Pool(Fact):
    """A budget that charges draw on."""

    granted: AnyBudget
    spent: AnyBudget

    @property
    def remaining(self) -> AnyBudget:
        """Granted less spent."""
        return self.granted - self.spent

    def differs_by(self, other: Pool) -> tuple[Fraction, ...]:
        """What the other pool says more, coordinate by coordinate, under whatever rule."""
        sides = (self.granted, other.granted), (self.spent, other.spent)
        return tuple(
            their - our
            for ours, theirs in sides
            for our, their in zip_longest(
                ours.coordinates, theirs.coordinates, fillvalue=Fraction(0)
            )
        )

    def is_counted_as(self, other: Pool) -> bool:
        """Whether both hold budgets of one rule."""
        return type(self.granted) is type(other.granted) and type(self.spent) is type(other.spent)

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
        """The whole grant: both pools added, coordinate by coordinate."""
        return self.free + self.allocations
