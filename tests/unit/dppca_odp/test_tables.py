import os

import numpy as np
import pandas as pd
import polars as pl
import pytest
from pydantic import ValidationError

from dppca_odp.errors import UnusableTable
from dppca_odp.tables import Column, load_table, prepare, read_table

COLUMNS = (Column(name="a"), Column(name="b"))
FILLED = (Column(name="a", missing=-1), Column(name="b", missing=7))
CELL = "31337.25"  # stands for a private value: no message may hold it
LARGEST = 1e100


@pytest.fixture
def file(tmp_path):
    """A file of these bytes or this text."""

    def write(content, name="table.csv"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def refusal(source, columns=COLUMNS):
    """The text of the refusal; a traceback would show no error but our own."""
    with pytest.raises(UnusableTable) as caught:
        load_table(source, columns)
    shown = caught.value
    while shown is not None:
        assert isinstance(shown, UnusableTable)
        assert CELL not in str(shown)
        shown = None if shown.__suppress_context__ else shown.__context__
    return str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        "a,b\n1,2\n3,4\n",
        "a,b\n1,2\n3,4",
        "a,b\r\n1,2\r\n3,4\r\n",
        b"\xef\xbb\xbfa,b\n1,2\n3,4\n",
        'a,b\n"1","2"\n"3","4"\n',
        '"a","b"\n1,2\n3,4\n',
        "a,b\n 1 ,+2\n3.0,4e0\n",
        "b,a\n2,1\n4,3\n",
        "name,b,z,a\nAnn,2,x,1\nBob,4,,3\n",
    ],
    ids=[
        "plain",
        "no newline at the end",
        "windows",
        "byte order mark",
        "quoted numbers",
        "quoted names",
        "spaces and signs",
        "another column order",
        "extra columns",
    ],
)
def test_a_csv_file_gives_the_declared_columns_in_order(file, content):
    assert load_table(file(content), COLUMNS).tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_a_path_can_be_text(file):
    path = file("a,b\n1,2\n3,4\n")
    assert load_table(str(path), COLUMNS).tolist() == load_table(path, COLUMNS).tolist()


def test_the_first_of_two_columns_with_one_name_is_read(file):
    assert load_table(file("a,a,b\n1,9,2\n3,9,4\n"), COLUMNS).tolist() == [[1.0, 2.0], [3.0, 4.0]]


@pytest.mark.parametrize("written", ["", "NA", "na", "NaN", '""', " "])
def test_a_missing_cell_takes_its_constant(file, written):
    table = load_table(file(f"a,b\n1,2\n{written},4\n5,\n"), FILLED)
    assert table.tolist() == [[1.0, 2.0], [-1.0, 4.0], [5.0, 7.0]]


def test_a_short_row_lacks_its_last_cells(file):
    assert load_table(file("a,b\n1,2\n3\n"), FILLED).tolist() == [[1.0, 2.0], [3.0, 7.0]]


@pytest.mark.parametrize("written", ["", "NA", "NaN"])
def test_a_missing_cell_without_a_constant_is_refused(file, written):
    text = refusal(file(f"a,b\n{CELL},2\n1,{written}\n"))
    assert text.startswith("column b must have no missing values, or a constant for them.")


def test_reading_leaves_missing_cells_as_nan(file):
    table = read_table(file("a,b\n1,\n,4\n"), COLUMNS)
    assert np.isnan(table).tolist() == [[False, True], [True, False]]


@pytest.mark.parametrize(
    "word", [f"x{CELL}", f"{CELL}kg", "1;5", "0x10", "1_000", "true", "None", '"1,5"', "2020-01-01"]
)
def test_a_column_of_text_is_refused_by_name(file, word):
    text = refusal(file(f"a,b\n1,2\n3,{word}\n"))
    assert text == "column b must hold numbers; it holds text."


def test_semicolons_are_refused_with_advice(file):
    text = refusal(file(f"a;b\n{CELL};2\n3;4\n"))
    assert text.startswith("the table must have the columns a, b; it does not name them.")
    assert "commas" in text


def test_a_missing_column_is_named_and_the_present_ones_are_not(file):
    text = refusal(file(f"a,secret\n{CELL},2\n3,4\n"))
    assert text.startswith("the table must have the columns b; it does not name them.")
    assert "secret" not in text


def test_a_file_without_names_does_not_show_its_first_row(file):
    assert "must have the columns a, b" in refusal(file(f"{CELL},2\n3,4\n"))


def test_an_empty_csv_file_is_refused(file):
    assert refusal(file("")).startswith("data must not be empty.")


def test_blank_lines_are_refused(file):
    assert refusal(file("\n\n")).startswith("data must ")


def test_names_without_rows_are_refused(file):
    assert refusal(file("a,b\n")).startswith("rows must be at least 2; got 0.")


def test_one_row_is_refused(file):
    assert refusal(file(f"a,b\n{CELL},2\n")).startswith("rows must be at least 2; got 1.")


