"""Every method's measurement: its map stays just under its share, and no table breaks it."""

from __future__ import annotations

from fractions import Fraction
from math import inf, nan

import numpy as np
import pytest
from opendp.mod import OpenDPException

from accountant.specs import Budget
from dppca_odp.directions import make_directions
from dppca_odp.eigenvalues.clipped import Clipped, make_clipped_mean
from dppca_odp.eigenvalues.huber import Huber, make_huber
from dppca_odp.eigenvalues.pmwm import PMWM, make_pmwm
from dppca_odp.eigenvalues.scree import make_scree
from dppca_odp.primitives.means import make_gaussian_mean
from dppca_odp.primitives.noise import gaussian_to_approximate, stage_loss
from dppca_odp.primitives.pairs import Pairing
from dppca_odp.primitives.quantiles import SearchGrid
from dppca_odp.spaces import matrix_domain, rows_metric

ROWS, COLUMNS = 40, 2
SPACE = matrix_domain(ROWS, COLUMNS), rows_metric()
RING = Pairing(ROWS, 4, np.arange(ROWS))

CLIPPED = Clipped(clipping_bound=(3.0, 50.0))
GRID = SearchGrid(beta=1.5, steps=20)
PMWM_REUSE = PMWM(lower_bound=0.0, upper_bound=100.0, pair_rows="reuse", grid=GRID)
PMWM_SPLIT = PMWM(lower_bound=0.0, upper_bound=100.0, pair_rows="split", grid=GRID)
ON_A_RING = {"degree": 6, "noise_allocation": "minimum-variance"}
CLIPPED_RING = Clipped(clipping_bound=(3.0, 50.0), **ON_A_RING)
PMWM_RING = PMWM(lower_bound=0.0, upper_bound=100.0, pair_rows="reuse", grid=GRID, **ON_A_RING)
HUBER_RING = Huber(lowest_scale=-10, highest_scale=15, scale_fraction="1/4", **ON_A_RING)
WIDE_HUBER_RING = Huber(
    lowest_scale=-1000,
    highest_scale=1000,
    scale_fraction="1/4",
    step_size=1e300,
    steps=5,
    **ON_A_RING,
)
HUBER = Huber(lowest_scale=-10, highest_scale=15, scale_fraction="1/4")
WIDE_HUBER = Huber(
    lowest_scale=-1000, highest_scale=1000, scale_fraction="1/4", step_size=1e300, steps=2
)


def scree(method, share, d_in):
    return make_scree(
        *SPACE,
        method=method,
        directions=np.eye(COLUMNS),
        share=share,
        rows_per_person=d_in,
    )


METHODS = {
    "gaussian mean": lambda share, d_in: gaussian_to_approximate(
        make_gaussian_mean(*SPACE, lower=-1.0, upper=2.0, share=share, d_in=d_in),
        delta=stage_loss(share)[1],
    ),
    "clipped": lambda share, d_in: make_clipped_mean(
        *SPACE, method=CLIPPED, share=share, rows_per_person=d_in
    ),
    "pmwm reuse": lambda share, d_in: make_pmwm(
        *SPACE, method=PMWM_REUSE, share=share, rows_per_person=d_in
    ),
    "pmwm split": lambda share, d_in: make_pmwm(
        *SPACE, method=PMWM_SPLIT, share=share, rows_per_person=d_in
    ),
    "huber": lambda share, d_in: make_huber(
        *SPACE, method=HUBER, share=share, rows_per_person=d_in
    ),
    "wide huber": lambda share, d_in: make_huber(
        *SPACE, method=WIDE_HUBER, share=share, rows_per_person=d_in
    ),
    "clipped on a ring": lambda share, d_in: CLIPPED_RING.make(
        *SPACE, share=share, rows_per_person=d_in
    ),
    "pmwm on a ring": lambda share, d_in: PMWM_RING.make(*SPACE, share=share, rows_per_person=d_in),
    "huber on a ring": lambda share, d_in: HUBER_RING.make(
        *SPACE, share=share, rows_per_person=d_in
    ),
    "wide huber on a ring": lambda share, d_in: WIDE_HUBER_RING.make(
        *SPACE, share=share, rows_per_person=d_in
    ),
    "directions": lambda share, d_in: make_directions(
        *SPACE, components=2, pairing=RING, share=share, d_in=d_in
    ),
    "scree clipped": lambda share, d_in: scree(CLIPPED, share, d_in),
    "scree pmwm": lambda share, d_in: scree(PMWM_SPLIT, share, d_in),
    "scree huber": lambda share, d_in: scree(HUBER, share, d_in),
}
#: The one whose map does not end at the declared distance: a stage on its own.
ENDLESS = "gaussian mean"
SHARES = [("0.001", "1e-10"), ("0.1", "1e-8"), ("1", "1e-5"), ("1/3", "1e-8"), ("20", "1e-5")]


