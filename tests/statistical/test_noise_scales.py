"""The noise that leaves has the scale that was paid for: not 0.7 of it, not 1.3 times it.

Each test accepts a scale when what was seen has a two-sided p above 1e-12, and rejects it below.
The numbers of draws are the least, rounded up, of which every outcome that is accepted at the true
scale (all but one in 10^12) rejects the other two; so a test fails by chance about once in 10^12
runs. For Gaussian draws they are 1500; one release of many columns draws many at once.
"""

import math

import numpy as np
import pytest
from scipy.stats import binom, chi2

from accountant import Budget, PrivacyUnit
from dppca_odp.directions import Directions, make_kendall_matrix
from dppca_odp.eigenvalues.clipped import Clipped, make_clipped_mean
from dppca_odp.eigenvalues.huber import Huber, make_huber, robustification_thresholds
from dppca_odp.eigenvalues.pmwm import PMWM, make_pmwm
from dppca_odp.planned import Setting, Size
from dppca_odp.primitives.noise import gaussian_stage, then_gaussian
from dppca_odp.primitives.pairs import (
    Pairing,
    draw_pairing,
    make_half_squared_differences,
)
from dppca_odp.primitives.quantiles import SearchGrid, make_unbounded_quantile
from dppca_odp.primitives.scales import make_dyadic_scale
from dppca_odp.spaces import matrix_domain, rows_metric

from ..file_order import coordinates_of

pytestmark = pytest.mark.usefixtures("file_order")

TINY = 1e-12
WRONG = (0.7, 1.3)
# mu of (epsilon, delta), Dong, Roth and Su (2022), Corollary 2.13, solved to 15 digits.
MU_1 = 0.268051123211294  # (1, 1e-5)
MU_3 = 0.719117435221793  # (3, 1e-5)
NO_NOISE = 1e4  # at this rate a geometric draw is 0 but for one time in e^10000


def space(rows, columns):
    return matrix_domain(rows, columns), rows_metric()


def two_sided(law, seen):
    """The p of a statistic under a law of scipy; for counts, both tails hold what was seen."""
    at_least = law.sf(seen - 1) if hasattr(law, "pmf") else law.sf(seen)
    return 2 * min(law.cdf(seen), at_least)


def check(law_at, seen):
    """Accept the law at the true scale, reject it at the wrong ones."""
    assert two_sided(law_at(1.0), seen) > TINY
    for factor in WRONG:
        assert two_sided(law_at(factor), seen) < TINY


def check_gaussian(draws):
    """Draws in units of the scale that was paid for are standard normal: chi-square test."""
    draws = np.ravel(draws)
    assert len(draws) >= 1500
    check(lambda factor: chi2(len(draws), scale=factor**2), float((draws**2).sum()))


def test_the_chi_square_test_itself_can_tell():
    fair = np.random.default_rng(26).normal(size=1500)
    check_gaussian(fair)
    for factor in WRONG:
        with pytest.raises(AssertionError):
            check_gaussian(fair * factor)


def allocated(delta, allocation):
    """Noise times mu of means that move by delta: the formulas of the design."""
    if allocation == "equal":
        return np.sqrt(len(delta)) * delta
    return np.sqrt(delta * delta.sum())


@pytest.mark.parametrize("d_in", [1, 3])
@pytest.mark.parametrize("degree", [1, 4])
@pytest.mark.parametrize("allocation", ["equal", "minimum-variance"])
def test_clipped_mean(d_in, degree, allocation):
    bounds = np.tile([50.0, 20.0, 5.0, 1.0], 10)
    measurement = make_clipped_mean(
        *space(40, 40),
        method=Clipped(clipping_bound=tuple(bounds), degree=degree, noise_allocation=allocation),
        share=Budget.of("1", "1e-5"),
        rows_per_person=d_in,
    )
    # 20 disjoint pairs of 40 rows, or a ring: each row moves a mean by 2/n of its range
    sigma = allocated(2 * d_in * bounds / 40, allocation) / MU_1
    check_gaussian([measurement(np.zeros((40, 40))).values / sigma for _ in range(40)])


@pytest.mark.parametrize(("pair_rows", "used"), [("split", 500), ("reuse", 1000)])
def test_pmwm_mean_between_the_bounds(pair_rows, used):
    method = PMWM(
        lower_bound=2,
        upper_bound=10,
        pair_rows=pair_rows,
        grid=SearchGrid(unit=0.1, beta=11, steps=2),  # 1 and 12, outside the bounds
    )
    measurement = make_pmwm(
        *space(2000, 5), method=method, share=Budget.of("6", "1e-5"), rows_per_person=1
    )
    table = coordinates_of(np.tile([[0.0] * 5, [99.0] * 5], (500, 1)))
    sigma = np.sqrt(5) * (10 - 2) / (used * MU_3)
    draws = []
    for _ in range(310):
        answer = measurement(table)
        assert ([2.0] * 5, [10.0] * 5) == (answer.lower.tolist(), answer.upper.tolist())
        draws.append((answer.values - 6.0) / sigma)
    check_gaussian(draws)


