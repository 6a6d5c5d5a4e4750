import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from functools import partial
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
    Ledger,
    Loss,
    PrivacyUnit,
    PureLoss,
    Stage,
    verify_export,
)

from ..scripts import HERE, Done, launch
from ..scripts import call as call_script

GRANT = ["--dataset", "survey", "--epsilon", "1", "--delta", "1e-5", "--rows-per-person", "5"]


def run(*arguments: object) -> Done:
    """`python -m accountant ...` as its own process, with warnings as errors."""
    done = launch("accountant", HERE, *arguments, timeout=60)
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture
def call() -> Callable[..., Done]:
    """The same script in this process, for the many small mistakes."""
    return partial(call_script, "accountant", HERE)


def spend(path: Path, key: str, epsilon: str) -> None:
    keeper = Accountant(path, data_set="survey")
    budget = Budget.of(epsilon, "1e-6")
    charge = Charge(release_key=key, plan_hash="f00", unit=keeper.unit, budget=budget, stages=())
    granted = keeper.authorize(charge, rows=3, columns=["a", "b"])
    assert isinstance(granted, Authorization)
    keeper.start(granted)
    keeper.store(granted, {"value": 1.5})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
def ledger(path: Path) -> Path:
    terms = {"budget": Budget.of("1", "1e-5"), "unit": PrivacyUnit(rows_per_person=5)}
    Accountant.grant(path, data_set="survey", **terms)
    return path


def test_an_officer_grants_shows_and_verifies(path: Path) -> None:
    granted = run("grant", path, *GRANT, "--purpose", "health study", "--actor", "officer")
    assert (granted.returncode, granted.stderr) == (0, "")
    assert granted.stdout == (
        "Granted to survey: epsilon 1 and delta 1e-5, "
        "protecting one person, at most 5 rows (change-one). If all of it is spent, an attacker "
        "can tell two candidates for a person apart with advantage 46.3 % at most.\n"
    )
    spend(path, "first", "0.7")
    with pytest.raises(BudgetExceeded):
        spend(path, "second", "0.7")
    shown = run("report", path)
    assert (shown.returncode, shown.stderr) == (0, "")
    lines = [line.split() for line in shown.stdout.splitlines()]
    for expected in (
        ["granted", "1", "1e-5"],
        ["spent", "0.7", "1e-6"],
        ["remaining", "0.3", "9e-6"],
        ["REFUSED"],
    ):
        assert expected in lines
    assert "by officer: health study" in shown.stdout
    verified = run("verify", path)
    assert (verified.returncode, verified.stderr) == (0, "")
    assert verified.stdout.startswith("6 entries, sound; last hash ")


SQUARES = [*GRANT, "--rule", "gaussian", "--set-aside", "1e-6"]


def explore(path: Path, key: str, *losses: Loss, allocation: str | None = None) -> Authorization:
    keeper = Accountant(path, data_set="survey", allocation=allocation)
    budget = Budget.of("0.5", "1e-6")
    stage = Stage(name="mean", budget=budget, losses=losses)
    charge = Charge(
        release_key=key, plan_hash="f00", unit=keeper.unit, budget=budget, stages=(stage,)
    )
    granted = keeper.authorize(charge, rows=3, columns=["a", "b"])
    assert isinstance(granted, Authorization)
    return granted


