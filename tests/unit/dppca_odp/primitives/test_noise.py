import math
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest
from opendp.mod import OpenDPException

from accountant import Budget, GaussianLoss
from accountant.gaussian import gaussian_delta, gaussian_epsilon
from dppca_odp.primitives.noise import (
    LEAST_SCALE,
    MARGIN,
    ROUNDING,
    Link,
    chain_loss,
    gaussian_stage,
    gaussian_to_approximate,
    lowered,
    make_gaussian,
    make_gaussian_chain,
    stage_loss,
    then_gaussian,
    then_gaussian_chain,
)
from dppca_odp.primitives.sums import make_clamped_sum
from dppca_odp.spaces import (
    approximate,
    gaussian_privacy,
    integers_domain,
    integers_metric,
    matrix_domain,
    pure,
    rows_metric,
)

SCALE = 2.0**40
# mu of (epsilon, delta), Dong, Roth and Su (2022), Corollary 2.13, solved to 15 digits.
MU = {
    ("0.5", "1e-6"): 0.124106149030528,
    ("1", "1e-5"): 0.268051123211294,
    ("3", "1e-5"): 0.719117435221793,
    ("8", "1e-6"): 1.53154511756615,
}
# epsilon of (mu, delta), by the same formula.
EPSILON = {
    (0.5, 1e-6): 2.25408465021974,
    (1.0, 1e-5): 4.37717809568122,
    (2.0, 1e-6): 10.9971512142207,
}


def gaussian(size=2, *, scale=SCALE):
    return make_gaussian(integers_domain(size), integers_metric(), scale=scale)


def price(measurement, distance, *, delta=1e-6):
    return gaussian_to_approximate(measurement, delta=delta).map(distance)


PARTS = ("1/2", "1/3", "1/6")


def chain_of_sums(*, d_in=2, shares=PARTS, mu="1/2", leak="1e-12", run=None, least=2.0**32):
    """A chain that asks for the same sum of one column in [0, 1], unless told otherwise."""
    space = matrix_domain(50, 1), rows_metric()
    total = make_clamped_sum(*space, lower=0.0, upper=1.0)
    return make_gaussian_chain(
        *space,
        d_in=d_in,
        loss=GaussianLoss(mu=mu, leak=leak),
        links=[Link(Fraction(share), 1) for share in shares],
        least_sensitivity=least,
        run=run or (lambda ask: [ask(total) for _ in shares]),
    )


@pytest.mark.parametrize("share", [("1", "1e-5"), ("1/3", "1e-9"), ("0.1", "1e-6")])
def test_a_stage_costs_a_little_less_than_its_share(share):
    budget = Budget.of(*share)
    for float_loss, exact in zip(stage_loss(budget), (budget.epsilon, budget.delta), strict=True):
        assert exact * (1 - Fraction(2, 10**12)) < Fraction(float_loss) < exact


@pytest.mark.parametrize("amount", ["1", "1/3", "1e-300", "1e300", "0.1"])
def test_an_amount_is_lowered_by_the_margin_and_then_to_a_float(amount):
    exact = Fraction(amount)
    assert Fraction(lowered(exact)) <= exact * (1 - MARGIN)
    assert Fraction(math.nextafter(lowered(exact), math.inf)) > exact * (1 - MARGIN)


def test_nothing_is_lowered_to_nothing():
    assert 0.0 == lowered(Fraction(0))


def test_three_thirds_of_a_delta_stay_below_it_in_floats():
    delta = Fraction("1e-6")
    _, third = stage_loss(Budget.of("1", delta / 3))
    assert Fraction(third + third + third) <= delta


@pytest.mark.parametrize(("share", "mu"), MU.items())
def test_the_mu_of_a_share_is_the_calibration_of_the_gaussian(share, mu):
    stage = gaussian_stage(Budget.of(*share), sensitivity=2.0**40, numbers=5)
    assert pytest.approx(mu, rel=1e-9) == stage.mu
    assert stage.mu < mu
    assert Fraction(stage.mu) == stage.loss.mu


