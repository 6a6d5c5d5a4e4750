"""The scale proxy m2: block medians, counted on dyadic scales, and a noisy maximum.

Source: Algorithm 1 (eigenvalues document, section 4.2), after Yu, Ren and Zhou (2024).
Differences: the maximum is OpenDP's noisy max; the noise is twice that of the public R code,
whose Laplace noise of scale 1/epsilon covers half of the two counts that one row can move.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import opendp.prelude as dp
from opendp.mod import Domain, Measurement, Metric, Transformation

from accountant.amounts import float_above
from dppca_odp.spaces import integers_domain, matrix_shape, pure, to_then
from dppca_odp.values import Floats, as_matrix

#: Larger values are clamped to this, so that their squared differences do not overflow.
LARGEST_PAIR = 1e150


def make_dyadic_counts(
    input_domain: Domain,
    input_metric: Metric,
    *,
    column: int,
    blocks: int,
    lowest: int,
    highest: int,
) -> Transformation:
    """How many block medians of half squared differences fall on each dyadic scale.

    ==================  ==================================================
    input domain        matrices, m pairs by k
    input metric        Hamming distance over pairs
    output domain       highest - lowest + 1 counts
    output metric       largest absolute difference of counts
    stability map       d -> min(d, blocks)
    units               counts of blocks
    ==================  ==================================================

    Values w are paired again, (0, 1), (2, 3), ...; s = (w_a - w_b)^2 / 2; blocks of equal size
    (the rest idle); the median of each falls on scale floor(log2), clamped to lowest..highest, 0 on
    the lowest.

    Proof: one changed w is in one s, one block, one median: one count falls by 1, another rises
    by 1. d changed values change at most d medians, and no count by more than d.

    Source: Algorithm 1 of the source.

    Raises:
        ValueError: an unknown column, lowest >= highest, more blocks than values to fill them.

    >>> from dppca_odp.spaces import matrix_domain, rows_metric
    >>> make_dyadic_counts(matrix_domain(8, 1), rows_metric(), column=0, blocks=2, lowest=-3,
    ...     highest=3).map(1)
    1
    """
    pairs, columns = matrix_shape(input_domain, input_metric)
    if not 0 <= column < columns:
        raise ValueError(f"column must be between 0 and {columns - 1}; got {column}. Count from 0.")
    if not -1000 <= lowest < highest <= 1000:
        raise ValueError(
            f"lowest must be under highest, both within -1000..1000; got {lowest}, {highest}. "
            "Widen them."
        )
    again = pairs // 2
    if not 1 <= blocks <= again:
        raise ValueError(f"blocks must be between 1 and {again}; got {blocks}. Use fewer.")
    size = again // blocks
    scales = highest - lowest + 1

    def count(values: Floats) -> list[int]:
        matrix = as_matrix(values, pairs, columns)
        w = np.clip(np.nan_to_num(matrix[: 2 * again, column]), -LARGEST_PAIR, LARGEST_PAIR)
        halves = 0.5 * (w[0::2] - w[1::2]) ** 2
        medians = np.median(halves[: blocks * size].reshape(blocks, size), axis=1)
        _, exponents = np.frexp(medians)  # 2^(exponent - 1) <= median < 2^exponent
        found = np.where(medians > 0, exponents - 1, lowest)
        clamped = np.clip(found, lowest, highest) - lowest
        return [int(c) for c in np.bincount(clamped, minlength=scales)]

    return dp.t.make_user_transformation(
        input_domain,
        input_metric,
        integers_domain(scales),
        dp.linf_distance(T=dp.i64),
        count,
        lambda d_in: min(d_in, blocks),
    )


def make_dyadic_scale(
    input_domain: Domain,
    input_metric: Metric,
    *,
    column: int,
    blocks: int,
    lowest: int,
    highest: int,
    epsilon: float,
) -> Measurement:
    """The fullest dyadic scale, 2^r, by noisy maximum.

    ==================  ==================================================
    input domain        matrices, m pairs by k
    input metric        Hamming distance over pairs
    output              2^r, lowest <= r <= highest
    output measure      pure differential privacy
    privacy map         d -> 2 min(d, blocks) / scale with scale >= 2 / epsilon: at most d epsilon
    units               squared units of the column
    ==================  ==================================================

    Proof: OpenDP's noisy max on counts that may move both ways.
    Source: Algorithm 1 of the source.

    Raises:
        ValueError: as ``make_dyadic_counts``; an epsilon that is not positive.

    >>> from dppca_odp.spaces import matrix_domain, rows_metric
    >>> make_dyadic_scale(matrix_domain(8, 1), rows_metric(), column=0, blocks=2, lowest=-3,
    ...     highest=3, epsilon=0.5).map(1)
    0.5
    """
    if not 0 < epsilon < np.inf:
        raise ValueError(f"epsilon must be positive and finite; got {epsilon}. Raise the share.")
    counts = make_dyadic_counts(
        input_domain, input_metric, column=column, blocks=blocks, lowest=lowest, highest=highest
    )
    maximum = dp.m.then_noisy_max(pure(), scale=float_above(2 / Fraction(epsilon)))
    chain: Measurement = counts >> maximum >> (lambda index: 2.0 ** (lowest + index))
    return chain


then_dyadic_counts: Any = to_then(make_dyadic_counts)
then_dyadic_scale: Any = to_then(make_dyadic_scale)
