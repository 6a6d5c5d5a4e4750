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
from opendp.mod import Domain, Measurement, Metric
from pydantic import Field, model_validator

from accountant.amounts import Amount
from accountant.losses import GaussianLoss, PureLoss
from accountant.specs import Budget, Split, Stage, StageWeight
from dppca_odp.eigenvalues.method import (
    Estimate,
    ScaleOutlook,
    SourceMethod,
    draw_pairs,
    noise_of_means,
)
from dppca_odp.flags import Note
from dppca_odp.planned import PlannedStage, Size, Weighted
from dppca_odp.primitives.noise import (
    AskSums,
    Link,
    chain_loss,
    lowered,
    make_gaussian_chain,
)
from dppca_odp.primitives.pairs import number_of_pairs, pairs_changed
from dppca_odp.primitives.scales import make_dyadic_scale
from dppca_odp.primitives.stages import Ask, Program, ask_after
from dppca_odp.primitives.sums import FULL_UNITS, Limits, allocated_units
from dppca_odp.spaces import matrix_shape, to_then
from dppca_odp.values import Finite, Floats, Positive

LEAST_PAIRS = 4
#: Iterates and noise scales are clamped to this, so that no step size overflows.
LARGEST_MEAN = 1e190
#: The median of (w_a - w_b)^2 / 2 in a Gaussian column of variance 1, which a block's is near.
GAUSSIAN_SCALE = 0.266695


