import numpy as np
import pytest

from accountant import Budget
from dppca_odp.primitives.means import (
    make_gaussian_mean,
    mean_stage,
    then_gaussian_mean,
)
from dppca_odp.primitives.noise import gaussian_to_approximate, stage_loss
from dppca_odp.primitives.sums import FULL_UNITS
from dppca_odp.spaces import matrix_domain, rows_metric

SHARE = Budget.of("1", "1e-5")
MU = 0.268051123211294  # of (1, 1e-5), solved to 15 digits
PLENTY = Budget.of("25", "1e-5")


def mean(rows, columns, *, lower, upper, share=SHARE, d_in=1, **options):
    return make_gaussian_mean(
        matrix_domain(rows, columns),
        rows_metric(),
        lower=lower,
        upper=upper,
        share=share,
        d_in=d_in,
        **options,
    )


def test_with_plenty_of_budget_the_means_are_those_of_the_clamped_columns():
    values = np.random.default_rng(6).normal(size=(1000, 2))
    answer = mean(1000, 2, lower=-1.0, upper=[1.0, 0.5], share=PLENTY)(values)
    expected = np.clip(values, -1.0, [1.0, 0.5]).mean(axis=0)
    assert np.abs(answer.values - expected).max() <= 9 * answer.noise_scales.max() < 0.01


@pytest.mark.parametrize("d_in", [1, 3])
def test_the_noise_of_a_column_is_proportional_to_its_range(d_in):
    answer = mean(500, 3, lower=[0, 0, -1], upper=[1, 10, 1], d_in=d_in)(np.zeros((500, 3)))
    expected = np.sqrt(3) * d_in * np.array([1.0, 10.0, 2.0]) / (500 * MU)
    assert pytest.approx(expected, rel=1e-9) == answer.noise_scales


def total_variance(ranges, exponent, d_in=2):
    answer = mean(500, len(ranges), lower=0.0, upper=ranges, d_in=d_in, exponent=exponent)(
        np.zeros((500, len(ranges)))
    )
    delta = d_in * np.array(ranges) / 500
    expected = delta**exponent * np.sqrt((delta ** (2 - 2 * exponent)).sum()) / MU
    assert pytest.approx(expected, rel=1e-6) == answer.noise_scales
    assert pytest.approx(MU**2, rel=1e-6) == ((delta / answer.noise_scales) ** 2).sum()
    return (answer.noise_scales**2).sum()


def test_the_noise_is_allocated_by_the_exponent_and_least_in_all_at_a_half():
    equal, middle, least = (total_variance([50.0, 5.0, 0.5], theta) for theta in (1.0, 0.75, 0.5))
    assert least < middle < equal
    delta = 2 * np.array([50.0, 5.0, 0.5]) / 500
    assert pytest.approx((delta.sum() / MU) ** 2, rel=1e-6) == least


def test_equal_ranges_have_the_same_noise_by_every_exponent():
    variances = [total_variance([7.0, 7.0], exponent) for exponent in (0.5, 0.75, 1.0)]
    assert pytest.approx([variances[0]] * 3, rel=1e-9) == variances


def test_a_range_far_below_the_widest_keeps_enough_units_to_be_rounded_to():
    wide, narrow = mean(500, 2, lower=0.0, upper=[1.0, 1e-20], exponent=0.5)(
        np.zeros((500, 2))
    ).noise_scales
    assert pytest.approx(1 / (500 * MU), rel=1e-6) == wide
    assert pytest.approx(1e-20 * 2**16 * wide, rel=1e-6) == narrow


def test_an_exponent_outside_its_range_is_refused():
    with pytest.raises(ValueError, match=r"exponent must be in \[0\.5, 1\]; got 0\.4\. Use 1"):
        mean(500, 2, lower=0.0, upper=1.0, exponent=0.4)


