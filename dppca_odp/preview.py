"""What a plan will cost, stage by stage, before any data is seen."""

from __future__ import annotations

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from accountant.amounts import show_delta_up, show_up
from accountant.facts import Fact
from accountant.specs import Budget, PrivacyUnit
from dppca_odp.paper import on_paper
from dppca_odp.planned import PlannedStage


class Preview(Fact):
    """The stages of a plan on a table of public shape."""

    budget: Budget
    unit: PrivacyUnit
    rows: int
    columns: int
    stages: tuple[PlannedStage, ...]

    def __rich__(self) -> RenderableType:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("stage")
        table.add_column("epsilon", justify="right")
        table.add_column("delta", justify="right")
        table.add_column("loss", justify="right")
        table.add_column("noise scale", justify="right")
        notes: list[str] = []
        for line in self.stages:
            budget = line.stage.budget
            mark = f"({len(notes) + 1})"
            notes.append(f"{mark} {line.stage.name}: {line.noise}.")
            scale = "" if line.noise_scale is None else f"{line.noise_scale:.4g} "
            table.add_row(
                line.stage.name,
                show_up(budget.epsilon),
                show_delta_up(budget.delta),
                ", ".join(str(loss) for loss in line.stage.losses),
                scale + mark,
            )
        table.add_section()
        table.add_row("total", show_up(self.budget.epsilon), show_delta_up(self.budget.delta))
        shape = f"{self.rows} rows by {self.columns} columns; protects {self.unit}."
        return Group(Text(shape), table, *(Text(note, style="dim") for note in notes))

    def __str__(self) -> str:
        return on_paper(self)
