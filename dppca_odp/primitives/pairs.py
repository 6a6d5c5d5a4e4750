"""Pairs of rows: half squared differences along directions, whose mean is a variance.

For independent rows ``(v . (x_a - x_b))^2 / 2`` has mean ``v' Sigma v``: no centring is needed.
Two ways to pair, both on a random order that does not depend on the data:

* degree 1, *disjoint*: positions (0, 1), (2, 3), ...; each row is in at most one pair, and one
  row is idle when their number is odd.
* even degree d, a *ring*: position i with the next d/2 positions; each row is in exactly d pairs.

Source: eigenvalues document, section 1; the ring is ours. A changed row changes at most
``degree`` pairs, so a mean over pairs moves by the same 2/n for every ring: a ring costs no
privacy and removes most of the variance that comes from pairing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import opendp.prelude as dp
from opendp.mod import Domain, Metric, Transformation

from dppca_odp.primitives.blocks import BLOCK_ROWS, MOST_VALUES, block_starts
from dppca_odp.spaces import matrix_domain, matrix_shape, rows_metric, to_then
from dppca_odp.values import Floats, as_matrix, check_shape, clamp


@dataclass(frozen=True, eq=False)
class Pairing:
    """Which rows meet: a public fact, drawn without looking at the data."""

    rows: int
    degree: int
    order: npt.NDArray[np.intp] = field(repr=False)

    def __post_init__(self) -> None:
        if self.rows < 2:
            raise ValueError(f"rows must be at least 2; got {self.rows}. A pair needs two rows.")
        ring = self.degree >= 2 and self.degree % 2 == 0 and self.degree <= self.rows - 1
        if self.degree != 1 and not ring:
            raise ValueError(
                f"degree must be 1, or even and at most rows - 1; got {self.degree} for "
                f"{self.rows} rows. Use ring_degree(rows, degree) to fit it."
            )
        if not np.array_equal(np.sort(self.order), np.arange(self.rows)):
            raise ValueError(
                f"order must be a permutation of {self.rows} positions; got another list. "
                "Use draw_pairing."
            )

    @property
    def pairs(self) -> int:
        """The number of pairs."""
        return number_of_pairs(self.rows, self.degree)

    def differences(self, values: Floats) -> Iterator[Floats]:
        """Differences of clamped paired rows, a block at a time, always in the same order."""
        for start, stop in _windows(self.rows, self.degree):
            yield from _differences(self._rows_at(values, start, stop), self.degree)

    def half_squared_differences(self, values: Floats) -> HalfSquaredDifferences:
        """Half their squares, of rows that are brought into order once."""
        end = _used(self.rows, self.degree) + self.degree // 2
        ordered = np.empty((end, values.shape[1]), order="F")
        for start in block_starts(end):
            stop = min(start + BLOCK_ROWS, end)
            ordered[start:stop] = self._rows_at(values, start, stop)
        return HalfSquaredDifferences(self.rows, self.degree, ordered)

    def _rows_at(self, values: Floats, start: int, stop: int) -> Floats:
        """Clamped rows at these positions of the order; a ring closes behind the last."""
        return clamp(values[self.order[np.arange(start, stop) % self.rows]])


@dataclass(frozen=True, eq=False)
class HalfSquaredDifferences:
    """A matrix of pairs that holds rows only: it makes its pairs in blocks (``InBlocks``)."""

    rows: int
    degree: int
    ordered: Floats = field(repr=False)
    """Paired rows in order, clamped; for a ring the first degree/2 come again at the end."""

    @property
    def shape(self) -> tuple[int, int]:
        """Pairs and columns."""
        return number_of_pairs(self.rows, self.degree), self.ordered.shape[1]

    def blocks(self) -> Iterator[Floats]:
        """All pairs, always in the same order, a fresh block at a time."""
        for start, stop in _windows(self.rows, self.degree):
            for block in _differences(self.ordered[start:stop], self.degree):
                block *= block
                block *= 0.5
                yield block

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Floats:
        """All pairs at once, in the order of ``blocks``."""
        pairs = np.empty(self.shape)
        done = 0
        for block in self.blocks():
            pairs[done : done + len(block)] = block
            done += len(block)
        return pairs if dtype is None else pairs.astype(dtype, copy=False)

    def part(self, start: int, stop: int) -> HalfSquaredDifferences:
        """The disjoint pairs at these positions, without making them.

        Raises:
            ValueError: pairs on a ring, whose parts would share rows.
        """
        if self.degree > 1:
            raise ValueError(
                f"pairs must be disjoint to be parted; got a ring of degree {self.degree}. "
                "Draw pairs of degree 1."
            )
        rows = self.ordered[2 * start : 2 * stop]
        return HalfSquaredDifferences(len(rows), self.degree, rows)


def _used(rows: int, degree: int) -> int:
    """How many positions of the order have a pair."""
    return rows if degree > 1 else rows // 2 * 2


def _windows(rows: int, degree: int) -> Iterator[tuple[int, int]]:
    """Where the rows of each block of pairs begin and end in the order."""
    used = _used(rows, degree)
    for start in block_starts(used):
        yield start, min(start + BLOCK_ROWS, used) + degree // 2


def _differences(window: Floats, degree: int) -> Iterator[Floats]:
    """Differences of the rows in one window."""
    reach = degree // 2
    if not reach:
        yield window[0::2] - window[1::2]
    first = len(window) - reach
    for step in range(1, reach + 1):
        yield window[:first] - window[step : step + first]


def number_of_pairs(rows: int, degree: int) -> int:
    """How many pairs a public number of rows makes."""
    return rows // 2 if degree == 1 else rows * degree // 2


def pairs_changed(rows: int, degree: int, d_in: int) -> int:
    """How many pairs d rows are in, at most: ``degree`` each, and no more than there are."""
    return min(degree * d_in, number_of_pairs(rows, degree))


def ring_degree(rows: int, degree: int) -> int:
    """The largest even degree, at most ``degree``, that a ring of ``rows`` rows allows."""
    if rows < 3:
        raise ValueError(f"rows must be at least 3 for a ring; got {rows}. Give more rows.")
    if degree < 2 or degree % 2:
        raise ValueError(f"degree must be even and at least 2; got {degree}. Use 16.")
    return min(degree, (rows - 1) // 2 * 2)


def draw_pairing(rows: int, degree: int) -> Pairing:
    """A pairing on a fresh random order.

    The order makes disjoint pairs unbiased on sorted tables; privacy does not rest on it.

    Raises:
        ValueError: 2^31 pairs or more, whose sums could leave 64 bits.
    """
    if number_of_pairs(rows, degree) >= MOST_VALUES:
        raise ValueError(
            f"pairs must be fewer than 2^31; got {number_of_pairs(rows, degree)}. Use a lower "
            "degree."
        )
    return Pairing(rows, degree, np.random.default_rng().permutation(rows))


def make_half_squared_differences(
    input_domain: Domain, input_metric: Metric, *, pairing: Pairing
) -> Transformation:
    """Half squared differences of paired rows, column by column.

    ==================  ==================================================
    input domain        matrices, n by k (coordinates along directions)
    input metric        Hamming distance over rows
    output domain       matrices, N pairs by k, nonnegative
    output metric       Hamming distance over pairs
    stability map       d -> min(degree d, N)
    units               squared data units
    cost                n k; N k for each pass over the pairs
    ==================  ==================================================

    The output holds rows, n by k, and makes pairs in blocks (``HalfSquaredDifferences``).

    Proof: each row is in at most ``degree`` pairs, so d rows touch at most degree d of them; a
    pair with two changed rows counts once. The pairing does not depend on the data.

    Source: eigenvalues document, section 1 (w).

    Raises:
        ValueError: the pairing is for another number of rows.

    >>> t = make_half_squared_differences(
    ...     matrix_domain(9, 2), rows_metric(), pairing=draw_pairing(9, 4))
    >>> t.map(1), t.map(9)
    (4, 18)
    """
    rows, columns = matrix_shape(input_domain, input_metric)
    if pairing.rows != rows:
        raise ValueError(
            f"pairing must be for {rows} rows; got {pairing.rows}. Draw one for this table."
        )

    def pair(coordinates: Floats) -> HalfSquaredDifferences:
        return pairing.half_squared_differences(as_matrix(coordinates, rows, columns))

    return dp.t.make_user_transformation(
        input_domain,
        input_metric,
        matrix_domain(pairing.pairs, columns),
        rows_metric(),
        pair,
        lambda d_in: pairs_changed(rows, pairing.degree, d_in),
    )


def make_part_of_pairs(
    input_domain: Domain, input_metric: Metric, *, start: int, stop: int
) -> Transformation:
    """The pairs at positions start to stop (exclusive).

    ==================  ==================================================
    input domain        matrices, N pairs by k
    input metric        Hamming distance over pairs
    output domain       matrices, stop - start by k
    output metric       Hamming distance over pairs
    stability map       d -> min(d, stop - start)
    cost                none: a view
    ==================  ==================================================

    Proof: a pair keeps its place or is left out, by public positions; their order is random.

    Source: eigenvalues document, section 3.1 (disjoint rows for quantiles and mean).

    Raises:
        ValueError: the positions are not an interval of the pairs; when it is asked, pairs on a
            ring.

    >>> t = make_part_of_pairs(matrix_domain(9, 2), rows_metric(), start=0, stop=4)
    >>> t.map(3), t.map(5)
    (3, 4)
    """
    pairs, columns = matrix_shape(input_domain, input_metric)
    if not 0 <= start < stop <= pairs:
        raise ValueError(
            f"start and stop must mark a part of 0 to {pairs}; got {start} and {stop}. "
            "Keep start below stop."
        )

    def part(values: Floats | HalfSquaredDifferences) -> Floats | HalfSquaredDifferences:
        if isinstance(values, HalfSquaredDifferences):
            check_shape(values.shape, pairs, columns)
            return values.part(start, stop)
        return as_matrix(values, pairs, columns)[start:stop]

    return dp.t.make_user_transformation(
        input_domain,
        input_metric,
        matrix_domain(stop - start, columns),
        rows_metric(),
        part,
        lambda d_in: min(d_in, stop - start),
    )


then_half_squared_differences: Any = to_then(make_half_squared_differences)
then_part_of_pairs: Any = to_then(make_part_of_pairs)