def test_the_price_at_the_unit_is_just_below_the_share():
    measurement = mean(500, 3, lower=0.0, upper=1.0, d_in=4)
    epsilon, delta = stage_loss(SHARE)
    priced = gaussian_to_approximate(measurement, delta=delta)
    assert epsilon * (1 - 1e-9) < priced.map(4)[0] <= epsilon
    assert priced.map(4)[1] == delta
    assert (0.0, 0.0) == priced.map(0)


def test_a_column_without_range_is_its_bound_and_takes_no_noise():
    answer = mean(500, 2, lower=[3.0, 0.0], upper=[3.0, 1.0])(np.zeros((500, 2)))
    assert 3.0 == answer.values[0]
    assert pytest.approx([0.0, 1.0 / (500 * MU)], rel=1e-9) == answer.noise_scales


def test_only_columns_without_range_cost_nothing():
    measurement = mean(500, 2, lower=3.0, upper=3.0)
    assert (0.0, 0.0) == measurement.map(1)
    answer = measurement(np.zeros((500, 2)))
    assert [3.0, 3.0] == answer.values.tolist()
    assert [0.0, 0.0] == answer.noise_scales.tolist()


def test_fewer_pairs_than_the_unit_holds_are_all_that_can_change():
    few = mean(2, 1, lower=0.0, upper=1.0, d_in=50)(np.zeros((2, 1)))
    assert pytest.approx([1 / MU], rel=1e-9) == few.noise_scales


@pytest.mark.parametrize("d_in", [1, 2])
def test_the_planned_stage_is_the_one_that_is_spent(d_in):
    stage = mean_stage(SHARE, columns=3, d_in=d_in)
    assert pytest.approx(MU, rel=1e-9) == stage.mu
    assert float(stage.loss.mu) == stage.mu
    answer = mean(500, 3, lower=0.0, upper=1.0, d_in=d_in)(np.zeros((500, 3)))
    assert [stage.scale / (500 * FULL_UNITS)] * 3 == answer.noise_scales.tolist()


@pytest.mark.parametrize("ranges", [[0.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 1.0], [1.0] * 3])
@pytest.mark.parametrize(
    "share",
    [
        ("1", "1e-5"),
        ("1e-9", "1e-3"),
        ("1e-12", "0.5"),
        ("1e-5", "1e-18"),
        ("10", "1e-14"),
        ("0.1", "0.9"),
    ],
    ids=str,
)
@pytest.mark.parametrize("exponent", [0.5, 0.75, 1.0])
def test_the_map_is_at_most_the_lowered_share_whichever_columns_have_a_range(
    ranges, share, exponent
):
    budget = Budget.of(*share)
    measurement = mean(
        500, 3, lower=[0.0] * 3, upper=ranges, share=budget, d_in=4, exponent=exponent
    )
    loss = mean_stage(budget, columns=3, d_in=4).loss
    mu, leak = measurement.map(4)
    assert 0 <= mu <= loss.mu
    assert 0 <= leak <= loss.leak
    most_epsilon, most_delta = stage_loss(budget)
    epsilon, delta = gaussian_to_approximate(measurement, delta=most_delta).map(4)
    assert 0 <= epsilon <= most_epsilon
    assert 0 <= delta <= most_delta
    assert np.isfinite(measurement(np.ones((500, 3))).values).all()


def test_a_share_without_delta_is_refused():
    with pytest.raises(ValueError, match="a Gaussian stage must have epsilon and delta; got"):
        mean(500, 2, lower=0.0, upper=1.0, share=Budget.of("1", "0"))


def test_bounds_are_checked_before_any_data():
    with pytest.raises(ValueError, match="lower must not be above upper; got them crossed"):
        mean(500, 2, lower=2.0, upper=1.0)
    with pytest.raises(ValueError, match=r"lower and upper must be within \+-1e\+200; got others"):
        mean(500, 2, lower=0.0, upper=1.0001e200)


def test_the_mean_chains():
    space = matrix_domain(500, 1), rows_metric()
    chain = space >> then_gaussian_mean(lower=0.0, upper=1.0, share=SHARE, d_in=1)
    assert chain.map(1) == mean(500, 1, lower=0.0, upper=1.0).map(1)
