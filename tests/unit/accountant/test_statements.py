import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from accountant import (
    Accountant,
    ApproximateLoss,
    Authorization,
    Budget,
    BudgetExceeded,
    Charge,
    GaussianLoss,
    PrivacyUnit,
    Stage,
    Statement,
)
from accountant.amounts import show_delta_down, show_delta_up
from accountant.specs import GaussianBudget

from .conftest import COLUMNS, grant, make_charge, manage, part_of, release_one

Release = Callable[[Accountant, Charge], Authorization]


def test_json_goes_both_ways(history: Accountant) -> None:
    statement = history.statement()
    assert statement == Statement.model_validate_json(statement.model_dump_json())


def test_the_statement_is_what_the_ledger_says(history: Accountant) -> None:
    statement = history.statement()
    assert statement.granted == Budget.of("1", "1e-5")
    assert statement.spent == Budget.of("1", "7e-6")
    assert statement.remaining == Budget.of("0", "3e-6")
    assert (statement.unit, statement.table) == (history.unit, history.table)
    assert [(line.actor, line.why) for line in statement.grants] == [("officer", "health study")]
    assert [(line.key, line.state) for line in statement.charges] == [
        ("first", "released"),
        ("second", "started"),
        ("third", "released"),
    ]
    assert [line.shortfall for line in statement.refusals] == [Budget.of("0.1", 0)]
    assert [line.sequence for line in statement.rejections] == [7]
    assert (statement.entries, statement.last_hash) == (12, history.ledger.entries()[-1].hash)


@pytest.fixture(params=["sum", "gaussian"])
def managed(request: pytest.FixtureRequest, path: Path) -> Accountant:
    """All that an officer does, under each rule."""
    keeper = grant(path, request.param)
    manage(keeper)
    return keeper


def test_under_either_rule_the_statement_is_read_back_and_adds_up(managed: Accountant) -> None:
    statement = managed.statement()
    assert statement == Statement.model_validate_json(statement.model_dump_json())
    assert statement.budget == Budget.of("2", "2e-5")
    assert statement.granted == statement.spent + statement.remaining
    costs = [line.cost for line in statement.charges if line.state != "voided"]
    assert statement.spent == sum(costs, start=managed.rule.cost(()))
    basis = {"sum": "budget", "gaussian": "mu"}[statement.rule.kind]
    assert {statement.risk_of_spent.basis, statement.reading_of_grant.risk.basis} == {basis}
    assert 0 < statement.risk_of_spent.advantage < statement.reading_of_grant.risk.advantage


@pytest.mark.parametrize("width", [40, 80, 120])
def test_lines_fit_the_terminal_and_name_what_is_counted(managed: Accountant, width: int) -> None:
    statement = managed.statement()
    *lines, head = statement.render(width).splitlines()
    assert head == statement.last_hash
    counted = {"sum": ["epsilon", "delta"], "gaussian": ["mu", "delta", "aside"]}
    (header, *_) = [line for line in lines if line.split() == counted[statement.rule.kind]]
    assert any(line.split()[:1] == ["granted"] for line in lines)
    numbers = [line for line in lines if "free pool: remaining" in line]
    assert len(numbers) == 1  # no line of numbers is folded
    assert max(map(len, [header, *numbers])) <= width + 10
    text = [line for line in lines if line[:3] != "   " and "ana: " not in line]
    assert width == 40 or max(map(len, text)) <= width


def test_squares_are_explained_and_sums_need_no_words(managed: Accountant) -> None:
    text = " ".join(managed.statement().render(120).split())
    squares = "Charges add up as squares of mu: 0.6 spent of 1 leaves 0.8."
    assert (squares in text) == (managed.rule.kind == "gaussian")
    refused = {
        "sum": "11. large: epsilon 0.7 and delta 1e-6, where epsilon 0.6 and delta 4e-6 remained",
        "gaussian": "11. large: mu 0.22136 and delta 1e-7 aside, where mu 0.204939 and delta "
        "4e-7 aside remained of ana",
    }
    assert refused[managed.rule.kind] in text


def test_stages_that_were_composed_say_so(path: Path) -> None:
    """Each alone may take as much as the whole charge."""
    keeper, budget = grant(path), Budget.of("0.5", "1e-6")
    stages = tuple(
        Stage(name=name, budget=budget, losses=(GaussianLoss(mu=Fraction("0.05")),))
        for name in ("mean", "scale")
    )
    charge = Charge(
        release_key="k",
        plan_hash="f00",
        unit=keeper.unit,
        budget=budget,
        composition="committed",
        stages=stages,
    )
    release_one(keeper, charge)
    text = " ".join(keeper.statement().render(120).split())
    assert "its stages, composed by their losses, together epsilon 0.274015" in text
    assert "mean 0.5 1e-6 Gaussian mu 0.05 scale 0.5 1e-6" in text


