"""The dyadic scale: how far counts move, and the loss of OpenDP's noisy maximum on them."""

from __future__ import annotations

from functools import cache, partial
from itertools import product
from math import exp, inf, log2, nan

import numpy as np
import pytest

from dppca_odp.primitives.scales import make_dyadic_counts, make_dyadic_scale
from dppca_odp.spaces import matrix_domain, rows_metric

from .exact_laws import (
    FLOATS,
    NEVER,
    DataSet,
    Law,
    Result,
    largest_difference,
    neighbouring_results,
    p_value,
    permute_and_flip,
    results_of,
    worst_loss,
)

ALPHABET = (0.0, 3.0, nan, 1e308, 1.0, inf, 1e-300)
LOWEST = -2
#: Letters, pairs, blocks: blocks of one value and of more, values idle at the end or not.
UNIVERSES = [(7, 2, 1), (7, 3, 1), (5, 4, 2), (3, 5, 2), (3, 6, 1), (3, 6, 3), (2, 8, 2), (2, 9, 4)]
TWO_SCALES, FIVE_SCALES = -1, 2


def column(values) -> np.ndarray:
    return np.array(values)[:, np.newaxis]


def parameters(pairs: int, blocks: int, highest: int) -> dict:
    return {
        "input_domain": matrix_domain(pairs, 1),
        "input_metric": rows_metric(),
        "column": 0,
        "blocks": blocks,
        "lowest": LOWEST,
        "highest": highest,
    }


@cache
def counts_of(universe, highest: int) -> dict[DataSet, Result]:
    letters, pairs, blocks = universe
    counts = make_dyadic_counts(**parameters(pairs, blocks, highest))
    return results_of(lambda w: counts(column(w)), ALPHABET[:letters], pairs)


@cache
def count_pairs(universe, changed: int, highest: int = FIVE_SCALES) -> set[tuple[Result, Result]]:
    letters, *_ = universe
    return neighbouring_results(counts_of(universe, highest), letters, changed)


def counts_move(universe, changed: int) -> int:
    return max(largest_difference(*both) for both in count_pairs(universe, changed))


# Counts.


@pytest.mark.parametrize("universe", UNIVERSES)
def test_counts_move_as_far_as_the_map_and_no_farther(universe):
    _, pairs, blocks = universe
    counts = make_dyadic_counts(**parameters(pairs, blocks, FIVE_SCALES))
    moves = [0, counts_move(universe, 1), counts_move(universe, 2)]
    assert moves == [counts.map(changed) for changed in range(3)]
    halved = counts.map(1) / 2
    assert moves[1] > halved


@pytest.mark.parametrize("universe", UNIVERSES)
def test_one_change_moves_one_count_up_and_another_down(universe):
    _, _, blocks = universe
    pairs = count_pairs(universe, 1)
    moves = {tuple(sorted(step for step in np.subtract(*both) if step)) for both in pairs}
    assert {(), (-1, 1)} == moves
    assert {blocks} == {sum(counts) for counts, _ in pairs}


# The loss of the noisy maximum.

EPSILONS = [0.5, 1.0, 3.0]


def claimed(epsilon: float, changed: int) -> float:
    return make_dyadic_scale(**parameters(9, 4, TWO_SCALES), epsilon=epsilon).map(changed)


def noisy_max_loss(changed: int, highest: int, noise_scale: float) -> float:
    law = partial(permute_and_flip, scale=noise_scale)
    return max(worst_loss(count_pairs(u, changed, highest), law) for u in UNIVERSES)


def test_changes_cost_exactly_the_map_with_two_scales():
    for epsilon, changed in product(EPSILONS, (1, 2)):
        actual = noisy_max_loss(changed, TWO_SCALES, 2 / epsilon)
        assert claimed(epsilon, changed) == pytest.approx(actual, rel=FLOATS)
        assert changed * epsilon == pytest.approx(actual, rel=FLOATS)


def test_changes_cost_at_most_the_map_with_five_scales():
    for epsilon, changed in product(EPSILONS, (1, 2)):
        actual = noisy_max_loss(changed, FIVE_SCALES, 2 / epsilon)
        assert 0.6 * claimed(epsilon, changed) < actual <= claimed(epsilon, changed) * (1 + FLOATS)


def test_one_change_costs_twice_the_map_at_half_the_noise():
    """Noise of scale 1/epsilon, which covers one of the two counts that a change moves."""
    for epsilon in EPSILONS:
        actual = noisy_max_loss(1, TWO_SCALES, 1 / epsilon)
        assert 2 * claimed(epsilon, 1) == pytest.approx(actual, rel=FLOATS)


# The law is the implementation's.


def exponential_mechanism(scores: Result, scale: float) -> Law:
    weights = [exp(score / scale) for score in scores]
    return tuple(weight / sum(weights) for weight in weights)


def test_measurement_draws_from_the_law_and_from_no_other():
    table = column([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 2.0])
    place = parameters(10, 5, FIVE_SCALES)
    counts = (3, 1, 0, 1, 0)
    assert counts == tuple(make_dyadic_counts(**place)(table))
    measurement = make_dyadic_scale(**place, epsilon=2.0)
    drawn = [round(log2(measurement(table))) - LOWEST for _ in range(4_000)]
    assert p_value(drawn, permute_and_flip(counts, 1.0)) > NEVER
    assert p_value(drawn, permute_and_flip(counts, 0.7)) < NEVER
    assert p_value(drawn, permute_and_flip(counts, 1.3)) < NEVER
    assert p_value(drawn, exponential_mechanism(counts, 1.0)) < NEVER
