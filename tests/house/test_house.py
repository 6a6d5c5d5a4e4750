"""The house: floors, names, documents in step with the code."""

from __future__ import annotations

import ast
import importlib
import json
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import accountant
import dppca_odp
from dppca_odp.__main__ import app
from dppca_odp.directions import UNSCALED
from dppca_odp.flags import MEANINGS, Flag
from dppca_odp.plan import Plan

ROOT = Path(__file__).resolve().parents[2]
MODULES = [
    module.name
    for package in (accountant, dppca_odp)
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + ".")
    if ".migrations." not in module.name  # only alembic can run those
]
DOCUMENTS = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])


def makers() -> dict[str, object]:
    found = {}
    for name in MODULES:
        module = importlib.import_module(name)
        found |= {
            word: value
            for word, value in vars(module).items()
            if word.startswith("make_")
            and callable(value)
            and getattr(value, "__module__", "") == name
            and name.startswith("dppca_odp")
        }
    return found


def test_the_floors_are_not_crossed() -> None:
    result = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stdout


def test_both_packages_are_ours() -> None:
    assert Path(accountant.__file__).is_relative_to(ROOT)
    assert Path(dppca_odp.__file__).is_relative_to(ROOT)


@pytest.mark.parametrize("name", sorted(makers()))
def test_a_constructor_states_its_contract(name: str) -> None:
    text = makers()[name].__doc__ or ""
    for part in ("input domain", "input metric", "Proof:", "Source:", "Raises:"):
        assert part in text
    assert "stability map" in text or "privacy map" in text


@pytest.mark.parametrize("name", sorted(makers()))
def test_a_constructor_has_a_then_form_and_stands_in_the_front_door(name: str) -> None:
    then = name.replace("make_", "then_", 1)
    assert {name, then} <= set(dppca_odp.__all__)


@pytest.mark.parametrize("package", [accountant, dppca_odp], ids=lambda package: package.__name__)
def test_every_name_of_the_front_door_is_there(package: object) -> None:
    assert [] == [name for name in package.__all__ if not hasattr(package, name)]
    assert list(dict.fromkeys(package.__all__)) == package.__all__


def test_feature_switches_are_turned_on_in_one_room() -> None:
    files = [
        path for path in (ROOT / "dppca_odp").rglob("*.py") if "enable_features" in path.read_text()
    ]
    assert files == [ROOT / "dppca_odp" / "spaces.py"]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_in_documents_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", document.read_text()):
        if not target.startswith("https://"):
            assert (document.parent / target).exists(), target


def test_the_command_line_page_names_every_command_and_option() -> None:
    page = (ROOT / "docs" / "command-line.md").read_text()
    from typer.main import get_command

    from accountant.__main__ import app as accountant_app

    for script, scripted in (("dppca-odp", app), ("accountant", accountant_app)):
        for name, command in get_command(scripted).commands.items():
            assert f"{script} {name}" in page
            for parameter in command.params:
                if parameter.opts[0].startswith("--") and parameter.name != "help":
                    assert parameter.opts[0] in page, (script, name, parameter.opts[0])


def test_the_plan_in_the_command_line_page_is_a_plan() -> None:
    page = (ROOT / "docs" / "command-line.md").read_text()
    text = re.search(r"```json\n(.*?)```", page, re.DOTALL).group(1)
    plan = Plan.model_validate(json.loads(text))
    assert plan.preview(rows=100).stages[0].stage.name == "directions: matrix"


def test_the_page_on_reading_shows_the_release_of_its_plan_and_every_flag() -> None:
    page = (ROOT / "docs" / "reading.md").read_text()
    text = re.search(r"```json\n(.*?)```", page, re.DOTALL).group(1)
    assert f"Release key {Plan.model_validate_json(text).hash}." in page
    told = " ".join(page.split())
    assert MEANINGS[Flag.NOT_FOUND] in told
    assert UNSCALED in told
    assert [] == [flag for flag in Flag if f"\n| {flag} |" not in page]


def test_the_readme_example_runs(tmp_path: Path) -> None:
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL).group(1)
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    assert "DATA SET visits" in result.stdout
    assert (tmp_path / "release.json").exists()


def test_the_changelog_starts_with_privacy() -> None:
    headings = re.findall(r"^### (\w+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == "Privacy"


def test_the_readme_has_at_most_200_lines() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 200


def raised_messages() -> list[tuple[str, str]]:
    """Every message of a raise in the product, with {} for what is filled in."""
    found = []
    for path in sorted((ROOT / "dppca_odp").rglob("*.py")) + sorted(
        (ROOT / "accountant").rglob("*.py")
    ):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Raise)
                and isinstance(node.exc, ast.Call)
                and node.exc.args
                and getattr(node.exc.func, "id", "") != "RuleError"  # a line of `verify`
            ):
                text = "".join(
                    part.value if isinstance(part, ast.Constant) else "{}"
                    for part in ast.walk(node.exc.args[0])
                    if isinstance(part, ast.FormattedValue)
                    or (isinstance(part, ast.Constant) and isinstance(part.value, str))
                )
                if " must " in text:
                    found.append((f"{path.name}:{node.lineno}", text))
    return found


def test_messages_say_what_must_hold_what_was_got_and_what_to_do() -> None:
    messages = raised_messages()
    assert len(messages) > 60
    short = [
        (place, text)
        for place, text in messages
        if not re.search(r" must .*; got .*\. ?.*[\w}]", text, re.DOTALL)
    ]
    assert short == []
