"""PMWM, the private modified winsorized mean: private cutoffs, then a noisy winsorized mean.

Source: eigenvalues document, section 3, after Ramsay and Spicker (2025). Differences: the grid's
unit and number of steps are public parameters; geometric instead of exponential noise.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Any, Literal, NamedTuple, Self

import numpy as np
from opendp.mod import Domain, Measurement, Metric
from pydantic import Field, model_validator

from accountant.losses import PureLoss
from accountant.specs import Budget, Split, Stage, StageWeight
from dppca_odp.eigenvalues.method import EigenvalueMethod, Estimate
from dppca_odp.planned import PlannedStage, Weighted
from dppca_odp.primitives.means import GaussianMean, mean_stage, then_gaussian_mean
from dppca_odp.primitives.noise import lowered
from dppca_odp.primitives.pairs import make_part_of_pairs
from dppca_odp.primitives.quantiles import Quantile, SearchGrid, then_unbounded_quantile
from dppca_odp.primitives.stages import Ask, Program
from dppca_odp.primitives.sums import decode_noise
from dppca_odp.spaces import matrix_shape, to_then
from dppca_odp.values import Bound, Finite, Floats, Positive

#: The source's rule: half of epsilon for the 2k quantiles, half and all of delta for the mean.
SPLIT = Split(
    weights=(
        StageWeight(name="quantile", weight=Fraction(1), uses_delta=False),
        StageWeight(name="mean", weight=Fraction(1), uses_delta=True),
    )
)


class PMWM(Weighted, EigenvalueMethod):
    """Parameters of the private modified winsorized mean."""

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

    def stages(
        self, share: Budget, *, pairs: int, components: int, d_in: int
    ) -> tuple[PlannedStage, ...]:
        """Two stages: 2k quantiles, and the mean."""
        shares = self.split.divide(share)
        _, for_mean = self.parts(pairs)
        each = shares["quantile"].epsilon / (2 * components)
        planned = mean_stage(shares["mean"], columns=components, d_in=d_in)
        most = decode_noise(
            planned.scale,
            lower=self.lower_bound,
            upper=self.upper_bound,
            pairs=len(for_mean),
            columns=components,
        )
        quantile = Stage(
            name="quantile",
            budget=shares["quantile"],
            losses=(PureLoss(epsilon=each, count=2 * components),),
        )
        mean = Stage(name="mean", budget=shares["mean"], losses=(planned.loss,))
        return (
            PlannedStage(
                stage=quantile,
                noise_scale=float(2 * d_in / each),
                noise="scale of the noise on counts of pairs",
            ),
            PlannedStage(
                stage=mean,
                noise_scale=float(most.max()),
                noise="at most: standard deviation if the cutoffs are the bounds",
            ),
        )

    def program(
        self, input_domain: Domain, input_metric: Metric, *, share: Budget, d_in: int
    ) -> Program[Estimate]:
        """Two quantiles of each component, then the mean between them."""
        pairs, components = matrix_shape(input_domain, input_metric)
        for_quantiles, for_mean = self.parts(pairs)
        shares = self.split.divide(share)
        each = shares["quantile"].epsilon / (2 * components)
        rate = lowered(Fraction(lowered(each)) / (2 * d_in))
        trim = min(max(self.trim_constant / len(for_quantiles), self.trim_fraction), 0.49)
        points = self.grid.points()
        quantile_pairs = make_part_of_pairs(
            input_domain, input_metric, start=for_quantiles.start, stop=for_quantiles.stop
        )
        mean_pairs = make_part_of_pairs(
            input_domain, input_metric, start=for_mean.start, stop=for_mean.stop
        )

        def quantile(column: int, level: float) -> Measurement:
            search: Measurement = quantile_pairs >> then_unbounded_quantile(
                column=column,
                quantile=level,
                points=points,
                epsilon_target=rate,
                epsilon_counts=rate,
            )
            return search

        searches = [
            (quantile(column, trim), quantile(column, 1 - trim)) for column in range(components)
        ]

        def winsorize(ask: Ask) -> Estimate:
            cutoffs = choose_cutoffs([(ask(low), ask(high)) for low, high in searches], self)
            mean: GaussianMean = ask(
                mean_pairs
                >> then_gaussian_mean(
                    lower=cutoffs.lower, upper=cutoffs.upper, share=shares["mean"], d_in=d_in
                )
            )
            return Estimate(
                mean.values, mean.noise_scales, cutoffs.lower, cutoffs.upper, cutoffs.warnings
            )

        return winsorize


class Cutoffs(NamedTuple):
    """Released limits of the winsorized mean, and what the search said."""

    lower: Floats
    upper: Floats
    warnings: tuple[str, ...]


def make_pmwm(
    input_domain: Domain, input_metric: Metric, *, method: PMWM, share: Budget, d_in: int
) -> Measurement:
    """Winsorized means between private cutoffs, one for each component.

    ==================  ==================================================
    input domain        matrices, m pairs by k, half squared differences
    input metric        Hamming distance over pairs
    output              Estimate, k values in squared data units
    output measure      approximate differential privacy
    privacy map         1..d_in -> the sum of the stages, at most the share; 0 -> (0, 0);
                        beyond d_in: error
    cost                m k, and up to 2k searches of the grid
    ==================  ==================================================

    Proof: an adaptive composition of 2k quantiles, each of epsilon_quantile / 2k, and a Gaussian
    mean whose limits are functions of their answers. Rows are used in both stages or split;
    a changed row is charged for both either way.
    Noise: sqrt(k) d_in (U_l - L_l) / (m_M mu).
    Source: eigenvalues document, section 3.

    Raises:
        ValueError: too few pairs to split; a share without delta.

    >>> from dppca_odp.spaces import matrix_domain, rows_metric
    >>> m = make_pmwm(matrix_domain(500, 3), rows_metric(), d_in=1,
    ...     method=PMWM(lower_bound=0, upper_bound=9), share=Budget.of("1", "1e-6"))
    >>> 0.999999 < m.map(1)[0] < 1 and m.map(0) == (0, 0)
    True
    """
    return method.make(input_domain, input_metric, share=share, d_in=d_in)


def choose_cutoffs(found: list[tuple[Quantile, Quantile]], method: PMWM) -> Cutoffs:
    """The limits of the mean from released quantiles: clamp them to [a, b], reset if crossed."""
    low, high = method.lower_bound, method.upper_bound
    lower = np.clip([below.value for below, _ in found], low, high)
    upper = np.clip([above.value for _, above in found], low, high)
    crossed = upper < lower
    warnings = [
        f"component {number}: a cutoff reached the end of the search grid "
        f"({method.grid.points()[-1]:.6g}). Raise the grid's unit, beta or steps."
        for number, (below, above) in enumerate(found, start=1)
        if below.capped or above.capped
    ]
    warnings += [
        f"component {number}: the cutoffs crossed, so the mean runs over the bounds "
        f"[{low:.6g}, {high:.6g}] and carries their noise."
        for number in np.flatnonzero(crossed) + 1
    ]
    return Cutoffs(np.where(crossed, low, lower), np.where(crossed, high, upper), tuple(warnings))


then_pmwm: Any = to_then(make_pmwm)
