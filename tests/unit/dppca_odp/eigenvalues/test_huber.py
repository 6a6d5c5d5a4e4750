import math
from fractions import Fraction

import numpy as np
import pytest
from opendp.mod import OpenDPException

from accountant import Budget, GaussianLoss, PureLoss
from accountant.errors import InvalidValue
from dppca_odp.eigenvalues.huber import (
    LARGEST_MEAN,
    Huber,
    make_huber,
    robustification_thresholds,
    then_huber,
)
from dppca_odp.planned import Size
from dppca_odp.spaces import matrix_domain, rows_metric

from ....file_order import coordinates_of

pytestmark = pytest.mark.usefixtures("file_order")

SHARE = Budget.of("4", "1e-5")
MU_OF_THREE = 0.719117435221793  # of (3, 1e-5): three quarters of the share; to 15 digits


def method(**changes):
    return Huber(**({"lowest_scale": -10, "highest_scale": 15, "scale_fraction": "1/4"} | changes))


def huber(asked, *, rows=1000, components=1, share=SHARE, rows_per_person=1):
    return make_huber(
        matrix_domain(rows, components),
        rows_metric(),
        method=asked,
        share=share,
        rows_per_person=rows_per_person,
    )


def test_the_threshold_is_the_sources():
    # 2 sqrt(0.25 * 5000 / sqrt((1 + log 5000) log 5000)), worked out in floats once.
    assert pytest.approx(23.565879697251276, rel=1e-12) == robustification_thresholds(
        4.0, epsilon=0.75, pairs=5000, components=3
    )


def test_the_threshold_grows_with_the_root_of_the_scale():
    one, four = robustification_thresholds([1.0, 4.0], epsilon=0.75, pairs=5000, components=3)
    assert pytest.approx(2 * one, rel=1e-12) == four


@pytest.mark.parametrize(
    ("pairs", "steps", "blocks"),
    [(4, 2, 1), (8, 3, 1), (16, 3, 2), (5000, 9, 35), (100_000, 12, 158)],
)
def test_steps_and_blocks_follow_the_number_of_pairs(pairs, steps, blocks):
    assert method().counts(pairs) == (steps, blocks)


def test_steps_and_blocks_can_be_chosen():
    assert (3, 7) == method(steps=3, blocks=7).counts(5000)


@pytest.mark.parametrize("pairs", [0, 1, 3])
def test_fewer_than_four_pairs_are_refused(pairs):
    with pytest.raises(
        ValueError,
        match=rf"^pairs must be at least 4 \(8 rows\) for Huber; got {pairs}\. Use another",
    ):
        method().counts(pairs)


def test_seven_rows_are_refused_before_any_data():
    with pytest.raises(ValueError, match=r"pairs must be at least 4 \(8 rows\) for Huber; got 3"):
        huber(method(), rows=7)
    with pytest.raises(ValueError, match=r"pairs must be at least 4 \(8 rows\) for Huber; got 3"):
        method().stages(SHARE, Size(7, 1, 1))


def test_eight_rows_are_enough():
    answer = huber(method(), rows=8)(coordinates_of(np.ones((4, 1))))
    assert np.isfinite(answer.values).all()


def test_more_blocks_than_pairs_of_pairs_are_refused():
    with pytest.raises(ValueError, match=r"blocks must be at most 5; got 6\. Use fewer\."):
        huber(method(blocks=6), rows=22)


def test_the_descent_finds_the_mean():
    w = np.random.default_rng(9).exponential(size=(200_000, 1))
    answer = huber(method(lowest_scale=-4, highest_scale=1), rows=400_000, rows_per_person=1)(
        coordinates_of(w)
    )
    assert abs(answer.values[0] - w.mean()) <= 9 * answer.noise_scales[0] < 0.1


def test_one_step_moves_by_the_step_size_times_the_clamped_mean():
    asked = method(steps=1, step_size=0.5, initial=100, lowest_scale=2, highest_scale=3)
    answer = huber(asked, rows=400_000)(coordinates_of(np.full((200_000, 1), 140.0)))
    assert 2 * 100 == answer.lower[0] + answer.upper[0]
    tau = (answer.upper[0] - answer.lower[0]) / 2
    expected = 100 + 0.5 * min(40.0, tau)
    assert abs(answer.values[0] - expected) <= 9 * answer.noise_scales[0] < 1


def test_the_estimate_is_never_negative():
    asked = method(steps=1, initial=-50, lowest_scale=0, highest_scale=1)
    answers = [
        huber(asked, rows=8, share=Budget.of("1/10", "1e-9"))(coordinates_of(np.zeros((4, 1))))
        for _ in "123"
    ]
    assert min(answer.values[0] for answer in answers) >= 0


