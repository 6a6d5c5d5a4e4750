"""Grants whose charges add up as squares of mu, the same on each database."""

import math
import re
from collections.abc import Callable
from fractions import Fraction
from itertools import count
from typing import Any

import pytest

from accountant import (
    Accountant,
    AccountantError,
    ApproximateLoss,
    Authorization,
    Budget,
    BudgetExceeded,
    Charge,
    GaussianLoss,
    GrantConflict,
    InvalidAmount,
    InvalidValue,
    Loss,
    PrivacyUnit,
    PureLoss,
    Stage,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    to_text,
    verify,
)
from accountant.gaussian import lifted_mu
from accountant.specs import AnyBudget, GaussianBudget

from .conftest import COLUMNS, grant, make_charge, release_one

UNIT = PrivacyUnit(rows_per_person=5)
EXPLORING = Fraction("0.05")
MILLIONTH = Fraction(1, 10**6)
NOTHING = GaussianBudget.of(0, 0)


def kinds(keeper: Accountant) -> list[str]:
    return [entry.kind for entry in keeper.entries()]


def granted(address: str, rule: Any = "gaussian", **terms: Any) -> Accountant:
    """Granted (1, 1e-6), of which nothing is set aside unless it is said."""
    given = {"data_set": "survey", "budget": Budget.of("1", "1e-6"), "unit": UNIT}
    return Accountant.grant(address, **(given | {"rule": rule} | terms))


def pay(keeper: Accountant, key: str, *losses: Loss) -> Authorization:
    made = keeper.authorize(make_charge(key, losses=losses), rows=10, columns=COLUMNS)
    assert isinstance(made, Authorization)
    return made


def gaussian(mu: str | Fraction, leak: str = "0", times: int = 1) -> GaussianLoss:
    return GaussianLoss(mu=Fraction(mu), leak=Fraction(leak), count=times)


def told(epsilon: str, delta: str) -> ApproximateLoss:
    return ApproximateLoss(epsilon=Fraction(epsilon), delta=Fraction(delta))


@pytest.fixture
def keeper(address: str) -> Accountant:
    """Granted (1, 1e-5) by the rule gaussian, a tenth of delta set aside, on each database."""
    return grant(address, "gaussian")


def test_a_grant_is_recorded_with_its_rule_and_holds_a_mu(keeper: Accountant) -> None:
    (entry,) = keeper.entries()
    body = entry.document()
    assert (body["rule"], body["set_aside"]) == ("gaussian", "1e-6")
    assert body["budget"] == {"epsilon": "1", "delta": "1e-5"}
    assert keeper.budget == Budget.of("1", "1e-5")
    held = keeper.granted
    assert isinstance(held, GaussianBudget)
    assert held.delta == MILLIONTH
    mu = Fraction(gaussian_mu(1, Fraction("9e-6"), held.leak))
    assert 0 <= mu**2 - held.mu_squared < mu**2 / 10**18
    weighed = held.leak * Fraction(1 + math.e)
    assert 0 <= Fraction("1e-5") / 2**20 - weighed < weighed / 10**12
    assert Fraction(gaussian_delta(held.mu_below, 1)) + weighed + held.delta <= Fraction("1e-5")


@pytest.mark.parametrize(
    "terms",
    [
        {"rule": "sum", "set_aside": 0},
        {"set_aside": 0},
        {"set_aside": "2e-6"},
        {"set_aside": "2e-6", "reason": "more"},
        {"rule": "sum", "set_aside": 0, "budget": Budget.of("2", "1e-5"), "reason": "more"},
    ],
)
def test_another_rule_or_another_part_set_aside_is_a_conflict(
    keeper: Accountant, address: str, terms: dict[str, Any]
) -> None:
    terms = {"budget": Budget.of("1", "1e-5"), "set_aside": "1e-6"} | terms
    with pytest.raises(GrantConflict, match=r"^grant must keep its rule and what is set aside"):
        granted(address, **terms)
    assert kinds(keeper) == ["grant"]