class Huber(Weighted, SourceMethod):
    """Parameters of the Huber mean."""

    expectation: ClassVar[str] = "of Gaussian columns whose scales are found; else mostly far more"
    kind: Literal["huber"] = "huber"
    lowest_scale: Annotated[int, Field(ge=-1000, le=1000)]
    """r_min: the least candidate scale is 2^r_min."""
    highest_scale: Annotated[int, Field(ge=-1000, le=1000)]
    """r_max > r_min: the largest candidate scale is 2^r_max."""
    scale_fraction: Annotated[Amount, Field(gt=0, lt=1)]
    """rho: the part of epsilon for the scales."""
    initial: Annotated[Finite, Field(ge=-LARGEST_MEAN, le=LARGEST_MEAN)] = 0.0
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

    def stages(self, share: Budget, size: Size) -> tuple[PlannedStage, ...]:
        """Two stages: k scales, and the descent."""
        rows, components, rows_per_person = size
        d_scale = pairs_changed(rows, 1, rows_per_person)
        shares = self.split.divide(share)
        each = shares["scale"].epsilon / components
        steps, _ = self.counts(number_of_pairs(rows, 1))
        scale = Stage(
            name="scale",
            budget=shares["scale"],
            losses=(PureLoss(epsilon=each, count=components),),
        )
        descent = Stage(
            name="gradient descent",
            budget=shares["gradient descent"],
            losses=(descent_loss(shares["gradient descent"], steps, components),),
        )
        return (
            PlannedStage(
                stage=scale,
                noise_scale=float(2 * d_scale / each),
                noise="scale of the noise on counts of blocks",
            ),
            PlannedStage(stage=descent, noise_scale=None, noise="depends on the private scales"),
        )

    def expected_noise(self, share: Budget, size: Size, eigenvalues: npt.ArrayLike) -> Floats:
        """That of the last step, with thresholds from the scale of Gaussian columns."""
        pairs = number_of_pairs(size.rows, 1)
        steps, _ = self.counts(pairs)
        share_of_descent = self.split.divide(share)["gradient descent"]
        exact = np.log2(GAUSSIAN_SCALE * np.square(np.asarray(eigenvalues, dtype=np.float64)))
        tau = robustification_thresholds(
            np.exp2(np.clip(np.floor(exact), self.lowest_scale, self.highest_scale)),
            epsilon=float(share_of_descent.epsilon),
            pairs=pairs,
            components=size.components,
        )
        of_mean = noise_of_means(
            share_of_descent,
            2 * tau,
            self.mean_pairs(size),
            exponent=self.exponent,
        )
        return self.step_size * math.sqrt(steps) * of_mean

    def fitting_variances(self, components: int) -> Floats:
        """That of a Gaussian column in the middle of the range of scales."""
        middle = 2.0 ** ((self.lowest_scale + self.highest_scale) // 2)
        return np.full(components, math.sqrt(middle / GAUSSIAN_SCALE))

    def scale_outlook(self, share: Budget, size: Size) -> ScaleOutlook:
        """Half of the blocks on one scale, against the largest noise on all others."""
        scale, _ = self.stages(share, size)
        _, blocks = self.counts(number_of_pairs(size.rows, 1))
        assert scale.noise_scale is not None
        others = self.highest_scale - self.lowest_scale
        one = (1 - math.exp(-blocks / 2 / scale.noise_scale) / 2) ** others
        return ScaleOutlook(
            chance=one**size.components,
            reason=f"{blocks} blocks, noise of scale {scale.noise_scale:.3g} on each count",
        )

    def program(
        self, input_domain: Domain, input_metric: Metric, *, share: Budget, rows_per_person: int
    ) -> Program[Estimate]:
        """The scale of each component, then the descent with thresholds from them."""
        rows, components = matrix_shape(input_domain, input_metric)
        steps, blocks = self.counts(number_of_pairs(rows, 1))
        degree = self.fitted_degree(rows)
        pairs = number_of_pairs(rows, degree)
        disjoint = draw_pairs(input_domain, input_metric, degree=1)
        used = disjoint if degree == 1 else draw_pairs(input_domain, input_metric, degree=degree)
        space = used.output_domain, used.output_metric
        d_in = used.map(rows_per_person)
        shares = self.split.divide(share)
        each = shares["scale"].epsilon / components
        scale_measurements = [
            make_dyadic_scale(
                disjoint.output_domain,
                disjoint.output_metric,
                column=column,
                blocks=blocks,
                lowest=self.lowest_scale,
                highest=self.highest_scale,
                epsilon=lowered(Fraction(lowered(each)) / disjoint.map(rows_per_person)),
            )
            for column in range(components)
        ]

        def descend(ask: Ask) -> Estimate:
            ask_disjoint = ask_after(disjoint, ask)
            scales = [ask_disjoint(measurement) for measurement in scale_measurements]
            tau = robustification_thresholds(
                scales,
                epsilon=float(shares["gradient descent"].epsilon),
                pairs=number_of_pairs(rows, 1),
                components=components,
            )
            units = allocated_units(tau, self.exponent)  # of tau: theta +- tau is rounded

            def take_steps(ask_sum: AskSums) -> Estimate:
                theta = np.full(components, self.initial)
                for _ in range(steps):
                    limits = Limits.of(theta - tau, theta + tau, components, units)
                    sums, scale = ask_sum(limits.sum(*space))
                    mean, noise = limits.means(sums, pairs), limits.noise(scale, pairs)
                    with np.errstate(over="ignore"):
                        moved = theta + self.step_size * (mean - theta)
                        step_noise = np.minimum(self.step_size * noise, LARGEST_MEAN)
                    theta = np.clip(moved, 0.0, LARGEST_MEAN)
                return Estimate(
                    theta, step_noise, limits.lower, limits.upper, _warnings(scales, self)
                )

            ask_used = ask_disjoint if degree == 1 else ask_after(used, ask)
            answer: Estimate = ask_used(
                make_gaussian_chain(
                    *space,
                    d_in=d_in,
                    loss=descent_loss(shares["gradient descent"], steps, components),
                    links=equal_links(steps, components),
                    least_sensitivity=float(FULL_UNITS),
                    run=take_steps,
                )
            )
            return answer

        return descend


def equal_links(steps: int, components: int) -> list[Link]:
    """Each step has the same part of mu squared."""
    return [Link(Fraction(1, steps), components)] * steps


def descent_loss(share: Budget, steps: int, components: int) -> GaussianLoss:
    """The loss of all steps, whose leak is stated for one column with a range."""
    links = equal_links(steps, components)
    return chain_loss(share, links, least_sensitivity=float(FULL_UNITS))


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
    cost                T n k; T N k on a ring
    ==================  ==================================================

    Proof: an adaptive composition of k noisy maxima, each of rho epsilon / k, and T Gaussian
    steps that are mu-GDP together. Scales use m = floor(n/2) disjoint pairs, of which c rows
    change at most c; steps the same, or a ring of degree d, of which they change at most c d of
    n d/2. A step needs the sum of psi_tau(w - theta), which is the sum of w clamped to
    [theta - tau, theta + tau], shifted by theta: released numbers. T, M and tau go by m.
    Noise of a step: eta_0 sqrt(kT) Delta_l / mu with Delta_l = 2 tau_l c / m, or 4 tau_l c / n on
    a ring; with minimum variance eta_0 sqrt(T Delta_l sum_j Delta_j) / mu.
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


def _warnings(scales: list[float], method: Huber) -> tuple[Note, ...]:
    ends = (2.0**method.lowest_scale, 2.0**method.highest_scale)
    return tuple(
        Note(
            f"the scale is at an end of its public range ({scale:.6g}): the range is too narrow, "
            "or the budget too small to find the scale.",
            (number,),
        )
        for number, scale in enumerate(scales, start=1)
        if scale in ends
    )


then_huber: Any = to_then(make_huber)
