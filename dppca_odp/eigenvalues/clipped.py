"""The clipped mean: every half squared difference is cut at a public constant.

Source: eigenvalues document, section 2. Difference: one constant, or one for each component.
There is no universally suitable constant: it is public knowledge, or it must be paid for.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from opendp.mod import Domain, Measurement, Metric
from pydantic import Field

from accountant.specs import Budget, Stage
from dppca_odp.eigenvalues.method import (
    Estimate,
    SourceMethod,
    draw_pairs,
    noise_of_means,
)
from dppca_odp.planned import PlannedStage, Size
from dppca_odp.primitives.means import GaussianMean, mean_stage, then_gaussian_mean
from dppca_odp.primitives.stages import Ask, Program
from dppca_odp.spaces import matrix_shape, to_then
from dppca_odp.values import Bound, Floats

PositiveBound = Annotated[Bound, Field(gt=0)]


class Clipped(SourceMethod):
    """Parameters of the clipped mean."""

    expectation: ClassVar[str] = "exact, whatever the columns"
    kind: Literal["clipped"] = "clipped"
    clipping_bound: PositiveBound | Annotated[tuple[PositiveBound, ...], Field(min_length=1)]
    """C > 0, in squared data units: one for all components, or one for each."""

    def bounds(self, components: int) -> tuple[float, ...]:
        """One clipping bound for each component.

        Raises:
            ValueError: a list of another length.
        """
        if isinstance(self.clipping_bound, float):
            return (self.clipping_bound,) * components
        if len(self.clipping_bound) != components:
            raise ValueError(
                f"clipping_bound must be one number or one for each of {components} components; "
                f"got {len(self.clipping_bound)}. Give one number, or as many as components."
            )
        return self.clipping_bound

    def check(self, components: int) -> None:
        """Refuse clipping bounds of another number."""
        self.bounds(components)

    def stages(self, share: Budget, size: Size) -> tuple[PlannedStage, ...]:
        """One stage: the mean."""
        over = self.mean_pairs(size)
        bounds = self.bounds(size.components)
        loss = mean_stage(share, columns=size.components, d_in=over.d_in).loss
        noise = noise_of_means(share, bounds, over, exponent=self.exponent)
        stage = Stage(name="mean", budget=share, losses=(loss,))
        return (
            PlannedStage(
                stage=stage,
                noise_scale=float(noise.max()),
                noise="standard deviation of the largest eigenvalue noise",
            ),
        )

    def expected_noise(self, share: Budget, size: Size, eigenvalues: npt.ArrayLike) -> Floats:
        """That of the clipping bounds, whatever the eigenvalues: exact."""
        over = self.mean_pairs(size)
        return noise_of_means(share, self.bounds(size.components), over, exponent=self.exponent)

    def fitting_variances(self, components: int) -> Floats:
        """A quarter of the bounds: clipping takes 8 % of such a variance."""
        return np.array(self.bounds(components)) / 4

    def program(
        self, input_domain: Domain, input_metric: Metric, *, share: Budget, rows_per_person: int
    ) -> Program[Estimate]:
        """One question: the mean of min(w, C). W is never negative: 0 clips nothing below."""
        rows, components = matrix_shape(input_domain, input_metric)
        pairs = draw_pairs(input_domain, input_metric, degree=self.fitted_degree(rows))
        upper = np.array(self.bounds(components))
        lower = np.zeros(components)
        clipped_mean = pairs >> then_gaussian_mean(
            lower=lower,
            upper=upper,
            share=share,
            d_in=pairs.map(rows_per_person),
            exponent=self.exponent,
        )

        def clip(ask: Ask) -> Estimate:
            mean: GaussianMean = ask(clipped_mean)
            return Estimate(mean.values, mean.noise_scales, lower, upper, ())

        return clip


def make_clipped_mean(
    input_domain: Domain,
    input_metric: Metric,
    *,
    method: Clipped,
    share: Budget,
    rows_per_person: int,
) -> Measurement:
    """Means of min(w, C), one for each component, with Gaussian noise.

    ==================  ==================================================
    input domain        matrices, n rows by k, coordinates along directions
    input metric        Hamming distance over rows
    output              Estimate, k values in squared data units
    output measure      approximate differential privacy
    privacy map         1..rows_per_person -> that of the mean, at most the share;
                        0 -> (0, 0); beyond: error
    cost                n k; N k on a ring
    ==================  ==================================================

    Proof: one Gaussian mean on [0, C_l], at the share's delta, over N pairs: m = floor(n/2)
    disjoint ones, of which c rows change at most c, or a ring of degree d, of which they change at
    most c d of n d/2. So a mean moves by Delta_l = c C_l / m, or 2 c C_l / n.
    Noise: sqrt(k) Delta_l / mu, the source's sigma_C at c = 1 on disjoint pairs; with minimum
    variance sqrt(Delta_l sum_j Delta_j) / mu.
    Source: eigenvalues document, section 2.

    Raises:
        ValueError: clipping bounds of another number than components; a share without delta.

    >>> from dppca_odp.spaces import matrix_domain, rows_metric
    >>> share = Budget.of("1", "1e-6")
    >>> m = make_clipped_mean(matrix_domain(500, 3), rows_metric(),
    ...     method=Clipped(clipping_bound=50), share=share, rows_per_person=1)
    >>> 0.999999 < m.map(1)[0] < 1 and m.map(0) == (0, 0)
    True
    """
    return method.make(input_domain, input_metric, share=share, rows_per_person=rows_per_person)


then_clipped_mean: Any = to_then(make_clipped_mean)
