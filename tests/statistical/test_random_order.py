"""Rows are paired at random, so a sorted table gives the same eigenvalues as a shuffled one."""

import numpy as np
import pytest

from accountant import Budget, PrivacyUnit
from dppca_odp.eigenvalues.clipped import Clipped
from dppca_odp.eigenvalues.scree import Scree
from dppca_odp.planned import Setting
from dppca_odp.primitives.means import then_gaussian_mean
from dppca_odp.primitives.pairs import Pairing, draw_pairing, make_half_squared_differences
from dppca_odp.spaces import matrix_domain, rows_metric

ROWS = 4000
SHARE = Budget.of("20", "1e-5")
METHOD = Clipped(clipping_bound=(250, 30))  # above every half squared difference
SORTED = np.sort(np.random.default_rng(27).normal(size=(ROWS, 2)) * [3.0, 1.0], axis=0)
VARIANCE = SORTED.var(axis=0, ddof=1)
REPETITIONS = 60
# Relative: over all pairings of one table the estimate has deviation about sqrt(2 / rows), 2.2
# percent, and its noise less than 1 percent; over 60 of them that is 0.3 percent.
NEAR = 0.05


def space():
    return matrix_domain(ROWS, 2), rows_metric()


def mean_estimate(make):
    return np.mean([make()(SORTED).values for _ in range(REPETITIONS)], axis=0)


def with_pairs(pairing):
    """Eigenvalues along the axes over these pairs."""
    pairs = make_half_squared_differences(*space(), pairing=pairing)
    return pairs >> then_gaussian_mean(
        lower=0.0, upper=METHOD.bounds(2), share=SHARE, d_in=pairs.map(1)
    )


def test_a_sorted_table_has_its_variances():
    scree = Scree(name="scree", method=METHOD, directions="axes")
    setting = Setting(ROWS, ("a", "b"), 2, PrivacyUnit(rows_per_person=1))
    found = mean_estimate(lambda: scree.make(*space(), share=SHARE, setting=setting, earlier={}))
    assert pytest.approx(VARIANCE, rel=NEAR) == found


def test_a_random_ring_has_them_too():
    found = mean_estimate(lambda: with_pairs(draw_pairing(ROWS, 4)))
    assert pytest.approx(VARIANCE, rel=NEAR) == found


@pytest.mark.parametrize("degree", [1, 4])
def test_the_order_of_the_file_would_miss_them(degree):
    found = mean_estimate(lambda: with_pairs(Pairing(ROWS, degree, np.arange(ROWS))))
    assert (np.abs(found) < 0.1 * VARIANCE).all()
