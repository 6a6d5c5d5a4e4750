import copy
import getpass
import pickle
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

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
    KeyConflict,
    Ledger,
    LedgerUnreadable,
    NoGrant,
    OutOfOrder,
    PrivacyUnit,
    Split,
    StageWeight,
    StoredRelease,
    TableFacts,
    TableMismatch,
    UnitMismatch,
    to_text,
    verify,
)

COLUMNS = ("age", "income")
TERMS: dict[str, Any] = {
    "data_set": "survey",
    "budget": Budget.of("1", "1e-5"),
    "unit": PrivacyUnit(rows_per_person=5),
}
Make = Callable[..., Charge]
Release = Callable[[Accountant, Charge], Authorization]


def kinds(keeper: Accountant) -> list[str]:
    return [entry.kind for entry in keeper.entries()]


def authorize(keeper: Accountant, charge: Charge, fresh: bool = False) -> Authorization:
    granted = keeper.authorize(charge, rows=10, columns=COLUMNS, fresh=fresh)
    assert isinstance(granted, Authorization)
    return granted


def test_a_grant_is_read_back(keeper: Accountant) -> None:
    assert (keeper.granted, keeper.unit, keeper.table) == (TERMS["budget"], TERMS["unit"], None)
    assert (keeper.spent(), keeper.remaining()) == (Budget.of(0, 0), TERMS["budget"])
    assert keeper.data_set == "survey"


def test_the_same_grant_again_refills_nothing(
    keeper: Accountant, path: Path, charge: Make, release: Release
) -> None:
    release(keeper, charge())
    again = Accountant.grant(path, **TERMS)
    assert again.remaining() == Budget.of("0.9", "9e-6")
    assert kinds(again) == ["grant", "table", "charge", "started", "release"]


@pytest.mark.parametrize(
    "change",
    [
        {"budget": Budget.of("2", "1e-5")},
        {"unit": PrivacyUnit(rows_per_person=1)},
        {"rows": 10, "columns": COLUMNS},
    ],
)
def test_another_grant_is_a_conflict(
    keeper: Accountant, path: Path, change: dict[str, Any]
) -> None:
    with pytest.raises(GrantConflict, match=r"^grant must keep its "):
        Accountant.grant(path, **(TERMS | change))
    assert kinds(keeper) == ["grant"]


@pytest.mark.parametrize(
    ("change", "error", "complaint"),
    [
        ({"budget": Budget.of(0, "1e-5")}, InvalidAmount, "epsilon must be above 0"),
        ({"budget": Budget.of(1, 0)}, InvalidAmount, "delta must be between 0 and 1"),
        ({"data_set": " "}, InvalidValue, "data_set must not be blank"),
        ({"rows": 10}, InvalidValue, "rows and columns must be given together"),
        ({"columns": COLUMNS}, InvalidValue, "rows and columns must be given together"),
        (
            {"rows": 0, "columns": COLUMNS},
            InvalidValue,
            "rows must be at least 1; got 0",
        ),
        ({"rows": 1, "columns": ["a", "a"]}, InvalidValue, "columns must be different names"),
        ({"purpose": "a\nb"}, InvalidValue, "purpose must be printable"),
        ({"actor": "a\tb"}, InvalidValue, "actor must be printable"),
    ],
)
def test_an_unusable_grant_creates_no_file(
    path: Path, change: dict[str, Any], error: type[AccountantError], complaint: str
) -> None:
    with pytest.raises(error, match=f"^{complaint}"):
        Accountant.grant(path, **(TERMS | change))
    assert not path.exists()


def test_without_a_file_the_line_to_type_is_named_and_no_file_appears(path: Path) -> None:
    with pytest.raises(NoGrant) as caught:
        Accountant(path, data_set="my survey")
    line = (
        f"accountant grant {path} --dataset 'my survey' --epsilon E --delta D --rows-per-person C"
    )
    assert str(caught.value).endswith(line)
    assert not path.exists()