def test_a_sum_does_not_become_gaussian(anywhere: Accountant, address: str) -> None:
    with pytest.raises(GrantConflict, match=r"got the rule gaussian .* has the rule sum"):
        granted(address, budget=Budget.of("1", "1e-5"))
    with pytest.raises(InvalidValue, match=r"^set_aside must be 0 under the rule sum"):
        granted(address, "sum", set_aside="1e-7")
    assert kinds(anywhere) == ["grant"]


def test_the_same_terms_again_change_nothing(keeper: Accountant, address: str) -> None:
    pay(keeper, "k", gaussian("0.1"))
    before = keeper.entries()
    for text in ("1e-6", "0.000001"):
        again = granted(address, budget=Budget.of("1", "1e-5"), set_aside=text)
        assert again.spent() == GaussianBudget.of("0.01", 0)
    assert before == keeper.entries()


def test_a_raise_keeps_the_rule_and_what_is_set_aside(keeper: Accountant, address: str) -> None:
    pay(keeper, "k", gaussian("0.1"), told("0.05", "3e-7"))
    before, spent = keeper.granted, keeper.spent()
    for _ in range(2):
        raised = grant(address, "gaussian", Budget.of("1.5", "2e-5"), reason="a second year")
    assert raised.budget == Budget.of("1.5", "2e-5")
    assert raised.spent() == spent
    assert before.coordinates[0] < raised.granted.coordinates[0]
    assert before.delta == raised.granted.delta  # set aside when it was granted, for ever
    assert kinds(keeper) == ["grant", "table", "charge", "raise"]
    again = grant(address, "gaussian")  # the first terms
    assert again.budget == Budget.of("1.5", "2e-5")
    assert kinds(keeper)[-1] == "raise"
    assert verify(keeper.ledger.entries()) == []


@pytest.mark.parametrize(
    ("budget", "complaint"),
    [
        (Budget.of("0.9", "1e-5"), "grant must never be lowered"),
        (Budget.of("2", "9e-6"), "grant must never be lowered"),
        # the leak weighs (1 + e^16) / (1 + e) as much, which is 2^21: more than all of delta
        (
            Budget.of("16", "1e-5"),
            r"grant must hold more after a raise; got mu 0 and .*Raise delta",
        ),
        (Budget.of("1", Fraction(1, 10**5) + Fraction(1, 10**40)), "grant must hold more after"),
    ],
)
def test_a_raise_after_which_the_grant_holds_no_more_is_refused_in_one_line(
    keeper: Accountant, address: str, budget: Budget, complaint: str
) -> None:
    with pytest.raises(GrantConflict, match=f"^{complaint}") as caught:
        grant(address, "gaussian", budget, reason="more")
    assert "\n" not in str(caught.value)
    assert kinds(keeper) == ["grant"]


def test_a_raise_that_would_lower_the_mu_is_refused(address: str) -> None:
    """The leak weighs more with a larger epsilon, and leaves less of delta for a mu.

    Beside what is set aside and the 2^-20 part that the leak weighs, 2e-14 of delta is left; at
    epsilon 1.025 a tenth of that.
    """
    terms = {"set_aside": to_text(MILLIONTH - MILLIONTH / 2**20 - Fraction("2e-14"))}
    keeper = granted(address, **terms)
    words = r"^grant must hold more after a raise; got mu 0\.\d+ and .* has mu 0\.\d+ and"
    with pytest.raises(GrantConflict, match=words) as caught:
        granted(address, budget=Budget.of("1.025", "1e-6"), reason="more", **terms)
    less, standing = map(float, re.findall(r"mu (0\.\d+)", str(caught.value)))
    assert 0 < less < standing == pytest.approx(float(keeper.granted.mu_below), rel=1e-5)
    assert str(caught.value).endswith("a larger epsilon weighs more on what is kept for rounding.")
    assert kinds(keeper) == ["grant"]
    granted(address, budget=Budget.of("1.025", "1.1e-6"), reason="more", **terms)
    assert kinds(keeper) == ["grant", "raise"]
    assert verify(keeper.ledger.entries()) == []


