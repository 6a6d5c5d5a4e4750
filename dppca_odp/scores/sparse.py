"""Sparse histograms: Laplace noise on the cells that are not empty, kept above a threshold.

Source: Algorithms 4 and 6 of the source, after Karwa and Vadhan (2018). Differences: the threshold
is the smallest that the share allows; by group is one histogram over (group, cell).
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import opendp.prelude as dp
from opendp.mod import Domain, Measurement, Metric, Transformation

from accountant.amounts import float_above
from accountant.specs import Budget
from dppca_odp.primitives.noise import stage_loss
from dppca_odp.scores.cells import Cells, Histogram, check_columns, check_groups, normalised
from dppca_odp.spaces import approximate, to_then
from dppca_odp.values import Floats, as_matrix

#: No table has more rows.
LARGEST_THRESHOLD = 2**40


def make_cell_map(input_domain: Domain, input_metric: Metric, *, cells: Cells) -> Transformation:
    """Counts of the cells that are not empty, by the number of the cell.

    ==================  ==================================================
    input domain        matrices, n rows by 2 (x, y) or 3 (x, y, group code)
    input metric        Hamming distance over rows
    output domain       maps from integers to integers
    output metric       L0, L1 and largest distance of counts
    stability map       d -> (2 d, 2 d, d)
    cost                n
    ==================  ==================================================

    Proof: d changed rows leave at most d cells and enter at most d, one count each; no count moves
    by more than d.
    Source: Algorithms 4 and 6 of the source.

    Raises:
        ValueError: columns that do not fit the groups; 2^31 rows.

    >>> from dppca_odp.frame import Frame
    >>> from dppca_odp.spaces import matrix_domain, rows_metric
    >>> cells = Cells(frame=Frame(x_low=0, x_high=1, y_low=0, y_high=1), bins=(8, 8))
    >>> make_cell_map(matrix_domain(9, 2), rows_metric(), cells=cells).map(3)
    (6, 6, 3)
    """
    rows, columns = check_columns(input_domain, input_metric, cells)

    def count(scores: Floats) -> dict[int, int]:
        counts = cells.counts(as_matrix(scores, rows, columns))
        return {int(cell): int(counts[cell]) for cell in np.flatnonzero(counts)}

    return dp.t.make_user_transformation(
        input_domain, input_metric, _cell_map_domain(), _cell_map_metric(), count, _moved
    )


class SparseStage(NamedTuple):
    """The Laplace noise of a sparse histogram and its threshold, in rows."""

    scale: float
    threshold: int


def sparse_stage(share: Budget, *, d_in: int) -> SparseStage:
    """The smallest threshold that a share allows at ``d_in`` rows.

    Raises:
        ValueError: a share without epsilon or delta, or one too small for any table.
    """
    epsilon, delta = stage_loss(share)
    if not (epsilon > 0 and delta > 0):
        raise ValueError(
            f"a sparse histogram must have epsilon and delta; got {share}. Give the plan both."
        )
    scale = float_above(2 * d_in / Fraction(epsilon))
    low, high = d_in, d_in + 1
    while high <= LARGEST_THRESHOLD and _price(scale, high, d_in)[1] > delta:
        low, high = high, 2 * high
    if high > LARGEST_THRESHOLD:
        raise ValueError(
            f"a sparse histogram must have a threshold that counts can reach; got {share}. "
            "Ask for more."
        )
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _price(scale, middle, d_in)[1] <= delta else (middle, high)
    return SparseStage(scale, high)


def make_threshold_noise(
    input_domain: Domain, input_metric: Metric, *, scale: float, threshold: int
) -> Measurement:
    """Laplace noise on the counts of a map; only noisy counts of at least ``threshold`` leave.

    ==================  ==================================================
    input domain        maps from integers to integers
    input metric        L0, L1 and largest distance of counts
    output              map from cells to noisy counts
    output measure      approximate differential privacy
    privacy map         that of OpenDP's Laplace threshold at ``threshold`` - 1
    cost                one draw a count
    ==================  ==================================================

    Proof: OpenDP 0.16 keeps counts equal to the threshold but prices only those above it, so its
    delta is too small (its issue 2922). A noisy count of at least t is one above t - 1: priced
    there, every count that leaves is paid for. ``tests/proof`` enumerates it.
    Source: Karwa and Vadhan (2018); Algorithm 4 of the source.

    Raises:
        ValueError: as OpenDP's ``make_laplace_threshold``.

    >>> m = make_threshold_noise(_cell_map_domain(), _cell_map_metric(), scale=2.0, threshold=31)
    >>> m.map((2, 2, 1))[0], f"{m.map((2, 2, 1))[1]:.1e}"
    (1.0, '3.8e-07')
    """
    runs = dp.m.make_laplace_threshold(input_domain, input_metric, scale, threshold)
    priced = dp.m.make_laplace_threshold(input_domain, input_metric, scale, threshold - 1)
    return dp.m.make_user_measurement(
        input_domain, input_metric, approximate(), lambda counts: runs(counts), priced.map
    )


def make_sparse_histogram(
    input_domain: Domain, input_metric: Metric, *, cells: Cells, share: Budget, d_in: int
) -> Measurement:
    """A histogram of the cells whose noisy count reaches a threshold, normalised.

    ==================  ==================================================
    input domain        matrices, n rows by 2 (x, y)
    input metric        Hamming distance over rows
    output              Histogram; mass of shape 1 by y bins by x bins
    output measure      approximate differential privacy
    privacy map         that of ``make_threshold_noise`` at (2 d, 2 d, d); at ``d_in`` at most the
                        share
    units               rows; noise of scale 2 d_in / epsilon
    cost                n, and one draw a cell that is not empty
    ==================  ==================================================

    Proof: stable counts, then threshold noise; an empty cell never leaves.
    Source: Algorithm 4 of the source, with the smallest threshold instead of
    2 log(2/delta)/epsilon + 1.

    Raises:
        ValueError: as ``make_cell_map`` and ``sparse_stage``; cells of several groups.

    >>> from dppca_odp.frame import Frame
    >>> from dppca_odp.spaces import matrix_domain, rows_metric
    >>> cells = Cells(frame=Frame(x_low=0, x_high=1, y_low=0, y_high=1), bins=(8, 8))
    >>> m = make_sparse_histogram(matrix_domain(99, 2), rows_metric(), cells=cells,
    ...     share=Budget.of("1", "1e-6"), d_in=1)
    >>> 0.999999 < m.map(1)[0] < 1, m.map(1)[1] < 1e-6, m.map(0)
    (True, True, (0.0, 0.0))
    """
    check_groups(cells, grouped=False)
    return _sparse(input_domain, input_metric, cells, share, d_in)


def make_grouped_sparse_histogram(
    input_domain: Domain, input_metric: Metric, *, cells: Cells, share: Budget, d_in: int
) -> Measurement:
    """Sparse histograms of every group: one histogram over (group, cell).

    ==================  ==================================================
    input domain        matrices, n rows by 3 (x, y, group code)
    input metric        Hamming distance over rows
    output              Histogram; mass of shape groups by y bins by x bins
    output measure      approximate differential privacy
    privacy map         that of ``make_sparse_histogram``, the same budget for every group
    units               rows; noise of scale 2 d_in / epsilon
    cost                n, and one draw a cell that is not empty
    ==================  ==================================================

    Proof: as ``make_grouped_additive_histogram``, then threshold noise.
    Source: Algorithm 6 of the source, where memberships are public.

    Raises:
        ValueError: as ``make_sparse_histogram``; cells of one group.

    >>> from dppca_odp.frame import Frame
    >>> from dppca_odp.spaces import matrix_domain, rows_metric
    >>> cells = Cells(frame=Frame(x_low=0, x_high=1, y_low=0, y_high=1), bins=(8, 8), groups=3)
    >>> m = make_grouped_sparse_histogram(matrix_domain(99, 3), rows_metric(), cells=cells,
    ...     share=Budget.of("1", "1e-6"), d_in=1)
    >>> 0.999999 < m.map(1)[0] < 1, m.map(1)[1] < 1e-6, m.map(0)
    (True, True, (0.0, 0.0))
    """
    check_groups(cells, grouped=True)
    return _sparse(input_domain, input_metric, cells, share, d_in)


def _sparse(
    input_domain: Domain, input_metric: Metric, cells: Cells, share: Budget, d_in: int
) -> Measurement:
    stage = sparse_stage(share, d_in=d_in)

    def read(noisy: dict[int, int]) -> Histogram:
        counts = np.zeros(cells.number)
        for cell, count in noisy.items():
            counts[cell] = count
        return Histogram(normalised(counts, cells), stage.scale, stage.threshold)

    chain: Measurement = (
        make_cell_map(input_domain, input_metric, cells=cells)
        >> then_threshold_noise(scale=stage.scale, threshold=stage.threshold)
        >> read
    )
    return chain


def _cell_map_domain() -> Domain:
    return dp.map_domain(dp.atom_domain(T=dp.i64), dp.atom_domain(T=dp.i64))


def _cell_map_metric() -> Metric:
    return dp.l01inf_distance(dp.absolute_distance(T=dp.i64))


def _moved(d_in: int) -> tuple[int, int, int]:
    return 2 * d_in, 2 * d_in, d_in


def _price(scale: float, threshold: int, d_in: int) -> tuple[float, float]:
    """(epsilon, delta) of threshold noise at d_in rows."""
    noise = make_threshold_noise(
        _cell_map_domain(), _cell_map_metric(), scale=scale, threshold=threshold
    )
    epsilon, delta = noise.map(_moved(d_in))
    return epsilon, delta


then_cell_map: Any = to_then(make_cell_map)
then_grouped_sparse_histogram: Any = to_then(make_grouped_sparse_histogram)
then_sparse_histogram: Any = to_then(make_sparse_histogram)
then_threshold_noise: Any = to_then(make_threshold_noise)
