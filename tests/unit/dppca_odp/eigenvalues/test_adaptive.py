"""The adaptive method: parts, rules, flags."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import wraps

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accountant.errors import InvalidValue
from accountant.gaussian import gaussian_mu
from accountant.losses import GaussianLoss
from accountant.specs import Budget
from dppca_odp.eigenvalues.adaptive import (
    AIMED_SIGNAL,
    Adaptive,
    Parts,
    make_adaptive,
    then_adaptive,
)
from dppca_odp.eigenvalues.matching import full_signal
from dppca_odp.eigenvalues.rules import Rare, find_rare
from dppca_odp.flags import MEANINGS, Flag, sentences
from dppca_odp.planned import Size
from dppca_odp.primitives.octaves import OCTAVES, UPPER_ENDS
from dppca_odp.spaces import matrix_domain, rows_metric

GENEROUS = Budget.of("8", "1e-5")
EIGENVALUES = np.array([10, 6, 3, 1.5, 1])


def measurement(rows: int, columns: int, share: Budget = GENEROUS, c: int = 1, **parameters):
    return make_adaptive(
        matrix_domain(rows, columns),
        rows_metric(),
        method=Adaptive(**parameters),
        share=share,
        rows_per_person=c,
    )


def estimate(table: np.ndarray, share: Budget = GENEROUS, **parameters):
    return measurement(*table.shape, share, **parameters)(table)


def gaussian(rows: int, columns: int = 5) -> np.ndarray:
    table = np.random.default_rng(rows).normal(size=(rows, columns))
    return table * np.sqrt(np.resize(EIGENVALUES, columns))


def two_of_three(test):
    """Noise is taken for a tail in one run of 2,000 or so; twice in three, in one of 10^6."""

    @wraps(test)
    def repeated(*words, **more):
        failed = 0
        for _ in range(3):
            try:
                test(*words, **more)
            except AssertionError:
                failed += 1
                if failed > 1:
                    raise

    return repeated


# Parameters.


def test_no_parameter_must_be_given():
    assert Adaptive() == Adaptive(degree=16, robust=False)


@pytest.mark.parametrize("degree", [0, 1, 3, -2])
def test_a_degree_that_makes_no_ring_is_refused(degree):
    with pytest.raises(InvalidValue):
        Adaptive(degree=degree)


# Parts of mu squared, and what the whole costs.


@given(st.floats(1e-9, 10), st.integers(1, 1000), st.booleans())
def test_parts_are_known_before_and_make_the_whole(noise, components, robust):
    parts = Parts.of(noise, components, robust=robust)
    links = parts.links(components)
    assert sum(link.share for link in links) == 1 == sum(parts)
    assert (parts.tail == 0) == robust
    assert all(link.share > 0 for link in links)
    assert len(links) == (2 if robust else 5)


def test_the_scale_has_what_it_needs_and_no_more():
    components = 5
    for noise in (5e-3, 6e-3, 8e-3):
        part = Parts.of(noise, components, robust=False).scale
        assert full_signal(noise, components) * math.sqrt(part) == pytest.approx(
            AIMED_SIGNAL, rel=1e-3
        )
    assert Parts.of(1e-6, components, robust=False).scale == Fraction("0.1")
    assert Parts.of(1.0, components, robust=False).scale == Fraction("0.6")


@pytest.mark.parametrize("robust", [False, True])
@pytest.mark.parametrize(("epsilon", "delta"), [("1", "1e-5"), ("0.1", "1e-9"), ("10", "1e-6")])
@pytest.mark.parametrize("c", [1, 3])
def test_the_whole_method_costs_one_gaussian(epsilon, delta, robust, c):
    share = Budget.of(epsilon, delta)
    (line,) = Adaptive(robust=robust).stages(share, Size(500, 3, c))
    (loss,) = line.stage.losses
    assert isinstance(loss, GaussianLoss)
    mu = gaussian_mu(Fraction(epsilon), Fraction(delta))
    assert float(loss.mu) == pytest.approx(mu, rel=1e-9)
    method = measurement(500, 3, share, c, robust=robust)
    priced, delta_priced = method.map(c)
    assert float(epsilon) * (1 - 1e-9) < priced <= float(epsilon)
    assert delta_priced <= float(delta)
    assert method.map(0) == (0, 0)
    with pytest.raises(Exception, match="d_in"):
        method.map(c + 1)


def test_it_chains():
    space = matrix_domain(50, 2), rows_metric()
    chain = space >> then_adaptive(method=Adaptive(), share=GENEROUS, rows_per_person=2)
    assert chain.map(2) == measurement(50, 2, c=2).map(2)


@pytest.mark.parametrize("rows", [1, 2])
def test_fewer_rows_than_a_ring_needs_are_refused(rows):
    with pytest.raises(ValueError, match=f"rows must be at least 3 for a ring; got {rows}"):
        measurement(rows, 1)


# Rules, on octaves without noise.


def octaves_of(values: np.ndarray) -> np.ndarray:
    places = np.searchsorted(UPPER_ENDS, values, side="right")
    return np.bincount(places, minlength=OCTAVES) / len(values)


def chi_squared(rows: int = 100_000) -> np.ndarray:
    return np.random.default_rng(6).chisquare(1, size=rows)


def test_rare_large_values_are_found_far_out_and_bound_the_mean_from_below():
    values = chi_squared()
    values[:3000] *= 2.0**20
    rare = find_rare(octaves_of(values), 1e-4, scale=1.0)
    assert rare is not None
    assert 0.3 * values.mean() < rare.mean < values.mean()
    assert 2.0**19 < rare.end < 2.0**24


@pytest.mark.parametrize(("far", "noise"), [(2.0**20, 1e-1), (2.0, 1e-5), (1.0, 1e-6)])
def test_large_values_that_are_not_clear_or_not_far_are_no_rare_ones(far, noise):
    values = chi_squared()
    values[:3000] *= far
    assert find_rare(octaves_of(values), noise, scale=1.0) is None


def test_a_component_without_scale_has_no_rare_values():
    assert find_rare(octaves_of(chi_squared()), 1e-6, scale=0.0) is None


@pytest.mark.parametrize(("end", "cutoff"), [(1.0, 15.0), (20.0, 20.0), (1e9, 50.0)])
def test_rare_values_are_clipped_where_noise_is_small(end, cutoff):
    assert Rare(mean=1.0, end=end).cutoff(noise=0.01) == pytest.approx(cutoff)


# What it answers.


@two_of_three
def test_gaussian_columns_raise_no_flag():
    answer = estimate(gaussian(3000))
    np.testing.assert_allclose(answer.values, EIGENVALUES, rtol=0.5)
    assert set(answer.flags) == {()}
    assert answer.warnings == ()
    low, high = answer.noise_interval
    assert (low < answer.values).all()
    assert (answer.values < high).all()
    np.testing.assert_array_less(0, answer.noise_scales)


@pytest.mark.parametrize("unit", [1e-12, 1e12])
@two_of_three
def test_units_change_nothing_else(unit):
    answer = estimate(gaussian(3000) * unit)
    np.testing.assert_allclose(answer.values / unit**2, EIGENVALUES, rtol=0.5)
    assert set(answer.flags) == {()}


@two_of_three
def test_twenty_components_are_estimated():
    table = gaussian(3000, 20)
    answer = estimate(table)
    np.testing.assert_allclose(answer.values, np.resize(EIGENVALUES, 20), rtol=0.7)


@pytest.mark.parametrize("filling", [0.0, np.nan, np.inf, 7.5, -1e300])
@two_of_three
def test_a_column_of_one_value_is_not_found_and_harms_no_other(filling):
    table = gaussian(3000)
    table[:, 1] = filling
    answer = estimate(table)
    assert answer.values[1] == 0 == answer.noise_scales[1]
    assert Flag.NOT_FOUND in answer.flags[1]
    np.testing.assert_allclose(np.delete(answer.values, 1), np.delete(EIGENVALUES, 1), rtol=0.5)
    assert any(warning.told().startswith("component 2: not found:") for warning in answer.warnings)


def test_a_table_of_one_value_is_answered():
    answer = estimate(np.ones((500, 3)))
    assert answer.values.tolist() == [0, 0, 0]
    assert all(Flag.NOT_FOUND in flags for flags in answer.flags)


def test_numbers_of_every_kind_are_answered():
    table = gaussian(300, 3)
    table[::3] = np.nan
    table[1::5, 0] = np.inf
    table[2::5, 1] = -1e308
    table[:, 2] *= 1e-320
    answer = estimate(table)
    assert np.isfinite(answer.values).all()
    assert np.isfinite(answer.noise_scales).all()


def test_too_small_a_budget_finds_nothing_and_says_so():
    answer = estimate(gaussian(280), Budget.of("0.001", "1e-5"))
    assert answer.values.tolist() == [0] * 5
    assert set(answer.flags) == {(Flag.NOT_FOUND,)}


@two_of_three
def test_rare_large_values_are_flagged():
    generator = np.random.default_rng(7)
    table = generator.normal(size=(5000, 3))
    table[:, 0] += 1000 * (generator.random(5000) < 0.03)
    answer = estimate(table)
    assert Flag.RARE_LARGE_VALUES in answer.flags[0]
    assert answer.values[0] == pytest.approx(table[:, 0].var(), rel=0.8)
    np.testing.assert_allclose(answer.values[1:], 1, rtol=0.5)
    assert answer.flags[1:] == ((), ())


@two_of_three
def test_a_tail_without_end_is_flagged():
    answer = estimate(np.random.default_rng(8).standard_cauchy(size=(5000, 2)))
    for flags in answer.flags:
        assert {Flag.HEAVY_TAIL, Flag.RARE_LARGE_VALUES} & set(flags)


@two_of_three
def test_mostly_zeros_are_flagged_as_mixed():
    generator = np.random.default_rng(9)
    table = generator.normal(size=(5000, 2))
    table[:, 0] *= generator.random(5000) < 0.15
    answer = estimate(table)
    assert answer.flags == ((Flag.MIXED,), ())
    assert answer.values[0] == pytest.approx(0.15, rel=0.6)


@two_of_three
def test_robust_is_the_scale_of_the_bulk():
    table = gaussian(5000)
    table[::100] *= 100
    answer = estimate(table, robust=True)
    np.testing.assert_allclose(answer.values, EIGENVALUES, rtol=0.4)
    assert set(answer.flags) == {()}
    assert any("bulk" in warning.text for warning in answer.warnings)


# Sentences.


def test_each_flag_has_a_meaning_in_a_sentence_with_its_components():
    assert set(MEANINGS) == set(Flag)
    notes = sentences([(Flag.AT_ZERO,), (), (Flag.AT_ZERO, Flag.SATURATED)])
    assert [note.told() for note in notes] == [
        f"component 3: saturated: {MEANINGS[Flag.SATURATED]}",
        f"components 1, 3: at zero: {MEANINGS[Flag.AT_ZERO]}",
    ]
