"""Loading at the holder: a file or an array against a declared schema, before any charge.

Nothing is inferred from values. Missing values take a declared constant, or the table is
refused; values outside public bounds are held inside, never an error. A refusal names a column
or a shape, never a value, a count or a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
import numpy.typing as npt
import polars as pl
from pydantic import BaseModel, ConfigDict, Field, model_validator

from dppca_odp.errors import UnusableTable
from dppca_odp.planned import Finite
from dppca_odp.primitives.pairs import LARGEST_VALUE

Floats = npt.NDArray[np.float64]


class Column(BaseModel):
    """What is public about one column, whoever is in the table."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, Field(min_length=1)]
    lower: Finite | None = None
    """Values below are held at it."""
    upper: Finite | None = None
    """Values above are held at it."""
    scale: Annotated[Finite, Field(gt=0)] = 1.0
    """The column is divided by it, so that columns in different units can be compared."""
    missing: Finite | None = None
    """Stands for missing values; without it a table with missing values is refused."""

    @model_validator(mode="after")
    def _bounds_in_order(self) -> Self:
        if self.lower is not None and self.upper is not None and self.lower > self.upper:
            raise ValueError(f"lower must not be above upper; got {self.lower} and {self.upper}.")
        return self

    def bounds(self) -> tuple[float, float]:
        """The interval that values are held in, before scaling."""
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
        _check_names(names, list(source.columns))
        source = source[names]
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
        raise UnusableTable(f"data must end in .csv or .parquet; got {file.name}.")
    if file.suffix == ".csv":
        present = _csv_header(file)
        _check_names(names, present)
        frame = _quietly(
            lambda: pl.read_csv(
                file, columns=names, schema_overrides=dict.fromkeys(names, pl.String)
            )
        )
    else:
        present = list(_quietly(lambda: pl.read_parquet_schema(file)))
        _check_names(names, present)
        frame = _quietly(lambda: pl.read_parquet(file, columns=names))
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
            f"{matrix.shape}."
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
                f"column {column.name} must have no missing values, or a constant for them. "
                'Declare "missing" for it in the plan.'
            )
        prepared[:, position] = np.clip(values, *column.bounds()) / column.scale
    return prepared


def _as_matrix(table: npt.ArrayLike) -> Floats:
    try:
        return np.asarray(table, dtype=np.float64)
    except (TypeError, ValueError):
        raise UnusableTable(
            "the table must be a matrix of numbers. Give declared numeric columns only."
        ) from None


def _csv_header(file: Path) -> list[str]:
    frame: pl.DataFrame = _quietly(
        lambda: pl.read_csv(file, n_rows=0, infer_schema=False),
        empty="Its first line names columns.",
    )
    return frame.columns


def _check_names(names: Sequence[str], present: Sequence[str]) -> None:
    absent = [name for name in names if name not in present]
    if absent:
        raise UnusableTable(
            f"the table must have the columns {', '.join(absent)}; it does not name them. Check "
            "the plan, and that commas stand between the names in a CSV file."
        )


def _numbers(series: pl.Series) -> Floats:
    cast = series
    if series.dtype == pl.String:
        text = series.str.strip_chars()
        filled = text.is_not_null() & (text != "") & ~text.str.to_lowercase().is_in(["na", "nan"])
        cast = text.cast(pl.Float64, strict=False)
        if (filled & cast.is_null()).any():
            raise UnusableTable(f"column {series.name} must hold numbers; it holds text.")
    elif not (series.dtype.is_numeric() or series.dtype == pl.Boolean):
        raise UnusableTable(f"column {series.name} must hold numbers; its type is {series.dtype}.")
    return np.asarray(cast.cast(pl.Float64).fill_null(float("nan")).to_numpy(), dtype=np.float64)


def _quietly(read: Any, empty: str = "") -> Any:
    """Run a reader; its own messages may quote cells, so they are replaced."""
    try:
        return read()
    except pl.exceptions.NoDataError:
        raise UnusableTable(f"data must not be empty. {empty}".strip()) from None
    except (pl.exceptions.PolarsError, OSError, UnicodeDecodeError):
        raise UnusableTable(
            "data must be a readable UTF-8 file with commas, or Parquet. Check how it was saved."
        ) from None
