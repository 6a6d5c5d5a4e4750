import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from accountant import (
    Accountant,
    Budget,
    Charge,
    Entry,
    Ledger,
    LedgerUnreadable,
    to_text,
    verify,
)
from accountant.audit import Audit, Problem
from accountant.books import Book
from accountant.entries import GENESIS, canonical_json, draft, seal

from .conftest import grant, manage

LENGTH = 12
KINDS = [
    *("grant", "table", "charge", "started", "release", "refusal", "rejection"),
    *("charge", "started", "charge", "started", "release"),
]
COLUMNS = [
    "sequence",
    "data_set",
    "kind",
    "allocation",
    "release_key",
    "time",
    "body",
    "balance",
    "previous_hash",
    "hash",
]


def edit(path: Path, *statements: tuple[str, tuple[Any, ...]]) -> None:
    """What somebody with the file and any database tool could do."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for name in ("update", "delete"):
            connection.execute(f"DROP TRIGGER entries_refuse_{name}")
        for statement, values in statements:
            connection.execute(statement, values)


def follow(entries: list[Entry], entry: Entry) -> Entry:
    """The entry at the end of others, with the balance and the hash that belong there."""
    books: dict[str, Book] = {}
    for earlier in entries:
        books.setdefault(earlier.data_set, Book(earlier.data_set)).add(earlier)
    book = books.setdefault(entry.data_set, Book(entry.data_set))
    book.add(entry)
    return seal(entry, book.balance_text(entry.allocation))


def forge(entries: list[Entry], kind: str, body: Any, key: str | None = None) -> Entry:
    """One more entry, as a forger with this package would seal it."""
    return follow(
        entries, draft(entries[-1], data_set="survey", kind=kind, body=body, release_key=key)
    )


def reseal(entries: list[Entry], restate: bool = True) -> list[Entry]:
    """Recompute all numbers, hashes and, to be consistent, balances."""
    sealed: list[Entry] = []
    for entry in entries:
        fresh = draft(
            sealed[-1] if sealed else None,
            data_set=entry.data_set,
            kind=entry.kind,
            body=json.loads(entry.body),
            release_key=entry.release_key,
            allocation=entry.allocation,
        )
        fresh = follow(sealed, replace(fresh, time=entry.time))
        if not restate:
            fresh = replace(fresh, balance=entry.balance)
            fresh = replace(fresh, hash=fresh.digest())
        sealed.append(fresh)
    return sealed


@pytest.fixture(scope="module", params=["sum", "gaussian"])
def managed_entries(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> list[Entry]:
    """What an officer does under each rule, 14 entries."""
    keeper = grant(tmp_path_factory.mktemp("managed") / "ledger.db", request.param)
    manage(keeper)
    return list(keeper.ledger.entries())


@pytest.fixture(scope="module")
def gaussian_entries(tmp_path_factory: pytest.TempPathFactory) -> list[Entry]:
    """What an officer does under the rule gaussian."""
    keeper = grant(tmp_path_factory.mktemp("gaussian") / "ledger.db", "gaussian")
    manage(keeper)
    return list(keeper.ledger.entries())


def positions(problems: list[Problem]) -> list[int]:
    return [problem.position for problem in problems]


def test_a_sound_ledger_has_no_problems(history: Accountant) -> None:
    entries = history.ledger.entries()
    assert [entry.kind for entry in entries] == KINDS
    assert len(entries) == LENGTH
    assert verify(entries) == []
    assert verify([]) == []


def test_resealing_changes_nothing(history: Accountant) -> None:
    entries = list(history.ledger.entries())
    assert entries == reseal(entries)


def test_the_head_is_the_last_hash(history: Accountant) -> None:
    assert history.statement().last_hash == history.ledger.entries()[-1].hash
    assert Audit().last_hash == GENESIS


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("position", range(1, LENGTH + 1))
def test_a_change_to_any_column_of_any_entry_is_found_where_it_was_made(
    history: Accountant, path: Path, column: str, position: int
) -> None:
    value: object = {
        "sequence": position + 100,
        "time": "2001-01-01T00:00:00.000000+00:00",
        "body": '{"reason":"x"}',
        "balance": '{"free":0}',
    }.get(column, "forged")
    edit(path, (f"UPDATE entries SET {column} = ? WHERE sequence = ?", (value, position)))
    problems = verify(Ledger(path).entries())
    assert positions(problems)[0] == position
    with pytest.raises(
        LedgerUnreadable, match=f"where entry {position} is wrong: .*`accountant ver"
    ):
        history.statement()


@pytest.mark.parametrize("value", [b"\xff\xfe", b"", 7, 1.5, "\ufffd", "{", "[]", "NaN", "{ }"])
def test_rubbish_in_a_body_is_a_problem_and_not_a_crash(
    history: Accountant, path: Path, value: object
) -> None:
    edit(path, ("UPDATE entries SET body = ? WHERE sequence = 5", (value,)))
    assert 5 in positions(verify(Ledger(path).entries()))


def test_text_that_is_not_utf8_is_a_problem_and_not_a_crash(
    history: Accountant, path: Path
) -> None:
    edit(path, ("UPDATE entries SET data_set = CAST(x'ff' AS TEXT) WHERE sequence = ?", (4,)))
    assert positions(verify(Ledger(path).entries()))[0] == 4


@pytest.mark.parametrize("name", [b"\xff", 7, 1.5])
def test_a_name_that_is_no_text_stops_no_grant_of_another(
    history: Accountant, path: Path, name: object
) -> None:
    unit, budget = history.unit, Budget.of("1", "1e-6")
    edit(path, ("UPDATE entries SET data_set = ? WHERE sequence = 1", (name,)))
    keeper = Accountant.grant(path, data_set="another", budget=budget, unit=unit)
    assert keeper.granted == budget
    assert positions(verify(Ledger(path).entries()))[0] == 1


@pytest.mark.parametrize("position", range(1, LENGTH))
def test_a_missing_entry_is_found_where_it_was(
    history: Accountant, path: Path, position: int
) -> None:
    edit(path, ("DELETE FROM entries WHERE sequence = ?", (position,)))
    problems = verify(Ledger(path).entries())
    assert problems[0].position == position
    assert problems[0].message == f"the sequence number must be {position}; it is {position + 1}"


def test_swapped_entries_are_found(history: Accountant, path: Path) -> None:
    edit(
        path,
        ("UPDATE entries SET sequence = 99 WHERE sequence = ?", (6,)),
        ("UPDATE entries SET sequence = 6 WHERE sequence = ?", (7,)),
        ("UPDATE entries SET sequence = 7 WHERE sequence = ?", (99,)),
    )
    assert positions(verify(Ledger(path).entries()))[:2] == [6, 6]
    assert 7 in positions(verify(Ledger(path).entries()))


def test_a_forged_charge_beyond_the_budget_is_found_in_spite_of_its_hash(
    history: Accountant, path: Path, charge: Callable[..., Charge]
) -> None:
    entries = list(history.ledger.entries())
    forged = forge(entries, "charge", charge("forged", "0.5"), "forged").fields()
    names, marks = ", ".join(forged), ", ".join("?" * len(forged))
    edit(path, (f"INSERT INTO entries ({names}) VALUES ({marks})", tuple(forged.values())))
    expected = Problem(LENGTH + 1, "the charge exceeds what remained, epsilon 0 and delta 3e-6")
    assert verify(Ledger(path).entries()) == [expected]


def change_body(position: int, **changes: object) -> Callable[[list[Entry]], list[Entry]]:
    def changed(entries: list[Entry]) -> list[Entry]:
        entry = entries[position - 1]
        body = canonical_json(entry.document() | changes)
        entries[position - 1] = replace(entry, body=body)
        return entries

    return changed


def resize(position: int, epsilon: str, delta: str) -> Callable[[list[Entry]], list[Entry]]:
    """Another budget, counted as the one that stands there is."""

    def changed(entries: list[Entry]) -> list[Entry]:
        leak = entries[position - 1].document()["budget"].get("leak")
        if leak is None:
            return change_body(position, budget={"epsilon": epsilon, "delta": delta})(entries)
        part = Fraction(epsilon) * Fraction(7, 100), Fraction(delta) / 10
        budget = dict(zip(("mu_squared", "delta"), map(to_text, part), strict=True))
        return change_body(position, budget=budget | {"leak": leak})(entries)

    return changed


def restate(
    position: int, pool: str, side: str, coordinate: int, amount: str
) -> Callable[[list[Entry]], list[Entry]]:
    """Another amount in a balance: the first, delta, or the leak."""

    def changed(entries: list[Entry]) -> list[Entry]:
        balance = json.loads(str(entries[position - 1].balance))
        budget = balance[pool][side]
        first = "epsilon" if "epsilon" in budget else "mu_squared"
        budget[(first, "delta", "leak")[coordinate]] = amount
        return change(position, balance=canonical_json(balance))(entries)

    return changed


def repeat_budget(position: int, earlier: int) -> Callable[[list[Entry]], list[Entry]]:
    """The budget that an earlier entry states."""
    return lambda entries: change_body(position, budget=entries[earlier - 1].document()["budget"])(
        entries
    )


def resize_leak(position: int, name: str, amount: str) -> Callable[[list[Entry]], list[Entry]]:
    """Another leak in a Gaussian budget of a body."""
    return lambda entries: change_body(
        position, **{name: entries[position - 1].document()[name] | {"leak": amount}}
    )(entries)


def change(position: int, **changes: Any) -> Callable[[list[Entry]], list[Entry]]:
    def changed(entries: list[Entry]) -> list[Entry]:
        entries[position - 1] = replace(entries[position - 1], **changes)
        return entries

    return changed


def repeat(position: int) -> Callable[[list[Entry]], list[Entry]]:
    return lambda entries: [*entries, replace(entries[position - 1], time=entries[-1].time)]


def drop(position: int) -> Callable[[list[Entry]], list[Entry]]:
    return lambda entries: entries[: position - 1] + entries[position:]


LARGE = {"epsilon": "0.9", "delta": "1e-6"}
SMALL = {"epsilon": "0.1", "delta": "1e-6"}
FORGERIES: list[tuple[Callable[[list[Entry]], list[Entry]], int, str]] = [
    (drop(1), 1, "a grant must come first"),
    (repeat(1), 13, "the data set was granted before"),
    (change(1, release_key="k"), 1, "of kind grant have no release key"),
    (change_body(1, budget={"epsilon": "0", "delta": "1e-6"}), 1, "epsilon must be above 0"),
    (change_body(1, budget={"epsilon": "1", "delta": "0"}), 1, "delta must be between 0 and 1"),
    (change_body(1, budget={"epsilon": "0.9", "delta": "1e-5"}), 6, "states another balance"),
    (change_body(1, budget={"epsilon": 1, "delta": "1e-5"}), 1, "not written as a grant is"),
    (change_body(1, extra=1), 1, "not a valid grant"),
    (drop(2), 2, "the table must be recorded before a charge"),
    (repeat(2), 13, "the table was recorded before"),
    (change_body(2, rows=0), 2, "not a valid table"),
    (change(2, release_key="k"), 2, "of kind table have no release key"),
    (change_body(3, budget={"epsilon": "0.6", "delta": "5e-6"}), 6, "states another balance"),
    (change_body(10, budget=LARGE), 10, "the charge exceeds what remained"),
    (change_body(8, budget={"epsilon": "0.2", "delta": "1e-6"}), 8, "not a valid charge"),
    (change_body(8, release_key="other"), 8, "the release key differs"),
    (repeat(3), 13, "the release key must be 'first#2'"),
    (change(3, release_key=None), 3, "the release key differs"),
    (drop(3), 3, "no charge has this release key"),
    (drop(4), 4, "the release must be started; it is charged"),
    (repeat(4), 13, "the release must be charged; it is released"),
    (change_body(4, extra=1), 4, "not a valid started"),
    (change(5, release_key="second"), 5, "no charge has this release key"),
    (change(5, release_key=None), 5, "no charge has this release key"),
    (repeat(5), 13, "the release must be started; it is released"),
    (change_body(6, asked=SMALL), 6, "states another shortfall"),
    (
        change_body(6, asked=SMALL, shortfall={"epsilon": "0", "delta": "0"}),
        6,
        "the refused request would have fitted",
    ),
    (change_body(6, remaining=SMALL), 6, "states another remainder"),
    (change(6, release_key="k"), 6, "of kind refusal have no release key"),
    (change(7, release_key="k"), 7, "of kind rejection have no release key"),
    (change_body(7, reason=""), 7, "not a valid rejection"),
    (change(7, kind="refund"), 7, "kind 'refund' is unknown"),
    (change(7, data_set="other"), 7, "a grant must come first"),
    (change(7, time="2001-01-01T00:00:00.000000+00:00"), 7, "the time is before that of"),
    (change(7, time="yesterday"), 7, "the time is not UTC with microseconds"),
]


@pytest.mark.parametrize(("change_all", "position", "message"), FORGERIES)
def test_a_forgery_with_correct_hashes_is_found_by_its_meaning(
    history: Accountant,
    change_all: Callable[[list[Entry]], list[Entry]],
    position: int,
    message: str,
) -> None:
    first = verify(reseal(change_all(list(history.ledger.entries()))))[0]
    assert position == first.position
    assert message in first.message


MANAGED = [
    *("grant", "table", "charge", "started", "release", "raise", "allocation", "raise"),
    *("charge", "void", "refusal", "charge", "started", "release"),
]
MANAGED_FORGERIES: list[tuple[Callable[[list[Entry]], list[Entry]], int, str]] = [
    (change_body(6, budget={"epsilon": "1", "delta": "1e-5"}), 6, "must be to more than"),
    (change_body(6, budget={"epsilon": "2", "delta": "1e-6"}), 6, "must be to more than"),
    (change_body(6, reason=" "), 6, "not a valid raise"),
    (change(6, allocation="bob"), 6, "there is no allocation 'bob'"),
    (change(6, release_key="k"), 6, "of kind raise have no release key"),
    (drop(6), 7, "the free pool held"),
    (change(7, allocation=None), 7, "an allocation must have a name"),
    (repeat(7), 15, "allocation 'ana' was made before"),
    (resize(7, "9", "4e-6"), 7, "the free pool held"),
    (resize(7, "0", "4e-6"), 7, " must be above 0"),
    (change(7, release_key="k"), 7, "of kind allocation have no release key"),
    (resize(8, "9", "5e-6"), 8, "the free pool held"),
    (repeat_budget(8, 7), 8, "must be to more than"),
    (change(9, allocation="bob"), 9, "there is no allocation 'bob'"),
    (change(9, allocation=None), 10, "is another allocation's"),
    (drop(9), 9, "no charge has this release key"),
    (drop(10), 10, "the refusal states another balance"),
    (repeat(10), 15, "the release must be charged; it is voided"),
    (change_body(10, reason=""), 10, "not a valid void"),
    (change(10, release_key="first"), 10, "another allocation's"),
    (change(10, release_key="first", allocation=None), 10, "must be charged; it is released"),
    (change(11, allocation=None), 11, "the refusal states another balance"),
    (change(12, allocation=None), 13, "is another allocation's"),
    (change(14, allocation=None), 14, "is another allocation's"),
    (change(1, allocation="ana"), 1, "of kind grant have no allocation"),
    (change(2, allocation="ana"), 2, "of kind table have no allocation"),
]


@pytest.mark.parametrize(("change_all", "position", "message"), MANAGED_FORGERIES)
def test_a_forgery_of_what_an_officer_does_is_found_by_its_meaning(
    managed_entries: list[Entry],
    change_all: Callable[[list[Entry]], list[Entry]],
    position: int,
    message: str,
) -> None:
    assert MANAGED == [entry.kind for entry in managed_entries]
    first = verify(reseal(change_all(list(managed_entries))))[0]
    assert position == first.position
    assert message in first.message


POOLS = [("free", "granted"), ("free", "spent"), ("allocations", "granted")]


@pytest.mark.parametrize("position", range(1, len(MANAGED) + 1))
@pytest.mark.parametrize(("pool", "side"), POOLS)
@pytest.mark.parametrize("coordinate", [0, 1])
def test_a_forged_balance_is_found_once_where_it_is_in_spite_of_its_hash(
    managed_entries: list[Entry], position: int, pool: str, side: str, coordinate: int
) -> None:
    amount = ("0.7", "7e-6")[coordinate]
    forged = restate(position, pool, side, coordinate, amount)(list(managed_entries))
    words = "the balance is not what the entries before it and this one leave"
    assert verify(reseal(forged, restate=False)) == [Problem(position, words)]


@pytest.mark.parametrize("position", range(1, len(MANAGED) + 1))
@pytest.mark.parametrize(("pool", "side"), POOLS)
def test_a_forged_leak_is_found_once_where_it_is(
    gaussian_entries: list[Entry], position: int, pool: str, side: str
) -> None:
    forged = restate(position, pool, side, 2, "7e-13")(list(gaussian_entries))
    words = "the balance is not what the entries before it and this one leave"
    assert verify(reseal(forged, restate=False)) == [Problem(position, words)]


@pytest.mark.parametrize("position", range(2, len(MANAGED) + 1))
def test_a_balance_that_is_left_out_is_found(managed_entries: list[Entry], position: int) -> None:
    entries = list(managed_entries)
    entries[position - 1] = replace(entries[position - 1], balance=None)
    found = verify(reseal(entries, restate=False))
    assert found == [Problem(position, "the balance is missing")]


@pytest.mark.parametrize("value", ["", "{}", "[]", "7", "NaN", "null", '{"free": 0}'])
def test_a_balance_that_is_none_is_found(managed_entries: list[Entry], value: str) -> None:
    entries = list(managed_entries)
    entries[3] = replace(entries[3], balance=value)
    assert positions(verify(reseal(entries, restate=False))) == [4]


def test_money_that_comes_from_nowhere_and_stays_is_named_once(
    managed_entries: list[Entry],
) -> None:
    entries = list(managed_entries)
    for place in range(3, len(entries)):
        balance = json.loads(str(entries[place].balance))
        granted = balance["free"]["granted"]
        granted["delta"] = to_text(Fraction(granted["delta"]) + Fraction(1, 10**7))
        entries[place] = replace(entries[place], balance=canonical_json(balance))
    assert positions(verify(reseal(entries, restate=False))) == [4]


def losses_of(position: int, *losses: dict[str, object]) -> Callable[[list[Entry]], list[Entry]]:
    """Other losses in the only stage of a charge."""

    def changed(entries: list[Entry]) -> list[Entry]:
        (stage,) = entries[position - 1].document()["stages"]
        return change_body(position, stages=[stage | {"losses": losses}])(entries)

    return changed


def unruled(entries: list[Entry]) -> list[Entry]:
    """The grant without its rule, as if charges were summed."""
    body = entries[0].document()
    del body["rule"], body["set_aside"]
    return change(1, body=canonical_json(body))(entries)


BALANCE = "the balance is not what"
SMALLER = {"kind": "gaussian", "mu": "0.01", "leak": "0", "count": 349}
TOLD = {"kind": "approximate", "epsilon": "0", "delta": "5e-7", "count": 1}
PURE = {"kind": "pure", "epsilon": "0.001", "count": 1}
HUGE = {"kind": "pure", "epsilon": "1000000", "count": 1}
#: Of a ledger under the rule gaussian, with hashes that are right and balances left as they are.
GAUSSIAN_FORGERIES: list[tuple[Callable[[list[Entry]], list[Entry]], int, str]] = [
    (unruled, 1, BALANCE),
    (change_body(1, set_aside="9e-7"), 1, BALANCE),
    (change_body(1, set_aside="2e-6"), 1, BALANCE),
    (change_body(1, set_aside="1e-5"), 1, "not a valid grant"),
    (change_body(1, budget={"epsilon": "0.99", "delta": "1e-5"}), 1, BALANCE),
    (change_body(1, budget={"epsilon": "101", "delta": "1e-5"}), 1, "not a valid grant"),
    (restate(1, "free", "granted", 0, "0.071"), 1, BALANCE),
    (restate(1, "free", "granted", 0, "0.07"), 1, BALANCE),
    (restate(1, "free", "granted", 0, "0"), 1, BALANCE),
    (restate(1, "free", "granted", 1, "1.01e-6"), 1, BALANCE),
    (restate(1, "free", "granted", 1, "9.9e-7"), 1, BALANCE),
    (restate(1, "free", "granted", 2, "2.6e-12"), 1, BALANCE),
    (restate(1, "free", "granted", 2, "2.5e-12"), 1, BALANCE),
    (restate(1, "free", "granted", 2, "0"), 1, BALANCE),
    (restate(3, "free", "spent", 0, "0.0349"), 3, BALANCE),
    (restate(3, "free", "spent", 1, "4e-7"), 3, BALANCE),
    (restate(3, "free", "spent", 0, "0"), 3, BALANCE),
    (restate(3, "free", "spent", 1, "0"), 3, BALANCE),
    (restate(3, "free", "spent", 2, "1e-20"), 3, BALANCE),
    (losses_of(3, SMALLER, TOLD), 3, BALANCE),
    (losses_of(3, SMALLER | {"count": 350}), 3, BALANCE),
    (losses_of(3, SMALLER | {"count": 350, "leak": "1e-15"}, TOLD), 3, BALANCE),
    (losses_of(3, SMALLER | {"count": 350, "leak": "1e-12"}, TOLD), 3, "exceeds what remained"),
    (losses_of(3, SMALLER | {"count": 350}, TOLD, PURE), 3, BALANCE),
    (losses_of(3, SMALLER | {"count": 350}, TOLD, HUGE), 3, "exceeds what remained"),
    (losses_of(3, SMALLER | {"count": -350}, TOLD), 3, "not a valid charge"),
    (losses_of(3, SMALLER | {"mu": "-0.01"}, TOLD), 3, "not a valid charge"),
    (losses_of(3, SMALLER | {"mu": "1e999999999"}, TOLD), 3, "not a valid charge"),
    (losses_of(3), 3, "stage 'mean' must state its losses"),
    (change_body(3, stages=[]), 3, "stages must be stated under the rule gaussian"),
    (
        change_body(6, budget={"mu_squared": "2", "delta": "2e-6", "leak": "0"}),
        6,
        "a budget of epsilon and",
    ),
    (change_body(6, budget={"epsilon": "2", "delta": "1.9e-5"}), 6, BALANCE),
    (restate(6, "free", "granted", 0, "0.3"), 6, BALANCE),
    (restate(6, "free", "granted", 2, "5.1e-12"), 6, BALANCE),
    (resize_leak(7, "budget", "1e-9"), 7, "the free pool held"),
    (resize_leak(7, "budget", "0"), 7, BALANCE),
    (resize_leak(8, "budget", "1e-9"), 8, "the free pool held"),
    (resize_leak(8, "budget", "0"), 8, "must be to more than"),
    (restate(7, "allocation", "granted", 2, "0"), 7, BALANCE),
    (change_body(7, budget={"epsilon": "0.02", "delta": "4e-7"}), 7, "counted by one rule"),
    (change_body(8, budget={"epsilon": "0.5", "delta": "4e-7"}), 8, "counted by one rule"),
    (losses_of(9, SMALLER | {"count": 300}), 9, BALANCE),
    (restate(10, "allocation", "spent", 0, "0.001"), 10, BALANCE),
    (change_body(11, asked={"epsilon": "9", "delta": "1e-7"}), 11, "counted by one rule"),
    (
        change_body(11, asked={"mu_squared": "0.01", "delta": "1e-7", "leak": "0"}),
        11,
        "another shortfall",
    ),
    (resize_leak(11, "asked", "1e-9"), 11, "another shortfall"),
    (resize_leak(11, "shortfall", "1e-9"), 11, "another shortfall"),
    (resize_leak(11, "remaining", "1e-9"), 11, "another remainder"),
    (resize_leak(11, "granted", "1e-9"), 11, "states another balance"),
    (restate(14, "allocation", "spent", 0, "0.0419"), 14, BALANCE),
]


@pytest.mark.parametrize(("change_all", "position", "message"), GAUSSIAN_FORGERIES)
def test_a_forged_count_of_mu_is_found_where_it_is(
    gaussian_entries: list[Entry],
    change_all: Callable[[list[Entry]], list[Entry]],
    position: int,
    message: str,
) -> None:
    first = verify(reseal(change_all(list(gaussian_entries)), restate=False))[0]
    assert position == first.position
    assert message in first.message


@pytest.mark.parametrize("epsilon", ["1.46", "1.45"])
def test_a_committed_charge_whose_losses_do_not_fit_cannot_be_forged(
    path: Path, charge: Callable[..., Charge], epsilon: str
) -> None:
    """Three pure 0.01 and one Gaussian 1/3 together are epsilon 1.4501 at delta 1e-6."""
    keeper = grant(path, "gaussian", Budget.of("2", "1e-5"))
    keeper.authorize(charge("k", "1.46"), rows=10, columns=("age",))
    entries = list(keeper.ledger.entries())
    budget = {"epsilon": epsilon, "delta": "1e-6"}
    found = verify(reseal(change_body(3, budget=budget, composition="committed")(entries)))
    assert found == ([] if epsilon == "1.46" else [Problem(3, "the body is not a valid charge")])


def test_a_key_used_for_two_plans_is_found(
    keeper: Accountant, charge: Callable[..., Charge]
) -> None:
    keeper.authorize(charge("k"), rows=10, columns=("a",))
    entries = list(keeper.ledger.entries())
    entries.append(forge(entries, "charge", charge("k#2", plan_hash="other"), "k#2"))
    assert verify(entries) == [Problem(4, "the release key was used for another plan")]


def test_a_forged_entry_is_not_counted(history: Accountant, charge: Callable[..., Charge]) -> None:
    entries = list(history.ledger.entries())
    audit = Audit()
    for entry in [*entries, forge(entries, "charge", charge("z", "9"), "z")]:
        audit.add(entry)
    assert audit.books["survey"].pool(None).spent == Budget.of(1, "7e-6")
