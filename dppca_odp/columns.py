"""What is public about the columns of a table, whoever is in it."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from accountant.facts import Fact, Name
from dppca_odp.values import LARGEST_VALUE, Finite, Positive

Value = Annotated[Finite, Field(ge=-LARGEST_VALUE, le=LARGEST_VALUE)]


class Column(Fact):
    """A measured column."""

    name: Name
    lower: Value | None = None
    """Values below count as this."""
    upper: Value | None = None
    """Values above count as this."""
    scale: Positive = 1.0
    """The column is divided by it, so that columns in different units can be compared."""
    missing: Finite | None = None
    """Stands for missing values; without it a table with missing values is refused."""

    @model_validator(mode="after")
    def _bounds_in_order(self) -> Self:
        if self.lower is not None and self.upper is not None and self.lower > self.upper:
            raise ValueError(
                f"lower must not be above upper; got {self.lower} and {self.upper}. Swap them."
            )
        return self

    def bounds(self) -> tuple[float, float]:
        """The interval that values are clamped to, before scaling."""
        return (
            -LARGEST_VALUE if self.lower is None else self.lower,
            LARGEST_VALUE if self.upper is None else self.upper,
        )


class Label(Fact):
    """A column of group labels: never measured, only used to tell groups apart."""

    name: Name
    levels: Annotated[tuple[Name, ...], Field(min_length=1)]
    """The groups. Whatever else stands in the column falls into the rest."""
    rest: Name = "rest"

    @model_validator(mode="after")
    def _levels_differ(self) -> Self:
        if len(set(self.groups)) < len(self.groups):
            raise ValueError(
                f"levels and rest must differ; got {', '.join(self.groups)}. Name each group once."
            )
        return self

    @property
    def groups(self) -> tuple[str, ...]:
        """The levels, then the rest: a group's code is its position."""
        return (*self.levels, self.rest)
