"""Where values lie on a scale of powers of two: counts by octave, and counts of a tail.

Octave e holds the values v with 2^(e-1) <= v < 2^e. Counting octaves needs no bounds: it is the
one look at values whose size nobody knows that is as private for 1e-30 as for 1e30.

Source: ours.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import opendp.prelude as dp
from opendp.mod import Domain, Metric, Transformation

from accountant.amounts import float_above, root_above
from dppca_odp.primitives.blocks import InBlocks, blocks_of, summable_shape
from dppca_odp.spaces import integers_domain, integers_metric, to_then
from dppca_odp.values import Floats

#: The octaves told apart: what is below is in the lowest, with zeros; what is above in the highest.
LOWEST_OCTAVE = -127
HIGHEST_OCTAVE = 128
OCTAVES = HIGHEST_OCTAVE - LOWEST_OCTAVE + 1
UPPER_ENDS: Floats = np.exp2(np.arange(LOWEST_OCTAVE, HIGHEST_OCTAVE + 1, dtype=np.float64))
#: Integer units of one value counted, so that noise is fine (see ``primitives.noise``).
COUNT_UNITS = 2**32
#: Floats of exponent bits b lie in octave b - 1022.
_EXPONENT_BIAS = 1022
_MANTISSA_BITS = 52


def make_octave_counts(input_domain: Domain, input_metric: Metric) -> Transformation:
    """How many values of each column lie in each octave.

    ==================  ==================================================
    input domain        matrices, N by k, nonnegative
    input metric        Hamming distance over rows
    output domain       256 k integers, column by column, octaves -127 to 128
    output metric       Euclidean distance
    stability map       d -> d sqrt(2 k) 2^32, rounded up
    units               2^-32 of a value
    cost                N k
    ==================  ==================================================

    Proof: in each column a changed row leaves one octave and enters another: two counts move by
    one unit of 2^32, in all columns sqrt(2 k) of it in Euclidean norm; d rows by d times that.
    NaN and what is not positive counts as zero: every matrix is answered.
    Source: ours; finding a scale among powers of two goes back to Dwork and Lei (2009).

    Raises:
        ValueError: 2^31 rows or more.

    >>> from dppca_odp.spaces import matrix_domain, rows_metric
    >>> t = make_octave_counts(matrix_domain(9, 2), rows_metric())
    >>> t.map(3) == 6 * 2**32
    True
    """
    rows, columns = summable_shape(input_domain, input_metric)
    starts = OCTAVES * np.arange(columns)

    def octave_counts(values: npt.ArrayLike | InBlocks) -> list[int]:
        counts = np.zeros(columns * OCTAVES, dtype=np.int64)
        for block in blocks_of(values, rows, columns):
            cells = octaves(block) - LOWEST_OCTAVE + starts
            counts += np.bincount(cells.ravel(order="K"), minlength=len(counts))
        return [int(count) * COUNT_UNITS for count in counts]

    return dp.t.make_user_transformation(
        input_domain,
        input_metric,
        integers_domain(columns * OCTAVES),
        integers_metric(),
        octave_counts,
        lambda d_in: float_above(min(d_in, rows) * root_above(Fraction(2 * columns)) * COUNT_UNITS),
    )


def octaves(values: Floats) -> npt.NDArray[np.int64]:
    """The octave of each value, from the bits of its exponent."""
    positive = np.fmax(values, 0.0)
    bits = positive.view(np.int64) >> _MANTISSA_BITS
    bits -= _EXPONENT_BIAS
    return np.clip(bits, LOWEST_OCTAVE, HIGHEST_OCTAVE, out=bits)


def make_tail_count(
    input_domain: Domain, input_metric: Metric, *, cutoffs: npt.ArrayLike
) -> Transformation:
    """How many rows are above the cutoff of at least one column.

    ==================  ==================================================
    input domain        matrices, N by k
    input metric        Hamming distance over rows
    output domain       one integer
    output metric       Euclidean distance
    stability map       d -> d 2^32
    units               2^-32 of a row
    cost                N k
    ==================  ==================================================

    Proof: each row counts or does not. A column whose cutoff is infinite takes no part; NaN is
    above nothing.
    Source: ours.

    Raises:
        ValueError: another number of cutoffs than columns; 2^31 rows or more.

    >>> from dppca_odp.spaces import matrix_domain, rows_metric
    >>> t = make_tail_count(matrix_domain(9, 2), rows_metric(), cutoffs=[1, 2])
    >>> t.map(3) == 3 * 2**32
    True
    """
    rows, columns = summable_shape(input_domain, input_metric)
    limits = np.array(cutoffs, dtype=np.float64)
    if limits.shape != (columns,):
        raise ValueError(
            f"cutoffs must be one for each of {columns} columns; got shape {limits.shape}. "
            "Give as many as columns."
        )

    def tail_count(values: npt.ArrayLike | InBlocks) -> list[int]:
        blocks = blocks_of(values, rows, columns)
        return [sum(int((block > limits).any(axis=1).sum()) for block in blocks) * COUNT_UNITS]

    return dp.t.make_user_transformation(
        input_domain,
        input_metric,
        integers_domain(1),
        integers_metric(),
        tail_count,
        lambda d_in: float(min(d_in, rows) * COUNT_UNITS),
    )


then_octave_counts: Any = to_then(make_octave_counts)
then_tail_count: Any = to_then(make_tail_count)
