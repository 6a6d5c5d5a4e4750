"""PMWM, the private modified winsorized mean: private cutoffs, then a noisy winsorized mean.

Source: eigenvalues document, section 3, after Ramsay and Spicker (2025). Differences: the grid's
unit and number of steps are public parameters; geometric instead of exponential noise.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from opendp.mod import Domain, Measurement, Metric
from pydantic import Field, model_validator

from accountant.losses import PureLoss
from accountant.specs import Budget, Split, Stage, StageWeight
from dppca_odp.eigenvalues.method import (
    Estimate,
    MeanPairs,
    SourceMethod,
    draw_pairs,
    noise_of_means,
)
from dppca_odp.eigenvalues.shape import cutoff_of_tail
from dppca_odp.flags import Note
from dppca_odp.planned import PlannedStage, Size, Weighted
from dppca_odp.primitives.means import GaussianMean, mean_stage, then_gaussian_mean
from dppca_odp.primitives.noise import lowered
from dppca_odp.primitives.pairs import make_part_of_pairs, number_of_pairs
from dppca_odp.primitives.quantiles import Quantile, SearchGrid, make_unbounded_quantile
from dppca_odp.primitives.stages import Ask, Program, ask_after
from dppca_odp.primitives.sums import Limits
from dppca_odp.spaces import matrix_shape, to_then
from dppca_odp.values import Bound, Finite, Floats, Positive

#: The source's rule: half of epsilon for the 2k quantiles, half and all of delta for the mean.
SPLIT = Split(
    weights=(
        StageWeight(name="quantile", weight=Fraction(1), uses_delta=False),
        StageWeight(name="mean", weight=Fraction(1), uses_delta=True),
    )
)


class PMWM(Weighted, SourceMethod):
    """Parameters of the private modified winsorized mean."""

    expectation: ClassVar[str] = (
        "at most this: noise often stops a search early, and lower cutoffs have less"
    )
    kind: Literal["pmwm"] = "pmwm"
    lower_bound: Bound
    """a, in squared data units: no cutoff lies below it."""
    upper_bound: Bound
    """b > a: no cutoff lies above it."""
    trim_constant: Positive = 10.0
    """c_trim: trim at least this many pairs, as a share of the pairs used for quantiles."""
    trim_fraction: Annotated[Finite, Field(ge=0, lt=0.5)] = 0.01
    """eta_trim: trim at least this share at either end."""
    pair_rows: Literal["reuse", "split"] = "split"
    """Use all pairs in both stages, or half for the cutoffs and the rest for the mean."""
    grid: SearchGrid = SearchGrid()

    @model_validator(mode="after")
    def _bounds_in_order(self) -> Self:
        if not self.lower_bound < self.upper_bound:
            raise ValueError(
                f"lower_bound must be below upper_bound; "
                f"got {self.lower_bound} and {self.upper_bound}. Swap or widen them."
            )
        return self

    @model_validator(mode="after")
    def _ring_reuses(self) -> Self:
        if self.degree > 1 and self.pair_rows == "split":
            raise ValueError(
                f'pair_rows must be "reuse" with a ring; got "split" and degree {self.degree}. '
                "Only disjoint pairs can be split into halves that share no rows."
            )
        return self

    @property
    def own_split(self) -> Split:
        """The source's rule: quantile and mean, 1 each."""
        return SPLIT

    def parts(self, pairs: int) -> tuple[range, range]:
        """The positions of the pairs used for the cutoffs, and for the mean.

        Raises:
            ValueError: too few pairs to split.
        """
        if self.pair_rows == "reuse":
            return range(pairs), range(pairs)
        if pairs < 2:
            raise ValueError(
                f"pairs must be at least 2 to split; got {pairs}. Use pair_rows 'reuse'."
            )
        return range(pairs // 2), range(pairs // 2, pairs)

    def mean_pairs(self, size: Size) -> MeanPairs:
        """Those of the part for the mean; all of a ring."""
        if self.degree > 1:
            return super().mean_pairs(size)
        _, for_mean = self.parts(number_of_pairs(size.rows, 1))
        return MeanPairs(pairs=len(for_mean), d_in=min(size.rows_per_person, len(for_mean)))

    def stages(self, share: Budget, size: Size) -> tuple[PlannedStage, ...]:
        """Two stages: 2k quantiles, and the mean."""
        rows, components, rows_per_person = size
        shares = self.split.divide(share)
        for_quantiles, _ = self.parts(number_of_pairs(rows, 1))
        d_quantile = min(rows_per_person, len(for_quantiles))
        over = self.mean_pairs(size)
        each = shares["quantile"].epsilon / (2 * components)
        planned = mean_stage(shares["mean"], columns=components, d_in=over.d_in)
        limits = Limits.of(self.lower_bound, self.upper_bound, components)
        quantile = Stage(
            name="quantile",
            budget=shares["quantile"],
            losses=(PureLoss(epsilon=each, count=2 * components),),
        )
        mean = Stage(name="mean", budget=shares["mean"], losses=(planned.loss,))
        return (
            PlannedStage(
                stage=quantile,
                noise_scale=float(2 * d_quantile / each),
                noise="scale of the noise on counts of pairs",
            ),
            PlannedStage(
                stage=mean,
                noise_scale=float(limits.noise(planned.scale, over.pairs).max()),
                noise="at most: standard deviation if the cutoffs are the bounds",
            ),
        )

    def relative_sampling(self, rows: int) -> float:
        """A mean over half of disjoint pairs has half of the rows."""
        used = len(self.parts(number_of_pairs(rows, 1))[1]) / number_of_pairs(rows, 1)
        known = super().relative_sampling(rows)
        return known / math.sqrt(used) if self.fitted_degree(rows) == 1 else known

    def expected_noise(self, share: Budget, size: Size, eigenvalues: npt.ArrayLike) -> Floats:
        """That of the range between the quantiles of Gaussian columns.

        A search that noise stops early finds lower cutoffs, and then there is less noise.
        """
        for_quantiles, _ = self.parts(number_of_pairs(size.rows, 1))
        trim = self.trim(len(for_quantiles))
        last = float(self.grid.points()[-1])
        upper, lower = (
            np.clip(
                np.minimum(np.multiply(eigenvalues, cutoff_of_tail(share_above)), last),
                self.lower_bound,
                self.upper_bound,
            )
            for share_above in (trim, 1 - trim)
        )
        of_mean = self.split.divide(share)["mean"]
        return noise_of_means(of_mean, upper - lower, self.mean_pairs(size), exponent=self.exponent)

    def fitting_variances(self, components: int) -> Floats:
        """That of a Gaussian column whose upper cutoff is the upper bound, or the grid's end."""
        end = min(self.upper_bound, float(self.grid.points()[-1]))
        largest = end / cutoff_of_tail(self.trim_fraction)
        return np.full(components, largest if largest > 0 else 1.0)

    def trim(self, pairs: int) -> float:
        """zeta: the share trimmed at either end."""
        return min(max(self.trim_constant / pairs, self.trim_fraction), 0.49)

    def program(
        self, input_domain: Domain, input_metric: Metric, *, share: Budget, rows_per_person: int
    ) -> Program[Estimate]:
        """Two quantiles of each component, then the mean between them."""
        rows, components = matrix_shape(input_domain, input_metric)
        for_quantiles, for_mean = self.parts(number_of_pairs(rows, 1))
        disjoint = draw_pairs(input_domain, input_metric, degree=1)
        quantile_part, mean_part = (
            make_part_of_pairs(
                disjoint.output_domain, disjoint.output_metric, start=part.start, stop=part.stop
            )
            for part in (for_quantiles, for_mean)
        )
        degree = self.fitted_degree(rows)
        ring = draw_pairs(input_domain, input_metric, degree=degree) if degree > 1 else None
        d_quantile = min(rows_per_person, len(for_quantiles))
        d_mean = self.mean_pairs(Size(rows, components, rows_per_person)).d_in
        shares = self.split.divide(share)
        each = shares["quantile"].epsilon / (2 * components)
        rate = lowered(Fraction(lowered(each)) / (2 * d_quantile))
        trim = self.trim(len(for_quantiles))
        points = self.grid.points()

        def quantile(column: int, level: float) -> Measurement:
            return make_unbounded_quantile(
                quantile_part.output_domain,
                quantile_part.output_metric,
                column=column,
                quantile=level,
                points=points,
                epsilon_target=rate,
                epsilon_counts=rate,
            )

        searches = [
            (quantile(column, trim), quantile(column, 1 - trim)) for column in range(components)
        ]

        def winsorize(ask: Ask) -> Estimate:
            ask_disjoint = ask_after(disjoint, ask)
            ask_quantiles = ask_after(quantile_part, ask_disjoint)
            cutoffs = choose_cutoffs(
                [(ask_quantiles(low), ask_quantiles(high)) for low, high in searches], self
            )
            winsorized_mean = then_gaussian_mean(
                lower=cutoffs.lower,
                upper=cutoffs.upper,
                share=shares["mean"],
                d_in=d_mean,
                exponent=self.exponent,
            )
            mean: GaussianMean = (
                ask(ring >> winsorized_mean) if ring else ask_disjoint(mean_part >> winsorized_mean)
            )
            return Estimate(
                mean.values, mean.noise_scales, cutoffs.lower, cutoffs.upper, cutoffs.warnings
            )

        return winsorize


class Cutoffs(NamedTuple):
    """Released limits of the winsorized mean, and what the search said."""

    lower: Floats
    upper: Floats
    warnings: tuple[Note, ...]


def make_pmwm(
    input_domain: Domain,
    input_metric: Metric,
    *,
    method: PMWM,
    share: Budget,
    rows_per_person: int,
) -> Measurement:
    """Winsorized means between private cutoffs, one for each component.

    ==================  ==================================================
    input domain        matrices, n rows by k, coordinates along directions
    input metric        Hamming distance over rows
    output              Estimate, k values in squared data units
    output measure      approximate differential privacy
    privacy map         1..rows_per_person -> the sum of the stages, at most the share;
                        0 -> (0, 0); beyond: error
    cost                n k (N k on a ring), and up to 2k searches of the grid
    ==================  ==================================================

    Proof: an adaptive composition of 2k quantiles, each of epsilon_quantile / 2k, and a Gaussian
    mean whose limits are functions of their answers. Quantiles use disjoint pairs, of which c
    rows change at most c (on a ring one row would move counts both ways); the mean uses all of
    them, the other half, or a ring of degree d, of which they change at most c d of n d/2. A
    changed row is charged for both stages in any case.
    Noise: sqrt(k) Delta_l / mu with Delta_l = c (U_l - L_l) / m_M, or 2 c (U_l - L_l) / n on a
    ring; with minimum variance sqrt(Delta_l sum_j Delta_j) / mu.
    Source: eigenvalues document, section 3.

    Raises:
        ValueError: too few pairs to split; a share without delta.

    >>> from dppca_odp.spaces import matrix_domain, rows_metric
    >>> m = make_pmwm(matrix_domain(500, 3), rows_metric(), rows_per_person=1,
    ...     method=PMWM(lower_bound=0, upper_bound=9), share=Budget.of("1", "1e-6"))
    >>> 0.999999 < m.map(1)[0] < 1 and m.map(0) == (0, 0)
    True
    """
    return method.make(input_domain, input_metric, share=share, rows_per_person=rows_per_person)


def choose_cutoffs(found: list[tuple[Quantile, Quantile]], method: PMWM) -> Cutoffs:
    """The limits of the mean from released quantiles: clamp them to [a, b], reset if crossed."""
    low, high = method.lower_bound, method.upper_bound
    lower = np.clip([below.value for below, _ in found], low, high)
    upper = np.clip([above.value for _, above in found], low, high)
    crossed = upper < lower
    warnings = [
        Note(
            f"a cutoff reached the end of the search grid ({method.grid.points()[-1]:.6g}). "
            "Raise the grid's unit, beta or steps.",
            (number,),
        )
        for number, (below, above) in enumerate(found, start=1)
        if below.capped or above.capped
    ]
    warnings += [
        Note(
            f"the cutoffs crossed, so the mean runs over the bounds [{low:.6g}, {high:.6g}] and "
            "carries their noise.",
            (int(component) + 1,),
        )
        for component in np.flatnonzero(crossed)
    ]
    return Cutoffs(np.where(crossed, low, lower), np.where(crossed, high, upper), tuple(warnings))


then_pmwm: Any = to_then(make_pmwm)