def test_without_a_grant_the_line_to_type_is_named(keeper: Accountant) -> None:
    with pytest.raises(NoGrant, match=r"accountant grant .* --dataset other --epsilon E"):
        Accountant(keeper.ledger, data_set="other")


def test_without_a_folder_the_ledger_is_unreadable(tmp_path: Path) -> None:
    with pytest.raises(LedgerUnreadable, match="its folder does not exist"):
        Accountant(tmp_path / "none" / "ledger.db", data_set="survey")


def test_data_sets_share_a_ledger_and_not_a_budget(
    keeper: Accountant, charge: Make, release: Release
) -> None:
    other = Accountant.grant(keeper.ledger, **(TERMS | {"data_set": "other"}))
    release(keeper, charge())
    release(other, charge("k", "0.5"))
    assert keeper.spent() == Budget.of("0.1", "1e-6")
    assert other.spent() == Budget.of("0.5", "1e-6")
    assert verify(keeper.ledger.entries()) == []


def test_copies_and_pickles_cannot_fork_the_budget(
    keeper: Accountant, charge: Make, release: Release
) -> None:
    copies = [copy.copy(keeper), copy.deepcopy(keeper), pickle.loads(pickle.dumps(keeper))]
    release(copies[0], charge("a", "0.7"))
    assert [Budget.of("0.3", "9e-6")] * 4 == [one.remaining() for one in (keeper, *copies)]
    with pytest.raises(BudgetExceeded):
        authorize(copies[2], charge("b", "0.7"))


def test_ten_tenths_fit_and_the_eleventh_does_not(
    keeper: Accountant, charge: Make, release: Release
) -> None:
    for number in range(10):
        release(keeper, charge(f"k{number}"))
    assert keeper.remaining() == Budget.of(0, 0)
    with pytest.raises(BudgetExceeded) as caught:
        authorize(keeper, charge("k10"))
    assert caught.value.shortfall == Budget.of("0.1", "1e-6")
    assert keeper.spent() == keeper.granted
    assert kinds(keeper)[-2:] == ["release", "refusal"]


@pytest.mark.parametrize("delta", ["1e-5", "1e-8", "1e-10"])
def test_three_thirds_of_delta_fit_exactly(
    path: Path, charge: Make, release: Release, delta: str
) -> None:
    keeper = Accountant.grant(path, **(TERMS | {"budget": Budget.of(1, delta)}))
    for number in range(3):
        release(keeper, charge(f"k{number}", "1/3", to_text(keeper.granted.delta / 3)))
    assert keeper.remaining() == Budget.of(0, 0)


def test_one_release_is_table_charge_started_release(
    keeper: Accountant, charge: Make, release: Release
) -> None:
    granted = release(keeper, charge())
    assert kinds(keeper) == ["grant", "table", "charge", "started", "release"]
    assert (granted.sequence, granted.release_key, granted.allocation) == (3, "k", None)
    assert keeper.table == TableFacts(rows=10, columns=COLUMNS)
    assert keeper.entries()[-1].document() == {"values": [1.5, 2]}


def test_a_second_release_records_the_table_no_more(
    keeper: Accountant, charge: Make, release: Release
) -> None:
    release(keeper, charge("a"))
    release(keeper, charge("b"))
    assert kinds(keeper).count("table") == 1


def test_a_stored_release_costs_nothing(keeper: Accountant, charge: Make, release: Release) -> None:
    release(keeper, charge())
    before = keeper.entries()
    found = keeper.authorize(charge(), rows=10, columns=COLUMNS)
    assert isinstance(found, StoredRelease)
    assert (found.release_key, found.plan_hash) == ("k", "f00")
    assert found.release == {"values": [1.5, 2]}
    assert found == keeper.stored("k", "f00")
    assert before == keeper.entries()


def test_nothing_is_stored_before_the_first_release(keeper: Accountant, charge: Make) -> None:
    assert keeper.stored("k", "f00") is None
    authorize(keeper, charge())
    assert keeper.stored("k", "f00") is None


