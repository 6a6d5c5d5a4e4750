"""Raises, allocations and voids, the same on each database."""

from collections.abc import Callable
from fractions import Fraction

import pytest

from accountant import (
    Accountant,
    AccountantError,
    Authorization,
    Budget,
    BudgetExceeded,
    Charge,
    GrantConflict,
    InvalidAmount,
    InvalidValue,
    NoGrant,
    OutOfOrder,
    PrivacyUnit,
    StoredRelease,
    verify,
)
from accountant.amounts import in_short
from accountant.rules import GaussianRule
from accountant.specs import GaussianBudget

from .conftest import COLUMNS, charge_to, make_charge, manage, part_of, release_one

UNIT = PrivacyUnit(rows_per_person=5)
Release = Callable[[Accountant, Charge], Authorization]


def kinds(keeper: Accountant) -> list[str]:
    return [entry.kind for entry in keeper.entries()]


def raise_to(keeper: Accountant, epsilon: str, delta: str, reason: str = "more") -> Accountant:
    budget = Budget.of(epsilon, delta)
    return Accountant.grant(
        keeper.ledger, data_set="survey", budget=budget, unit=UNIT, reason=reason
    )


def pay(keeper: Accountant, key: str, epsilon: str = "0.1") -> Authorization:
    granted = keeper.authorize(charge_to(keeper, key, epsilon), rows=10, columns=COLUMNS)
    assert isinstance(granted, Authorization)
    return granted


def assert_adds_up(keeper: Accountant) -> None:
    """Granted = free pool + allocations; each = spent + remaining; all exactly."""
    statement = keeper.statement()
    pools = [statement.free, *statement.allocations]
    for coordinate in (0, 1):
        granted, spent, remaining = (
            [getattr(pool, part).coordinates[coordinate] for pool in pools]
            for part in ("granted", "spent", "remaining")
        )
        assert sum(granted) == statement.granted.coordinates[coordinate]
        assert sum(spent) == statement.spent.coordinates[coordinate]
        assert granted == [a + b for a, b in zip(spent, remaining, strict=True)]
        assert all(isinstance(amount, Fraction) for amount in granted)
    assert verify(keeper.ledger.entries()) == []


def test_an_allocation_is_taken_from_the_free_pool(anywhere: Accountant) -> None:
    ana = anywhere.allocate("ana", Budget.of("0.3", "3e-6"), purpose="thesis")
    assert (ana.allocation, ana.granted) == ("ana", Budget.of("0.3", "3e-6"))
    assert anywhere.granted == Budget.of("0.7", "7e-6")
    assert anywhere.balance().total.granted == Budget.of("1", "1e-5")
    assert kinds(anywhere) == ["grant", "allocation"]
    assert_adds_up(anywhere)


def test_a_charge_draws_on_its_pool_alone(counted: Accountant) -> None:
    ana = counted.allocate("ana", part_of(counted, "0.3", "3e-6"))
    whole = ana.remaining(), counted.remaining()
    release_one(ana, charge_to(ana, "a", "0.3"))
    release_one(counted, charge_to(counted, "b", "0.7"))
    spent = part_of(counted, "0.3", "1e-6"), part_of(counted, "0.7", "1e-6")
    assert (ana.spent(), counted.spent()) == spent
    assert (ana.remaining(), counted.remaining()) == (whole[0] - spent[0], whole[1] - spent[1])
    for keeper in (ana, counted):
        with pytest.raises(BudgetExceeded) as caught:
            pay(keeper, "c", "0.02")
        assert caught.value.allocation == keeper.allocation
    assert kinds(counted)[-2:] == ["refusal", "refusal"]
    assert_adds_up(counted)


def test_a_refusal_names_the_allocation(anywhere: Accountant) -> None:
    ana = anywhere.allocate("ana", Budget.of("0.3", "3e-6"))
    words = r"^request must fit in what remains of allocation 'ana', epsilon 0\.3 and delta 3e-6"
    with pytest.raises(BudgetExceeded, match=words):
        pay(ana, "a", "0.4")
    assert anywhere.entries()[-1].allocation == "ana"


def test_a_stored_release_is_free_whoever_paid_for_it(counted: Accountant) -> None:
    ana = counted.allocate("ana", part_of(counted, "0.3", "3e-6"))
    charge = charge_to(ana, "a")
    release_one(ana, charge)
    found = counted.authorize(charge, rows=10, columns=COLUMNS)
    assert isinstance(found, StoredRelease)
    again = counted.authorize(charge, rows=10, columns=COLUMNS, fresh=True)
    assert isinstance(again, Authorization)
    assert (again.release_key, again.allocation) == ("a#2", None)
    assert_adds_up(counted)


