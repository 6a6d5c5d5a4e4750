"""Scores on the command line: pictures by group, drawn again for nothing, refused in one line."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest

from accountant import Accountant, Budget, Ledger, PrivacyUnit, verify
from dppca_odp import Release

from ..scripts import call, launch

COLUMNS = ("age", "income", "visits")
SECRET = "918273.5"
PICTURES = ["scree", "by-city", "by-city-points"]


@pytest.fixture
def plan() -> dict:
    return {
        "budget": {"epsilon": "4", "delta": "1e-6"},
        "unit": {"rows_per_person": 1},
        "columns": [{"name": "age", "lower": 0, "upper": 110, "scale": 20}, "income", "visits"],
        "labels": [{"name": "city", "levels": ["york", "bath", "ely"]}],
        "releases": [
            {"kind": "directions", "name": "directions", "components": 2},
            {
                "kind": "scree",
                "name": "pmwm",
                "directions": "directions",
                "method": {"kind": "pmwm", "lower_bound": 0, "upper_bound": 100},
            },
            {
                "kind": "scores",
                "name": "by city",
                "directions": "directions",
                "histogram": "sparse",
                "bins": [3, 2],
                "groups": "city",
                "weight": "8",
            },
        ],
    }


@pytest.fixture
def place(tmp_path: Path, plan: dict) -> Path:
    random = np.random.default_rng(5)
    table = random.normal(size=(1200, 3)) * [20, 3, 1] + [50, 0, 0]
    towns = np.where(np.arange(1200) % 2 == 0, "york", "bath")
    towns[::5] = "leeds"
    frame = pl.DataFrame(table, schema=list(COLUMNS))
    frame.with_columns(pl.Series("city", towns)).write_csv(tmp_path / "visits.csv")
    write_plan(tmp_path, plan)
    Accountant.grant(
        tmp_path / "ledger.db",
        data_set="visits",
        budget=Budget.of("9", "1e-5"),
        unit=PrivacyUnit(rows_per_person=1),
    )
    return tmp_path


def write_plan(place: Path, plan: dict) -> None:
    (place / "plan.json").write_text(json.dumps(plan), encoding="utf-8")


def run(place: Path, script=call) -> subprocess.CompletedProcess:
    words = ["--data", "visits.csv", "--ledger", "ledger.db", "--dataset", "visits", "--out", "out"]
    return script("dppca_odp", place, "run", "plan.json", *words)


def plot(place: Path, release: str = "out/release.json", out: str = "drawn", script=call):
    return script("dppca_odp", place, "plot", release, "--out", out)


def spent(place: Path) -> str:
    return str(Accountant(place / "ledger.db", data_set="visits").spent())


def assert_refused(result: subprocess.CompletedProcess, status: int, *words: str) -> None:
    assert status == result.returncode, result.stderr
    assert 1 == len(result.stderr.strip().splitlines()), result.stderr
    assert "Traceback" not in result.stderr
    for word in words:
        assert word in result.stderr
    assert SECRET not in result.stderr + result.stdout


def assert_nothing_charged(place: Path) -> None:
    assert "epsilon 0 and delta 0" == spent(place)
    assert [] == verify(Ledger(place / "ledger.db").entries())
    assert not (place / "out" / "release.json").exists()


def bytes_of(folder: Path, ending: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob(f"*.{ending}")}


def test_a_run_writes_pictures_which_can_be_drawn_again_without_ledger_or_data(place: Path) -> None:
    result = run(place, launch)
    assert 0 == result.returncode, result.stderr
    assert "epsilon 4 and delta 1e-6" == spent(place)
    out = place / "out"
    expected = {"release.json", *(f"{name}.png" for name in PICTURES)}
    assert expected == {path.name for path in out.iterdir()}
    for name in PICTURES:
        assert b"\x89PNG\r\n\x1a\n" == (out / f"{name}.png").read_bytes()[:8]
        assert f"{name}.png" in " ".join(result.stdout.split())

    release = Release.read(out / "release.json")
    scores = release["by city"]
    assert ("york", "bath", "ely", "rest") == scores.groups
    assert "ely" in scores.empty
    assert (4, 2, 3) == np.shape(scores.mass)
    assert 1 == " ".join(result.stdout.split()).count("ely: its histogram is all zero")
    assert "" == result.stderr
    assert COLUMNS == release.columns
    assert "leeds" not in (out / "release.json").read_text()
    stages = [stage.name for stage in release.stages]
    assert ["by city: frame", "by city: histogram"] == stages[-2:]

    (place / "ledger.db").rename(place / "away.db")
    (place / "visits.csv").unlink()
    drawn = plot(place, script=launch)
    assert (0, "") == (drawn.returncode, drawn.stderr)
    assert {f"{name}.{end}" for name in PICTURES for end in ("png", "svg")} == {
        path.name for path in (place / "drawn").iterdir()
    }
    for picture in (place / "drawn").glob("*.svg"):
        assert ElementTree.parse(picture).getroot().tag.endswith("}svg")
    assert bytes_of(out, "png") == bytes_of(place / "drawn", "png")
    assert 0 == plot(place, out="again").returncode
    assert bytes_of(place / "drawn", "png") == bytes_of(place / "again", "png")
    assert not (place / "ledger.db").exists()


def test_the_same_plan_again_is_free_and_draws_the_same_pictures(place: Path) -> None:
    assert 0 == run(place).returncode
    first = bytes_of(place / "out", "png")
    again = run(place)
    assert "already paid for" in again.stdout
    assert first == bytes_of(place / "out", "png")
    assert "epsilon 4 and delta 1e-6" == spent(place)


def test_preview_prices_frame_and_histogram_without_data(place: Path) -> None:
    words = ["preview", "plan.json", "--rows", "1200", "--columns", "3"]
    shown = call("dppca_odp", place, *words, "--json")
    stages = [line["stage"]["name"] for line in json.loads(shown.stdout)["stages"]]
    assert ["by city: frame", "by city: histogram"] == stages[-2:]


SQUARE = {"x_low": -1, "x_high": 1, "y_low": -1, "y_high": 1}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"axes": [1, 1]}, ["axes", "different", "1 and 1"]),
        ({"axes": [1, 3]}, ["axes", "components of 2", "1 and 3"]),
        ({"bins": [0, 5]}, ["bins.0", "0"]),
        ({"frame": SQUARE | {"x_high": -1}}, ["x_low and y_low must be below"]),
        ({"frame": {"inflation": 0}}, ["inflation", "0"]),
        ({"groups": "town"}, ["groups", "declared label", "town"]),
        ({"histogram": "density"}, ["histogram", "density"]),
        ({"colour": "red"}, ["colour"]),
    ],
    ids=str,
)
def test_wrong_scores_are_status_2_in_one_line_and_free(
    place: Path, plan: dict, change: dict, words: list[str]
) -> None:
    plan["releases"][2].update(change)
    write_plan(place, plan)
    assert_refused(run(place), 2, *words)
    assert_nothing_charged(place)


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ([{"name": "city", "levels": ["york", "york"]}], ["levels", "york, york"]),
        ([{"name": "city", "levels": []}], ["levels"]),
        ([{"name": "age", "levels": ["york"]}], ["different names", "age"]),
        ([], ["groups", "declared label", "city"]),
    ],
    ids=["levels twice", "no levels", "a column", "none"],
)
def test_wrong_labels_are_status_2_in_one_line_and_free(
    place: Path, plan: dict, labels: list[dict], words: list[str]
) -> None:
    plan["labels"] = labels
    write_plan(place, plan)
    assert_refused(run(place), 2, *words)
    assert_nothing_charged(place)


@pytest.mark.parametrize("histogram", ["sparse", "additive"])
def test_a_delta_that_no_histogram_keeps_is_status_2_in_one_line_and_free(
    place: Path, plan: dict, histogram: str
) -> None:
    plan["budget"]["delta"] = "1e-300"
    plan["releases"] = [plan["releases"][2] | {"histogram": histogram, "frame": SQUARE}]
    plan["releases"][0]["directions"] = [[1, 0], [0, 1], [0, 0]]
    write_plan(place, plan)
    assert_refused(run(place), 2, "must have")
    assert_nothing_charged(place)


def test_a_table_without_the_label_is_status_4_recorded_and_free(place: Path) -> None:
    table = pl.read_csv(place / "visits.csv").rename({"city": "town"})
    table.write_csv(place / "visits.csv")
    assert_refused(run(place), 4, "city")
    assert_nothing_charged(place)
    assert "rejection" == Ledger(place / "ledger.db").entries()[-1].kind


def test_labels_that_are_secret_or_missing_are_the_rest_and_never_shown(place: Path) -> None:
    table = pl.read_csv(place / "visits.csv").with_columns(pl.lit(SECRET).alias("city"))
    table[0, "city"] = None
    table.write_csv(place / "visits.csv")
    result = run(place)
    assert 0 == result.returncode, result.stderr
    release = Release.read(place / "out" / "release.json")
    assert ("york", "bath", "ely") == release["by city"].empty[:3]
    assert pytest.approx(1) == np.sum(release["by city"].mass[3])
    assert SECRET not in result.stdout + result.stderr + release.model_dump_json()


@pytest.mark.parametrize(
    "content",
    [None, b"", b"[1, 2]", bytes(range(256)), b'{"data_set": "visits"}'],
    ids=["absent", "empty", "a list", "bytes", "too few keys"],
)
def test_a_file_that_is_no_release_is_status_2_in_one_line(place: Path, content) -> None:
    if content is not None:
        (place / "wrong.json").write_bytes(content)
    assert_refused(plot(place, "wrong.json"), 2, "wrong.json" if content is None else "must")
    assert not (place / "drawn").exists()


@pytest.mark.parametrize("release", ["plan.json", "."])
def test_another_file_or_a_folder_is_status_2_in_one_line(place: Path, release: str) -> None:
    assert_refused(plot(place, release), 2)


def made_by_hand(place: Path, **changes) -> None:
    """A release that no run wrote, with these changes of its scores."""
    scores = {
        "kind": "scores", "name": "scores", "directions": "given", "axes": [1, 2],
        "frame": SQUARE, "histogram": "sparse", "label": None, "groups": ["all"],
        "mass": [[[1.0]]], "noise_scale": 1.0, "threshold": 3, "empty": [], "warnings": [],
    }  # fmt: skip
    release = {
        "data_set": "visits", "release_key": "k", "plan_hash": "h", "time": "2024-05-17T00:00:00Z",
        "budget": {"epsilon": "1", "delta": "1e-6"}, "unit": {"rows_per_person": 1}, "rows": 9,
        "columns": ["a", "b"], "stages": [], "results": [scores | changes], "versions": {},
    }  # fmt: skip
    (place / "release.json").write_text(json.dumps(release), encoding="utf-8")


def test_a_release_made_by_hand_is_drawn(place: Path) -> None:
    made_by_hand(place)
    assert 0 == plot(place, "release.json").returncode
    assert (place / "drawn" / "scores-points.svg").exists()


@pytest.mark.parametrize(
    "changes",
    [
        {"groups": ["a", "b"], "label": "city"},
        {"mass": [[[0.5], [0.25, 0.25]]]},
        {"mass": []},
        {"mass": [[[-1.0, 2.0]]]},
        {"frame": SQUARE | {"x_high": -2}},
    ],
    ids=["too few groups", "ragged", "no mass", "negative mass", "frame"],
)
def test_a_release_that_contradicts_itself_is_status_2_in_one_line(place: Path, changes) -> None:
    made_by_hand(place, **changes)
    assert_refused(plot(place, "release.json"), 2)


@pytest.mark.parametrize("out", ["visits.csv"])
def test_an_output_that_is_no_folder_is_status_2_in_one_line(place: Path, out: str) -> None:
    made_by_hand(place)
    assert_refused(plot(place, "release.json", out), 2, "out must be a folder")


def test_a_picture_that_cannot_be_written_is_status_2_in_one_line(place: Path) -> None:
    made_by_hand(place)
    (place / "drawn" / "scores.png").mkdir(parents=True)
    assert_refused(plot(place, "release.json"), 2, "out")


def test_a_release_without_pictures_writes_nothing_and_says_so(place: Path, plan: dict) -> None:
    plan["releases"] = plan["releases"][:1]
    write_plan(place, plan)
    assert 0 == run(place).returncode
    drawn = plot(place)
    assert 0 == drawn.returncode
    assert "nothing" in drawn.stdout
    assert [] == list((place / "drawn").iterdir())


@pytest.mark.parametrize("words", [["plot"], ["plot", "out/release.json"], ["plot", "--out", "o"]])
def test_plot_needs_a_release_and_a_folder(place: Path, words: list[str]) -> None:
    assert_refused(call("dppca_odp", place, *words), 2)


def test_names_with_dollar_signs_are_released_and_drawn(place: Path, plan: dict) -> None:
    """What is paid for can be drawn, whatever its groups are called."""
    plan["labels"][0]["levels"] = ["$1_$2", "york"]
    write_plan(place, plan)
    result = run(place)
    assert 0 == result.returncode, result.stderr
    assert (place / "out" / "by-city.png").exists()
