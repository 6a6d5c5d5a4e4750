"""Loading at the holder: a file or an array against a declared schema, before any charge.

Nothing is inferred from values. Missing values take a declared constant, or the table is
refused; values outside public bounds are clamped, never an error. A refusal names a column
or a shape, never a value, a count or a row.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl
from pydantic import model_validator

from accountant.facts import Fact, Name
from dppca_odp.errors import UnusableTable
from dppca_odp.values import LARGEST_VALUE, Finite, Floats, Positive

Read = TypeVar("Read")

NO_MATRIX = (
    "the table must be a matrix or data frame of numbers; got something else. "
    "Give numeric columns only."
)
UNREADABLE = (
    "data must be UTF-8 text with commas, or Parquet; got something else. "
    "Check how the file was saved."
)


class Column(Fact):
    """What is public about one column, whoever is in the table."""

    name: Name
    lower: Finite | None = None
    """Values below count as this."""
    upper: Finite | None = None
    """Values above count as this."""
    scale: Positive = 1.0
    """The column is divided by it, so that columns in different units can be compared."""
    missing: Finite | None = None
    """Stands for missing values; without it a table with missing values is refused."""

    @model_validator(mode="after")
    def _bounds_in_order(self) -> Self:
        if self.lower is not None and self.upper is not None and self.lower > self.upper:
            raise ValueError(
                f"lower must not be above upper; got {self.lower} and {self.upper}. Swap them."
            )
        return self

    def bounds(self) -> tuple[float, float]:
        """The interval that values are clamped to, before scaling."""
        return (
            -LARGEST_VALUE if self.lower is None else self.lower,
            LARGEST_VALUE if self.upper is None else self.upper,
        )


def load_table(source: Any, columns: Sequence[Column]) -> Floats:
    """Prepared rows from a matrix, a data frame (by column name), or the path of a file.

    Raises:
        UnusableTable: as ``read_table`` and ``prepare``.
    """
    if isinstance(source, str | Path):
        return prepare(read_table(source, columns), columns)
    if hasattr(source, "columns"):
        names = [column.name for column in columns]
        _check_names(names, [str(name) for name in source.columns])
        source = _quietly(lambda: source[names], NO_MATRIX)
    return prepare(source, columns)


def read_table(path: str | Path, columns: Sequence[Column]) -> Floats:
    """The declared columns of a CSV or Parquet file, in the declared order, as they stand.

    Missing cells are NaN. Other columns of the file are not read.

    Raises:
        UnusableTable: no such file, another format, a missing column, a column of text.
    """
    file = Path(path)
    names = [column.name for column in columns]
    if not file.is_file():
        raise UnusableTable(f"data must be a file; got {file}. Check the path.")
    if file.suffix not in (".csv", ".parquet"):
        raise UnusableTable(
            f"data must end in .csv or .parquet; got {file.name}. Save it as one of them."
        )
    reader = _read_csv if file.suffix == ".csv" else _read_parquet
    frame = reader(file, names)
    matrix = np.empty((frame.height, len(names)), order="C")
    for position, name in enumerate(names):
        matrix[:, position] = _numbers(frame.get_column(name))
    return matrix


def prepare(table: npt.ArrayLike, columns: Sequence[Column]) -> Floats:
    """Missing values filled, bounds applied, scales divided out: the rows a plan measures.

    Raises:
        UnusableTable: not a numeric matrix of the declared width, fewer than 2 rows, missing
            values in a column without a constant for them.
    """
    matrix = _as_matrix(table)
    if matrix.ndim != 2 or matrix.shape[1] != len(columns):
        raise UnusableTable(
            f"the table must have {len(columns)} columns, as the plan declares; got shape "
            f"{matrix.shape}. Give the declared columns in order."
        )
    if len(matrix) < 2:
        raise UnusableTable(f"rows must be at least 2; got {len(matrix)}. A pair needs two rows.")
    prepared = np.empty(matrix.shape)
    for position, column in enumerate(columns):
        values = matrix[:, position]
        if column.missing is not None:
            values = np.where(np.isnan(values), column.missing, values)
        elif np.isnan(values).any():
            raise UnusableTable(
                f"column {column.name} must have no missing values, or a constant for them; got "
                'missing values. Declare "missing" for it in the plan.'
            )
        with np.errstate(over="ignore"):
            prepared[:, position] = np.clip(values, *column.bounds()) / column.scale
    return prepared


def _as_matrix(table: npt.ArrayLike) -> Floats:
    """Numbers, with masked ones missing; those beyond float64 become infinite, without a word."""

    def convert() -> Floats:
        if isinstance(table, np.ma.MaskedArray):
            return np.ma.filled(table.astype(np.float64), np.nan)
        return np.asarray(table, dtype=np.float64)

    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        return _quietly(convert, NO_MATRIX)


def _read_csv(file: Path, names: list[str]) -> pl.DataFrame:
    """Numbers where every cell is one; otherwise text, for ``_numbers`` to judge."""
    if not file.stat().st_size:
        raise UnusableTable(
            "data must not be empty; got an empty file. Its first line names the columns."
        )
    _check_names(names, _quietly(lambda: pl.read_csv(file, n_rows=0, infer_schema=False)).columns)
    try:
        frame = _csv_as(pl.Float64, file, names)
    except UnusableTable:
        frame = _csv_as(pl.String, file, names)
    with file.open("rb") as lines:
        rows = sum(1 for line in lines if line.strip()) - 1
    if rows != frame.height:
        raise UnusableTable(
            "each row of the file must be one line; got quotes that join lines. Save it without "
            "line breaks and stray quotes in cells, also of columns that are not measured."
        )
    return frame


def _csv_as(kind: type[pl.DataType], file: Path, names: list[str]) -> pl.DataFrame:
    kinds = dict.fromkeys(names, kind)
    return _quietly(lambda: pl.read_csv(file, columns=names, schema_overrides=kinds))


def _read_parquet(file: Path, names: list[str]) -> pl.DataFrame:
    _check_names(names, list(_quietly(lambda: pl.read_parquet_schema(file))))
    return _quietly(lambda: pl.read_parquet(file, columns=names))


def _check_names(names: Sequence[str], present: Sequence[str]) -> None:
    absent = [name for name in names if name not in present]
    if absent:
        raise UnusableTable(
            f"the table must have the columns {', '.join(absent)}; got others. Check the "
            "plan, and that commas stand between the names in a CSV file."
        )


def _numbers(series: pl.Series) -> Floats:
    cast = series
    if series.dtype == pl.String:
        text = series.str.strip_chars()
        filled = text.is_not_null() & (text != "") & ~text.str.to_lowercase().is_in(["na", "nan"])
        cast = text.cast(pl.Float64, strict=False)
        if (filled & cast.is_null()).any():
            raise UnusableTable(
                f"column {series.name} must hold numbers; got text. Clean it first."
            )
    elif not (series.dtype.is_numeric() or series.dtype == pl.Boolean):
        raise UnusableTable(
            f"column {series.name} must hold numbers; got type {series.dtype.base_type()}. "
            "Convert it first."
        )
    return np.asarray(cast.cast(pl.Float64).fill_null(float("nan")).to_numpy(), dtype=np.float64)


def _quietly(read: Callable[[], Read], refusal: str = UNREADABLE) -> Read:
    """Run a reader. Its own error may quote cells, so another one leaves, not chained to it."""
    try:
        return read()
    except (Exception, pl.exceptions.PanicException):
        pass
    raise UnusableTable(refusal)