def test_allocating_again_changes_nothing(anywhere: Accountant) -> None:
    for _ in range(2):
        anywhere.allocate("ana", Budget.of("0.3", "3e-6"))
    assert kinds(anywhere) == ["grant", "allocation"]


@pytest.mark.parametrize(
    ("budget", "reason"),
    [
        (Budget.of("0.4", "3e-6"), None),
        (Budget.of("0.2", "3e-6"), "less"),
        (Budget.of("0.4", "2e-6"), "more of one, less of the other"),
    ],
)
def test_an_allocation_keeps_its_budget(
    anywhere: Accountant, budget: Budget, reason: str | None
) -> None:
    anywhere.allocate("ana", Budget.of("0.3", "3e-6"))
    with pytest.raises(GrantConflict, match=r"^allocation must (keep its budget, or|never be)"):
        anywhere.allocate("ana", budget, reason=reason)
    assert kinds(anywhere) == ["grant", "allocation"]


def test_an_allocation_is_raised_from_the_free_pool(anywhere: Accountant) -> None:
    ana = anywhere.allocate("ana", Budget.of("0.3", "3e-6"))
    pay(ana, "a", "0.3")
    for _ in range(2):  # the budget is the new whole: the same again is the same
        ana = anywhere.allocate("ana", Budget.of("0.5", "3e-6"), reason="one more chapter")
    assert (ana.remaining().epsilon, anywhere.remaining()) == (
        Fraction("0.2"),
        Budget.of("0.5", "7e-6"),
    )
    assert kinds(anywhere) == ["grant", "allocation", "table", "charge", "raise"]
    assert anywhere.entries()[-1].document()["reason"] == "one more chapter"
    assert_adds_up(anywhere)


def test_the_free_pool_bounds_what_is_set_aside(anywhere: Accountant) -> None:
    pay(anywhere, "a", "0.5")
    with pytest.raises(BudgetExceeded, match=r"what remains, epsilon 0\.5"):
        anywhere.allocate("ana", Budget.of("0.6", "1e-6"))
    anywhere.allocate("ana", Budget.of("0.4", "1e-6"))
    with pytest.raises(BudgetExceeded, match=r"too large by epsilon 0\.1"):
        anywhere.allocate("ana", Budget.of("0.6", "1e-6"), reason="more")
    assert kinds(anywhere) == ["grant", "table", "charge", "allocation"]


@pytest.mark.parametrize(
    ("budget", "complaint"),
    [(Budget.of(0, "1e-6"), "epsilon must be above 0"), (Budget.of("0.1", 0), "delta must be")],
)
def test_an_allocation_that_could_pay_for_nothing_is_refused(
    anywhere: Accountant, budget: Budget, complaint: str
) -> None:
    with pytest.raises(InvalidAmount, match=complaint):
        anywhere.allocate("ana", budget)


def test_an_unknown_allocation_is_named_beside_the_known(anywhere: Accountant) -> None:
    with pytest.raises(NoGrant, match=r"got 'bob', where data set 'survey' has none\. Check"):
        Accountant(anywhere.ledger, data_set="survey", allocation="bob")
    anywhere.allocate("ana", Budget.of("0.3", "3e-6"))
    with pytest.raises(NoGrant, match=r"got 'bob', where data set 'survey' has 'ana'"):
        Accountant(anywhere.ledger, data_set="survey", allocation="bob")


def test_a_grant_is_raised_with_a_reason_and_pays_for_more(anywhere: Accountant) -> None:
    pay(anywhere, "a", "1")
    with pytest.raises(BudgetExceeded):
        pay(anywhere, "b", "0.5")
    for _ in range(2):
        raised = raise_to(anywhere, "1.5", "1e-5")
    assert raised.granted == anywhere.granted == Budget.of("1.5", "1e-5")
    pay(anywhere, "b", "0.5")
    assert kinds(anywhere) == ["grant", "table", "charge", "refusal", "raise", "charge"]
    assert_adds_up(anywhere)


def test_after_a_raise_the_first_terms_change_nothing(anywhere: Accountant, address: str) -> None:
    raise_to(anywhere, "1.5", "1e-5")
    again = Accountant.grant(
        address, data_set="survey", budget=Budget.of("1", "1e-5"), unit=UNIT, actor="officer"
    )
    assert again.granted == Budget.of("1.5", "1e-5")
    assert kinds(anywhere) == ["grant", "raise"]


def test_a_raise_leaves_allocations_alone(anywhere: Accountant) -> None:
    ana = anywhere.allocate("ana", Budget.of("0.3", "3e-6"))
    raise_to(anywhere, "1.5", "2e-5")
    assert (ana.granted, anywhere.granted) == (Budget.of("0.3", "3e-6"), Budget.of("1.2", "1.7e-5"))
    assert_adds_up(anywhere)


