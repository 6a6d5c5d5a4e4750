"""Progress below a cell: shown while it runs, gone when it has run."""

from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

CELL = """
import numpy as np
import dppca_odp.progress
from dppca_odp import Accountant, Budget, Directions, Plan, PrivacyUnit, Scree

dppca_odp.progress.APPEARS_AFTER = dppca_odp.progress.REDRAWN_AFTER = 0
unit = PrivacyUnit(rows_per_person=1)
plan = Plan(
    budget=Budget.of("1", "1e-6"),
    unit=unit,
    columns=("a", "b"),
    releases=(
        Directions(name="main", components=2),
        Scree(name="scree", directions="main"),
    ),
)
accountant = Accountant.grant("ledger.db", data_set="visits", budget=plan.budget, unit=unit)
table = np.random.default_rng().normal(size=(9000, 2)) * [3, 1]
release = plan.run(table, accountant)
print(accountant.spent())
"""


class Watched(NotebookClient):
    """Keeps what the kernel shows while a cell runs."""

    def process_message(self, msg: Any, cell: Any, cell_index: int) -> Any:
        if msg["msg_type"] in ("display_data", "update_display_data"):
            shown.append(msg["content"]["data"]["text/plain"])
        return super().process_message(msg, cell, cell_index)


shown: list[str] = []


def test_a_cell_shows_progress_and_keeps_none_of_it(tmp_path: Path) -> None:
    shown.clear()
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CELL)])
    Watched(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    ).execute()
    assert "main (1 of 2)" in shown[0]
    assert any("main (1 of 2), pass 1" in text and "2 of 3 blocks" in text for text in shown)
    assert any("scree (2 of 2), pass 6" in text for text in shown)
    outputs = notebook.cells[0].outputs
    assert {"display_data", "stream"} == {output.output_type for output in outputs}
    assert [""] == [out.data["text/plain"] for out in outputs if out.output_type == "display_data"]
    assert "epsilon 1 and delta 1e-6\n" == "".join(out.get("text", "") for out in outputs)
