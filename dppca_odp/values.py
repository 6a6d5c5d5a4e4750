"""Arrays of numbers, their limits, and the public parameters that describe them."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import numpy.typing as npt
from pydantic import Field

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

Finite = Annotated[float, Field(allow_inf_nan=False)]
Positive = Annotated[Finite, Field(gt=0)]

#: Values without public bounds are clamped to this, so that no later step can overflow.
LARGEST_VALUE = 1e100


def clamp(values: npt.ArrayLike) -> Floats:
    """A copy with NaN as 0 and everything within +-1e100: an answer for every float."""
    clamped = np.nan_to_num(values, nan=0.0, posinf=LARGEST_VALUE, neginf=-LARGEST_VALUE)
    return np.clip(clamped, -LARGEST_VALUE, LARGEST_VALUE, out=clamped)


def check_shape(values: Floats, rows: int, columns: int) -> None:
    """Refuse a matrix of another shape than the public one of its domain.

    Raises:
        ValueError: the shape differs.
    """
    if np.shape(values) != (rows, columns):
        raise ValueError(
            f"the matrix must be {rows} by {columns}; got shape {np.shape(values)}. "
            "Build the measurement for this shape."
        )
