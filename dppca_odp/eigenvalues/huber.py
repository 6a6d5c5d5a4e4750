"""The Huber mean: a private scale for each component, then noisy gradient descent.

Source: eigenvalues document, section 4, after Yu, Ren and Zhou (2024). Difference: the scale's
noise covers both counts that one row moves (see ``primitives/scales.py``).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Annotated, Any, Literal, Self

import numpy as np
import numpy.typing as npt
import opendp.prelude as dp
from opendp.mod import Domain, Measurement, Metric, Transformation
from pydantic import Field, model_validator

from accountant.amounts import Amount
from accountant.losses import GaussianLoss, PureLoss
from accountant.specs import Budget, Share, Split, Stage
from dppca_odp.eigenvalues.method import EigenvalueMethod, Estimate
from dppca_odp.planned import Finite, PlannedStage
from dppca_odp.primitives.noise import (
    gaussian_scale,
    make_gaussian_steps,
    stage_loss,
    stage_mu,
)
from dppca_odp.primitives.scales import make_dyadic_scale
from dppca_odp.primitives.sums import (
    decode_means,
    decode_noise,
    make_clamped_sum,
    sum_sensitivity,
)
from dppca_odp.spaces import approximate, matrix_shape, to_then

Floats = npt.NDArray[np.float64]

LEAST_PAIRS = 4
#: The iterates are held here, so that a large step size overflows nothing.
LARGEST_MEAN = 1e200


class Huber(EigenvalueMethod):
    """Parameters of the Huber mean."""

    kind: Literal["huber"] = "huber"
    lowest_scale: Annotated[int, Field(ge=-1000, le=1000)]
    """r_min: the least candidate scale is 2^r_min."""
    highest_scale: Annotated[int, Field(ge=-1000, le=1000)]
    """r_max > r_min: the largest candidate scale is 2^r_max."""
    scale_fraction: Annotated[Amount, Field(gt=0, lt=1)] = Fraction(1, 4)
    """rho: the part of epsilon for the scales."""
    initial: Finite = 0.0
    """mu_0, where the descent starts."""
    step_size: Annotated[Finite, Field(gt=0)] = 1.0
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
                f"got {self.lowest_scale} and {self.highest_scale}."
            )
        return self

    @property
    def split(self) -> Split:
        """The source's rule: rho of epsilon for the scales; the rest and delta for the descent."""
        return Split(
            shares=(
                Share(name="scale", weight=self.scale_fraction, uses_delta=False),
                Share(name="gradient descent", weight=1 - self.scale_fraction, uses_delta=True),
            )
        )

    def counts(self, pairs: int) -> tuple[int, int]:
        """The numbers of steps and blocks for a number of pairs.

        Raises:
            ValueError: fewer than 4 pairs, or more blocks than pairs of pairs.
        """
        if pairs < LEAST_PAIRS:
            raise ValueError(f"rows must be at least 8 for Huber; got {pairs} pairs of rows.")
        steps = self.steps or math.ceil(math.log(pairs))
        blocks = self.blocks or max(1, int(math.sqrt(pairs) / 2))
        if blocks > pairs // 2:
            raise ValueError(f"blocks must be at most {pairs // 2}; got {blocks}.")
        return steps, blocks

    def stages(
        self, share: Budget, *, pairs: int, components: int, d_in: int
    ) -> tuple[PlannedStage, ...]:
        """Two stages: k scales, and the descent."""
        steps, _ = self.counts(pairs)
        shares = self.split.divide(share)
        each = shares["scale"].epsilon / components
        mu = stage_mu(
            shares["gradient descent"],
            sensitivity=sum_sensitivity(components, d_in),
            numbers=components,
            steps=steps,
        )
        scale = Stage(
            name="scale",
            budget=shares["scale"],
            losses=(PureLoss(epsilon=each, count=components),),
        )
        descent = Stage(
            name="gradient descent",
            budget=shares["gradient descent"],
            losses=(GaussianLoss(mu=Fraction(mu)),),
        )
        return (
            PlannedStage(scale, float(2 * d_in / each), "scale of the noise on counts of blocks"),
            PlannedStage(descent, None, "depends on the private scales"),
        )

    def make(
        self, input_domain: Domain, input_metric: Metric, *, share: Budget, d_in: int
    ) -> Measurement:
        """See ``make_huber``."""
        return make_huber(input_domain, input_metric, method=self, share=share, d_in=d_in)


def robustification(
    scales: npt.ArrayLike, *, epsilon: float, pairs: int, components: int
) -> Floats:
    """The thresholds tau of the Huber score from released scales m2 (section 4.2)."""
    log_pairs = math.log(pairs)
    spread = (epsilon / components) * pairs / math.sqrt((1 + log_pairs) * log_pairs)
    return np.sqrt(np.asarray(scales, dtype=np.float64)) * math.sqrt(spread)


