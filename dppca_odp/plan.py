"""A plan: what to release from a table, for which budget, protecting whom.

A plan is declared before anything runs. It can be priced without data, turned into one OpenDP
measurement, and run against an accountant.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Annotated, Any, Self

import numpy as np
import numpy.typing as npt
import opendp.prelude as dp
from opendp.mod import Domain, Measurement, Metric
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from accountant import Accountant, Charge, StoredRelease
from accountant.composition import require_spendable
from accountant.specs import Budget, PrivacyUnit, Share, Split
from dppca_odp.directions import Directions
from dppca_odp.eigenvalues.scree import Scree
from dppca_odp.errors import InvalidPlan, UnusableTable
from dppca_odp.planned import Setting
from dppca_odp.preview import Preview, PreviewStage
from dppca_odp.releases import Release
from dppca_odp.session import check_price, release_paid
from dppca_odp.spaces import approximate, matrix_domain, matrix_shape, rows_metric, to_then
from dppca_odp.tables import Column, load_table

Floats = npt.NDArray[np.float64]
Planned = Annotated[Directions | Scree, Field(discriminator="kind")]
NamedColumn = Annotated[
    Column, BeforeValidator(lambda value: {"name": value} if isinstance(value, str) else value)
]


class Plan(BaseModel):
    """Releases with weights, under one budget, one unit, and public facts of the columns."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    budget: Budget
    unit: PrivacyUnit
    columns: Annotated[tuple[NamedColumn, ...], Field(min_length=1)]
    """One for each column that is measured, in order; a bare name is a column without bounds."""
    releases: Annotated[tuple[Planned, ...], Field(min_length=1)]
    """In the order they run; each gets its weight's share of the budget."""

    @model_validator(mode="after")
    def _can_run(self) -> Self:
        require_spendable(self.budget)
        for kind, names in (("columns", self.column_names), ("releases", self.release_names)):
            if len(set(names)) < len(names):
                raise ValueError(f"{kind} must have different names; got {', '.join(names)}.")
        directions: dict[str, int] = {}
        for release in self.releases:
            if isinstance(release, Directions):
                if release.components > len(self.columns):
                    raise ValueError(
                        f"components must be at most the number of columns, {len(self.columns)}; "
                        f"got {release.components}."
                    )
                directions[release.name] = release.components
            elif isinstance(release.directions, str):
                if release.directions not in directions:
                    raise ValueError(
                        f"directions of {release.name} must name an earlier release of "
                        f"directions; got {release.directions}."
                    )
            else:
                _check_orthonormal(release.directions, len(self.columns))
            _check_method(release, self.components(release))
        return self

    @property
    def column_names(self) -> tuple[str, ...]:
        """The measured columns, in order."""
        return tuple(column.name for column in self.columns)

    @property
    def release_names(self) -> tuple[str, ...]:
        """The releases, in order."""
        return tuple(release.name for release in self.releases)

    @property
    def hash(self) -> str:
        """A name for exactly this plan: SHA-256 of its canonical JSON."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def components(self, release: Planned) -> int:
        """How many directions a release has, or uses."""
        if isinstance(release, Directions):
            return release.components
        if isinstance(release.directions, str):
            named = {r.name: r for r in self.releases}[release.directions]
            assert isinstance(named, Directions)
            return named.components
        return len(release.directions[0])

    def shares(self) -> dict[str, Budget]:
        """The exact budget of each release."""
        shares = (Share(name=r.name, weight=r.weight, uses_delta=True) for r in self.releases)
        return Split(shares=tuple(shares)).divide(self.budget)

    def preview(self, rows: int, columns: int | None = None) -> Preview:
        """The stages, their shares, losses and public noise scales, for a table of this shape.

        Raises:
            InvalidPlan: the plan cannot run on such a table.
        """
        if columns is not None and columns != len(self.columns):
            raise InvalidPlan(
                f"columns must be {len(self.columns)}, as the plan declares; got {columns}."
            )
        return Preview(
            budget=self.budget,
            unit=self.unit,
            rows=rows,
            columns=len(self.columns),
            stages=tuple(self._stages(rows)),
        )

    def make(self, rows: int) -> Measurement:
        """The whole plan as one OpenDP measurement on prepared rows: see ``make_plan``.

        Raises:
            InvalidPlan: the plan cannot run on such a table.
            PriceMismatch: a privacy map exceeds its share.
        """
        if rows < 2:
            raise InvalidPlan(f"rows must be at least 2; got {rows}.")
        try:
            return make_plan(matrix_domain(rows, len(self.columns)), rows_metric(), plan=self)
        except ValueError as error:
            raise InvalidPlan(str(error)) from None

    def stored(self, accountant: Accountant, key: str | None = None) -> Release | None:
        """The release that is already paid for under this key, if there is one.

        Raises:
            KeyConflict: the key belongs to another plan.
        """
        found = accountant.stored(self.hash if key is None else key, self.hash)
        return None if found is None else _from_ledger(found)

    def run(
        self,
        table: Any,
        accountant: Accountant,
        key: str | None = None,
        *,
        fresh: bool = False,
        actor: str | None = None,
        purpose: str = "",
    ) -> Release:
        """Charge the plan's budget, then release.

        ``table`` is a matrix with the plan's columns in order, a data frame that holds them, or
        the path of a CSV or Parquet file. The key defaults to the plan's hash: running the same
        plan again returns the stored release, at no cost (``release.stored`` is true).
        ``fresh`` pays for new noise.

        Raises:
            UnitMismatch, UnusableTable, TableMismatch, InvalidPlan, KeyConflict, BudgetExceeded:
                nothing was charged.
            ReleaseFailed: the measurement stopped after its charge.
        """
        accountant.check_unit(self.unit)
        if not fresh and (stored := self.stored(accountant, key)):
            return stored
        try:
            rows = load_table(table, self.columns)
        except UnusableTable as error:
            accountant.reject(str(error))
            raise
        measurement = self.make(len(rows))
        check_price(measurement, self.unit.rows_per_person, self.budget)
        charge = Charge(
            release_key=self.hash if key is None else key,
            plan_hash=self.hash,
            budget=self.budget,
            stages=tuple(line.stage for line in self._stages(len(rows))),
            purpose=purpose,
            **({} if actor is None else {"actor": actor}),
        )

        def record(answers: Mapping[str, Any], release_key: str) -> dict[str, Any]:
            release = self._release(answers, accountant.data_set, release_key, charge, len(rows))
            return release.model_dump(mode="json")

        outcome = release_paid(
            accountant,
            charge,
            measurement=measurement,
            table=rows,
            columns=self.column_names,
            fresh=fresh,
            record=record,
        )
        if isinstance(outcome, StoredRelease):
            return _from_ledger(outcome)
        return Release.model_validate_json(json.dumps(outcome))

    def _stages(self, rows: int) -> list[PreviewStage]:
        setting = Setting(rows, len(self.columns), self.unit)
        shares = self.shares()
        lines = []
        for release in self.releases:
            try:
                planned = release.stages(shares[release.name], setting, self.components(release))
            except ValueError as error:
                raise InvalidPlan(f"{release.name}: {error}") from None
            for line in planned:
                stage = line.stage.model_copy(update={"name": f"{release.name}: {line.stage.name}"})
                lines.append(
                    PreviewStage(stage=stage, noise_scale=line.noise_scale, noise=line.noise)
                )
        return lines

    def _release(
        self, answers: Mapping[str, Any], data_set: str, key: str, charge: Charge, rows: int
    ) -> Release:
        setting = Setting(rows, len(self.columns), self.unit)
        shares = self.shares()
        return Release(
            data_set=data_set,
            release_key=key,
            plan_hash=self.hash,
            time=datetime.now(UTC),
            budget=self.budget,
            unit=self.unit,
            rows=rows,
            columns=self.column_names,
            stages=charge.stages,
            results=tuple(
                release.released(answers[release.name], shares[release.name], setting)
                for release in self.releases
            ),
            versions={name: version(name) for name in ("dppca-odp", "opendp", "numpy")},
        )


def make_plan(input_domain: Domain, input_metric: Metric, *, plan: Plan) -> Measurement:
    """Every release of a plan, in order, each at its share.

    ==================  ==================================================
    input domain        matrices, n rows by p columns, prepared
    input metric        Hamming distance over rows
    output              mapping from release name to its answer
    output measure      approximate differential privacy
    privacy map         1..c -> the sum of the releases' maps at c, at most the plan's budget;
                        0 -> (0, 0); beyond c rows: error
    ==================  ==================================================

    Proof: OpenDP's adaptive composition. Each release is built once before, on coordinate axes
    in place of directions that are not yet known, to read its map; its map does not depend on
    the directions, and the composition refuses a measurement whose map exceeds that.
    Source: sequential composition, Dwork and Roth (2014), Theorem 3.16.

    Raises:
        ValueError: as the constructors of the releases.
        PriceMismatch: a release's map exceeds its share.
    """
    _, columns = matrix_shape(input_domain, input_metric)
    d_in = plan.unit.rows_per_person
    shares = plan.shares()

    def build(release: Planned, directions: Floats) -> Measurement:
        return release.make(
            input_domain,
            input_metric,
            share=shares[release.name],
            unit=plan.unit,
            directions=directions,
        )

    prices = []
    for release in plan.releases:
        dry = build(release, np.eye(columns, plan.components(release)))
        check_price(dry, d_in, shares[release.name])
        prices.append(dry.map(d_in))
    composition = dp.c.make_adaptive_composition(
        input_domain, input_metric, approximate(), d_in, prices
    )

    def run(table: Floats) -> dict[str, Any]:
        stage = composition(table)
        answers: dict[str, Any] = {}
        for release in plan.releases:
            directions = np.eye(columns, plan.components(release))
            if isinstance(release, Scree):
                given = release.directions
                directions = answers[given] if isinstance(given, str) else np.array(given)
            answers[release.name] = stage(build(release, directions))
        return answers

    return dp.m.make_user_measurement(
        input_domain,
        input_metric,
        approximate(),
        run,
        lambda distance: composition.map(distance) if distance else (0.0, 0.0),
    )


def _from_ledger(stored: StoredRelease) -> Release:
    release = Release.model_validate_json(json.dumps(stored.release))
    return release.model_copy(update={"stored": True})


def _check_method(release: Planned, components: int) -> None:
    if isinstance(release, Scree) and release.method.kind == "clipped":
        release.method.bounds(components)


def _check_orthonormal(directions: tuple[tuple[float, ...], ...], columns: int) -> None:
    widths = {len(row) for row in directions}
    if len(directions) != columns or len(widths) != 1 or not 1 <= min(widths) <= columns:
        raise ValueError(
            f"directions must have one row per column ({columns}), each of the same 1 to "
            f"{columns} numbers."
        )
    matrix = np.array(directions)
    if not np.allclose(matrix.T @ matrix, np.eye(matrix.shape[1]), atol=1e-6):
        raise ValueError("directions must be orthonormal: unit columns at right angles.")


then_plan: Any = to_then(make_plan)
