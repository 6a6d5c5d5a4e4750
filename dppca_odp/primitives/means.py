"""The Gaussian mean: clamped integer sums plus one Gaussian, read in data units."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from opendp.mod import Domain, Measurement, Metric

from accountant.specs import Budget
from dppca_odp.primitives.noise import gaussian_scale, stage_loss, stage_mu, then_gaussian
from dppca_odp.primitives.sums import (
    FULL_RANGE,
    decode_means,
    decode_noise,
    make_clamped_sum,
    sum_sensitivity,
)
from dppca_odp.spaces import matrix_shape, to_then

Floats = npt.NDArray[np.float64]


class GaussianMean(NamedTuple):
    """k noisy means and the standard deviation of the noise in each."""

    values: Floats
    noise_scales: Floats


def make_gaussian_mean(
    input_domain: Domain,
    input_metric: Metric,
    *,
    lower: npt.ArrayLike,
    upper: npt.ArrayLike,
    share: Budget,
    d_in: int,
) -> Measurement:
    """Means of the columns clamped to [lower, upper], with Gaussian noise for a share of budget.

    ==================  ==================================================
    input domain        matrices, N pairs by k
    input metric        Hamming distance over pairs
    output              GaussianMean(values, noise_scales), k each
    output measure      approximate differential privacy
    privacy map         that of ``make_gaussian`` at the sum's sensitivity; at ``d_in`` at most
                        the share, in both coordinates
    units               those of the columns
    cost                N k
    ==================  ==================================================

    Proof: a chain of a stable sum and our own Gaussian, calibrated to the share; reading integers
    as means is post-processing.
    Source: eigenvalues document, sections 2 and 3.3.

    Noise in column l: sqrt(a) d_in (upper_l - lower_l) / (N mu), a = columns with a range. A
    column without range is its limit, exactly, and takes no noise.

    Raises:
        ValueError: as ``make_clamped_sum`` and ``stage_mu``.
    """
    pairs, columns = matrix_shape(input_domain, input_metric)
    total = make_clamped_sum(input_domain, input_metric, lower=lower, upper=upper)
    sensitivity = total.map(d_in)
    _, delta = stage_loss(share)
    mu = stage_mu(share, sensitivity=max(sensitivity, float(FULL_RANGE)), numbers=columns)
    scale = gaussian_scale(sensitivity, mu)
    noise_scales = decode_noise(scale, lower=lower, upper=upper, pairs=pairs, columns=columns)

    def read(sums: list[int]) -> GaussianMean:
        return GaussianMean(decode_means(sums, lower=lower, upper=upper, pairs=pairs), noise_scales)

    chain: Measurement = total >> then_gaussian(scale=scale, delta=delta) >> read
    return chain


def gaussian_mean_mu(share: Budget, *, columns: int, d_in: int) -> float:
    """The mu that ``make_gaussian_mean`` spends when every column has a range; at most that."""
    return stage_mu(share, sensitivity=sum_sensitivity(columns, d_in), numbers=columns)


then_gaussian_mean: Any = to_then(make_gaussian_mean)
