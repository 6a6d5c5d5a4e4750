"""What a plan is made of: releases with weights, cut into stages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction
from typing import Annotated, Any, NamedTuple

from opendp.mod import Domain, Measurement, Metric
from pydantic import Discriminator, Field, Tag

from accountant.amounts import Amount
from accountant.facts import Fact, Name
from accountant.specs import Budget, PrivacyUnit, Stage
from dppca_odp.columns import Label
from dppca_odp.primitives.stages import Program, make_in_stages
from dppca_odp.values import Finite, Floats

#: Directions that a release stands on: the name of an earlier release of directions, or public
#: ones, a row for each column.
StandsOn = Annotated[
    Annotated[str, Tag("name")] | Annotated[tuple[tuple[Finite, ...], ...], Tag("matrix")],
    Discriminator(lambda given: "name" if isinstance(given, str) else "matrix"),
]


def named(directions: StandsOn) -> str:
    """The release of directions, or "given"."""
    return directions if isinstance(directions, str) else "given"


class PlannedStage(Fact):
    """One stage before it runs: what the ledger will hold, and how much noise it adds."""

    stage: Stage
    noise_scale: float | None
    """The noise parameter, where it is public before the data is seen."""
    noise: str
    """What the noise scale measures, in words."""


class Setting(NamedTuple):
    """What is public when a release of a plan meets a table."""

    rows: int
    columns: int
    """Measured columns; the codes of labels stand behind them."""
    components: int
    """Directions that the release finds or stands on."""
    unit: PrivacyUnit
    labels: tuple[Label, ...] = ()


class PlannedRelease(Fact, ABC):
    """One release of a plan, and its weight in the plan's budget."""

    name: Name
    weight: Annotated[Amount, Field(gt=0)] = Fraction(1)

    @abstractmethod
    def check(self, *, columns: int, components: int, labels: tuple[Label, ...]) -> None:
        """Refuse a plan that the release does not suit.

        Raises:
            ValueError: it asks for more than the plan declares.
        """

    @abstractmethod
    def stages(self, share: Budget, setting: Setting) -> tuple[PlannedStage, ...]:
        """The stages that a share of the budget pays for, with losses at the privacy unit."""

    @abstractmethod
    def program(
        self,
        input_domain: Domain,
        input_metric: Metric,
        *,
        share: Budget,
        setting: Setting,
        directions: Floats,
    ) -> Program[Any]:
        """What it asks of prepared rows, stage by stage, and makes of the answers.

        ``directions`` are those it stands on, p by k, for a release that stands on some.
        """

    def make(
        self,
        input_domain: Domain,
        input_metric: Metric,
        *,
        share: Budget,
        setting: Setting,
        directions: Floats,
    ) -> Measurement:
        """The release alone as an OpenDP measurement, from prepared rows to an answer."""
        return make_in_stages(
            input_domain,
            input_metric,
            d_in=setting.unit.rows_per_person,
            stages=[line.stage for line in self.stages(share, setting)],
            run=self.program(
                input_domain, input_metric, share=share, setting=setting, directions=directions
            ),
        )

    @abstractmethod
    def released(self, answer: Any, setting: Setting) -> Any:
        """The record of what its program answered."""
