import math

import numpy as np
import pytest

from accountant import Budget
from accountant.gaussian import gaussian_mu
from dppca_odp.eigenvalues.adaptive import Adaptive
from dppca_odp.eigenvalues.clipped import Clipped
from dppca_odp.eigenvalues.huber import Huber
from dppca_odp.eigenvalues.method import MeanPairs, noise_of_means
from dppca_odp.eigenvalues.pmwm import PMWM
from dppca_odp.planned import Size

EIGENVALUES = [10.0, 6.0, 3.0, 1.5, 1.0]
SHARE = Budget.of("1", "1e-5")
METHODS = {
    "adaptive": Adaptive(),
    "robust": Adaptive(robust=True),
    "clipped": Clipped(clipping_bound=50),
    "pmwm": PMWM(lower_bound=0, upper_bound=1000, grid={"unit": 100}),
    "huber": Huber(lowest_scale=-10, highest_scale=15, scale_fraction="1/4"),
}


def expected(method, rows=10_000, eigenvalues=EIGENVALUES, share=SHARE, rows_per_person=1):
    return method.expected_noise(share, Size(rows, 5, rows_per_person), eigenvalues)


@pytest.mark.parametrize("exponent", [0.5, 0.75, 1.0])
def test_noise_is_allocated_by_the_formula_and_spends_all(exponent):
    ranges = np.array([8.0, 3.0, 0.5])
    noise = noise_of_means(SHARE, ranges, MeanPairs(1000, 2), exponent=exponent)
    mu = gaussian_mu(SHARE.epsilon, SHARE.delta)
    moved = ranges * 2 / 1000
    root = math.sqrt((moved ** (2 - 2 * exponent)).sum())
    assert noise == pytest.approx(moved**exponent * root / mu, rel=1e-8)
    assert mu == pytest.approx(np.linalg.norm(moved / noise), rel=1e-8)


def test_noise_of_the_adaptive_method_relative_to_the_scale_is_limited():
    noise = expected(METHODS["adaptive"], eigenvalues=[1e9, 1, 1, 1, 1])
    assert 4 == pytest.approx(noise[1] / (noise[0] / 1e9), rel=1e-6)


@pytest.mark.parametrize("rows", [100, 101, 10_000])
@pytest.mark.parametrize("rows_per_person", [1, 3])
def test_the_noise_of_clipped_means_is_what_the_plan_states(rows, rows_per_person):
    method = Clipped(clipping_bound=50)
    (line,) = method.stages(SHARE, Size(rows, 5, rows_per_person))
    noise = expected(method, rows, rows_per_person=rows_per_person)
    assert noise == pytest.approx([line.noise_scale] * 5, rel=1e-9)


@pytest.mark.parametrize("name", sorted(set(METHODS) - {"clipped"}))
def test_noise_follows_the_unit_of_the_data(name):
    grown = expected(METHODS[name], eigenvalues=np.multiply(4, EIGENVALUES))
    assert grown == pytest.approx(4 * expected(METHODS[name]), rel=1e-9)


@pytest.mark.parametrize("name", METHODS)
def test_more_budget_and_fewer_rows_of_a_person_have_less_noise(name):
    noise = expected(METHODS[name])
    assert (expected(METHODS[name], share=Budget.of("2", "1e-5")) < noise).all()
    assert (expected(METHODS[name], rows_per_person=2) > noise).all()


def test_pmwm_means_lie_between_the_quantiles_of_gaussian_columns():
    """At 1 %: 6.635, and 0.000157; a bound of 9 and a grid that ends at 5 cut them."""
    wide = expected(METHODS["pmwm"], eigenvalues=[1.0] * 5)
    low = expected(PMWM(lower_bound=0, upper_bound=1000, grid={"steps": 1000}), eigenvalues=[9] * 5)
    narrow = expected(PMWM(lower_bound=3, upper_bound=9), eigenvalues=[100.0] * 5)
    assert wide / narrow == pytest.approx((6.6349 - 0.000157) / 6, rel=1e-4)
    end = 1.001**1000 - 1
    assert low / wide == pytest.approx((end - 9 * 0.000157) / 6.6347, rel=1e-4)


@pytest.mark.parametrize(
    ("method", "factor"),
    [
        (METHODS["adaptive"], 1 + 1 / 16),
        (Adaptive(degree=2), 1.5),
        (METHODS["clipped"], 2),
        (METHODS["huber"], 2),
        (PMWM(lower_bound=0, upper_bound=9, pair_rows="reuse"), 2),
        (PMWM(lower_bound=0, upper_bound=9), 4),
    ],
)
def test_sampling_is_that_of_the_pairs_in_use(method, factor):
    assert method.relative_sampling(10_000) == pytest.approx(math.sqrt(2e-4 * factor))


@pytest.mark.parametrize(
    ("rows", "verdict"), [(200, "not likely"), (340, "uncertain"), (1000, "likely")]
)
def test_the_adaptive_method_knows_whether_it_will_find_scales(rows, verdict):
    outlook = Adaptive().scale_outlook(SHARE, Size(rows, 5, 1))
    assert verdict == outlook.verdict
    assert outlook.reason.startswith("n mu (rows times mu) is ")
    of_three = Adaptive().scale_outlook(SHARE, Size(rows, 5, 3))
    assert of_three.chance < outlook.chance or outlook.chance < 1e-6
    assert of_three.reason.startswith("n mu / 3 ")


def test_huber_finds_scales_only_where_blocks_are_many():
    method = METHODS["huber"]
    chances = [
        method.scale_outlook(SHARE, Size(rows, 5, 1)).chance for rows in (10**4, 10**5, 10**7)
    ]
    assert chances[0] < 1e-6
    assert chances[1] < 0.01
    assert chances[2] > 0.99


def test_a_method_that_cannot_miss_scales_says_nothing():
    for name in ("clipped", "pmwm"):
        assert METHODS[name].scale_outlook(SHARE, Size(10_000, 5, 1)) is None