@pytest.mark.parametrize(("epsilon", "delta"), [("0.5", "1e-5"), ("2", "1e-6")])
def test_a_grant_is_never_lowered(anywhere: Accountant, epsilon: str, delta: str) -> None:
    with pytest.raises(GrantConflict, match=r"^grant must never be lowered"):
        raise_to(anywhere, epsilon, delta, "less")
    assert kinds(anywhere) == ["grant"]


def test_a_raise_keeps_the_unit_and_needs_a_reason(anywhere: Accountant) -> None:
    with pytest.raises(GrantConflict):
        Accountant.grant(
            anywhere.ledger,
            data_set="survey",
            budget=Budget.of("2", "1e-5"),
            unit=PrivacyUnit(rows_per_person=1),
            reason="more",
        )
    with pytest.raises(InvalidValue, match="reason must not be blank"):
        raise_to(anywhere, "2", "1e-5", " ")
    assert kinds(anywhere) == ["grant"]


def test_a_charge_that_never_started_is_voided(anywhere: Accountant) -> None:
    dead = pay(anywhere, "a", "0.6")
    anywhere.void("a", "the machine lost power")
    assert anywhere.remaining() == Budget.of("1", "1e-5")
    with pytest.raises(OutOfOrder, match="the release must be charged; it is voided"):
        anywhere.start(dead)
    again = pay(anywhere, "a", "0.6")
    assert again.release_key == "a#2"
    assert kinds(anywhere) == ["grant", "table", "charge", "void", "charge"]
    (line, _) = anywhere.statement().charges
    assert line.void is not None
    assert (line.state, line.void.reason) == ("voided", "the machine lost power")
    assert line.stored_at == ""
    assert_adds_up(anywhere)


def test_a_voided_charge_goes_back_to_its_allocation(counted: Accountant) -> None:
    ana = counted.allocate("ana", part_of(counted, "0.3", "3e-6"))
    pay(ana, "a", "0.3")
    counted.void("a", "never ran")
    nothing = part_of(counted, "0", "0")
    assert (ana.spent(), counted.spent()) == (nothing, nothing)
    assert_adds_up(counted)


def test_what_may_have_looked_at_the_table_is_not_given_back(counted: Accountant) -> None:
    started = pay(counted, "a")
    counted.start(started)
    release_one(counted, charge_to(counted, "b"))
    for key, state in (("a", "started"), ("b", "released")):
        with pytest.raises(OutOfOrder, match=f"got '{key}', which is {state}.*stays charged"):
            counted.void(key, "a mistake")
    for key in ("none", "a#2"):
        with pytest.raises(OutOfOrder, match=f"must be that of a charge; got '{key}'"):
            counted.void(key, "a mistake")
    assert counted.spent() == part_of(counted, "0.2", "2e-6")
    assert "void" not in kinds(counted)


def test_the_beginning_of_a_key_that_reports_show_is_enough(anywhere: Accountant) -> None:
    first, second = "0123456789ab" + "c" * 52, "0123456789ab" + "d" * 52
    for key in (first, "fedcba987654" + "0" * 52):
        pay(anywhere, key)
    again = anywhere.authorize(make_charge(first), rows=10, columns=COLUMNS)
    assert isinstance(again, Authorization)
    anywhere.void("0123456789ab#2", "never ran")
    anywhere.void("0123456789ab", "never ran")
    anywhere.void("fedcba987654", "never ran")
    assert anywhere.spent() == Budget.of(0, 0)
    pay(anywhere, second)
    with pytest.raises(OutOfOrder, match="must be that of a charge; got '0123456789ab'"):
        anywhere.void("0123456789ab", "which of the two?")
    assert_adds_up(anywhere)


def test_a_void_is_once_and_needs_a_reason(anywhere: Accountant) -> None:
    pay(anywhere, "a")
    with pytest.raises(InvalidValue, match="reason must not be blank"):
        anywhere.void("a", "")
    anywhere.void("a", "never ran")
    with pytest.raises(OutOfOrder, match="which is voided"):
        anywhere.void("a", "never ran")


WORDS = {
    "sum": ("ana: remaining 0 3e-6", "free pool: remaining 0.9 1.1e-5"),
    # (2, 2e-5) holds a mu of 0.519743; 0.439469 is the root of its square less 0.042 and 0.035
    "gaussian": ("ana: remaining 0 3e-7", "free pool: remaining 0.439469 1e-7"),
}