def test_many_numbers_and_coarse_noise_leave_less_mu():
    share = Budget.of("1", "1e-18")
    fine = gaussian_stage(share, sensitivity=2.0**40, numbers=1)
    coarse = gaussian_stage(share, sensitivity=1.0, numbers=1)
    many = gaussian_stage(share, sensitivity=1.0, numbers=10)
    assert many.mu < coarse.mu < fine.mu
    assert many.loss.leak > coarse.loss.leak > fine.loss.leak > 0


@pytest.mark.parametrize("sensitivity", [1.0, 2.0**32, 1e15])
def test_the_leak_of_a_stage_is_that_of_all_its_numbers_at_its_scale(sensitivity):
    stage = gaussian_stage(Budget.of("1", "1e-5"), sensitivity=sensitivity, numbers=7)
    assert 7 * ROUNDING / Fraction(stage.scale) ** 2 == stage.loss.leak


@pytest.mark.parametrize("parts", [["1"], ["1/3"] * 3])
@pytest.mark.parametrize("share", MU)
def test_a_stage_states_a_little_more_than_it_costs_and_its_share_pays_for_that(share, parts):
    stage = gaussian_stage(Budget.of(*share), sensitivity=2.0**32, numbers=1)
    loss = stage.loss
    mu, leak = chain_of_sums(d_in=1, shares=parts, mu=loss.mu, leak=loss.leak).map(1)
    assert loss.mu * (1 - Fraction(4, 10**12)) < mu <= loss.mu
    assert loss.leak * (1 - Fraction(1, 10**11)) < leak <= loss.leak
    epsilon, delta = stage_loss(Budget.of(*share))
    stated = gaussian_epsilon(stage.loss.mu, delta, leak=stage.loss.leak)
    assert epsilon * (1 - 1e-9) < stated <= epsilon


@pytest.mark.parametrize("sensitivity", [2.0**32, 3 * 2.0**32, 1e15])
def test_a_loss_stated_for_the_least_sensitivity_is_the_same_at_any(sensitivity):
    share = Budget.of("1", "1e-18")
    least = gaussian_stage(share, sensitivity=2.0**32, numbers=4)
    stage = gaussian_stage(share, sensitivity=sensitivity, numbers=4, least_sensitivity=2.0**32)
    assert stage.loss == least.loss
    assert pytest.approx(sensitivity / 2**32, rel=1e-12) == stage.scale / least.scale
    mu, leak = gaussian(4, scale=stage.scale).map(sensitivity)
    assert mu <= stage.loss.mu
    assert leak <= stage.loss.leak


KEEP = "a Gaussian stage must have a share that noise on 64-bit integers can keep; got"


@pytest.mark.parametrize("share", [("0", "1e-6"), ("1", "0")])
def test_a_gaussian_stage_without_epsilon_or_delta_is_refused(share):
    with pytest.raises(ValueError, match="a Gaussian stage must have epsilon and delta; got"):
        gaussian_stage(Budget.of(*share), sensitivity=1.0, numbers=1)


def test_a_share_too_large_for_coarse_integers_is_refused():
    expected = f"^{KEEP} epsilon 100 and"
    with pytest.raises(ValueError, match=expected) as caught:
        gaussian_stage(Budget.of("100", "1e-6"), sensitivity=1.0, numbers=1)
    assert str(caught.value).endswith("Ask for less epsilon or more delta.")


@pytest.mark.parametrize("sensitivity", [2.0**32, 1e17])
def test_a_share_too_small_for_any_noise_is_refused(sensitivity):
    with pytest.raises(ValueError, match=KEEP):
        gaussian_stage(Budget.of("1e-300", "1e-300"), sensitivity=sensitivity, numbers=1)


