import numpy as np
import pytest

from accountant import Budget
from dppca_odp.primitives.means import (
    gaussian_mean_mu,
    make_gaussian_mean,
    then_gaussian_mean,
)
from dppca_odp.primitives.noise import stage_loss
from dppca_odp.spaces import matrix_domain, rows_metric

SHARE = Budget.of("1", "1e-5")
MU = 0.268051123211294  # of (1, 1e-5), solved to 15 digits
PLENTY = Budget.of("25", "1e-5")


def mean(rows, columns, *, lower, upper, share=SHARE, d_in=1):
    return make_gaussian_mean(
        matrix_domain(rows, columns),
        rows_metric(),
        lower=lower,
        upper=upper,
        share=share,
        d_in=d_in,
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
    assert answer.noise_scales == pytest.approx(expected, rel=1e-9)


def test_the_price_at_the_unit_is_just_below_the_share():
    measurement = mean(500, 3, lower=0.0, upper=1.0, d_in=4)
    epsilon, delta = stage_loss(SHARE)
    assert epsilon * (1 - 1e-9) < measurement.map(4)[0] <= epsilon
    assert measurement.map(4)[1] == delta
    assert measurement.map(0) == (0.0, 0.0)


def test_a_column_without_range_is_its_limit_and_takes_no_noise():
    answer = mean(500, 2, lower=[3.0, 0.0], upper=[3.0, 1.0])(np.zeros((500, 2)))
    assert answer.values[0] == 3.0
    assert answer.noise_scales == pytest.approx([0.0, 1.0 / (500 * MU)], rel=1e-9)


def test_only_columns_without_range_cost_nothing():
    measurement = mean(500, 2, lower=3.0, upper=3.0)
    assert measurement.map(1) == (0.0, 0.0)
    answer = measurement(np.zeros((500, 2)))
    assert answer.values.tolist() == [3.0, 3.0]
    assert answer.noise_scales.tolist() == [0.0, 0.0]


def test_fewer_pairs_than_the_unit_holds_are_all_that_can_change():
    few = mean(2, 1, lower=0.0, upper=1.0, d_in=50)(np.zeros((2, 1)))
    assert few.noise_scales == pytest.approx([1 / MU], rel=1e-9)


def test_the_planned_mu_is_the_one_that_is_spent():
    assert gaussian_mean_mu(SHARE, columns=3, d_in=2) == pytest.approx(MU, rel=1e-9)


def test_a_share_without_delta_is_refused():
    with pytest.raises(ValueError, match="a Gaussian stage must have epsilon and delta; got"):
        mean(500, 2, lower=0.0, upper=1.0, share=Budget.of("1", "0"))


def test_limits_are_checked_before_any_data():
    with pytest.raises(ValueError, match="lower must not be above upper"):
        mean(500, 2, lower=2.0, upper=1.0)


def test_the_mean_chains():
    space = matrix_domain(500, 1), rows_metric()
    chain = space >> then_gaussian_mean(lower=0.0, upper=1.0, share=SHARE, d_in=1)
    assert chain.map(1) == mean(500, 1, lower=0.0, upper=1.0).map(1)