def test_the_statement_tells_all_of_it(counted: Accountant) -> None:
    manage(counted)
    statement = counted.statement()
    assert [line.why for line in statement.grants] == ["health study", "a second year"]
    (ana,) = statement.allocations
    assert [line.why for line in ana.grants] == ["thesis", "one more chapter"]
    granted, spent = part_of(counted, "0.6", "4e-6"), part_of(counted, "0.6", "1e-6")
    assert ana.granted.coordinates[:2] == granted.coordinates[:2]
    if isinstance(ana.granted, GaussianBudget):  # with its share of the leak, of the first terms
        rule = counted.rule
        assert isinstance(rule, GaussianRule)
        share = ana.granted.mu_squared / rule.capacity(rule.budget).mu_squared
        assert ana.granted.leak == in_short(rule.leak * share, up=False) > 0
    assert ana.spent == spent
    assert [(line.key, line.allocation) for line in statement.charges] == [
        ("first", None),
        ("dead", "ana"),
        ("thesis", "ana"),
    ]
    assert [line.allocation for line in statement.refusals] == ["ana"]
    text = " ".join(statement.render().split())
    for words in (
        "Raised to epsilon 2 and delta 2e-5",
        "a second year",
        *WORDS[counted.rule.kind],
        "voided from ana",
        "by officer: the machine lost power",
        "remained of ana",
    ):
        assert words in text
    assert_adds_up(counted)


CONFUSABLE = [
    ("survey", "Survey"),
    ("survey", "\uff53urvey"),
    ("straße", "STRASSE"),
    ("office", "oﬃce"),
]


@pytest.mark.parametrize(("first", "second"), CONFUSABLE)
def test_names_that_look_alike_are_refused(address: str, first: str, second: str) -> None:
    terms = {"budget": Budget.of("1", "1e-5"), "unit": UNIT}
    keeper = Accountant.grant(address, data_set=first, **terms)
    with pytest.raises(GrantConflict, match="must differ from"):
        Accountant.grant(address, data_set=second, **terms)
    keeper.allocate(first, Budget.of("0.1", "1e-6"))
    with pytest.raises(GrantConflict, match="must differ from"):
        keeper.allocate(second, Budget.of("0.1", "1e-6"))


HOSTILE = [
    "'; DROP TABLE entries; --",
    '" OR 1=1 --',
    "../../etc/passwd",
    "/dev/null",
    "a%00b",
    "<script>alert(1)</script>",
    "{{7*7}}",
    "$(reboot)",
    "%s%n",
    "name?mode=memory",
    "entries",
    "a" * 200,
    "été",
    "名前",
]


def test_hostile_names_are_kept_as_they_are_and_do_no_harm(address: str) -> None:
    terms = {"budget": Budget.of("1", "1e-5"), "unit": UNIT}
    for number, name in enumerate(HOSTILE):
        keeper = Accountant.grant(address, data_set=name, **terms, purpose=name, actor=name)
        pool = keeper.allocate(name, Budget.of("0.5", "5e-6"), purpose=name)
        key = name.replace("#", "")[:190]
        release_one(pool, make_charge(key))
        new = keeper.ledger.entries()[6 * number :]
        assert [entry.data_set for entry in new] == [name] * 6
        statement = Accountant(address, data_set=name, allocation=name).statement()
        assert [line.key for line in statement.charges] == [key]
    assert verify(keeper.ledger.entries()) == []


REFUSED = [
    "",
    " ",
    "a\x00b",
    "a\nb",
    "a\x1b[31m",
    "a\u202eb",
    "a\u200bb",
    "a\ufeff",
    "\ud800",
    "surv\u0435y",
    "Ωmega",
    "e\u0301",
    " survey",
    "a" * 201,
    "a" * 10_000_000,
]


def test_names_that_mislead_or_are_too_long_are_refused_shortly(address: str) -> None:
    terms = {"budget": Budget.of("1", "1e-5"), "unit": UNIT}
    for name in REFUSED:
        with pytest.raises(InvalidValue, match=r"^data_set must ") as caught:
            Accountant.grant(address, data_set=name, **terms)
        assert len(str(caught.value)) < 250
    keeper = Accountant.grant(address, data_set="survey", **terms)
    for name in REFUSED:
        with pytest.raises(InvalidValue, match=r"^allocation must "):
            keeper.allocate(name, Budget.of("0.1", "1e-6"))
    assert kinds(keeper) == ["grant"]


@pytest.mark.parametrize("text", ["a\nb", "a\x1b[0m", "x" * 10_000_001])
def test_purposes_and_reasons_are_one_line_of_bearable_length(
    anywhere: Accountant, text: str
) -> None:
    pay(anywhere, "a")
    acts: list[Callable[[], object]] = [
        lambda: anywhere.allocate("ana", Budget.of("0.1", "1e-6"), purpose=text),
        lambda: anywhere.void("a", text),
        lambda: raise_to(anywhere, "2", "1e-5", text),
    ]
    for act in acts:
        with pytest.raises(AccountantError, match=r"^(purpose|reason) must ") as caught:
            act()
        assert len(str(caught.value)) < 250
    assert kinds(anywhere) == ["grant", "table", "charge"]
