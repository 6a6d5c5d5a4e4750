"""An officer's months: allocations, raises, voids, exports, signed heads; as commands."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from accountant import Accountant, Authorization, Budget, Charge, PrivacyUnit

from ..scripts import HERE, call
from .test_accountant_cli import GRANT
from .test_accountant_cli import run as run_as_process

UNIT = PrivacyUnit(rows_per_person=5)
ANA = ["--dataset", "survey", "--allocation", "ana", "--epsilon", "0.3", "--delta", "3e-6"]
FORMAT_1 = Path(__file__).parents[1] / "unit" / "accountant" / "ledger_of_format_1.sql"


def run_alone(*arguments: object, status: int = 0) -> str:
    """`python -m accountant ...` as its own process; what it printed."""
    done = run_as_process(*arguments)
    return printed(done.returncode, done.stdout, done.stderr, status)


def run(*arguments: object, status: int = 0) -> str:
    """The same script in this process, which is faster."""
    done = call("accountant", HERE, *arguments)
    return printed(done.returncode, done.stdout, done.stderr, status)


def printed(code: int, out: str, err: str, status: int) -> str:
    """What was printed, or the one line of a refusal."""
    assert "Traceback" not in err
    assert (code, err.count("\n")) == (status, 1 if status == 2 else 0), err
    return err if status == 2 else out


def pay(address: str, key: str, epsilon: str, allocation: str | None = None) -> Authorization:
    keeper = Accountant(address, data_set="survey", allocation=allocation)
    budget = Budget.of(epsilon, "1e-6")
    charge = Charge(release_key=key, plan_hash="f00", unit=UNIT, budget=budget, stages=())
    granted = keeper.authorize(charge, rows=3, columns=["a", "b"])
    assert isinstance(granted, Authorization)
    return granted


def release(address: str, key: str, epsilon: str, allocation: str | None = None) -> None:
    keeper = Accountant(address, data_set="survey")
    granted = pay(address, key, epsilon, allocation)
    keeper.start(granted)
    keeper.store(granted, {"value": 1.5})


def grant(address: str) -> None:
    Accountant.grant(address, data_set="survey", budget=Budget.of("1", "1e-5"), unit=UNIT)


@pytest.fixture
def ledger(tmp_path: Path) -> str:
    path = str(tmp_path / "ledger.db")
    grant(path)
    return path


def test_months_of_an_officer(address: str) -> None:
    """Each command in a process of its own once, and in this one for the rest."""
    run_alone("grant", address, *GRANT, "--purpose", "health study", "--actor", "officer")
    assert run_alone("allocate", address, *ANA, "--purpose", "thesis") == (
        "Allocated to ana: epsilon 0.3 and delta 3e-6. "
        "The free pool has epsilon 0.7 and delta 7e-6 left.\n"
    )
    release(address, "first", "0.3", "ana")
    assert "too large by epsilon 0.4" in run("allocate", address, *ANA, "--allocation", "bob",
        "--epsilon", "1.1", status=2)  # fmt: skip
    raised = run("allocate", address, *ANA, "--epsilon", "0.5", "--reason", "one more chapter")
    assert raised.startswith("Raised for ana: epsilon 0.5 and delta 3e-6.")
    assert run("allocate", address, *ANA, "--epsilon", "0.5").startswith("Unchanged for ana: ")
    assert "2 and delta 1e-5" in run("grant", address, *GRANT, "--epsilon", "2", "--reason", "more")
    pay(address, "dead", "0.1")
    voided = run_alone(
        "void", address, "--dataset", "survey", "--key", "dead", "--reason", "no power"
    )
    assert voided == "Voided dead. Spent epsilon 0.3 and delta 1e-6.\n"
    refused = run("void", address, "--dataset", "survey", "--key", "first", "--reason", "x",
        status=2)  # fmt: skip
    assert "which is released. What may have looked at the table stays charged." in refused
    lines = [line.split() for line in run_alone("report", address).splitlines()]
    for expected in (
        ["granted", "2", "1e-5"],
        ["spent", "0.3", "1e-6"],
        ["free", "pool:", "granted", "1.5", "7e-6"],
        ["ana:", "remaining", "0.2", "2e-6"],
    ):
        assert expected in lines
    assert run_alone("verify", address).startswith("10 entries, sound; last hash ")


def test_every_form_of_a_report_says_the_same(ledger: str) -> None:
    release(ledger, "first", "1/3")
    text = run("report", ledger, "--dataset", "survey", "--format", "text")
    page = run("report", ledger, "--format", "html")
    (document,) = json.loads(run("report", ledger, "--format", "json"))
    assert document["spent"] == {"epsilon": "1/3", "delta": "1e-6"}
    for form in (text, page):
        assert "0.333334" in form
        assert "0.666666" in form
    assert page.startswith("<!DOCTYPE html>")
    assert text == run("report", ledger)


def test_an_export_is_verified_and_reported_like_the_ledger(address: str, tmp_path: Path) -> None:
    ledger = address
    grant(ledger)
    release(ledger, "first", "0.5")
    export = tmp_path / "export.jsonl"
    export.write_text(run("export", ledger), encoding="utf-8")
    assert run("verify", export) == run("verify", ledger)
    assert run("report", export) == run("report", ledger)
    alone = subprocess.run(
        [sys.executable, "-I", "-S", "verify_export.py", str(export)],
        cwd=copied(tmp_path),
        capture_output=True,
        text=True,
        check=True,
    )
    assert alone.stdout == run("verify", ledger)
    lines = export.read_text().splitlines()
    lines[2] = lines[2].replace("0.5", "0.4")
    export.write_text("\n".join([*lines, "no entry"]), encoding="utf-8")
    found = run("verify", export, status=1)
    assert "entry 3: the entry was changed" in found
    assert "entry 6: kind 'unreadable line' is unknown" in found
    assert "where entry 3 is wrong" in run("report", export, status=2)


def copied(folder: Path) -> Path:
    """A folder with the verifier and nothing else of this package."""
    import accountant

    source = Path(accountant.__file__).parent / "verify_export.py"
    shutil.copy(source, folder / "verify_export.py")
    return folder


def test_a_published_head_shows_a_cut_off_end_and_an_old_copy(ledger: str, tmp_path: Path) -> None:
    keys = {name: tmp_path / f"{name}.pem" for name in ("key", "public", "other", "other_public")}
    for key, public in (("key", "public"), ("other", "other_public")):
        openssl("genpkey", "-algorithm", "ed25519", "-out", keys[key])
        openssl("pkey", "-in", keys[key], "-pubout", "-out", keys[public])
    release(ledger, "first", "0.5")
    old = tmp_path / "old.jsonl"
    old.write_text(run("export", ledger), encoding="utf-8")
    release(ledger, "second", "0.25")
    head = tmp_path / "head.json"
    head.write_text(run("head", ledger, "--private-key", keys["key"]), encoding="utf-8")
    assert set(json.loads(head.read_text())) == {"entries", "hash", "signature"}
    run("verify", ledger, "--head", head, "--public-key", keys["public"])
    release(ledger, "third", "0.125")
    run("verify", ledger, "--head", head, "--public-key", keys["public"])  # it may have grown
    other = run("verify", ledger, "--head", head, "--public-key", keys["other_public"], status=1)
    assert "entry 8: the head's signature is not that key's" in other
    assert "entry 8: the published head counts 8 entries, the ledger 5: its end was cut off" in run(
        "verify", old, "--head", head, status=1
    )
    current = run("export", ledger).splitlines(keepends=True)
    cut = tmp_path / "cut.jsonl"
    cut.write_text("".join(current[:6]), encoding="utf-8")
    assert "the ledger 6" in run("verify", cut, "--head", head, status=1)
    claimed = json.loads(head.read_text())
    forged = tmp_path / "forged.json"
    forged.write_text(json.dumps(claimed | {"entries": 5}), encoding="utf-8")
    found = run("verify", cut, "--head", forged, "--public-key", keys["public"], status=1)
    assert "the head's signature is not that key's" in found
    assert "the entry is not that of the published head" in found


def openssl(*arguments: object) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "JSON"),
        ("{}", "entries must be given"),
        ('{"entries":0,"hash":"a"}', "entries must be at least 1"),
        ('{"entries":1,"hash":"a","more":1}', "more must not be there"),
    ],
)
def test_a_file_that_is_no_head_is_refused(
    ledger: str, tmp_path: Path, content: str, complaint: str
) -> None:
    head = tmp_path / "head.json"
    head.write_text(content, encoding="utf-8")
    assert complaint in run("verify", ledger, "--head", head, status=2)
    assert "readable file" in run("verify", ledger, "--head", tmp_path / "none", status=2)


def test_a_file_that_is_no_key_is_refused(ledger: str, tmp_path: Path) -> None:
    key = tmp_path / "key.pem"
    assert "openssl genpkey" in run("head", ledger, "--private-key", key, status=2)
    openssl("genpkey", "-algorithm", "x25519", "-out", key)
    assert "Ed25519 private key" in run("head", ledger, "--private-key", key, status=2)
    head = tmp_path / "head.json"
    head.write_text(run("head", ledger), encoding="utf-8")
    unknown = run("verify", ledger, "--head", head, "--public-key", key, status=2)
    assert "Ed25519 public key" in unknown


def test_an_unsigned_head_has_no_signature_of_a_key(ledger: str, tmp_path: Path) -> None:
    key, public, head = (tmp_path / name for name in ("key.pem", "public.pem", "head.json"))
    openssl("genpkey", "-algorithm", "ed25519", "-out", key)
    openssl("pkey", "-in", key, "-pubout", "-out", public)
    head.write_text(run("head", ledger), encoding="utf-8")
    run("verify", ledger, "--head", head)
    assert "signature" in run("verify", ledger, "--head", head, "--public-key", public, status=1)


@pytest.mark.parametrize(
    ("bounds", "status", "words"),
    [
        (["0.5"], 0, ""),
        (["0.499999"], 1, "more than epsilon 0.499999."),
        (["1.2", "--delta-at-most", "1e-6"], 0, ""),
        (
            ["1.2", "--delta-at-most", "9e-7"],
            1,
            "spent epsilon 0.5 and delta 1e-6, more than delta 9e-7.",
        ),
        (["1.2", "--delta-at-most", "0"], 1, "more than delta 0."),
    ],
)
def test_a_balance_is_asserted(ledger: str, bounds: list[str], status: int, words: str) -> None:
    release(ledger, "first", "0.5")
    said = run("assert", ledger, "--dataset", "survey", "--spent-at-most", *bounds, status=status)
    assert words in said
    assert bool(words) == bool(said)


def test_an_altered_ledger_asserts_nothing(ledger: str, tmp_path: Path) -> None:
    release(ledger, "first", "0.5")
    export = tmp_path / "export.jsonl"
    export.write_text(run("export", ledger).replace("0.5", "0.1"), encoding="utf-8")
    asked = ["--dataset", "survey", "--spent-at-most", "1"]
    assert "where entry 3 is wrong" in run("assert", export, *asked, status=2)
    assert "Check the spelling" in run("assert", ledger, *asked, "--dataset", "other", status=2)


def test_an_older_ledger_is_upgraded(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(FORMAT_1.read_text(encoding="utf-8"))
    assert "accountant upgrade" in run("report", path, status=2)
    assert run("upgrade", path) == "Upgraded from format 1.\n"
    assert run("verify", path).startswith("9 entries, sound")
    assert "spent 0.75 6e-6" in " ".join(run("report", path).split())


def test_printing_into_a_closed_pipe_ends_quietly(ledger: str) -> None:
    for number in range(3):
        Accountant(ledger, data_set="survey").reject(f"{number} " + "x" * 9000)
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "accountant", "export", ledger],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")