def test_an_officer_counts_squares_from_grant_to_verification(path: Path, tmp_path: Path) -> None:
    granted = run("grant", path, *SQUARES, "--actor", "officer")
    assert (granted.returncode, granted.stderr) == (0, "")
    assert granted.stdout == (
        "Granted to survey: epsilon 1 and delta 1e-5, counted as mu 0.266364 and delta 1e-6 aside, "
        "protecting one person, at most 5 rows (change-one). If all of it is spent, an attacker "
        "can tell two candidates for a person apart with advantage 10.6 % at most.\n"
    )
    allocated = run(
        *("allocate", path, "--dataset", "survey", "--allocation", "ana", "--mu", "0.12"),
        *("--set-aside", "1e-7", "--purpose", "thesis"),
    )
    assert (allocated.returncode, allocated.stderr) == (0, "")
    assert allocated.stdout == (  # the rest is the square root of 0.070950 less 0.0144
        "Allocated to ana: mu 0.12 and delta 1e-7 aside. The free pool has mu 0.237802 and delta "
        "9e-7 aside left.\n"
    )
    mu = GaussianLoss(mu=Fraction("0.05"))
    explore(path, "first", PureLoss(epsilon=Fraction("0.04")), mu)
    explore(path, "dead", mu, allocation="ana")
    with pytest.raises(BudgetExceeded, match="or 4 more like the last release"):
        explore(path, "large", GaussianLoss(mu=Fraction("0.2")), allocation="ana")
    voided = run("void", path, "--dataset", "survey", "--key", "dead", "--reason", "power")
    assert voided.stdout == "Voided dead. Spent mu 0.0708035 and delta 0 aside.\n"
    shown = run("report", path)
    assert (shown.returncode, shown.stderr) == (0, "")
    lines = [line.split() for line in shown.stdout.splitlines()]
    for expected in (
        ["mu", "delta", "aside"],
        ["granted", "0.266364", "1e-6"],
        ["spent", "0.0708035", "0"],
        ["remaining", "0.256781", "1e-6"],
        ["ana:", "remaining", "0.12", "1e-7"],
    ):
        assert expected in lines
    for name, leak in (("free pool", "2.04426e-12"), ("ana", "5.20555e-13")):
        said = f"Leak of {name}: granted {leak}, spent 0, remaining {leak}."
        assert said in shown.stdout.splitlines()
    (statement,) = json.loads(run("report", path, "--format", "json").stdout)
    assert statement["rule"] == {
        "kind": "gaussian",
        "budget": {"epsilon": "1", "delta": "1e-5"},
        "set_aside": "1e-6",
    }
    assert statement["allocations"][0]["granted"]["mu_squared"] == "0.0144"
    verified = run("verify", path)
    assert (verified.returncode, verified.stderr) == (0, "")
    assert verified.stdout.startswith("7 entries, sound; last hash ")
    (tmp_path / "ledger.jsonl").write_text(run("export", path).stdout)
    done = subprocess.run(
        [sys.executable, "-I", "-S", verify_export.__file__, tmp_path / "ledger.jsonl"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, verified.stdout)


@pytest.mark.parametrize(
    ("bounds", "complaint"),
    [
        (["--spent-at-most", "0.05"], None),
        (["--spent-at-most", "0.05", "--delta-at-most", "2e-7"], None),
        (["--spent-at-most", "0.0499999"], "more than mu 0.0499999."),
        (["--spent-at-most", "0.05", "--delta-at-most", "1.9e-7"], "more than delta 1.9e-7."),
        (["--spent-at-most", "0", "--delta-at-most", "0"], "more than mu 0 and delta 0."),
    ],
)
def test_a_bound_on_mu_is_watched_exactly(
    call: Callable[..., Done], path: Path, bounds: list[str], complaint: str | None
) -> None:
    assert call("grant", path, *SQUARES).returncode == 0
    told = ApproximateLoss(epsilon=Fraction(0), delta=Fraction("2e-7"))
    explore(path, "k", GaussianLoss(mu=Fraction("0.05")), told)
    done = call("assert", path, "--dataset", "survey", *bounds)
    said = f"survey: spent mu 0.05 and delta 2e-7 aside, {complaint}\n" if complaint else ""
    assert (done.returncode, done.stdout) == (int(bool(complaint)), said)


ALLOCATE = ["allocate", "LEDGER", "--dataset", "survey", "--allocation", "ana"]


@pytest.mark.parametrize(
    ("squares", "arguments", "complaint"),
    [
        (True, ["grant", "LEDGER", *GRANT], "grant must keep its rule and what is set aside"),
        (True, ["grant", "LEDGER", *SQUARES, "--set-aside", "2e-6"], "grant must keep its rule"),
        (False, ["grant", "LEDGER", *SQUARES], "grant must keep its rule and what is set aside"),
        (False, ["grant", "LEDGER", *GRANT, "--set-aside", "1e-6"], "set_aside must be 0 under"),
        (True, ["grant", "LEDGER", *SQUARES, "--epsilon", "2"], "grant must keep its budget, or"),
        (
            True,
            ["grant", "LEDGER", *SQUARES, "--epsilon", "16", "--reason", "more"],
            "grant must hold more after a raise; got mu 0 and",
        ),
        (True, [*ALLOCATE, "--epsilon", "0.1", "--delta", "1e-6"], "budget must be a mu under"),
        (False, [*ALLOCATE, "--mu", "0.1"], "budget must be epsilon and delta under the rule sum"),
        (True, [*ALLOCATE, "--mu", "0.1", "--epsilon", "1"], "budget must be epsilon and delta"),
        (True, ALLOCATE, "budget must be epsilon and delta under the rule sum, or mu under"),
        (True, [*ALLOCATE, "--mu", "0"], "mu_squared must be above 0"),
        (True, [*ALLOCATE, "--mu", "-0.1"], "mu must not be negative"),
        (True, [*ALLOCATE, "--mu", "0.3"], "request must fit in what remains, mu 0.266364"),
        (True, [*ALLOCATE, "--mu", "0.1", "--set-aside", "2e-6"], "request must fit in what"),
    ],
)
def test_a_mistake_about_rules_is_one_line_and_changes_nothing(
    call: Callable[..., Done], path: Path, squares: bool, arguments: list[str], complaint: str
) -> None:
    assert call("grant", path, *(SQUARES if squares else GRANT)).returncode == 0
    before = path.read_bytes()
    done = call(*(str(path) if word == "LEDGER" else word for word in arguments))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"accountant: {complaint}")
    assert done.stderr.count("\n") == 1
    assert before == path.read_bytes()


