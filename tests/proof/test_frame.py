"""The score frame: its exact map, its parts, and an answer for every table."""

from __future__ import annotations

from fractions import Fraction
from math import hypot, inf, isfinite, nan

import numpy as np
import pytest
from opendp.mod import OpenDPException

from accountant.specs import Budget
from dppca_odp.primitives.quantiles import SearchGrid
from dppca_odp.scores.frames import PrivateFrame, make_distances, make_score_frame
from dppca_odp.spaces import matrix_domain, rows_metric

from .exact_laws import neighbouring_results, results_of

GRID = SearchGrid(beta=1.5, steps=20)
METHOD = PrivateFrame(grid=GRID)
SHARES = ["0.001", "1/3", "1", "7/10", "20"]
ROWS = 40


def frame(share: Budget, d_in: int, *, method: PrivateFrame = METHOD, rows: int = ROWS):
    return make_score_frame(
        matrix_domain(rows, 2), rows_metric(), method=method, share=share, d_in=d_in
    )


@pytest.mark.parametrize("d_in", [1, 2, 5])
@pytest.mark.parametrize("epsilon", SHARES)
def test_map_is_just_under_the_share_at_every_distance(epsilon, d_in):
    share = Budget.of(epsilon, 0)
    measurement = frame(share, d_in)
    assert measurement.map(0) == (0.0, 0.0)
    for distance in range(1, d_in + 1):
        claimed, delta = measurement.map(distance)
        assert share.epsilon * (1 - Fraction(1, 10**9)) < Fraction(claimed) <= share.epsilon
        assert delta == 0
    with pytest.raises(OpenDPException):
        measurement.map(d_in + 1)


@pytest.mark.parametrize("d_in", [1, 2, 5])
def test_planned_loss_is_the_share(d_in):
    share = Budget.of("1", 0)
    stage = METHOD.stage(share, d_in).stage
    (loss,) = stage.losses
    assert share.epsilon == loss.epsilon * loss.count
    assert Fraction(frame(share, d_in).map(d_in)[0]) <= loss.epsilon * loss.count


# Distances to the centre.

LETTERS = ((0.0, 0.0), (3.0, 4.0), (nan, 1.0), (-inf, 1e308), (1e100, -1e100))


def held(value: float) -> float:
    return 0.0 if value != value else min(max(value, -1e100), 1e100)


@pytest.mark.parametrize("centre", [(0.0, 0.0), (-2.5, 1e6)])
@pytest.mark.parametrize("changed", [1, 2])
def test_distances_are_of_their_row_and_differ_as_much_as_the_map(centre, changed):
    x, y = centre
    distances = make_distances(matrix_domain(3, 2), rows_metric(), x=x, y=y)
    results = results_of(lambda t: distances(np.array(t)).ravel(), LETTERS, 3)
    expected = results_of(lambda t: [hypot(held(a) - x, held(b) - y) for a, b in t], LETTERS, 3)
    for data_set, result in results.items():
        assert expected[data_set] == pytest.approx(result, rel=1e-15)
    differ = (np.not_equal(*both).sum() for both in neighbouring_results(results, 5, changed))
    assert distances.map(changed) == max(differ)


# Every table is answered.

TABLES = {
    "zeros": [0.0],
    "missing": [nan],
    "infinite": [inf],
    "minus infinite": [-inf],
    "huge": [1e308],
    "both huge": [1e308, 1e308, -1e308, -1e308, 1e308],
    "least": [5e-324, 0.0, -5e-324],
    "all kinds": [nan, inf, -inf, 1e308, -1e308, 1e-308, 0.0, 1.0, -1.0],
}
GRIDS = {
    "short": GRID,
    "usual": PrivateFrame().grid,
}


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("table", TABLES)
def test_every_table_is_answered_with_finite_numbers_in_order(table, grid):
    """Warnings are errors here: nothing about a table shows on standard error either."""
    values = np.resize(TABLES[table], (ROWS, 2))
    before = values.copy()
    for epsilon in ("1/10", "20"):
        measurement = frame(Budget.of(epsilon, 0), 1, method=PrivateFrame(grid=GRIDS[grid]))
        for _ in range(2):
            found = measurement(values).frame
            assert all(isfinite(side) for side in found.model_dump().values())
            assert found.x_low < found.x_high
            assert found.y_low < found.y_high
    np.testing.assert_array_equal(before, values)


def test_a_radius_far_below_the_centre_is_answered():
    """All rows are one grid point, far from 0: a radius that floats beside it cannot show."""
    grid = SearchGrid(beta=1e20, steps=3)
    point = float(grid.points()[1])
    measurement = frame(Budget.of("1", 0), 1, method=PrivateFrame(grid=grid), rows=2)
    for _ in range(200):
        assert measurement(np.full((2, 2), point)).frame is not None


def test_searches_that_stop_far_apart_are_answered():
    """Ordinary rows and much noise: the radius may be 10^-100 of the centre."""
    grid = SearchGrid(unit=1e-200, beta=10, steps=300)
    measurement = frame(Budget.of("1/10", 0), 1, method=PrivateFrame(grid=grid))
    table = np.resize([0.5, -1.0, 2.0], (ROWS, 2))
    for _ in range(200):
        assert measurement(table).frame is not None


def test_a_grid_up_to_the_largest_numbers_is_answered_or_refused_before_it_runs():
    grid = SearchGrid(unit=8e307, beta=3, steps=1)  # its end, inflated, is beyond floats
    try:
        measurement = frame(Budget.of("1", 0), 1, method=PrivateFrame(grid=grid), rows=2)
    except ValueError:
        return
    assert measurement(np.zeros((2, 2))).frame is not None