@pytest.mark.parametrize("rows_per_person", [1, 3])
@pytest.mark.parametrize("steps", [1, 4])
def test_the_noise_of_a_step_is_the_sources(steps, rows_per_person):
    asked = method(steps=steps, step_size=0.5)
    answer = huber(asked, rows=1000, components=2, rows_per_person=rows_per_person)(
        coordinates_of(np.ones((500, 2)))
    )
    tau = (answer.upper - answer.lower) / 2
    expected = 2 * 0.5 * tau * rows_per_person * math.sqrt(2 * steps) / (500 * MU_OF_THREE)
    assert pytest.approx(expected, rel=1e-8) == answer.noise_scales


def test_the_threshold_comes_from_the_released_scale_and_the_descents_epsilon():
    answer = huber(method(steps=1, initial=100.0), rows=8000)(
        coordinates_of(np.full((4000, 1), 100.0))
    )
    tau = (answer.upper[0] - answer.lower[0]) / 2
    scale = (tau / robustification_thresholds(1.0, epsilon=3.0, pairs=4000, components=1)) ** 2
    assert pytest.approx(round(math.log2(scale)), abs=1e-9) == math.log2(scale)
    assert -10 <= round(math.log2(scale)) <= 15


@pytest.mark.parametrize(("half", "end"), [(1e-9, 2.0**-2), (1e9, 2.0**2)])
def test_a_scale_at_an_end_of_its_range_is_said_to_be(half, end):
    asked = method(lowest_scale=-2, highest_scale=2, blocks=250)
    w = np.tile([[0.0], [math.sqrt(2 * half)]], (500, 1))
    (warning,) = huber(asked, rows=2000)(coordinates_of(w)).warnings
    assert (
        f"component 1: the scale is at an end of its public range ({end:.6g}): "
        "the range is too narrow, or the budget too small to find the scale."
    ) == warning.told()


def test_a_scale_inside_its_range_is_not_warned_about():
    asked = method(lowest_scale=-2, highest_scale=2, blocks=250)
    w = np.tile([[0.0], [math.sqrt(2.0)]], (500, 1))
    assert () == huber(asked, rows=2000)(coordinates_of(w)).warnings


@pytest.mark.parametrize("share", [SHARE, Budget.of("1/3", "1e-9"), Budget.of("0.7", "3e-7")])
@pytest.mark.parametrize("fraction", ["1/4", "0.1", "2/3"])
def test_the_stages_sum_to_the_share_exactly(share, fraction):
    scale, descent = method(scale_fraction=fraction).stages(share, Size(1000, 3, 2))
    rho = Fraction(fraction)
    assert scale.stage.budget == Budget.of(rho * share.epsilon, 0)
    assert descent.stage.budget == Budget.of((1 - rho) * share.epsilon, share.delta)
    assert scale.stage.budget + descent.stage.budget == share
    assert (PureLoss(epsilon=rho * share.epsilon / 3, count=3),) == scale.stage.losses
    assert [type(loss) for loss in descent.stage.losses] == [GaussianLoss]


def test_the_descent_spends_the_mu_of_its_share():
    _, descent = method().stages(SHARE, Size(1000, 3, 2))
    (loss,) = descent.stage.losses
    assert pytest.approx(MU_OF_THREE, rel=1e-9) == float(loss.mu)
    assert float(loss.mu) <= MU_OF_THREE


def test_the_planned_noise_on_counts_covers_both_counts_that_a_value_moves():
    scale, descent = method().stages(SHARE, Size(1000, 2, 3))
    assert 2 * 3 / (1 / 2) == scale.noise_scale
    assert descent.noise_scale is None


@pytest.mark.parametrize("rows_per_person", [1, 3])
def test_the_price_is_just_below_the_share_for_every_number_of_rows_in_the_unit(rows_per_person):
    measurement = huber(method(), components=3, rows_per_person=rows_per_person)
    for rows in range(1, rows_per_person + 1):
        epsilon, delta = measurement.map(rows)
        assert epsilon > 4 * (1 - 1e-9)
        assert Fraction(epsilon) <= SHARE.epsilon
        assert Fraction(delta) <= SHARE.delta
    assert (0.0, 0.0) == measurement.map(0)


def test_more_rows_than_the_unit_have_no_price():
    with pytest.raises(OpenDPException):
        huber(method(), rows_per_person=2).map(3)


@pytest.mark.parametrize("fill", [0.0, 1e200, np.nan, np.inf])
def test_every_float_is_answered(fill):
    answer = huber(method(), rows=20)(coordinates_of(np.full((10, 1), fill)))
    assert np.isfinite(answer.values).all()


def test_an_estimate_that_runs_away_is_clamped():
    asked = method(steps=50, step_size=1e9, lowest_scale=0, highest_scale=1000)
    answer = huber(asked, rows=20)(coordinates_of(np.full((10, 1), 1e200)))
    assert 0 <= answer.values[0] <= LARGEST_MEAN