def test_a_changed_plan_under_an_old_key_is_a_conflict(
    keeper: Accountant, charge: Make, release: Release
) -> None:
    release(keeper, charge())
    before = keeper.entries()
    with pytest.raises(KeyConflict, match=r"^release key must belong to one plan; got 'k'"):
        authorize(keeper, charge(plan_hash="bad"))
    with pytest.raises(KeyConflict, match="charged for another plan at entry 3"):
        keeper.stored("k", "bad")
    assert before == keeper.entries()


def test_a_charge_without_a_release_is_a_conflict_too(keeper: Accountant, charge: Make) -> None:
    authorize(keeper, charge())
    with pytest.raises(KeyConflict):
        authorize(keeper, charge(plan_hash="bad"), fresh=True)


def test_fresh_pays_again_and_the_newest_is_stored(
    keeper: Accountant, charge: Make, release: Release
) -> None:
    release(keeper, charge())
    second = authorize(keeper, charge(), fresh=True)
    assert second.release_key == "k#2"
    assert second.charge.release_key == "k#2"
    keeper.start(second)
    keeper.store(second, {"values": [7]})
    assert keeper.spent() == Budget.of("0.2", "2e-6")
    found = keeper.stored("k", "f00")
    assert found is not None
    assert (found.release_key, found.release) == ("k#2", {"values": [7]})
    third = authorize(keeper, charge(), fresh=True)
    assert third.release_key == "k#3"
    assert keeper.stored("k", "f00") == found


def test_a_charge_that_left_no_release_is_paid_again(keeper: Accountant, charge: Make) -> None:
    keeper.start(authorize(keeper, charge()))
    again = authorize(keeper, charge())
    assert again.release_key == "k#2"
    assert keeper.spent() == Budget.of("0.2", "2e-6")


@pytest.mark.parametrize("key", ["k#2", "#", "", " ", "a\nb"])
def test_a_key_of_ones_own_is_plain(keeper: Accountant, charge: Make, key: str) -> None:
    with pytest.raises(ValueError, match="release_key must "):
        authorize(keeper, charge(key))
    with pytest.raises(InvalidValue, match="release_key must "):
        keeper.stored(key, "f00")
    assert kinds(keeper) == ["grant"]


@pytest.mark.parametrize(
    ("epsilon", "delta", "complaint"),
    [("0", "1e-6", "epsilon must be above 0"), ("0.1", "0", "delta must be between 0 and 1")],
)
def test_a_charge_needs_both_coordinates(
    keeper: Accountant, charge: Make, epsilon: str, delta: str, complaint: str
) -> None:
    with pytest.raises(InvalidAmount, match=f"^{complaint}"):
        authorize(keeper, charge("k", epsilon, delta))
    assert kinds(keeper) == ["grant"]


def test_a_refusal_is_recorded_and_records_nothing_else(keeper: Accountant, charge: Make) -> None:
    with pytest.raises(BudgetExceeded):
        authorize(keeper, charge("k", "1.1"))
    assert (kinds(keeper), keeper.table) == (["grant", "refusal"], None)
    expected = {
        "release_key": "k",
        "plan_hash": "f00",
        "actor": "ana",
        "purpose": "annual report",
        "asked": {"epsilon": "1.1", "delta": "1e-6"},
        "granted": {"epsilon": "1", "delta": "1e-5"},
        "spent": {"epsilon": "0", "delta": "0"},
        "remaining": {"epsilon": "1", "delta": "1e-5"},
        "shortfall": {"epsilon": "0.1", "delta": "0"},
    }
    assert keeper.entries()[-1].document() == expected


def test_a_refusal_may_be_repeated_and_a_smaller_request_passes(
    keeper: Accountant, charge: Make
) -> None:
    for _ in range(2):
        with pytest.raises(BudgetExceeded):
            authorize(keeper, charge("k", "1.1"))
    assert authorize(keeper, charge("k", "1")).release_key == "k"


@pytest.mark.parametrize("columns", [("income", "age"), ("age",), COLUMNS])
def test_some_of_the_columns_on_record_can_be_read_in_any_order(
    keeper: Accountant, charge: Make, release: Release, columns: tuple[str, ...]
) -> None:
    release(keeper, charge())
    granted = keeper.authorize(charge("other"), rows=10, columns=columns)
    assert isinstance(granted, Authorization)
    assert keeper.table == TableFacts(rows=10, columns=COLUMNS)


