"""The Gaussian mean: clamped integer sums plus one Gaussian, read in data units."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from opendp.mod import Domain, Measurement, Metric

from accountant.specs import Budget
from dppca_odp.primitives.noise import GaussianStage, gaussian_stage, then_gaussian
from dppca_odp.primitives.sums import FULL_UNITS, Limits, sum_sensitivity
from dppca_odp.spaces import matrix_shape, to_then
from dppca_odp.values import Floats


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
    exponent: float = 1.0,
) -> Measurement:
    """Means of the columns clamped to [lower, upper], with Gaussian noise for a share of budget.

    ==================  ==================================================
    input domain        matrices, N pairs by k
    input metric        Hamming distance over pairs
    output              GaussianMean(values, noise_scales), k each
    output measure      Gaussian differential privacy
    privacy map         that of ``make_gaussian`` at the sum's sensitivity; at ``d_in`` at most
                        the loss of ``mean_stage``, in both coordinates
    units               those of the columns
    cost                N k
    ==================  ==================================================

    Proof: a chain of a stable sum and our own Gaussian, calibrated to the share; reading integers
    as means is post-processing.
    Source: eigenvalues document, sections 2 and 3.3.

    Noise in column l: Delta_l^theta sqrt(sum_j Delta_j^(2 - 2 theta)) / mu, with theta the
    ``exponent`` in [1/2, 1] and Delta_l = d_in (upper_l - lower_l) / N. At theta = 1, that of the
    source, sqrt(a) Delta_l / mu, a = columns with a range; at 1/2 the total variance is least. A
    column without range is its bound, exactly, and takes no noise.

    Raises:
        ValueError: an exponent outside [1/2, 1]; as ``make_clamped_sum`` and ``gaussian_stage``.

    >>> from dppca_odp.spaces import matrix_domain, rows_metric
    >>> m = make_gaussian_mean(matrix_domain(9, 1), rows_metric(), lower=0, upper=1,
    ...     share=Budget.of("0.5", "1e-6"), d_in=2)
    >>> mu = mean_stage(Budget.of("0.5", "1e-6"), columns=1, d_in=2).mu
    >>> m.map(0) == (0, 0), 0.999999 < m.map(2)[0] / mu < 1
    (True, True)
    """
    pairs, columns = matrix_shape(input_domain, input_metric)
    limits = Limits.allocated(lower, upper, columns, exponent)
    total = limits.sum(input_domain, input_metric)
    stage = _stage(share, max(total.map(d_in), float(FULL_UNITS)), columns)
    noise_scales = limits.noise(stage.scale, pairs)

    def read(sums: list[int]) -> GaussianMean:
        return GaussianMean(limits.means(sums, pairs), noise_scales)

    chain: Measurement = total >> then_gaussian(scale=stage.scale) >> read
    return chain


def mean_stage(
    share: Budget, *, columns: int, d_in: int, units: npt.ArrayLike = FULL_UNITS
) -> GaussianStage:
    """The stage of ``make_gaussian_mean`` with these units; its loss in any case."""
    return _stage(share, sum_sensitivity(np.broadcast_to(units, (columns,)), d_in), columns)


def _stage(share: Budget, sensitivity: float, columns: int) -> GaussianStage:
    """The leak is stated for one column with a range, since cutoffs may leave no more."""
    return gaussian_stage(
        share,
        sensitivity=sensitivity,
        numbers=columns,
        least_sensitivity=float(FULL_UNITS),
    )


then_gaussian_mean: Any = to_then(make_gaussian_mean)
