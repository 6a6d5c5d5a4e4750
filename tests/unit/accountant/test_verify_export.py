"""The verifier that stands alone, beside the one of the package: two rule books, one verdict."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from shutil import copy
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accountant import (
    Accountant,
    ApproximateLoss,
    Budget,
    Entry,
    GaussianLoss,
    Loss,
    PureLoss,
    to_text,
    verify,
    verify_export,
)
from accountant.balances import Balance, Pool, empty_pool
from accountant.entries import canonical_json
from accountant.exports import write_export
from accountant.rules import GaussianRule

from .conftest import grant, make_charge, manage
from .test_audit import FORGERIES, GAUSSIAN_FORGERIES, MANAGED_FORGERIES, POOLS, reseal, restate
from .test_databases import FORMAT_1

SCRIPT = Path(verify_export.__file__)
#: What the package finds by the form of a text alone; the short verifier leaves that to it.
FORM = ("not a valid", "not written as", "the time is not UTC", "of kind")


def problems(entries: list[Entry], head: Any = None) -> list[tuple[int, str]]:
    """What it finds, without its verdict."""
    *found, (zero, _) = verify_export.verify(list(write_export(entries)), head)
    assert zero == 0
    return found


def positions(found: list[tuple[int, str]]) -> list[int]:
    return sorted({position for position, _ in found})


def run(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """In a folder of its own, without site packages and without this package."""
    copy(SCRIPT, folder / "verify_export.py")
    return subprocess.run(
        [sys.executable, "-I", "-S", "verify_export.py", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def entries_under(rule: Literal["sum", "gaussian"], folder: Path) -> list[Entry]:
    keeper = grant(folder / "ledger.db", rule)
    manage(keeper)
    return list(keeper.ledger.entries())


@pytest.fixture(scope="module")
def summed_entries(tmp_path_factory: pytest.TempPathFactory) -> list[Entry]:
    return entries_under("sum", tmp_path_factory.mktemp("sum"))


@pytest.fixture(scope="module")
def gaussian_entries(tmp_path_factory: pytest.TempPathFactory) -> list[Entry]:
    return entries_under("gaussian", tmp_path_factory.mktemp("gaussian"))


@pytest.fixture(scope="module", params=["summed_entries", "gaussian_entries"])
def managed_entries(request: pytest.FixtureRequest) -> list[Entry]:
    entries: list[Entry] = request.getfixturevalue(request.param)
    return entries


def test_it_is_short_enough_to_read_in_one_sitting() -> None:
    text = SCRIPT.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 300
    imports = {line.split()[1] for line in text.splitlines() if line.startswith(("import", "from"))}
    assert imports <= set(sys.stdlib_module_names)


def test_sound_ledgers_are_sound(history: Accountant, managed_entries: list[Entry]) -> None:
    for entries in (list(history.ledger.entries()), managed_entries):
        assert problems(entries) == []
        *_, (_, verdict) = verify_export.verify(write_export(entries))
        assert verdict == f"{len(entries)} entries, sound; last hash {entries[-1].hash}"


def test_a_ledger_of_format_1_is_sound(tmp_path: Path) -> None:
    import sqlite3
    from contextlib import closing

    from accountant.ledger import Ledger, upgrade

    path = tmp_path / "ledger.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(FORMAT_1)
    upgrade(path)
    Accountant(path, data_set="survey").reject("no rows")
    assert problems(list(Ledger(path).entries())) == []


def test_it_runs_alone(history: Accountant, tmp_path: Path) -> None:
    lines = list(write_export(history.ledger.entries()))
    (tmp_path / "ledger.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    done = run(tmp_path, "ledger.jsonl")
    last = history.ledger.entries()[-1].hash
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"12 entries, sound; last hash {last}\n"
    (tmp_path / "ledger.jsonl").write_text("\n".join(lines[:4] + lines[5:]), encoding="utf-8")
    done = run(tmp_path, "ledger.jsonl")
    assert done.returncode == 1
    assert "entry 5: the sequence number must be 5\n" in done.stdout


@pytest.mark.parametrize("arguments", [(), ("none.jsonl",), (".",), ("empty", "--head", "none")])
def test_a_mistake_in_usage_is_one_line_and_status_2(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    (tmp_path / "empty").touch()
    done = run(tmp_path, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("verify_export.py ledger.jsonl [--head HEAD.json]: ")


def test_an_empty_export_is_not_sound(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").touch()
    done = run(tmp_path, "empty.jsonl")
    assert (done.returncode, done.stdout) == (1, "0 entries, 0 problems\n")


def test_a_published_head_must_be_there(history: Accountant, tmp_path: Path) -> None:
    entries = list(history.ledger.entries())
    (tmp_path / "ledger.jsonl").write_text("\n".join(write_export(entries[:8])), encoding="utf-8")
    for position, hashed, status in (
        (8, entries[7].hash, 0),
        (3, entries[2].hash, 0),
        (12, entries[11].hash, 1),
        (8, entries[6].hash, 1),
    ):
        head = json.dumps({"entries": position, "hash": hashed})
        (tmp_path / "head.json").write_text(head, encoding="utf-8")
        done = run(tmp_path, "ledger.jsonl", "--head", "head.json")
        assert done.returncode == status
        assert ("published head is not there" in done.stdout) == bool(status)


FIELDS = list(Entry.__slots__)


@pytest.mark.parametrize("field", FIELDS)
def test_one_altered_byte_of_any_field_of_any_entry_is_found_by_both_where_it_is(
    managed_entries: list[Entry], field: str
) -> None:
    for place, entry in enumerate(managed_entries):
        value = getattr(entry, field)
        if isinstance(value, int):
            altered: object = value + 1
        elif value is None:
            altered = "x"
        else:
            middle = len(value) // 2
            altered = value[:middle] + chr(ord(value[middle]) ^ 1) + value[middle + 1 :]
        entries = list(managed_entries)
        entries[place] = replace(entry, **{field: altered})
        assert place + 1 in positions(problems(entries))
        assert place + 1 in {problem.position for problem in verify(entries)}


@pytest.mark.parametrize("place", range(13))
def test_a_deleted_a_doubled_and_a_swapped_entry_are_found_by_both(
    managed_entries: list[Entry], place: int
) -> None:
    deleted = managed_entries[:place] + managed_entries[place + 1 :]
    doubled = managed_entries[: place + 1] + managed_entries[place:]
    swapped = list(managed_entries)
    swapped[place], swapped[place + 1] = swapped[place + 1], swapped[place]
    for entries, first in ((deleted, place + 1), (doubled, place + 2), (swapped, place + 1)):
        assert positions(problems(entries))[0] == first
        assert verify(entries)[0].position == first


@pytest.mark.parametrize(("change_all", "position", "message"), FORGERIES)
def test_a_forgery_with_correct_hashes_is_found_by_both(
    history: Accountant,
    change_all: Callable[[list[Entry]], list[Entry]],
    position: int,
    message: str,
) -> None:
    forged = reseal(change_all(list(history.ledger.entries())))
    if not any(words in message for words in FORM):
        assert positions(problems(forged))[0] == position == verify(forged)[0].position


@pytest.mark.parametrize(("change_all", "position", "message"), MANAGED_FORGERIES)
def test_a_forgery_of_what_an_officer_does_is_found_by_both(
    managed_entries: list[Entry],
    change_all: Callable[[list[Entry]], list[Entry]],
    position: int,
    message: str,
) -> None:
    forged = reseal(change_all(list(managed_entries)))
    if not any(words in message for words in FORM):
        assert positions(problems(forged))[0] == position == verify(forged)[0].position


@pytest.mark.parametrize("position", range(1, 15))
@pytest.mark.parametrize(("pool", "side"), POOLS)
def test_a_forged_leak_is_found_by_both_where_it_is(
    gaussian_entries: list[Entry], position: int, pool: str, side: str
) -> None:
    changed = restate(position, pool, side, 2, "7e-13")(list(gaussian_entries))
    forged = reseal(changed, restate=False)
    assert positions(problems(forged))[0] == position
    assert [problem.position for problem in verify(forged)] == [position]


@pytest.mark.parametrize("position", range(1, 15))
@pytest.mark.parametrize(("pool", "side"), POOLS)
def test_a_forged_balance_is_found_by_both_once_and_where_it_is(
    managed_entries: list[Entry], position: int, pool: str, side: str
) -> None:
    changed = restate(position, pool, side, 0, "0.7")(list(managed_entries))
    forged = reseal(changed, restate=False)
    found = positions(problems(forged))
    if "rule" not in json.loads(forged[0].body):
        assert found == [position]
    assert found[0] == position  # and what follows from it, where costs are read off balances
    assert [problem.position for problem in verify(forged)] == [position]


@pytest.mark.parametrize(("change_all", "position", "message"), GAUSSIAN_FORGERIES)
def test_a_forged_count_of_mu_is_found_by_both(
    gaussian_entries: list[Entry],
    change_all: Callable[[list[Entry]], list[Entry]],
    position: int,
    message: str,
) -> None:
    forged = reseal(change_all(list(gaussian_entries)), restate=False)
    assert positions(problems(forged))[0] == position == verify(forged)[0].position


@pytest.mark.parametrize(
    ("place", "pool", "side", "coordinate"),
    [(1, "free", "granted", 0), (1, "free", "granted", 2), (3, "free", "spent", 0)],
)
def test_what_floats_cannot_tell_is_found_by_the_package_alone(
    gaussian_entries: list[Entry], place: int, pool: str, side: str, coordinate: int
) -> None:
    """The short verifier takes what is off by less than one part in 10^8 as it is stated."""
    pools = json.loads(str(gaussian_entries[place - 1].balance))[pool]
    stated = Fraction(pools[side][("mu_squared", "delta", "leak")[coordinate]])
    for part, position in ((Fraction(1, 10**10), place + 1), (Fraction(1, 10**6), place)):
        for sign in (-1, 1):
            amount = to_text(stated * (1 + sign * part))
            forged = restate(place, pool, side, coordinate, amount)(list(gaussian_entries))
            sealed = reseal(forged, restate=False)
            assert verify(sealed)[0].position == place
            assert positions(problems(sealed))[0] == position


@pytest.mark.parametrize("set_aside", ["0", "1/3", "0.999"])
@pytest.mark.parametrize("delta", ["0.1", "1e-3", "1e-6", "1e-12", "1e-30", "1e-100"])
@pytest.mark.parametrize("epsilon", ["1e-4", "0.3", "1", "10", "100"])
def test_every_grant_holds_its_mu_in_floats_too(epsilon: str, delta: str, set_aside: str) -> None:
    book, budget = verify_export.Book(), Budget.of(epsilon, delta)
    rule = GaussianRule(budget=budget, set_aside=Fraction(set_aside) * budget.delta)
    book.first, nothing = "mu_squared", empty_pool(rule.cost(()))
    book.terms = {
        "budget": {"epsilon": epsilon, "delta": delta},
        "set_aside": to_text(rule.set_aside),
    }
    for raised in (budget, Budget.of(budget.epsilon, budget.delta * 3 / 2)):
        free = Pool(granted=rule.capacity(raised), spent=rule.cost(()))
        balance = Balance(free=free, allocations=nothing, allocation=None)
        entry = {"balance": canonical_json(balance.model_dump(mode="json"))}
        found = book.whole(entry, [raised.delta, raised.epsilon, Fraction(0)])
        mu_squared, delta, leak = free.granted.coordinates
        assert found == [delta, mu_squared, leak]


@pytest.mark.parametrize(
    "loss",
    [
        GaussianLoss(mu=Fraction("1e-200"), leak=Fraction("1e-310")),
        PureLoss(epsilon=Fraction("1e-9"), count=7),
        PureLoss(epsilon=Fraction("1e-5")),
        PureLoss(epsilon=Fraction(12)),
        ApproximateLoss(epsilon=Fraction("0.1"), delta=Fraction("1e-290")),
        ApproximateLoss(epsilon=Fraction("1e-3"), delta=Fraction("1e-12"), count=10**6),
    ],
    ids=str,
)
def test_a_cost_is_near_in_floats_however_small_or_large(path: Path, loss: Loss) -> None:
    keeper = grant(path, "gaussian", Budget.of("100", "0.1"))
    keeper.authorize(make_charge(losses=[loss]), rows=10, columns=("age",))
    assert problems(list(keeper.ledger.entries())) == []


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)


@settings(max_examples=150)
@given(st.data())
def test_it_never_stops_halfway_whatever_stands_in_a_line(
    managed_entries: list[Entry], data: st.DataObject
) -> None:
    """Any value in any field, any text in a body, any bytes in place of a line."""
    lines: list[Any] = [json.loads(line) for line in write_export(managed_entries)]
    place = data.draw(st.integers(0, len(lines) - 1))
    match data.draw(st.sampled_from(["field", "body", "bytes", "json"])):
        case "field":
            lines[place][data.draw(st.sampled_from(FIELDS))] = data.draw(ANYTHING)
        case "body":
            body = json.loads(lines[place]["body"])
            if body:
                body[data.draw(st.sampled_from(sorted(body)))] = data.draw(ANYTHING)
            lines[place]["body"] = json.dumps(body, sort_keys=True, separators=(",", ":"))
        case "json":
            lines[place] = data.draw(ANYTHING)
        case _:
            lines[place] = data.draw(st.binary(max_size=40))
    written = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    *found, (zero, verdict) = verify_export.verify(written)
    assert zero == 0
    assert verdict.startswith("14 entries, ")
    assert all(1 <= position <= 14 for position, _ in found)


def charge_body(entries: list[Entry], place: int, **changes: object) -> list[Entry]:
    body = entries[place].document() | changes
    forged = list(entries)
    forged[place] = replace(entries[place], body=canonical_json(body))
    return reseal(forged, restate=False)


HIDDEN = [{"a": "1e-9", "delta": "1e-9", "epsilon": "5"}, {}, {"epsilon": "1"}, [], "0.1", None]


@pytest.mark.parametrize("budget", HIDDEN)
def test_a_budget_of_other_fields_hides_nothing(
    managed_entries: list[Entry], budget: object
) -> None:
    forged = charge_body(managed_entries, 2, budget=budget)
    assert positions(problems(forged))[0] == 3 == verify(forged)[0].position


@pytest.mark.parametrize("amount", ["1/9973", f"1/{10**303}", "1e101"])
def test_amounts_off_the_grid_are_found_by_both(managed_entries: list[Entry], amount: str) -> None:
    for place in (0, 2, 5, 6):
        budget = dict(managed_entries[place].document()["budget"])
        budget[max(budget)] = amount  # beside delta
        forged = charge_body(managed_entries, place, budget=budget)
        assert positions(problems(forged))[0] == place + 1 == verify(forged)[0].position


def test_a_void_gives_nothing_back_of_a_charge_that_was_never_covered(
    managed_entries: list[Entry],
) -> None:
    body = managed_entries[8].document()  # the charge that is voided
    (stage,) = body["stages"]
    large = body["budget"] | {"epsilon": "0.7"}
    many = [loss | {"count": 700} for loss in stage["losses"]]
    stages = [stage | {"budget": large, "losses": many}]
    forged = charge_body(managed_entries, 8, budget=large, stages=stages)
    restated = reseal(forged)
    assert positions(problems(restated)) == [9] == [p.position for p in verify(restated)]
