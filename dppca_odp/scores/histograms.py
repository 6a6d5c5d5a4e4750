"""Private histograms of scores on a frame: additive or sparse, of all rows or by group.

Source: Algorithms 3 to 6 of the source. Differences: by group is one histogram over (group,
cell), so that a changed label costs no more than a changed score and memberships are private; no
mass gives a histogram of zeros, flagged, in both kinds; the sparse threshold is the smallest that
the share allows.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import opendp.prelude as dp
from opendp.mod import Domain, Measurement, Metric, Transformation
from pydantic import Field, model_validator

from accountant.amounts import float_above, root_above
from accountant.facts import Fact
from accountant.specs import Budget
from dppca_odp.frame import Frame
from dppca_odp.primitives.noise import GaussianStage, gaussian_stage, stage_loss, then_gaussian
from dppca_odp.spaces import approximate, integers_domain, integers_metric, matrix_shape, to_then
from dppca_odp.values import Floats, as_matrix

Bins = Annotated[int, Field(ge=1, le=4096)]

#: One row, in the units of the additive histogram: Gaussian noise wants at least 2^30.
ROW = 2**30
BLOCK_ROWS = 65536
#: Noise on more cells would take minutes, and show nothing else.
MOST_CELLS = 1_000_000
#: No table has more rows.
LARGEST_THRESHOLD = 2**40


class Cells(Fact):
    """The public grid of a histogram: a frame cut into bins, for one or more groups."""

    frame: Frame
    bins: tuple[Bins, Bins]
    """Along x and along y."""
    groups: Annotated[int, Field(ge=1)] = 1
    """Declared levels and the rest group; 1 for all rows together."""

    @model_validator(mode="after")
    def _cells_are_few_enough(self) -> Self:
        if self.number > MOST_CELLS:
            raise ValueError(
                f"bins and groups must make at most {MOST_CELLS} cells; got {self.number}. "
                "Use fewer bins."
            )
        return self

    @property
    def number(self) -> int:
        """All cells of all groups."""
        return self.groups * self.bins[0] * self.bins[1]

    def positions(self, scores: Floats) -> npt.NDArray[np.intp]:
        """The cell of each row inside the frame; rows outside have none.

        The third column, if there are groups, holds their codes; what is no code counts as the
        last group.
        """
        frame, (across, up) = self.frame, self.bins
        x, y = scores[:, 0], scores[:, 1]
        inside = (x >= frame.x_low) & (x <= frame.x_high) & (y >= frame.y_low) & (y <= frame.y_high)
        kept = scores[inside]
        column = _bin(kept[:, 0], frame.x_low, frame.x_high, across)
        row = _bin(kept[:, 1], frame.y_low, frame.y_high, up)
        cell = row * across + column
        if self.groups == 1:
            return cell
        codes = kept[:, 2]
        known = (codes >= 0) & (codes < self.groups)
        group = np.where(known, codes, self.groups - 1).astype(np.intp)
        return group * (across * up) + cell

    def counts(self, scores: Floats) -> npt.NDArray[np.int64]:
        """How many rows lie in each cell, block by block."""
        total = np.zeros(self.number, dtype=np.int64)
        for start in range(0, len(scores), BLOCK_ROWS):
            cells = self.positions(scores[start : start + BLOCK_ROWS])
            total += np.bincount(cells, minlength=self.number)
        return total


class Histogram(NamedTuple):
    """Shares of mass by group, y bin and x bin; each group sums to 1, or to 0 if it is empty."""

    mass: Floats
    noise_scale: float
    """The standard deviation of the Gaussian, or the scale of the Laplace noise, in rows."""
    threshold: int | None
    """Noisy counts below it are left out; none in an additive histogram."""


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

    >>> from dppca_odp.spaces import matrix_domain, rows_metric
    >>> cells = Cells(frame=Frame(x_low=0, x_high=1, y_low=0, y_high=1), bins=(8, 8))
    >>> round(make_cell_counts(matrix_domain(9, 2), rows_metric(), cells=cells).map(1) / 2**30, 6)
    1.414214
    """
    rows, columns = _check_columns(input_domain, input_metric, cells)

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
    input domain        matrices, n rows by 2 (x, y) or 3 (x, y, group code)
    input metric        Hamming distance over rows
    output              Histogram; mass of shape groups by y bins by x bins
    output measure      approximate differential privacy
    privacy map         that of ``make_gaussian`` at sqrt(2) d; at ``d_in`` at most the share
    units               rows; noise sqrt(2) d_in / mu
    cost                n, and one draw a cell
    ==================  ==================================================

    Proof: one Gaussian on cell counts; clipping and normalising are post-processing. With groups
    each has the whole budget: one row is in one cell of one group.
    Source: Algorithms 3 and 5 of the source.

    Raises:
        ValueError: as ``make_cell_counts`` and ``gaussian_stage``.

    >>> from dppca_odp.spaces import matrix_domain, rows_metric
    >>> cells = Cells(frame=Frame(x_low=0, x_high=1, y_low=0, y_high=1), bins=(8, 8))
    >>> m = make_additive_histogram(matrix_domain(99, 2), rows_metric(), cells=cells,
    ...     share=Budget.of("1", "1e-6"), d_in=1)
    >>> 0.999999 < m.map(1)[0] < 1 and m.map(0) == (0, 0)
    True
    """
    stage = additive_stage(share, cells=cells.number, d_in=d_in)

    def read(noisy: list[int]) -> Histogram:
        counts = np.array([count / ROW for count in noisy])
        return Histogram(_normalised(counts, cells), stage.scale / ROW, None)

    chain: Measurement = (
        make_cell_counts(input_domain, input_metric, cells=cells)
        >> then_gaussian(scale=stage.scale, delta=stage.delta)
        >> read
    )
    return chain


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

    >>> from dppca_odp.spaces import matrix_domain, rows_metric
    >>> cells = Cells(frame=Frame(x_low=0, x_high=1, y_low=0, y_high=1), bins=(8, 8))
    >>> make_cell_map(matrix_domain(9, 2), rows_metric(), cells=cells).map(3)
    (6, 6, 3)
    """
    rows, columns = _check_columns(input_domain, input_metric, cells)

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
    input domain        matrices, n rows by 2 (x, y) or 3 (x, y, group code)
    input metric        Hamming distance over rows
    output              Histogram; mass of shape groups by y bins by x bins
    output measure      approximate differential privacy
    privacy map         that of ``make_threshold_noise`` at (2 d, 2 d, d); at ``d_in`` at most the
                        share
    units               rows; noise of scale 2 d_in / epsilon
    cost                n, and one draw a cell that is not empty
    ==================  ==================================================

    Proof: stable counts, then threshold noise; an empty cell never leaves.
    Source: Algorithms 4 and 6 of the source, with the smallest threshold instead of
    2 log(2/delta)/epsilon + 1.

    Raises:
        ValueError: as ``make_cell_map`` and ``sparse_stage``.

    >>> from dppca_odp.spaces import matrix_domain, rows_metric
    >>> cells = Cells(frame=Frame(x_low=0, x_high=1, y_low=0, y_high=1), bins=(8, 8))
    >>> m = make_sparse_histogram(matrix_domain(99, 2), rows_metric(), cells=cells,
    ...     share=Budget.of("1", "1e-6"), d_in=1)
    >>> 0.999999 < m.map(1)[0] < 1, m.map(1)[1] < 1e-6, m.map(0)
    (True, True, (0.0, 0.0))
    """
    stage = sparse_stage(share, d_in=d_in)

    def read(noisy: dict[int, int]) -> Histogram:
        counts = np.zeros(cells.number)
        for cell, count in noisy.items():
            counts[cell] = count
        return Histogram(_normalised(counts, cells), stage.scale, stage.threshold)

    chain: Measurement = (
        make_cell_map(input_domain, input_metric, cells=cells)
        >> then_threshold_noise(scale=stage.scale, threshold=stage.threshold)
        >> read
    )
    return chain


def _bin(values: Floats, low: float, high: float, bins: int) -> npt.NDArray[np.intp]:
    """The bin of each value between the ends; the upper end belongs to the last bin."""
    share = (values - low) / (high - low)
    return np.clip((share * bins).astype(np.intp), 0, bins - 1)


def _normalised(counts: Floats, cells: Cells) -> Floats:
    across, up = cells.bins
    mass = np.maximum(counts, 0.0).reshape(cells.groups, up, across)
    totals = mass.sum(axis=(1, 2), keepdims=True)
    return np.asarray(np.divide(mass, totals, out=np.zeros_like(mass), where=totals > 0))


def _check_columns(input_domain: Domain, input_metric: Metric, cells: Cells) -> tuple[int, int]:
    rows, columns = matrix_shape(input_domain, input_metric)
    wanted = 2 if cells.groups == 1 else 3
    if columns != wanted:
        raise ValueError(
            f"input_domain must have {wanted} columns for {cells.groups} groups; got {columns}. "
            "Give x, y and, for groups, their code."
        )
    if rows >= 2**31:
        raise ValueError(f"input_domain must have fewer than 2^31 rows; got {rows}. Use fewer.")
    return rows, columns


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


then_additive_histogram: Any = to_then(make_additive_histogram)
then_cell_counts: Any = to_then(make_cell_counts)
then_cell_map: Any = to_then(make_cell_map)
then_sparse_histogram: Any = to_then(make_sparse_histogram)
then_threshold_noise: Any = to_then(make_threshold_noise)
