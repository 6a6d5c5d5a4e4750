"""What one mechanism costs at the privacy unit. A loss is a fact; a rule interprets it.

Printed, a loss is rounded up.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Field, field_validator

from accountant.amounts import Amount, show_delta_up, show_up
from accountant.errors import InvalidAmount
from accountant.facts import Count, Fact


def check_delta(delta: Fraction) -> Fraction:
    """The delta, if it is below one; InvalidAmount otherwise."""
    if delta >= 1:
        raise InvalidAmount(
            f'delta must be below 1; got {show_up(delta)}. Use a small one such as "1e-6".'
        )
    return delta


class PureLoss(Fact):
    """Pure differential privacy with this epsilon, `count` times."""

    kind: Literal["pure"] = "pure"
    epsilon: Amount
    count: Count = 1

    def __str__(self) -> str:
        return f"{_times(self.count)}pure {show_up(self.epsilon)}"


class GaussianLoss(Fact):
    """Gaussian differential privacy with this mu (Dong, Roth and Su 2022), `count` times.

    `leak`: the total variation between each answer's law and that of an exactly mu-GDP one.
    """

    kind: Literal["gaussian"] = "gaussian"
    mu: Amount
    leak: Amount = Fraction(0)
    count: Count = 1

    def __str__(self) -> str:
        return f"{_times(self.count)}Gaussian mu {show_up(self.mu)}"


class ApproximateLoss(Fact):
    """Approximate differential privacy with this epsilon and delta, `count` times."""

    kind: Literal["approximate"] = "approximate"
    epsilon: Amount
    delta: Amount
    count: Count = 1

    _delta_below_one = field_validator("delta")(check_delta)

    def __str__(self) -> str:
        shown = f"({show_up(self.epsilon)}, {show_delta_up(self.delta)})"
        return f"{_times(self.count)}{shown}"


def _times(count: int) -> str:
    return "" if count == 1 else f"{count} x "


Loss = Annotated[PureLoss | GaussianLoss | ApproximateLoss, Field(discriminator="kind")]
"""Any of the three losses, told apart by `kind`."""
