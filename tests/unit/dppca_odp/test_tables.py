import math
import os
import re
from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest

from dppca_odp.columns import Column, Label
from dppca_odp.errors import UnusableTable
from dppca_odp.tables import load_table, prepare

COLUMNS = (Column(name="a"), Column(name="b"))
FILLED = (Column(name="a", missing=-1), Column(name="b", missing=7))
CELL = "31337.25"  # stands for a private value: no message may hold it
LARGEST = 1e100
GROUP = Label(name="group", levels=("x", "y"))
NOON = datetime(2020, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def file(tmp_path):
    """A file of these bytes or this text."""

    def write(content, name="table.csv"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def refusal(source, columns=COLUMNS, labels=()):
    """The text of the refusal; a traceback would show no error but our own."""
    with pytest.raises(UnusableTable) as caught:
        load_table(source, columns, labels)
    shown = caught.value
    while shown is not None:
        assert isinstance(shown, UnusableTable)
        assert CELL not in str(shown)
        shown = None if shown.__suppress_context__ else shown.__context__
    text = str(caught.value)
    assert text.isprintable()
    assert re.fullmatch(r".+ must .+; got .+\. .+\.", text)
    return text


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
    assert [[1.0, 2.0], [3.0, 4.0]] == load_table(file(content), COLUMNS).tolist()


def test_a_path_can_be_text(file):
    path = file("a,b\n1,2\n3,4\n")
    assert load_table(str(path), COLUMNS).tolist() == load_table(path, COLUMNS).tolist()


@pytest.mark.parametrize("header", ["a,a,b", "a,b,a", "a,b,z,a"])
def test_a_column_that_is_named_twice_is_refused(file, header):
    row = ",".join("1" for _ in header.split(","))
    expected = "the table must name each column once; got a twice. Rename one."
    assert expected == refusal(file(f"{header}\n{row}\n{row}\n"))


def test_a_label_that_is_named_twice_is_refused(file):
    expected = "the table must name each column once; got group twice. Rename one."
    content = f"a,b,group,group\n{CELL},2,x,x\n3,4,y,y\n"
    assert expected == refusal(file(content), labels=(GROUP,))


def test_a_name_that_is_repeated_among_the_columns_that_are_not_read_is_allowed(file):
    path = file("a,z,b,z\n1,9,2,9\n3,9,4,9\n")
    assert [[1.0, 2.0], [3.0, 4.0]] == load_table(path, COLUMNS).tolist()


def test_a_pandas_column_that_is_named_twice_is_refused():
    table = pd.DataFrame([[1.0, 2.0, 3.0]] * 2, columns=["a", "b", "a"])
    expected = "the table must name each column once; got a twice. Rename one."
    assert expected == refusal(table)


@pytest.mark.parametrize("written", ["", "NA", "na", "NaN", '""', " "])
def test_a_missing_cell_takes_its_constant(file, written):
    table = load_table(file(f"a,b\n1,2\n{written},4\n5,\n"), FILLED)
    assert [[1.0, 2.0], [-1.0, 4.0], [5.0, 7.0]] == table.tolist()


def test_a_short_row_lacks_its_last_cells(file):
    assert [[1.0, 2.0], [3.0, 7.0]] == load_table(file("a,b\n1,2\n3\n"), FILLED).tolist()


@pytest.mark.parametrize("written", ["", "NA", "NaN"])
def test_a_missing_cell_without_a_constant_is_refused(file, written):
    text = refusal(file(f"a,b\n{CELL},2\n1,{written}\n"))
    expected = (
        "column b must have no missing values, or a constant for them; got missing values. "
        'Declare "missing" for it in the plan.'
    )
    assert expected == text


@pytest.mark.parametrize(
    "word", [f"x{CELL}", f"{CELL}kg", "1;5", "0x10", "1_000", "true", "None", '"1,5"', "2020-01-01"]
)
def test_a_column_of_text_is_refused_by_name(file, word):
    text = refusal(file(f"a,b\n1,2\n3,{word}\n"))
    assert "column b must hold numbers; got text. Clean it." == text


def test_semicolons_are_refused_with_advice(file):
    text = refusal(file(f"a;b\n{CELL};2\n3;4\n"))
    assert text.startswith("the table must have the columns a, b; got others.")
    assert "commas" in text


def test_a_missing_column_is_named_and_the_present_ones_are_not(file):
    text = refusal(file(f"a,secret\n{CELL},2\n3,4\n"))
    assert text.startswith("the table must have the columns b; got others.")
    assert "secret" not in text


def test_a_file_without_names_does_not_show_its_first_row(file):
    assert "must have the columns a, b" in refusal(file(f"{CELL},2\n3,4\n"))


def test_an_empty_csv_file_is_refused(file):
    assert refusal(file("")).startswith("data must not be empty; got 0 bytes.")


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
        f'a,b\n"{CELL},2\n3,4\n5,6\n',
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
    assert refusal(file(content, name)).isprintable()


STRAY = "each row of the file must be one line; got blank lines, or quotes that join lines."


@pytest.mark.parametrize(
    "content",
    [
        f'a,note,b\n1,"one line\nand another",2\n3,{CELL},4\n',
        f'a,note,b\n1,"open,2\n3,{CELL},4\n5,"shut,6\n7,x,8\n',
        f'a,note,b\n1,"{CELL}\n3,x,4\n5",y,6\n7,z,8\n',
        'a,note,b\n1,"x\n\ny",2\n3,z,4\n',
    ],
    ids=["a line break in a cell", "two stray quotes", "a swallowed row", "a blank line in a cell"],
)
def test_quotes_that_join_lines_of_an_unmeasured_column_are_refused(file, content):
    assert refusal(file(content)).startswith((STRAY, "data must be UTF-8 text with commas"))
    assert refusal(file(content), FILLED).startswith((STRAY, "data must be UTF-8 text"))


@pytest.mark.parametrize(
    "content",
    [f'a,note,b\n1,"open,2\n3,{CELL},4\n5,y,6\n', f'a,note,b\n1,x"y,2\n3,{CELL}",4\n5,y,6\n'],
    ids=["never shut", "within a cell"],
)
def test_quotes_that_no_csv_has_are_refused(file, content):
    assert refusal(file(content)).startswith("data must be UTF-8 text with commas")


def test_blank_lines_do_not_make_up_for_rows_that_quotes_swallow(file):
    # a blank line is read as a row of missing cells, so that the numbers of lines and rows agree
    content = f'a,b,note\n1,2,"open\n3,{CELL},shut"\n5,6,x\n\n'
    assert refusal(file(content), FILLED).startswith("each row of the file must be one line; got")


def test_a_row_that_quotes_of_an_unmeasured_column_would_swallow_is_refused(file):
    # read as two rows, (1, 2) and (5, 6): the person of the second line would be gone
    content = 'a,b,note\n1,2,"open\n3,4,shut"\n5,6,x\n'
    assert refusal(file(content)).startswith(STRAY)
    assert refusal(file(content), labels=(Label(name="note", levels=("x",)),)).startswith(STRAY)


def test_quotes_within_a_line_of_an_unmeasured_column_are_allowed(file):
    path = file('a,note,b\n1,"x, ""y""",2\n3,"",4\n')
    assert [[1.0, 2.0], [3.0, 4.0]] == load_table(path, COLUMNS).tolist()


@pytest.mark.parametrize("content", ["a,b\n1,2\n\n3,4\n", "a,b\n1,2\n3,4\n\n"])
def test_blank_lines_are_no_rows_and_refused(file, content):
    text = refusal(file(content), FILLED)
    assert text.startswith("each row of the file must be one line; got")


@pytest.mark.parametrize("content", ["", f"a,b\n{CELL},2\n3,4\n"])
def test_a_parquet_file_that_is_none_is_refused(file, content):
    assert refusal(file(content, "table.parquet")).startswith(
        "data must be UTF-8 text with commas, or Parquet; got something else. Check how"
    )


@pytest.mark.parametrize("name", ["table.txt", "table.xlsx", "table"])
def test_another_format_is_refused(file, name):
    expected = f"data must end in .csv or .parquet; got {name}. Save it as one of them."
    assert expected == refusal(file("a,b\n1,2\n", name))


@pytest.mark.parametrize("name", ["absent.csv", "."])
def test_what_is_no_file_is_refused(tmp_path, name):
    assert f"data must be a file; got {tmp_path / name}. Check the path." == refusal(
        tmp_path / name
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_file_that_may_not_be_read_is_refused(file):
    path = file("a,b\n1,2\n3,4\n")
    path.chmod(0)
    assert refusal(path).startswith("data must be UTF-8 text with commas, or Parquet")


def test_infinities_and_the_largest_floats_are_clamped(file):
    table = load_table(file("a,b\ninf,-inf\n1e308,-1e308\n1e999,0\n"), COLUMNS)
    assert [[LARGEST, -LARGEST], [LARGEST, -LARGEST], [LARGEST, 0.0]] == table.tolist()


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
    assert [[1.0, 2.0], [3.0, 4.0]] == load_table(path, COLUMNS).tolist()


def test_yes_and_no_are_one_and_zero_in_parquet(tmp_path):
    path = tmp_path / "table.parquet"
    pl.DataFrame({"a": [1, 3], "b": [True, False]}).write_parquet(path)
    assert [[1.0, 1.0], [3.0, 0.0]] == load_table(path, COLUMNS).tolist()


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        ([f"x{CELL}", "y"], "got text"),
        (pd.to_datetime(["2020-01-01", "2021-01-01"]), "got type Datetime. Convert it first."),
        ([[1], [2]], "got type List. Convert it first."),
        (pl.Series([f"x{CELL}", "y"], dtype=pl.Categorical), "got type Categorical. Convert it"),
        (pl.Series(["x", "y"], dtype=pl.Enum(["x", "y", CELL])), "got type Enum. Convert it"),
        ([{"x": 1}, {"x": 2}], "got type Struct. Convert it first."),
        (pl.Series([b"x", b"y"]), "got type Binary. Convert it first."),
    ],
)
def test_a_parquet_column_that_holds_no_numbers_is_refused_by_name(tmp_path, cells, kind):
    path = tmp_path / "table.parquet"
    pl.DataFrame({"a": [1.0, 2.0], "b": cells}).write_parquet(path)
    assert refusal(path).startswith(f"column b must hold numbers; {kind}")


def test_missing_values_of_parquet_take_their_constant(tmp_path):
    path = tmp_path / "table.parquet"
    pl.DataFrame({"a": [1, None], "b": [float("nan"), 4.0]}).write_parquet(path)
    assert [[1.0, 7.0], [-1.0, 4.0]] == load_table(path, FILLED).tolist()


@pytest.mark.parametrize("frame", [pl.DataFrame, pd.DataFrame], ids=["polars", "pandas"])
class TestDataFrames:
    def test_columns_are_found_by_name(self, frame):
        table = frame({"b": [2, 4], "z": ["x", "y"], "a": [1.0, 3.0]})
        assert [[1.0, 2.0], [3.0, 4.0]] == load_table(table, COLUMNS).tolist()

    def test_missing_values_take_their_constant(self, frame):
        table = frame({"a": [1, None], "b": [float("nan"), 4.0]})
        assert [[1.0, 7.0], [-1.0, 4.0]] == load_table(table, FILLED).tolist()

    def test_missing_values_without_a_constant_are_refused(self, frame):
        text = refusal(frame({"a": [1, None], "b": [3.0, 4.0]}))
        assert text.startswith("column a must have no missing values, or a constant for them; got")

    def test_a_missing_column_is_named(self, frame):
        text = refusal(frame({"a": [1.0, 2.0], "secret": [3.0, 4.0]}))
        assert text.startswith("the table must have the columns b; got others.")
        assert "secret" not in text

    def test_text_is_refused_without_a_cell(self, frame):
        text = refusal(frame({"a": [1.0, 2.0], "b": [f"x{CELL}", "y"]}))
        assert "column b must hold numbers; got text. Clean it." == text

    def test_infinities_are_clamped(self, frame):
        table = load_table(frame({"a": [1e308, 1.0], "b": [float("inf"), -float("inf")]}), COLUMNS)
        assert [[LARGEST, LARGEST], [1.0, -LARGEST]] == table.tolist()

    def test_dates_are_refused(self, frame):
        dates = pd.to_datetime(["2020-01-01", "2021-01-01"])
        assert "numbers" in refusal(frame({"a": [1.0, 2.0], "b": dates}))

    def test_numbers_written_as_text_are_numbers(self, frame):
        table = frame({"a": ["1", " 3 "], "b": ["2e0", "+4"]})
        assert [[1.0, 2.0], [3.0, 4.0]] == load_table(table, COLUMNS).tolist()

    def test_missing_cells_of_text_take_their_constant(self, frame):
        table = frame({"a": ["1", None], "b": ["NA", "4"]})
        assert [[1.0, 7.0], [-1.0, 4.0]] == load_table(table, FILLED).tolist()

    def test_fewer_than_two_rows_are_refused(self, frame):
        text = refusal(frame({"a": [1.0], "b": [2.0]}))
        assert "rows must be at least 2; got 1. A pair needs two rows." == text

    def test_complex_numbers_are_refused(self, frame):
        assert "numbers" in refusal(frame({"a": [1.0, 2.0], "b": [1 + 2j, 3.0]}))


def test_missing_values_of_pandas_own_types_take_their_constant():
    table = pd.DataFrame({"a": pd.array([1, None], dtype="Int64"), "b": [2.0, 4.0]})
    assert [[1.0, 2.0], [-1.0, 4.0]] == load_table(table, FILLED).tolist()


@pytest.mark.parametrize("kind", ["Int8", "UInt64", "Float32", "Float64", "boolean"])
def test_every_pandas_type_of_numbers_is_read(kind):
    table = pd.DataFrame({"a": pd.array([1, 0, None], dtype=kind), "b": [2.0, 4.0, 6.0]})
    assert [[1.0, 2.0], [0.0, 4.0], [-1.0, 6.0]] == load_table(table, FILLED).tolist()


def test_a_lazy_frame_is_collected():
    lazy = pl.LazyFrame({"b": [2, 4], "z": ["x", "y"], "a": [1.0, 3.0]})
    assert [[1.0, 2.0], [3.0, 4.0]] == load_table(lazy, COLUMNS).tolist()


def test_a_lazy_frame_that_fails_shows_no_cell():
    lazy = pl.LazyFrame({"a": [1.0, 2.0], "b": [f"x{CELL}", "y"]}).with_columns(
        pl.col("b").cast(pl.Float64)
    )
    assert refusal(lazy).startswith("the table must be a matrix or data frame of numbers; got")


def test_polars_dates_are_refused_by_type():
    table = pl.DataFrame({"a": [1.0, 2.0], "b": [date(2020, 1, 1), date(2021, 1, 1)]})
    expected = "column b must hold numbers; got type Date. Convert it first."
    assert expected == refusal(table)


def test_masked_values_are_missing():
    table = np.ma.array([[1.0, 2.0], [3.0, 4.0]], mask=[[True, False], [False, False]])
    assert [[-1.0, 2.0], [3.0, 4.0]] == load_table(table, FILLED).tolist()


def test_a_matrix_is_taken_by_position():
    assert [[1.0, 2.0], [3.0, 4.0]] == load_table([[1, 2], [3, 4]], COLUMNS).tolist()
    assert [[1.0, 2.0], [3.0, 4.0]] == load_table(np.array([[1, 2], [3, 4]]), COLUMNS).tolist()


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
        np.array([[1 + 2j, 1], [2, 3]]),
        [[1 + 0j, 1], [2, 3]],
        np.ma.array(np.array([[1 + 2j, 1], [2, 3]]), mask=False),
        np.array([["2020-01-01", "2021-01-01"]] * 2, dtype="datetime64[D]"),
    ],
    ids=[
        "ragged",
        "text",
        "array of text",
        "a mapping",
        "an integer beyond all floats",
        "complex numbers",
        "a list of complex numbers",
        "masked complex numbers",
        "dates",
    ],
)
def test_what_is_no_matrix_of_numbers_is_refused(matrix):
    expected = (
        "the table must be a matrix or data frame of numbers; got something else. "
        "Give numeric columns only."
    )
    assert expected == refusal(matrix)