@pytest.mark.parametrize(("low", "high"), [(5, 5), (6, 5)])
def test_scales_out_of_order_are_refused(low, high):
    with pytest.raises(InvalidValue, match=f"lowest_scale must be below .* got {low} and {high}"):
        method(lowest_scale=low, highest_scale=high)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lowest_scale", -1001),
        ("highest_scale", 1001),
        ("lowest_scale", 0.5),
        ("scale_fraction", "0"),
        ("scale_fraction", "1"),
        ("scale_fraction", "-1/4"),
        ("scale_fraction", 0.25),
        ("initial", float("nan")),
        ("step_size", 0),
        ("step_size", float("inf")),
        ("steps", 0),
        ("steps", 10_001),
        ("blocks", 0),
        ("rho", "1/4"),
    ],
)
def test_a_parameter_out_of_range_is_refused(name, value):
    with pytest.raises(InvalidValue, match=rf"^{name}\b"):
        method(**{name: value})


@pytest.mark.parametrize("name", ["lowest_scale", "highest_scale", "scale_fraction"])
def test_the_scales_and_their_part_have_no_default(name):
    asked = {"lowest_scale": -5, "highest_scale": 5, "scale_fraction": "1/4"}
    del asked[name]
    with pytest.raises(InvalidValue, match=f"^{name} must be given"):
        Huber(**asked)


def test_a_share_without_delta_is_refused():
    with pytest.raises(ValueError, match="a Gaussian stage must have epsilon and delta; got"):
        huber(method(), share=Budget.of("1", "0"))


def test_the_method_makes_its_own_measurement():
    space = matrix_domain(500, 1), rows_metric()
    made = method().make(*space, share=SHARE, rows_per_person=2)
    chain = space >> then_huber(method=method(), share=SHARE, rows_per_person=2)
    assert made.map(2) == chain.map(2) == huber(method(), rows_per_person=2).map(2)


# Rings and allocation.


@pytest.mark.parametrize("rows_per_person", [1, 3])
@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.parametrize("allocation", ["equal", "minimum-variance"])
def test_the_noise_of_a_step_on_a_ring_is_that_of_the_rows(allocation, steps, rows_per_person):
    asked = method(steps=steps, step_size=0.5, degree=6, noise_allocation=allocation)
    answer = huber(asked, rows=1000, components=2, rows_per_person=rows_per_person)(
        coordinates_of(np.ones((500, 2)))
    )
    delta = 2 * rows_per_person * (answer.upper - answer.lower) / 1000
    sigma = np.sqrt(2) * delta if allocation == "equal" else np.sqrt(delta * delta.sum())
    expected = 0.5 * sigma * math.sqrt(steps) / MU_OF_THREE
    assert pytest.approx(expected, rel=1e-6) == answer.noise_scales


def test_scales_and_thresholds_go_by_disjoint_pairs_on_a_ring_too():
    asked = method(steps=1, initial=100.0, degree=16)
    answer = huber(asked, rows=8000)(coordinates_of(np.full((4000, 1), 100.0)))
    tau = (answer.upper[0] - answer.lower[0]) / 2
    scale = (tau / robustification_thresholds(1.0, epsilon=3.0, pairs=4000, components=1)) ** 2
    assert pytest.approx(round(math.log2(scale)), abs=1e-9) == math.log2(scale)
    planned, _ = asked.stages(SHARE, Size(8000, 1, 3))
    assert 2 * 3 / 1 == planned.noise_scale


def test_the_descent_on_a_ring_finds_the_mean_of_the_ring():
    table = np.random.default_rng(9).normal(size=(40_000, 1))
    asked = method(lowest_scale=-4, highest_scale=1, degree=16)
    answer = huber(asked, rows=40_000)(table)
    assert abs(answer.values[0] - table.var(ddof=1)) <= 9 * answer.noise_scales[0] + 0.03 < 0.3


@pytest.mark.parametrize("allocation", ["equal", "minimum-variance"])
def test_scales_far_apart_are_answered_however_the_descent_goes(allocation):
    """Ranges of steps are rounded, and vanish beside a large theta: what was declared covers it."""
    asked = method(
        lowest_scale=-1000,
        highest_scale=1000,
        step_size=1e150,
        steps=6,
        degree=2,
        noise_allocation=allocation,
    )
    table = np.random.default_rng(34).normal(size=(40, 6)) * 10.0 ** np.arange(-90, 90, 30)
    for _ in range(10):
        answer = huber(asked, rows=40, components=6)(table)
        assert np.isfinite(answer.values).all()


@pytest.mark.parametrize("epsilon", ["26", "28"])
def test_a_descent_of_a_large_mu_is_paid_for_and_runs(epsilon):
    """The noise of one step is finer than that of one Gaussian of all mu would be."""
    method = Huber(lowest_scale=-4, highest_scale=5, scale_fraction="1/20", steps=5)
    share = Budget.of(epsilon, "1e-5")
    measurement = method.make(matrix_domain(100, 2), rows_metric(), share=share, rows_per_person=1)
    assert measurement.map(1)[0] <= float(epsilon)
    measurement(np.random.default_rng(1).normal(size=(100, 2)))


@pytest.mark.parametrize("initial", [1e201, -1e191])
def test_a_descent_does_not_start_beyond_what_sums_can_hold(initial):
    with pytest.raises(InvalidValue, match="initial"):
        Huber(lowest_scale=-4, highest_scale=5, scale_fraction="1/4", initial=initial)
