"""The scree release: from rows, through coordinates along directions, to private eigenvalues."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from opendp.mod import Domain, Measurement, Metric
from pydantic import Field

from accountant.specs import Budget
from dppca_odp.columns import Label
from dppca_odp.earlier import AXES, StandsOn, find_loadings, named
from dppca_odp.eigenvalues.adaptive import Adaptive
from dppca_odp.eigenvalues.clipped import Clipped
from dppca_odp.eigenvalues.huber import Huber
from dppca_odp.eigenvalues.method import Estimate
from dppca_odp.eigenvalues.pmwm import PMWM
from dppca_odp.flags import Flag
from dppca_odp.planned import PlannedRelease, PlannedStage, Setting
from dppca_odp.primitives.columns import (
    make_leading_columns,
    make_projection,
    then_projection,
)
from dppca_odp.primitives.postprocess import (
    nonincreasing,
    nonnegative,
    proportions_of_variance,
)
from dppca_odp.primitives.stages import Program, program_after
from dppca_odp.releases import ReleasedScree
from dppca_odp.spaces import to_then

Method = Annotated[Adaptive | Clipped | PMWM | Huber, Field(discriminator="kind")]


class Scree(PlannedRelease):
    """Private eigenvalues as a release of a plan."""

    kind: Literal["scree"] = "scree"
    method: Method = Adaptive()
    directions: StandsOn
    nonincreasing: bool = False
    """Report the nearest nonincreasing sequence; costs nothing."""

    def check(self, *, columns: int, components: int, labels: tuple[Label, ...]) -> None:
        """Refuse parameters for another number of components."""
        self.method.check(components)

    def stages(self, share: Budget, setting: Setting) -> tuple[PlannedStage, ...]:
        """The method's stages."""
        return self.method.stages(share, setting.size)

    def cautions(self, share: Budget, setting: Setting) -> Iterator[str]:
        """The method's."""
        return self.method.cautions(share, setting.size)

    def program(
        self,
        input_domain: Domain,
        input_metric: Metric,
        *,
        share: Budget,
        setting: Setting,
        earlier: Mapping[str, Any],
    ) -> Program[Estimate]:
        """The method's, asked about coordinates of the measured columns along the directions."""
        measured = make_leading_columns(input_domain, input_metric, columns=setting.columns)
        loadings = find_loadings(self.directions, earlier, columns=setting.columns)
        coordinates = measured >> then_projection(directions=loadings)
        method = self.method.program(
            coordinates.output_domain,
            coordinates.output_metric,
            share=share,
            rows_per_person=setting.unit.rows_per_person,
        )
        return program_after(coordinates, method)

    def stand_in(self, setting: Setting) -> Estimate:
        """Variances of 1, without noise."""
        one, zero = np.ones(setting.components), np.zeros(setting.components)
        return Estimate(values=one, noise_scales=zero, lower=zero, upper=one, warnings=())

    def columns_of(self, setting: Setting) -> tuple[str, ...]:
        """The names of its components, where these are columns."""
        return setting.names if self.directions == AXES else ()

    def released(self, answer: Estimate, setting: Setting) -> ReleasedScree:
        """The eigenvalues after post-processing, and what the raw values were."""
        values = nonnegative(answer.values)
        if self.nonincreasing:
            values = nonincreasing(values)
        low, high = answer.noise_interval
        found_in_order = isinstance(self.directions, str) and self.directions != AXES
        notes = [note.told(self.columns_of(setting)) for note in answer.warnings]
        return ReleasedScree(
            name=self.name,
            method=self.method.kind,
            directions=named(self.directions),
            values=tuple(values),
            proportions=tuple(proportions_of_variance(values)),
            raw=tuple(answer.values),
            noise_scales=tuple(answer.noise_scales),
            lower=tuple(answer.lower),
            upper=tuple(answer.upper),
            warnings=(*notes, *(out_of_order(answer) if found_in_order else ())),
            noise_low=tuple(low),
            noise_high=tuple(high),
            sampling_scales=tuple(self.method.relative_sampling(setting.rows) * values),
            flags=answer.flags,
        )


def out_of_order(answer: Estimate) -> Iterator[str]:
    """That a later component is clearly above an earlier one, and how to report them then.

    Directions come in the order of noisy eigenvalues of another matrix, and of scaled columns.
    """
    low, high = answer.noise_interval
    tops = np.where(answer.flagged(Flag.NOT_FOUND), np.inf, high)
    above = np.flatnonzero(low[1:] > np.minimum.accumulate(tops)[:-1]) + 1
    if above.size:
        later, earlier = int(above[0]), int(tops[: above[0]].argmin())
        order = ", ".join(str(k + 1) for k in np.argsort(-answer.values, kind="stable"))
        yield (
            f"out of order: component {later + 1} is clearly above component {earlier + 1}. Report "
            f"components, with their loadings, in the order {order}: it costs nothing."
        )


def make_scree(
    input_domain: Domain,
    input_metric: Metric,
    *,
    method: Method,
    directions: npt.ArrayLike,
    share: Budget,
    rows_per_person: int,
) -> Measurement:
    """Private eigenvalues along public or released directions.

    ==================  ==================================================
    input domain        matrices, n rows by p columns
    input metric        Hamming distance over rows
    output              Estimate, k values in squared data units
    output measure      approximate differential privacy
    privacy map         1..rows_per_person -> the method's; 0 -> (0, 0); beyond: error
    cost                n p k and the method's
    ==================  ==================================================

    Proof: a chain. Projection is stable row by row; the method's proof is in its file.
    Source: eigenvalues document, section 1.

    Raises:
        ValueError: as the parts of the chain.
    """
    coordinates = make_projection(input_domain, input_metric, directions=directions)
    chain: Measurement = coordinates >> method.make(
        coordinates.output_domain,
        coordinates.output_metric,
        share=share,
        rows_per_person=rows_per_person,
    )
    return chain


then_scree: Any = to_then(make_scree)
