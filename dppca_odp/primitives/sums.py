"""Sums of clamped values in integers, so that their sensitivity is exact.

A value between its public or released bounds becomes an integer between 0 and 2^32; integers
add without rounding, in any order, block by block.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import opendp.prelude as dp
from opendp.mod import Domain, Metric, Transformation

from accountant.amounts import float_above, root_above
from dppca_odp.primitives.blocks import InBlocks, blocks_of
from dppca_odp.spaces import integers_domain, integers_metric, matrix_shape, to_then
from dppca_odp.values import LARGEST_BOUND, Floats

#: The full range of one value, in integer units.
FULL_RANGE = 2**32
#: More pairs than this could overflow a 64-bit sum.
MOST_VALUES = 2**31


def make_clamped_sum(
    input_domain: Domain, input_metric: Metric, *, lower: npt.ArrayLike, upper: npt.ArrayLike
) -> Transformation:
    """Integer sums of the columns, each value clamped to [lower, upper] of its column.

    ==================  ==================================================
    input domain        matrices, N pairs by k
    input metric        Hamming distance over pairs
    output domain       k integers, each in 0 .. N 2^32
    output metric       Euclidean distance
    stability map       d -> d sqrt(a) 2^32, rounded up; a = columns with upper > lower
    units               2^-32 of the column's range, counted from ``lower``
    cost                N k
    ==================  ==================================================

    Proof: each pair adds to column l an integer in [0, B_l], a function of that pair alone, with
    B_l = 2^32, or 0 where upper = lower. A changed pair moves the sums by at most B_l in column
    l, by sqrt(sum B_l^2) in Euclidean norm; d pairs by d times that. NaN counts as ``lower``.

    The same 2^32 for every range makes the noise of column l proportional to its range: the
    allocation of the source (sigma_l = sqrt(k) Delta_l / mu). A column without range is its
    bound: it takes no part.

    Source: eigenvalues document, sections 2 and 3.3; the integers are ours.

    Raises:
        ValueError: bounds beyond 1e200, not in order, or not one per column; 2^31 pairs.

    >>> from dppca_odp.spaces import matrix_domain, rows_metric
    >>> t = make_clamped_sum(matrix_domain(9, 4), rows_metric(), lower=0.0, upper=[5, 5, 5, 5])
    >>> t.map(1) == 2 * 2**32
    True
    """
    pairs, columns = matrix_shape(input_domain, input_metric)
    if pairs >= MOST_VALUES:
        raise ValueError(f"input_domain must have fewer than 2^31 pairs; got {pairs}. Use fewer.")
    low, high = bounds(lower, upper, columns)
    active = high > low
    width = np.where(active, high - low, 1.0)

    def clamped_sum(values: Floats | InBlocks) -> list[int]:
        total = np.zeros(columns, dtype=np.int64)
        for units in blocks_of(values, pairs, columns):
            np.fmin(np.fmax(units, low, out=units), high, out=units)
            units -= low
            units /= width
            units *= FULL_RANGE
            np.clip(np.rint(units, out=units), 0, FULL_RANGE, out=units)
            total += units.sum(axis=0).astype(np.int64)  # below 2^53 in a block: exact
        return [int(value) for value in np.where(active, total, 0)]

    return dp.t.make_user_transformation(
        input_domain,
        input_metric,
        integers_domain(columns),
        integers_metric(),
        clamped_sum,
        lambda d_in: sum_sensitivity(int(active.sum()), min(d_in, pairs)),
    )


def sum_sensitivity(columns: int, d_in: int) -> float:
    """d sqrt(columns) 2^32, rounded up: how far d changed pairs can move the integer sums."""
    return float_above(d_in * FULL_RANGE * root_above(Fraction(columns)))


def decode_means(
    sums: list[int], *, lower: npt.ArrayLike, upper: npt.ArrayLike, pairs: int
) -> Floats:
    """Means in data units from (noisy) integer sums; no privacy cost."""
    low, high = bounds(lower, upper, len(sums))
    share = np.array([total / (pairs * FULL_RANGE) for total in sums])
    return np.asarray(low + (high - low) * share)


def decode_noise(
    scale: float, *, lower: npt.ArrayLike, upper: npt.ArrayLike, pairs: int, columns: int
) -> Floats:
    """The standard deviation in data units of a mean whose integer sum has noise ``scale``."""
    low, high = bounds(lower, upper, columns)
    return (high - low) * (scale / (pairs * FULL_RANGE))


def bounds(lower: npt.ArrayLike, upper: npt.ArrayLike, columns: int) -> tuple[Floats, Floats]:
    """Both bounds as one finite number per column, in order."""
    try:
        low = np.broadcast_to(np.asarray(lower, dtype=np.float64), (columns,))
        high = np.broadcast_to(np.asarray(upper, dtype=np.float64), (columns,))
    except ValueError:
        raise ValueError(
            f"lower and upper must be one number, or one for each of {columns} columns; got shapes "
            f"{np.shape(lower)} and {np.shape(upper)}. Give as many as columns."
        ) from None
    if not (np.abs(low) <= LARGEST_BOUND).all() or not (np.abs(high) <= LARGEST_BOUND).all():
        raise ValueError(
            f"lower and upper must be within +-{LARGEST_BOUND:g}; got others. Bring them closer."
        )
    if (low > high).any():
        raise ValueError("lower must not be above upper; got them crossed. Swap them.")
    return low, high


then_clamped_sum: Any = to_then(make_clamped_sum)
