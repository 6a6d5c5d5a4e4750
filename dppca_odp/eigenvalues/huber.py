"""The Huber mean: a private scale for each component, then noisy gradient descent.

Source: eigenvalues document, section 4, after Yu, Ren and Zhou (2024). Difference: the scale's
noise covers both counts that one row moves (see ``primitives/scales.py``).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from opendp.mod import Domain, Measurement, Metric, Transformation
from pydantic import Field, model_validator

from accountant.amounts import Amount
from accountant.losses import PureLoss
from accountant.specs import Budget, Split, Stage, StageWeight
from dppca_odp.eigenvalues.method import (
    EigenvalueMethod,
    Estimate,
    ScaleOutlook,
    draw_pairs,
    mean_pairs,
    noise_of_means,
)
from dppca_odp.planned import PlannedStage, Weighted
from dppca_odp.primitives.means import mean_stage
from dppca_odp.primitives.noise import lowered, make_gaussian_steps
from dppca_odp.primitives.pairs import number_of_pairs, pairs_changed
from dppca_odp.primitives.scales import make_dyadic_scale
from dppca_odp.primitives.stages import Ask, Program, ask_after
from dppca_odp.primitives.sums import (
    decode_means,
    decode_noise,
    make_clamped_sum,
    sum_sensitivity,
)
from dppca_odp.spaces import matrix_shape, to_then
from dppca_odp.values import Finite, Floats, Positive

LEAST_PAIRS = 4
#: Iterates and noise scales are clamped to this, so that no step size overflows.
LARGEST_MEAN = 1e190
#: The median of (w_a - w_b)^2 / 2 in a Gaussian column of variance 1, which a block's is near.
GAUSSIAN_SCALE = 0.266695


class Huber(Weighted, EigenvalueMethod):
    """Parameters of the Huber mean."""

    expectation: ClassVar[str] = "of Gaussian columns whose scales are found; else mostly far more"
    kind: Literal["huber"] = "huber"
    lowest_scale: Annotated[int, Field(ge=-1000, le=1000)]
    """r_min: the least candidate scale is 2^r_min."""
    highest_scale: Annotated[int, Field(ge=-1000, le=1000)]
    """r_max > r_min: the largest candidate scale is 2^r_max."""
    scale_fraction: Annotated[Amount, Field(gt=0, lt=1)]
    """rho: the part of epsilon for the scales."""
    initial: Finite = 0.0
    """mu_0, where the descent starts."""
    step_size: Positive = 1.0
    """eta_0."""
    steps: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """T; left out: the logarithm of the number of pairs, rounded up."""
    blocks: Annotated[int, Field(ge=1)] | None = None
    """M; left out: half the square root of the number of pairs, rounded down, at least 1."""

    @model_validator(mode="after")
    def _scales_in_order(self) -> Self:
        if not self.lowest_scale < self.highest_scale:
            raise ValueError(
                f"lowest_scale must be below highest_scale; "
                f"got {self.lowest_scale} and {self.highest_scale}. Swap or widen them."
            )
        return self

    @property
    def own_split(self) -> Split:
        """The source's rule: rho of epsilon for the scales; the rest and delta for the descent."""
        rho = self.scale_fraction
        scale = StageWeight(name="scale", weight=rho, uses_delta=False)
        descent = StageWeight(name="gradient descent", weight=1 - rho, uses_delta=True)
        return Split(weights=(scale, descent))

    def counts(self, pairs: int) -> tuple[int, int]:
        """The numbers of steps and blocks for a number of pairs.

        Raises:
            ValueError: fewer than 4 pairs, or more blocks than pairs of pairs.
        """
        if pairs < LEAST_PAIRS:
            raise ValueError(
                f"pairs must be at least 4 (8 rows) for Huber; got {pairs}. Use another method."
            )
        steps = self.steps or math.ceil(math.log(pairs))
        blocks = self.blocks or max(1, int(math.sqrt(pairs) / 2))
        if blocks > pairs // 2:
            raise ValueError(f"blocks must be at most {pairs // 2}; got {blocks}. Use fewer.")
        return steps, blocks

    def stages(
        self, share: Budget, *, rows: int, components: int, rows_per_person: int
    ) -> tuple[PlannedStage, ...]:
        """Two stages: k scales, and the descent."""
        steps, _ = self.counts(number_of_pairs(rows, 1))
        d_in = pairs_changed(rows, 1, rows_per_person)
        shares = self.split.divide(share)
        each = shares["scale"].epsilon / components
        planned = mean_stage(shares["gradient descent"], columns=components, d_in=d_in, steps=steps)
        scale = Stage(
            name="scale",
            budget=shares["scale"],
            losses=(PureLoss(epsilon=each, count=components),),
        )
        descent = Stage(
            name="gradient descent",
            budget=shares["gradient descent"],
            losses=(planned.loss,),
        )
        return (
            PlannedStage(
                stage=scale,
                noise_scale=float(2 * d_in / each),
                noise="scale of the noise on counts of blocks",
            ),
            PlannedStage(stage=descent, noise_scale=None, noise="depends on the private scales"),
        )

    def expected_noise(
        self,
        share: Budget,
        *,
        rows: int,
        components: int,
        rows_per_person: int,
        eigenvalues: npt.ArrayLike,
    ) -> Floats:
        """That of the last step, with thresholds from the scale of Gaussian columns."""
        pairs = number_of_pairs(rows, 1)
        steps, _ = self.counts(pairs)
        share_of_descent = self.split.divide(share)["gradient descent"]
        exact = np.log2(GAUSSIAN_SCALE * np.square(np.asarray(eigenvalues, dtype=np.float64)))
        tau = robustification_thresholds(
            np.exp2(np.clip(np.floor(exact), self.lowest_scale, self.highest_scale)),
            epsilon=float(share_of_descent.epsilon),
            pairs=pairs,
            components=components,
        )
        of_mean = noise_of_means(
            share_of_descent,
            2 * tau,
            exponent=self.exponent,
            **mean_pairs(rows, self.fitted_degree(rows), rows_per_person),
        )
        return self.step_size * math.sqrt(steps) * of_mean

    def scale_outlook(
        self, share: Budget, *, rows: int, components: int, rows_per_person: int
    ) -> ScaleOutlook:
        """Half of the blocks on one scale, against the largest noise on all others."""
        scale, _ = self.stages(
            share, rows=rows, components=components, rows_per_person=rows_per_person
        )
        _, blocks = self.counts(number_of_pairs(rows, 1))
        assert scale.noise_scale is not None
        others = self.highest_scale - self.lowest_scale
        one = (1 - math.exp(-blocks / 2 / scale.noise_scale) / 2) ** others
        return ScaleOutlook(
            chance=one**components,
            reason=f"{blocks} blocks, noise of scale {scale.noise_scale:.3g} on each count",
        )

    def program(
        self, input_domain: Domain, input_metric: Metric, *, share: Budget, rows_per_person: int
    ) -> Program[Estimate]:
        """The scale of each component, then the descent with thresholds from them."""
        rows, components = matrix_shape(input_domain, input_metric)
        pairs = number_of_pairs(rows, 1)
        steps, blocks = self.counts(pairs)
        disjoint = draw_pairs(input_domain, input_metric, degree=1)
        space = disjoint.output_domain, disjoint.output_metric
        d_in = disjoint.map(rows_per_person)
        shares = self.split.divide(share)
        each = shares["scale"].epsilon / components
        scale_measurements = [
            make_dyadic_scale(
                *space,
                column=column,
                blocks=blocks,
                lowest=self.lowest_scale,
                highest=self.highest_scale,
                epsilon=lowered(Fraction(lowered(each)) / d_in),
            )
            for column in range(components)
        ]
        descent = mean_stage(shares["gradient descent"], columns=components, d_in=d_in, steps=steps)

        def descend(ask: Ask) -> Estimate:
            ask_pairs = ask_after(disjoint, ask)
            scales = [ask_pairs(measurement) for measurement in scale_measurements]
            tau = robustification_thresholds(
                scales,
                epsilon=float(shares["gradient descent"].epsilon),
                pairs=pairs,
                components=components,
            )

            def position(answers: list[list[int]]) -> Floats:
                theta = np.full(components, self.initial)
                for sums in answers:
                    mean = decode_means(sums, lower=theta - tau, upper=theta + tau, pairs=pairs)
                    with np.errstate(over="ignore"):
                        moved = theta + self.step_size * (mean - theta)
                    theta = np.clip(moved, 0.0, LARGEST_MEAN)
                return theta

            def next_sum(answers: list[list[int]]) -> Transformation:
                theta = position(answers)
                return make_clamped_sum(*space, lower=theta - tau, upper=theta + tau)

            answers = ask_pairs(
                make_gaussian_steps(
                    *space,
                    d_in=d_in,
                    size=components,
                    steps=steps,
                    sensitivity=sum_sensitivity(components, d_in),
                    scale=descent.scale,
                    next_sum=next_sum,
                )
            )
            last = position(answers[:-1])
            of_sum = decode_noise(
                descent.scale, lower=last - tau, upper=last + tau, pairs=pairs, columns=components
            )
            with np.errstate(over="ignore"):
                step_noise = np.minimum(self.step_size * of_sum, LARGEST_MEAN)
            return Estimate(
                position(answers), step_noise, last - tau, last + tau, _warnings(scales, self)
            )

        return descend


