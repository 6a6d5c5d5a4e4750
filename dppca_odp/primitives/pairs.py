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

from dppca_odp.spaces import matrix_domain, matrix_shape, rows_metric, to_then
from dppca_odp.values import Floats, as_matrix, clamp

#: Rows looked at together: enough to amortise a pass, few enough to stay in the cache.
BLOCK_ROWS = 4096


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
        reach = self.degree // 2
        used = self.rows if reach else 2 * self.pairs
        for start in range(0, used, BLOCK_ROWS):
            stop = min(start + BLOCK_ROWS, used)
            positions = np.arange(start, stop + reach) % self.rows
            local = clamp(values[self.order[positions]])
            if not reach:
                yield local[0::2] - local[1::2]
            for step in range(1, reach + 1):
                yield local[: stop - start] - local[step : step + stop - start]


def number_of_pairs(rows: int, degree: int) -> int:
    """How many pairs a public number of rows makes."""
    return rows // 2 if degree == 1 else rows * degree // 2


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
    """
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
    cost                N k
    ==================  ==================================================

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
    pairs = pairing.pairs

    def pair(coordinates: Floats) -> Floats:
        halves = np.empty((pairs, columns))
        done = 0
        for difference in pairing.differences(as_matrix(coordinates, rows, columns)):
            block = halves[done : done + len(difference)]
            np.multiply(difference, difference, out=block)
            block *= 0.5
            done += len(difference)
        return halves

    return dp.t.make_user_transformation(
        input_domain,
        input_metric,
        matrix_domain(pairs, columns),
        rows_metric(),
        pair,
        lambda d_in: min(pairing.degree * d_in, pairs),
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
        ValueError: the positions are not an interval of the pairs.

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

    def part(values: Floats) -> Floats:
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