@pytest.mark.parametrize(
    "content",
    [
        f"a,b\n1,2\n3,4,{CELL}\n",
        f'a,b\n"{CELL},2\n3,4\n',
        f"a,b,c\n1,2,{CELL}\n3,4,\xe9\n".encode("latin1"),
    ],
    ids=["a row too long", "an open quotation mark", "latin-1"],
)
def test_a_malformed_csv_file_is_refused_without_a_cell(file, content):
    assert refusal(file(content)).startswith("data must be UTF-8 text with commas")


@pytest.mark.parametrize(
    "content",
    [
        np.random.default_rng(20).bytes(300),
        bytes(range(256)),
        f"a,b\n{CELL},2\n3,4\n".encode("utf-16"),
        b"a,b\n1,2\n\x00\x00,3\n",
    ],
    ids=["random bytes", "all bytes", "UTF-16", "null bytes"],
)
@pytest.mark.parametrize("name", ["table.csv", "table.parquet"])
def test_junk_is_refused_in_one_clear_line(file, content, name):
    text = refusal(file(content, name))
    assert text.isprintable()
    assert " must " in text


@pytest.mark.parametrize("content", ["", f"a,b\n{CELL},2\n3,4\n"])
def test_a_parquet_file_that_is_none_is_refused(file, content):
    assert "or Parquet. Check how" in refusal(file(content, "table.parquet"))


@pytest.mark.parametrize("name", ["table.txt", "table.xlsx", "table"])
def test_another_format_is_refused(file, name):
    assert refusal(file("a,b\n1,2\n", name)) == f"data must end in .csv or .parquet; got {name}."


@pytest.mark.parametrize("name", ["absent.csv", "."])
def test_what_is_no_file_is_refused(tmp_path, name):
    assert (
        refusal(tmp_path / name) == f"data must be a file; got {tmp_path / name}. Check the path."
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_file_that_may_not_be_read_is_refused(file):
    path = file("a,b\n1,2\n3,4\n")
    path.chmod(0)
    assert refusal(path).startswith("data must be UTF-8 text with commas, or Parquet")


def test_infinities_and_the_largest_floats_are_held(file):
    table = load_table(file("a,b\ninf,-inf\n1e308,-1e308\n1e999,0\n"), COLUMNS)
    assert table.tolist() == [[LARGEST, -LARGEST], [LARGEST, -LARGEST], [LARGEST, 0.0]]


@pytest.mark.parametrize(
    "second",
    [
        pl.Series("b", [2, 4]),
        pl.Series("b", [2.0, 4.0], dtype=pl.Float32),
        pl.Series("b", ["2", " 4"]),
        pl.Series("b", ["2.00", "4.00"]).cast(pl.Decimal(10, 2)),
    ],
    ids=lambda series: str(series.dtype),
)
def test_a_parquet_file_gives_the_declared_columns_in_order(tmp_path, second):
    path = tmp_path / "table.parquet"
    pl.DataFrame([second, pl.Series("a", [1, 3]), pl.Series("z", ["x", "y"])]).write_parquet(path)
    assert load_table(path, COLUMNS).tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_yes_and_no_are_one_and_zero_in_parquet(tmp_path):
    path = tmp_path / "table.parquet"
    pl.DataFrame({"a": [1, 3], "b": [True, False]}).write_parquet(path)
    assert load_table(path, COLUMNS).tolist() == [[1.0, 1.0], [3.0, 0.0]]


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        ([f"x{CELL}", "y"], "it holds text"),
        (pd.to_datetime(["2020-01-01", "2021-01-01"]), "its type is Datetime"),
        ([[1], [2]], "its type is List"),
        (pl.Series(["x", "y"], dtype=pl.Categorical), "its type is Categorical"),
    ],
)
def test_a_parquet_column_that_holds_no_numbers_is_refused_by_name(tmp_path, cells, kind):
    path = tmp_path / "table.parquet"
    pl.DataFrame({"a": [1.0, 2.0], "b": cells}).write_parquet(path)
    assert refusal(path).startswith(f"column b must hold numbers; {kind}")


def test_missing_values_of_parquet_take_their_constant(tmp_path):
    path = tmp_path / "table.parquet"
    pl.DataFrame({"a": [1, None], "b": [float("nan"), 4.0]}).write_parquet(path)
    assert load_table(path, FILLED).tolist() == [[1.0, 7.0], [-1.0, 4.0]]


