"""Loading at the holder: a file, a data frame or an array against a declared schema.

All of it happens before any charge, and nothing is inferred from values. Missing values take a
declared constant, or the table is refused; values outside public bounds are clamped, never an
error. A refusal names a column or a shape, never a value, a count or a row.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from accountant.facts import is_name
from dppca_odp.columns import Column, Label
from dppca_odp.errors import UnusableTable
from dppca_odp.values import Floats

Read = TypeVar("Read")

NO_MATRIX = (
    "the table must be a matrix or data frame of numbers; got something else. "
    "Give numeric columns only."
)
UNREADABLE = (
    "data must be UTF-8 text with commas, or Parquet; got something else. "
    "Check how the file was saved."
)


def load_table(source: Any, columns: Sequence[Column], labels: Sequence[Label] = ()) -> Floats:
    """Prepared rows: the measured columns in order, then a code for each label.

    ``source`` is a matrix of the measured columns, a data frame (polars or pandas, read by column
    name), or the path of a CSV or Parquet file. Other columns are not read.

    Raises:
        UnusableTable: it does not fit the declared columns.
    """
    if isinstance(source, str | Path):
        source = _read_file(Path(source), columns, labels)
    elif isinstance(source, pl.LazyFrame):
        source = _quietly(source.collect, NO_MATRIX)
    if not hasattr(source, "columns"):
        if labels:
            raise UnusableTable(
                "a table with labels must be a data frame or a file; got a matrix. Name columns."
            )
        return prepare(source, columns)
    names = [column.name for column in columns] + [label.name for label in labels]
    _check_names(names, [str(name) for name in source.columns])
    series = _quietly(lambda: {name: _series(source[name], name) for name in names}, NO_MATRIX)
    matrix = prepare(
        np.column_stack([_numbers(series[column.name]) for column in columns]), columns
    )
    if not labels:
        return matrix
    return np.column_stack([matrix, *(_codes(series[label.name], label) for label in labels)])


def column_names(source: Any) -> tuple[str, ...]:
    """All columns of a file or data frame that a plan could name; none of a matrix."""
    if isinstance(source, str | Path):
        if Path(source).suffix == ".parquet":
            names = list(_quietly(lambda: pl.read_parquet_schema(source)))
        else:
            names = _quietly(lambda: pl.read_csv(source, n_rows=0, infer_schema=False)).columns
    elif isinstance(source, pl.LazyFrame):
        names = list(_quietly(source.collect_schema, NO_MATRIX))
    else:
        names = [str(name) for name in getattr(source, "columns", ())]
    return tuple(name for name in names if is_name(name))


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


def _read_file(file: Path, columns: Sequence[Column], labels: Sequence[Label]) -> pl.DataFrame:
    if not file.is_file():
        raise UnusableTable(f"data must be a file; got {file}. Check the path.")
    measured = [column.name for column in columns]
    named = [label.name for label in labels]
    if file.suffix == ".csv":
        return _read_csv(file, measured, named)
    if file.suffix == ".parquet":
        _check_names(measured + named, list(_quietly(lambda: pl.read_parquet_schema(file))))
        return _quietly(lambda: pl.read_parquet(file, columns=measured + named))
    raise UnusableTable(
        f"data must end in .csv or .parquet; got {file.name}. Save it as one of them."
    )


def _read_csv(file: Path, measured: list[str], labels: list[str]) -> pl.DataFrame:
    """Numbers where every measured cell is one; otherwise text, for ``_numbers`` to judge."""
    if not file.stat().st_size:
        raise UnusableTable("data must not be empty; got 0 bytes. Its first line names columns.")
    header = _quietly(lambda: pl.read_csv(file, n_rows=0, infer_schema=False))
    _check_names(measured + labels, header.columns)

    def read(kind: type[pl.DataType]) -> pl.DataFrame:
        kinds = dict.fromkeys(measured, kind)
        # all columns are read: of a few, polars would not notice lines with too many fields
        frame = _quietly(lambda: pl.read_csv(file, schema_overrides=kinds, infer_schema=False))
        return frame.select(measured + labels)

    try:
        frame = read(pl.Float64)
    except UnusableTable:
        frame = read(pl.String)
    with file.open("rb") as lines:
        filled = [bool(line.strip()) for line in lines]
    if not all(filled) or len(filled) - 1 != frame.height:
        raise UnusableTable(
            "each row of the file must be one line; got blank lines, or quotes that join lines. "
            "Save it without line breaks and stray quotes in cells, also of other columns."
        )
    return frame


def _series(column: Any, name: str) -> pl.Series:
    """A column of a polars or pandas data frame; missing values are null or NaN."""
    if isinstance(column, pl.Series):
        return column
    values = column.to_numpy()
    if values.dtype.kind in "fiub":
        return pl.Series(name, values)
    cells = zip(column.tolist(), column.isna().tolist(), strict=True)
    return pl.Series(name, [None if missing else value for value, missing in cells])


def _numbers(series: pl.Series) -> Floats:
    cast = series
    if series.dtype == pl.String:
        text = series.str.strip_chars()
        filled = text.is_not_null() & (text != "") & ~text.str.to_lowercase().is_in(["na", "nan"])
        cast = text.cast(pl.Float64, strict=False)
        if (filled & cast.is_null()).any():
            raise UnusableTable(f"column {series.name} must hold numbers; got text. Clean it.")
    elif not (series.dtype.is_numeric() or series.dtype in (pl.Boolean, pl.Null)):
        raise UnusableTable(
            f"column {series.name} must hold numbers; got type {series.dtype.base_type()}. "
            "Convert it first."
        )
    return np.asarray(cast.cast(pl.Float64).fill_null(float("nan")).to_numpy(), dtype=np.float64)


def _codes(series: pl.Series, label: Label) -> Floats:
    """The position of each row's group; whatever is not declared, or missing, is the rest."""
    text = _quietly(
        lambda: series.cast(pl.String),
        f"column {label.name} must hold labels; got something else. Convert it to text.",
    )
    found = {level: float(code) for code, level in enumerate(label.levels)}
    exact, whole = (
        written.replace_strict(found, default=None, return_dtype=pl.Float64)
        for written in (text, text.str.strip_suffix(".0"))  # whole numbers held as floats
    )
    return np.asarray(exact.fill_null(whole).fill_null(float(len(found))), dtype=np.float64)


