"""Additive histograms: Gaussian noise on every cell.

Source: Algorithms 3 and 5 of the source. Differences: by group is one histogram over (group,
cell), so that a changed label costs no more than a changed score and memberships are private; no
mass gives a histogram of zeros, flagged, instead of an error.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import opendp.prelude as dp
from opendp.mod import Domain, Measurement, Metric, Transformation

from accountant.amounts import float_above, root_above
from accountant.specs import Budget
from dppca_odp.primitives.noise import GaussianStage, gaussian_stage, then_gaussian
from dppca_odp.scores.cells import Cells, Histogram, check_columns, check_groups, normalised
from dppca_odp.spaces import integers_domain, integers_metric, to_then
from dppca_odp.values import Floats, as_matrix

#: One row, in the units of the counts: Gaussian noise wants a scale of at least 2^30.
ROW = 2**30


def make_cell_counts(input_domain: Domain, input_metric: Metric, *, cells: Cells) -> Transformation:
    """Counts of rows in cells, in units of 2^-30 rows.

    ==================  ==================================================
    input domain        matrices, n rows by 2 (x, y) or 3 (x, y, group code)
    input metric        Hamming distance over rows
    output domain       groups times bins integers
    output metric       Euclidean distance
    stability map       d -> sqrt(2) d 2^30, rounded up
    cost                n
    ==================  ==================================================

    Proof: d changed rows take at most d rows out of cells and put at most d into cells. The
    difference is r - s with |r|_1, |s|_1 <= d, r, s >= 0, so its square is at most
    |r|^2 + |s|^2 <= 2 d^2. A changed group code moves a row to another cell, no more.
    Source: Algorithms 3 and 5 of the source.

    Raises:
        ValueError: columns that do not fit the groups; 2^31 rows.

    >>> from dppca_odp.frame import Frame
    >>> from dppca_odp.spaces import matrix_domain, rows_metric
    >>> cells = Cells(frame=Frame(x_low=0, x_high=1, y_low=0, y_high=1), bins=(8, 8))
    >>> round(make_cell_counts(matrix_domain(9, 2), rows_metric(), cells=cells).map(1) / 2**30, 6)
    1.414214
    """
    rows, columns = check_columns(input_domain, input_metric, cells)

    def count(scores: Floats) -> list[int]:
        return [ROW * int(c) for c in cells.counts(as_matrix(scores, rows, columns))]

    return dp.t.make_user_transformation(
        input_domain,
        input_metric,
        integers_domain(cells.number),
        integers_metric(),
        count,
        lambda d_in: counts_sensitivity(min(d_in, rows)),
    )


def counts_sensitivity(d_in: int) -> float:
    """sqrt(2) d 2^30, rounded up."""
    return float_above(d_in * ROW * root_above(Fraction(2)))


def additive_stage(share: Budget, *, cells: int, d_in: int) -> GaussianStage:
    """The Gaussian stage of an additive histogram."""
    return gaussian_stage(share, sensitivity=counts_sensitivity(d_in), numbers=cells)


def make_additive_histogram(
    input_domain: Domain, input_metric: Metric, *, cells: Cells, share: Budget, d_in: int
) -> Measurement:
    """A histogram with Gaussian noise on every cell, clipped at 0 and normalised.

    ==================  ==================================================
    input domain        matrices, n rows by 2 (x, y)
    input metric        Hamming distance over rows
    output              Histogram; mass of shape 1 by y bins by x bins
    output measure      Gaussian differential privacy
    privacy map         that of ``make_gaussian`` at sqrt(2) d; at ``d_in`` at most the loss of
                        ``additive_stage``
    units               rows; noise sqrt(2) d_in / mu
    cost                n, and one draw a cell
    ==================  ==================================================

    Proof: one Gaussian on cell counts; clipping and normalising are post-processing.
    Source: Algorithm 3 of the source.

    Raises:
        ValueError: as ``make_cell_counts`` and ``gaussian_stage``; cells of several groups.

    >>> from dppca_odp.frame import Frame
    >>> from dppca_odp.spaces import matrix_domain, rows_metric
    >>> cells = Cells(frame=Frame(x_low=0, x_high=1, y_low=0, y_high=1), bins=(8, 8))
    >>> m = make_additive_histogram(matrix_domain(99, 2), rows_metric(), cells=cells,
    ...     share=Budget.of("1", "1e-5"), d_in=1)
    >>> round(float(m.map(1)[0]), 6), m.map(0) == (0, 0)
    (0.268051, True)
    """
    check_groups(cells, grouped=False)
    return _additive(input_domain, input_metric, cells, share, d_in)


def make_grouped_additive_histogram(
    input_domain: Domain, input_metric: Metric, *, cells: Cells, share: Budget, d_in: int
) -> Measurement:
    """Additive histograms of every group: one histogram over (group, cell).

    ==================  ==================================================
    input domain        matrices, n rows by 3 (x, y, group code)
    input metric        Hamming distance over rows
    output              Histogram; mass of shape groups by y bins by x bins
    output measure      Gaussian differential privacy
    privacy map         that of ``make_additive_histogram``, the same budget for every group
    units               rows; noise sqrt(2) d_in / mu
    cost                n, and one draw a cell
    ==================  ==================================================

    Proof: one row is in one cell of one group; a row whose group changes leaves one cell and enters
    another, no more than a row whose score changes.
    Source: Algorithm 5 of the source, where memberships are public.

    Raises:
        ValueError: as ``make_additive_histogram``; cells of one group.

    >>> from dppca_odp.frame import Frame
    >>> from dppca_odp.spaces import matrix_domain, rows_metric
    >>> cells = Cells(frame=Frame(x_low=0, x_high=1, y_low=0, y_high=1), bins=(8, 8), groups=3)
    >>> m = make_grouped_additive_histogram(matrix_domain(99, 3), rows_metric(), cells=cells,
    ...     share=Budget.of("1", "1e-5"), d_in=1)
    >>> round(float(m.map(1)[0]), 6), m.map(0) == (0, 0)
    (0.268051, True)
    """
    check_groups(cells, grouped=True)
    return _additive(input_domain, input_metric, cells, share, d_in)


def _additive(
    input_domain: Domain, input_metric: Metric, cells: Cells, share: Budget, d_in: int
) -> Measurement:
    stage = additive_stage(share, cells=cells.number, d_in=d_in)

    def read(noisy: list[int]) -> Histogram:
        counts = np.array([count / ROW for count in noisy])
        return Histogram(normalised(counts, cells), stage.scale / ROW, None)

    chain: Measurement = (
        make_cell_counts(input_domain, input_metric, cells=cells)
        >> then_gaussian(scale=stage.scale)
        >> read
    )
    return chain


then_additive_histogram: Any = to_then(make_additive_histogram)
then_cell_counts: Any = to_then(make_cell_counts)
then_grouped_additive_histogram: Any = to_then(make_grouped_additive_histogram)
