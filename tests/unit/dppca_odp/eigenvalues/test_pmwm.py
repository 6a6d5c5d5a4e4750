from fractions import Fraction

import numpy as np
import pytest
from opendp.mod import OpenDPException

from accountant import Budget, GaussianLoss, PureLoss
from accountant.errors import InvalidValue
from accountant.gaussian import gaussian_mu
from dppca_odp.eigenvalues.pmwm import PMWM, choose_cutoffs, make_pmwm, then_pmwm
from dppca_odp.planned import Size
from dppca_odp.primitives.pairs import Pairing
from dppca_odp.primitives.quantiles import Quantile, SearchGrid
from dppca_odp.spaces import matrix_domain, rows_metric

from ....file_order import coordinates_of

pytestmark = pytest.mark.usefixtures("file_order")

SHARE = Budget.of("1", "1e-5")
PLENTY = Budget.of("40", "1e-5")
MU_OF_HALF = 0.142210558669261  # of (0.5, 1e-5), solved to 15 digits
COARSE = SearchGrid(unit=1, beta=2, steps=6)  # 1, 3, 7, 15, 31, 63


def method(**changes):
    return PMWM(**({"lower_bound": 0, "upper_bound": 100, "grid": COARSE} | changes))


def pmwm(asked, *, rows=800, components=1, share=PLENTY, rows_per_person=1):
    return make_pmwm(
        matrix_domain(rows, components),
        rows_metric(),
        method=asked,
        share=share,
        rows_per_person=rows_per_person,
    )


def found(low, high):
    return Quantile(low, capped=False), Quantile(high, capped=False)


def test_cutoffs_within_the_bounds_are_kept():
    cutoffs = choose_cutoffs([found(1.0, 7.0), found(3.0, 63.0)], method())
    assert [1.0, 3.0] == cutoffs.lower.tolist()
    assert [7.0, 63.0] == cutoffs.upper.tolist()
    assert () == cutoffs.warnings


def test_cutoffs_are_clamped_to_the_bounds():
    cutoffs = choose_cutoffs([found(1.0, 63.0)], method(lower_bound=2, upper_bound=10))
    assert ([2.0], [10.0]) == (cutoffs.lower.tolist(), cutoffs.upper.tolist())
    assert () == cutoffs.warnings


def test_crossed_cutoffs_are_reset_to_the_bounds_and_said_to_be():
    cutoffs = choose_cutoffs([found(1.0, 7.0), found(15.0, 3.0)], method())
    assert [1.0, 0.0] == cutoffs.lower.tolist()
    assert [7.0, 100.0] == cutoffs.upper.tolist()
    (warning,) = cutoffs.warnings
    assert warning.told().startswith("component 2: the cutoffs crossed")
    assert "[0, 100]" in warning.text


def test_cutoffs_that_cross_outside_the_bounds_meet_at_a_bound():
    cutoffs = choose_cutoffs([found(63.0, 31.0)], method(upper_bound=10))
    assert ([10.0], [10.0]) == (cutoffs.lower.tolist(), cutoffs.upper.tolist())
    assert () == cutoffs.warnings


def test_equal_cutoffs_are_kept():
    cutoffs = choose_cutoffs([found(7.0, 7.0)], method())
    assert ([7.0], [7.0]) == (cutoffs.lower.tolist(), cutoffs.upper.tolist())


@pytest.mark.parametrize("which", ["lower", "upper"])
def test_a_search_that_ran_out_of_grid_is_said_to_have(which):
    ends = Quantile(63.0, capped=which == "lower"), Quantile(63.0, capped=which == "upper")
    (warning,) = choose_cutoffs([found(1.0, 7.0), ends], method()).warnings
    assert warning.told().startswith(
        "component 2: a cutoff reached the end of the search grid (63)"
    )


