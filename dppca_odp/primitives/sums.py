"""Sums of clamped values in integers, so that their sensitivity is exact.

A value between its public or released bounds becomes an integer between 0 and the units of its
column, at most 2^32; integers add without rounding, in any order, block by block.

One integer Gaussian serves all columns, so the units say how the noise is allocated. Units
proportional to width^(1 - theta) give column l the noise

    sigma_l = Delta_l^theta sqrt(sum_j Delta_j^(2 - 2 theta)) / mu,

where Delta_l is how far its mean can move: theta = 1 is equal noise for each width (the source),
theta = 1/2 the least total variance.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import opendp.prelude as dp
from opendp.mod import Domain, Metric, Transformation

from accountant.amounts import float_above, root_above
from dppca_odp.primitives.blocks import InBlocks, blocks_of, summable_shape
from dppca_odp.spaces import integers_domain, integers_metric, to_then
from dppca_odp.values import LARGEST_BOUND, Floats, Integers

#: The units of a range, unless they are allocated.
FULL_UNITS = 2**32
#: The least of any range: rounding values to fewer would bias a mean.
LEAST_UNITS = 2**16


def make_clamped_sum(
    input_domain: Domain,
    input_metric: Metric,
    *,
    lower: npt.ArrayLike,
    upper: npt.ArrayLike,
    units: npt.ArrayLike = FULL_UNITS,
) -> Transformation:
    """Integer sums of the columns, each value clamped to [lower, upper] of its column.

    ==================  ==================================================
    input domain        matrices, N pairs by k
    input metric        Hamming distance over pairs
    output domain       k integers, each in 0 .. N 2^32
    output metric       Euclidean distance
    stability map       d -> d sqrt(sum B_l^2), rounded up, over columns with upper > lower
    units               B_l to the column's range, counted from ``lower``; B_l = 2^32 or ``units``
    cost                N k
    ==================  ==================================================

    Proof: each pair adds to column l an integer in [0, B_l], a function of that pair alone, or 0
    where upper = lower. A changed pair moves the sums by at most B_l in column l, by
    sqrt(sum B_l^2) in Euclidean norm; d pairs by d times that. NaN counts as ``lower``.

    The same 2^32 for every range makes the noise of column l proportional to its range: the
    allocation of the source (sigma_l = sqrt(k) Delta_l / mu). ``allocated_units`` has others. A
    column without range is its bound: it takes no part. A value is rounded to a unit, which
    moves a mean by at most 1/(2 B_l) of its range, and so at most 2^-17.

    Source: eigenvalues document, sections 2 and 3.3; the integers are ours.

    Raises:
        ValueError: bounds beyond 1e200, not in order, or not one per column; units that are not
            integers in 0 .. 2^32; 2^31 pairs.

    >>> from dppca_odp.spaces import matrix_domain, rows_metric
    >>> t = make_clamped_sum(matrix_domain(9, 4), rows_metric(), lower=0.0, upper=[5, 5, 5, 5])
    >>> t.map(1) == 2 * 2**32
    True
    """
    pairs, columns = summable_shape(input_domain, input_metric)
    low, high, column_units = Limits.of(lower, upper, columns, units)
    active = high > low
    width = np.where(active, high - low, 1.0)

    def clamped_sum(values: Floats | InBlocks) -> list[int]:
        total = np.zeros(columns, dtype=np.int64)
        for block in blocks_of(values, pairs, columns):
            np.fmin(np.fmax(block, low, out=block), high, out=block)
            block -= low
            block /= width
            block *= column_units
            np.clip(np.rint(block, out=block), 0, column_units, out=block)
            total += block.sum(axis=0).astype(np.int64)  # below 2^53 in a block: exact
        return [int(value) for value in np.where(active, total, 0)]

    return dp.t.make_user_transformation(
        input_domain,
        input_metric,
        integers_domain(columns),
        integers_metric(),
        clamped_sum,
        lambda d_in: sum_sensitivity(column_units[active], min(d_in, pairs)),
    )


def allocated_units(widths: npt.ArrayLike, exponent: float) -> Integers:
    """The units of each range: 2^32 for the widest, others as width^(1 - exponent).

    At least 2^16 where there is a width, so that a range far below the widest has less noise than
    its part; the sensitivity counts the units that there are.

    Raises:
        ValueError: an exponent outside [1/2, 1].

    >>> [int(units) for units in allocated_units([4.0, 1.0, 0.0], 0.5) // 2**30]
    [4, 2, 0]
    """
    if not 0.5 <= exponent <= 1:
        raise ValueError(f"exponent must be in [0.5, 1]; got {exponent}. Use 1 for equal noise.")
    width = np.asarray(widths, dtype=np.float64)
    relative = width / (width.max(initial=0.0) or 1.0)
    units = np.rint(FULL_UNITS * relative ** (1 - exponent))
    return np.where(width > 0, np.maximum(units, LEAST_UNITS), 0).astype(np.int64)


def sum_sensitivity(units: npt.ArrayLike, d_in: int) -> float:
    """d sqrt(sum B_l^2), rounded up: how far d changed pairs can move the integer sums."""
    square = sum(int(each) ** 2 for each in np.ravel(units))
    return float_above(d_in * root_above(Fraction(square)))


class Limits(NamedTuple):
    """What a mean is taken between, column by column, and in how many integer units."""

    lower: Floats
    upper: Floats
    units: Integers

    @classmethod
    def of(
        cls,
        lower: npt.ArrayLike,
        upper: npt.ArrayLike,
        columns: int,
        units: npt.ArrayLike = FULL_UNITS,
    ) -> Limits:
        """One number of each for every column.

        Raises:
            ValueError: as ``make_clamped_sum``.
        """
        return cls(*_bounds(lower, upper, columns), _units(units, columns))

    @classmethod
    def allocated(
        cls, lower: npt.ArrayLike, upper: npt.ArrayLike, columns: int, exponent: float
    ) -> Limits:
        """With the units that an exponent gives the ranges.

        Raises:
            ValueError: as ``make_clamped_sum`` and ``allocated_units``.
        """
        low, high = _bounds(lower, upper, columns)
        return cls(low, high, allocated_units(high - low, exponent))

    def sum(self, input_domain: Domain, input_metric: Metric) -> Transformation:
        """The integer sums of values between these limits."""
        return make_clamped_sum(input_domain, input_metric, **self._asdict())

    def means(self, sums: list[int], pairs: int) -> Floats:
        """Means in data units from (noisy) integer sums; no privacy cost."""
        return np.asarray(self.lower + (self.upper - self.lower) * self._shares(sums, pairs))

    def noise(self, scale: float, pairs: int) -> Floats:
        """The standard deviation in data units of means whose integer sums have noise ``scale``."""
        shares = self._shares([scale] * len(self.units), pairs)
        return np.asarray((self.upper - self.lower) * shares)

    def _shares(self, totals: Sequence[float], pairs: int) -> Floats:
        """Of the units of all pairs; totals beyond 2^53 are divided as the integers they are."""
        return np.array(
            [
                total / (pairs * each) if each else 0.0
                for total, each in zip(totals, self.units.tolist(), strict=True)
            ]
        )


def _units(units: npt.ArrayLike, columns: int) -> Integers:
    """The units of each column."""
    given = np.asarray(units)
    if (
        given.shape not in ((), (columns,))
        or given.dtype.kind not in "iu"
        or not ((given >= 0) & (given <= FULL_UNITS)).all()
    ):
        raise ValueError(
            f"units must be integers in 0 .. 2^32, one or one for each of {columns} columns; got "
            f"shape {given.shape} of {given.dtype}. Use allocated_units."
        )
    return np.broadcast_to(given.astype(np.int64), (columns,))


def _bounds(lower: npt.ArrayLike, upper: npt.ArrayLike, columns: int) -> tuple[Floats, Floats]:
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
