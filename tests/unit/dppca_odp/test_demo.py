import sys

import pytest

from dppca_odp.demo import COLUMNS, GRANT, PLAN, ROWS, TOO_MUCH, UNIT, copy_table
from dppca_odp.errors import InvalidPlan
from dppca_odp.tables import load_table


def test_the_table_is_the_one_that_was_granted(tmp_path):
    copy_table(tmp_path / "randhie.csv")
    assert load_table(tmp_path / "randhie.csv", COLUMNS).shape == (ROWS, len(COLUMNS))


def test_without_the_table_the_demo_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "statsmodels.datasets", None)
    with pytest.raises(InvalidPlan) as caught:
        copy_table(tmp_path / "randhie.csv")
    expected = 'statsmodels must be installed; got none. Type: pip install "dppca-odp[demo]"'
    assert expected == str(caught.value)


def test_the_plan_fits_its_grant_and_the_last_request_does_not():
    assert PLAN.unit == TOO_MUCH.unit == UNIT
    assert PLAN.budget.fits_within(GRANT)
    assert TOO_MUCH.budget.fits_within(GRANT)
    assert not TOO_MUCH.budget.fits_within(GRANT - PLAN.budget)


def test_the_three_methods_have_equal_shares():
    shares = PLAN.shares()
    assert shares["adaptive"] == shares["clipped"] == shares["pmwm"]