@pytest.mark.parametrize("pairs", [2, 3, 10, 11])
def test_split_gives_the_mean_the_pair_that_is_left_over(pairs):
    for_cutoffs, for_mean = method(pair_rows="split").parts(pairs)
    assert len(for_cutoffs) == pairs // 2
    assert len(for_mean) == pairs - pairs // 2
    assert [*for_cutoffs, *for_mean] == list(range(pairs))


def test_reuse_gives_both_stages_every_pair():
    assert method(pair_rows="reuse").parts(5) == (range(5), range(5))


def test_one_pair_cannot_be_split():
    expected = "pairs must be at least 2 to split; got 1. Use pair_rows 'reuse'."
    with pytest.raises(ValueError, match=expected):
        method(pair_rows="split").parts(1)
    with pytest.raises(ValueError, match=expected):
        pmwm(method(pair_rows="split"), rows=2)


def test_one_pair_can_be_reused():
    assert 1 == len(pmwm(method(pair_rows="reuse"), rows=2)(coordinates_of(np.ones((1, 1)))).values)


@pytest.mark.parametrize(("pair_rows", "used"), [("reuse", 4001), ("split", 2001)])
def test_the_mean_is_winsorized_between_the_cutoffs_over_its_own_pairs(pair_rows, used):
    asked = method(pair_rows=pair_rows, trim_fraction=0.1)
    w = np.random.default_rng(7).permutation(np.linspace(0, 40, 4001))[:, None]
    answer = pmwm(asked, rows=8002)(coordinates_of(w))
    assert pytest.approx((7.0, 63.0)) == (answer.lower[0], answer.upper[0])
    expected = np.clip(w[-used:], 7.0, 63.0).mean()
    assert abs(answer.values[0] - expected) <= 9 * answer.noise_scales[0] < 0.1


@pytest.mark.parametrize(
    ("trim_constant", "trim_fraction", "cutoffs"),
    [(1.0, 0.1, (7.0, 63.0)), (1200.0, 0.1, (15.0, 31.0)), (1e9, 0.0, (31.0, 31.0))],
    ids=["the fraction", "the constant, larger", "never half"],
)
def test_the_larger_trimming_rule_decides_up_to_49_percent(trim_constant, trim_fraction, cutoffs):
    asked = method(trim_constant=trim_constant, trim_fraction=trim_fraction, pair_rows="reuse")
    w = np.linspace(0, 40, 4001)[:, None]
    answer = pmwm(asked, rows=8002)(coordinates_of(w))
    assert pytest.approx(cutoffs) == (answer.lower[0], answer.upper[0])


@pytest.mark.parametrize(("pair_rows", "used"), [("reuse", 401), ("split", 201)])
@pytest.mark.parametrize("rows_per_person", [1, 3])
def test_the_noise_is_the_sources_for_the_cutoffs_found(pair_rows, used, rows_per_person):
    asked = method(pair_rows=pair_rows)
    answer = pmwm(asked, rows=802, components=2, share=SHARE, rows_per_person=rows_per_person)(
        coordinates_of(np.ones((401, 2)))
    )
    expected = np.sqrt(2) * rows_per_person * (answer.upper - answer.lower) / (used * MU_OF_HALF)
    with_range = int((answer.upper > answer.lower).sum())
    assert pytest.approx(expected * np.sqrt(with_range / 2), rel=1e-9) == answer.noise_scales


def test_constant_pairs_give_cutoffs_that_meet_and_a_mean_without_noise():
    answer = pmwm(method(), rows=800)(coordinates_of(np.full((400, 1), 5.0)))
    (meeting,) = answer.lower
    assert pytest.approx(7.0) == meeting
    assert (answer.upper.tolist(), answer.values.tolist()) == ([meeting], [meeting])
    assert [0.0] == answer.noise_scales.tolist()


