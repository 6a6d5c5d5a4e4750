"""Where the money stands: what may be spent and what was, in the free pool and in allocations."""

from __future__ import annotations

from fractions import Fraction

from accountant.composition import NOTHING
from accountant.facts import Fact
from accountant.specs import Budget


class Pool(Fact):
    """A budget that charges draw on."""

    granted: Budget
    spent: Budget

    @property
    def remaining(self) -> Budget:
        """Granted less spent."""
        return self.granted - self.spent

    def differs_by(self, other: Pool) -> tuple[Fraction, ...]:
        """What the other pool says more, coordinate by coordinate."""
        return (
            other.granted.epsilon - self.granted.epsilon,
            other.granted.delta - self.granted.delta,
            other.spent.epsilon - self.spent.epsilon,
            other.spent.delta - self.spent.delta,
        )

    def __add__(self, other: Pool) -> Pool:
        return Pool(granted=self.granted + other.granted, spent=self.spent + other.spent)

    def __sub__(self, other: Pool) -> Pool:
        return Pool(granted=self.granted - other.granted, spent=self.spent - other.spent)


EMPTY = Pool(granted=NOTHING, spent=NOTHING)


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
