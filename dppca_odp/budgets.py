"""A budget as a mu: what one Gaussian release may cost."""

from __future__ import annotations

import math
from decimal import ROUND_DOWN, Context, localcontext
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from accountant.amounts import Amount, show_delta_up, show_down
from accountant.facts import Fact
from accountant.gaussian import gaussian_epsilon
from accountant.specs import Budget


class MuBudget(Fact):
    """What one Gaussian release of this mu costs at this delta."""

    mu: Annotated[Amount, Field(gt=0)]
    delta: Amount

    def pair(self) -> Budget:
        """The (epsilon, delta) of it, with epsilon rounded down to 12 significant digits.

        Raises:
            ValueError: a mu too small to have an epsilon at this delta, or too large.
        """
        epsilon = gaussian_epsilon(self.mu, self.delta)
        if not 0 < epsilon < math.inf:
            raise ValueError(
                f"mu must have an epsilon above 0 at delta {show_delta_up(self.delta)}; got mu "
                f"{show_down(self.mu)}. Change one of them."
            )
        with localcontext(Context(prec=12, rounding=ROUND_DOWN)) as short:
            return Budget.of(short.create_decimal_from_float(epsilon), self.delta)


def _as_pair(given: Any) -> Any:
    if isinstance(given, dict) and "mu" in given:
        return MuBudget.model_validate(given).pair()
    return given


BudgetOrMu = Annotated[Budget, BeforeValidator(_as_pair, json_schema_input_type=Budget | MuBudget)]
"""A budget that may be written as a mu."""
