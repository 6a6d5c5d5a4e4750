"""What a plan will cost, stage by stage and by each rule, before any data is seen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from accountant.amounts import show_delta_up, show_up
from accountant.errors import InvalidAmount
from accountant.facts import Fact
from accountant.rules import CommittedRule, Composition, SumRule, gaussian_cost
from accountant.specs import Budget, GaussianBudget, PrivacyUnit, Stage
from dppca_odp.paper import on_paper
from dppca_odp.planned import PlannedStage


class Costs(Fact):
    """What the same stages cost by each rule; none where a rule has no answer."""

    sum: Budget
    committed: Budget | None
    """All together, at the plan's delta."""
    gaussian: GaussianBudget | None
    """Of a grant that counts in mu."""

    @classmethod
    def of(cls, stages: Sequence[Stage], delta: Fraction) -> Costs:
        """The costs of the stages of a plan, composed at this delta."""
        try:
            committed = CommittedRule(delta=delta).cost(stages)
        except InvalidAmount:  # the stages tell as much as delta at any epsilon
            committed = None
        try:
            gaussian = gaussian_cost(stages)
        except InvalidAmount:  # an epsilon that no mu covers
            gaussian = None
        return cls(sum=SumRule().cost(stages), committed=committed, gaussian=gaussian)

    def lines(self) -> Iterator[tuple[str, str]]:
        """Each rule and its cost, in words."""
        for rule, cost in (
            ("sum", self.sum),
            ("committed", self.committed),
            ("gaussian", self.gaussian),
        ):
            yield rule, cost.show_up() if cost else "none: they cost too much for it"


class NoiseScales(Fact):
    """The noise of every stage if the plan's budget is used up by either composition."""

    sum: tuple[float | None, ...] | None
    committed: tuple[float | None, ...] | None


class Preview(Fact):
    """The stages of a plan on a table of public shape."""

    budget: Budget
    unit: PrivacyUnit
    rows: int
    columns: int
    composition: Composition = "sum"
    stages: tuple[PlannedStage, ...]
    costs: Costs
    """Of these stages."""
    noise_scales: NoiseScales
    """In their order."""

    @property
    def charged(self) -> tuple[Stage, ...]:
        """The stages as the ledger would hold them."""
        return tuple(line.stage for line in self.stages)

    def __rich__(self) -> RenderableType:
        shape = f"{self.rows} rows by {self.columns} columns; protects {self.unit}."
        return Group(Text(shape), self._stages(), self._noise(), self._rules())

    def _stages(self) -> Table:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("stage")
        for name in ("epsilon", "delta", "loss"):
            table.add_column(name, justify="right")
        for line in self.stages:
            budget, losses = line.stage.budget, map(str, line.stage.losses)
            table.add_row(
                line.stage.name,
                show_up(budget.epsilon),
                show_delta_up(budget.delta),
                ", ".join(losses),
            )
        table.add_section()
        together = "total" if self.composition == "sum" else "committed together"
        table.add_row(together, show_up(self.budget.epsilon), show_delta_up(self.budget.delta))
        return table

    def _noise(self) -> Table:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("noise scale if all is spent")
        table.add_column("sum", justify="right")
        table.add_column("committed", justify="right")
        table.add_column("of what", overflow="fold")
        nothing = (None,) * len(self.stages)
        scales = self.noise_scales
        for line, *both in zip(
            self.stages, scales.sum or nothing, scales.committed or nothing, strict=True
        ):
            shown = ("" if scale is None else f"{scale:.4g}" for scale in both)
            table.add_row(line.stage.name, *shown, line.noise)
        return table

    def _rules(self) -> Table:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("rule")
        table.add_column("what these stages cost by it")
        for rule, cost in self.costs.lines():
            table.add_row(rule, cost)
        return table

    def __str__(self) -> str:
        return on_paper(self)
