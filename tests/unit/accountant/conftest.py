from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from shutil import copyfile

import pytest

from accountant import (
    Accountant,
    Authorization,
    Budget,
    BudgetExceeded,
    Charge,
    GaussianLoss,
    PrivacyUnit,
    PureLoss,
    Stage,
    TableMismatch,
)

COLUMNS = ("age", "income")


def make_charge(
    key: str = "k", epsilon: str = "0.1", delta: str = "1e-6", plan_hash: str = "f00"
) -> Charge:
    budget = Budget.of(epsilon, delta)
    losses = (PureLoss(epsilon=Fraction(1, 100), count=3), GaussianLoss(mu=Fraction(1, 3)))
    return Charge(
        release_key=key,
        plan_hash=plan_hash,
        unit=PrivacyUnit(rows_per_person=5),
        budget=budget,
        stages=(Stage(name="mean", budget=budget, losses=losses),),
        actor="ana",
        purpose="annual report",
    )


def release_one(keeper: Accountant, charge: Charge) -> Authorization:
    granted = keeper.authorize(charge, rows=10, columns=COLUMNS)
    assert isinstance(granted, Authorization)
    keeper.start(granted)
    keeper.store(granted, {"values": [1.5, 2]})
    return granted


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


def grant(address: str | Path) -> Accountant:
    return Accountant.grant(
        address,
        data_set="survey",
        budget=Budget.of("1", "1e-5"),
        unit=PrivacyUnit(rows_per_person=5),
        actor="officer",
        purpose="health study",
    )


@pytest.fixture
def keeper(path: Path) -> Accountant:
    """Granted (1, 1e-5), table not recorded yet."""
    return grant(path)


@pytest.fixture
def anywhere(address: str) -> Accountant:
    """Granted (1, 1e-5), on each database."""
    return grant(address)


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
    terms = {"data_set": "survey", "unit": PrivacyUnit(rows_per_person=5)}
    release_one(keeper, make_charge("first", "0.5", "5e-6"))
    Accountant.grant(keeper.ledger, budget=Budget.of("2", "2e-5"), reason="a second year", **terms)
    ana = keeper.allocate("ana", Budget.of("0.4", "4e-6"), actor="officer", purpose="thesis")
    keeper.allocate("ana", Budget.of("0.6", "4e-6"), actor="officer", reason="one more chapter")
    dead = ana.authorize(make_charge("dead", "0.5"), rows=10, columns=COLUMNS)
    assert isinstance(dead, Authorization)
    keeper.void("dead", "the machine lost power", actor="officer")
    with pytest.raises(BudgetExceeded):
        ana.authorize(make_charge("large", "0.7"), rows=10, columns=COLUMNS)
    release_one(ana, make_charge("thesis", "0.6"))


@pytest.fixture
def managed(anywhere: Accountant) -> Accountant:
    """A ledger with raises, an allocation and a void, on each database."""
    manage(anywhere)
    return anywhere


@pytest.fixture
def history(finished: Path, path: Path) -> Accountant:
    """A copy of the finished ledger."""
    copyfile(finished, path)
    return Accountant(path, data_set="survey")