def test_a_leak_that_is_paid_is_shown(path: Path) -> None:
    keeper = grant(path, "gaussian")
    leaky = GaussianLoss(mu=Fraction("0.05"), leak=Fraction("1e-13"))
    release_one(keeper, make_charge(losses=(leaky,)))
    (line,) = keeper.statement().charges
    assert line.cost == keeper.spent() == GaussianBudget.of("0.0025", 0, "1e-13")
    with pytest.raises(BudgetExceeded):
        keeper.authorize(
            make_charge("more", losses=(leaky.model_copy(update={"count": 25}),)),
            rows=10,
            columns=COLUMNS,
        )
    left = keeper.remaining().leak
    assert left == keeper.granted.leak - Fraction("1e-13")
    text = " ".join(keeper.statement().render().split())
    for words in (
        "mean 0.05 0 Gaussian mu 0.05, leak 1e-13",
        f"Leak: granted {show_delta_down(keeper.granted.leak)}, spent 1e-13, remaining "
        f"{show_delta_down(left)}.",
        f"with leak 2.5e-12, where mu 0.261629 and delta 1e-6 aside with leak "
        f"{show_delta_down(left)} remained",
        f"a total variation of {show_delta_up(keeper.granted.leak)}",
    ):
        assert words in text


def test_the_leak_of_each_pool_is_shown(path: Path) -> None:
    keeper = grant(path, "gaussian")
    ana = keeper.allocate("ana", part_of(keeper, "0.4", "4e-6"))
    assert min(keeper.granted.leak, ana.granted.leak) > 0
    text = " ".join(keeper.statement().render().split())
    for name, pool in (("free pool", keeper), ("ana", ana)):
        leak = show_delta_down(pool.granted.leak)
        assert f"Leak of {name}: granted {leak}, spent 0, remaining {leak}." in text


def test_a_loss_that_no_epsilon_covers_is_read_back(path: Path) -> None:
    """A chance of a truth beyond the delta of the charge, which the rule gaussian pays apart."""
    keeper = grant(path, "gaussian")
    told = ApproximateLoss(epsilon=Fraction(0), delta=Fraction("5e-7"))
    release_one(keeper, make_charge(delta="1e-7", losses=(told,)))
    statement = keeper.statement()
    assert [line.composed for line in statement.charges] == [math.inf]
    assert statement == Statement.model_validate_json(statement.model_dump_json())


def test_a_charge_that_never_started_says_so(
    keeper: Accountant, charge: Callable[..., Charge]
) -> None:
    keeper.authorize(charge(), rows=10, columns=["a"])
    assert [line.state for line in keeper.statement().charges] == ["charged"]


def test_the_guarantee_is_in_words(history: Accountant) -> None:
    text = " ".join(history.statement().render().split())
    for words in (
        "the rows of any one person (at most 5 rows)",
        "a factor of e^1 (about 2.72) plus 1e-5",
        "who is in the table, and how many rows each person has",
        "Table: 10 rows with columns age, income",
        "by officer: health study",
        "3 x pure 0.01, Gaussian mu 0.333334",
        "REFUSED 6. large: epsilon 0.6 and delta 1e-6, where epsilon 0.5 and delta 5e-6 remained",
        "UNUSABLE DATA 7. table must be the one on record",
        f"12 entries in the ledger, the last with hash {history.ledger.entries()[-1].hash}",
    ):
        assert words in text


def test_a_new_data_set_has_a_short_statement(keeper: Accountant) -> None:
    text = keeper.statement().render()
    assert "Table: recorded by the first release" in text
    for heading in ("RELEASES", "REFUSED", "REJECTED"):
        assert heading not in text


def test_numbers_are_whole_and_on_the_safe_side_at_80_columns(
    keeper: Accountant, release: Release
) -> None:
    budget = Budget.of("1/3", "1/300000")
    stages = tuple(
        Stage(
            name=f"a stage with a very long name indeed, number {number}",
            budget=Budget.of("1/9", "1/900000"),
            losses=(ApproximateLoss(epsilon=Fraction(1, 9), delta=Fraction(1, 900000)),),
        )
        for number in range(3)
    )
    plan_hash = "0123456789abcdef" * 4
    charge = Charge(
        release_key=plan_hash,
        plan_hash=plan_hash,
        unit=keeper.unit,
        budget=budget,
        stages=stages,
    )
    release(keeper, charge.model_copy(update={"purpose": "[bold]a long purpose[/bold] " * 9}))
    text = keeper.statement().render()
    assert max(len(line) for line in text.splitlines()) <= 80
    lines = [line.split() for line in text.splitlines()]
    assert ["spent", "0.333334", "3.33334e-6"] in lines
    assert ["remaining", "0.666666", "6.66666e-6"] in lines
    assert text.count("0.111112") == 6
    assert text.count("1.11112e-6") == 6
    assert "…" not in text
    assert "[bold]a" in text


@pytest.mark.parametrize(("rows", "words"), [(1, "at most 1 row)"), (2, "at most 2 rows)")])
def test_one_row_is_singular(keeper: Accountant, rows: int, words: str) -> None:
    other = Accountant.grant(
        keeper.ledger,
        data_set="other",
        budget=Budget.of(1, "1e-6"),
        unit=PrivacyUnit(rows_per_person=rows),
    )
    assert words in other.statement().guarantee
