"""The unbounded quantile: its exact law, and its loss over every small data set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from functools import cache, partial
from itertools import product
from math import exp, floor, log

import numpy as np
import pytest

from dppca_odp.primitives.quantiles import LEAST_RATE, counts_below, make_unbounded_quantile
from dppca_odp.spaces import matrix_domain, rows_metric

from .exact_laws import (
    FLOATS,
    NEVER,
    Law,
    Result,
    deviations_off,
    fold,
    ideal_thresholds,
    neighbouring_results,
    p_value,
    results_of,
    search_law,
    worst_loss,
)

# values, quantile, grid, rates on target and counts, and the law as checked elsewhere:
# the grid points in order, then the mass that reaches no point.
CHECKED = [
    (
        (0.2, 0.4, 1.5, 3.0, 7.0),
        (0.5, (1.0, 2.0, 4.0, 8.0), 1.0, 1.0),
        (0.26894142137, 0.486330107575, 0.157584152313, 0.0554593979459, 0.0316849207961),
    ),
    (
        (0.0, 0.0, 0.0, 5.0),
        (0.9, (1.0, 3.0, 6.0, 9.0), 0.5, 0.25),
        (0.58077104839, 0.203230379592, 0.110663040545, 0.0399743001533, 0.0653612313188),
    ),
    (
        (2.5, 2.5, 2.5, 2.5, 2.5, 2.5),
        (0.25, (1.0, 2.0, 3.0), 0.2, 0.7),
        (0.0753255149162, 0.0615140299323, 0.552136570177, 0.311023884975),
    ),
]
NAMES = ["median", "high", "low"]

POINTS = (1.0, 2.0, 4.0)
#: Below the grid, on a point (not below it), on another, between, above, and not a number.
ALPHABET = (0.5, 1.0, 2.0, 3.0, 9.0, np.nan)
#: Thirty points under any value but the first, then one above the second.
LONG_GRID = (*np.linspace(0, 1, 30), 3.0)
LONG_ALPHABET = (-1.0, 2.0, np.nan)
#: On the target and on the counts.
RATES = [(1.0, 1.0), (0.5, 0.25), (0.5, 1.5)]


def quantile_measurement(quantile, points, epsilon_target, epsilon_counts, *, values=1):
    return make_unbounded_quantile(
        matrix_domain(values, 1),
        rows_metric(),
        column=0,
        quantile=quantile,
        points=points,
        epsilon_target=epsilon_target,
        epsilon_counts=epsilon_counts,
    )


def column(values) -> np.ndarray:
    return np.array(values, dtype=float).reshape(-1, 1)


def counts(points, values) -> tuple[int, ...]:
    return tuple(counts_below(np.array(values), np.array(points)))


def law_of(rates, thresholds) -> Callable[[Result], Law]:
    return lambda result: search_law(result, thresholds, *rates)


# The law is the implementation's.


def measured_thresholds(script, quantile: float, values: int, noises) -> list[int]:
    """The largest noisy count that does not stop, for each Laplace noise on the target.

    No value is below any of the grid points 0, 1, ... and the noise on the count of point i is i:
    the search stops at the first integer above its threshold.
    """
    measurement = quantile_measurement(quantile, np.arange(values + 200), 1.0, 0.5, values=values)
    table = column([np.nan] * values)
    thresholds = []
    for noise in noises:
        script[1.0], script[2.0] = iter([noise]), iter(range(values + 200))
        thresholds.append(int(measurement(table).value) - 1)
    return thresholds


def test_folded_integer_laplace_is_exactly_geometric(script):
    most, ratio = 20, Fraction(1, 3)
    noises = range(-most, most)
    geometric = Counter()
    for drawn, folded in zip(noises, measured_thresholds(script, 0.5, 1, noises), strict=True):
        geometric[folded] += (1 - ratio) / (1 + ratio) * ratio ** abs(drawn)
    assert {g: (1 - ratio) * ratio**g for g in range(most)} == geometric


@pytest.mark.parametrize(("values", "arguments", "_"), CHECKED, ids=NAMES)
def test_search_stops_where_the_law_says_for_every_noise(script, values, arguments, _):
    quantile, points, *_ = arguments
    measurement = quantile_measurement(quantile, points, 1.0, 0.5, values=len(values))
    below = counts(points, values)
    for target, *noise in product(range(-3, 4, 2), *[range(-4, 5, 2)] * len(points)):
        script[1.0], script[2.0] = iter([target]), iter(noise)
        threshold = quantile * len(values) + fold(target)
        stops = [c + fold(g) > threshold for c, g in zip(below, noise, strict=True)]
        expected = (points[stops.index(True)], False) if any(stops) else (points[-1], True)
        assert expected == measurement(column(values))


@pytest.mark.parametrize(
    ("quantile", "values"),
    [
        *product((0.1, 0.3, 0.5, 0.9), range(1, 6)),
        pytest.param(1 - 0.8, 5, id="0.2 of 5, a float below"),
        pytest.param(1 / 49, 49, id="first of 49"),
        pytest.param(1 - 10 / 24, 24, id="PMWM's upper cutoff with 24 pairs"),
        pytest.param(10 / 77, 77, id="PMWM's lower cutoff with 77 pairs"),
    ],
)
def test_threshold_rises_by_one_with_its_noise(script, quantile, values):
    expected = list(ideal_thresholds(quantile, values))
    assert expected == measured_thresholds(script, quantile, values, range(len(expected)))


@pytest.mark.parametrize(("values", "arguments", "law"), CHECKED, ids=NAMES)
def test_law_has_the_checked_values(values, arguments, law):
    quantile, points, *rates = arguments
    thresholds = ideal_thresholds(quantile, len(values), noises=250)
    assert law == pytest.approx(
        search_law(counts(points, values), thresholds, *rates), abs=1e-6, rel=0
    )


@pytest.mark.parametrize(("values", "arguments", "_"), CHECKED, ids=NAMES)
def test_measurement_draws_from_the_law_and_from_no_other(values, arguments, _):
    quantile, points, target, count = arguments
    measurement = quantile_measurement(*arguments, values=len(values))
    table = column(values)
    draws = 7_000 if quantile == 0.9 else 5_000  # its law says least about the target
    answers = [measurement(table) for _ in range(draws)]
    drawn = [len(points) if a.capped else points.index(a.value) for a in answers]
    law = partial(
        search_law, counts(points, values), ideal_thresholds(quantile, len(values), noises=250)
    )
    true = law(target, count)
    assert p_value(drawn, true) > NEVER
    for factor in (0.7, 1.3):
        for wrong in (law(factor * target, count), law(target, factor * count)):
            assert deviations_off(drawn, wrong, true) > 6  # a p of 1e-9; less, once in 10^9


# The loss.


@cache
def count_pairs(points, alphabet, values: int, changed: int) -> set[tuple[Result, Result]]:
    results = results_of(partial(counts, points), alphabet, values)
    return neighbouring_results(results, len(alphabet), changed)


def rising(pairs):
    return [(low, high) for low, high in pairs if np.less_equal(low, high).all()]


def small_universe(changed: int):
    """Every data set of up to five values (four when two change); targets at either end."""
    for values, quantile in product(range(1, 7 - changed), (0.1, 0.5, 0.9)):
        yield ideal_thresholds(quantile, values), count_pairs(POINTS, ALPHABET, values, changed)


def long_universe(changed: int):
    for values, quantile in product(range(2, 5), (0.3, 0.5)):
        pairs = count_pairs(LONG_GRID, LONG_ALPHABET, values, changed)
        yield ideal_thresholds(quantile, values), pairs


def universe_loss(universe, rates, *, select=lambda pairs: pairs) -> float:
    return max(worst_loss(select(pairs), law_of(rates, t)) for t, pairs in universe)


def test_values_on_a_point_or_missing_are_not_below_it():
    expected = (1, 2, 4)
    assert expected == counts(POINTS, ALPHABET)


def test_one_change_moves_all_counts_one_way_by_at_most_one():
    for low, high in count_pairs(POINTS, ALPHABET, 5, 1):
        steps = np.subtract(high, low)
        assert set(steps) <= {0, 1} or set(steps) <= {0, -1}


@pytest.mark.parametrize("rates", RATES)
def test_one_change_costs_the_map_when_counts_rise(rates):
    actual = universe_loss(small_universe(1), rates, select=rising)
    assert quantile_measurement(0.5, POINTS, *rates).map(1) == pytest.approx(actual, rel=FLOATS)
    assert sum(rates) == pytest.approx(actual, rel=FLOATS)


@pytest.mark.parametrize("rates", RATES)
def test_one_change_costs_the_rate_of_the_counts_when_they_fall(rates):
    def falling(pairs):
        return [(high, low) for low, high in rising(pairs)]

    assert rates[1] == pytest.approx(
        universe_loss(small_universe(1), rates, select=falling), rel=FLOATS
    )


@pytest.mark.parametrize("rates", RATES)
def test_one_change_costs_more_than_the_map_with_a_rate_doubled(rates):
    target, count = rates
    claimed = quantile_measurement(0.5, POINTS, *rates).map(1)
    assert universe_loss(small_universe(1), (2 * target, count)) > claimed * (1 + FLOATS)
    assert universe_loss(small_universe(1), (target, 2 * count)) > claimed * (1 + FLOATS)


def float_thresholds(quantile: float, values: int, noises: int = 90) -> tuple[int, ...]:
    """c + G_i > q m + g, when q m + g is rounded to a float."""
    return tuple(floor(quantile * values + noise) for noise in range(noises))


def test_one_change_would_cost_more_than_the_map_with_thresholds_in_floating_point():
    """A little below 1, plus 8, is 9: the threshold rises by 2 where its noise rises by 1."""
    thresholds = float_thresholds(1 - 0.8, 5)
    assert {1, 2} == set(np.diff(thresholds))
    for rates in [(1.0, 1.0), (0.5, 1.5), (0.25, 1.0)]:
        actual = worst_loss(count_pairs(POINTS, ALPHABET, 5, 1), law_of(rates, thresholds))
        claimed = quantile_measurement(1 - 0.8, POINTS, *rates, values=5).map(1)
        assert actual > claimed + 0.5 * rates[1]


@pytest.mark.parametrize("quantile", [0.3, 0.7, 1 - 0.8])
def test_one_change_costs_at_most_the_map_at_the_measured_thresholds(script, quantile):
    thresholds = tuple(measured_thresholds(script, quantile, 5, range(90)))
    actual = worst_loss(count_pairs(POINTS, ALPHABET, 5, 1), law_of((1.0, 1.0), thresholds))
    assert actual <= quantile_measurement(quantile, POINTS, 1.0, 1.0, values=5).map(1) + FLOATS


def test_two_changes_move_counts_both_ways():
    assert any(
        set(np.sign(np.subtract(high, low))) >= {-1, 1}
        for low, high in count_pairs(POINTS, ALPHABET, 2, 2)
    )


@pytest.mark.parametrize("rates", RATES)
def test_two_changes_cost_at_most_the_map(rates):
    claimed = quantile_measurement(0.5, POINTS, *rates, values=2).map(2)
    assert universe_loss(small_universe(2), rates) <= claimed * (1 + FLOATS)


@pytest.mark.parametrize("rates", RATES)
def test_two_changes_on_a_long_grid_need_the_group_bound(rates):
    measurement = quantile_measurement(0.5, LONG_GRID, *rates, values=2)
    actual = universe_loss(long_universe(2), rates)
    assert 0.98 * measurement.map(2) < actual <= measurement.map(2) * (1 + FLOATS)
    assert actual > 1.9 * measurement.map(1)


# OpenDP's draws saturate at 2^63, and counts are added to them after that.


def saturated_law(counts: Result, target: int, rates, most: int) -> Law:
    """The law of a search whose draws are at most ``most``."""
    target_rate, count_rate = rates
    law = [0.0] * (len(counts) + 1)
    for noise in range(most + 1):
        here = -np.expm1(-target_rate) if noise < most else 1.0
        going_on = here * exp(-target_rate * noise)
        for point, count in enumerate(counts):
            needed = max(0, target + noise + 1 - count)
            stops = exp(-count_rate * needed) if needed <= most else 0.0
            law[point] += going_on * stops
            going_on *= 1 - stops
        law[-1] += going_on
    return tuple(law)


@pytest.mark.parametrize("rates", [(0.5, 0.5), (0.125, 0.125), (1.0, 0.25), (0.25, 1.0)])
@pytest.mark.parametrize("target", [0, 1, 2])
def test_draws_that_saturate_change_the_law_by_about_their_probability(rates, target):
    """At rate 2^-40 a draw saturates with probability e^(-2^23), and all of it is beyond floats."""
    ideal = tuple(range(target, target + round(40 / rates[0])))
    results = {result for result, _ in count_pairs(POINTS, ALPHABET, 3, 1)}
    for saturated in (2, 5, 8, 11):
        most = round(saturated / min(rates))
        changed = max(
            abs(log(p / q))
            for result in results
            for p, q in zip(
                saturated_law(result, target, rates, most),
                search_law(result, ideal, *rates),
                strict=True,
            )
        )
        assert changed < 5 * exp(-saturated)


def test_draws_that_often_saturate_cost_more_than_the_map():
    rates = (0.125, 0.125)
    law = cache(partial(saturated_law, target=1, rates=rates, most=16))
    assert worst_loss(count_pairs(POINTS, ALPHABET, 3, 1), law) > 1.1 * sum(rates)


def test_rates_leave_room_for_a_draw_in_64_bits():
    least = 2.0**-40
    assert least == LEAST_RATE
    assert log(2) * 2**23 < least * 2**63  # a draw saturates with probability below 2^(-2^23)
    for rates in [(least, 1.0), (1.0, least)]:
        expected = pytest.approx(sum(rates), rel=1e-15)
        assert expected == quantile_measurement(0.5, POINTS, *rates).map(1)


@pytest.mark.parametrize("rate", [np.nextafter(2.0**-40, 0), 1e-15, 5e-324, 0.0, -1.0, np.nan])
def test_smaller_rates_are_refused(rate):
    for rates in [(rate, 1.0), (1.0, rate)]:
        with pytest.raises(ValueError, match=r"at least 2\^-40"):
            quantile_measurement(0.5, POINTS, *rates)
