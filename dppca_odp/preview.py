"""What a plan will cost and what it will likely find, before any data is seen."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, Self

import numpy as np
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from accountant.amounts import show_delta_up, show_up
from accountant.errors import InvalidAmount
from accountant.facts import Fact
from accountant.rules import CommittedRule, Composition, SumRule, gaussian_cost
from accountant.specs import Budget, GaussianBudget, PrivacyUnit, Stage
from dppca_odp.eigenvalues.method import ScaleOutlook
from dppca_odp.eigenvalues.scree import Scree
from dppca_odp.errors import InvalidPlan
from dppca_odp.flags import about
from dppca_odp.paper import OnPaper
from dppca_odp.planned import PlannedStage, Setting
from dppca_odp.values import LARGEST_BOUND, IfAny


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


class ScreeOutlook(Fact):
    """What a scree will likely be, before it is released."""

    name: str
    components: int
    columns: IfAny[tuple[str, ...]] = ()
    """The names of its components, where these are columns."""
    outlook: ScaleOutlook | None = None
    """Whether its method will find scales, if it looks for some."""
    eigenvalues: tuple[float, ...] = ()
    """Public guesses; what follows is empty without them."""
    noise_scales: tuple[float, ...] = ()
    sampling_scales: tuple[float, ...] = ()
    expectation: str = ""
    """What the noise scales are, in words."""

    @classmethod
    def of(
        cls,
        scree: Scree,
        share: Budget,
        setting: Setting,
        guess: float | Sequence[float] | None,
    ) -> Self:
        """The outlook of a scree at a share of the budget, and with a guess its noise."""
        method = scree.method
        told: dict[str, Any] = {
            "name": scree.name,
            "components": setting.components,
            "columns": scree.columns_of(setting),
            "outlook": method.scale_outlook(share, setting.size),
        }
        if guess is not None:
            eigenvalues = _for_each(scree.name, guess, setting.components)
            sampling = method.relative_sampling(setting.rows) * np.array(eigenvalues)
            told |= {
                "eigenvalues": eigenvalues,
                "noise_scales": tuple(method.expected_noise(share, setting.size, eigenvalues)),
                "sampling_scales": tuple(sampling),
                "expectation": method.expectation,
            }
        return cls(**told)

    @property
    def totals(self) -> tuple[float, ...]:
        """Noise and sampling together, in standard deviations."""
        return tuple(map(math.hypot, self.noise_scales, self.sampling_scales))

    def sentences(self) -> Iterator[str]:
        """Whether scales will be found, and what the noise is."""
        if self.outlook:
            yield f"{self.name}: {self.outlook.sentence(self.components)}"
        if self.eigenvalues:
            yield f"{self.name}: noise: {self.expectation}. sampling: of Gaussian columns."
            hidden = np.flatnonzero(np.greater(self.noise_scales, self.eigenvalues)) + 1
            if hidden.size:
                told = about(hidden.tolist(), self.columns)
                yield f"{self.name}: noise is larger than the guess of {told}."


def _for_each(name: str, guess: float | Sequence[float], components: int) -> tuple[float, ...]:
    """A guess of each eigenvalue, from as many or from one for all.

    Raises:
        InvalidPlan: another number of them, or one that is no variance.
    """
    try:
        given = np.ravel(guess).astype(np.float64)
    except (TypeError, ValueError):
        raise InvalidPlan(
            f"guesses of {name} must be numbers; got others. Guess variances."
        ) from None
    if len(given) == 1:
        given = np.repeat(given, components)
    if len(given) != components:
        raise InvalidPlan(
            f"guesses of {name} must be one number or one for each of {components} components; "
            f"got {len(given)}. Give one number, or as many as components."
        )
    wrong = [value for value in given if not 0 < value <= LARGEST_BOUND]
    if wrong:
        raise InvalidPlan(
            f"guesses of {name} must be above 0 and at most {LARGEST_BOUND:g}; got {wrong[0]:g}. "
            "Guess variances."
        )
    return tuple(map(float, given))


class Preview(OnPaper, Fact):
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
    screes: tuple[ScreeOutlook, ...] = ()
    """What the screes of the plan will likely be."""
    cautions: tuple[str, ...] = ()
    """Why it will likely be noise, or protect too little. ``Plan.run`` says so, too."""

    @property
    def charged(self) -> tuple[Stage, ...]:
        """The stages as the ledger would hold them."""
        return tuple(line.stage for line in self.stages)

    def __rich__(self) -> RenderableType:
        shape = f"{self.rows} rows by {self.columns} columns; protects {self.unit}."
        guessed = [self._errors()] if any(scree.eigenvalues for scree in self.screes) else []
        sentences = [line for scree in self.screes for line in scree.sentences()]
        told = map(Text, dict.fromkeys((*sentences, *self.cautions)))  # each once
        tables = (self._stages(), self._noise(), self._rules())
        return Group(Text(shape), *tables, *guessed, *told)

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

    def _errors(self) -> Table:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
        table.add_column("scree", overflow="fold")
        table.add_column("component", justify="right", overflow="fold")
        names = ("guess", "noise\n(sd)", "sampling\n(sd)", "both\n(sd)", "relative")
        for name in names:
            table.add_column(name, justify="right", no_wrap=True)
        for scree in self.screes:
            for number, (guess, noise, sampling, total) in enumerate(
                zip(
                    scree.eigenvalues,
                    scree.noise_scales,
                    scree.sampling_scales,
                    scree.totals,
                    strict=True,
                ),
                start=1,
            ):
                errors = (f"{error:.2g}" for error in (noise, sampling, total))
                name = scree.name if number == 1 else ""
                label = scree.columns[number - 1] if scree.columns else str(number)
                table.add_row(name, label, f"{guess:.4g}", *errors, f"{100 * total / guess:.3g} %")
            table.add_section()
        return table

    def _rules(self) -> Table:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("rule")
        table.add_column("what these stages cost by it")
        for rule, cost in self.costs.lines():
            table.add_row(rule, cost)
        return table
