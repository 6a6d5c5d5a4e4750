import pytest
from pydantic import ValidationError

from accountant.errors import InvalidValue
from dppca_odp.columns import Column, Label
from dppca_odp.values import LARGEST_VALUE


class TestColumn:
    def test_a_name_is_all_it_needs(self):
        column = Column(name="a")
        assert (None, None, 1.0, None) == (
            column.lower,
            column.upper,
            column.scale,
            column.missing,
        )

    @pytest.mark.parametrize(
        ("given", "expected"),
        [
            ({}, (-LARGEST_VALUE, LARGEST_VALUE)),
            ({"lower": 2}, (2.0, LARGEST_VALUE)),
            ({"upper": 2}, (-LARGEST_VALUE, 2.0)),
            ({"lower": 2, "upper": 2}, (2.0, 2.0)),
            ({"lower": -1e100, "upper": 1e100}, (-1e100, 1e100)),
        ],
        ids=str,
    )
    def test_bounds_that_are_left_out_are_the_largest_values(self, given, expected):
        assert expected == Column(name="a", **given).bounds()

    def test_bounds_out_of_order_are_refused(self):
        expected = r"lower must not be above upper; got 2\.0 and 1\.0\. Swap them\."
        with pytest.raises(InvalidValue, match=expected):
            Column(name="a", lower=2, upper=1)

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("name", ""),
            ("name", " a"),
            ("name", "a\nb"),
            ("lower", float("nan")),
            ("lower", 1e200),
            ("lower", -1.0001e100),
            ("upper", float("inf")),
            ("upper", 1.0001e100),
            ("upper", -1e200),
            ("scale", 0),
            ("scale", -1),
            ("scale", float("nan")),
            ("missing", float("nan")),
            ("dtype", "float"),
        ],
    )
    def test_a_fact_out_of_range_is_refused(self, key, value):
        with pytest.raises(ValidationError, match=f"(?m)^{key}$"):
            Column.model_validate({"name": "a", key: value})


class TestLabel:
    def test_a_group_has_the_position_of_its_level_and_the_rest_is_last(self):
        assert ("x", "y", "rest") == Label(name="group", levels=("x", "y")).groups
        assert ("x", "others") == Label(name="group", levels=("x",), rest="others").groups

    def test_json_goes_both_ways(self):
        label = Label(name="group", levels=("x", "y"), rest="others")
        assert label == Label.model_validate_json(label.model_dump_json())

    @pytest.mark.parametrize(
        ("levels", "rest"),
        [(("x", "x"), "rest"), (("x", "rest"), "rest"), (("x", "y"), "y")],
        ids=["levels", "the usual rest", "another rest"],
    )
    def test_groups_with_one_name_are_refused(self, levels, rest):
        expected = f"levels and rest must differ; got {', '.join(levels)}, {rest}. Name each group"
        with pytest.raises(InvalidValue, match=expected):
            Label(name="group", levels=levels, rest=rest)

    @pytest.mark.parametrize(
        ("key", "value"),
        [("name", ""), ("levels", ()), ("rest", ""), ("rest", "a\nb"), ("scale", 2)],
        ids=str,
    )
    def test_a_fact_out_of_range_is_refused(self, key, value):
        with pytest.raises(ValidationError, match=f"(?m)^{key}$"):
            Label.model_validate({"name": "group", "levels": ("x",), key: value})

    @pytest.mark.parametrize("level", ["", " x", "x\ty"], ids=repr)
    def test_a_level_that_no_legend_could_show_is_refused(self, level):
        with pytest.raises(InvalidValue, match=r"^levels\.1\b"):
            Label(name="group", levels=("x", level))
