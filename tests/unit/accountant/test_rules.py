"""The rules of composition: a contract that each must keep, and what each does on its own."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from pydantic import TypeAdapter, ValidationError

from accountant.accountant import Accountant
from accountant.amounts import in_short, show_delta_up
from accountant.errors import GrantConflict, InvalidAmount
from accountant.gaussian import gaussian_mu, lifted_mu
from accountant.losses import ApproximateLoss, GaussianLoss, Loss, PureLoss
from accountant.rules import CommittedRule, GaussianRule, Rule, SumRule, hardest
from accountant.specs import AnyBudget, Budget, GaussianBudget, PrivacyUnit, Stage

AnyRule = SumRule | CommittedRule | GaussianRule
RULES: TypeAdapter[AnyRule] = TypeAdapter(Rule)
DIGITS = 60

GRANT = Budget.of("1", "1e-6")

repeatable = settings(
    max_examples=25,
    derandomize=True,  # so that nothing is replayed, and all rules may share one test
    suppress_health_check=[HealthCheck.differing_executors, HealthCheck.too_slow],
)
often = settings(repeatable, max_examples=50)
epsilons = st.fractions(0, 3, max_denominator=12)  # few, as each is lifted once
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
            return (math.inf,) * len(self.cost([]).coordinates)

    def assert_costs_at_least(self, more: list[Stage], less: list[Stage]) -> None:
        kept = 1 - Fraction(self.numerics)
        for cost, least in zip(self.price(more), self.price(less), strict=True):
            assert cost >= (least if least == math.inf else least * kept)

    def test_nothing_costs_nothing(self) -> None:
        nothing = self.cost([])
        assert {0} == set(nothing.coordinates)
        assert nothing.fits_within(self.rule(GRANT).capacity(GRANT))

    @pytest.mark.parametrize("everything", EVERYTHING)
    @repeatable
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

    @repeatable
    @given(plans.flatmap(lambda plan: st.tuples(st.just(plan), st.permutations(plan))))
    def test_order_does_not_matter(self, plan: tuple[list[Stage], list[Stage]]) -> None:
        first, second = plan
        assert self.price(first) == self.price(second)

    @repeatable
    @given(plans, stages)
    def test_a_stage_more_never_costs_less(self, plan: list[Stage], more: Stage) -> None:
        self.assert_costs_at_least([*plan, more], plan)

    @repeatable
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

    @repeatable
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


def delta_of(capacity: GaussianBudget, epsilon: Fraction) -> mpf:
    """Of all three accounts at this epsilon: the defining formula."""
    mu, e = mp.sqrt(real(capacity.mu_squared)), real(epsilon)
    noise = mp.ncdf(mu / 2 - e / mu) - mp.exp(e) * mp.ncdf(-mu / 2 - e / mu)
    return noise + real(capacity.delta) + odds(epsilon) * real(capacity.leak)


@repeatable
@given(plans)
def test_costs_are_exact_sums_rounded_up(plan: list[Stage]) -> None:
    mu_squared, told, leaked = Fraction(0), Fraction(0), Fraction(0)
    for loss in (loss for one in plan for loss in one.losses):
        match loss:
            case GaussianLoss():
                mu_squared += loss.count * loss.mu**2
                leaked += loss.count * loss.leak
            case PureLoss():
                mu_squared += loss.count * Fraction(lifted_mu(loss.epsilon)) ** 2
            case ApproximateLoss():
                mu_squared += loss.count * Fraction(lifted_mu(loss.epsilon)) ** 2
                told += loss.count * loss.delta
    costs = ASIDE.cost(plan).coordinates
    for exact, cost in zip((mu_squared, told, leaked), costs, strict=True):
        assert exact <= cost <= exact * (1 + HAIR)


@often
@given(
    st.fractions(Fraction(1, 10**3), 10**3, max_denominator=10**6),
    st.integers(-320, 20),
    amounts_more,
    st.booleans(),
)
def test_rounding_never_makes_the_larger_of_two_amounts_the_smaller(
    amount: Fraction, power: int, more: Fraction, up: bool
) -> None:
    """Also where one has more digits in its fraction than the other."""
    amount *= Fraction(10) ** power
    less, larger = in_short(amount, up=up), in_short(amount * (1 + more), up=up)
    assert less <= larger
    assert less == in_short(less, up=True) == in_short(less, up=False)
    assert (amount <= less) if up else (amount >= less)
    if power > -270:
        assert abs(less - amount) <= amount * Fraction(1, 10**19)


TOO_MANY_DIGITS = Fraction(1, 3) + HAIR / 7
"""Of which a cost, rounded up, tells that it was."""


@pytest.mark.parametrize(
    ("loss", "rounded"),
    [
        (GaussianLoss(mu=TOO_MANY_DIGITS), [0]),
        (GaussianLoss(mu=TOO_MANY_DIGITS, leak=TOO_MANY_DIGITS), [0, 2]),
        (PureLoss(epsilon=TOO_MANY_DIGITS), [0]),
        (ApproximateLoss(epsilon=Fraction(0), delta=TOO_MANY_DIGITS), [1]),
    ],
    ids=["mu", "leak", "vote", "truth"],
)
def test_each_loss_costs_what_it_is_counted_in_alone_and_is_rounded_up(
    loss: Loss, rounded: list[int]
) -> None:
    costs = ASIDE.cost([stage(loss)]).coordinates
    assert rounded == [place for place, cost in enumerate(costs) if cost]
    for place, name in enumerate(("mu", "delta", "leak")):
        if (exact := getattr(loss, name, 0)) and place in rounded:
            exact = exact**2 if name == "mu" else exact
            assert exact < costs[place] <= exact * (1 + HAIR)


def truth(delta: Fraction) -> ApproximateLoss:
    return ApproximateLoss(epsilon=Fraction(0), delta=delta)


def leak(leak: Fraction) -> GaussianLoss:
    return GaussianLoss(mu=Fraction(0), leak=leak)


@pytest.mark.parametrize("of", [truth, leak])
@pytest.mark.parametrize("share", ["1/3", "1/2", "9/10"])
def test_truths_and_leaks_are_refused_beyond_what_is_kept_for_each(
    of: Callable[[Fraction], Loss], share: str
) -> None:
    """Whatever the other two accounts have left, or have not."""
    rule = GaussianRule(budget=GRANT, set_aside=in_short(GRANT.delta * Fraction(share), up=False))
    capacity = rule.capacity(GRANT)
    noise = GaussianLoss(mu=GaussianBudget.of(capacity.mu_squared * (1 - HAIR)).mu_below)
    kept, other = capacity.delta, leak(capacity.leak)
    if of is leak:
        kept, other = capacity.leak, truth(capacity.delta)
    for beside in ([], [noise, other]):
        for part in (1, 2, 8):  # whose parts have few enough digits
            losses = [*beside, *[of(kept / part)] * part]
            assert rule.cost([stage(*losses)]).fits_within(capacity)
            over = rule.cost([stage(*losses, of(kept * HAIR))]).beyond(capacity)
            place = 1 if of is truth else 2
            assert [place] == [at for at, amount in enumerate(over.coordinates) if amount]


def test_where_nothing_is_aside_no_truth_fits_and_leaks_do() -> None:
    capacity = NOTHING_ASIDE.capacity(GRANT)
    assert not NOTHING_ASIDE.cost([stage(truth(Fraction(1, 10**300)))]).fits_within(capacity)
    assert NOTHING_ASIDE.cost([stage(leak(capacity.leak))]).fits_within(capacity)


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
    capacity = rule.capacity(grant)
    mu = gaussian_mu(grant.epsilon, grant.delta - rule.set_aside, rule.leak)
    assert (rule.set_aside, rule.leak) == (capacity.delta, capacity.leak)
    assert Fraction(mu) ** 2 * (1 - HAIR) <= capacity.mu_squared <= Fraction(mu) ** 2
    above = Fraction(math.nextafter(mu, 1)) ** 2
    with mp.workdps(60):
        assert delta_of(capacity, grant.epsilon) <= real(grant.delta)
        more = capacity.model_copy(update={"mu_squared": above})
        assert delta_of(more, grant.epsilon) > real(grant.delta)


@pytest.mark.parametrize("epsilon", ["1/1000", "1", "10", "100"])
def test_the_leak_kept_weighs_a_small_part_of_delta_whatever_is_set_aside(epsilon: str) -> None:
    grant = Budget.of(epsilon, "1e-6")
    kept = {GaussianRule(budget=grant, set_aside=Fraction(aside)).leak for aside in (0, "5e-7")}
    with mp.workdps(60):
        weight = real(kept.pop()) * odds(grant.epsilon) * 2**20 / real(grant.delta)
        assert 1 - mpf("1e-14") < weight <= 1
    assert not kept


def test_with_nothing_aside_nearly_all_of_delta_buys_mu() -> None:
    whole = Fraction(gaussian_mu(1, GRANT.delta)) ** 2
    assert whole * Fraction("0.999999") <= NOTHING_ASIDE.capacity(GRANT).mu_squared <= whole


# The rule `gaussian`: raises. The rule of the first grant says what later ones hold.

shares = st.fractions(0, Fraction(99, 100), max_denominator=100)
first_epsilons = st.fractions(Fraction(1, 100), 5, max_denominator=100)
any_more = st.one_of(st.just(Fraction(0)), amounts_more, st.fractions(0, 10, max_denominator=100))


@often
@given(first_epsilons, shares, any_more, any_more)
def test_what_a_grant_holds_keeps_its_delta_also_after_a_raise(
    epsilon: Fraction, share: Fraction, more: Fraction, growth: Fraction
) -> None:
    grant = Budget.of(epsilon, "1e-6")
    rule = GaussianRule(budget=grant, set_aside=grant.delta * share)
    larger = Budget.of(grant.epsilon + more, grant.delta * (1 + growth))
    try:
        capacity = rule.capacity(larger)
    except InvalidAmount:  # the leak kept weighs more than what is left
        reject()
    assert (rule.set_aside, rule.leak) == (capacity.delta, capacity.leak)
    with mp.workdps(60):
        assert delta_of(capacity, larger.epsilon) <= real(larger.delta)


@often
@given(st.fractions(Fraction(1, 100), 100, max_denominator=100), shares, any_more)
def test_a_raise_of_delta_lowers_no_coordinate(
    epsilon: Fraction, share: Fraction, growth: Fraction
) -> None:
    grant = Budget.of(epsilon, "1e-6")
    rule = GaussianRule(budget=grant, set_aside=grant.delta * share)
    larger = Budget.of(epsilon, grant.delta * (1 + growth))
    assert rule.capacity(grant).fits_within(rule.capacity(larger))


@often
@given(
    first_epsilons,
    st.one_of(first_epsilons, amounts_more),
    st.one_of(
        st.integers(1, 10).map(lambda power: Fraction(1, 10**power)),
        st.fractions(Fraction(1, 10**10), Fraction(99, 100), max_denominator=10**10),
    ),
    st.fractions(0, Fraction(1, 2), max_denominator=100),
)
def test_a_raise_of_epsilon_up_to_five_lowers_no_coordinate(
    epsilon: Fraction, more: Fraction, delta: Fraction, share: Fraction
) -> None:
    """There the leak kept is below Phi(-mu/2 - epsilon/mu), and e^epsilon times both is a slope."""
    grant = Budget.of(epsilon, delta)
    rule = GaussianRule(budget=grant, set_aside=delta * share)
    larger = Budget.of(max(epsilon, min(epsilon + more, Fraction(5))), delta)
    assert rule.capacity(grant).fits_within(rule.capacity(larger))


@pytest.mark.parametrize("set_aside", ["1e-6", "0.9999995e-6", "1"])
def test_what_is_set_aside_must_leave_a_mu(set_aside: str) -> None:
    rule = GaussianRule(budget=GRANT, set_aside=Fraction(set_aside))
    with pytest.raises(InvalidAmount) as refusal:
        rule.capacity(GRANT)
    assert (
        f"delta must leave some for a mu beside {show_delta_up(Fraction(set_aside))} set aside "
        "and what rounding weighs; got 1e-6. Grant more delta, or set less aside."
    ) == str(refusal.value)


def test_what_is_set_aside_may_leave_hardly_more_than_rounding_weighs() -> None:
    rest = GRANT.delta / 2**20
    rule = GaussianRule(budget=GRANT, set_aside=GRANT.delta - rest * (1 + Fraction(1, 1000)))
    assert rule.capacity(GRANT).mu_squared > 0


def test_a_raise_whose_leaks_would_weigh_more_than_its_delta_is_refused() -> None:
    """2^-20 (1 + e^epsilon) / (1 + e) is half of delta at epsilon 14.48."""
    assert ASIDE.capacity(Budget.of("14.4", "1e-6")).mu_squared > 0
    with pytest.raises(InvalidAmount, match=r"^delta must leave some for a mu beside 5e-7 set "):
        ASIDE.capacity(Budget.of("14.5", "1e-6"))


def raise_to(ledger: Path, budget: Budget, reason: str | None = None) -> Accountant:
    """By a grant of (1, 1e-6), half set aside, and this raise of it."""
    return Accountant.grant(
        ledger,
        data_set="survey",
        budget=budget,
        unit=PrivacyUnit(rows_per_person=1),
        rule="gaussian",
        set_aside=GRANT.delta / 2,
        reason=reason,
    )


@pytest.mark.parametrize("epsilon", ["14.45", "14.5", "100"])
def test_the_accountant_refuses_a_raise_that_would_lower_mu_in_one_line(
    tmp_path: Path, epsilon: str
) -> None:
    ledger = tmp_path / "ledger.db"
    raise_to(ledger, GRANT)
    before = raise_to(ledger, Budget.of("14", GRANT.delta), "a second year").granted
    with pytest.raises(GrantConflict) as refusal:
        raise_to(ledger, Budget.of(epsilon, GRANT.delta), "a third")
    message = str(refusal.value)
    assert re.match(r"grant must hold more after a raise; got mu [0-9.]+ and .*\. Raise ", message)
    assert "\n" not in message
    after = Accountant(ledger, data_set="survey")
    assert before == after.granted
    assert Budget.of("14", GRANT.delta) == after.budget
    assert ["grant", "raise"] == [entry.kind for entry in after.entries()]


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
    asked = GaussianBudget.of(
        capacity.mu_squared * (1 - HAIR) / parts, ASIDE.set_aside / parts, capacity.leak
    )
    part = ASIDE.part(asked)
    assert sum([part] * parts, start=GaussianBudget.of(0)).fits_within(capacity)
    assert asked.mu_squared <= part.mu_squared <= asked.mu_squared * (1 + HAIR)
    assert asked.delta * (1 - HAIR) <= part.delta <= asked.delta
    fair = capacity.leak * asked.mu_squared / capacity.mu_squared
    assert fair * (1 - HAIR) <= part.leak <= fair


def test_no_part_has_more_than_all_of_the_rounding() -> None:
    whole = ASIDE.capacity(GRANT)
    assert whole.leak == ASIDE.part(GaussianBudget.of(2 * whole.mu_squared)).leak


def test_a_part_of_an_epsilon_is_refused() -> None:
    with pytest.raises(InvalidAmount) as refusal:
        ASIDE.part(GRANT)
    assert (
        "budget must be a mu under the rule gaussian; got epsilon 1 and delta 1e-6. "
        "Give mu, and what of the delta set aside."
    ) == str(refusal.value)


@pytest.mark.parametrize(
    ("losses", "advice"),
    [
        ([truth(Fraction("6e-7"))], "What is set aside does not cover that delta: use a release"),
        ([leak(ASIDE.leak * 2)], "What is kept for the rounding of noise is used up: ask the"),
        ([GaussianLoss(mu=Fraction(1))], "Ask for one Gaussian of at most mu 0.2"),
    ],
    ids=["delta", "leak", "mu"],
)
def test_advice_is_about_the_account_that_is_lacking(losses: list[Loss], advice: str) -> None:
    left = ASIDE.capacity(GRANT)
    asked = ASIDE.cost([stage(*losses)])
    assert ASIDE.advice(asked, left, GRANT, asked).startswith(advice)


# The hardest losses.


def test_the_hardest_losses_of_a_budget_are_a_vote_with_a_truth() -> None:
    assert (ApproximateLoss(epsilon=GRANT.epsilon, delta=GRANT.delta),) == hardest(GRANT)


@pytest.mark.parametrize("amounts", [(0, 0, 0), ("1/4", "1e-7", "1e-12"), ("2", "0", "1e-12")])
def test_the_hardest_losses_cost_what_they_are_the_hardest_of(amounts: tuple[str, ...]) -> None:
    """Its root may be rounded up, in the twentieth digit."""
    budget = GaussianBudget.of(*amounts)
    cost = ASIDE.cost([stage(*hardest(budget))])
    assert (budget.delta, budget.leak) == (cost.delta, cost.leak)
    assert budget.mu_squared <= cost.mu_squared <= budget.mu_squared * (1 + 3 * HAIR)
