"""Who is protected, what may be spent, how it is split, and what one release asks for."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from functools import reduce
from operator import add, le, sub
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator

from accountant.amounts import (
    Amount,
    root_above,
    root_below,
    show_delta_down,
    show_delta_up,
    show_down,
    show_up,
    to_text,
)
from accountant.errors import InvalidAmount, InvalidValue
from accountant.facts import Count, Fact, Name
from accountant.losses import Loss, check_delta


class PrivacyUnit(Fact):
    """All rows of one person, of which there are at most `rows_per_person`, are replaced."""

    relation: Literal["change-one"] = "change-one"
    rows_per_person: Annotated[Count, Field(le=1_000_000)]

    def __str__(self) -> str:
        rows = "row" if self.rows_per_person == 1 else "rows"
        return f"one person, at most {self.rows_per_person} {rows} ({self.relation})"


class _Amounts(Fact):
    """Exact amounts that add, and fit, coordinate by coordinate."""

    @classmethod
    def of(cls, *amounts: Any) -> Self:
        """Of exact amounts, in order. Raises InvalidAmount."""
        raise NotImplementedError

    @property
    def coordinates(self) -> tuple[Fraction, ...]:
        """The amounts, in order."""
        raise NotImplementedError

    def __add__(self, other: _Amounts) -> Self:
        return self.of(*map(add, self.coordinates, other.like(self)))

    def plus(self, others: Iterable[_Amounts]) -> Self:
        """The sum with all of these. Amounts are added, not facts: thousands take no time."""
        more = [other.like(self) for other in others]
        sums = (reduce(add, amounts) for amounts in zip(self.coordinates, *more, strict=True))
        return self.of(*sums) if more else self

    def __sub__(self, other: _Amounts) -> Self:
        return self.of(*map(sub, self.coordinates, other.like(self)))

    def beyond(self, other: _Amounts) -> Self:
        """By how much this passes the other, in each coordinate; zero where it fits."""
        passed = map(sub, self.coordinates, other.like(self))
        return self.of(*(max(amount, 0) for amount in passed))

    def fits_within(self, other: _Amounts) -> bool:
        """Whether every coordinate is at most the other's."""
        return all(map(le, self.coordinates, other.like(self)))

    def times_within(self, other: _Amounts) -> int:
        """How often this fits in the other; 0 of nothing, which never fills it."""
        pairs = zip(self.coordinates, other.like(self), strict=True)
        return min((most // one for one, most in pairs if one), default=0)

    def like(self, other: _Amounts) -> tuple[Fraction, ...]:
        """The amounts, if both are counted by one rule; InvalidAmount otherwise."""
        if type(other) is not type(self):
            raise InvalidAmount(
                f"budgets must be counted by one rule; got {other} and {self}. Use the grant's."
            )
        return self.coordinates


class Budget(_Amounts):
    """An exact pair (epsilon, delta)."""

    epsilon: Amount
    delta: Amount

    _delta_below_one = field_validator("delta")(check_delta)

    @classmethod
    def of(cls, epsilon: Any, delta: Any) -> Self:
        """The budget of two exact amounts. Raises InvalidAmount."""
        return cls(epsilon=epsilon, delta=delta)

    @property
    def coordinates(self) -> tuple[Fraction, Fraction]:
        """Both amounts."""
        return self.epsilon, self.delta

    @property
    def is_empty(self) -> bool:
        """Whether nothing can be paid from it."""
        return 0 in self.coordinates

    def show_up(self) -> str:
        """In words, rounded up: for what is asked or spent."""
        return f"epsilon {show_up(self.epsilon)} and delta {show_delta_up(self.delta)}"

    def show_down(self) -> str:
        """In words, rounded down: for what is granted or remains."""
        return f"epsilon {show_down(self.epsilon)} and delta {show_delta_down(self.delta)}"

    def __str__(self) -> str:
        return f"epsilon {to_text(self.epsilon)} and delta {to_text(self.delta)}"


class GaussianBudget(_Amounts):
    """What is counted under the rule `gaussian`: three exact amounts, each on its own."""

    mu_squared: Amount
    delta: Amount
    """Set aside for (epsilon, delta) losses: the probability that one tells all."""
    leak: Amount
    """For the rounding of Gaussian noise: the total variation between answers and exact ones."""

    @classmethod
    def of(cls, mu_squared: Any, delta: Any = 0, leak: Any = 0) -> Self:
        """Of three exact amounts. Raises InvalidAmount."""
        return cls(mu_squared=mu_squared, delta=delta, leak=leak)

    @property
    def coordinates(self) -> tuple[Fraction, Fraction, Fraction]:
        """All three amounts."""
        return self.mu_squared, self.delta, self.leak

    @property
    def is_empty(self) -> bool:
        """Whether nothing can be paid from it."""
        return self.mu_squared == 0

    @property
    def mu_above(self) -> Fraction:
        """The mu, rounded up in bit 256."""
        return root_above(self.mu_squared)

    @property
    def mu_below(self) -> Fraction:
        """The mu, rounded down in bit 256."""
        return root_below(self.mu_squared)

    def show_up(self) -> str:
        """In words, rounded up: for what is asked or spent. A leak only where it stands alone."""
        leak = f" and leak {show_delta_up(self.leak)}" if self.is_leak_alone else ""
        return f"mu {show_up(self.mu_above)} and delta {show_delta_up(self.delta)} aside{leak}"

    @property
    def is_leak_alone(self) -> bool:
        """Whether neither of the amounts that people see says what this is."""
        return bool(self.leak and not self.mu_squared and not self.delta)

    def show_down(self) -> str:
        """In words, rounded down: for what is granted or remains."""
        return f"mu {show_down(self.mu_below)} and delta {show_delta_down(self.delta)} aside"

    def __str__(self) -> str:
        leak = f", leak {to_text(self.leak)}" if self.leak else ""
        return f"mu squared {to_text(self.mu_squared)} and delta {to_text(self.delta)} aside{leak}"


NOTHING = Budget.of(0, 0)

AnyBudget = Budget | GaussianBudget
"""What a pool holds: one or the other, by the rule of its grant."""


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