def test_allocations_of_mu_are_raised(call: Callable[..., Done], path: Path) -> None:
    call("grant", path, *SQUARES)
    words = [str(path) if word == "LEDGER" else word for word in ALLOCATE]
    for mu, reason, said in (
        ("0.1", [], "Allocated to ana: mu 0.1 and"),
        ("0.1", [], "Unchanged for ana: mu 0.1 and"),
        ("0.2", ["--reason", "one more chapter"], "Raised for ana: mu 0.2 and"),
    ):
        assert call(*words, "--mu", mu, *reason).stdout.startswith(said)
    raised = call("grant", path, *SQUARES, "--epsilon", "1.5", "--reason", "a second year")
    assert raised.stdout.startswith("Raised for survey: epsilon 1.5 and delta 1e-5, counted as mu")


def test_json_output_is_exact(ledger: Path) -> None:
    spend(ledger, "first", "1/3")
    (statement,) = json.loads(
        run("report", ledger, "--format", "json", "--dataset", "survey").stdout
    )
    assert statement["spent"] == {"epsilon": "1/3", "delta": "1e-6"}
    assert statement["remaining"] == {"epsilon": "2/3", "delta": "9e-6"}
    verdict = json.loads(run("verify", ledger, "--json").stdout)
    assert verdict == {"entries": 5, "last_hash": statement["last_hash"], "problems": []}


def test_granting_again_changes_nothing_and_other_terms_are_refused(
    call: Callable[..., Done], ledger: Path
) -> None:
    before = ledger.read_bytes()
    assert call("grant", ledger, *GRANT).returncode == 0
    refused = call("grant", ledger, *GRANT, "--epsilon", "2")
    assert refused.returncode == 2
    assert refused.stderr.startswith(
        "accountant: grant must keep its budget, or be raised with a reason; got epsilon 2"
    )
    assert before == ledger.read_bytes()


def test_the_table_can_be_named(call: Callable[..., Done], path: Path) -> None:
    assert call("grant", path, *GRANT, "--rows", 3, "--columns", "a, b").returncode == 0
    keeper = Accountant(path, data_set="survey")
    assert str(keeper.table) == "3 rows with columns a, b"
    assert keeper.unit == PrivacyUnit(rows_per_person=5)
    assert keeper.granted.delta == Fraction(1, 10**5)


@pytest.mark.parametrize(("rows", "told"), [(99_999, False), (100_000, True)])
def test_a_delta_that_could_publish_records_is_told(
    call: Callable[..., Done], path: Path, rows: int, told: bool
) -> None:
    done = call("grant", path, *GRANT, "--rows", rows, "--columns", "a")
    assert done.returncode == 0
    assert told == ("times delta is 1: 1 or more, so the delta alone" in done.stderr)


@pytest.mark.parametrize(("name", "told"), [("surveys", True), ("census", False)])
def test_a_grant_beside_one_with_nearly_its_name_is_told(
    call: Callable[..., Done], ledger: Path, name: str, told: bool
) -> None:
    done = call("grant", ledger, *GRANT, "--dataset", name)
    assert done.returncode == 0
    assert told == done.stderr.startswith("'survey' has a grant too. ")
    assert call("grant", ledger, *GRANT, "--dataset", name).stderr == ""  # unchanged


