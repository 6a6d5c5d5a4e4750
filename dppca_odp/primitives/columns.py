"""Which numbers of a row are looked at: leading columns, scaled ones, coordinates."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import opendp.prelude as dp
from opendp.mod import Domain, Metric, Transformation

from dppca_odp.primitives.blocks import BLOCK_ROWS
from dppca_odp.spaces import matrix_domain, matrix_shape, rows_metric, to_then
from dppca_odp.values import LARGEST_VALUE, Floats, as_matrix, clamp


def make_leading_columns(
    input_domain: Domain, input_metric: Metric, *, columns: int
) -> Transformation:
    """The first columns of every row.

    ==================  ==================================================
    input domain        matrices, n rows by at least ``columns``
    input metric        Hamming distance over rows
    output domain       matrices, n by ``columns``
    output metric       Hamming distance over rows
    stability map       d -> d
    cost                none: a view
    ==================  ==================================================

    Proof: row i of the output is a function of row i of the input.
    Source: ours; the codes of labels stand behind the measured columns.

    Raises:
        ValueError: fewer columns than that.

    >>> make_leading_columns(matrix_domain(4, 3), rows_metric(), columns=2).map(3)
    3
    """
    rows, present = matrix_shape(input_domain, input_metric)
    if not 1 <= columns <= present:
        raise ValueError(f"columns must be between 1 and {present}; got {columns}. Use fewer.")
    return dp.t.make_user_transformation(
        input_domain,
        input_metric,
        matrix_domain(rows, columns),
        rows_metric(),
        lambda table: as_matrix(table, rows, present)[:, :columns],
        lambda d_in: d_in,
    )


def make_scaled_columns(
    input_domain: Domain, input_metric: Metric, *, scales: npt.ArrayLike
) -> Transformation:
    """Every column divided by a public or released number.

    ==================  ==================================================
    input domain        matrices, n rows by p columns
    input metric        Hamming distance over rows
    output domain       matrices, n by p, within +-1e100
    output metric       Hamming distance over rows
    stability map       d -> d
    units               each column in units of its scale
    cost                n p
    ==================  ==================================================

    Proof: row i of the output is a function of row i of the input, and of nothing else.
    NaN counts as 0 and values are clamped to +-1e100 before they are divided, and again after: a
    finite number over a positive one is no NaN, and where it overflows it is clamped.

    Source: ours.

    Raises:
        ValueError: scales are not p positive finite numbers.

    >>> make_scaled_columns(matrix_domain(4, 2), rows_metric(), scales=[1000, 1]).map(3)
    3
    """
    rows, columns = matrix_shape(input_domain, input_metric)
    divisors = np.asarray(scales, dtype=np.float64)
    if divisors.shape != (columns,):
        raise ValueError(
            f"scales must be {columns} numbers, one for each column; got shape {divisors.shape}. "
            "Use 1 for a column that stays as it is."
        )
    if not (np.isfinite(divisors) & (divisors > 0)).all():
        raise ValueError(
            f"scales must be positive and finite; got {float(divisors.min())} to "
            f"{float(divisors.max())}. Use 1 for a column that stays as it is."
        )

    def divide(table: Floats) -> Floats:
        matrix = as_matrix(table, rows, columns)
        scaled = np.empty((rows, columns))
        for start in range(0, rows, BLOCK_ROWS):
            block = slice(start, start + BLOCK_ROWS)
            with np.errstate(over="ignore"):
                np.divide(clamp(matrix[block]), divisors, out=scaled[block])
        return np.clip(scaled, -LARGEST_VALUE, LARGEST_VALUE, out=scaled)

    return dp.t.make_user_transformation(
        input_domain,
        input_metric,
        matrix_domain(rows, columns),
        rows_metric(),
        divide,
        lambda d_in: d_in,
    )


def make_projection(
    input_domain: Domain, input_metric: Metric, *, directions: npt.ArrayLike
) -> Transformation:
    """Coordinates of every row along public or released directions.

    ==================  ==================================================
    input domain        matrices, n rows by p columns
    input metric        Hamming distance over rows
    output domain       matrices, n by k
    output metric       Hamming distance over rows
    stability map       d -> d
    cost                n p k
    ==================  ==================================================

    Proof: row i of the output is a function of row i of the input.
    NaN counts as 0 and values are clamped to +-1e100, so that every float is answered for.

    Source: eigenvalues document, section 1 (Y = X V).

    Raises:
        ValueError: directions are not p by k finite numbers with 1 <= k <= p.

    >>> t = make_projection(matrix_domain(4, 2), rows_metric(), directions=[[1.0], [0.0]])
    >>> t.map(3)
    3
    """
    rows, columns = matrix_shape(input_domain, input_metric)
    loadings = np.asarray(directions, dtype=np.float64)
    if loadings.ndim != 2 or loadings.shape[0] != columns or not 1 <= loadings.shape[1] <= columns:
        raise ValueError(
            f"directions must have one row per column ({columns}) and 1 to {columns} columns; "
            f"got shape {loadings.shape}. Give one column for each component."
        )
    if not np.isfinite(loadings).all():
        raise ValueError("directions must be finite; got NaN or infinity. Give numbers.")

    def project(table: Floats) -> Floats:
        matrix = as_matrix(table, rows, columns)
        coordinates = np.empty((rows, loadings.shape[1]))
        for start in range(0, rows, BLOCK_ROWS):
            block = slice(start, start + BLOCK_ROWS)
            np.matmul(clamp(matrix[block]), loadings, out=coordinates[block])
        return coordinates

    return dp.t.make_user_transformation(
        input_domain,
        input_metric,
        matrix_domain(rows, loadings.shape[1]),
        rows_metric(),
        project,
        lambda d_in: d_in,
    )


then_leading_columns: Any = to_then(make_leading_columns)
then_projection: Any = to_then(make_projection)
then_scaled_columns: Any = to_then(make_scaled_columns)