def test_columns_are_recorded_as_plans_read_them(keeper: Accountant, charge: Make) -> None:
    keeper.authorize(charge(), rows=10, columns=["age"])
    assert keeper.table == TableFacts(rows=10, columns=("age",))
    keeper.authorize(charge("other"), rows=10, columns=["zip", "age"])
    assert keeper.table == TableFacts(rows=10, columns=("age", "zip"))
    assert kinds(keeper) == ["grant", "table", "charge", "table", "charge"]
    assert verify(keeper.ledger.entries()) == []


def test_another_number_of_rows_is_refused_and_recorded(
    keeper: Accountant, charge: Make, release: Release
) -> None:
    release(keeper, charge())
    with pytest.raises(
        TableMismatch, match=r"^table must be the one on record, 10 rows .* 11 rows"
    ):
        keeper.authorize(charge("other"), rows=11, columns=COLUMNS)
    assert kinds(keeper)[-1] == "rejection"
    assert keeper.spent() == Budget.of("0.1", "1e-6")


def test_columns_that_the_grant_does_not_name_are_refused_without_naming_its_own(
    path: Path, charge: Make
) -> None:
    keeper = Accountant.grant(path, **TERMS, rows=10, columns=list(COLUMNS))
    with pytest.raises(TableMismatch, match=r"columns not among them: zip\. Use") as caught:
        keeper.authorize(charge(), rows=10, columns=["age", "zip"])
    assert "income" not in str(caught.value)
    assert kinds(keeper) == ["grant", "rejection"]


def test_a_table_named_in_the_grant_is_recorded_there(
    path: Path, charge: Make, release: Release
) -> None:
    keeper = Accountant.grant(path, **TERMS, rows=10, columns=list(COLUMNS))
    assert keeper.table == TableFacts(rows=10, columns=COLUMNS)
    release(keeper, charge())
    assert kinds(keeper) == ["grant", "charge", "started", "release"]


def test_another_unit_is_refused(keeper: Accountant) -> None:
    keeper.check_unit(PrivacyUnit(rows_per_person=5))
    with pytest.raises(UnitMismatch, match=r"^unit must be that of the grant, one person, at most"):
        keeper.check_unit(PrivacyUnit(rows_per_person=1))


def test_a_charge_for_another_unit_is_refused_and_leaves_no_trace(
    keeper: Accountant, charge: Make
) -> None:
    other = charge().model_copy(update={"unit": PrivacyUnit(rows_per_person=1)})
    with pytest.raises(UnitMismatch, match="at most 5 rows"):
        authorize(keeper, other)
    assert kinds(keeper) == ["grant"]


def test_unusable_data_is_recorded_and_charges_nothing(keeper: Accountant) -> None:
    keeper.reject("the file holds no rows")
    assert kinds(keeper) == ["grant", "rejection"]
    assert keeper.entries()[-1].document()["reason"] == "the file holds no rows"
    with pytest.raises(InvalidValue, match="reason must not be blank"):
        keeper.reject("")


def test_steps_out_of_order_are_refused(keeper: Accountant, charge: Make) -> None:
    granted = authorize(keeper, charge())
    with pytest.raises(OutOfOrder, match="the release must be started; it is charged"):
        keeper.store(granted, {})
    keeper.start(granted)
    with pytest.raises(OutOfOrder, match="the release must be charged; it is started"):
        keeper.start(granted)
    keeper.store(granted, {})
    with pytest.raises(OutOfOrder, match="the release must be started; it is released"):
        keeper.store(granted, {})
    made_up = Authorization("survey", 1, "never", None, charge("never"))
    with pytest.raises(OutOfOrder, match="no charge has this release key"):
        keeper.start(made_up)
    assert kinds(keeper) == ["grant", "table", "charge", "started", "release"]


