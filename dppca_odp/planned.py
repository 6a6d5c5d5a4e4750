"""What a plan is made of: releases with weights, cut into priced stages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction
from typing import Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from opendp.mod import Domain, Measurement, Metric
from pydantic import BaseModel, ConfigDict, Field

from accountant.amounts import Amount
from accountant.specs import Budget, PrivacyUnit, Stage

Floats = npt.NDArray[np.float64]
Finite = Annotated[float, Field(allow_inf_nan=False)]


class PlannedStage(NamedTuple):
    """One stage before it runs: what the ledger will hold, and how much noise it adds."""

    stage: Stage
    noise_scale: float | None
    """The noise parameter, where it is public before the data is seen."""
    noise: str
    """What the noise scale measures, in words."""


class Setting(NamedTuple):
    """What is public when a plan meets a table."""

    rows: int
    columns: int
    unit: PrivacyUnit


class PlannedRelease(BaseModel, ABC):
    """One release of a plan, and its weight in the plan's budget."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, Field(min_length=1)]
    weight: Annotated[Amount, Field(gt=0)] = Fraction(1)

    @abstractmethod
    def stages(self, share: Budget, setting: Setting, components: int) -> tuple[PlannedStage, ...]:
        """The stages that ``share`` pays for, with losses at the privacy unit."""

    @abstractmethod
    def make(
        self,
        input_domain: Domain,
        input_metric: Metric,
        *,
        share: Budget,
        unit: PrivacyUnit,
        directions: Floats,
    ) -> Measurement:
        """The OpenDP measurement, from prepared rows to the release."""

    @abstractmethod
    def released(self, answer: Any, share: Budget, setting: Setting) -> Any:
        """The record of what the measurement answered."""
