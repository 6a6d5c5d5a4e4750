"""The rules of composition: a contract that each must keep, and what each does on its own."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from fractions import Fraction
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from pydantic import TypeAdapter, ValidationError

from accountant.errors import InvalidAmount
from accountant.gaussian import gaussian_mu, lifted_mu
from accountant.losses import ApproximateLoss, GaussianLoss, Loss, PureLoss
from accountant.rules import CommittedRule, GaussianRule, Rule, SumRule
from accountant.specs import AnyBudget, Budget, GaussianBudget, Stage

AnyRule = SumRule | CommittedRule | GaussianRule
RULES: TypeAdapter[AnyRule] = TypeAdapter(Rule)
DIGITS = 60

GRANT = Budget.of("1", "1e-6")

unhurried = settings(
    deadline=None,
    max_examples=50,
    derandomize=True,  # so that nothing is replayed, and all rules may share one test
    suppress_health_check=[HealthCheck.differing_executors],
)
epsilons = st.fractions(0, 3, max_denominator=10**6)
deltas = st.fractions(0, Fraction(1, 10**7), max_denominator=10**12)
leaks = st.sampled_from([Fraction(0), Fraction(1, 10**18), Fraction(1, 10**20)])
counts = st.integers(1, 5)
any_loss = st.one_of(
    st.builds(PureLoss, epsilon=epsilons, count=counts),
    st.builds(GaussianLoss, mu=epsilons, leak=leaks, count=counts),
    st.builds(ApproximateLoss, epsilon=epsilons, delta=deltas, count=counts),
)
stages = st.builds(
    Stage,
    name=st.just("one"),
    budget=st.builds(Budget.of, epsilons, deltas),
    losses=st.lists(any_loss, min_size=1, max_size=3).map(tuple),
)
plans = st.lists(stages, max_size=4)
amounts_more = st.sampled_from([Fraction(1, 10**30), Fraction(1, 10**12), Fraction(1, 7)])


def stage(*losses: Loss, budget: Budget = GRANT) -> Stage:
    return Stage(name="one", budget=budget, losses=losses)


def leaking(loss: Loss) -> Stage:
    """A stage that tells the truth nearly always, and says so."""
    return stage(loss, budget=Budget.of(0, "0.999"))


EVERYTHING = [
    leaking(ApproximateLoss(epsilon=Fraction(0), delta=Fraction("0.999"))),
    leaking(GaussianLoss(mu=Fraction(0), leak=Fraction(1))),
]


@st.composite
def raised(draw: st.DrawFn, one: Stage) -> Stage:
    """The stage with more of one amount: of its budget and of one loss."""
    more = draw(amounts_more)
    budget = one.budget + draw(st.sampled_from([Budget.of(more, 0), Budget.of(0, more / 10**9)]))
    place = draw(st.integers(0, len(one.losses) - 1))
    loss = one.losses[place]
    names = sorted(set(type(loss).model_fields) - {"kind"})
    name = draw(st.sampled_from(names))
    step = {"count": 1, "delta": more / 10**9, "leak": more / 10**19}.get(name, more)
    larger = loss.model_copy(update={name: getattr(loss, name) + step})
    losses = (*one.losses[:place], larger, *one.losses[place + 1 :])
    return Stage(name=one.name, budget=budget, losses=losses)


class RuleContract(ABC):
    """What every rule of composition must keep."""

    needs_losses: ClassVar[bool] = True
    numerics: ClassVar[float] = 0.0
    """By what share a cost that came out of floats may fall though it should not."""

    @abstractmethod
    def rule(self, grant: Budget) -> AnyRule:
        """The rule of a grant or plan of this budget."""

    def cost(self, plan: list[Stage]) -> AnyBudget:
        return self.rule(GRANT).cost(plan)

    def price(self, plan: list[Stage]) -> tuple[Fraction | float, ...]:
        """The cost, infinite where the rule refuses to state one."""
        try:
            return self.cost(plan).coordinates
        except InvalidAmount:
            return math.inf, math.inf

    def assert_costs_at_least(self, more: list[Stage], less: list[Stage]) -> None:
        kept = 1 - Fraction(self.numerics)
        for cost, least in zip(self.price(more), self.price(less), strict=True):
            assert cost >= (least if least == math.inf else least * kept)

    def test_nothing_costs_nothing(self) -> None:
        nothing = self.cost([])
        assert (0, 0) == nothing.coordinates
        assert nothing.fits_within(self.rule(GRANT).capacity(GRANT))

    @pytest.mark.parametrize("everything", EVERYTHING)
    @unhurried
    @given(st.fractions(Fraction(1, 100), 100), st.integers(3, 15), plans)
    def test_a_leak_costs_everything(
        self, everything: Stage, epsilon: Fraction, power: int, plan: list[Stage]
    ) -> None:
        grant = Budget.of(epsilon, Fraction(1, 10**power))
        rule = self.rule(grant)
        try:
            fits = rule.cost([*plan, everything]).fits_within(rule.capacity(grant))
        except InvalidAmount:
            return
        assert not fits

    @unhurried
    @given(plans.flatmap(lambda plan: st.tuples(st.just(plan), st.permutations(plan))))
    def test_order_does_not_matter(self, plan: tuple[list[Stage], list[Stage]]) -> None:
        first, second = plan
        assert self.price(first) == self.price(second)

    @unhurried
    @given(plans, stages)
    def test_a_stage_more_never_costs_less(self, plan: list[Stage], more: Stage) -> None:
        self.assert_costs_at_least([*plan, more], plan)

    @unhurried
    @given(plans, stages.flatmap(lambda one: st.tuples(st.just(one), raised(one))))
    def test_a_larger_amount_never_costs_less(
        self, plan: list[Stage], pair: tuple[Stage, Stage]
    ) -> None:
        less, more = pair
        self.assert_costs_at_least([*plan, more], [*plan, less])

    def test_unknown_losses_are_refused_where_they_are_needed(self) -> None:
        unknown = [stage(PureLoss(epsilon=Fraction(1))), Stage(name="x", budget=GRANT, losses=())]
        if not self.needs_losses:
            assert Budget.of(2, "2e-6") == self.cost(unknown)
            return
        with pytest.raises(InvalidAmount) as refusal:
            self.cost(unknown)
        told = "stage 'x' must state its losses; got none. Use the rule sum."
        assert told == str(refusal.value)

    @unhurried
    @given(st.builds(Budget.of, epsilons, deltas), plans)
    def test_print_then_parse_is_the_identity(self, grant: Budget, plan: list[Stage]) -> None:
        rule = self.rule(grant)
        assert rule == RULES.validate_json(rule.model_dump_json())
        try:
            cost = self.cost(plan)
        except InvalidAmount:  # a leak may outweigh the delta of a plan
            reject()
        assert cost == type(cost).model_validate_json(cost.model_dump_json())

    def test_what_it_does_not_know_is_refused(self) -> None:
        body = self.rule(GRANT).model_dump(mode="json")
        with pytest.raises(ValidationError):
            RULES.validate_python({**body, "more": 1})


class TestSumRule(RuleContract):
    needs_losses = False

    def rule(self, grant: Budget) -> SumRule:
        return SumRule()


class TestCommittedRule(RuleContract):
    numerics = 1e-6

    def rule(self, grant: Budget) -> CommittedRule:
        return CommittedRule(delta=grant.delta)


class TestGaussianRule(RuleContract):
    def rule(self, grant: Budget) -> GaussianRule:
        return GaussianRule(budget=grant, set_aside=grant.delta / 2)


# The rule `sum`.


def test_sums_are_exact() -> None:
    tenth = stage(budget=Budget.of("0.1", "1e-7"))
    assert SumRule().cost([tenth] * 10).fits_within(SumRule().capacity(GRANT))
    assert not SumRule().cost([tenth] * 11).fits_within(GRANT)
    third = stage(budget=Budget.of("1/3", "1/3000000"))
    assert SumRule().cost([third] * 3) == SumRule().capacity(GRANT) == GRANT


# The rule `committed`.


def test_committed_losses_cost_less_than_their_sum() -> None:
    mu = Fraction(gaussian_mu(Fraction(1, 2), GRANT.delta))
    plan = [stage(PureLoss(epsilon=Fraction(1, 20), count=10)), stage(GaussianLoss(mu=mu))]
    cost = CommittedRule(delta=GRANT.delta).cost(plan)
    assert float(cost.epsilon) == pytest.approx(0.7927, abs=5e-5)
    assert cost.delta == GRANT.delta


@pytest.mark.parametrize("everything", EVERYTHING)
def test_committed_losses_that_no_epsilon_covers_are_refused(everything: Stage) -> None:
    with pytest.raises(InvalidAmount) as refusal:
        CommittedRule(delta=GRANT.delta).cost([everything])
    assert (
        "losses must keep delta 1/1000000; got some that no epsilon covers. "
        "Give the plan more delta."
    ) == str(refusal.value)


# The rule `gaussian`: what a pure epsilon costs.

SMALL = ["1e-9", "1e-6", "1e-3"]
USUAL = ["1/3", "1", "2", "10", "37", "100", "745", "1e4", "1e6"]


def real(value: Fraction | float) -> mpf:
    exact = Fraction(value)
    return mpf(exact.numerator) / exact.denominator


def covers(mu: float, epsilon: Fraction) -> bool:
    """Whether mu-GDP promises no more: Phi(-mu/2) (1 + e^epsilon) <= 1, with 60 digits."""
    with mp.workdps(60):
        return bool(mp.ncdf(-real(mu) / 2) * (1 + mp.exp(real(epsilon))) <= 1)


@pytest.mark.parametrize("epsilon", SMALL + USUAL)
def test_lifted_mu_is_the_smallest_float_that_covers(epsilon: str) -> None:
    mu = lifted_mu(Fraction(epsilon))
    assert covers(mu, Fraction(epsilon))
    assert not covers(math.nextafter(mu, 0), Fraction(epsilon))


@pytest.mark.parametrize("epsilon", SMALL)
def test_lifted_mu_of_a_small_epsilon_is_proportional_to_it(epsilon: str) -> None:
    ratio = lifted_mu(Fraction(epsilon)) / float(Fraction(epsilon))
    assert ratio == pytest.approx(math.sqrt(math.pi / 2), rel=1e-6)


def test_lifted_mu_of_one_agrees_with_a_table() -> None:
    assert lifted_mu(1) == pytest.approx(2 * 0.6160176926724505, rel=1e-14)


@pytest.mark.parametrize("epsilon", ["1000001", "1e9", "1e12"])
def test_lifted_mu_of_a_large_epsilon_covers_and_is_hardly_larger(epsilon: str) -> None:
    mu = lifted_mu(Fraction(epsilon))
    assert covers(mu, Fraction(epsilon))
    assert not covers(mu * (1 - 1e-5), Fraction(epsilon))


def test_lifted_mu_rises_from_zero() -> None:
    assert lifted_mu(0) == 0
    rising = [lifted_mu(Fraction(e)) for e in ["1e-300", "1e-39", *SMALL, *USUAL, "1000001"]]
    assert 0 < rising[0] < 1e-38
    assert rising == sorted(set(rising))


def test_lifted_mu_of_what_is_negative_is_refused() -> None:
    with pytest.raises(InvalidAmount, match=r"^epsilon must not be negative; got -1\. "):
        lifted_mu(-1)


# The rule `gaussian`: costs and capacities.

ASIDE = GaussianRule(budget=GRANT, set_aside=GRANT.delta / 2)
NOTHING_ASIDE = GaussianRule(budget=GRANT, set_aside=Fraction(0))
HAIR = Fraction(1, 10**18)


def odds(epsilon: Fraction) -> mpf:
    return 1 + mp.exp(real(epsilon))


def delta_of(mu_squared: Fraction, epsilon: Fraction) -> mpf:
    """The defining formula."""
    mu, e = mp.sqrt(real(mu_squared)), real(epsilon)
    return mp.ncdf(mu / 2 - e / mu) - mp.exp(e) * mp.ncdf(-mu / 2 - e / mu)


@unhurried
@given(plans)
def test_costs_are_exact_sums_rounded_up(plan: list[Stage]) -> None:
    mu_squared, aside, leaked = Fraction(0), Fraction(0), Fraction(0)
    for loss in (loss for one in plan for loss in one.losses):
        match loss:
            case GaussianLoss():
                mu_squared += loss.count * loss.mu**2
                leaked += loss.count * loss.leak
            case PureLoss():
                mu_squared += loss.count * Fraction(lifted_mu(loss.epsilon)) ** 2
            case ApproximateLoss():
                mu_squared += loss.count * Fraction(lifted_mu(loss.epsilon)) ** 2
                aside += loss.count * loss.delta
    cost = ASIDE.cost(plan)
    assert mu_squared <= cost.mu_squared <= mu_squared * (1 + HAIR)
    with mp.workdps(60):
        delta = real(aside) + real(leaked) * odds(GRANT.epsilon)
        assert delta <= real(cost.delta) <= delta * (1 + mpf("1e-14"))


def test_twenty_two_small_releases_fit_and_no_more() -> None:
    capacity = NOTHING_ASIDE.capacity(GRANT)
    small = stage(GaussianLoss(mu=Fraction("0.05")))
    assert capacity.mu_squared // Fraction("0.05") ** 2 == 22
    one = NOTHING_ASIDE.cost([small])
    assert GaussianBudget.of("0.0025", 0) == one
    total = GaussianBudget.of(0, 0)
    for _ in range(22):
        total += one
        assert total.fits_within(capacity)
    assert total == NOTHING_ASIDE.cost([small] * 22)
    assert not (total + one).fits_within(capacity)


@pytest.mark.parametrize("delta", ["1e-6", "1/3000000"])
@pytest.mark.parametrize("share", ["0", "1/7", "1/2"])
def test_capacity_is_the_mu_of_what_is_not_set_aside_rounded_down(delta: str, share: str) -> None:
    grant = Budget.of("1", delta)
    rule = GaussianRule(budget=grant, set_aside=grant.delta * Fraction(share))
    aside = grant.delta * (Fraction(share) + Fraction(1, 2**20))
    capacity = rule.capacity(grant)
    mu_squared = Fraction(gaussian_mu(1, grant.delta - aside)) ** 2
    assert aside * (1 - HAIR) <= capacity.delta <= aside
    assert mu_squared * Fraction("0.97") <= capacity.mu_squared <= mu_squared


def test_with_nothing_aside_nearly_all_of_delta_buys_mu() -> None:
    whole = Fraction(gaussian_mu(1, GRANT.delta)) ** 2
    assert whole * Fraction("0.999999") <= NOTHING_ASIDE.capacity(GRANT).mu_squared <= whole


raises = st.tuples(
    st.fractions(0, 3, max_denominator=100), st.fractions(0, 10, max_denominator=100)
)
shares = st.fractions(0, Fraction(99, 100), max_denominator=100)


@unhurried
@given(st.fractions(Fraction(1, 100), 3, max_denominator=100), shares, raises)
def test_capacity_and_aside_keep_the_delta_also_after_a_raise(
    epsilon: Fraction, share: Fraction, more: tuple[Fraction, Fraction]
) -> None:
    grant = Budget.of(epsilon, "1e-6")
    rule = GaussianRule(budget=grant, set_aside=grant.delta * share)
    larger = Budget.of(grant.epsilon + more[0], grant.delta * (1 + more[1]))
    try:
        capacity = rule.capacity(larger)
    except InvalidAmount:  # what was set aside weighs more than the whole
        reject()
    with mp.workdps(60):
        weight = odds(larger.epsilon) / odds(grant.epsilon)
        delta = delta_of(capacity.mu_squared, larger.epsilon) + weight * real(capacity.delta)
        assert delta <= real(larger.delta)


@unhurried
@given(st.fractions(Fraction(1, 100), 3, max_denominator=100), shares, raises)
def test_a_raise_by_which_delta_grows_as_leaks_do_lowers_no_coordinate(
    epsilon: Fraction, share: Fraction, more: tuple[Fraction, Fraction]
) -> None:
    grant = Budget.of(epsilon, "1e-6")
    rule = GaussianRule(budget=grant, set_aside=grant.delta * share)
    growth = 1 + more[1]
    if more[0]:
        growth *= Fraction(math.exp(more[0]) * (1 + 1e-12))  # more than the ratio of 1 + e^epsilon
    larger = Budget.of(epsilon + more[0], grant.delta * growth)
    assert rule.capacity(grant).fits_within(rule.capacity(larger))


@pytest.mark.parametrize("set_aside", ["1e-6", "0.9999995e-6", "1"])
def test_what_is_set_aside_must_leave_a_mu(set_aside: str) -> None:
    rule = GaussianRule(budget=GRANT, set_aside=Fraction(set_aside))
    with pytest.raises(InvalidAmount) as refusal:
        rule.capacity(GRANT)
    assert (
        f"set_aside must leave some of delta 1/1000000 for a mu; got {Fraction(set_aside)}. "
        "Set less aside."
    ) == str(refusal.value)


def test_a_raise_whose_leaks_would_weigh_more_than_its_delta_is_refused() -> None:
    with pytest.raises(InvalidAmount, match=r"^set_aside must leave some of delta "):
        ASIDE.capacity(Budget.of("3", "1e-6"))


def test_a_grant_above_the_largest_epsilon_is_refused() -> None:
    rule = GaussianRule(budget=Budget.of("100", "1e-6"), set_aside=Fraction(0))
    assert rule.capacity(rule.budget).mu_squared > 90
    with pytest.raises(InvalidAmount) as refusal:
        rule.capacity(Budget.of("101", "1e-6"))
    told = "epsilon must be at most 100 under the rule gaussian; got 101. Grant less."
    assert told == str(refusal.value)


@pytest.mark.parametrize("parts", [1, 3, 7])
def test_parts_fit_in_the_whole_with_their_share_of_the_rounding(parts: int) -> None:
    capacity = ASIDE.capacity(GRANT)
    mu = GaussianBudget.of(capacity.mu_squared * (1 - HAIR) / parts, 0).mu_below
    part = ASIDE.part(mu, ASIDE.set_aside / parts)
    total = sum([part] * parts, start=GaussianBudget.of(0, 0))
    assert total.fits_within(capacity)
    assert part.mu_squared >= mu**2
    rounding = GRANT.delta / 2**20 / parts
    assert part.delta - ASIDE.set_aside / parts == pytest.approx(rounding, rel=1e-9)
