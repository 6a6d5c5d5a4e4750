"""Values a block at a time: a pass holds one block, however many values there are.

A pass is a function of a block and an associative sum. Blocks are stored column by column, since
what a pass compares them with is one number for each of a few columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from dppca_odp.values import Floats, as_matrix, check_shape

#: Rows looked at together: enough to amortise a pass, few enough to stay in the cache.
BLOCK_ROWS = 4096


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
    for start in range(0, len(matrix), BLOCK_ROWS):
        yield np.array(matrix[start : start + BLOCK_ROWS], order="F")
