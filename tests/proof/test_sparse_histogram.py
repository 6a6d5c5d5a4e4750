"""The sparse histogram: its exact (epsilon, delta) on small maps, whose cells appear and vanish.

A cell of count a > 0 leaves as v >= t with probability P(a + Z = v), Z an integer Laplace, and
stays away otherwise; an empty cell stays away. Cells are independent, so the law of the privacy
loss of a map is the convolution of those of the cells that changed. Fifty digits are kept.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import cache
from itertools import combinations_with_replacement, pairwise, product
from math import nan

import numpy as np
import opendp.prelude as dp
import pytest
from mpmath import mp, mpf
from opendp.mod import OpenDPException

from accountant.specs import Budget
from dppca_odp.primitives.noise import stage_loss
from dppca_odp.scores.cells import Cells
from dppca_odp.scores.frames import Frame
from dppca_odp.scores.sparse import (
    _cell_map_domain,
    _cell_map_metric,
    make_cell_map,
    make_grouped_sparse_histogram,
    make_threshold_noise,
    sparse_stage,
)
from dppca_odp.spaces import matrix_domain, rows_metric

from .exact_laws import NEVER, data_sets, neighbours, p_value

mp.dps = 50

#: A cell's counts before and after a change.
Change = tuple[int, int]
#: Probability by privacy loss; an output that one side cannot give has infinite loss.
Losses = dict[mpf, mpf]

EPSILONS = ["0.5", "2", "4"]
DELTAS = ["1e-3", "1e-6", "1e-10"]
CELLS = 4
OUTSIDE = CELLS
ROWS = 3
SQUARE = Frame(x_low=0, x_high=1, y_low=0, y_high=1)


# The law of the privacy loss.


@cache
def at_least(steps: int, scale: float) -> mpf:
    """P(Z >= steps) for P(Z = z) proportional to r^|z|, r = exp(-1/scale)."""
    ratio = mp.exp(-1 / mpf(scale))
    if steps >= 1:
        return ratio**steps / (1 + ratio)
    return 1 - ratio ** (1 - steps) / (1 + ratio)


def mass(value: int, scale: float) -> mpf:
    return at_least(value, scale) - at_least(value + 1, scale)


def released(count: int, scale: float, threshold: int) -> mpf:
    return at_least(threshold - count, scale) if count else mpf(0)


@cache
def losses_of_cell(change: Change, scale: float, threshold: int) -> Losses:
    before, after = change
    law: Losses = defaultdict(mpf)
    stays_before = 1 - released(before, scale, threshold)
    stays_after = 1 - released(after, scale, threshold)
    law[mp.log(stays_before / stays_after)] += stays_before
    if not before:
        return law
    if not after:
        law[mpf("inf")] += released(before, scale, threshold)
        return law
    last = max(before, after, threshold)  # from there on the loss stays the same
    for value in range(threshold, last):
        loss = (abs(value - after) - abs(value - before)) / mpf(scale)
        law[loss] += mass(value - before, scale)
    law[(before - after) / mpf(scale)] += at_least(last - before, scale)
    return law


@cache
def losses_of(changes: tuple[Change, ...], scale: float, threshold: int) -> Losses:
    law: Losses = {mpf(0): mpf(1)}
    for change in changes:
        joined: Losses = defaultdict(mpf)
        for (a, p), (b, q) in product(
            law.items(), losses_of_cell(change, scale, threshold).items()
        ):
            joined[a + b] += p * q
        law = joined
    return law


def exact_delta(changes, epsilon: float, scale: float, threshold: int) -> mpf:
    """The hockey-stick divergence at epsilon of the map before from the map after."""
    return mp.fsum(
        p * (1 - mp.exp(mpf(epsilon) - loss))
        for loss, p in losses_of(changes, scale, threshold).items()
        if loss > epsilon
    )


# Maps and their neighbours.


def change_between(one: Counter, other: Counter) -> tuple[Change, ...]:
    cells = sorted((one[cell], other[cell]) for cell in range(CELLS) if one[cell] != other[cell])
    return tuple(cells)


@cache
def changes_of_maps(changed: int, threshold: int) -> set[tuple[Change, ...]]:
    """What ``changed`` rows do to maps of three rows, or of more rows around the threshold.

    Every cell starts empty, or with so many rows that its count is near the threshold.
    """
    changes = set()
    for starts in combinations_with_replacement((0, threshold - 2, threshold), CELLS // 2):
        start = Counter(dict(enumerate(starts)))
        for rows in data_sets(CELLS + 1, ROWS):
            for others in neighbours(rows, CELLS + 1, changed):
                changes.add(change_between(start + Counter(rows), start + Counter(others)))
    return changes


@cache
def stage_of(epsilon: str, delta: str, d_in: int):
    return sparse_stage(Budget.of(epsilon, delta), d_in=d_in)


@cache
def map_at(scale: float, threshold: int, d_in: int) -> tuple[float, float]:
    noise = make_threshold_noise(
        _cell_map_domain(), _cell_map_metric(), scale=scale, threshold=threshold
    )
    return noise.map((2 * d_in, 2 * d_in, d_in))


def unadjusted_map(scale: float, threshold: int, d_in: int) -> tuple[float, float]:
    """What OpenDP itself claims for the threshold that it runs with."""
    noise = dp.m.make_laplace_threshold(_cell_map_domain(), _cell_map_metric(), scale, threshold)
    return noise.map((2 * d_in, 2 * d_in, d_in))


def worst_delta(changed: int, epsilon: float, scale: float, threshold: int) -> mpf:
    return max(
        exact_delta(changes, epsilon, scale, threshold)
        for changes in changes_of_maps(changed, threshold)
    )


def test_changes_hold_cells_that_appear_vanish_and_cross_the_threshold_both_ways():
    changes = changes_of_maps(1, 9)
    for expected in [
        ((0, 1),),
        ((1, 0),),
        ((0, 1), (1, 0)),
        ((0, 1), (2, 1)),
        ((1, 0), (1, 2)),
        ((8, 9), (9, 8)),
    ]:
        assert expected in changes
    assert {tuple(sorted((b, a) for a, b in change)) for change in changes} == changes
    assert ((0, 1), (0, 1), (1, 0), (1, 0)) in changes_of_maps(2, 9)


def test_losses_are_a_law():
    for changes in changes_of_maps(2, 5):
        assert mp.fsum(losses_of(changes, 1.5, 5).values()) == pytest.approx(1, abs=1e-40)


@pytest.mark.parametrize("changes", [((1, 0), (0, 1)), ((4, 5), (6, 5)), ((3, 2), (0, 1), (1, 0))])
def test_convolution_is_the_divergence_summed_over_all_outputs(changes):
    scale, threshold, epsilon = 0.8, 4, 0.7
    outputs = [None, *range(threshold, threshold + 40)]

    def law(count: int) -> list[mpf]:
        stays = 1 - released(count, scale, threshold)
        return [stays] + [mass(v - count, scale) if count else mpf(0) for v in outputs[1:]]

    joint = []
    for side in zip(*changes, strict=True):
        product_law = np.ones(1)
        for count in side:
            product_law = np.outer(product_law, np.array(law(count), dtype=float)).ravel()
        joint.append(product_law)
    expected = np.maximum(joint[0] - np.exp(epsilon) * joint[1], 0).sum()
    actual = exact_delta(changes, epsilon, scale, threshold)
    assert expected == pytest.approx(float(actual), rel=1e-9)


# The claim.


@pytest.mark.parametrize("d_in", [1, 2])
@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_true_delta_is_at_most_that_of_the_map(epsilon, delta, d_in):
    stage = stage_of(epsilon, delta, d_in)
    claimed, granted = map_at(*stage, d_in)
    actual = worst_delta(d_in, claimed, *stage)
    assert actual <= granted <= stage_loss(Budget.of(epsilon, delta))[1]
    assert actual > granted / (2.1 * d_in)


@pytest.mark.parametrize("d_in", [1, 2])
@pytest.mark.parametrize("threshold", [3, 4, 6])
@pytest.mark.parametrize("scale", [0.3, 1.0, 2.5])
def test_true_delta_is_at_most_that_of_the_map_at_small_thresholds(scale, threshold, d_in):
    claimed, granted = map_at(scale, threshold + d_in, d_in)
    assert worst_delta(d_in, claimed, scale, threshold + d_in) <= granted


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_unadjusted_delta_of_opendp_is_false_for_one_row_at_large_epsilon(epsilon, delta):
    stage = stage_of(epsilon, delta, 1)
    claimed, unadjusted = unadjusted_map(*stage, 1)
    is_false = worst_delta(1, claimed, *stage) > unadjusted
    assert (epsilon in ("2", "4")) == is_false


@pytest.mark.parametrize("d_in", [1, 2])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_noise_of_half_the_scale_costs_more_than_the_map(epsilon, d_in):
    stage = stage_of(epsilon, "1e-6", d_in)
    claimed, granted = map_at(*stage, d_in)
    assert worst_delta(d_in, claimed, stage.scale / 2, stage.threshold) > 10 * granted


@pytest.mark.parametrize("d_in", [1, 2, 7])
@pytest.mark.parametrize("delta", [*DELTAS, "1/10", "9/10"])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_threshold_is_the_smallest_that_the_share_allows(epsilon, delta, d_in):
    share = Budget.of(epsilon, delta)
    scale, threshold = sparse_stage(share, d_in=d_in)
    actual = map_at(scale, threshold, d_in)
    for claimed, granted in zip(actual, stage_loss(share), strict=True):
        assert claimed <= granted
    if threshold > d_in + 1:
        assert map_at(scale, threshold - 1, d_in)[1] > stage_loss(share)[1]
    else:  # a threshold of d_in or less has no price
        with pytest.raises(OpenDPException):
            map_at(scale, threshold - 1, d_in)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_threshold_is_below_that_of_the_source(epsilon, delta):
    source = 2 * np.log(2 / float(delta)) / float(epsilon) + 1
    assert stage_of(epsilon, delta, 1).threshold <= source + 1


# The law is the implementation's.


def noisy(counts: dict[int, int], scale: float, threshold: int):
    return make_threshold_noise(
        _cell_map_domain(), _cell_map_metric(), scale=scale, threshold=threshold
    )(counts)


def test_measurement_draws_from_the_law_and_from_no_other():
    """Counts equal to the threshold are kept; counts far below 0 are not."""
    scale, threshold, most = 2.0, 3, 8
    counts = {5: 1, 7: 2, 9: 4}
    measurement = make_threshold_noise(
        _cell_map_domain(), _cell_map_metric(), scale=scale, threshold=threshold
    )
    answers = [measurement(counts) for _ in range(2_000)]
    assert set().union(*answers) == set(counts)
    assert min(min(answer.values(), default=threshold) for answer in answers) == threshold
    for cell, count in counts.items():
        places = [min(answer.get(cell, threshold - 1), most) for answer in answers]
        drawn = [place - threshold + 1 for place in places]

        def law(scale: float, threshold: int, count: int = count):
            ends = [at_least(value - count, scale) for value in range(threshold, most + 1)]
            inner = [float(a - b) for a, b in pairwise(ends)]
            return (float(1 - ends[0]), *inner, float(ends[-1]))

        assert p_value(drawn, law(scale, threshold)) > NEVER
        assert p_value(drawn, law(0.7 * scale, threshold)) < NEVER
        assert p_value(drawn, law(1.5 * scale, threshold)) < NEVER


@pytest.mark.parametrize("threshold", [1, 2])
def test_an_empty_cell_is_never_released(threshold):
    """Noise of scale 50 would lift an empty cell over the threshold almost every other time."""
    for _ in range(100):
        assert {} == noisy({}, 50.0, threshold)
        assert {3} >= set(noisy({3: 1}, 50.0, threshold))
    cells = Cells(frame=SQUARE, bins=(4, 4), groups=2)
    histogram = make_grouped_sparse_histogram(
        matrix_domain(3, 3), rows_metric(), cells=cells, share=Budget.of("0.1", "9/10"), d_in=1
    )
    table = np.array([[0.1, 0.1, 0.0], [0.1, 0.1, 0.0], [9.0, nan, 1.0]])
    seen = sum(histogram(table).mass > 0 for _ in range(200))
    assert (0, 0, 0) == tuple(int(place) for place in np.argwhere(seen)[0])
    assert 1 == len(np.argwhere(seen))


# By group: a label that changes.


@pytest.mark.parametrize("d_in", [1, 2])
def test_a_label_that_changes_costs_no_more_than_a_score_that_changes(d_in):
    """One cell of the frame and three groups: labels alone move rows."""
    cells = Cells(frame=SQUARE, bins=(1, 1), groups=3)
    counted = make_cell_map(matrix_domain(ROWS, 3), rows_metric(), cells=cells)
    codes = (0.0, 1.0, 2.0, 7.0, nan)

    counts = {
        labels: Counter(counted(np.array([[0.5, 0.5, codes[label]] for label in labels])))
        for labels in data_sets(len(codes), ROWS)
    }

    stage = stage_of("2", "1e-6", d_in)
    claimed, granted = map_at(*stage, d_in)
    changes = {
        change_between(counts[labels], counts[others])
        for labels in counts
        for others in neighbours(labels, len(codes), d_in)
    }
    assert ((0, 1), (1, 0)) in changes
    actual = max(exact_delta(change, claimed, *stage) for change in changes)
    assert actual <= granted
    assert changes <= changes_of_maps(d_in, stage.threshold)
