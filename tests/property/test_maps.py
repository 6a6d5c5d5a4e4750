"""Every privacy and stability map is zero at zero and never falls."""

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from accountant import Budget
from dppca_odp.directions import make_directions, make_kendall_matrix
from dppca_odp.eigenvalues.clipped import Clipped, make_clipped_mean
from dppca_odp.eigenvalues.huber import Huber, make_huber
from dppca_odp.eigenvalues.pmwm import PMWM, make_pmwm
from dppca_odp.eigenvalues.scree import make_scree
from dppca_odp.primitives.means import make_gaussian_mean
from dppca_odp.primitives.noise import make_gaussian, make_gaussian_steps
from dppca_odp.primitives.pairs import (
    draw_pairing,
    make_half_squared_differences,
    make_part_of_pairs,
    make_projection,
)
from dppca_odp.primitives.quantiles import make_unbounded_quantile
from dppca_odp.primitives.scales import make_dyadic_counts, make_dyadic_scale
from dppca_odp.primitives.sums import make_clamped_sum
from dppca_odp.spaces import integers_domain, integers_metric, matrix_domain, rows_metric

MANY = 10**6
rows = st.integers(8, 5000)
columns = st.integers(1, 6)
epsilons = st.floats(1e-6, 30)
deltas = st.floats(1e-12, 0.5)
shares = st.builds(
    Budget.of,
    st.fractions("0.01", 10, max_denominator=1000),
    st.fractions("1e-9", "0.1", max_denominator=10**10),
)
limits = st.floats(-1e6, 1e6)
units = st.integers(1, 20)
degrees = st.sampled_from([1, 2, 4, 6])
METHODS = [
    Clipped(clipping_bound=50),
    PMWM(lower_bound=0, upper_bound=50),
    PMWM(lower_bound=0, upper_bound=50, pair_rows="reuse"),
    Huber(lowest_scale=-5, highest_scale=5),
]

few = settings(max_examples=40, deadline=None)


def space(number, width=1):
    return matrix_domain(number, width), rows_metric()


def distances(end=MANY):
    """Zero, small numbers, and some that are larger than any table."""
    return st.lists(st.integers(0, end), min_size=1).map(lambda some: sorted({0, 1, *some}))


def check(part, at):
    """Zero at zero, and no coordinate falls from one distance to the next."""
    losses = [np.atleast_1d(part.map(d)) for d in at]
    assert losses[0].tolist() == [0.0] * len(losses[0])
    for smaller, larger in pairwise(losses):
        assert (smaller <= larger).all()


@few
@given(rows, columns, distances())
def test_projection(number, width, at):
    check(make_projection(*space(number, width), directions=np.eye(width)), at)


@few
@given(rows, degrees, distances())
def test_half_squared_differences(number, degree, at):
    pairing = draw_pairing(number, degree)
    check(make_half_squared_differences(*space(number), pairing=pairing), at)


@few
@given(rows, st.data(), distances())
def test_part_of_pairs(number, data, at):
    start = data.draw(st.integers(0, number - 1))
    stop = data.draw(st.integers(start + 1, number))
    check(make_part_of_pairs(*space(number), start=start, stop=stop), at)


@few
@given(rows, st.lists(st.tuples(limits, limits), min_size=1, max_size=6), distances())
def test_clamped_sum(number, pairs_of_limits, at):
    lower, upper = np.sort(np.array(pairs_of_limits), axis=1).T
    check(make_clamped_sum(*space(number, len(lower)), lower=lower, upper=upper), at)


@few
@given(rows, st.integers(1, 4), distances())
def test_dyadic_counts(number, blocks, at):
    check(make_dyadic_counts(*space(number), column=0, blocks=blocks, lowest=-5, highest=5), at)


@few
@given(rows, columns, degrees, distances())
def test_kendall_matrix(number, width, degree, at):
    check(make_kendall_matrix(*space(number, width), pairing=draw_pairing(number, degree)), at)


@few
@given(rows, st.floats(0.001, 0.999), epsilons, epsilons, distances())
def test_unbounded_quantile(number, level, target, counts, at):
    search = make_unbounded_quantile(
        *space(number),
        column=0,
        quantile=level,
        points=[1.0, 2.0],
        epsilon_target=target,
        epsilon_counts=counts,
    )
    check(search, at)


@few
@given(rows, st.integers(1, 4), epsilons, distances())
def test_dyadic_scale(number, blocks, epsilon, at):
    scale = make_dyadic_scale(
        *space(number), column=0, blocks=blocks, lowest=-5, highest=5, epsilon=epsilon
    )
    check(scale, at)


@few
@given(
    columns,
    st.floats(2**30, 2**50),
    deltas,
    st.lists(st.floats(0, 2**52), min_size=1).map(lambda some: sorted({0.0, *some})),
)
def test_gaussian(width, scale, delta, at):
    check(make_gaussian(integers_domain(width), integers_metric(), scale=scale, delta=delta), at)


@few
@given(units, st.integers(1, 5), st.floats(2**30, 2**50), deltas, st.data())
def test_gaussian_steps(unit, steps, scale, delta, data):
    measurement = make_gaussian_steps(
        *space(100),
        d_in=unit,
        size=1,
        steps=steps,
        sensitivity=unit * 2.0**32,
        scale=scale,
        delta=delta,
        next_sum=lambda answers: make_clamped_sum(*space(100), lower=0.0, upper=1.0),
    )
    check(measurement, data.draw(distances(unit)))


@few
@given(rows, columns, shares, units, distances(100))
def test_gaussian_mean(number, width, share, unit, at):
    mean = make_gaussian_mean(*space(number, width), lower=0.0, upper=1.0, share=share, d_in=unit)
    check(mean, at)


@few
@given(rows, columns, degrees, shares, units, distances(100))
def test_directions(number, width, degree, share, unit, at):
    measurement = make_directions(
        *space(number, width),
        components=1,
        pairing=draw_pairing(number, degree),
        share=share,
        d_in=unit,
    )
    check(measurement, at)


@few
@given(rows, columns, shares, units, st.data())
def test_clipped_mean(number, width, share, unit, data):
    measurement = make_clipped_mean(
        *space(number, width), method=METHODS[0], share=share, d_in=unit
    )
    check(measurement, data.draw(distances(unit)))


@few
@given(rows, columns, st.sampled_from(METHODS[1:3]), shares, units, st.data())
def test_pmwm(number, width, method, share, unit, data):
    measurement = make_pmwm(*space(number, width), method=method, share=share, d_in=unit)
    check(measurement, data.draw(distances(unit)))


@few
@given(rows, columns, shares, units, st.data())
def test_huber(number, width, share, unit, data):
    measurement = make_huber(*space(number, width), method=METHODS[3], share=share, d_in=unit)
    check(measurement, data.draw(distances(unit)))


@few
@given(rows, columns, st.sampled_from(METHODS), shares, units, st.data())
def test_scree(number, width, method, share, unit, data):
    measurement = make_scree(
        *space(number, width),
        method=method,
        directions=np.eye(width),
        pairing=draw_pairing(number, 1),
        share=share,
        rows_per_person=unit,
    )
    check(measurement, data.draw(distances(unit)))