def test_a_share_that_floats_cannot_keep_is_refused():
    expected = "a Gaussian stage must keep its share in floating point; got .* Ask for more."
    with pytest.raises(ValueError, match=expected):
        gaussian_stage(Budget.of("1e-100", "1e-100"), sensitivity=2.0**32, numbers=1)


def test_the_scale_is_rounded_to_more_noise():
    stage = gaussian_stage(Budget.of("1", "1e-5"), sensitivity=2.0**40, numbers=1)
    exact = Fraction(2) ** 40 / Fraction(lowered(stage.loss.mu))
    assert exact <= Fraction(stage.scale) <= exact * (1 + Fraction(1, 10**14))


def test_the_scale_is_never_below_the_least():
    stage = gaussian_stage(Budget.of("1", "1e-5"), sensitivity=1.0, numbers=1)
    assert LEAST_SCALE == 2**30 == stage.scale


@pytest.mark.parametrize(("at", "epsilon"), EPSILON.items())
def test_the_price_of_a_gaussian_is_that_of_its_mu(at, epsilon):
    mu, delta = at
    found = price(gaussian(), mu * SCALE, delta=delta)
    assert found == (pytest.approx(epsilon, rel=1e-9), delta)
    assert found[0] >= epsilon * (1 - 1e-14)


def test_nothing_changed_costs_nothing():
    assert (0, 0) == gaussian().map(0.0)
    assert (0.0, 0.0) == price(gaussian(), 0.0)


def test_the_price_is_never_below_gaussian_differential_privacy():
    for mu in (0.1, 0.7, 3.0):
        epsilon, delta = price(gaussian(), mu * SCALE, delta=1e-8)
        assert gaussian_delta(mu, epsilon) <= delta


def test_the_difference_between_integer_and_rounded_noise_is_priced():
    at_least, fine = 2.0**30, 2.0**45
    coarse_price = price(gaussian(size=100, scale=at_least), at_least, delta=1e-17)[0]
    fine_price = price(gaussian(size=100, scale=fine), fine, delta=1e-17)[0]
    assert coarse_price > fine_price * (1 + 1e-9)


def test_the_answer_has_one_integer_for_each_sum():
    answer = gaussian(size=3)([1, 2, 3])
    assert [type(value) for value in answer] == [int, int, int]


def test_sums_at_the_end_of_64_bits_are_answered():
    end = 2**63 - 1
    answer = gaussian(size=2, scale=2.0**30)([end, -end])
    assert all(-(2**63) <= value < 2**63 for value in answer)


@pytest.mark.parametrize("scale", [0.0, -1.0, 2.0**30 - 1, math.inf, math.nan])
def test_a_scale_below_the_least_is_refused(scale):
    with pytest.raises(
        ValueError, match=f"^scale must be at least 2\\^30 integer units; got {scale}. Count"
    ):
        gaussian(scale=scale)


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-6, 2.0, math.nan])
def test_a_delta_outside_0_to_1_is_refused(delta):
    with pytest.raises(
        ValueError, match=rf"^delta must be in \(0, 1\); got {delta}\. Use a small one"
    ):
        gaussian_to_approximate(gaussian(), delta=delta)


def test_gaussians_answer_in_their_own_measure_and_are_priced_in_another():
    for measurement in (gaussian(), chain_of_sums()):
        assert gaussian_privacy() == measurement.output_measure
        assert approximate() == gaussian_to_approximate(measurement, delta=1e-6).output_measure


@pytest.mark.parametrize("ratio", [2.0**-30, 1 / 3, 0.1, 2.5])
def test_mu_is_the_distance_over_the_scale_rounded_up(ratio):
    mu, leak = gaussian(3).map(ratio * SCALE)
    assert Fraction(ratio) <= mu <= Fraction(ratio) * (1 + Fraction(1, 10**15))
    assert leak == 3 * ROUNDING / Fraction(SCALE) ** 2