@pytest.mark.parametrize(
    ("terms", "complaint"),
    [
        ({"set_aside": "1e-6"}, "delta must leave some for a mu beside 1e-6 set aside"),
        ({"set_aside": "1"}, "delta must leave some for a mu beside 1e0 set aside"),
        ({"set_aside": 1e-7}, "set_aside must be text or an integer; got the float"),
        ({"set_aside": "-1e-7"}, "set_aside must not be negative"),
        ({"budget": Budget.of("101", "1e-6")}, "epsilon must be at most 100 under the rule"),
        ({"budget": Budget.of("0", "1e-6")}, "epsilon must be above 0"),
        ({"budget": Budget.of("1", "0")}, "delta must leave some for a mu beside 0 set aside"),
        ({"rule": "zcdp"}, "rule must be 'sum' or 'gaussian'; got 'zcdp'"),
    ],
)
def test_unusable_terms_are_one_line(address: str, terms: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidValue, match=f"^{complaint}") as caught:
        granted(address, **terms)
    assert "\n" not in str(caught.value)


def explore(keeper: Accountant, key: str, delta: Fraction) -> None:
    """One Gaussian of mu 0.05, priced as a sum would: its epsilon at this delta."""
    epsilon = Fraction(gaussian_epsilon(EXPLORING, delta))
    budget = Budget.of(Fraction(f"{float(epsilon) * (1 + 1e-12):.12g}"), delta)
    stage = Stage(name="mean", budget=budget, losses=(gaussian(EXPLORING),))
    charge = Charge(release_key=key, plan_hash=key, unit=UNIT, budget=budget, stages=(stage,))
    release_one(keeper, charge)


def granted_of_a_hundred(keeper: Accountant, delta: Fraction) -> int:
    for number in range(100):
        try:
            explore(keeper, f"k{number}", delta)
        except BudgetExceeded:
            return number
    return 100


def test_22_releases_of_mu_a_twentieth_fit_in_1_and_a_millionth(address: str) -> None:
    mu = gaussian_mu(1, MILLIONTH)
    assert math.floor(mu**2 / float(EXPLORING) ** 2) == 22
    keeper = granted(address)
    assert granted_of_a_hundred(keeper, MILLIONTH / 100) == 22
    assert keeper.spent() == GaussianBudget.of(22 * EXPLORING**2, 0)
    assert kinds(keeper)[-1] == "refusal"
    pay(keeper, "a smaller one", gaussian(keeper.remaining().mu_below))
    with pytest.raises(BudgetExceeded):
        pay(keeper, "no more", gaussian("1e-9"))
    assert verify(keeper.ledger.entries()) == []


def test_4_of_them_fit_in_the_sum_however_delta_is_split(address: str) -> None:
    """At a hundredth of delta each 4 fit; the best even split, a quarter each, holds no fifth."""
    fitting = [
        parts
        for parts in range(1, 101)
        if parts * Fraction(gaussian_epsilon(EXPLORING, MILLIONTH / parts)) <= 1
    ]
    assert max(fitting) == 4
    for number, parts in enumerate((100, 4)):
        keeper = granted(address, "sum", data_set=f"split {number}")
        assert granted_of_a_hundred(keeper, MILLIONTH / parts) == 4


def test_a_pure_loss_is_lifted_to_the_mu_that_covers_it(keeper: Accountant) -> None:
    pay(keeper, "k", PureLoss(epsilon=Fraction("0.03"), count=3))
    square = 3 * Fraction(lifted_mu(Fraction("0.03"))) ** 2
    spent = keeper.spent().coordinates
    assert spent[1] == 0
    assert square <= spent[0] < square * (1 + Fraction(1, 10**18))
    assert spent[0] == pytest.approx(3 * 0.0009 * math.pi / 2, rel=1e-3)