@pytest.mark.parametrize("allocation", ["minimum-variance"])
def test_pmwm_mean_on_a_ring_between_cutoffs_of_its_own(allocation):
    rows, d_in = 2000, 1
    method = PMWM(
        lower_bound=2,
        upper_bound=200,
        trim_fraction=0.25,  # 250 pairs from every count: 47 times the scale of its noise
        pair_rows="reuse",
        degree=4,
        noise_allocation=allocation,
        grid=SearchGrid(unit=0.1, beta=11, steps=3),  # 1, 12 and 133
    )
    share = Budget.of("6", "1e-5")
    measurement = make_pmwm(*space(rows, 4), method=method, share=share, rows_per_person=d_in)
    upper = np.array([133.0, 133.0, 12.0, 12.0])
    table = coordinates_of(np.tile([[0.0] * 4, [99.0, 99.0, 5.0, 5.0]], (500, 1)))
    ring = make_half_squared_differences(*space(rows, 4), pairing=Pairing(rows, 4, np.arange(rows)))
    exact = np.clip(np.asarray(ring(table)), 2.0, upper).mean(axis=0)
    sigma = allocated(2 * d_in * (upper - 2) / rows, allocation) / MU_3
    draws = []
    for _ in range(390):
        answer = measurement(table)
        assert pytest.approx(upper) == answer.upper
        assert [2.0] * 4 == answer.lower.tolist()
        draws.append((answer.values - exact) / sigma)
    check_gaussian(draws)