def test_the_answer_is_the_same_when_it_is_priced():
    assert len(gaussian_to_approximate(gaussian(3), delta=1e-6)([1, 2, 3])) == 3


def test_only_gaussian_privacy_is_priced_as_such():
    foreign = dp.m.make_gaussian(integers_domain(2), integers_metric(), scale=SCALE)
    randomised = dp.m.make_user_measurement(
        integers_domain(2), integers_metric(), pure(), lambda data: 0, lambda d_in: 1.0
    )
    for measurement in (foreign, randomised):
        with pytest.raises(ValueError, match=r"^measurement must be of Gaussian diff"):
            gaussian_to_approximate(measurement, delta=1e-6)


@pytest.mark.parametrize(
    "domain",
    [
        dp.vector_domain(dp.atom_domain(T="i64")),
        dp.vector_domain(dp.atom_domain(T="i32"), size=2),
        dp.vector_domain(dp.atom_domain(T="f64", nan=False), size=2),
        matrix_domain(2, 2),
    ],
    ids=["size unknown", "32 bits", "floats", "a matrix"],
)
def test_a_domain_other_than_sized_64_bit_integers_is_refused(domain):
    with pytest.raises(
        ValueError,
        match=r"^input_domain must be vectors of i64 of a fixed size; got .* Use integers_domain",
    ):
        make_gaussian(domain, integers_metric(), scale=SCALE)


def test_a_metric_other_than_euclidean_distance_is_refused():
    with pytest.raises(ValueError, match=r"input_metric must be l2_distance\(T=f64\); got L1"):
        make_gaussian(integers_domain(2), dp.l1_distance(T="i64"), scale=SCALE)


@pytest.mark.parametrize("shares", [("1",), ("1/2", "1/3", "1/6"), ("0.1",) * 10])
@pytest.mark.parametrize("mu", ["1/1000", "0.268", "7"])
def test_a_chain_costs_one_gaussian(shares, mu):
    chain = chain_of_sums(shares=shares, mu=mu)
    for d_in in (1, 2):
        found, leak = chain.map(d_in)
        assert Fraction(mu) * Fraction(1 - 1e-11) < found <= Fraction(mu)
        assert 0 < leak < 1e-15
    assert (0, 0) == chain.map(0)


def test_a_chain_may_leave_some_of_mu():
    found, _ = chain_of_sums(shares=("1/4",), mu="1").map(2)
    assert float(found) == pytest.approx(0.5, rel=1e-11)


def test_more_changed_rows_than_declared_have_no_price_in_a_chain():
    with pytest.raises(OpenDPException):
        chain_of_sums(d_in=2).map(3)


def test_each_noise_is_that_of_its_part_of_mu_squared_and_of_its_own_sum():
    answers = chain_of_sums(d_in=2, shares=("1/4", "3/4"), mu="1")(np.ones((50, 1)))
    assert [answer.scale / 2.0**33 for answer in answers] == pytest.approx([2, (4 / 3) ** 0.5])
    assert [answer.sums[0] / 2**32 for answer in answers] == pytest.approx([50, 50], abs=50)


def test_a_sum_of_less_than_the_least_sensitivity_has_the_noise_of_that():
    chain = chain_of_sums(d_in=1, shares=("1",), mu="1", least=2.0**40)
    (answer,) = chain(np.ones((50, 1)))
    assert answer.scale == pytest.approx(2.0**40)


def test_the_leak_is_that_of_the_coarsest_noise():
    shares = [Fraction("1/4"), Fraction("3/4")]
    _, leak = chain_of_sums(shares=shares, mu="1").map(2)
    coarsest = sum(ROUNDING * share / Fraction(2) ** 64 for share in shares)
    assert float(leak) == pytest.approx(float(coarsest), rel=1e-9)


