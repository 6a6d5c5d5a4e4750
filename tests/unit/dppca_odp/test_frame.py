import pytest
from pydantic import ValidationError

from accountant.errors import InvalidValue
from dppca_odp.frame import Frame
from dppca_odp.values import LARGEST_BOUND

SIDES = {"x_low": -1.5, "x_high": 2.0, "y_low": 0.0, "y_high": 1e-9}


def test_json_goes_both_ways():
    frame = Frame(**SIDES)
    assert frame == Frame.model_validate_json(frame.model_dump_json())


def test_the_widest_frame_is_one():
    frame = Frame(
        x_low=-LARGEST_BOUND, x_high=LARGEST_BOUND, y_low=-LARGEST_BOUND, y_high=LARGEST_BOUND
    )
    assert 2 * LARGEST_BOUND == frame.x_high - frame.x_low


@pytest.mark.parametrize(
    ("change", "got"),
    [
        ({"x_low": 2.0}, "2.0 to 2.0 and 0.0 to 1e-09"),
        ({"x_low": 3.0}, "3.0 to 2.0 and 0.0 to 1e-09"),
        ({"y_low": 1e-9}, "-1.5 to 2.0 and 1e-09 to 1e-09"),
        ({"y_high": -1.0}, "-1.5 to 2.0 and 0.0 to -1.0"),
    ],
    ids=["no width", "x swapped", "no height", "y swapped"],
)
def test_sides_out_of_order_are_refused(change, got):
    expected = f"x_low and y_low must be below x_high and y_high; got {got}. Swap or widen them."
    with pytest.raises(InvalidValue, match=expected):
        Frame(**SIDES | change)


@pytest.mark.parametrize("side", list(SIDES))
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 1.1e200, "wide"])
def test_a_side_that_is_no_bounded_number_is_refused(side, value):
    with pytest.raises(ValidationError, match=f"(?m)^{side}$"):
        Frame.model_validate(SIDES | {side: value})


def test_a_frame_needs_all_sides_and_no_more():
    with pytest.raises(InvalidValue, match=r"^y_high\b"):
        Frame(x_low=0, x_high=1, y_low=0)
    with pytest.raises(ValidationError, match=r"(?m)^z_low$"):
        Frame.model_validate(SIDES | {"z_low": 0})
