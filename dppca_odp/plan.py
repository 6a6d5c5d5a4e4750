"""A plan: what to release from a table, for which budget, protecting whom.

A plan is declared before anything runs. It can be priced without data, turned into one OpenDP
measurement, and run against an accountant.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from functools import lru_cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
from opendp.mod import Domain, Measurement, Metric
from pydantic import BeforeValidator, Field, model_validator

from accountant import Accountant, Charge
from accountant.amounts import float_below, in_short, show_delta_down
from accountant.composition import require_spendable
from accountant.entries import canonical_json
from accountant.errors import AccountantError, InvalidAmount
from accountant.facts import Fact, read_file
from accountant.rules import (
    CommittedRule,
    Composition,
    SumRule,
    composing_rule,
    gaussian_cost,
)
from accountant.specs import AnyBudget, Budget, PrivacyUnit, Split, Stage, StageWeight
from dppca_odp.budgets import MuBudget, PlanBudget, ShareBudget, delta_cautions, left_cautions
from dppca_odp.columns import Column, Label
from dppca_odp.directions import Directions
from dppca_odp.earlier import AXES
from dppca_odp.eigenvalues.scree import Scree
from dppca_odp.errors import InvalidPlan, NoTable, PoorOutlook, UnusableTable
from dppca_odp.factors import LEAST, largest_factor
from dppca_odp.planned import PlannedStage, Setting
from dppca_odp.preview import Costs, NoiseScales, Preview, ScreeOutlook
from dppca_odp.primitives.stages import Ask, Program, make_committed_stages, make_in_stages
from dppca_odp.progress import passes_of, progress_shown
from dppca_odp.releases import Release
from dppca_odp.scores.scores import Scores
from dppca_odp.session import (
    UNCHARGED,
    charge_and_release,
    check_loss,
    from_ledger,
    interrupts_deferred,
    interrupts_told,
)
from dppca_odp.spaces import matrix_domain, matrix_shape, rows_metric, to_then
from dppca_odp.tables import load_table

Planned = Annotated[Directions | Scree | Scores, Field(discriminator="kind")]
NamedColumn = Annotated[
    Column, BeforeValidator(lambda value: {"name": value} if isinstance(value, str) else value)
]


class Plan(Fact):
    """Releases with weights, under one budget, one unit, and public facts of the columns."""

    budget: PlanBudget
    """Epsilon and delta; a mu, with a delta; or a share of what remains when it is paid for."""
    unit: PrivacyUnit
    columns: Annotated[tuple[NamedColumn, ...], Field(min_length=1)]
    """One for each column that is measured, in order; a bare name is a column without bounds."""
    labels: tuple[Label, ...] = ()
    """Columns of group labels, for score pictures by group; never measured."""
    releases: Annotated[tuple[Planned, ...], Field(min_length=1)]
    """In the order they run; each gets its weight's share of the budget."""
    composition: Annotated[Composition, Field(exclude_if=lambda given: given == "sum")] = "sum"
    """How losses fit in the budget: they add, or all are fixed before and composed."""

    @model_validator(mode="after")
    def _can_run(self) -> Self:
        if isinstance(self.budget, Budget):
            require_spendable(self.budget)
        if isinstance(self.budget, MuBudget):
            require_spendable(self.budget.pair())
        names_of = {"columns and labels": self.table_names, "releases": self.release_names}
        for kind, names in names_of.items():
            if len(set(names)) < len(names):
                raise ValueError(
                    f"{kind} must have different names; got {', '.join(names)}. Rename one."
                )
        earlier: dict[str, Planned] = {}
        for release in self.releases:
            _check_stands(release, earlier, len(self.columns))
            earlier[release.name] = release
            release.check(
                columns=len(self.columns),
                components=self.components(release),
                labels=self.labels,
            )
        return self

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """A plan from a JSON file.

        Raises:
            InvalidPlan: no such file, not JSON, or not a plan; in one line.
        """
        must = "the plan must be a readable UTF-8 file"
        return read_file(cls, path, must, InvalidPlan, encoding="utf-8-sig")

    @property
    def column_names(self) -> tuple[str, ...]:
        """The measured columns, in order."""
        return tuple(column.name for column in self.columns)

    @property
    def table_names(self) -> tuple[str, ...]:
        """The columns that are read: the measured ones, then the labels."""
        return self.column_names + tuple(label.name for label in self.labels)

    @property
    def release_names(self) -> tuple[str, ...]:
        """The releases, in order."""
        return tuple(release.name for release in self.releases)

    @property
    def hash(self) -> str:
        """A name for exactly this plan: SHA-256 of its canonical JSON."""
        return hashlib.sha256(canonical_json(self.model_dump(mode="json")).encode()).hexdigest()

    def components(self, release: Planned) -> int:
        """How many directions a release has, or uses."""
        if isinstance(release, Directions):
            return release.components
        if release.directions == AXES:
            return len(self.columns)
        if isinstance(release.directions, str):
            named = {r.name: r for r in self.releases}[release.directions]
            assert isinstance(named, Directions)
            return named.components
        return len(release.directions[0])

    def setting(self, release: Planned, rows: int) -> Setting:
        """What is public when a release meets a table of so many rows."""
        return Setting(rows, self.column_names, self.components(release), self.unit, self.labels)

    def shares(self, factor: Fraction = Fraction(1)) -> dict[str, Budget]:
        """The exact budget of each release, its epsilon multiplied by a factor."""
        weights = (
            StageWeight(name=r.name, weight=r.weight, uses_delta=True) for r in self.releases
        )
        whole = Budget.of(self.whole.epsilon * factor, self.whole.delta)
        return Split(weights=tuple(weights)).divide(whole)

    def at(self, accountant: Accountant) -> Self:
        """The same plan with a budget in amounts: a share is one of what remains there now."""
        if not isinstance(self.budget, ShareBudget):
            return self
        return self.model_copy(update={"budget": self.budget.of(accountant)})

    @property
    def whole(self) -> Budget:
        """What is split into shares: the budget, or the epsilon that its mu has at its delta.

        Raises:
            InvalidPlan: the budget is a share, of something that is not known here.
        """
        if isinstance(self.budget, ShareBudget):
            raise InvalidPlan(
                "budget must be in amounts where no ledger is at hand; got a share. Name the "
                "ledger and the data set, or give epsilon and delta."
            )
        return self.budget if isinstance(self.budget, Budget) else self.budget.pair()

    def price(self, rows: int) -> Budget:
        """The (epsilon, delta) that is charged: the budget, or what a mu comes to.

        Raises:
            InvalidPlan: as ``stages``.
        """
        if isinstance(self.budget, MuBudget):
            cost = self._rule.cost(line.stage for line in self.stages(rows))
            return Budget.of(in_short(cost.epsilon, up=True), self.whole.delta)
        return self.whole

    @property
    def _rule(self) -> SumRule | CommittedRule:
        return composing_rule(self.composition, Fraction(self.certified_delta))

    def factor(self, rows: int) -> Fraction:
        """What each release's share of epsilon is multiplied by: 1, if epsilons add.

        Raises:
            InvalidPlan: as ``stages``.
        """
        if self.composition == "sum" and not isinstance(self.budget, MuBudget):
            return Fraction(1)
        return _solved_factor(self, rows)

    @property
    def certified_delta(self) -> float:
        """The delta at which a committed plan is composed: the budget's, rounded down."""
        return float_below(self.whole.delta)

    def preview(
        self,
        rows: int,
        columns: int | None = None,
        guesses: Mapping[str, float | Sequence[float]] | None = None,
    ) -> Preview:
        """The stages, their shares and losses, for a table of this shape, and what they compare to.

        That is their cost by each rule, and the noise of each composition at the same budget.
        Of a scree whose eigenvalues are guessed, one for each component or one for all, it tells
        the error to expect. Guesses are public: they must not come from the table.

        Raises:
            InvalidPlan: the plan cannot run on such a table; guesses that do not suit it.
        """
        if columns is not None and columns != len(self.columns):
            raise InvalidPlan(
                f"columns must be {len(self.columns)}, as the plan declares; got {columns}. "
                "Count the measured columns."
            )
        stages = self.stages(rows)

        def noise_scales(composition: Composition) -> tuple[float | None, ...] | None:
            other = self.model_copy(update={"composition": composition})
            try:
                return tuple(line.noise_scale for line in other.stages(rows))
            except InvalidPlan:  # not all plans can be committed
                return None

        if not isinstance(guesses, Mapping | None):
            raise InvalidPlan(
                f"guesses must name the scree they are of; got {type(guesses).__name__}. Write "
                '{"scree": [9, 4]}.'
            )
        guessed = dict(guesses or {})
        screes = [release for release in self.releases if isinstance(release, Scree)]
        names = [scree.name for scree in screes]
        for name in guessed:
            if name not in names:
                raise InvalidPlan(
                    f"guesses must be of the screes {', '.join(names) or '(none)'}; got one of "
                    f"{name}. Use the plan's names."
                )
        shares = self.shares(self.factor(rows))
        price = self.price(rows)
        return Preview(
            budget=price,
            unit=self.unit,
            rows=rows,
            columns=len(self.columns),
            composition=self.composition,
            stages=stages,
            costs=Costs.of([line.stage for line in stages], Fraction(self.certified_delta)),
            noise_scales=NoiseScales(sum=noise_scales("sum"), committed=noise_scales("committed")),
            screes=tuple(
                ScreeOutlook.of(
                    scree, shares[scree.name], self.setting(scree, rows), guessed.get(scree.name)
                )
                for scree in screes
            ),
            cautions=self.cautions(rows),
        )

    def cautions(self, rows: int) -> tuple[str, ...]:
        """Why releases will likely be noise, or protect too little: from public numbers alone.

        Raises:
            InvalidPlan: as ``stages``.
        """
        shares = self.shares(self.factor(rows))
        poor = (
            f"{release.name}: {text}"
            for release in self.releases
            for text in release.cautions(shares[release.name], self.setting(release, rows))
        )
        return (*poor, *delta_cautions(self.whole.delta, rows, self.unit))

    def make(self, rows: int) -> Measurement:
        """The whole plan as one OpenDP measurement on prepared rows: see ``make_plan``.

        Raises:
            InvalidPlan: the plan cannot run on such a table.
        """
        _check_rows(rows)
        try:
            return make_plan(matrix_domain(rows, len(self.table_names)), rows_metric(), plan=self)
        except ValueError as error:
            raise InvalidPlan(str(error)) from None

    def stored(self, accountant: Accountant, key: str | None = None) -> Release | None:
        """The release that is already paid for under this key, if there is one.

        Raises:
            KeyConflict: the key belongs to another plan.
        """
        stored = accountant.stored(self.hash if key is None else key, self.hash)
        return None if stored is None else from_ledger(stored)

    def run(
        self,
        table: Any,
        accountant: Accountant,
        key: str | None = None,
        *,
        fresh: bool = False,
        actor: str = "",
        purpose: str = "",
        progress: bool | None = None,
    ) -> Release:
        """Charge the plan's budget, then release.

        ``table`` is a matrix with the plan's columns in order, a data frame that holds them, or
        the path of a CSV or Parquet file. The key defaults to the plan's hash: running the same
        plan again returns the stored release, at no cost (``release.from_ledger`` is true).
        ``fresh`` pays for new noise. ``progress`` shows how far a run over a second is; left out,
        on a terminal and in a notebook. A ``PoorOutlook`` is warned of before the charge, which it
        does not stop.

        Raises:
            UnitMismatch, UnusableTable, TableMismatch, InvalidPlan, KeyConflict, BudgetExceeded:
                nothing was charged.
            ReleaseFailed: the measurement stopped after its charge.
            KeyboardInterrupt: with what was charged and stored till then.
        """
        if not isinstance(accountant, Accountant):
            raise InvalidPlan(
                f"accountant must be an Accountant; got {type(accountant).__name__}. Write "
                "plan.run(table, accountant)."
            )
        with interrupts_told(UNCHARGED):
            accountant.check_unit(self.unit)
            if not fresh and (stored := self.stored(accountant, key)):
                return stored
            try:
                with interrupts_deferred("until the table is read"):  # libraries in Rust abort
                    rows = load_table(table, self.columns, self.labels)
            except NoTable:
                raise
            except UnusableTable as error:
                accountant.reject(str(error))
                raise
            planned = self.at(accountant)
            with interrupts_deferred("until the plan is priced"):  # maps are Python callbacks
                measurement = planned.make(len(rows))
                price = planned.price(len(rows))
                check_loss(measurement, self.unit.rows_per_person, price)
            charge = Charge(
                release_key=self.hash if key is None else key,
                plan_hash=self.hash,
                unit=self.unit,
                budget=price,
                composition=self.composition,
                stages=tuple(line.stage for line in planned.stages(len(rows))),
                actor=actor,
                purpose=purpose,
            )

            left = _left_after(charge, accountant)
            if left is not None:
                for caution in (*planned.cautions(len(rows)), *left_cautions(left)):
                    warnings.warn(f"before the charge: {caution}", PoorOutlook, stacklevel=2)

        def record(answers: Mapping[str, Any], release_key: str) -> Release:
            return Release(
                data_set=accountant.data_set,
                release_key=release_key,
                plan_hash=self.hash,
                time=datetime.now(UTC),
                budget=price,
                unit=self.unit,
                rows=len(rows),
                columns=self.column_names,
                composition=self.composition,
                stages=charge.stages,
                results=tuple(
                    release.released(answers[release.name], self.setting(release, len(rows)))
                    for release in self.releases
                ),
                versions={name: version(name) for name in ("dppca-odp", "opendp", "numpy")},
            )

        with progress_shown(self.release_names, progress):
            return charge_and_release(
                accountant,
                charge,
                measurement=measurement,
                table=rows,
                columns=self.table_names,
                fresh=fresh,
                record=record,
            )

    def stages(self, rows: int) -> tuple[PlannedStage, ...]:
        """The stages of all releases, each named after its release.

        Raises:
            InvalidPlan: the plan cannot run on a table of so many rows.
        """
        return self.stages_at(rows, self.factor(rows))

    def stages_at(self, rows: int, factor: Fraction) -> tuple[PlannedStage, ...]:
        """The same with another factor."""
        _check_rows(rows)
        shares = self.shares(factor)
        lines: list[PlannedStage] = []
        for release in self.releases:
            try:
                planned = release.stages(shares[release.name], self.setting(release, rows))
            except ValueError as error:
                raise InvalidPlan(f"{release.name}: {error}") from None
            for line in planned:
                stage = line.stage.model_copy(update={"name": f"{release.name}: {line.stage.name}"})
                lines.append(line.model_copy(update={"stage": stage}))
        return tuple(lines)


