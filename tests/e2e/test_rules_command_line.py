"""Every release under every rule, as both scripts run it: the ledger adds up, and costs differ."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import accountant.verify_export
from accountant import Accountant, CommittedRule, GaussianRule

from ..scripts import call

BUDGET = {"epsilon": "3", "delta": "1e-6"}
GRANT = ("--epsilon", "4", "--delta", "1e-5", "--rows-per-person", "1")
RULES = {"sum": (), "gaussian": ("--rule", "gaussian", "--set-aside", "1e-6")}


def scree(name: str, **method: object) -> dict:
    return {"kind": "scree", "name": name, "directions": "directions", "method": method}


def scores(name: str, histogram: str) -> dict:
    return {
        "kind": "scores",
        "name": name,
        "directions": "directions",
        "histogram": histogram,
        "bins": [4, 4],
    }


def plan(composition: str) -> dict:
    return {
        "budget": BUDGET,
        "unit": {"rows_per_person": 1},
        "columns": ["a", "b", "c"],
        "composition": composition,
        "releases": [
            {"kind": "directions", "name": "directions", "components": 2},
            scree("clipped", kind="clipped", clipping_bound=40),
            scree("pmwm", kind="pmwm", lower_bound=0, upper_bound=60),
            scree("huber", kind="huber", lowest_scale=-6, highest_scale=8, scale_fraction="0.25"),
            scores("sparse", "sparse"),
            scores("additive", "additive"),
        ],
    }


def script(place: Path, name: str, *words: str) -> str:
    done = call(name, place, *words)
    assert 0 == done.returncode, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("rules")
    table = np.random.default_rng(8).normal(size=(2000, 3)) * [4, 2, 1]
    np.savetxt(place / "t.csv", table, delimiter=",", header="a,b,c", comments="")
    for composition in ("sum", "committed"):
        (place / f"{composition}.json").write_text(json.dumps(plan(composition)), encoding="utf-8")
    return place


@pytest.mark.parametrize("composition", ["sum", "committed"])
@pytest.mark.parametrize("rule", RULES)
def test_every_release_runs_and_the_ledger_verifies(
    place: Path, rule: str, composition: str
) -> None:
    ledger, out = f"{rule}-{composition}.db", place / f"{rule}-{composition}"
    script(place, "accountant", "grant", ledger, "--dataset", "d", *GRANT, *RULES[rule])
    words = ("--data", "t.csv", "--ledger", ledger, "--dataset", "d", "--out", str(out))
    script(place, "dppca_odp", "run", f"{composition}.json", *words)
    again = script(place, "dppca_odp", "run", f"{composition}.json", *words)
    assert "nothing was charged" in " ".join(again.split())
    assert "sound" in script(place, "accountant", "verify", ledger)
    for form in ("text", "html", "json"):
        report = script(place, "accountant", "report", ledger, "--format", form)
        assert ("committed" in report) == (composition == "committed")
    export = script(place, "accountant", "export", ledger).splitlines()
    (verdict,) = accountant.verify_export.verify(export)
    assert verdict[1].startswith(f"{len(export)} entries, sound")

    keeper = Accountant(place / ledger, data_set="d")
    (charge,) = keeper.statement().charges
    assert composition == charge.composition
    asked = charge.budget
    if composition == "sum":
        assert asked.epsilon >= sum(stage.budget.epsilon for stage in charge.stages)
    else:
        certificate = CommittedRule(delta=asked.delta).cost(charge.stages)
        assert certificate.fits_within(asked)
        assert certificate.epsilon > asked.epsilon * (1 - Fraction(1, 10**5))
        assert asked.epsilon < sum(stage.budget.epsilon for stage in charge.stages)
    if rule == "sum":
        assert keeper.spent() == asked
    else:
        assert isinstance(keeper.rule, GaussianRule)
        assert keeper.spent() == keeper.rule.cost(charge.stages)


def test_committed_plans_carry_less_noise(place: Path) -> None:
    def noise(name: str) -> dict[str, float]:
        text = script(
            place, "dppca_odp", "preview", name, "--rows", "2000", "--columns", "3", "--json"
        )
        stages = json.loads(text)["stages"]
        return {line["stage"]["name"]: line["noise_scale"] for line in stages}

    added, committed = noise("sum.json"), noise("committed.json")
    assert list(added) == list(committed)
    known = {name for name, scale in added.items() if scale is not None}
    assert len(known) >= 6
    assert all(committed[name] < 0.7 * added[name] for name in known)