def test_each_sum_may_be_chosen_from_the_answers_before_it():
    """The noise, at its least scale, moves it by 0.4 %."""
    space = matrix_domain(50, 1), rows_metric()

    def search(ask):
        upper = 1.0
        for _ in range(3):
            total = make_clamped_sum(*space, lower=0.0, upper=upper)
            upper *= 1 + ask(total).sums[0] / 2**32 / 50
        return upper

    found = chain_of_sums(run=search, mu="1000", d_in=1)(np.full((50, 1), 100.0))
    assert found == pytest.approx(8, rel=0.04)


def test_links_that_are_left_are_not_missed():
    assert chain_of_sums(run=lambda ask: "enough")(np.ones((50, 1))) == "enough"


def test_a_sum_without_a_link_is_refused():
    space = matrix_domain(50, 1), rows_metric()
    total = make_clamped_sum(*space, lower=0.0, upper=1.0)
    chain = chain_of_sums(shares=("1",), run=lambda ask: [ask(total), ask(total)])
    with pytest.raises(OpenDPException, match="a sum must have a link"):
        chain(np.ones((50, 1)))


def test_a_sum_of_more_integers_than_its_link_is_refused():
    two = make_clamped_sum(matrix_domain(50, 2), rows_metric(), lower=0.0, upper=1.0)
    chain = chain_of_sums(run=lambda ask: ask(two))
    with pytest.raises(OpenDPException, match="as many integers"):
        chain(np.ones((50, 1)))


@pytest.mark.parametrize("mu", ["1", "4.5"])
@pytest.mark.parametrize("parts", [1, 7, 1000])
def test_the_loss_of_a_chain_holds_the_leak_of_all_its_noises(mu, parts):
    """Also of one so large that a single noise would be at the least scale and leak less."""
    share = Budget.of(str(gaussian_epsilon(Fraction(mu), Fraction("1e-5"))), "1e-5")
    links = [Link(Fraction(1, parts), 1)] * parts
    loss = chain_loss(share, links, least_sensitivity=2.0**32)
    chain = chain_of_sums(d_in=1, shares=[link.share for link in links], mu=loss.mu, leak=loss.leak)
    found, leak = chain.map(1)
    assert loss.mu * (1 - Fraction(1, 10**11)) < found <= loss.mu
    assert leak == loss.leak


def test_a_loss_without_the_leak_of_its_noises_is_refused():
    with pytest.raises(ValueError, match="loss must hold the leak of all noises"):
        chain_of_sums(leak=0)


@pytest.mark.parametrize("shares", [(), ("0", "1"), ("1/2", "1/2", "1/1000")])
def test_links_that_divide_more_than_mu_squared_are_refused(shares):
    with pytest.raises(ValueError, match="links must have shares above 0 that come to at most 1"):
        chain_of_sums(shares=shares)


def test_a_chain_asks_for_the_metric_of_its_sums():
    chain = make_gaussian_chain(
        matrix_domain(5, 1),
        dp.change_one_distance(),
        d_in=1,
        loss=GaussianLoss(mu=1, leak="1e-9"),
        links=[Link(Fraction(1), 1)],
        least_sensitivity=1.0,
        run=lambda ask: ask(
            make_clamped_sum(matrix_domain(5, 1), rows_metric(), lower=0.0, upper=1.0)
        ),
    )
    with pytest.raises(OpenDPException):
        chain(np.ones((5, 1)))


def test_the_gaussians_chain():
    space = integers_domain(2), integers_metric()
    assert (space >> then_gaussian(scale=SCALE)).map(SCALE) == gaussian().map(SCALE)
    rows = matrix_domain(50, 1), rows_metric()
    chain = rows >> then_gaussian_chain(
        d_in=2,
        loss=GaussianLoss(mu="1/2", leak="1e-12"),
        links=[Link(Fraction(share), 1) for share in PARTS],
        least_sensitivity=2.0**32,
        run=lambda ask: None,
    )
    assert chain.map(2) == chain_of_sums().map(2)