def _as_matrix(table: npt.ArrayLike) -> Floats:
    """Numbers, with masked ones missing; those beyond float64 become infinite, without a word."""

    def convert() -> Floats:
        if np.asanyarray(table).dtype.kind in "cmM":  # complex numbers, spans of time, dates
            raise TypeError
        if isinstance(table, np.ma.MaskedArray):
            return np.ma.filled(table.astype(np.float64), np.nan)
        return np.asarray(table, dtype=np.float64)

    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        return _quietly(convert, NO_MATRIX)


def _check_names(names: Sequence[str], present: Sequence[str]) -> None:
    twice = [name for name in names if f"{name}_duplicated_0" in present or present.count(name) > 1]
    if twice:
        raise UnusableTable(
            f"the table must name each column once; got {', '.join(twice)} twice. Rename one."
        )
    # what is present is not told: without a line of names it would be the first row
    absent = [name for name in names if name not in present]
    if absent:
        raise UnusableTable(
            f"the table must have the columns {', '.join(absent)}; got others. Check the plan, "
            "and that commas stand between the names in a CSV file."
        )


def _quietly(read: Callable[[], Read], refusal: str = UNREADABLE) -> Read:
    """Run a reader. Its own error may quote cells, so another one leaves, not chained to it."""
    try:
        return read()
    except (Exception, pl.exceptions.PanicException):
        pass
    raise UnusableTable(refusal)
