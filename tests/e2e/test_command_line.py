"""The script dppca-odp on real files: what it writes, what it charges, how it says no."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from accountant import Accountant, Budget, Ledger, PrivacyUnit, verify
from dppca_odp import Advice, Plan, Release

from ..scripts import call, launch

COLUMNS = ("age", "income", "visits")
SECRET = 918273.5


@pytest.fixture
def plan() -> dict:
    return {
        "budget": {"epsilon": "1", "delta": "1e-7"},
        "unit": {"rows_per_person": 1},
        "columns": [{"name": "age", "lower": 0, "upper": 110, "scale": 20}, "income", "visits"],
        "releases": [
            {"kind": "directions", "name": "directions", "components": 2},
            {
                "kind": "scree",
                "name": "pmwm",
                "directions": "directions",
                "method": {"kind": "pmwm", "lower_bound": 0, "upper_bound": 100},
            },
        ],
    }


@pytest.fixture
def place(tmp_path: Path, plan: dict) -> Path:
    table = np.random.default_rng(5).normal(size=(400, 3)) * [20, 3, 1] + [50, 0, 0]
    frame = pl.DataFrame(table, schema=list(COLUMNS))
    frame.write_csv(tmp_path / "visits.csv")
    frame.write_parquet(tmp_path / "visits.parquet")
    write_plan(tmp_path, plan)
    Accountant.grant(
        tmp_path / "ledger.db",
        data_set="visits",
        budget=Budget.of("3", "1e-6"),
        unit=PrivacyUnit(rows_per_person=1),
    )
    return tmp_path


def write_plan(place: Path, plan: dict) -> None:
    (place / "plan.json").write_text(json.dumps(plan), encoding="utf-8")


def grant(place: Path, *more: str, epsilon: str = "3") -> subprocess.CompletedProcess:
    words = ["--dataset", "visits", "--epsilon", epsilon, "--delta", "1e-6"]
    return call("accountant", place, "grant", "ledger.db", *words, "--rows-per-person", "1", *more)


def run(
    place: Path, *more: str, data: str = "visits.csv", script=call
) -> subprocess.CompletedProcess:
    words = ["--data", data, "--ledger", "ledger.db", "--dataset", "visits", "--out", "out"]
    return script("dppca_odp", place, "run", "plan.json", *words, *more)


def spent(place: Path) -> str:
    return str(Accountant(place / "ledger.db", data_set="visits").spent())


def assert_refused(result: subprocess.CompletedProcess, status: int, *words: str) -> None:
    assert result.returncode == status, result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert "Traceback" not in result.stderr
    for word in words:
        assert word in result.stderr
    assert str(SECRET) not in result.stderr + result.stdout


def assert_nothing_charged(place: Path) -> None:
    assert spent(place) == "epsilon 0 and delta 0"
    assert verify(Ledger(place / "ledger.db").entries()) == []
    assert not (place / "out" / "release.json").exists()


@pytest.mark.parametrize("data", ["visits.csv", "visits.parquet"])
def test_a_run_charges_and_writes_a_release_and_a_picture(place: Path, data: str) -> None:
    result = run(place, data=data, script=launch)
    assert result.returncode == 0, result.stderr
    release = Release.read(place / "out" / "release.json")
    assert release.columns == COLUMNS
    assert len(release["pmwm"].values) == 2
    assert (place / "out" / "scree.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert spent(place) == "epsilon 1 and delta 1e-7"
    kinds = [entry.kind for entry in Ledger(place / "ledger.db").entries()]
    assert kinds == ["grant", "table", "charge", "started", "release"]


def test_the_same_plan_again_is_free_and_says_so(place: Path) -> None:
    first = json.loads(run(place, "--json").stdout)
    again = run(place)
    assert "already paid for" in again.stdout
    assert json.loads(run(place, "--json").stdout) == first
    assert spent(place) == "epsilon 1 and delta 1e-7"


def test_fresh_pays_for_new_noise_and_a_key_names_a_release(place: Path) -> None:
    first = json.loads(run(place, "--json").stdout)
    fresh = json.loads(run(place, "--fresh", "--json").stdout)
    assert fresh["results"] != first["results"]
    assert json.loads(run(place, "--json").stdout) == fresh
    keyed = json.loads(run(place, "--key", "march", "--json").stdout)
    assert keyed["release_key"] == "march"
    assert spent(place) == "epsilon 3 and delta 3e-7"


def test_a_changed_plan_under_an_old_key_is_refused(place: Path, plan: dict) -> None:
    assert run(place, "--key", "march").returncode == 0
    plan["budget"]["epsilon"] = "2"
    write_plan(place, plan)
    assert_refused(run(place, "--key", "march"), 2, "march")
    assert spent(place) == "epsilon 1 and delta 1e-7"


def test_a_request_beyond_the_budget_is_refused_and_recorded(place: Path, plan: dict) -> None:
    plan["budget"]["epsilon"] = "3.0000000000000001"
    write_plan(place, plan)
    assert_refused(run(place), 3, "epsilon 3")
    assert_nothing_charged(place)
    assert Ledger(place / "ledger.db").entries()[-1].kind == "refusal"


def test_a_data_set_without_a_grant_gets_the_line_to_type(place: Path) -> None:
    (place / "ledger.db").unlink()
    line = "accountant grant ledger.db --dataset visits"
    assert_refused(run(place), 3, line.split()[0], "--dataset visits", "--rows-per-person")
    assert not (place / "ledger.db").exists()


def test_preview_prices_a_plan_without_data(place: Path) -> None:
    result = launch("dppca_odp", place, "preview", "plan.json", "--rows", "400", "--columns", "3")
    assert result.returncode == 0
    assert "pmwm: quantile" in result.stdout
    priced = call(
        "dppca_odp", place, "preview", "plan.json", "--rows", "400", "--columns", "3", "--json"
    )
    names = [line["stage"]["name"] for line in json.loads(priced.stdout)["stages"]]
    assert names == ["directions: matrix", "pmwm: quantile", "pmwm: mean"]


def test_preview_takes_the_rows_from_the_ledger(place: Path) -> None:
    paid = ["--ledger", "ledger.db", "--dataset", "visits"]
    words = "rows must be given where no ledger tells them"
    for more in ((), paid):
        assert_refused(call("dppca_odp", place, "preview", "plan.json", *more), 2, words)
    assert run(place).returncode == 0
    priced = call("dppca_odp", place, "preview", "plan.json", *paid, "--json")
    assert json.loads(priced.stdout)["rows"] == 400


def test_preview_with_guesses_tells_the_errors_to_expect(place: Path) -> None:
    words = ["preview", "plan.json", "--rows", "400", "--columns", "3", "--guess", "300,2"]
    shown = call("dppca_odp", place, *words)
    assert shown.returncode == 0, shown.stderr
    assert "pmwm: noise: at most this" in shown.stdout
    (scree,) = json.loads(call("dppca_odp", place, *words, "--json").stdout)["screes"]
    assert scree["eigenvalues"] == [300, 2]
    assert min(scree["noise_scales"] + scree["sampling_scales"]) > 0
    one = call("dppca_odp", place, *words[:-1], "4", "--json")
    assert json.loads(one.stdout)["screes"][0]["eigenvalues"] == [4, 4]


@pytest.mark.parametrize(
    ("guess", "words"),
    [
        ("1,2,3", ["guess must be one number", "pmwm (2)", "got 3"]),
        ("many", ["guess must be numbers with commas", "'many'"]),
        ("1,,2", ["guess must be numbers with commas"]),
        ("1,-2", ["guesses of pmwm must be above 0", "got -2"]),
    ],
)
def test_a_guess_that_suits_no_scree_is_status_2_in_one_line(place: Path, guess, words) -> None:
    line = ["preview", "plan.json", "--rows", "400", "--columns", "3", f"--guess={guess}"]
    assert_refused(call("dppca_odp", place, *line), 2, *words)


def test_advice_is_a_plan_that_previews_or_what_would_do(place: Path) -> None:
    words = ["advise", "--epsilon", "1", "--delta", "1e-6", "--columns", "3", "--rows"]
    shown = launch("dppca_odp", place, *words, "4000", "--out", "advised.json")
    assert shown.returncode == 0, shown.stderr
    *_, last = shown.stdout.splitlines()
    assert last == "Written to advised.json: name your columns in it."
    told = shown.stdout.removesuffix(f"{last}\n")
    assert (place / "advised.json").read_text() == told[told.index("{") :]
    priced = call("dppca_odp", place, "preview", "advised.json", "--rows", "4000", "--columns=3")
    assert "scree: likely to find all 3 scales" in priced.stdout, priced.stderr
    named = ["advise", "--epsilon=1", "--delta=1e-6", "--columns", "a, b,c", "--rows", "4000"]
    shown = call("dppca_odp", place, *named, "--out", "named.json")
    assert shown.stdout.endswith("\nWritten to named.json.\n")
    assert Plan.read(place / "named.json").column_names == ("a", "b", "c")
    shown = call("dppca_odp", place, *named, "--scaled", "--json")
    assert [release.name for release in Advice.model_validate_json(shown.stdout).plan.releases] == [
        "variances",
        "directions",
        "scree",
    ]
    more = ["400", "--components", "2", "--rows-per-person", "2", "--json"]
    told = call("dppca_odp", place, *words, *more)
    assert told.returncode == 3
    refused = json.loads(told.stdout)
    assert refused["plan"] is None
    assert refused["least_rows"] > 400
    assert refused["unit"]["rows_per_person"] == 2


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (["--epsilon", "0"], ["epsilon"]),
        (["--epsilon", "lots"], ["epsilon", "lots"]),
        (["--rows", "2"], ["rows must be at least 3"]),
        (["--components", "4"], ["components must be between 1 and", "3; got 4"]),
        (["--rows-per-person", "0"], ["rows_per_person"]),
    ],
)
def test_advice_on_what_no_plan_suits_is_status_2_in_one_line(place: Path, changes, words) -> None:
    line = ["advise", "--epsilon", "1", "--delta", "1e-6", "--columns", "3", "--rows", "400"]
    assert_refused(call("dppca_odp", place, *line, *changes), 2, *words)


def test_a_committed_plan_is_priced_run_and_verified(place: Path, plan: dict) -> None:
    plan["composition"] = "committed"
    plan["budget"] = {"mu": "0.2", "delta": "1e-7"}
    plan["releases"][1]["method"]["weights"] = {"mean": "3"}
    write_plan(place, plan)
    priced = call("dppca_odp", place, "preview", "plan.json", "--rows", "400", "--columns", "3")
    assert "committed together" in priced.stdout
    assert {"sum", "committed", "gaussian"} <= {
        row[:9].strip() for row in priced.stdout.split("\n ")
    }
    result = run(place)
    assert result.returncode == 0, result.stderr
    release = Release.read(place / "out" / "release.json")
    assert release.composition == "committed"
    assert sum(stage.budget.epsilon for stage in release.stages) > release.budget.epsilon
    assert spent(place) == str(release.budget)
    assert verify(Ledger(place / "ledger.db").entries()) == []


def test_schema_describes_a_plan(place: Path) -> None:
    schema = json.loads(launch("dppca_odp", place, "schema").stdout)
    assert set(schema["required"]) == {"budget", "unit", "columns", "releases"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda plan: plan.update(colour="red"), ["colour"]),
        (lambda plan: plan.pop("unit"), ["unit", "must be given"]),
        (lambda plan: plan["budget"].update(epsilon="0"), ["epsilon"]),
        (lambda plan: plan["budget"].update(epsilon="-1"), ["epsilon"]),
        (lambda plan: plan["budget"].update(epsilon="nan"), ["epsilon"]),
        (lambda plan: plan["budget"].update(epsilon=0.1), ["epsilon", '"0.1"']),
        (lambda plan: plan["budget"].update(delta="0"), ["delta"]),
        (lambda plan: plan["budget"].update(delta="1"), ["delta"]),
        (lambda plan: plan["unit"].update(rows_per_person=0), ["rows_per_person"]),
        (lambda plan: plan["releases"][0].update(components=4), ["components", "3"]),
        (lambda plan: plan["releases"][0].update(degree=3), ["degree"]),
        (lambda plan: plan["releases"][0].update(weight="0"), ["weight"]),
        (lambda plan: plan["releases"][1].update(directions="nowhere"), ["directions", "nowhere"]),
        (lambda plan: plan["releases"][1]["method"].update(lower_bound=100), ["lower_bound"]),
        (lambda plan: plan["releases"][1]["method"].update(grid={"beta": 1}), ["beta"]),
        (lambda plan: plan["releases"][1]["method"].update(trim_fraction=0.5), ["trim_fraction"]),
        (lambda plan: plan["releases"][1]["method"].update(trim_fraction=-0.1), ["trim_fraction"]),
        (
            lambda plan: plan["releases"][1].update(
                method={"kind": "clipped", "clipping_bound": 0}
            ),
            ["clipping_bound"],
        ),
        (lambda plan: plan["releases"][1].update(method={"kind": "mean"}), ["method"]),
        (lambda plan: plan["columns"].append("age"), ["columns", "age"]),
        (lambda plan: plan["columns"].clear(), ["columns"]),
        (lambda plan: plan["columns"][0].update(lower=200), ["lower"]),
    ],
)
def test_a_wrong_plan_is_status_2_in_one_line(place: Path, plan: dict, change, words) -> None:
    change(plan)
    write_plan(place, plan)
    assert_refused(run(place), 2, *words)
    assert_nothing_charged(place)


@pytest.mark.parametrize(
    "words",
    [
        ["run"],
        ["run", "plan.json"],
        ["preview", "plan.json", "--rows", "many", "--columns", "3"],
        ["preview", "plan.json", "--rows", "1", "--columns", "3"],
        ["preview", "plan.json", "--rows", "400", "--columns", "4"],
        ["preview", "absent.json", "--rows", "400", "--columns", "3"],
        ["preview", "visits.csv", "--rows", "400", "--columns", "3"],
        ["preview", "visits.parquet", "--rows", "400", "--columns", "3"],
        ["publish"],
        ["schema", "--colour"],
    ],
)
def test_wrong_usage_is_status_2_in_one_line(place: Path, words: list[str]) -> None:
    assert_refused(call("dppca_odp", place, *words), 2)


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["run", "plan.json", "--data", "visits.csv"], 2),
        (["run", "plan.json", "--data", "visits.csv", "--dataset", "visits"], 3),
        (["run", "plan.json", "--data", "absent.csv", "--dataset", "visits"], 4),
        (["preview", "absent.json", "--rows", "400", "--columns", "3"], 2),
        (["advise", "--epsilon", "0", "--delta", "1e-6", "--columns", "3", "--rows", "400"], 2),
        (["plot", "absent.json", "--out", "out"], 2),
        (["schema", "--colour"], 2),
    ],
)
def test_a_mistake_in_a_process_of_its_own_is_one_line(
    place: Path, plan: dict, words: list[str], status: int
) -> None:
    plan["budget"]["epsilon"] = "4"
    write_plan(place, plan)
    more = ["--ledger", "ledger.db", "--out", "out"] if words[0] == "run" else []
    assert_refused(launch("dppca_odp", place, *words, *more), status)
    assert_nothing_charged(place)


def test_another_unit_than_the_grant_is_refused(place: Path, plan: dict) -> None:
    plan["unit"]["rows_per_person"] = 2
    write_plan(place, plan)
    assert_refused(run(place), 2, "unit")
    assert_nothing_charged(place)


def table_text(rows: list[str], separator: str = ",") -> str:
    return "\n".join([separator.join(COLUMNS), *rows]) + "\n"


GOOD = [f"{i},{i * 2},{i % 3}" for i in range(40)]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", ["empty"]),
        (table_text([]).encode(), ["rows"]),
        (table_text(GOOD[:1]).encode(), ["rows"]),
        (table_text([*GOOD, f"{SECRET},,1"]).encode(), ["income", "missing"]),
        (table_text([*GOOD, f"{SECRET},nan,1"]).encode(), ["income", "missing"]),
        (table_text([*GOOD, f"{SECRET},many,1"]).encode(), ["income"]),
        (table_text([*GOOD, f"{SECRET}"]).encode(), ["income"]),
        (table_text([*GOOD, f"{SECRET},1,1,1,1"]).encode(), ["data"]),
        (table_text([row.replace(",", ";") for row in GOOD], ";").encode(), ["commas"]),
        (table_text(GOOD).replace("income", "wages").encode(), ["income"]),
        (table_text([f"{row},5" for row in GOOD]).encode(), ["data"]),
        (table_text(GOOD).encode("utf-16"), ["columns"]),
        (bytes(range(256)) * 20, ["columns"]),
    ],
)
def test_unusable_data_is_status_4_recorded_and_free(place: Path, content: bytes, words) -> None:
    (place / "visits.csv").write_bytes(content)
    assert_refused(run(place), 4, *words)
    assert_nothing_charged(place)
    assert Ledger(place / "ledger.db").entries()[-1].kind == "rejection"


@pytest.mark.parametrize("data", ["absent.csv", "plan.json", "."])
def test_data_that_is_no_table_is_status_4(place: Path, data: str) -> None:
    assert_refused(run(place, data=data), 4, "data")
    assert_nothing_charged(place)


def test_a_byte_order_mark_and_values_outside_the_bounds_are_fine(place: Path) -> None:
    rows = [*GOOD, "1e308,-1e308,inf", "-inf,1e-308,5", f"{SECRET},{SECRET},{SECRET}"]
    (place / "visits.csv").write_bytes(b"\xef\xbb\xbf" + table_text(rows).encode())
    result = run(place)
    assert result.returncode == 0, result.stderr
    assert str(SECRET) not in result.stdout + result.stderr


def test_constant_and_duplicate_rows_work(place: Path) -> None:
    (place / "visits.csv").write_text(table_text(["1,2,3"] * 50))
    assert run(place).returncode == 0


def test_a_table_that_does_not_match_its_grant_is_status_4(place: Path) -> None:
    (place / "ledger.db").unlink()
    assert grant(place, "--rows", "401", "--columns", "age,income,visits").returncode == 0
    assert_refused(run(place), 4, "401", "400")
    assert_nothing_charged(place)


def test_plans_may_read_some_of_the_columns_on_record_in_any_order(place: Path, plan: dict) -> None:
    (place / "ledger.db").unlink()
    assert grant(place, "--rows", "400", "--columns", "visits,age,income,region").returncode == 0
    assert run(place).returncode == 0
    plan["columns"] = ["visits", "age"]
    write_plan(place, plan)
    result = run(place)
    assert result.returncode == 0, result.stderr


def test_later_plans_may_read_other_columns_of_a_grant_that_names_none(
    place: Path, plan: dict
) -> None:
    plan["columns"] = ["visits", "age"]
    write_plan(place, plan)
    assert run(place).returncode == 0
    plan["columns"] = ["income", "age"]
    write_plan(place, plan)
    assert run(place).returncode == 0
    table = Accountant(place / "ledger.db", data_set="visits").table
    assert table is not None
    assert table.columns == ("visits", "age", "income")
    assert verify(Ledger(place / "ledger.db").entries()) == []


def test_the_first_row_of_a_file_without_names_is_written_nowhere(place: Path, plan: dict) -> None:
    plan["columns"] = ["1", "2"]
    write_plan(place, plan)
    (place / "visits.csv").write_text(f"{SECRET},1,2\n" + "5,3,4\n" * 40)
    assert run(place).returncode == 0
    everything = (place / "ledger.db").read_bytes() + (place / "out/release.json").read_bytes()
    assert str(SECRET).encode() not in everything


def test_huber_on_fewer_than_8_rows_is_refused(place: Path, plan: dict) -> None:
    plan["releases"][1]["method"] = {
        "kind": "huber",
        "lowest_scale": -5,
        "highest_scale": 5,
        "scale_fraction": "0.25",
    }
    write_plan(place, plan)
    (place / "visits.csv").write_text(table_text(GOOD[:7]))
    assert_refused(run(place), 2, "rows", "8")
    assert_nothing_charged(place)
    (place / "visits.csv").write_text(table_text(GOOD[:8]))
    assert run(place).returncode == 0


def test_a_corrupt_ledger_is_refused(place: Path) -> None:
    (place / "ledger.db").write_bytes(b"not a ledger at all" * 100)
    assert_refused(run(place), 2, "ledger")


def test_an_output_that_cannot_be_written_is_refused_before_the_charge(place: Path) -> None:
    (place / "out").write_text("a file where the folder should be")
    assert_refused(run(place), 2, "out")
    assert spent(place) == "epsilon 0 and delta 0"


def test_a_read_only_ledger_is_refused(
    place: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    out = tmp_path_factory.mktemp("out")
    if os.geteuid() == 0:
        read_only = ["unshare", "--mount", "sh", "-c"]
        mount = "mount --bind . . && mount -o remount,ro,bind . . && cd . && "
        probe = subprocess.run([*read_only, mount + "! touch x"], cwd=place, capture_output=True)
        if probe.returncode:
            pytest.skip("this machine lets nobody mount a folder read-only, and root writes all")
        command = f"{sys.executable} -m dppca_odp run plan.json --data visits.csv "
        command += f"--ledger {place}/ledger.db --dataset visits --out {out}"
        inside = f"mount --bind . . && mount -o remount,ro,bind . . && cd {place} && {command}"
        result = subprocess.run(
            [*read_only, inside], cwd=place, capture_output=True, text=True, timeout=120
        )
    else:
        (place / "ledger.db").chmod(0o400)
        place.chmod(0o500)
        result = call(
            "dppca_odp", place, "run", "plan.json", "--data", "visits.csv", "--ledger",
            "ledger.db", "--dataset", "visits", "--out", str(out),
        )  # fmt: skip
        place.chmod(0o700)
    assert_refused(result, 2, "ledger")
    assert spent(place) == "epsilon 0 and delta 0"


#: A run that lasts seconds in one place, where it says so.
SLOW = """
import sys, time
import dppca_odp.__main__ as script
from dppca_odp import directions, plan
quick = {place}
def slow(*words, **more):
    {place} = quick
    print("here", flush=True)
    time.sleep(1)
    {fails}
    return quick(*words, **more)
{place} = slow
sys.argv = ["dppca-odp", "run", "plan.json", "--data", "visits.csv", "--ledger", "ledger.db",
            "--dataset", "visits", "--out", "out", *sys.argv[1:]]