@pytest.mark.parametrize("pair_rows", ["reuse", "split"])
@pytest.mark.parametrize("share", [SHARE, Budget.of("1/3", "1e-9"), Budget.of("0.7", "3e-7")])
def test_the_stages_sum_to_the_share_exactly(pair_rows, share):
    asked = method(pair_rows=pair_rows)
    quantile, mean = asked.stages(share, Size(802, 3, 2))
    assert quantile.stage.budget == Budget.of(share.epsilon / 2, 0)
    assert mean.stage.budget == Budget.of(share.epsilon / 2, share.delta)
    assert quantile.stage.budget + mean.stage.budget == share
    assert (PureLoss(epsilon=share.epsilon / 12, count=6),) == quantile.stage.losses
    assert [type(loss) for loss in mean.stage.losses] == [GaussianLoss]


def test_the_planned_noise_on_counts_is_twice_the_unit_over_the_epsilon_of_one_search():
    quantile, _ = method().stages(SHARE, Size(800, 3, 2))
    assert 2 * 2 / (1 / 12) == quantile.noise_scale


@pytest.mark.parametrize("pair_rows", ["reuse", "split"])
def test_the_planned_noise_of_the_mean_is_the_one_between_the_bounds(pair_rows):
    asked = method(pair_rows=pair_rows, lower_bound=2, upper_bound=10)
    (_, planned) = asked.stages(PLENTY, Size(802, 1, 1))
    w = np.random.default_rng(8).permutation(np.r_[np.zeros(201), np.full(200, 99.0)])[:, None]
    answer = pmwm(asked, rows=802)(coordinates_of(w))
    assert ([2.0], [10.0]) == (answer.lower.tolist(), answer.upper.tolist())
    assert pytest.approx(answer.noise_scales[0], rel=1e-9) == planned.noise_scale


@pytest.mark.parametrize("rows_per_person", [1, 3])
def test_the_price_is_just_below_the_share_for_every_number_of_rows_in_the_unit(rows_per_person):
    measurement = pmwm(method(), components=3, share=SHARE, rows_per_person=rows_per_person)
    for rows in range(1, rows_per_person + 1):
        epsilon, delta = measurement.map(rows)
        assert Fraction(epsilon) <= SHARE.epsilon
        assert Fraction(delta) <= SHARE.delta
        assert epsilon > 1 - 1e-9
    assert (0.0, 0.0) == measurement.map(0)


def test_more_rows_than_the_unit_have_no_price():
    with pytest.raises(OpenDPException):
        pmwm(method(), rows_per_person=2).map(3)


@pytest.mark.parametrize("fill", [0.0, 1e200, np.nan, np.inf])
def test_every_float_is_answered(fill):
    answer = pmwm(method(), rows=20, share=SHARE)(coordinates_of(np.full((10, 1), fill)))
    assert np.isfinite(answer.values).all()
    assert 0 <= answer.lower[0] <= answer.upper[0] <= 100


@pytest.mark.parametrize(("low", "high"), [(10, 10), (11, 10)])
def test_bounds_out_of_order_are_refused(low, high):
    with pytest.raises(InvalidValue, match=f"lower_bound must be below .* got {low}.0 and {high}"):
        method(lower_bound=low, upper_bound=high)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lower_bound", float("nan")),
        ("upper_bound", float("inf")),
        ("lower_bound", -1.0001e200),
        ("upper_bound", 1.0001e200),
        ("trim_constant", 0),
        ("trim_constant", -1),
        ("trim_fraction", -0.01),
        ("trim_fraction", 0.5),
        ("pair_rows", "both"),
        ("grid", {"beta": 1}),
        ("beta", 1.1),
    ],
)
def test_a_parameter_out_of_range_is_refused(name, value):
    with pytest.raises(InvalidValue, match=rf"^{name}\b"):
        method(**{name: value})


@pytest.mark.parametrize("name", ["lower_bound", "upper_bound"])
def test_the_bounds_have_no_default(name):
    asked = {"lower_bound": 0, "upper_bound": 1}
    del asked[name]
    with pytest.raises(InvalidValue, match=f"^{name} must be given"):
        PMWM(**asked)


