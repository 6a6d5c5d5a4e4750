"""Arrays of numbers, their limits, and the public parameters that describe them."""

from __future__ import annotations

from typing import Annotated, TypeVar

import numpy as np
import numpy.typing as npt
from pydantic import Field

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]

Some = TypeVar("Some")
#: Left out of JSON where there is none, as in what was written before it was told.
IfAny = Annotated[Some, Field(exclude_if=lambda given: not given)]

Finite = Annotated[float, Field(allow_inf_nan=False)]
Positive = Annotated[Finite, Field(gt=0)]

#: Bounds of a mean lie within this, so that reading a noisy sum cannot overflow.
LARGEST_BOUND = 1e200
Bound = Annotated[Finite, Field(ge=-LARGEST_BOUND, le=LARGEST_BOUND)]

#: Values without public bounds are clamped to this, so that no later step can overflow.
LARGEST_VALUE = 1e100


def clamp(values: npt.ArrayLike) -> Floats:
    """A float64 copy with NaN as 0 and the rest within +-1e100: an answer for every number."""
    with np.errstate(all="ignore"):
        copied = np.array(values, dtype=np.float64)
    np.nan_to_num(copied, copy=False, nan=0.0, posinf=LARGEST_VALUE, neginf=-LARGEST_VALUE)
    return np.clip(copied, -LARGEST_VALUE, LARGEST_VALUE, out=copied)


def as_matrix(values: npt.ArrayLike, rows: int, columns: int) -> Floats:
    """Float64 numbers of the public shape of a domain; other numbers and masks are converted.

    Raises:
        ValueError: the shape differs.
    """
    with np.errstate(all="ignore"):
        matrix = np.asarray(values, dtype=np.float64)
    check_shape(matrix.shape, rows, columns)
    return matrix


def check_shape(shape: tuple[int, ...], rows: int, columns: int) -> None:
    """Refuse a matrix of another than the public shape.

    Raises:
        ValueError: the shape differs.
    """
    if shape != (rows, columns):
        raise ValueError(
            f"the matrix must be {rows} by {columns}; got shape {shape}. "
            "Build the measurement for this shape."
        )