def make_plan(input_domain: Domain, input_metric: Metric, *, plan: Plan) -> Measurement:
    """Every release of a plan, in order, each at its share.

    ==================  ==================================================
    input domain        matrices, n rows by p columns and label codes, prepared
    input metric        Hamming distance over rows
    output              mapping from release name to its answer
    output measure      approximate differential privacy
    privacy map         1..c -> the stages, added or committed, at most the plan's budget;
                        0 -> (0, 0); beyond c rows: error
    ==================  ==================================================

    Proof: ``make_in_stages``, or ``make_committed_stages``, over the stages of all releases.
    Which directions and scales a release stands on, and where its cutoffs lie, may be known only
    from an answer before; the losses of its stages, types and amounts, do not depend on them.
    Source: sequential composition, Dwork and Roth (2014), Theorem 3.16; for a committed plan Zhu,
    Dong and Wang (2022), theorem 10.

    Raises:
        ValueError: as the releases.
    """
    rows, _ = matrix_shape(input_domain, input_metric)
    factor = plan.factor(rows)
    shares = plan.shares(factor)

    def program(release: Planned, earlier: Mapping[str, Any]) -> Program[Any]:
        return release.program(
            input_domain,
            input_metric,
            share=shares[release.name],
            setting=plan.setting(release, rows),
            earlier=earlier,
        )

    stand_ins = {
        release.name: release.stand_in(plan.setting(release, rows))
        for release in plan.releases
        if not isinstance(release, Scores)  # nothing stands on a picture
    }
    for release in plan.releases:  # what cannot run whatever is answered before is refused now
        program(release, stand_ins)

    def run(ask: Ask) -> dict[str, Any]:
        answers: dict[str, Any] = {}
        for release in plan.releases:
            with passes_of(release.name):
                answers[release.name] = program(release, answers)(ask)
        return answers

    compose = (
        make_in_stages
        if plan.composition == "sum"
        else partial(make_committed_stages, delta=plan.certified_delta)
    )
    return compose(
        input_domain,
        input_metric,
        d_in=plan.unit.rows_per_person,
        stages=[line.stage for line in plan.stages(rows)],
        run=run,
    )


