"""The benchmarks from end to end, at a size of seconds; and the page that is kept in step."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results.json"
PAGE = ROOT / "docs" / "benchmarks.md"


def pictures_of(page: str) -> set[str]:
    return set(re.findall(r"\]\((images/[^)]+)\)", page))


def test_the_page_is_drawn_from_its_results_byte_for_byte():
    from benchmarks.page import page

    assert page(json.loads(RESULTS.read_text(encoding="utf-8"))).encode() == PAGE.read_bytes()


def test_redrawing_makes_every_picture_of_the_page(tmp_path):
    from benchmarks.__main__ import draw

    draw(RESULTS, tmp_path)
    page = (tmp_path / "benchmarks.md").read_text(encoding="utf-8")
    made = {f"images/{path.name}" for path in (tmp_path / "images").iterdir()}
    assert made == pictures_of(page)
    assert made == {f"images/{p.name}" for p in (ROOT / "docs/images").glob("benchmarks-*.png")}


def test_a_tiny_run_goes_all_the_way(tmp_path, monkeypatch):
    from benchmarks import __main__ as command
    from benchmarks import environments, schedule
    from benchmarks.accuracy import Point
    from benchmarks.attempts import Attempt
    from benchmarks.scopes import Scope
    from benchmarks.sweep import Sweep

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")  # so that no peer can be installed
    monkeypatch.setattr(environments, "LIBRARIES", (environments.DIFFPRIVLIB,))
    monkeypatch.setattr(schedule, "CORES", 1)
    peer = "diffprivlib, norm in hindsight"
    scope = Scope(
        form="tiny",
        minutes=5,
        points=(
            Point("Gaussian", 300, 5, ("1", "3"), 3),
            Point("zero-inflated", 300, 4, ("1",), 1),
        ),
        whole=(
            Attempt("Gaussian", 300, 3, 2, "1", "clipped", "whole", 2, 5),
            Attempt("Gaussian", 300, 3, 2, "1", peer, "whole", 2, 5),
        ),
        real=(
            Attempt("randhie", 0, 0, 3, "1", "clipped", "along", 1, 5),
            Attempt("digits", 0, 0, 3, "1", "clipped", "along", 1, 5),
        ),
        sweep=Sweep(("clipped",), (300,), (3,), (1,), middle=(300, 3, 1), repeat=1),
    )
    results = command.measure(scope)
    assert "did not install" in results["libraries"]["diffprivlib"]["problem"]
    gaussian, again, heavy = results["accuracy"]
    assert [r["cells"]["clipped"]["runs"] for r in (gaussian, again, heavy)] == [3, 3, 1]
    assert gaussian["cells"]["none"] == again["cells"]["none"]  # one table for all epsilons
    assert gaussian["cells"]["none"]["rmse"] < again["cells"]["clipped"]["rmse"]
    ours, theirs = results["whole"]
    assert (ours["done"], theirs["done"], theirs["problem"]) == (2, 0, "not installed")
    assert 0 < ours["sine"]["mean"] < 1
    shipped, missing = results["real"]
    assert 0 < shipped["eigenvalues"]["rmse"] < 1
    assert "scikit-learn" in missing["problem"]
    assert [r["rows"] for r in results["speed"]["records"]] == [300]

    file = tmp_path / "results.json"
    file.write_text(json.dumps(results), encoding="utf-8")
    command.draw(file, tmp_path / "docs")
    page = (tmp_path / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert all((tmp_path / "docs" / picture).exists() for picture in pictures_of(page))
    for told in ("**tiny** form", "did not install", "not installed", "| randhie, epsilon 1 |"):
        assert told in page
    assert str(tmp_path) not in page


@pytest.mark.parametrize("form", ["FULL", "QUICK"])
def test_both_forms_take_every_road(form):
    from benchmarks import scopes
    from benchmarks.attempts import PEERS
    from benchmarks.contenders import CONTENDERS
    from benchmarks.families import FAMILIES

    scope = getattr(scopes, form)
    everyone = {each.name for each in (*CONTENDERS, *PEERS)}
    assert {point.family for point in scope.points} == set(FAMILIES)
    assert {attempt.competitor for attempt in scope.whole} == everyone
    assert {attempt.form for attempt in scope.real} == {"along", "whole"}
    assert set(scope.sweep.releases) == {"directions", *(each.name for each in CONTENDERS)}
