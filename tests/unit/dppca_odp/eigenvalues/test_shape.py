"""The shape of a Gaussian column's half squared differences, against its own definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from dppca_odp.eigenvalues.matching import GAUSSIAN_NORM
from dppca_odp.eigenvalues.shape import (
    SCALES,
    cutoff_of_tail,
    growth_of_clipped_mean,
    octaves_at_scales,
    tail_share,
    variance_of_clipped_mean,
)
from dppca_odp.primitives.octaves import UPPER_ENDS


def clipped_mean(variance: float, cutoff: float) -> float:
    """E min(w, cutoff), by integrating the tail."""
    grid = np.linspace(0, cutoff / variance, 200_001)
    return variance * float(np.trapezoid(chi2.sf(grid, 1), grid))


@pytest.mark.parametrize("cutoff", [0.01, 0.5, 4.0, 30.0])
def test_the_variance_of_a_clipped_mean_is_the_one_that_was_clipped(cutoff):
    for variance in (0.02, 1.0, 3.0):
        if cutoff >= variance:
            mean = np.array([clipped_mean(variance, cutoff)])
            found = variance_of_clipped_mean(mean, np.array([cutoff]))
            assert found[0] == pytest.approx(variance, rel=2e-3)


@given(st.floats(1e-30, 1e30), st.floats(-0.5, 1.5), st.floats(0, 0.2))
def test_the_variance_grows_with_the_mean_up_to_the_cutoff(cutoff, share, more):
    low, high = variance_of_clipped_mean(
        np.array([share, share + more]) * cutoff, np.array([cutoff, cutoff])
    )
    assert 0 <= low <= high <= cutoff
    assert (low > 0) == (share * cutoff > 0)


def test_nothing_is_clipped_far_out():
    assert variance_of_clipped_mean(np.array([1.0]), np.array([1e9]))[0] == pytest.approx(1)
    assert variance_of_clipped_mean(np.array([0.0]), np.array([0.0]))[0] == 0


@pytest.mark.parametrize("cutoff", [0.3, 2.0, 9.0])
def test_the_growth_is_the_slope_of_the_clipped_mean(cutoff):
    step = 1e-3
    slope = (clipped_mean(1 + step, cutoff) - clipped_mean(1 - step, cutoff)) / (2 * step)
    assert float(growth_of_clipped_mean(np.array(cutoff))) == pytest.approx(slope, rel=1e-3)


@pytest.mark.parametrize("share", [0.5, 0.1, 1e-6])
def test_a_cutoff_has_its_share_beyond_it(share):
    assert float(tail_share(cutoff_of_tail(share))) == pytest.approx(share)
    assert float(tail_share(4.0)) == pytest.approx(chi2.sf(4, 1))


def test_octaves_at_scales_are_those_of_the_distribution():
    templates = octaves_at_scales()
    for place in (0, 480, 481, 960):
        expected = np.diff(chi2.cdf(UPPER_ENDS / SCALES[place], 1), prepend=0)
        expected[0] = 0
        np.testing.assert_allclose(templates[place], expected / np.linalg.norm(expected), atol=1e-9)
        assert np.linalg.norm(expected) == pytest.approx(GAUSSIAN_NORM, abs=0.003)
    assert (len(SCALES), UPPER_ENDS.size) == templates.shape