@pytest.mark.parametrize("rows", [0, 1])
def test_fewer_than_two_rows_are_refused(rows):
    assert refusal(np.ones((rows, 2))).startswith(
        f"rows must be at least 2; got {rows}. A pair needs"
    )


def test_values_are_clamped_to_public_bounds_then_scaled():
    columns = [Column(name="a", lower=0, upper=10, scale=5), Column(name="b", lower=-1)]
    table = [[-3, -3], [5, 5], [30, 1e300]]
    assert [[0.0, -1.0], [1.0, 5.0], [2.0, LARGEST]] == prepare(table, columns).tolist()


def test_a_missing_constant_is_clamped_and_scaled_like_a_value():
    columns = [Column(name="a", upper=10, scale=2, missing=30)]
    assert [[5.0], [2.0]] == prepare([[np.nan], [4.0]], columns).tolist()


def test_a_tiny_scale_overflows_nothing():
    table = prepare([[1e100], [1.0]], [Column(name="a", scale=1e-300)])
    assert not np.isnan(table).any()


def test_the_callers_table_is_left_as_it_was():
    table = np.array([[np.nan, 1e300], [3.0, 4.0]])
    prepare(table, FILLED)
    assert np.array_equal(table, [[np.nan, 1e300], [3.0, 4.0]], equal_nan=True)