def test_a_chance_of_a_truth_needs_what_was_set_aside(address: str) -> None:
    keeper = granted(address)
    with pytest.raises(BudgetExceeded) as caught:
        pay(keeper, "k", told("0.01", "1e-8"))
    assert str(caught.value).endswith(
        "What is set aside does not cover that delta: use a release whose losses are pure or "
        "Gaussian."
    )
    assert caught.value.shortfall.coordinates[0] == 0
    assert caught.value.shortfall.delta == Fraction("1e-8") - keeper.granted.delta
    assert keeper.spent() == NOTHING
    pay(keeper, "k", PureLoss(epsilon=Fraction("0.01")))


def test_each_coordinate_is_refused_on_its_own(keeper: Accountant) -> None:
    pay(keeper, "first", told("0.01", "6e-7"))
    with pytest.raises(BudgetExceeded, match="What is set aside does not cover"):
        pay(keeper, "delta", told("0.01", "6e-7"))
    with pytest.raises(BudgetExceeded, match=r"Ask for one Gaussian of at most mu 0\.2\d+, "):
        pay(keeper, "mu", gaussian("0.3"), told("0", "1e-7"))
    with pytest.raises(BudgetExceeded, match=r"Ask for one Gaussian") as both:
        pay(keeper, "both", gaussian("0.3"), told("0", "6e-7"))
    assert all(both.value.shortfall.coordinates[:2])
    pay(keeper, "fits", gaussian("0.2"), told("0", "4e-7"))
    pure = Fraction(lifted_mu(Fraction("0.01"))) ** 2
    spent = keeper.spent().coordinates
    assert spent[1] == MILLIONTH
    assert 0 <= spent[0] - (pure + Fraction("0.04")) < Fraction(1, 10**18)
    assert kinds(keeper).count("refusal") == 3


def test_rounding_draws_on_what_is_kept_for_it(address: str) -> None:
    """A leak weighs 1 + e^epsilon, and a 2^-20 part of delta is kept for all of them."""
    keeper = granted(address)
    kept = MILLIONTH / 2**20 / Fraction(1 + math.e)
    pay(keeper, "k", gaussian("0.05", "1e-15"))
    assert keeper.spent() == GaussianBudget.of("0.0025", 0, "1e-15")
    most = math.floor(kept * 10**15) - 1
    pay(keeper, "all", gaussian("0.001", "1e-15", times=most))
    with pytest.raises(BudgetExceeded, match="What is kept for the rounding of noise is used up"):
        pay(keeper, "leak", gaussian("0.001", "1e-15"))
    pay(keeper, "none", gaussian("0.001"))


@pytest.mark.parametrize(
    ("stages", "complaint"),
    [
        ((), "stages must be stated under the rule gaussian"),
        (("mean",), "stage 'mean' must state its losses; got none"),
        (("mean", "scale"), "stage 'scale' must state its losses; got none"),
    ],
)
def test_a_charge_that_does_not_state_all_losses_is_refused_in_one_line(
    keeper: Accountant, stages: tuple[str, ...], complaint: str
) -> None:
    budget, part = Budget.of("0.1", "1e-6"), Budget.of("0.05", "5e-7")
    made = tuple(
        Stage(
            name=name,
            budget=part,
            losses=(gaussian("0.01"),) if name == "mean" and len(stages) == 2 else (),
        )
        for name in stages
    )
    charge = Charge(release_key="k", plan_hash="f00", unit=UNIT, budget=budget, stages=made)
    with pytest.raises(InvalidAmount, match=f"^{complaint}") as caught:
        keeper.authorize(charge, rows=10, columns=COLUMNS)
    assert "\n" not in str(caught.value)
    assert kinds(keeper) == ["grant"]


