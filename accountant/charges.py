"""What one plan asks for, protecting whom, and by which rule its stages fit in it."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from accountant.errors import InvalidAmount
from accountant.facts import Fact, Name, Words
from accountant.rules import Composition, GrantRule, SumRule, composing_rule
from accountant.specs import AnyBudget, Budget, PrivacyUnit, Stage


class Charge(Fact):
    """What one plan asks for, protecting whom. Its stages may not ask for more than the whole."""

    release_key: Name
    plan_hash: Name
    unit: PrivacyUnit
    budget: Budget
    composition: Annotated[Composition, Field(exclude_if=lambda given: given == "sum")] = "sum"
    """Left out of the ledger while it is the sum."""
    stages: tuple[Stage, ...]
    actor: Words = ""
    purpose: Words = ""

    @model_validator(mode="after")
    def _stages_within(self) -> Self:
        rule = composing_rule(self.composition, self.budget.delta)
        together = rule.cost(self.stages)
        if not together.fits_within(self.budget):
            raise InvalidAmount(
                f"stages must come to at most the charge, {self.budget.show_down()}; got "
                f"{together.show_up()} by the rule {rule.kind}. Split the charge exactly."
            )
        return self

    def cost(self, rule: GrantRule) -> AnyBudget:
        """What a grant under this rule pays: the whole budget, or what the stages' losses cost.

        Raises:
            InvalidAmount: the rule counts losses, and the charge does not state all of its own.
        """
        if isinstance(rule, SumRule):
            return self.budget
        if not self.stages:
            raise InvalidAmount(
                "stages must be stated under the rule gaussian, which counts their losses; got "
                "none. State each with its losses."
            )
        return rule.cost(self.stages)