@pytest.mark.parametrize("d_in", [1, 5])
@pytest.mark.parametrize("name", METHODS)
def test_map_is_just_under_the_share_in_both_coordinates(name, d_in):
    for epsilon, delta in SHARES:
        share = Budget.of(epsilon, delta)
        claimed = METHODS[name](share, d_in).map(d_in)
        # e^20 times the leak of the coarsest mean is some of the delta
        room = Fraction(1, 10**6 if epsilon == "20" else 10**9)
        for actual, granted in zip(claimed, (share.epsilon, share.delta), strict=True):
            assert granted * (1 - room) < Fraction(actual) <= granted


@pytest.mark.parametrize("name", METHODS)
def test_map_is_zero_at_zero_and_never_falls(name):
    measurement = METHODS[name](Budget.of("0.7", "1e-6"), 5)
    losses = [measurement.map(distance) for distance in range(6)]
    nothing = (0.0, 0.0)
    assert nothing == losses[0]
    assert sorted(losses) == losses
    assert sorted(delta for _, delta in losses) == [delta for _, delta in losses]


@pytest.mark.parametrize("name", METHODS)
def test_beyond_the_declared_distance_the_map_exceeds_the_share_or_is_an_error(name):
    share = Budget.of("0.7", "1e-6")
    measurement = METHODS[name](share, 2)
    if name == ENDLESS:
        assert Fraction(measurement.map(3)[0]) > share.epsilon
    else:
        with pytest.raises(OpenDPException):
            measurement.map(3)


def filled(value: float) -> np.ndarray:
    return np.full((ROWS, COLUMNS), value)


def alternating(*values: float) -> np.ndarray:
    return np.resize(values, (ROWS, COLUMNS))


TABLES = {
    "zeros": filled(0.0),
    "constant": filled(3.5),
    "missing": filled(nan),
    "infinite": filled(inf),
    "minus infinite": filled(-inf),
    "huge": filled(1e308),
    "both huge": alternating(1e308, 1e308, -1e308, -1e308, 1e308),
    "least": alternating(5e-324, 0.0, -5e-324),
    "all kinds": alternating(nan, inf, -inf, 1e308, -1e308, 1e-308, 0.0, 1.0, -1.0),
    "one missing": np.vstack([filled(1.0)[1:], [nan, 2.0]]),
    "columns first": np.asfortranarray(alternating(1.0, nan, 2.0, inf, -3.0)),
}


def numbers_of(answer) -> list:
    """Every number that leaves: estimates, noise scales, ranges; warnings and flags are words."""
    words = "warnings", "flags"
    parts = [part for name, part in answer._asdict().items() if name not in words]
    return [part for part in parts if part is not None]


@pytest.mark.parametrize("d_in", [1, 5])
@pytest.mark.parametrize("name", METHODS)
def test_every_table_is_answered_with_finite_numbers(name, d_in):
    """Warnings are errors here: nothing about a table shows on standard error either."""
    measurement = METHODS[name](Budget.of("1", "1e-6"), d_in)
    for table in TABLES.values():
        before = table.copy()
        answer = measurement(table)
        assert all(np.isfinite(numbers).all() for numbers in numbers_of(answer))
        np.testing.assert_array_equal(before, table)