@pytest.mark.parametrize("allocation", ["minimum-variance"])
def test_huber_step_on_a_ring(allocation):
    # rows in turn at two places: neighbours on a ring of degree 2 have w = 100, all of them
    rows, d_in = 800, 2
    method = Huber(
        lowest_scale=-8,
        highest_scale=8,
        scale_fraction="1/4",
        initial=100,
        steps=1,
        degree=2,
        noise_allocation=allocation,
    )
    share = Budget.of("4", "1e-5")
    measurement = make_huber(*space(rows, 20), method=method, share=share, rows_per_person=d_in)
    table = coordinates_of(np.full((rows // 2, 20), 100.0))
    draws = []
    for _ in range(80):
        answer = measurement(table)
        tau = (answer.upper - answer.lower) / 2
        sigma = allocated(4 * d_in * tau / rows, allocation) / MU_3
        draws.append((answer.values - 100.0) / sigma)
    check_gaussian(draws)


def variance_of_means(degree, *, rows, tables):
    """The variance of the mean of w over Gaussian tables and orders, nothing added."""
    rng = np.random.default_rng()
    means = []
    for _ in range(tables):
        pairs = draw_pairing(rows, degree).half_squared_differences(rng.normal(size=(rows, 10)))
        means.append(np.asarray(pairs).mean(axis=0))
    return np.var(means)


@pytest.mark.parametrize("degree", [1, 2, 16])
def test_a_ring_has_less_variance_than_disjoint_pairs_before_the_noise(degree):
    # 20,000 means: the relative error of their variance is about 1.1 percent
    rows = 100
    expected = 4 / rows if degree == 1 else 2 / rows * (1 + 1 / degree)
    assert pytest.approx(expected, rel=0.1) == variance_of_means(degree, rows=rows, tables=2000)


@pytest.mark.parametrize(("steps", "d_in"), [(1, 2), (4, 1)])
def test_huber_step(steps, d_in):
    method = Huber(lowest_scale=-1, highest_scale=1, scale_fraction="1/4", initial=100, steps=steps)
    measurement = make_huber(
        *space(800, 20), method=method, share=Budget.of("4", "1e-5"), rows_per_person=d_in
    )
    # at a constant 100 the gradient undoes the noise of earlier steps: the last one is left
    table = coordinates_of(np.full((400, 20), 100.0))
    draws = []
    for _ in range(80):
        answer = measurement(table)
        tau = (answer.upper - answer.lower) / 2
        sigma = 2 * tau * d_in * math.sqrt(20 * steps) / (400 * MU_3)
        draws.append((answer.values - 100.0) / sigma)
    check_gaussian(draws)


@pytest.fixture(scope="module")
def kendall_noise():
    """Symmetric noise on the mean matrix of a constant table, over the scale of the design."""
    rows, columns, degree, d_in = 20, 6, 4, 2
    share = Budget.of("1", "1e-5")
    matrix = make_kendall_matrix(*space(rows, columns), pairing=draw_pairing(rows, degree))
    stage = gaussian_stage(share, sensitivity=matrix.map(d_in), numbers=columns**2)
    noisy = matrix >> then_gaussian(scale=stage.scale)
    table = np.full((rows, columns), 31337.25)
    draws = np.array([noisy(table) for _ in range(400)]).reshape(-1, columns, columns)
    mean = draws / (rows * degree / 2 * 2**40)
    sigma = 2 * math.sqrt(2) * d_in / (rows * MU_1)
    (planned,) = Directions(name="d", components=2, degree=degree).stages(
        share, Setting(rows, tuple(map(str, range(columns))), 2, PrivacyUnit(rows_per_person=d_in))
    )
    assert pytest.approx(sigma, rel=1e-9) == planned.noise_scale
    return (mean + mean.transpose(0, 2, 1)) / 2 / sigma


def test_kendall_matrix_diagonal(kendall_noise):
    check_gaussian(kendall_noise[:, range(6), range(6)])


def test_kendall_matrix_off_diagonal(kendall_noise):
    above = np.triu_indices(6, 1)
    check_gaussian(kendall_noise[:, above[0], above[1]] * math.sqrt(2))


def test_quantile_target_noise():
    # 40 values below the one point, whose count has no noise: it stops when the target's noise
    # is at most 12 above 27, the floor of 27.5
    trials, scale = 5000, 10
    search = make_unbounded_quantile(
        *space(50, 1),
        column=0,
        quantile=0.55,
        points=[1.0],
        epsilon_target=1 / scale,
        epsilon_counts=NO_NOISE,
    )
    values = np.r_[np.zeros(40), np.full(10, 9.0)][:, None]
    hits = sum(not search(values).capped for _ in range(trials))
    check(lambda factor: binom(trials, 1 - math.exp(-13 / (scale * factor))), hits)


def stopped(points, target, scale, trials):
    """How often a search stops among points whose counts are 0, the last excepted.

    It stops at a point whose geometric noise is above ``target`` plus one more draw.
    """

    def law(factor, noisy_target):
        rate = math.exp(-1 / (scale * factor))
        shifts = np.arange(50 * scale) if noisy_target else np.zeros(1)
        weights = (1 - rate) * rate**shifts if noisy_target else np.ones(1)
        none = (1 - rate ** (math.floor(target) + 1 + shifts)) ** points
        return binom(trials, 1 - float((weights * none).sum()))

    return law


@pytest.mark.parametrize("noisy_target", [False, True])
def test_quantile_count_noise(noisy_target):
    points, target, scale, trials = 100, 48.5, 10, 500
    search = make_unbounded_quantile(
        *space(97, 1),
        column=0,
        quantile=0.5,
        points=np.arange(1.0, points + 1),
        epsilon_target=1 / scale if noisy_target else NO_NOISE,
        epsilon_counts=1 / scale,
    )
    values = np.full((97, 1), 1e9)
    hits = sum(not search(values).capped for _ in range(trials))
    law = stopped(points, target, scale, trials)
    check(lambda factor: law(factor, noisy_target), hits)


def test_quantile_noise_inside_pmwm_is_the_planned_one():
    points, trials = 100, 500
    method = PMWM(
        lower_bound=0,
        upper_bound=1e6,
        trim_fraction=0.4,
        trim_constant=1e-9,
        pair_rows="reuse",
        grid=SearchGrid(unit=1, beta=1.1, steps=points + 1),
    )
    share = Budget.of("0.8", "1e-5")
    quantile, _ = method.stages(share, Size(162, 1, 1))
    assert 10.0 == quantile.noise_scale
    measurement = make_pmwm(*space(162, 1), method=method, share=share, rows_per_person=1)
    # above all points but the last, so that a search not stopped before it ends there
    last = method.grid.points()[-1]
    table = coordinates_of(np.full((81, 1), last - 0.01))
    hits = 0
    for _ in range(trials):
        answer = measurement(table)
        crossed = (answer.lower[0], answer.upper[0]) == (0.0, 1e6)
        hits += crossed or answer.upper[0] < last
    law = stopped(points, 0.6 * 81, 10, trials)
    check(lambda factor: law(factor, True), hits)


def overtaken(lead, others, trials):
    """How often a count that leads by ``lead`` noise scales loses to one of the others.

    Exponential noise: with u uniform, the integral of (1 - e^-lead u)^others.
    """

    def law(factor):
        far = math.exp(-lead / factor)
        return binom(trials, 1 - (1 - (1 - far) ** (others + 1)) / (far * (others + 1)))

    return law


def test_scale_selection_noise():
    trials, epsilon = 500, 0.5
    measurement = make_dyadic_scale(
        *space(80, 1), column=0, blocks=20, lowest=-50, highest=50, epsilon=epsilon
    )
    hits = sum(measurement(np.zeros((80, 1))) > 2.0**-50 for _ in range(trials))
    check(overtaken(20 / (2 / epsilon), 100, trials), hits)


def test_scale_selection_noise_inside_huber_is_the_planned_one():
    trials = 500
    method = Huber(lowest_scale=-50, highest_scale=50, scale_fraction="1/4", steps=1, blocks=20)
    share = Budget.of("2", "1e-5")
    scale, _ = method.stages(share, Size(80, 1, 1))
    assert 4.0 == scale.noise_scale
    measurement = make_huber(*space(80, 1), method=method, share=share, rows_per_person=1)
    least = robustification_thresholds(2.0**-50, epsilon=1.5, pairs=40, components=1)
    hits = 0
    for _ in range(trials):
        answer = measurement(np.zeros((80, 1)))
        hits += bool((answer.upper[0] - answer.lower[0]) / 2 > 1.2 * least)
    check(overtaken(20 / scale.noise_scale, 100, trials), hits)