@pytest.mark.parametrize(
    ("extra", "complaint"),
    [
        (["--epsilon", "0"], "epsilon must be above 0"),
        (["--epsilon=-1"], "epsilon must not be negative"),
        (["--epsilon", "nan"], "epsilon must be a finite number"),
        (["--epsilon", "1e999999999"], "epsilon must have at most 1000 digits"),
        (["--delta", "0"], "delta must be between 0 and 1"),
        (["--delta", "1"], "delta must be below 1"),
        (["--delta", "tiny"], "delta must be a finite number"),
        (["--dataset", " "], "data_set must not be blank"),
        (["--rows", "3"], "rows and columns must be given together"),
        (["--columns", "a"], "rows and columns must be given together"),
        (["--rows", "3", "--columns", "a,,b"], "columns"),
        (["--rows", "3", "--columns", "a,a"], "columns must be different names"),
        (["--purpose", "a\nb"], "purpose must be printable"),
    ],
)
def test_an_unusable_grant_is_one_line_and_no_file(
    call: Callable[..., Done], path: Path, extra: list[str], complaint: str
) -> None:
    done = call("grant", path, *GRANT, *extra)
    assert (done.returncode, done.stdout) == (2, "")
    assert complaint in done.stderr
    assert done.stderr.count("\n") == 1
    assert not path.exists()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["grant", "LEDGER"], "Missing option '--dataset'"),
        (["grant", "LEDGER", *GRANT[:-2]], "Missing option '--rows-per-person'"),
        (["grant", "LEDGER", *GRANT, "--rows-per-person", "0"], "--rows-per-person"),
        (["grant", "LEDGER", *GRANT, "--rows", "1.5"], "--rows"),
        (["grant", "LEDGER", *GRANT, "--colour", "red"], "--colour"),
        (["report"], "Missing argument 'LEDGER'"),
        (["refund", "LEDGER"], "refund"),
        ([], "Usage"),
    ],
)
def test_wrong_usage_is_status_2(
    call: Callable[..., Done],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    complaint: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    done = call(*arguments)
    assert done.returncode == 2
    assert complaint in done.stderr + done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["grant", "report", "verify"])
@pytest.mark.parametrize("content", ["", "epsilon,delta\n" * 400])
def test_a_file_that_is_no_ledger_is_status_2_and_left_alone(
    call: Callable[..., Done], path: Path, command: str, content: str
) -> None:
    path.write_text(content)
    done = call(command, path, *(GRANT if command == "grant" else []))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("accountant: ledger must be a usable ledger; got ")
    assert done.stderr.count("\n") == 1
    assert content == path.read_text()


@pytest.mark.parametrize("command", ["report", "verify"])
def test_a_missing_ledger_is_status_2_and_not_created(
    call: Callable[..., Done], path: Path, command: str
) -> None:
    done = call(command, path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no such file" in done.stderr
    assert not path.exists()


def test_a_missing_folder_is_status_2(call: Callable[..., Done], tmp_path: Path) -> None:
    done = call("grant", tmp_path / "none" / "ledger.db", *GRANT)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "its folder does not exist" in done.stderr


def test_a_data_set_without_a_grant_is_told_the_line_to_type(
    call: Callable[..., Done], ledger: Path
) -> None:
    done = call("report", ledger, "--dataset", "other")
    assert done.returncode == 2
    assert "got 'other', where there is 'survey'. Check the spelling." in done.stderr
    done = call("void", ledger, "--dataset", "other", "--key", "k", "--reason", "r")
    assert f"accountant grant {ledger} --dataset other --epsilon E" in done.stderr


def test_a_changed_ledger_is_shown_to_nobody_and_verified_to_the_end(ledger: Path) -> None:
    spend(ledger, "first", "0.5")
    with closing(sqlite3.connect(ledger)) as connection, connection:
        connection.execute("DROP TRIGGER entries_refuse_update")
        connection.execute("UPDATE entries SET time = '2001' WHERE sequence IN (2, 4)")
    shown = run("report", ledger)
    assert (shown.returncode, shown.stdout) == (2, "")
    assert "where entry 2 is wrong" in shown.stderr
    assert f"Run `accountant verify {ledger}`" in shown.stderr
    verified = run("verify", ledger)
    assert verified.returncode == 1
    assert "entry 2: the entry was changed: its hash does not match" in verified.stdout
    assert "entry 4: the entry was changed: its hash does not match" in verified.stdout
    verdict = run("verify", ledger, "--json")
    assert verdict.returncode == 1
    positions = {problem["position"] for problem in json.loads(verdict.stdout)["problems"]}
    assert {2, 4} <= positions <= {2, 3, 4, 5}


def test_an_empty_ledger_is_sound(call: Callable[..., Done], path: Path) -> None:
    Ledger.create(path)
    assert call("report", path).stdout == "The ledger holds no grant yet.\n"
    assert call("report", path, "--format", "json").stdout == "[]\n"
    assert call("verify", path).stdout == f"0 entries, sound; last hash {'0' * 64}\n"


@pytest.mark.parametrize(
    "arguments",
    [["grant", "none.db", *GRANT, "--epsilon", "-1"], ["report", "none.db"], ["report"]],
)
def test_a_mistake_in_a_process_of_its_own_is_status_2(arguments: list[str]) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert not Path("none.db").exists()