@pytest.mark.parametrize("frame", [pl.DataFrame, pd.DataFrame], ids=["polars", "pandas"])
class TestDataFrames:
    def test_columns_are_found_by_name(self, frame):
        table = frame({"b": [2, 4], "z": ["x", "y"], "a": [1.0, 3.0]})
        assert load_table(table, COLUMNS).tolist() == [[1.0, 2.0], [3.0, 4.0]]

    def test_missing_values_take_their_constant(self, frame):
        table = frame({"a": [1, None], "b": [float("nan"), 4.0]})
        assert load_table(table, FILLED).tolist() == [[1.0, 7.0], [-1.0, 4.0]]

    def test_missing_values_without_a_constant_are_refused(self, frame):
        text = refusal(frame({"a": [1, None], "b": [3.0, 4.0]}))
        assert text.startswith("column a must have no missing values, or a constant for them.")

    def test_a_missing_column_is_named(self, frame):
        text = refusal(frame({"a": [1.0, 2.0], "secret": [3.0, 4.0]}))
        assert text.startswith("the table must have the columns b; it does not name them.")
        assert "secret" not in text

    def test_text_is_refused_without_a_cell(self, frame):
        text = refusal(frame({"a": [1.0, 2.0], "b": [f"x{CELL}", "y"]}))
        assert "numbers" in text

    def test_infinities_are_held(self, frame):
        table = load_table(frame({"a": [1e308, 1.0], "b": [float("inf"), -float("inf")]}), COLUMNS)
        assert table.tolist() == [[LARGEST, LARGEST], [1.0, -LARGEST]]

    def test_dates_are_refused(self, frame):
        dates = pd.to_datetime(["2020-01-01", "2021-01-01"])
        assert "numbers" in refusal(frame({"a": [1.0, 2.0], "b": dates}))


def test_missing_values_of_pandas_own_types_take_their_constant():
    table = pd.DataFrame({"a": pd.array([1, None], dtype="Int64"), "b": [2.0, 4.0]})
    assert load_table(table, FILLED).tolist() == [[1.0, 2.0], [-1.0, 4.0]]


def test_masked_values_are_missing():
    table = np.ma.array([[1.0, 2.0], [3.0, 4.0]], mask=[[True, False], [False, False]])
    assert load_table(table, FILLED).tolist() == [[-1.0, 2.0], [3.0, 4.0]]


def test_a_matrix_is_taken_by_position():
    assert load_table([[1, 2], [3, 4]], COLUMNS).tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert load_table(np.array([[1, 2], [3, 4]]), COLUMNS).tolist() == [[1.0, 2.0], [3.0, 4.0]]


@pytest.mark.parametrize(
    "matrix",
    [
        [1.0, 2.0],
        [[1.0], [2.0]],
        [[1.0, 2.0, 3.0]] * 2,
        np.zeros((2, 2, 2)),
        None,
    ],
    ids=["a vector", "too narrow", "too wide", "a cube", "nothing"],
)
def test_a_matrix_of_another_width_is_refused(matrix):
    text = refusal(matrix)
    assert text.startswith("the table must have 2 columns, as the plan declares; got shape (")


@pytest.mark.parametrize(
    "matrix",
    [
        [[1, 2], [3]],
        [[1, f"x{CELL}"], [3, 4]],
        np.array([["1", "x"], ["2", "3"]]),
        {"a": [1, 2], "b": [3, 4]},
        [[10**400, 1], [2, 3]],
    ],
    ids=["ragged", "text", "array of text", "a mapping", "an integer beyond all floats"],
)
def test_what_is_no_matrix_of_numbers_is_refused(matrix):
    assert refusal(matrix).startswith("the table must be a matrix of numbers.")


@pytest.mark.parametrize("rows", [0, 1])
def test_fewer_than_two_rows_are_refused(rows):
    assert refusal(np.ones((rows, 2))).startswith(f"rows must be at least 2; got {rows}.")


def test_values_are_held_in_public_bounds_then_scaled():
    columns = [Column(name="a", lower=0, upper=10, scale=5), Column(name="b", lower=-1)]
    table = [[-3, -3], [5, 5], [30, 1e300]]
    assert prepare(table, columns).tolist() == [[0.0, -1.0], [1.0, 5.0], [2.0, LARGEST]]


def test_a_missing_constant_is_held_and_scaled_like_a_value():
    columns = [Column(name="a", upper=10, scale=2, missing=30)]
    assert prepare([[np.nan], [4.0]], columns).tolist() == [[5.0], [2.0]]


def test_a_tiny_scale_overflows_nothing():
    table = prepare([[1e100], [1.0]], [Column(name="a", scale=1e-300)])
    assert not np.isnan(table).any()


def test_the_callers_table_is_left_as_it_was():
    table = np.array([[np.nan, 1e300], [3.0, 4.0]])
    prepare(table, FILLED)
    assert np.array_equal(table, [[np.nan, 1e300], [3.0, 4.0]], equal_nan=True)


def test_bounds_out_of_order_are_refused():
    with pytest.raises(ValidationError, match=r"lower must not be above upper; got 2\.0 and 1\.0"):
        Column(name="a", lower=2, upper=1)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("name", ""),
        ("lower", float("nan")),
        ("upper", float("inf")),
        ("scale", 0),
        ("scale", -1),
        ("scale", float("nan")),
        ("missing", float("nan")),
        ("dtype", "float"),
    ],
)
def test_a_column_fact_out_of_range_is_refused(key, value):
    with pytest.raises(ValidationError, match=f"(?m)^{key}$"):
        Column.model_validate({"name": "a", key: value})


def test_one_bound_beyond_the_default_other_one_is_refused():
    with pytest.raises(ValidationError, match="lower must not be above upper"):
        Column(name="a", lower=1e200)
