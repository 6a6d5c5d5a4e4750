"""The accountant works where no numerical library does, and it is the one in this repository."""

import subprocess
import sys
from pathlib import Path

import accountant
from accountant.entries import KINDS
from accountant.exports import write_export

BLOCKED = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"numpy", "scipy", "opendp", "polars", "matplotlib",
                                  "dp_accounting", "riskcal"}:
            raise ModuleNotFoundError(f"{name} is blocked", name=name)

sys.meta_path.insert(0, Blocker())
try:
    import numpy
except ModuleNotFoundError:
    pass
else:
    raise SystemExit("the blocker does not block")

from accountant import *

keeper = Accountant.grant(
    sys.argv[1],
    data_set="survey",
    budget=Budget.of("1", "1e-5"),
    unit=PrivacyUnit(rows_per_person=1),
)

def charge(key, epsilon):
    budget = Budget.of(epsilon, "1e-6")
    return Charge(
        release_key=key, plan_hash="f00", unit=keeper.unit, budget=budget, stages=()
    )

granted = keeper.authorize(charge("a", "0.6"), rows=3, columns=["a"])
keeper.start(granted)
keeper.store(granted, {})
try:
    keeper.authorize(charge("b", "0.6"), rows=3, columns=["a"])
except BudgetExceeded as refusal:
    print(refusal.remaining)
print(verify(keeper.ledger.entries()))
print(keeper.statement().render())
from accountant.reports.html import render_html
assert "survey" in render_html([keeper.statement()])
"""


def test_it_grants_refuses_verifies_and_prints_without_numerical_libraries(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", BLOCKED, str(tmp_path / "ledger.db")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    remaining, problems, *statement = done.stdout.splitlines()
    assert (remaining, problems) == ("epsilon 0.4 and delta 9e-6", "[]")
    assert "DATA SET survey" in statement


def test_importing_it_loads_no_numerical_library() -> None:
    script = "import accountant, accountant.__main__, sys; print(*sys.modules, sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    assert "accountant" in loaded
    assert loaded.isdisjoint({"numpy", "scipy", "opendp", "dppca_odp"})


def test_the_imported_package_is_ours() -> None:
    folder = Path(accountant.__file__).parent
    assert (folder / "py.typed").exists()
    assert (folder / "books.py").exists()
    assert accountant.Accountant.__module__ == "accountant.accountant"


def test_the_front_door_names_exist_once() -> None:
    assert len(set(accountant.__all__)) == len(accountant.__all__)
    assert [name for name in accountant.__all__ if not hasattr(accountant, name)] == []


def test_the_page_on_the_ledger_checks_hashes_as_the_package_does(tmp_path: Path) -> None:
    page = Path(__file__).parents[2] / "docs" / "ledger.md"
    script = page.read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    keeper = accountant.Accountant.grant(
        tmp_path / "ledger.db",
        data_set="survey",
        budget=accountant.Budget.of("1", "1e-5"),
        unit=accountant.PrivacyUnit(rows_per_person=1),
    )
    keeper.reject("no rows")
    lines = write_export(keeper.ledger.entries())
    (tmp_path / "ledger.jsonl").write_text("\n".join(lines), encoding="utf-8")
    script += "print(previous)\n"
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        cwd=tmp_path,
    )
    assert done.stdout.strip() == keeper.statement().last_hash


def test_the_page_on_the_ledger_names_every_kind() -> None:
    page = (Path(__file__).parents[2] / "docs" / "ledger.md").read_text(encoding="utf-8")
    kinds = [line.split("`")[1] for line in page.splitlines() if line.startswith("| `")]
    assert kinds == list(KINDS)