def test_a_release_must_be_json(keeper: Accountant, charge: Make) -> None:
    granted = authorize(keeper, charge())
    keeper.start(granted)
    with pytest.raises(InvalidValue, match="document must be plain JSON"):
        keeper.store(granted, {"value": float("nan")})
    assert kinds(keeper)[-1] == "started"


def test_a_split_divides_and_charges_nothing(keeper: Accountant) -> None:
    halves = Split(
        weights=(
            StageWeight(name="a", weight="1", uses_delta=True),  # type: ignore[arg-type]
            StageWeight(name="b", weight="1", uses_delta=False),  # type: ignore[arg-type]
        )
    )
    parts = keeper.split(Budget.of(1, "1e-6"), halves)
    assert parts == {"a": Budget.of("0.5", "1e-6"), "b": Budget.of("0.5", 0)}
    assert kinds(keeper) == ["grant"]


def test_reads_write_nothing(history: Accountant, path: Path) -> None:
    before = path.read_bytes()
    history.spent(), history.remaining(), history.entries(), history.statement().render()
    history.stored("first", "f00"), history.granted, history.unit, history.table
    Accountant(path, data_set="survey")
    assert before == path.read_bytes()
    assert [path.name] == [file.name for file in path.parent.iterdir()]


def test_the_user_signs_when_nobody_else_does(
    path: Path, charge: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "eve")
    keeper = Accountant.grant(path, **TERMS)
    authorize(keeper, charge().model_copy(update={"actor": ""}))
    signed = [entry.document().get("actor") for entry in keeper.entries()]
    assert signed == ["eve", None, "eve"]


@pytest.mark.parametrize("failure", [KeyError, OSError, ImportError])
def test_a_system_without_users_signs_unknown(
    path: Path, monkeypatch: pytest.MonkeyPatch, failure: type[Exception]
) -> None:
    def nobody() -> str:
        raise failure

    monkeypatch.setattr(getpass, "getuser", nobody)
    assert Accountant.grant(path, **TERMS).entries()[0].document()["actor"] == "unknown"


def test_a_handle_says_what_it_is_on(keeper: Accountant, path: Path) -> None:
    assert repr(keeper) == f"Accountant({str(path)!r}, data_set='survey')"
    assert repr(Ledger(path)) == f"Ledger({str(path)!r})"


ODD = ["1/9973", f"1/{10**303}", f"1/{3**300}", f"1/{10**300 + 7}", "1e101"]


@pytest.mark.parametrize("epsilon", ODD)
def test_amounts_whose_sums_could_not_be_written_are_refused(
    keeper: Accountant, path: Path, charge: Make, epsilon: str
) -> None:
    """One analyst's odd fractions would stop the sums of all others."""
    with pytest.raises(InvalidAmount, match=r"^epsilon must be a decimal of at most 300 places"):
        authorize(keeper, charge("a", epsilon))
    with pytest.raises(InvalidAmount, match=r"^epsilon must be a decimal"):
        Accountant.grant(
            path, data_set="other", budget=Budget.of(epsilon, "1e-5"), unit=keeper.unit
        )
    with pytest.raises(InvalidAmount, match=r"^epsilon must be a decimal"):
        keeper.allocate("ana", Budget.of(epsilon, "1e-6"))
    assert kinds(keeper) == ["grant"]


def test_every_simple_fraction_adds_up_with_every_other(keeper: Accountant, charge: Make) -> None:
    for number in range(51, 101):
        authorize(keeper, charge(f"k{number}", f"1/{number * 100}", f"1/{number * 10**290}"))
    assert keeper.spent().epsilon == sum(Fraction(1, 100 * number) for number in range(51, 101))
    assert verify(keeper.ledger.entries()) == []


def test_an_authorization_serves_the_data_set_that_gave_it(
    keeper: Accountant, charge: Make
) -> None:
    other = Accountant.grant(keeper.ledger, **(TERMS | {"data_set": "other"}))
    granted = authorize(keeper, charge())
    authorize(other, charge())
    with pytest.raises(OutOfOrder, match=r"^authorization must be one of 'other'; got one of 'sur"):
        other.start(granted)
    keeper.start(granted)
