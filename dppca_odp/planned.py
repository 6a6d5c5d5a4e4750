"""What a plan is made of: releases with weights, cut into stages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Annotated, Any, NamedTuple, Self

from opendp.mod import Domain, Measurement, Metric
from pydantic import BeforeValidator, Field, PlainSerializer, model_validator

from accountant.amounts import Amount, to_text
from accountant.facts import Fact, Name
from accountant.specs import Budget, PrivacyUnit, Split, Stage
from dppca_odp.columns import Label
from dppca_odp.primitives.stages import Program, make_in_stages


def _sorted_by_name(given: Any) -> Any:
    if isinstance(given, tuple):
        return given
    if not isinstance(given, dict):
        raise ValueError(
            f"weights must be an object of stages and amounts; got {type(given).__name__}. "
            'Write {"stage": "2"}.'
        )
    return tuple(sorted(given.items()))


#: Weights of some stages by name, as an object in JSON: the others keep their defaults.
StageWeights = Annotated[
    tuple[tuple[Name, Amount], ...],
    BeforeValidator(_sorted_by_name, json_schema_input_type=dict[str, Amount]),
    PlainSerializer(lambda pairs: {name: to_text(weight) for name, weight in pairs}),
    Field(exclude_if=lambda given: not given),
]


RingDegree = Annotated[
    int,
    Field(
        ge=2,
        multiple_of=2,
        description="Each row is in this many pairs (fewer when the table is small); no privacy "
        "cost.",
    ),
]


def reweighted(defaults: Split, weights: StageWeights) -> Split:
    """The split with these weights in place of some of its own.

    Raises:
        ValueError: a stage that is not there, or a weight of 0.
    """
    known = ", ".join(stage.name for stage in defaults.weights)
    given = dict(weights)
    for name, weight in given.items():
        if name not in [stage.name for stage in defaults.weights] or not weight:
            raise ValueError(
                f"weights must be above 0, of the stages {known}; got {to_text(weight)} for "
                f"{name}. Use their names."
            )
    return Split(
        weights=tuple(
            stage.model_copy(update={"weight": given.get(stage.name, stage.weight)})
            for stage in defaults.weights
        )
    )


class Weighted(Fact, ABC):
    """What is cut into stages by weights."""

    weights: StageWeights = ()
    """Of some of its stages, in place of their own."""

    @property
    @abstractmethod
    def own_split(self) -> Split:
        """The stages with their own weights."""

    @property
    def split(self) -> Split:
        """The stages with the weights that are given."""
        return reweighted(self.own_split, self.weights)

    @model_validator(mode="after")
    def _weights_suit(self) -> Self:
        _ = self.split  # refuses weights of other stages
        return self


class PlannedStage(Fact):
    """One stage before it runs: what the ledger will hold, and how much noise it adds."""

    stage: Stage
    noise_scale: float | None
    """The noise parameter, where it is public before the data is seen."""
    noise: str
    """What the noise scale measures, in words."""


class Size(NamedTuple):
    """How large a question is: what prices and noise go by."""

    rows: int
    components: int
    rows_per_person: int
    """That one privacy unit can change."""


class Setting(NamedTuple):
    """What is public when a release of a plan meets a table."""

    rows: int
    names: tuple[str, ...]
    """Of the measured columns; the codes of labels stand behind them."""
    components: int
    """Directions that the release finds or stands on."""
    unit: PrivacyUnit
    labels: tuple[Label, ...] = ()

    @property
    def columns(self) -> int:
        """How many are measured."""
        return len(self.names)

    @property
    def size(self) -> Size:
        """Of a question about all components."""
        return Size(self.rows, self.components, self.unit.rows_per_person)


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

    def cautions(self, share: Budget, setting: Setting) -> Iterator[str]:
        """Why it will likely be noise, where public numbers alone say so."""
        yield from ()

    @abstractmethod
    def program(
        self,
        input_domain: Domain,
        input_metric: Metric,
        *,
        share: Budget,
        setting: Setting,
        earlier: Mapping[str, Any],
    ) -> Program[Any]:
        """What it asks of prepared rows, stage by stage, and makes of the answers.

        ``earlier`` holds the answers of earlier releases by name: of those it stands on, at least.
        """

    def make(
        self,
        input_domain: Domain,
        input_metric: Metric,
        *,
        share: Budget,
        setting: Setting,
        earlier: Mapping[str, Any],
    ) -> Measurement:
        """The release alone as an OpenDP measurement, from prepared rows to an answer."""
        return make_in_stages(
            input_domain,
            input_metric,
            d_in=setting.unit.rows_per_person,
            stages=[line.stage for line in self.stages(share, setting)],
            run=self.program(
                input_domain, input_metric, share=share, setting=setting, earlier=earlier
            ),
        )

    @abstractmethod
    def released(self, answer: Any, setting: Setting) -> Any:
        """The record of what its program answered."""
