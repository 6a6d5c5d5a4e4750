"""Loading at the holder: a file, a data frame or an array against a declared schema.

All of it happens before any charge, and nothing is inferred from values. Missing values take a
declared constant, or the table is refused; values outside public bounds are clamped, never an
error. A refusal names a column or a shape, never a value, a count or a row.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from dppca_odp.columns import Column, Label
from dppca_odp.errors import NoTable, UnusableTable
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
    cells = _quietly(lambda: {name: _column(source[name]) for name in names}, NO_MATRIX)
    measured = [_numbers(cells[column.name], column.name) for column in columns]
    matrix = prepare(np.column_stack(measured), columns)
    if not labels:
        return matrix
    return np.column_stack([matrix, *(_codes(cells[label.name], label) for label in labels)])


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
        with np.errstate(all="ignore"):
            prepared[:, position] = np.clip(values, *column.bounds()) / column.scale
    return prepared


def _read_file(file: Path, columns: Sequence[Column], labels: Sequence[Label]) -> pl.DataFrame:
    if not os.path.isfile(file):  # false also where a folder may not be entered; pathlib raises
        raise NoTable(f"data must be a file; got {file}. Check the path.")
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


def _column(column: Any) -> pl.Series | list[Any]:
    """A column of one type as a polars series; one of mixed objects cell by cell, None if missing.

    Cells of mixed objects are never put into one series: polars would read all of them in the
    light of the others, and one person's cell would change what other people's rows say.
    """
    if isinstance(column, pl.Series):
        return column.to_list() if column.dtype == pl.Object else column
    values = column.to_numpy()
    if values.dtype.kind in "fiub":
        return pl.Series(values)
    missing = column.isna().tolist()
    return [None if gone else cell for cell, gone in zip(column.tolist(), missing, strict=True)]


def _numbers(column: pl.Series | list[Any], name: str) -> Floats:
    """Numbers, NaN where missing; each cell is read alone."""
    if isinstance(column, list):
        refusal = f"column {name} must hold numbers; got text. Clean it."
        return _quietly(lambda: np.array([_number(cell) for cell in column]), refusal)
    cast = column
    if column.dtype == pl.String:
        text = column.str.strip_chars()
        filled = text.is_not_null() & (text != "") & ~text.str.to_lowercase().is_in(["na", "nan"])
        cast = text.cast(pl.Float64, strict=False)
        if (filled & cast.is_null()).any():
            raise UnusableTable(f"column {name} must hold numbers; got text. Clean it.")
    elif not (column.dtype.is_numeric() or column.dtype in (pl.Boolean, pl.Null)):
        raise UnusableTable(
            f"column {name} must hold numbers; got type {column.dtype.base_type()}. "
            "Convert it first."
        )
    return np.asarray(cast.cast(pl.Float64).fill_null(float("nan")).to_numpy(), dtype=np.float64)


def _number(cell: Any) -> float:
    """One cell of mixed objects."""
    if cell is None or (isinstance(cell, str) and cell.strip().lower() in ("", "na", "nan")):
        return math.nan
    if isinstance(cell, int | np.integer):
        try:
            return float(cell)
        except OverflowError:  # beyond all floats
            return math.inf if cell > 0 else -math.inf
    if isinstance(cell, str | float | Decimal | np.floating | np.bool_):
        return float(cell)
    raise TypeError


def _codes(column: pl.Series | list[Any], label: Label) -> Floats:
    """The position of each row's group; whatever is not declared, or missing, is the rest."""
    cells = column if isinstance(column, list) else column.to_list()
    found = {level: float(code) for code, level in enumerate(label.levels)}
    rest = float(len(found))
    return np.array([found.get(_level(cell, found), rest) for cell in cells])


def _level(cell: Any, levels: Mapping[str, float]) -> str:
    """How one cell is written as a level: whole numbers without a point, truth in lower case."""
    if isinstance(cell, str):
        return cell if cell in levels else cell.removesuffix(".0")
    if isinstance(cell, bool | np.bool_):
        return str(cell).lower()
    try:
        if isinstance(cell, int | np.integer):
            return str(int(cell))
        if isinstance(cell, float | Decimal | np.floating):
            number = float(cell)
            return str(int(number)) if number.is_integer() else repr(number)
    except ValueError:  # thousands of digits: Python does not write them, nor does any level
        pass
    return ""


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
