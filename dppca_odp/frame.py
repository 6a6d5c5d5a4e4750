"""The rectangle of a score picture: public, or released."""

from __future__ import annotations

from typing import Self

from pydantic import model_validator

from accountant.facts import Fact
from dppca_odp.values import Bound


class Frame(Fact):
    """Sides in units of the scores."""

    x_low: Bound
    x_high: Bound
    y_low: Bound
    y_high: Bound

    @model_validator(mode="after")
    def _sides_in_order(self) -> Self:
        if not (self.x_low < self.x_high and self.y_low < self.y_high):
            raise ValueError(
                f"x_low and y_low must be below x_high and y_high; got {self.x_low} to "
                f"{self.x_high} and {self.y_low} to {self.y_high}. Swap or widen them."
            )
        return self