def test_the_widest_bounds_are_answered():
    wide = method(lower_bound=-1e200, upper_bound=1e200)
    answer = pmwm(wide, rows=20, share=SHARE)(coordinates_of(np.full((10, 1), 1e200)))
    assert np.isfinite([answer.values, answer.lower, answer.upper, answer.noise_scales]).all()


def test_a_rate_below_the_least_is_refused_before_any_data():
    expected = r"epsilon_target must be at least 2\^-40 and finite; got .*\. Give a larger share\."
    with pytest.raises(ValueError, match=expected):
        pmwm(method(), share=Budget.of("1e-12", "1e-3"))
    with pytest.raises(ValueError, match=expected):
        pmwm(
            method(),
            share=Budget.of("1e-6", "1e-3"),
            rows=400_000,
            components=9,
            rows_per_person=100_000,
        )


def test_a_share_without_delta_is_refused_before_any_data():
    with pytest.raises(ValueError, match="a Gaussian stage must have epsilon and delta; got"):
        pmwm(method(), share=Budget.of("1", "0"))


def test_the_method_makes_its_own_measurement():
    space = matrix_domain(400, 1), rows_metric()
    made = method().make(*space, share=SHARE, rows_per_person=2)
    chain = space >> then_pmwm(method=method(), share=SHARE, rows_per_person=2)
    assert made.map(2) == chain.map(2) == pmwm(method(), share=SHARE, rows_per_person=2).map(2)


# Rings and allocation.


def test_a_split_of_a_ring_is_refused():
    with pytest.raises(
        InvalidValue,
        match=r'pair_rows must be "reuse" with a ring; got "split" and degree 4\. Only disjoint',
    ):
        method(degree=4)


def test_on_a_ring_the_cutoffs_are_those_of_disjoint_pairs_and_the_mean_is_the_rings():
    asked = method(pair_rows="reuse", degree=4, trim_fraction=0.1)
    table = coordinates_of(np.random.default_rng(7).permutation(np.linspace(0, 40, 4001))[:, None])
    answer = pmwm(asked, rows=8002)(table)
    assert pytest.approx((7.0, 63.0)) == (answer.lower[0], answer.upper[0])
    ring = np.asarray(Pairing(8002, 4, np.arange(8002)).half_squared_differences(table))
    expected = np.clip(ring, 7.0, 63.0).mean()
    disjoint = np.clip(table[1::2] ** 2 / 2, 7.0, 63.0).mean()
    assert abs(answer.values[0] - expected) <= 9 * answer.noise_scales[0] < 0.1
    assert abs(disjoint - expected) > 18 * answer.noise_scales[0]


@pytest.mark.parametrize("rows_per_person", [1, 3])
@pytest.mark.parametrize("allocation", ["equal", "minimum-variance"])
def test_the_noise_on_a_ring_is_that_of_the_rows(allocation, rows_per_person):
    asked = method(pair_rows="reuse", degree=6, noise_allocation=allocation)
    table = coordinates_of(np.tile([[0.0, 0.0], [40.0, 5.0]], (200, 1)))
    answer = pmwm(asked, rows=800, components=2, rows_per_person=rows_per_person)(table)
    ranges = answer.upper - answer.lower
    assert ranges[0] != ranges[1]
    delta = 2 * rows_per_person * ranges / 800
    mu = gaussian_mu(20, 1e-5)
    sigma = np.sqrt(2) * delta if allocation == "equal" else np.sqrt(delta * delta.sum())
    assert pytest.approx(sigma / mu, rel=1e-6) == answer.noise_scales


def test_the_planned_noise_is_that_of_a_ring_and_of_disjoint_quantiles():
    asked = method(pair_rows="reuse", degree=6, lower_bound=2, upper_bound=10)
    quantile, mean = asked.stages(SHARE, Size(800, 3, 2))
    assert 2 * 2 / (1 / 12) == quantile.noise_scale
    expected = np.sqrt(3) * 2 * 2 * 8 / (800 * MU_OF_HALF)
    assert pytest.approx(expected, rel=1e-9) == mean.noise_scale
