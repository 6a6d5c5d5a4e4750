"""What the eigenvalue methods have in common: coordinates in, k private means out."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from opendp.mod import Domain, Measurement, Metric, Transformation
from pydantic import AfterValidator, Field

from accountant.facts import Fact
from accountant.specs import Budget
from dppca_odp.flags import Flag, Note
from dppca_odp.planned import PlannedStage, Size
from dppca_odp.primitives.means import mean_stage
from dppca_odp.primitives.pairs import (
    draw_pairing,
    make_half_squared_differences,
    number_of_pairs,
    pairs_changed,
    ring_degree,
)
from dppca_odp.primitives.stages import Program, make_in_stages
from dppca_odp.primitives.sums import Limits
from dppca_odp.spaces import matrix_shape
from dppca_odp.values import Booleans, Floats

#: Two-sided 95 % point of the standard normal distribution.
NORMAL_95 = 1.959963984540054


#: A chance from here on is called likely, below EVEN not likely, and uncertain between.
LIKELY, EVEN = 0.95, 0.5


def _one_or_even(degree: int) -> int:
    if degree != 1 and degree % 2:
        raise ValueError(f"degree must be 1 or even; got {degree}. Use 1 or 16.")
    return degree


Degree = Annotated[int, Field(ge=1), AfterValidator(_one_or_even)]
NoiseAllocation = Literal["equal", "minimum-variance"]
EXPONENTS: dict[NoiseAllocation, float] = {"equal": 1.0, "minimum-variance": 0.5}


class Estimate(NamedTuple):
    """What a method answers: released numbers only."""

    values: Floats
    """k estimates before post-processing."""
    noise_scales: Floats
    """The standard deviation of the last Gaussian noise in each."""
    lower: Floats
    upper: Floats
    """The range that each mean was taken over."""
    warnings: tuple[Note, ...]
    """What the analyst should know, each drawn from released flags."""
    flags: tuple[tuple[Flag, ...], ...] = ()
    """What is known of each component; empty if the method looks for nothing."""
    own_interval: tuple[Floats, Floats] | None = None
    """In place of a symmetric noise interval."""
    bulk: Floats | None = None
    """Variances of the bulk, if the method finds some before the mean; 0 where none is clear."""

    def flagged(self, flag: Flag) -> Booleans:
        """Which components have this flag."""
        return np.array([flag in raised for raised in self.flags] or [False] * len(self.values))

    @property
    def noise_interval(self) -> tuple[Floats, Floats]:
        """Where the estimates would be without the last Gaussian noise, 95 times in 100."""
        if self.own_interval:
            return self.own_interval
        reach = NORMAL_95 * self.noise_scales
        return np.maximum(self.values - reach, 0.0), np.maximum(self.values + reach, 0.0)


class ScaleOutlook(Fact):
    """Whether a method that looks for scales will likely find them; known before it runs."""

    chance: float
    """That the scales of all components are found, were their columns Gaussian."""
    reason: str
    """What the chance goes by, in public numbers."""

    @property
    def verdict(self) -> str:
        """The chance in words."""
        if self.chance < EVEN:
            return "not likely"
        return "uncertain" if self.chance < LIKELY else "likely"

    @property
    def is_poor(self) -> bool:
        """Whether it must be said before anything is paid."""
        return self.verdict != "likely"

    def sentence(self, components: int) -> str:
        """The verdict, the chance and the reason."""
        count = f"all {components} scales" if components > 1 else "the scale"
        chance = f"chance {in_percent(self.chance)} for Gaussian columns"
        return f"{self.verdict} to find {count} ({chance}): {self.reason}."


def in_percent(chance: float) -> str:
    """A chance in percent, never said to be certain."""
    if chance < 0.01 or chance > 0.99:
        return "below 1 %" if chance < 0.5 else "above 99 %"
    return f"{100 * chance:.0f} %"


class MeanPairs(NamedTuple):
    """How many pairs a mean is over, and how many of them a person can change."""

    pairs: int
    d_in: int


class EigenvalueMethod(Fact, ABC):
    """The public parameters of a method, its stages, and what it asks in them.

    A method gets rows, as coordinates along directions, and draws pairs of its own. ``share`` is
    the exact budget of the release.
    """

    expectation: ClassVar[str]
    """What ``expected_noise`` is, in words."""

    def check(self, components: int) -> None:
        """Refuse a number of components that the parameters do not suit.

        Raises:
            ValueError: there is one parameter for each of another number.
        """

    def fitted_degree(self, rows: int) -> int:
        """How many pairs of the mean each of so many rows is in: disjoint pairs."""
        return 1

    def relative_sampling(self, rows: int) -> float:
        """How far the sample is from a Gaussian population, as a share of the variance."""
        return math.sqrt(2 / rows * (1 + 1 / self.fitted_degree(rows)))

    def mean_pairs(self, size: Size) -> MeanPairs:
        """Those of a mean over all pairs."""
        degree = self.fitted_degree(size.rows)
        return MeanPairs(
            pairs=number_of_pairs(size.rows, degree),
            d_in=pairs_changed(size.rows, degree, size.rows_per_person),
        )

    @abstractmethod
    def expected_noise(self, share: Budget, size: Size, eigenvalues: npt.ArrayLike) -> Floats:
        """The noise scales to expect of Gaussian columns with these variances."""

    def scale_outlook(self, share: Budget, size: Size) -> ScaleOutlook | None:
        """Whether scales will be found; none of a method that cannot miss them."""
        return None

    def fitting_variances(self, components: int) -> Floats:
        """Those of Gaussian columns that the constants suit; any, without constants."""
        return np.ones(components)

    def cautions(self, share: Budget, size: Size) -> Iterator[str]:
        """Why values will likely be noise, where public numbers alone say so."""
        outlook = self.scale_outlook(share, size)
        if outlook and outlook.is_poor:
            yield outlook.sentence(size.components)
            return
        fitting = self.fitting_variances(size.components)
        times = (self.expected_noise(share, size, fitting) / fitting).max()
        if times >= 1:
            yield (
                f"noise (sd) of {times:.2g} times a variance that its constants suit: values will "
                "be noise."
            )

    @abstractmethod
    def stages(self, share: Budget, size: Size) -> tuple[PlannedStage, ...]:
        """The stages with their exact shares and losses at the privacy unit."""

    @abstractmethod
    def program(
        self, input_domain: Domain, input_metric: Metric, *, share: Budget, rows_per_person: int
    ) -> Program[Estimate]:
        """What the method asks of coordinates (Hamming distance over rows), and makes of it."""

    def make(
        self, input_domain: Domain, input_metric: Metric, *, share: Budget, rows_per_person: int
    ) -> Measurement:
        """The method alone, from coordinates to an Estimate."""
        size = Size(*matrix_shape(input_domain, input_metric), rows_per_person)
        run = self.program(input_domain, input_metric, share=share, rows_per_person=rows_per_person)
        return make_in_stages(
            input_domain,
            input_metric,
            d_in=rows_per_person,
            stages=[line.stage for line in self.stages(share, size)],
            run=run,
        )


class SourceMethod(EigenvalueMethod):
    """A method of the source, with its pairs and its noise unless others are asked for."""

    degree: Annotated[Degree, Field(exclude_if=lambda given: given == 1)] = 1
    """1: disjoint pairs. Even: a ring for the mean, each row in so many pairs (fewer in a small
    table); no privacy cost."""
    noise_allocation: Annotated[
        NoiseAllocation, Field(exclude_if=lambda given: given == "equal")
    ] = "equal"
    """Noise of each mean in proportion to its range, or with the least total variance."""

    @property
    def exponent(self) -> float:
        """How the noise of a mean grows with its range: theta, see ``primitives/sums.py``."""
        return EXPONENTS[self.noise_allocation]

    def fitted_degree(self, rows: int) -> int:
        """The degree that so many rows allow.

        Raises:
            ValueError: a ring of fewer than 3 rows.
        """
        return 1 if self.degree == 1 else ring_degree(rows, self.degree)


def draw_pairs(input_domain: Domain, input_metric: Metric, *, degree: int) -> Transformation:
    """Half squared differences of pairs on a fresh random order."""
    rows, _ = matrix_shape(input_domain, input_metric)
    pairing = draw_pairing(rows, degree)
    return make_half_squared_differences(input_domain, input_metric, pairing=pairing)


def noise_of_means(
    share: Budget, ranges: npt.ArrayLike, over: MeanPairs, *, exponent: float
) -> Floats:
    """Noise scales of a Gaussian mean of values with such ranges over these pairs."""
    widths = np.asarray(ranges, dtype=np.float64)
    limits = Limits.allocated(0, widths, len(widths), exponent)
    stage = mean_stage(share, columns=len(widths), d_in=over.d_in, units=limits.units)
    return limits.noise(stage.scale, over.pairs)
