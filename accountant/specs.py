"""Who is protected, what may be spent, how it is split, and what one release asks for."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from accountant.amounts import (
    Amount,
    parse_amount,
    show_delta_down,
    show_delta_up,
    show_down,
    show_up,
    to_text,
)
from accountant.errors import InvalidAmount, InvalidValue
from accountant.facts import Count, Fact, Name, Words
from accountant.losses import Loss, check_delta


class PrivacyUnit(Fact):
    """All rows of one person, of which there are at most `rows_per_person`, are replaced."""

    relation: Literal["change-one"] = "change-one"
    rows_per_person: Annotated[Count, Field(le=1_000_000)]

    def __str__(self) -> str:
        rows = "row" if self.rows_per_person == 1 else "rows"
        return f"one person, at most {self.rows_per_person} {rows} ({self.relation})"


class Budget(Fact):
    """An exact pair (epsilon, delta)."""

    epsilon: Amount
    delta: Amount

    _delta_below_one = field_validator("delta")(check_delta)

    @classmethod
    def of(cls, epsilon: object, delta: object) -> Budget:
        """The budget of two exact amounts. Raises InvalidAmount itself, not a ValidationError."""
        return cls(
            epsilon=parse_amount(epsilon, "epsilon"),
            delta=check_delta(parse_amount(delta, "delta")),
        )

    def __add__(self, other: Budget) -> Budget:
        return Budget.of(self.epsilon + other.epsilon, self.delta + other.delta)

    def __sub__(self, other: Budget) -> Budget:
        return Budget.of(self.epsilon - other.epsilon, self.delta - other.delta)

    def fits_within(self, other: Budget) -> bool:
        """Whether both coordinates are at most the other's."""
        return self.epsilon <= other.epsilon and self.delta <= other.delta

    def show_up(self) -> str:
        """In words, rounded up: for what is asked or spent."""
        return f"epsilon {show_up(self.epsilon)} and delta {show_delta_up(self.delta)}"

    def show_down(self) -> str:
        """In words, rounded down: for what is granted or remains."""
        return f"epsilon {show_down(self.epsilon)} and delta {show_delta_down(self.delta)}"

    def __str__(self) -> str:
        return f"epsilon {to_text(self.epsilon)} and delta {to_text(self.delta)}"


class TableFacts(Fact):
    """What is public about a table: its number of rows and its column names, in order."""

    rows: Count
    columns: tuple[Name, ...]

    @field_validator("columns")
    @classmethod
    def _columns_differ(cls, columns: tuple[str, ...]) -> tuple[str, ...]:
        if not columns or len(set(columns)) < len(columns):
            raise InvalidValue(
                "columns must be different names, at least one; "
                f"got {', '.join(columns) or 'none'}. Name each column once."
            )
        return columns

    def __str__(self) -> str:
        return f"{self.rows} rows with columns {', '.join(self.columns)}"


class StageWeight(Fact):
    """One stage's weight in a split, and whether it takes part of the delta."""

    name: Name
    weight: Amount
    uses_delta: bool

    @field_validator("weight")
    @classmethod
    def _weight_positive(cls, weight: Fraction) -> Fraction:
        if weight == 0:
            raise InvalidAmount("weight must be above 0; got 0. Leave the stage out instead.")
        return weight


class Split(Fact):
    """Named stages with weights. The parts of a budget sum to the whole exactly."""

    weights: tuple[StageWeight, ...]

    @field_validator("weights")
    @classmethod
    def _names_differ(cls, weights: tuple[StageWeight, ...]) -> tuple[StageWeight, ...]:
        names = [weight.name for weight in weights]
        if not names or len(set(names)) < len(names):
            raise InvalidValue(
                "weights must have different names, at least one; "
                f"got {', '.join(names) or 'none'}. Name each stage once."
            )
        return weights

    def divide(self, budget: Budget) -> dict[str, Budget]:
        """Epsilon by weight over all stages, delta by weight over those that use it."""
        whole = sum((stage.weight for stage in self.weights), Fraction(0))
        noisy = sum((stage.weight for stage in self.weights if stage.uses_delta), Fraction(0))
        if budget.delta > 0 and noisy == 0:
            raise InvalidAmount(
                f"delta must be 0 when no stage uses it; got {to_text(budget.delta)}. "
                "Let one stage use delta."
            )
        return {
            stage.name: Budget.of(
                budget.epsilon * stage.weight / whole,
                budget.delta * stage.weight / noisy if stage.uses_delta else 0,
            )
            for stage in self.weights
        }


class Stage(Fact):
    """A part of one release: its share of the charge and its losses at the privacy unit."""

    name: Name
    budget: Budget
    losses: tuple[Loss, ...]


class Charge(Fact):
    """What one plan asks for, protecting whom. Its stages may not ask for more than the whole."""

    release_key: Name
    plan_hash: Name
    unit: PrivacyUnit
    budget: Budget
    stages: tuple[Stage, ...]
    actor: Words = ""
    purpose: Words = ""

    @model_validator(mode="after")
    def _stages_within(self) -> Self:
        epsilon = sum((stage.budget.epsilon for stage in self.stages), Fraction(0))
        delta = sum((stage.budget.delta for stage in self.stages), Fraction(0))
        if epsilon > self.budget.epsilon or delta > self.budget.delta:
            raise InvalidAmount(
                f"stages must sum to at most the charge, {self.budget.show_down()}; got epsilon "
                f"{show_up(epsilon)} and delta {show_delta_up(delta)}. Split the charge exactly."
            )
        return self
