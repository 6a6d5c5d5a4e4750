"""The notebooks: kept without outputs, linted, and executed from top to bottom."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def read(path: Path) -> nbformat.NotebookNode:
    return nbformat.read(path, as_version=4)


def test_there_is_a_notebook() -> None:
    assert "01_first_release.ipynb" in [path.name for path in NOTEBOOKS]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_it_is_kept_without_outputs(path: Path) -> None:
    for cell in read(path).cells:
        if cell.cell_type == "code":
            assert (cell.outputs, cell.execution_count) == ([], None)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_it_is_linted(path: Path) -> None:
    ruff = Path(sys.executable).with_name("ruff")
    for words in (["check"], ["format", "--check"]):
        result = subprocess.run([ruff, *words, path], cwd=ROOT, capture_output=True, text=True)
        assert result.returncode == 0, result.stdout


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_it_runs_twice_and_spends_once(path: Path, tmp_path: Path) -> None:
    for _ in range(2):
        notebook = read(path)
        client = NotebookClient(
            notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
        )
        client.execute()
        outputs = [out for cell in notebook.cells for out in cell.get("outputs", [])]
        text = "".join(out.get("text", "") for out in outputs)
        assert "request must fit in what remains" in text
        assert re.search(r"^spent +3 +5e-6$", text, re.MULTILINE)
        pictures = [out for out in outputs if "image/png" in out.get("data", {})]
        assert len(pictures) == 4