def make_huber(
    input_domain: Domain, input_metric: Metric, *, method: Huber, share: Budget, d_in: int
) -> Measurement:
    """Huber means by noisy gradient descent, one for each component.

    ==================  ==================================================
    input domain        matrices, m pairs by k, half squared differences
    input metric        Hamming distance over pairs
    output              Estimate, k values in squared data units
    output measure      approximate differential privacy
    privacy map         1..d_in -> the sum of the stages, at most the share; 0 -> (0, 0);
                        beyond d_in: error
    cost                T m k
    ==================  ==================================================

    Proof: an adaptive composition of k noisy maxima, each of rho epsilon / k, and T Gaussian
    steps that are mu-GDP together. A step needs the sum of psi_tau(w - theta), which is the sum
    of w clamped to [theta - tau, theta + tau], shifted by theta: released numbers.
    Noise of a step: 2 eta_0 tau_l d_in sqrt(kT) / (m mu).
    Source: eigenvalues document, section 4.

    Raises:
        ValueError: fewer than 4 pairs (8 rows), more blocks than pairs of pairs, no delta.
    """
    pairs, components = matrix_shape(input_domain, input_metric)
    steps, blocks = method.counts(pairs)
    shares = method.split.divide(share)
    each = stage_loss(Budget(epsilon=shares["scale"].epsilon / components, delta=Fraction(0)))
    descent_loss = stage_loss(shares["gradient descent"])
    composition = dp.c.make_adaptive_composition(
        input_domain,
        input_metric,
        approximate(),
        d_in,
        [each] * components + [descent_loss],
    )
    scale_measurements = [
        dp.c.make_approximate(
            make_dyadic_scale(
                input_domain,
                input_metric,
                column=column,
                blocks=blocks,
                lowest=method.lowest_scale,
                highest=method.highest_scale,
                epsilon=_per_pair(each[0], d_in),
            )
        )
        for column in range(components)
    ]
    sensitivity = sum_sensitivity(components, d_in)
    mu = stage_mu(
        shares["gradient descent"], sensitivity=sensitivity, numbers=components, steps=steps
    )
    noise = gaussian_scale(sensitivity, mu, steps=steps)

    def huber_mean(data: Any) -> Estimate:
        stage = composition(data)
        scales = [stage(measurement) for measurement in scale_measurements]
        tau = robustification(
            scales,
            epsilon=float(shares["gradient descent"].epsilon),
            pairs=pairs,
            components=components,
        )

        def position(answers: list[list[int]]) -> Floats:
            theta = np.full(components, method.initial)
            for sums in answers:
                mean = decode_means(sums, lower=theta - tau, upper=theta + tau, pairs=pairs)
                moved = theta + method.step_size * (mean - theta)
                theta = np.clip(moved, 0.0, LARGEST_MEAN)
            return theta

        def next_sum(answers: list[list[int]]) -> Transformation:
            theta = position(answers)
            return make_clamped_sum(
                input_domain, input_metric, lower=theta - tau, upper=theta + tau
            )

        answers = stage(
            make_gaussian_steps(
                input_domain,
                input_metric,
                d_in=d_in,
                size=components,
                steps=steps,
                sensitivity=sensitivity,
                scale=noise,
                delta=descent_loss[1],
                next_sum=next_sum,
            )
        )
        last = position(answers[:-1])
        step_noise = method.step_size * decode_noise(
            noise, lower=last - tau, upper=last + tau, pairs=pairs, columns=components
        )
        return Estimate(
            position(answers), step_noise, last - tau, last + tau, _warnings(scales, method)
        )

    return dp.m.make_user_measurement(
        input_domain,
        input_metric,
        approximate(),
        huber_mean,
        lambda distance: composition.map(distance) if distance else (0.0, 0.0),
    )


def _warnings(scales: list[float], method: Huber) -> tuple[str, ...]:
    ends = (2.0**method.lowest_scale, 2.0**method.highest_scale)
    return tuple(
        f"component {number}: the scale is at an end of its public range ({scale:.6g}). "
        "Widen lowest_scale and highest_scale."
        for number, scale in enumerate(scales, start=1)
        if scale in ends
    )


def _per_pair(epsilon: float, d_in: int) -> float:
    """The epsilon of one changed pair, a little below, for group privacy."""
    return stage_loss(Budget(epsilon=Fraction(epsilon) / d_in, delta=Fraction(0)))[0]


then_huber: Any = to_then(make_huber)
