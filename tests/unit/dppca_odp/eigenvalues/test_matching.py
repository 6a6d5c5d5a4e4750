"""Where components lie: evidence, windows, chances."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dppca_odp.eigenvalues.matching import (
    GAUSSIAN_NORM,
    NOT_GAUSSIAN,
    _evidence,
    _search,
    chance_of_scales,
    least_signal,
    match_scales,
)
from dppca_odp.eigenvalues.shape import SCALES, octaves_at_scales, tail_share
from dppca_odp.primitives.octaves import OCTAVES, UPPER_ENDS
from dppca_odp.values import Floats


def octaves_at(*variances: float) -> Floats:
    """Of Gaussian components, without noise."""
    ends = UPPER_ENDS / np.array(variances)[:, np.newaxis]
    return tail_share(ends / 2) - tail_share(ends)


def noisy(octaves: Floats, signal: float, seed: int) -> tuple[Floats, float]:
    noise = GAUSSIAN_NORM / signal
    return octaves + noise * np.random.default_rng(seed).normal(size=octaves.shape), noise


# Evidence.


@pytest.mark.parametrize("components", [1, 3, 20])
def test_the_prior_is_one_altogether(components):
    nothing = np.zeros((components, len(SCALES)))
    assert _search(nothing).evidence == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("not_gaussian", NOT_GAUSSIAN)
@pytest.mark.parametrize("full", [0.5, 4.0, 7.0])
def test_a_likelihood_ratio_is_one_in_the_mean_under_noise(full, not_gaussian):
    places, weights = np.polynomial.hermite_e.hermegauss(120)
    ratios = np.exp(_evidence(places[np.newaxis], full, not_gaussian)[0])
    assert weights @ ratios / math.sqrt(2 * math.pi) == pytest.approx(1, rel=1e-6)


@pytest.mark.parametrize(("components", "signal"), [(1, 1.0), (3, 0.8), (2, 1.5)])
def test_noise_alone_has_evidence_of_one_in_the_mean(components, signal):
    """So that 10,000 is reached in at most one search of 10,000: Markov's inequality."""
    templates = octaves_at_scales().T
    looks, generator = [], np.random.default_rng(61)
    for _ in range(600):
        signals = generator.normal(size=(components, OCTAVES)) @ templates
        looks.append(math.exp(_search(_evidence(signals, signal, 0.5)).evidence))
    error = np.std(looks) / math.sqrt(len(looks))
    assert error < 0.1
    assert abs(np.mean(looks) - 1) < 7 * error


def test_signals_below_that_of_a_gaussian_component_share_a_small_probability():
    signals = np.zeros((1, 1))
    assert _evidence(signals, 2.0, 0.01)[0, 0] == pytest.approx(-2.0)
    wanted = math.log(0.99 * math.exp(-72) + 0.005 * (math.exp(-18) + math.exp(-4.5)))
    assert _evidence(signals, 12.0, 0.01)[0, 0] == pytest.approx(wanted)


# Scales.


@given(st.integers(-110, 110), st.floats(1, 2))
def test_a_scale_is_found_within_a_quarter_of_an_octave(power, factor):
    variance = factor * 2.0**power
    (scale,), (unclear,), (mixed,) = match_scales(octaves_at(variance), noise=1e-3)
    assert abs(math.log2(scale / variance)) <= 0.126
    assert not unclear
    assert not mixed


@pytest.mark.parametrize(("share", "mixed"), [(0.45, True), (0.55, False)])
def test_a_component_of_which_less_than_half_looks_gaussian_is_mixed(share, mixed):
    octaves = share * octaves_at(1.0)
    octaves[0, 0] += 1 - share
    assert match_scales(octaves, noise=1e-4).mixed.tolist() == [mixed]


@pytest.mark.parametrize(("signal", "found"), [(5.0, False), (5.6, True)])
def test_alone_a_scale_must_be_clear(signal, found):
    (scale,), *_ = match_scales(octaves_at(1.0), noise=GAUSSIAN_NORM / signal)
    assert (scale > 0) == found


@pytest.mark.parametrize(("others", "found"), [(0, False), (2, True), (4, True)])
def test_weak_components_near_each_other_are_found_together(others, found):
    variances = np.geomspace(1, 10, others + 1)
    scales, *_ = match_scales(octaves_at(*variances), noise=GAUSSIAN_NORM / 4.0)
    assert (scales > 0).all() == (scales > 0).any() == found
    if found:
        np.testing.assert_allclose(scales, variances, rtol=0.5)


@pytest.mark.parametrize(
    ("signal", "octaves_away", "found", "unclear"),
    [(4.5, 7, True, False), (3.0, 2, True, True), (3.5, 40, False, False), (6.0, 40, True, False)],
)
def test_near_one_that_is_found_a_scale_may_be_less_clear(signal, octaves_away, found, unclear):
    both = octaves_at(1.0, 2.0**octaves_away)
    both[0] *= 9.0 / signal
    matched = match_scales(both, noise=GAUSSIAN_NORM / signal)
    assert matched.scales[0] > 0
    assert (matched.scales[1] > 0, matched.unclear[1]) == (found, unclear)


@pytest.mark.parametrize("signal", [6.0, 20.0, 1000.0])
def test_a_component_that_is_not_there_is_not_found_or_is_unclear(signal):
    octaves = octaves_at(1.0, 2.0, 3.0, 1.0)
    octaves[3] = 0.0
    scales = match_scales(octaves, noise=GAUSSIAN_NORM / signal).scales
    assert (scales > 0).tolist() == [True, True, True, False]
    for seed in range(50):
        matched = match_scales(*noisy(octaves, signal, seed))
        assert matched.unclear[3] or matched.scales[3] == 0


@pytest.mark.parametrize("part", [0.5, 0.1])
def test_a_component_of_mostly_zeros_is_found_alone(part):
    octaves = octaves_at(1.0, 2.0, 2.0**25)
    octaves[2] *= part
    for signal, found in ((5.0, False), (6.0, True)):
        scales = match_scales(octaves, noise=GAUSSIAN_NORM * part / signal).scales
        assert (scales > 0).tolist() == [True, True, found]


def test_zeros_have_no_scale():
    nothing = np.zeros((2, OCTAVES))
    nothing[0, 0] = 1.0
    assert match_scales(nothing, noise=1e-6).scales.tolist() == [0, 0]


# Chances.


@pytest.mark.parametrize(("components", "signal"), [(1, 5.5), (2, 4.0), (5, 3.2), (20, 4.0)])
def test_the_chance_is_near_that_of_gaussian_components(components, signal):
    """It is good to about 0.1; 0.3 leaves room for the noise of 150 runs."""
    variances = np.geomspace(1, 10, components) if components > 1 else [1.0]
    octaves, runs = octaves_at(*variances), 150
    found = sum(
        (match_scales(*noisy(octaves, signal, seed)).scales > 0).all() for seed in range(runs)
    )
    assert abs(found / runs - chance_of_scales(signal, components)) < 0.3


@given(st.floats(0.01, 0.9999), st.integers(1, 100))
def test_the_least_signal_has_its_chance(chance, components):
    least = least_signal(chance, components)
    assert chance_of_scales(least, components) == pytest.approx(chance, abs=1e-6)
