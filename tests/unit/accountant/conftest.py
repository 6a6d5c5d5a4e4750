from collections.abc import Callable, Iterable
from fractions import Fraction
from pathlib import Path
from shutil import copyfile
from typing import Literal

import pytest

from accountant import (
    Accountant,
    ApproximateLoss,
    Authorization,
    Budget,
    BudgetExceeded,
    Charge,
    GaussianLoss,
    Ledger,
    Loss,
    PrivacyUnit,
    PureLoss,
    Stage,
    TableMismatch,
)
from accountant.specs import AnyBudget, GaussianBudget

COLUMNS = ("age", "income")
GRANTED = Budget.of("1", "1e-5")


def make_charge(
    key: str = "k",
    epsilon: str = "0.1",
    delta: str = "1e-6",
    plan_hash: str = "f00",
    losses: Iterable[Loss] = (
        PureLoss(epsilon=Fraction(1, 100), count=3),
        GaussianLoss(mu=Fraction(1, 3)),
    ),
) -> Charge:
    budget = Budget.of(epsilon, delta)
    return Charge(
        release_key=key,
        plan_hash=plan_hash,
        unit=PrivacyUnit(rows_per_person=5),
        budget=budget,
        stages=(Stage(name="mean", budget=budget, losses=tuple(losses)),),
        actor="ana",
        purpose="annual report",
    )


def part_of(keeper: Accountant, epsilon: str, delta: str) -> AnyBudget:
    """A part of this size under the rule of the grant: mu squared is 0.07 of it, delta a tenth."""
    if keeper.rule.kind == "sum":
        return Budget.of(epsilon, delta)
    return GaussianBudget.of(Fraction(epsilon) * Fraction(7, 100), Fraction(delta) / 10)


def charge_to(keeper: Accountant, key: str, epsilon: str = "0.1", delta: str = "1e-6") -> Charge:
    """A charge that costs the part of this size: so many Gaussians, and one chance of a truth."""
    if keeper.rule.kind == "sum":
        return make_charge(key, epsilon, delta)
    many = GaussianLoss(mu=Fraction(1, 100), count=int(700 * Fraction(epsilon)))
    told = ApproximateLoss(epsilon=Fraction(0), delta=Fraction(delta) / 10)
    return make_charge(key, epsilon, delta, losses=(many, told))


def release_one(keeper: Accountant, charge: Charge) -> Authorization:
    granted = keeper.authorize(charge, rows=10, columns=COLUMNS)
    assert isinstance(granted, Authorization)
    keeper.start(granted)
    keeper.store(granted, {"values": [1.5, 2]})
    return granted


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


def grant(
    address: str | Path | Ledger,
    rule: Literal["sum", "gaussian"] = "sum",
    budget: Budget = GRANTED,
    reason: str | None = None,
) -> Accountant:
    """Granted (1, 1e-5); under the rule gaussian a tenth of that delta is set aside."""
    return Accountant.grant(
        address,
        data_set="survey",
        budget=budget,
        rule=rule,
        set_aside="1e-6" if rule == "gaussian" else 0,
        unit=PrivacyUnit(rows_per_person=5),
        actor="officer",
        purpose="health study",
        reason=reason,
    )


@pytest.fixture
def keeper(path: Path) -> Accountant:
    """Granted (1, 1e-5), table not recorded yet."""
    return grant(path)


@pytest.fixture
def anywhere(address: str) -> Accountant:
    """Granted (1, 1e-5), on each database."""
    return grant(address)


@pytest.fixture(params=["sum", "gaussian"])
def counted(request: pytest.FixtureRequest, address: str) -> Accountant:
    """Granted (1, 1e-5) under each rule, on each database."""
    return grant(address, request.param)


@pytest.fixture
def charge() -> Callable[..., Charge]:
    return make_charge


@pytest.fixture
def release() -> Callable[[Accountant, Charge], Authorization]:
    """Authorize, start and store on a table of ten rows."""
    return release_one


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger of 12 entries of all kinds: three charges, the second left started."""
    path = tmp_path_factory.mktemp("finished") / "ledger.db"
    keeper = grant(path)
    release_one(keeper, make_charge("first", "0.5", "5e-6"))
    with pytest.raises(BudgetExceeded):
        keeper.authorize(make_charge("large", "0.6"), rows=10, columns=COLUMNS)
    with pytest.raises(TableMismatch):
        keeper.authorize(make_charge("other"), rows=11, columns=COLUMNS)
    second = keeper.authorize(make_charge("second", "0.25"), rows=10, columns=COLUMNS)
    assert isinstance(second, Authorization)
    keeper.start(second)
    release_one(keeper, make_charge("third", "0.25"))
    return path


def manage(keeper: Accountant) -> None:
    """All that an officer does after the grant: 12 entries of all the other kinds."""
    rule = keeper.rule.kind
    release_one(keeper, charge_to(keeper, "first", "0.5", "5e-6"))
    grant(keeper.ledger, rule, Budget.of("2", "2e-5"), reason="a second year")
    part = part_of(keeper, "0.4", "4e-6")
    ana = keeper.allocate("ana", part, actor="officer", purpose="thesis")
    part = part_of(keeper, "0.6", "4e-6")
    keeper.allocate("ana", part, actor="officer", reason="one more chapter")
    dead = ana.authorize(charge_to(ana, "dead", "0.5"), rows=10, columns=COLUMNS)
    assert isinstance(dead, Authorization)
    keeper.void("dead", "the machine lost power", actor="officer")
    with pytest.raises(BudgetExceeded):
        ana.authorize(charge_to(ana, "large", "0.7"), rows=10, columns=COLUMNS)
    release_one(ana, charge_to(ana, "thesis", "0.6"))


@pytest.fixture
def history(finished: Path, path: Path) -> Accountant:
    """A copy of the finished ledger."""
    copyfile(finished, path)
    return Accountant(path, data_set="survey")