@lru_cache(maxsize=64)
def _solved_factor(plan: Plan, rows: int) -> Fraction:
    """The factor with which all stages together cost the plan's mu, or its epsilon."""
    by_rule: Callable[[Iterable[Stage]], AnyBudget] = CommittedRule(
        delta=Fraction(plan.certified_delta)
    ).cost
    most, least = plan.whole.epsilon, LEAST
    if isinstance(plan.budget, MuBudget):
        by_rule, most, least = gaussian_cost, plan.budget.mu**2, Fraction(0)

    def cost(factor: Fraction) -> Fraction:
        return by_rule(line.stage for line in plan.stages_at(rows, factor)).coordinates[0]

    try:
        return largest_factor(cost, most, least)
    except InvalidAmount:
        raise InvalidPlan(
            f"a committed plan must keep delta {show_delta_down(plan.whole.delta)} at some "
            "epsilon; got stages that tell as much at any. Give a Gaussian stage some of it, or "
            "use the composition sum."
        ) from None


def _left_after(charge: Charge, accountant: Accountant) -> AnyBudget | None:
    """What the pool has after the charge; None where that will be refused in words of its own."""
    try:
        return accountant.remaining() - charge.cost(accountant.rule)
    except AccountantError:
        return None


def _check_rows(rows: int) -> None:
    if not isinstance(rows, int | np.integer):
        raise InvalidPlan(
            f"rows must be a whole number; got {type(rows).__name__}. Count the table's rows."
        )
    if rows < 2:
        raise InvalidPlan(f"rows must be at least 2; got {rows}. A pair needs two rows.")