def committed(epsilon: str, delta: str, *losses: Loss) -> Charge:
    budget = Budget.of(epsilon, delta)
    stages = tuple(
        Stage(name=f"s{number}", budget=budget, losses=(loss,))
        for number, loss in enumerate(losses)
    )
    return Charge(
        release_key="k",
        plan_hash="f00",
        unit=UNIT,
        budget=budget,
        composition="committed",
        stages=stages,
    )


TEN = (gaussian("0.03"),) * 10  # together mu 0.0949: epsilon 0.376 at 1e-6, where the sum is 1.25


def test_a_committed_charge_costs_its_budget_or_its_losses(counted: Accountant) -> None:
    charge = committed("0.38", "1e-6", *TEN)
    together = gaussian_epsilon(math.sqrt(10) * 0.03, MILLIONTH)
    assert together < 0.38 < 10 * gaussian_epsilon(Fraction("0.03"), MILLIONTH / 10)
    release_one(counted, charge)
    paid: dict[str, AnyBudget] = {
        "sum": Budget.of("0.38", "1e-6"),
        "gaussian": GaussianBudget.of("0.009", 0),
    }
    assert counted.spent() == paid[counted.rule.kind]
    body = next(entry for entry in counted.entries() if entry.kind == "charge").document()
    assert body["composition"] == "committed"
    (line,) = counted.statement().charges
    assert (line.composition, line.cost) == ("committed", counted.spent())
    assert line.composed == pytest.approx(together, rel=1e-3)
    assert verify(counted.ledger.entries()) == []