MEASURED = {"a": [1.0, 3.0, 5.0, 7.0], "b": [2.0, 4.0, 6.0, 8.0]}


def coded(source, levels=("x", "y")):
    """The codes of the column "group" behind the two measured columns."""
    table = load_table(source, COLUMNS, (Label(name="group", levels=levels),))
    assert list(zip(*MEASURED.values(), strict=True)) == [tuple(row) for row in table[:, :2]]
    assert np.float64 == table.dtype
    return table[:, 2].tolist()


@pytest.fixture(params=["csv", "parquet", "lazy", "polars", "pandas"])
def source(request, tmp_path):
    """A table with a column "group", as a file or a data frame."""

    def make(group, dtype=None):
        frame = pl.DataFrame({"group": pl.Series(group, dtype=dtype, strict=False), **MEASURED})
        if request.param == "csv":
            frame.write_csv(tmp_path / "table.csv")
            return tmp_path / "table.csv"
        if request.param == "parquet":
            frame.write_parquet(tmp_path / "table.parquet")
            return tmp_path / "table.parquet"
        if request.param == "lazy":
            return frame.lazy()
        if request.param == "pandas":
            cells = pd.Series(group, dtype="object") if None in group else pd.Series(group)
            if dtype == pl.Categorical:
                cells = cells.astype("category")
            return pd.DataFrame({"group": cells, **MEASURED})
        return frame

    return make


