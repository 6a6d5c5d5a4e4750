"""Every privacy and stability map is zero at zero, never falls, and keeps its share."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accountant import Budget
from accountant.losses import ApproximateLoss, GaussianLoss
from accountant.specs import Stage
from dppca_odp.directions import make_directions, make_kendall_matrix
from dppca_odp.eigenvalues.clipped import Clipped, make_clipped_mean
from dppca_odp.eigenvalues.huber import Huber, make_huber
from dppca_odp.eigenvalues.pmwm import PMWM, make_pmwm
from dppca_odp.eigenvalues.scree import make_scree
from dppca_odp.planned import Size
from dppca_odp.primitives.columns import (
    make_leading_columns,
    make_projection,
    make_scaled_columns,
)
from dppca_odp.primitives.means import make_gaussian_mean, mean_stage
from dppca_odp.primitives.noise import (
    Link,
    chain_loss,
    gaussian_to_approximate,
    make_gaussian,
    make_gaussian_chain,
    stage_loss,
)
from dppca_odp.primitives.pairs import (
    draw_pairing,
    make_half_squared_differences,
    make_part_of_pairs,
    pairs_changed,
)
from dppca_odp.primitives.quantiles import make_signed_quantile, make_unbounded_quantile
from dppca_odp.primitives.scales import make_dyadic_counts, make_dyadic_scale
from dppca_odp.primitives.stages import make_in_stages
from dppca_odp.primitives.sums import (
    FULL_UNITS,
    LEAST_UNITS,
    allocated_units,
    make_clamped_sum,
)
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
numbers = st.floats(-1e6, 1e6)
units = st.integers(1, 20)
degrees = st.sampled_from([1, 2, 4, 6])
METHODS = [
    Clipped(clipping_bound=50),
    PMWM(lower_bound=0, upper_bound=50),
    PMWM(lower_bound=0, upper_bound=50, pair_rows="reuse"),
    Huber(lowest_scale=-5, highest_scale=5, scale_fraction="1/4"),
]
EXAMPLES = [
    (Clipped, {"clipping_bound": 50}),
    (PMWM, {"lower_bound": 0, "upper_bound": 50, "pair_rows": "reuse"}),
    (Huber, {"lowest_scale": -5, "highest_scale": 5, "scale_fraction": "1/4"}),
]
#: Every source method on disjoint pairs or rings, with each allocation of noise.
methods = st.builds(
    lambda example, degree, allocation: example[0](
        **example[1], degree=degree, noise_allocation=allocation
    ),
    st.sampled_from(EXAMPLES),
    st.sampled_from([1, 2, 4, 16, 64]),
    st.sampled_from(["equal", "minimum-variance"]),
)
exponents = st.floats(0.5, 1)
widths = st.lists(st.one_of(st.just(0.0), st.floats(0, 1e200)), min_size=1, max_size=8)

few = settings(max_examples=40)


def space(number, width=1):
    return matrix_domain(number, width), rows_metric()


def distances(end=MANY):
    """Zero, small numbers, and some that are larger than any table."""
    return st.lists(st.integers(0, end), min_size=1).map(lambda some: sorted({0, 1, *some}))


def check(part, at):
    """Zero at zero, and no coordinate falls from one distance to the next."""
    losses = [coordinates(part.map(d)) for d in at]
    assert set(losses[0]) == {0}
    for smaller, larger in pairwise(losses):
        assert all(one <= other for one, other in zip(smaller, larger, strict=True))


def coordinates(loss):
    return loss if isinstance(loss, tuple) else (loss,)


def priced(measurement, at, *, delta):
    """Gaussian privacy, as itself and as (epsilon, delta)."""
    check(measurement, at)
    check(gaussian_to_approximate(measurement, delta=delta), at)


@few
@given(rows, columns, distances())
def test_projection(number, width, at):
    check(make_projection(*space(number, width), directions=np.eye(width)), at)


@few
@given(rows, columns, st.data(), distances())
def test_leading_columns(number, width, data, at):
    kept = data.draw(st.integers(1, width))
    check(make_leading_columns(*space(number, width), columns=kept), at)


@few
@given(rows, st.lists(st.floats(1e-300, 1e300), min_size=1, max_size=6), distances())
def test_scaled_columns(number, scales, at):
    check(make_scaled_columns(*space(number, len(scales)), scales=scales), at)


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
@given(rows, st.lists(st.tuples(numbers, numbers), min_size=1, max_size=6), distances())
def test_clamped_sum(number, pairs_of_bounds, at):
    lower, upper = np.sort(np.array(pairs_of_bounds), axis=1).T
    check(make_clamped_sum(*space(number, len(lower)), lower=lower, upper=upper), at)


@few
@given(
    rows,
    st.lists(st.tuples(numbers, numbers), min_size=1, max_size=6),
    exponents,
    distances(),
)
def test_allocated_sum(number, pairs_of_bounds, exponent, at):
    lower, upper = np.sort(np.array(pairs_of_bounds), axis=1).T
    units = allocated_units(upper - lower, exponent)
    total = make_clamped_sum(*space(number, len(lower)), lower=lower, upper=upper, units=units)
    check(total, at)
    full = make_clamped_sum(*space(number, len(lower)), lower=lower, upper=upper)
    assert all(total.map(d) <= full.map(d) for d in at)
    assert total.map(1) >= FULL_UNITS or not (upper > lower).any()


@few
@given(widths, exponents)
def test_units_follow_widths(some, exponent):
    units = allocated_units(some, exponent)
    for width, unit in zip(some, units, strict=True):
        assert (unit == 0) == (width == 0)
        assert not unit or LEAST_UNITS <= unit <= FULL_UNITS
    assert max(units) == (FULL_UNITS if max(some) else 0)
    in_order = units[np.argsort(some, kind="stable")]
    assert (np.diff(in_order) >= 0).all()


@few
@given(rows, degrees, distances())
def test_pairs_changed_is_the_map_of_the_pairs(number, degree, at):
    pairs = make_half_squared_differences(*space(number), pairing=draw_pairing(number, degree))
    assert [pairs.map(d) for d in at] == [pairs_changed(number, degree, d) for d in at]


@few
@given(rows, st.integers(1, 4), distances())
def test_dyadic_counts(number, blocks, at):
    check(make_dyadic_counts(*space(number), column=0, blocks=blocks, lowest=-5, highest=5), at)


@few
@given(rows, columns, degrees, distances())
def test_kendall_matrix(number, width, degree, at):
    check(make_kendall_matrix(*space(number, width), pairing=draw_pairing(number, degree)), at)


@pytest.mark.parametrize("make", [make_unbounded_quantile, make_signed_quantile])
@few
@given(rows, st.floats(0.001, 0.999), epsilons, epsilons, distances())
def test_quantiles(make, number, level, target, counts, at):
    search = make(
        *space(number),
        column=0,
        quantile=level,
        points=[1.0, 2.0],
        epsilon_target=target,
        epsilon_counts=counts,
    )
    check(search, at)


@few
@given(
    st.lists(
        st.tuples(st.fractions(0, 30), st.fractions(0, "0.1"), st.integers(1, 3)),
        min_size=1,
        max_size=5,
    ),
    units,
    st.data(),
)
def test_in_stages(given_losses, unit, data):
    stages = [
        Stage(
            name="some",
            budget=Budget.of(count * epsilon, count * delta),
            losses=(ApproximateLoss(epsilon=epsilon, delta=delta, count=count),),
        )
        for epsilon, delta, count in given_losses
    ]
    measurement = make_in_stages(*space(9), d_in=unit, stages=stages, run=lambda ask: None)
    check(measurement, data.draw(distances(unit)))
    whole = sum((stage.budget for stage in stages), start=Budget.of(0, 0))
    for stated, most in zip(measurement.map(unit), whole.coordinates, strict=True):
        assert most * (1 - Fraction(1, 10**11)) <= Fraction(stated) <= most


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
    gaussian = make_gaussian(integers_domain(width), integers_metric(), scale=scale)
    priced(gaussian, at, delta=delta)


def chain_of(width, unit, loss, parts):
    total = make_clamped_sum(*space(100, width), lower=0.0, upper=1.0)
    return make_gaussian_chain(
        *space(100, width),
        d_in=unit,
        loss=loss,
        links=[Link(Fraction(part, sum(parts)), width) for part in parts],
        least_sensitivity=total.map(unit),
        run=lambda ask: [ask(total) for _ in parts],
    )


parts_of_mu = st.lists(st.integers(1, 1000), min_size=1, max_size=6)


@few
@given(units, parts_of_mu, st.fractions("1/1000", 5), deltas, st.data())
def test_gaussian_chain(unit, parts, mu, delta, data):
    measurement = chain_of(1, unit, GaussianLoss(mu=mu, leak="1e-9"), parts)
    priced(measurement, data.draw(distances(unit)), delta=delta)


@few
@given(rows, columns, shares, units, distances(100))
def test_gaussian_mean(number, width, share, unit, at):
    mean = make_gaussian_mean(*space(number, width), lower=0.0, upper=1.0, share=share, d_in=unit)
    priced(mean, at, delta=stage_loss(share)[1])


def powers(low, high):
    """Amounts whose size is anything between two powers of ten, all sizes alike."""
    mantissas = st.fractions(1, 10, max_denominator=997)
    return st.builds(lambda m, e: m * Fraction(10) ** e, mantissas, st.integers(low, high))


# A large epsilon with a delta far smaller is more than integers this coarse can keep: test_noise.
wide_shares = st.one_of(
    st.builds(Budget.of, powers(-6, 0), powers(-13, -2)),
    st.builds(Budget.of, powers(-60, -12), powers(-10, -2)),  # epsilon far below delta
    st.builds(Budget.of, powers(-2, -1), powers(-15, -13)),  # delta far below epsilon
)
many = settings(max_examples=100)


def keeps(measurement, d_in, share, loss=None):
    """The map at the unit is at most the lowered share, and that below the share, exactly.

    Of a Gaussian stage: the map is at most the loss that is planned, and its price is that.
    """
    if loss is not None:
        mu, leak = measurement.map(d_in)
        assert 0 <= mu <= loss.mu
        assert 0 <= leak <= loss.leak
        measurement = gaussian_to_approximate(measurement, delta=stage_loss(share)[1])
    epsilon, delta = map(Fraction, measurement.map(d_in))
    most_epsilon, most_delta = map(Fraction, stage_loss(share))
    assert 0 <= epsilon <= most_epsilon < share.epsilon
    assert 0 <= delta <= most_delta < share.delta


@many
@given(st.integers(1, 5000), widths, wide_shares, units, exponents)
def test_gaussian_mean_keeps_its_share_whatever_the_ranges_are(
    number, ranges, share, unit, exponent
):
    upper = np.array(ranges)
    mean = make_gaussian_mean(
        *space(number, len(upper)),
        lower=0.0,
        upper=upper,
        share=share,
        d_in=unit,
        exponent=exponent,
    )
    keeps(mean, unit, share, mean_stage(share, columns=len(upper), d_in=unit).loss)
    assert bool(upper.any()) == (mean.map(unit) != (0, 0))


@many
@given(st.integers(1, 8), wide_shares, units, parts_of_mu)
def test_gaussian_chain_keeps_its_share(width, share, unit, parts):
    total = make_clamped_sum(*space(100, width), lower=0.0, upper=1.0)
    links = [Link(Fraction(part, sum(parts)), width) for part in parts]
    loss = chain_loss(share, links, least_sensitivity=total.map(unit))
    keeps(chain_of(width, unit, loss, parts), unit, share, loss)


@few
@given(rows, columns, degrees, wide_shares, units)
def test_directions_keep_their_share(number, width, degree, share, unit):
    measurement = make_directions(
        *space(number, width),
        components=1,
        pairing=draw_pairing(number, degree),
        share=share,
        d_in=unit,
    )
    keeps(measurement, unit, share)


@few
@given(rows, columns, degrees, shares, units, st.data())
def test_directions(number, width, degree, share, unit, data):
    measurement = make_directions(
        *space(number, width),
        components=1,
        pairing=draw_pairing(number, degree),
        share=share,
        d_in=unit,
    )
    check(measurement, data.draw(distances(unit)))


@few
@given(rows, columns, shares, units, st.data())
def test_clipped_mean(number, width, share, unit, data):
    measurement = make_clipped_mean(
        *space(number, width), method=METHODS[0], share=share, rows_per_person=unit
    )
    check(measurement, data.draw(distances(unit)))


@few
@given(rows, columns, st.sampled_from(METHODS[1:3]), shares, units, st.data())
def test_pmwm(number, width, method, share, unit, data):
    measurement = make_pmwm(*space(number, width), method=method, share=share, rows_per_person=unit)
    check(measurement, data.draw(distances(unit)))


@few
@given(rows, columns, shares, units, st.data())
def test_huber(number, width, share, unit, data):
    measurement = make_huber(
        *space(number, width), method=METHODS[3], share=share, rows_per_person=unit
    )
    check(measurement, data.draw(distances(unit)))


@few
@given(rows, columns, st.sampled_from(METHODS), shares, units, st.data())
def test_scree(number, width, method, share, unit, data):
    measurement = make_scree(
        *space(number, width),
        method=method,
        directions=np.eye(width),
        share=share,
        rows_per_person=unit,
    )
    check(measurement, data.draw(distances(unit)))


@few
@given(rows, columns, methods, shares, units, st.data())
def test_rings_and_allocations(number, width, method, share, unit, data):
    """Any pairs and noise cost the share: at most, exactly, and nearly all of it."""
    measurement = method.make(*space(number, width), share=share, rows_per_person=unit)
    check(measurement, data.draw(distances(unit)))
    for stated, most in zip(measurement.map(unit), share.coordinates, strict=True):
        assert most * Fraction("0.999999") <= Fraction(stated) <= most
    lines = method.stages(share, Size(number, width, unit))
    equal = method.model_copy(update={"degree": 1, "noise_allocation": "equal"})
    disjoint = equal.stages(share, Size(number, width, unit))
    assert [line.stage for line in disjoint] == [line.stage for line in lines]