def robustification_thresholds(
    scales: npt.ArrayLike, *, epsilon: float, pairs: int, components: int
) -> Floats:
    """The thresholds tau of the Huber score from released scales m2 (section 4.2)."""
    log_pairs = math.log(pairs)
    spread = (epsilon / components) * pairs / math.sqrt((1 + log_pairs) * log_pairs)
    return np.sqrt(np.asarray(scales, dtype=np.float64)) * math.sqrt(spread)


def make_huber(
    input_domain: Domain,
    input_metric: Metric,
    *,
    method: Huber,
    share: Budget,
    rows_per_person: int,
) -> Measurement:
    """Huber means by noisy gradient descent, one for each component.

    ==================  ==================================================
    input domain        matrices, n rows by k, coordinates along directions
    input metric        Hamming distance over rows
    output              Estimate, k values in squared data units
    output measure      approximate differential privacy
    privacy map         1..rows_per_person -> the sum of the stages, at most the share;
                        0 -> (0, 0); beyond: error
    cost                T n k
    ==================  ==================================================

    Proof: an adaptive composition of k noisy maxima, each of rho epsilon / k, and T Gaussian
    steps that are mu-GDP together, over m = floor(n/2) disjoint pairs, of which c rows change at
    most c. A step needs the sum of psi_tau(w - theta), which is the sum
    of w clamped to [theta - tau, theta + tau], shifted by theta: released numbers.
    Noise of a step: 2 eta_0 tau_l c sqrt(kT) / (m mu).
    Source: eigenvalues document, section 4.

    Raises:
        ValueError: fewer than 4 pairs (8 rows), more blocks than pairs of pairs, no delta.

    >>> from dppca_odp.spaces import matrix_domain, rows_metric
    >>> m = make_huber(matrix_domain(500, 3), rows_metric(), rows_per_person=1,
    ...     method=Huber(lowest_scale=-5, highest_scale=5, scale_fraction="0.25"),
    ...     share=Budget.of("1", "1e-6"))
    >>> 0.999999 < m.map(1)[0] < 1 and m.map(0) == (0, 0)
    True
    """
    return method.make(input_domain, input_metric, share=share, rows_per_person=rows_per_person)


def _warnings(scales: list[float], method: Huber) -> tuple[str, ...]:
    ends = (2.0**method.lowest_scale, 2.0**method.highest_scale)
    return tuple(
        f"component {number}: the scale is at an end of its public range ({scale:.6g}): "
        "the range is too narrow, or the budget too small to find the scale."
        for number, scale in enumerate(scales, start=1)
        if scale in ends
    )


then_huber: Any = to_then(make_huber)