@pytest.mark.parametrize("tiny", ["1e-36", "1e-45", "1e-400"])
def test_a_tiny_decimal_leaves_other_rows_as_they_are(tiny, capfd):
    values = [Decimal("170.5")] * 3 + [Decimal(tiny)]
    frame = pd.DataFrame({"a": pd.Series(values, dtype=object), "b": 1.0})
    assert [170.5, 170.5, 170.5] == load_table(frame, COLUMNS)[:3, 0].tolist()
    assert ("", "") == capfd.readouterr()


@pytest.mark.parametrize("digits", [400, 5000])
@pytest.mark.parametrize(("sign", "read"), [(1, 1e100), (-1, -1e100)])
def test_an_integer_beyond_all_floats_is_clamped(digits, sign, read):
    huge = sign * 10**digits
    frame = pd.DataFrame({"a": pd.Series([huge, 1], dtype=object), "b": 1.0})
    assert [read, 1.0] == load_table(frame, COLUMNS)[:, 0].tolist()


class TestLabels:
    def test_a_code_is_the_position_of_the_level(self, source):
        assert [1.0, 0.0, 0.0, 1.0] == coded(source(["y", "x", "x", "y"]))

    def test_what_is_not_declared_is_the_rest(self, source):
        assert [0.0, 2.0, 1.0, 2.0] == coded(source(["x", f"z{CELL}", "y", "X"]))

    def test_a_missing_label_is_the_rest(self, source):
        assert [0.0, 2.0, 1.0, 2.0] == coded(source(["x", None, "y", None]))

    def test_labels_that_are_all_missing_are_the_rest(self, source):
        assert [2.0] * 4 == coded(source([None] * 4, pl.String))

    def test_the_name_of_the_rest_is_in_the_rest_like_any_other(self, source):
        assert [0.0, 2.0, 2.0, 1.0] == coded(source(["x", "rest", "other", "y"]))

    def test_whole_numbers_are_labels(self, source):
        assert [0.0, 1.0, 2.0, 1.0] == coded(source([1, 2, 31337, 2]), ("1", "2"))

    def test_whole_numbers_held_as_floats_are_labels(self, source):
        assert [0.0, 1.0, 2.0, 1.0] == coded(source([1.0, 10.0, 31337.25, 10.0]), ("1", "10"))

    def test_a_missing_number_is_the_rest(self, source):
        group = source([0.5, None, 2.5, None])
        assert [0.0, 2.0, 1.0, 2.0] == coded(group, ("0.5", "2.5"))

    def test_a_number_that_is_nan_is_the_rest(self, source):
        group = source([0.5, float("nan"), 2.5, 3.5])
        assert [0.0, 2.0, 1.0, 2.0] == coded(group, ("0.5", "2.5"))

    def test_a_fraction_is_no_whole_number(self, source):
        group = source([1.5, 0.5, 2.5, 10.5])
        assert [2.0, 2.0, 1.0, 2.0] == coded(group, ("1", "2.5"))

    def test_categories_are_labels(self, source):
        group = source(["y", "x", "z", "y"], pl.Categorical)
        assert [1.0, 0.0, 2.0, 1.0] == coded(group)

    def test_yes_and_no_are_labels(self, source):
        group = source([True, False, True, True])
        codes = coded(group, ("true", "false"))
        assert [0.0, 1.0, 0.0, 0.0] == codes

    def test_several_labels_stand_in_the_order_of_the_plan(self, file):
        path = file("s,a,g,b\nn,1,x,2\nm,3,q,4\n")
        labels = (Label(name="g", levels=("x",)), Label(name="s", levels=("m", "n")))
        expected = [[1.0, 2.0, 0.0, 1.0], [3.0, 4.0, 1.0, 0.0]]
        assert expected == load_table(path, COLUMNS, labels).tolist()

    def test_a_measured_column_is_prepared_beside_labels_as_without(self, file):
        columns = (Column(name="a", upper=2, scale=2, missing=-1), Column(name="b"))
        path = file("a,b,group\n9,2,x\n,4,q\n")
        expected = [[1.0, 2.0, 0.0], [-0.5, 4.0, 2.0]]
        assert expected == load_table(path, columns, (GROUP,)).tolist()

    def test_a_column_can_be_measured_under_one_name_only(self, file):
        text = refusal(file(f"a,b\n{CELL},2\n3,4\n"), labels=(GROUP,))
        assert text.startswith("the table must have the columns group; got others.")

    @pytest.mark.parametrize("matrix", [[[1, 2, 0], [3, 4, 1]], np.zeros((2, 3)), np.zeros((2, 2))])
    def test_a_matrix_is_refused(self, matrix):
        expected = "a table with labels must be a data frame or a file; got a matrix. Name columns."
        assert expected == refusal(matrix, labels=(GROUP,))

    def test_cells_that_are_no_labels_are_the_rest(self):
        frame = pl.DataFrame({"a": [1.0, 2.0], "b": [1.0, 2.0], "group": [[CELL], [1.0]]})
        label = Label(name="group", levels=("1",))
        assert [1.0, 1.0] == load_table(frame, COLUMNS, [label])[:, 2].tolist()

    @pytest.mark.parametrize(
        "other",
        [7, 2.5, True, Decimal("2.50"), 2**70, 10**5000, None, "x", b"x", NOON],
        ids=lambda cell: type(cell).__name__,
    )
    @pytest.mark.parametrize("at", [0, 2])
    def test_a_cell_does_not_change_how_others_are_read(self, at, other):
        """One person's label must leave all other rows as they are, whatever its type."""
        cells = [Decimal(1), 2, 3.0, "4", True]
        label = Label(name="group", levels=("1", "2", "3", "4", "true"))
        changed = [*cells[:at], other, *cells[at + 1 :]]

        def codes(group):
            frame = pd.DataFrame({"a": 1.0, "b": 2.0, "group": pd.Series(group, dtype=object)})
            return load_table(frame, COLUMNS, [label])[:, 2].tolist()

        assert [0.0, 1.0, 2.0, 3.0, 4.0] == codes(cells)
        assert [0.0, 1.0, 2.0, 3.0, 4.0][at + 1 :] == codes(changed)[at + 1 :]
        assert [0.0, 1.0, 2.0, 3.0, 4.0][:at] == codes(changed)[:at]

    def test_whole_numbers_are_one_level_whatever_holds_them(self):
        big = 2**60
        label = Label(name="group", levels=(str(big),))
        for group in ([big, big, 2], [big, big, None], [float(big), float(big), math.nan]):
            frame = pd.DataFrame({"a": 1.0, "b": 2.0, "group": group})
            assert [0.0, 0.0, 1.0] == load_table(frame, COLUMNS, [label])[:, 2].tolist()

    def test_fewer_than_two_rows_are_refused(self, file):
        text = refusal(file(f"a,b,group\n1,2,x{CELL}\n"), labels=(GROUP,))
        assert "rows must be at least 2; got 1. A pair needs two rows." == text

    def test_a_missing_measured_value_is_still_refused(self, file):
        text = refusal(file(f"a,b,group\n1,2,x{CELL}\n,4,y\n"), labels=(GROUP,))
        assert text.startswith("column a must have no missing values, or a constant for them; got")


@pytest.mark.parametrize("frame", [pl.DataFrame, pd.DataFrame], ids=["polars", "pandas"])
def test_a_label_may_be_text_while_text_in_a_measured_column_is_refused(frame):
    table = frame({"a": [1.0, 2.0], "b": [3.0, 4.0], "group": ["x", f"q{CELL}"]})
    assert [0.0, 2.0] == load_table(table, COLUMNS, (GROUP,))[:, 2].tolist()
    swapped = frame({"a": [1.0, 2.0], "group": [3.0, 4.0], "b": ["x", f"q{CELL}"]})
    assert "column b must hold numbers; got text. Clean it." == refusal(swapped, labels=(GROUP,))