@pytest.mark.parametrize(
    ("charge", "complaint"),
    [
        (("0.3", "1e-6", *TEN), "stages must come to at most the charge, epsilon 0.3 and .* by"),
        (("0.3", "1e-6", told("0.1", "2e-6")), "losses must keep delta"),
        (("0.3", "1e-6", PureLoss(epsilon=Fraction("0.301"))), "stages must come to at most"),
    ],
)
def test_a_committed_charge_whose_losses_do_not_fit_cannot_be_built(
    charge: tuple[Any, ...], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        committed(*charge)


def test_a_committed_charge_states_every_loss() -> None:
    budget = Budget.of("0.1", "1e-6")
    stage = Stage(name="mean", budget=budget, losses=())
    with pytest.raises(ValueError, match="stage 'mean' must state its losses"):
        committed("0.1", "1e-6").model_validate(
            committed("0.1", "1e-6").model_dump() | {"stages": [stage.model_dump()]}
        )


def test_sums_are_written_as_they_always_were(anywhere: Accountant) -> None:
    """Keys that say no more than the rule sum are left out, so old bodies keep their bytes."""
    release_one(anywhere, make_charge())
    of_kind = {entry.kind: entry for entry in anywhere.entries()}
    assert set(of_kind["grant"].document()) == {"actor", "budget", "purpose", "table", "unit"}
    assert of_kind["grant"].body == (
        '{"actor":"officer","budget":{"delta":"1e-5","epsilon":"1"},"purpose":"health study",'
        '"table":null,"unit":{"relation":"change-one","rows_per_person":5}}'
    )
    assert of_kind["charge"].body == (
        '{"actor":"ana","budget":{"delta":"1e-6","epsilon":"0.1"},"plan_hash":"f00",'
        '"purpose":"annual report","release_key":"k","stages":[{"budget":{"delta":"1e-6",'
        '"epsilon":"0.1"},"losses":[{"count":3,"epsilon":"0.01","kind":"pure"},{"count":1,'
        '"kind":"gaussian","leak":"0","mu":"1/3"}],"name":"mean"}],"unit":{"relation":'
        '"change-one","rows_per_person":5}}'
    )
    assert of_kind["charge"].balance == (
        '{"allocation":null,"allocations":{"granted":{"delta":"0","epsilon":"0"},"spent":'
        '{"delta":"0","epsilon":"0"}},"free":{"granted":{"delta":"1e-5","epsilon":"1"},"spent":'
        '{"delta":"1e-6","epsilon":"0.1"}}}'
    )


def test_a_gaussian_grant_with_nothing_set_aside_leaves_that_out(address: str) -> None:
    body = granted(address).entries()[0].document()
    assert body["rule"] == "gaussian"
    assert "set_aside" not in body


def test_an_allocation_is_a_mu_and_its_share_of_what_rounding_needs(keeper: Accountant) -> None:
    whole = keeper.granted
    half = Fraction(whole.coordinates[0] / 2)
    ana = keeper.allocate("ana", GaussianBudget.of(half, "4e-7"), purpose="thesis")
    mu_squared, delta, leak = ana.granted.coordinates
    assert 0 <= mu_squared - half < Fraction(1, 10**18)
    assert delta == Fraction("4e-7")
    assert 0 <= whole.leak / 2 - leak < whole.leak / 10**15
    assert keeper.granted + ana.granted == whole == keeper.balance().total.granted
    for _ in range(2):
        keeper.allocate("ana", GaussianBudget.of(half, "4e-7"))
    assert kinds(keeper) == ["grant", "allocation"]


def test_all_of_a_grant_can_be_allocated(keeper: Accountant) -> None:
    whole = keeper.granted
    ana = keeper.allocate("ana", GaussianBudget.of(whole.coordinates[0], MILLIONTH))
    assert (ana.granted, keeper.granted) == (whole, NOTHING)
    with pytest.raises(BudgetExceeded, match=r"Ask the privacy officer\.$"):
        pay(keeper, "k", gaussian("0.01"))
    pay(ana, "k", gaussian("0.01"))


@pytest.mark.parametrize(
    ("mu", "aside", "reason", "complaint"),
    [
        ("0.2", "1e-7", None, "allocation must keep its budget, or be raised with a reason"),
        ("0.05", "1e-7", "less", "allocation must never be lowered"),
        ("0.2", "0", "less aside", "allocation must never be lowered"),
        ("0.3", "1e-7", "more than there is", "request must fit in what remains, mu 0.2"),
        ("0.2", "2e-6", "more aside than there is", "request must fit in what remains"),
    ],
)
def test_an_allocation_keeps_its_mu(
    keeper: Accountant, mu: str, aside: str, reason: str | None, complaint: str
) -> None:
    keeper.allocate("ana", GaussianBudget.of("0.01", "1e-7"))
    with pytest.raises(AccountantError, match=f"^{complaint}"):
        keeper.allocate("ana", GaussianBudget.of(Fraction(mu) ** 2, aside), reason=reason)
    assert kinds(keeper) == ["grant", "allocation"]


@pytest.mark.parametrize(
    ("rule", "budget", "complaint"),
    [
        ("gaussian", Budget.of("0.1", "1e-6"), "budget must be a mu under the rule gaussian"),
        ("sum", GaussianBudget.of("0.01", 0), "budget must be epsilon and delta under the rule"),
        ("gaussian", GaussianBudget.of(0, "1e-7"), "mu_squared must be above 0"),
        ("gaussian", GaussianBudget.of("1/9973", 0), None),  # rounded up to a decimal
    ],
)
def test_an_allocation_is_counted_as_its_grant(
    address: str, rule: Any, budget: AnyBudget, complaint: str | None
) -> None:
    keeper = grant(address, rule)
    if complaint is None:
        part = keeper.allocate("ana", budget).granted.coordinates[0]
        assert 0 < part - Fraction(1, 9973) < Fraction(1, 10**20)
        return
    with pytest.raises(InvalidAmount, match=f"^{complaint}"):
        keeper.allocate("ana", budget)
    assert kinds(keeper) == ["grant"]


def test_a_void_gives_back_exactly_what_was_paid(keeper: Accountant) -> None:
    ana = keeper.allocate("ana", GaussianBudget.of("0.01", "2e-7"))
    losses = PureLoss(epsilon=Fraction(1, 7)), gaussian("1/30", "1e-17"), told("1/70", "1/70000000")
    for pool, key in ((keeper, "free"), (ana, "hers")):
        before = pool.pool()
        parts = losses if pool is keeper else losses[1:]
        pay(pool, key, *parts)
        assert pool.remaining() != before.remaining
        keeper.void(key, "the machine lost power")
        assert pool.pool() == before
    assert keeper.balance().total.spent == NOTHING
    assert verify(keeper.ledger.entries()) == []


def words_of(refused: Callable[[], object]) -> str:
    with pytest.raises(BudgetExceeded) as caught:
        refused()
    return str(caught.value)


def test_a_refusal_says_what_is_left_in_words(keeper: Accountant) -> None:
    left = keeper.granted.mu_below
    epsilon = gaussian_epsilon(left, Fraction("1e-5"))
    first = words_of(lambda: pay(keeper, "large", gaussian("0.3")))
    assert first == (
        "request must fit in what remains, mu 0.266364 and delta 1e-6 aside (spent mu 0 and delta "
        "0 aside of mu 0.266364 and delta 1e-6 aside); got mu 0.3 and delta 0 aside. Ask for one "
        "Gaussian of at most mu 0.266364, which is epsilon 0.993093 at delta 1e-5."
    )
    assert epsilon == pytest.approx(0.993093, abs=1e-6)
    ana = keeper.allocate("ana", GaussianBudget.of(Fraction("0.12") ** 2, 0))
    pay(ana, "last", gaussian("0.05"))
    assert words_of(lambda: pay(ana, "next", gaussian("0.2"))).endswith(
        "Ask for one Gaussian of at most mu 0.109087, which is epsilon 0.374522 at delta 1e-5, or "
        "4 more like the last release."
    )
    refusal = keeper.entries()[-1]
    assert (refusal.kind, refusal.allocation) == ("refusal", "ana")
    body = refusal.document()
    assert (body["asked"], body["spent"]) == (
        {"delta": "0", "leak": "0", "mu_squared": "0.04"},
        {"delta": "0", "leak": "0", "mu_squared": "0.0025"},
    )
    assert (body["remaining"]["mu_squared"], body["shortfall"]) == (
        "0.0119",
        {"delta": "0", "leak": "0", "mu_squared": "0.0281"},
    )


def test_what_a_refusal_promises_is_granted(keeper: Accountant) -> None:
    """So many more like the last are granted, and not one beyond them."""
    pay(keeper, "k0", gaussian("0.04"), told("0", "3e-7"))
    advice = words_of(lambda: pay(keeper, "large", gaussian("0.5")))
    assert advice.endswith("or 2 more like the last release.")  # the delta aside lasts no longer
    for key in ("k1", "k2"):
        pay(keeper, key, gaussian("0.04"), told("0", "3e-7"))
    with pytest.raises(BudgetExceeded):
        pay(keeper, "k3", gaussian("0.04"), told("0", "3e-7"))
    largest = Fraction(f"{float(keeper.remaining().mu_below) * (1 - 1e-6):.6f}")
    pay(keeper, "rest", gaussian(largest - Fraction(1, 10**6)))


def test_pools_add_up_exactly_whatever_is_paid(keeper: Accountant) -> None:
    ana = keeper.allocate("ana", GaussianBudget.of("0.02", "3e-7"))
    keys = count()
    for pool in (keeper, ana):
        for denominator in (7, 9, 11, 13):
            loss = PureLoss(epsilon=Fraction(1, 10 * denominator))
            pay(pool, f"k{next(keys)}", loss, told("1/1000", f"1/{denominator}00000000"))
    statement = keeper.statement()
    for side in ("granted", "spent", "remaining"):
        whole = getattr(statement, side)
        (part,) = [getattr(line, side) for line in statement.allocations]
        free = getattr(statement.free, side)
        assert free + part == whole
    assert statement.granted == statement.spent + statement.remaining
    assert verify(keeper.ledger.entries()) == []