script.main()
"""
MEASURES = "directions.integer_directions"


def slow_run(place: Path, interrupt: int, at: str = MEASURES, fails: str = "", *more: str):
    """A run hit by a signal at a slow place: its exit status and stderr."""
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW.format(place=at, fails=fails), *more],
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    while process.stdout.readline().strip() != "here":
        assert process.poll() is None
    time.sleep(0.2)
    process.send_signal(interrupt)
    _, error = process.communicate(timeout=120)
    return process.returncode, error


@pytest.mark.parametrize(
    ("at", "until"),
    [
        ("script.check_writable", ""),
        ("plan.load_table", "the table is read"),
        ("plan.make_plan", "the plan is priced"),
    ],
)
def test_ctrl_c_before_the_charge_says_that_nothing_was_charged(
    place: Path, at: str, until: str
) -> None:
    status, error = slow_run(place, signal.SIGINT, at)
    assert status == 130
    *waits, last = error.strip().splitlines()
    assert last == "dppca-odp: interrupted. Nothing was charged."
    assert waits == ([f"interrupted: this waits until {until}"] if until else [])
    assert_nothing_charged(place)


@pytest.mark.parametrize("at", [MEASURES, "script.save_pictures"])
@pytest.mark.parametrize("fresh", [(), ("--fresh",)])
def test_ctrl_c_after_the_charge_says_how_to_get_the_release_for_nothing(
    place: Path, at: str, fresh: tuple[str, ...]
) -> None:
    key = "first#2" if fresh else "first"
    if fresh:
        assert run(place, "--key", "first").returncode == 0
    before = spent(place)
    status, error = slow_run(place, signal.SIGINT, at, "", "--key", "first", *fresh)
    assert status == 130
    *waits, last = error.strip().splitlines()
    told = f"The release is paid for and stored under key {key}: the same run, not fresh, returns"
    assert last == f"dppca-odp: interrupted. {told} it at no cost."
    said = "interrupted: this waits until the release, which may be paid for, is stored"
    assert waits == [said] * (at == MEASURES)
    entries = Ledger(place / "ledger.db").entries()
    assert verify(entries) == []
    assert [entry.kind for entry in entries][-3:] == ["charge", "started", "release"]
    after = spent(place)
    assert before != after
    again = run(place, "--key", "first").stdout
    assert "already paid for" in again
    assert f"Release key {key}." in again
    assert spent(place) == after


def test_ctrl_c_in_a_release_that_fails_does_not_claim_that_it_is_stored(place: Path) -> None:
    status, error = slow_run(place, signal.SIGINT, MEASURES, "raise ValueError", "--key", "first")
    assert status == 130
    told = (
        "Its charge under key first stays: run again, which costs nothing if the release is stored "
        "after all, and else pays for a new one."
    )
    assert error.strip().splitlines()[-1] == f"dppca-odp: interrupted. {told}"
    assert spent(place) == "epsilon 1 and delta 1e-7"


def test_a_kill_during_a_release_leaves_the_charge_and_a_sound_ledger(place: Path) -> None:
    status, _ = slow_run(place, signal.SIGKILL)
    assert status == -signal.SIGKILL
    entries = Ledger(place / "ledger.db").entries()
    assert verify(entries) == []
    assert [entry.kind for entry in entries][-2:] == ["charge", "started"]
    assert spent(place) == "epsilon 1 and delta 1e-7"
    assert run(place).returncode == 0
    assert spent(place) == "epsilon 2 and delta 2e-7"


def test_ten_plans_of_a_tenth_fit_and_the_eleventh_is_refused(place: Path, plan: dict) -> None:
    (place / "ledger.db").unlink()
    grant(place, epsilon="1.0")
    plan["budget"]["epsilon"] = "0.1"
    plan["releases"] = plan["releases"][:1]
    write_plan(place, plan)
    for number in range(10):
        assert run(place, "--key", f"release {number}").returncode == 0
    assert_refused(run(place, "--key", "release 10"), 3, "epsilon 0")
    assert verify(Ledger(place / "ledger.db").entries()) == []


def test_two_runs_racing_for_the_last_tenth_one_wins(place: Path, plan: dict) -> None:
    (place / "ledger.db").unlink()
    grant(place, epsilon="0.1")
    plan["budget"]["epsilon"] = "0.1"
    write_plan(place, plan)
    words = [sys.executable, "-m", "dppca_odp", "run", "plan.json", "--data", "visits.csv"]
    words += ["--ledger", "ledger.db", "--dataset", "visits"]
    racers = [
        subprocess.Popen(
            [*words, "--out", name, "--key", name],
            cwd=place,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for name in ("left", "right")
    ]
    assert sorted(racer.wait(timeout=120) for racer in racers) == [0, 3]
    assert verify(Ledger(place / "ledger.db").entries()) == []


def test_the_demo_shows_eigenvalues_a_free_re_run_and_a_refusal(tmp_path: Path) -> None:
    pytest.importorskip("statsmodels")
    result = launch("dppca_odp", tmp_path, "demo", "--out", "demo")
    assert result.returncode == 0, result.stderr
    assert "From the ledger: True" in result.stdout
    kinds = [entry.kind for entry in Ledger(tmp_path / "demo" / "ledger.db").entries()]
    assert kinds == ["grant", "charge", "started", "release", "refusal"]
    release = Release.read(tmp_path / "demo" / "release.json")
    assert [scree.method for scree in release.screes] == ["adaptive", "clipped", "pmwm"]


def test_a_poor_outlook_is_said_on_stderr_and_the_run_goes_on(place: Path, plan: dict) -> None:
    write_plan(place, plan | {"budget": {"epsilon": "0.1", "delta": "1e-7"}})
    poor = run(place, "--json")
    assert poor.stderr.startswith("note: before the charge: directions: noise hides every ")
    assert "\nnote: before the charge: pmwm: noise (sd) of " in poor.stderr
    assert json.loads(poor.stdout)["rows"] == 400
    assert run(place).stderr == ""  # from the ledger
