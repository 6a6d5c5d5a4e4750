"""Values a block at a time: a pass holds one block, however many values there are.

A pass is a function of a block and an associative sum. Blocks are stored column by column, since
what a pass compares them with is one number for each of a few columns. Every pass counts its blocks
here, so that a listener can hear of it: how many there are depends on the number of rows alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
from opendp.mod import Domain, Metric

from dppca_odp.spaces import matrix_shape
from dppca_odp.values import Floats, as_matrix, check_shape

#: Rows looked at together: enough to amortise a pass, few enough to stay in the cache.
BLOCK_ROWS = 4096

#: As many values in a column could overflow its 64-bit sum.
MOST_VALUES = 2**31

#: Hears how many blocks of a pass are done, of how many: 0 when it begins.
Listener = Callable[[int, int], None]
_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def heard_by(listener: Listener) -> Iterator[None]:
    """Tell a listener the passes of this block of code, in this thread."""
    before = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(before)


def block_starts(rows: int) -> Iterable[int]:
    """Where each block of a pass begins; the one before is done when the next is asked for."""
    starts = range(0, rows, BLOCK_ROWS)
    listener = _listener.get()
    return starts if listener is None else _told(starts, listener)


def _told(starts: range, listener: Listener) -> Iterator[int]:
    for done, start in enumerate(starts):
        listener(done, len(starts))
        yield start
    listener(len(starts), len(starts))


def summable_shape(input_domain: Domain, input_metric: Metric) -> tuple[int, int]:
    """The public rows and columns of matrices whose columns are to be summed in 64 bits.

    Raises:
        ValueError: 2^31 rows or more; not matrices.
    """
    rows, columns = matrix_shape(input_domain, input_metric)
    if rows >= MOST_VALUES:
        raise ValueError(f"input_domain must have fewer than 2^31 rows; got {rows}. Use fewer.")
    return rows, columns


@runtime_checkable
class InBlocks(Protocol):
    """A matrix that is not stored: it makes its rows when it is asked for them."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""

    def blocks(self) -> Iterator[Floats]:
        """All rows, always in the same order, in fresh blocks of at most ``BLOCK_ROWS``."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Floats:
        """All of it, for those who need all of it."""


def blocks_of(values: npt.ArrayLike | InBlocks, rows: int, columns: int) -> Iterator[Floats]:
    """The rows of a matrix of a public shape, stored or not, in blocks that may be overwritten.

    Raises:
        ValueError: the shape differs.
    """
    if isinstance(values, InBlocks):
        check_shape(values.shape, rows, columns)
        return values.blocks()
    return _slices(as_matrix(values, rows, columns))


def _slices(matrix: Floats) -> Iterator[Floats]:
    for start in block_starts(len(matrix)):
        yield np.array(matrix[start : start + BLOCK_ROWS], order="F")
