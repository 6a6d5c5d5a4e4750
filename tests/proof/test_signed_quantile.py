"""The signed quantile: two searches whose counts move opposite ways, and how they become one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from itertools import product
from math import floor, log

import numpy as np
import pytest

from dppca_odp.primitives.quantiles import (
    Quantile,
    counts_below,
    make_signed_quantile,
    signed_answer,
)
from dppca_odp.spaces import matrix_domain, rows_metric
from dppca_odp.values import clamp

from .exact_laws import (
    FLOATS,
    NEVER,
    Law,
    Result,
    fold,
    ideal_thresholds,
    neighbouring_results,
    p_value,
    results_of,
    search_law,
)

POINTS = (1.0, 2.0, 4.0)
#: Below the negative grid, on it, between, at 0, on the positive grid, above it.
NUMBERS = (-9.0, -2.0, -1.5, 0.0, 1.0, 3.0)
#: The same data sets with values that are not numbers.
ALPHABET = (-9.0, -2.0, 0.0, 3.0, np.nan)
#: On the target and on the counts.
RATES = [(1.0, 1.0), (0.5, 0.25), (0.5, 1.5)]
LEVELS = (0.1, 0.5, 0.9)
MOST_VALUES = 4
#: For each search: stopped at its first point, moved, or ran off the grid.
STOPS = (0, 1, 2, None)

Laws = tuple[Law, Law]
Pair = tuple[Result, Result]


def signed_measurement(quantile, epsilon_target, epsilon_counts, *, values=1, points=POINTS):
    return make_signed_quantile(
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


def both_counts(values) -> Result:
    """The counts of the first search, then those of the second."""
    signed = clamp(values)
    return (*counts_below(signed, np.array(POINTS)), *counts_below(-signed, np.array(POINTS)))


def both_laws(counts: Result, quantile: float, values: int, rates) -> Laws:
    """Where each search stops; their noises are independent."""
    up, down = counts[: len(POINTS)], counts[len(POINTS) :]
    return (
        search_law(up, ideal_thresholds(quantile, values, 200), *rates),
        search_law(down, ideal_thresholds(1 - quantile, values, 200), *rates),
    )


def law_of_answers(laws: Laws) -> dict[Quantile, float]:
    """The law of what leaves, from that of the two searches."""
    answers: dict[Quantile, float] = defaultdict(float)
    for (up, p), (down, q) in product(*(zip(STOPS, law, strict=True) for law in laws)):
        answers[signed_answer(up, down, np.array(POINTS))] += p * q
    return answers


# The selection rules.


def chosen(up: int | None, down: int | None) -> tuple[float, bool]:
    """The four rules in words: a search that ran off is left out, and flagged."""
    capped = up is None or down is None
    up_moved, down_moved = up in (1, 2), down in (1, 2)
    if up_moved and down_moved:
        return (POINTS[up] - POINTS[down]) / 2, capped
    if up_moved:
        return POINTS[up], capped
    if down_moved:
        return -POINTS[down], capped
    return 0.0, capped


@pytest.mark.parametrize(("up", "down"), list(product(STOPS, repeat=2)))
def test_each_pair_of_stops_has_its_answer(up, down):
    assert chosen(up, down) == signed_answer(up, down, np.array(POINTS))


def test_neither_side_is_favoured():
    points = np.array(POINTS)
    for up, down in product(STOPS, repeat=2):
        value, capped = signed_answer(up, down, points)
        assert (-value, capped) == signed_answer(down, up, points)


# The law is the implementation's.


@pytest.mark.parametrize(
    ("values", "quantile"),
    [
        ((-3.0, 0.0, 1.5, 9.0), 0.5),
        ((-9.0, -2.0, -1.0), 0.1),
        ((-1.5, 2.0, 5.0, 5.0, 7.0), 1 - 0.2),
    ],
)
def test_both_searches_stop_where_the_law_says_for_every_noise(script, values, quantile):
    measurement = signed_measurement(quantile, 1.0, 0.5, values=len(values))
    counts = both_counts(values)
    sides = (counts[: len(POINTS)], quantile), (counts[len(POINTS) :], 1 - quantile)
    table = column(values)
    for *targets, one, other in product(range(-4, 4, 3), range(-4, 4, 3), (-6, -2, 0, 3), (0, 4)):
        noises = [[one, other, one], [other, one, -1]]
        script[1.0], script[2.0] = iter(targets), iter(noises[0] + noises[1])
        stops = []
        for (below, level), target, noise in zip(sides, targets, noises, strict=True):
            threshold = floor(Fraction(level) * len(values)) + fold(target)
            passed = [c + fold(g) > threshold for c, g in zip(below, noise, strict=True)]
            stops.append(passed.index(True) if any(passed) else None)
        assert chosen(*stops) == measurement(table)


def test_measurement_draws_from_the_law_and_from_no_other():
    values, quantile, rates = (-3.0, -1.5, 0.0, 3.0, 3.0), 0.5, (1.0, 0.5)
    measurement = signed_measurement(quantile, *rates, values=len(values))

    def law(target: float, count: float) -> dict[Quantile, float]:
        return law_of_answers(
            both_laws(both_counts(values), quantile, len(values), (target, count))
        )

    answers = list(law(*rates))
    table = column(values)
    drawn = [answers.index(measurement(table)) for _ in range(3_000)]

    def fit(target: float, count: float) -> float:
        return p_value(drawn, tuple(law(target, count).values()))

    assert fit(1.0, 0.5) > NEVER
    assert fit(1.0, 0.5 * 0.5) < NEVER
    assert fit(1.0, 2 * 0.5) < NEVER
    assert fit(0.5, 0.5) < NEVER
    assert fit(2.0, 0.5) < NEVER


# The loss.


@cache
def count_pairs(alphabet, values: int, changed: int) -> set[Pair]:
    results = results_of(both_counts, alphabet, values)
    return neighbouring_results(results, len(alphabet), changed)


def universe(alphabet, changed: int) -> Iterator[tuple[float, int, set[Pair]]]:
    """Every data set of up to four values (three when two change); targets at either end."""
    for values, quantile in product(range(changed, MOST_VALUES + 2 - changed), LEVELS):
        yield quantile, values, count_pairs(alphabet, values, changed)


def worst(laws: Callable, pairs, loss: Callable[[Laws, Laws], float]) -> float:
    return max((loss(laws(one), laws(other)) for one, other in pairs), default=0.0)


def loss_of_stops(one: Laws, other: Laws) -> float:
    """The largest log-ratio of both stops together: independent, so each has its worst."""
    return sum(
        max(log(p / q) for p, q in zip(law, its, strict=True))
        for law, its in zip(one, other, strict=True)
    )


def loss_of_answer(one: Laws, other: Laws) -> float:
    here, there = law_of_answers(one), law_of_answers(other)
    return max(log(p / there[answer]) for answer, p in here.items())


def universe_loss(alphabet, rates, changed: int = 1, loss=loss_of_stops) -> float:
    return max(
        worst(cache(lambda c, q=q, m=m: both_laws(c, q, m, rates)), pairs, loss)
        for q, m, pairs in universe(alphabet, changed)
    )


def claimed(rates, changed: int = 1, values: int = 2) -> float:
    return signed_measurement(0.5, *rates, values=values).map(changed)


def test_one_changed_number_moves_the_two_counts_opposite_ways():
    for one, other in count_pairs(NUMBERS, 3, 1):
        steps = np.subtract(other, one)
        up, down = set(steps[: len(POINTS)]) - {0}, set(steps[len(POINTS) :]) - {0}
        assert (up, down) in [(a, b) for a in ({1}, set()) for b in ({-1}, set())] + [
            (a, b) for a in ({-1}, set()) for b in ({1}, set())
        ]


@pytest.mark.parametrize("rates", RATES)
def test_one_changed_number_costs_exactly_the_map(rates):
    target, count = rates
    actual = universe_loss(NUMBERS, rates)
    assert target + 2 * count == pytest.approx(actual, rel=FLOATS)
    assert claimed(rates) == pytest.approx(actual, rel=FLOATS)


@pytest.mark.parametrize("rates", RATES)
def test_the_answer_of_one_changed_number_costs_nearly_the_map(rates):
    actual = universe_loss(NUMBERS, rates, loss=loss_of_answer)
    assert 0.97 * claimed(rates) < actual <= claimed(rates) * (1 + FLOATS)


@pytest.mark.parametrize("loss", [loss_of_stops, loss_of_answer])
@pytest.mark.parametrize("rates", [*RATES, (3.0, 1.0)])
def test_one_change_of_any_kind_costs_at_most_the_map(rates, loss):
    """Missing values included: with one, the counts of both searches could move the same way."""
    assert universe_loss(ALPHABET, rates, loss=loss) <= claimed(rates) * (1 + FLOATS)


@pytest.mark.parametrize("rates", RATES)
def test_one_change_costs_more_than_a_single_search(rates):
    assert universe_loss(NUMBERS, rates) > sum(rates) * (1 + FLOATS)
    assert universe_loss(NUMBERS, rates, loss=loss_of_answer) > sum(rates) * (1 + FLOATS)


@pytest.mark.parametrize("rates", RATES)
def test_one_change_costs_more_than_the_map_with_a_rate_doubled(rates):
    target, count = rates
    assert universe_loss(NUMBERS, (2 * target, count)) > claimed(rates) * (1 + FLOATS)
    assert universe_loss(NUMBERS, (target, 2 * count)) > claimed(rates) * (1 + FLOATS)


@pytest.mark.parametrize("rates", RATES)
def test_two_changed_numbers_cost_at_most_the_map(rates):
    actual = universe_loss(NUMBERS, rates, changed=2)
    assert claimed(rates, 2) == pytest.approx(2 * (rates[0] + 2 * rates[1]), rel=FLOATS)
    assert claimed(rates) < actual <= claimed(rates, 2) * (1 + FLOATS)