def _check_stands(release: Planned, earlier: Mapping[str, Planned], columns: int) -> None:
    if isinstance(release, Directions):
        found = None if release.scales is None else earlier.get(release.scales)
        along_axes = isinstance(found, Scree) and found.directions == AXES
        if release.scales is not None and not along_axes:
            raise ValueError(
                f"scales of {release.name} must name an earlier scree along the axes; got "
                f'{release.scales}. Plan it before, with the directions "{AXES}".'
            )
    elif not isinstance(release.directions, str):
        _check_orthonormal(release.directions, columns)
    elif not (
        release.directions == AXES or isinstance(earlier.get(release.directions), Directions)
    ):
        raise ValueError(
            f"directions of {release.name} must name an earlier release of directions; "
            f"got {release.directions}. Plan it before."
        )


def _check_orthonormal(directions: tuple[tuple[float, ...], ...], columns: int) -> None:
    widths = {len(row) for row in directions}
    if len(directions) != columns or len(widths) != 1 or not 1 <= min(widths) <= columns:
        raise ValueError(
            f"directions must have one row per column ({columns}), each of the same 1 to "
            f"{columns} numbers; got {len(directions)} rows. Give one column for each component."
        )
    matrix = np.array(directions)
    with np.errstate(over="ignore", invalid="ignore"):
        products = matrix.T @ matrix
    if not np.allclose(products, np.eye(matrix.shape[1]), atol=1e-6):
        raise ValueError(
            "directions must be orthonormal; got columns that are not. Normalise them first."
        )


then_plan: Any = to_then(make_plan)
