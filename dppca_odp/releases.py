"""What leaves: released values, their cost, where they came from. No data."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, model_validator
from rich.console import RenderableType

from accountant.facts import Fact, read_file
from accountant.rules import Composition
from accountant.specs import Budget, PrivacyUnit, Stage
from dppca_odp.earlier import AXES
from dppca_odp.errors import InvalidRelease
from dppca_odp.frame import Frame
from dppca_odp.paper import OnPaper
from dppca_odp.values import IfAny, Positive

if TYPE_CHECKING:
    from dppca_odp.plots.display import Gallery


class ReleasedDirections(Fact):
    """Private directions."""

    kind: Literal["directions"] = "directions"
    name: str
    vectors: tuple[tuple[float, ...], ...]
    """p rows, one for each column of the table, of k numbers; columns are orthonormal. They are
    directions of the scaled table, if there are scales."""
    noise_scale: float
    """Standard deviation on the diagonal of the mean matrix."""
    scales: IfAny[tuple[Positive, ...]] = ()
    """What each column was divided by before, 1 where no scale was found; none if none were asked
    for."""
    sines: IfAny[tuple[float, ...]] = ()
    """Of the angles by which noise turns the k directions, to expect from the gaps between their
    private eigenvalues; none in an older release."""
    warnings: IfAny[tuple[str, ...]] = ()

    @model_validator(mode="after")
    def _scales_fit(self) -> Self:
        if self.scales and len(self.scales) != len(self.vectors):
            raise ValueError(
                f"scales must be one for each of {len(self.vectors)} columns; got "
                f"{len(self.scales)}. Use a release as it was written."
            )
        return self

    @property
    def loadings(self) -> tuple[tuple[float, ...], ...]:
        """What multiplies a row in data units: vectors, divided by the scales if there are some."""
        scales = self.scales or (1.0,) * len(self.vectors)
        return tuple(
            tuple(number / scale for number in row)
            for row, scale in zip(self.vectors, scales, strict=True)
        )


class ReleasedScree(Fact):
    """Private eigenvalues along k directions."""

    kind: Literal["scree"] = "scree"
    name: str
    method: str
    directions: str
    """The release of directions they belong to, "axes", or "given"."""
    values: tuple[float, ...]
    """Nonnegative (and nonincreasing, if asked): what to report."""
    proportions: tuple[float, ...]
    """Shares among the k reported components."""
    raw: tuple[float, ...]
    """Before post-processing."""
    noise_scales: tuple[float, ...]
    """Standard deviation of the last Gaussian noise in each raw value."""
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    """The range each mean was taken over."""
    warnings: tuple[str, ...]
    noise_low: IfAny[tuple[float, ...]] = ()
    noise_high: IfAny[tuple[float, ...]] = ()
    """The 95 % noise interval of each value, before values are made nonincreasing."""
    sampling_scales: IfAny[tuple[float, ...]] = ()
    """How far the sample is from its population, in standard deviations: of Gaussian columns, from
    the released values."""
    flags: IfAny[tuple[tuple[str, ...], ...]] = ()
    """What to know of each component, in words that ``warnings`` explain."""

    @model_validator(mode="after")
    def _one_for_each_component(self) -> Self:
        for name in ("noise_low", "noise_high", "sampling_scales", "flags"):
            given = getattr(self, name)
            if given and len(given) != len(self.values):
                raise ValueError(
                    f"{name} must be one for each of {len(self.values)} components; got "
                    f"{len(given)}. Use a release as it was written."
                )
        return self

    def flags_of(self, component: int) -> tuple[str, ...]:
        """What to know of a component, counted from 0."""
        return self.flags[component] if self.flags else ()


class ReleasedScores(Fact):
    """A private histogram of the scores along two components, by group."""

    kind: Literal["scores"] = "scores"
    name: str
    directions: str
    """The release of directions they belong to, "axes", or "given"."""
    axes: tuple[int, int]
    """The components along x and y, counted from 1."""
    frame: Frame
    histogram: str
    label: str | None
    """The column that tells groups apart."""
    groups: tuple[str, ...]
    """Their names; one, "all", without groups."""
    mass: tuple[tuple[tuple[float, ...], ...], ...]
    """By group, y bin (from below) and x bin; each group sums to 1, or to 0 if it is empty."""
    noise_scale: float
    """The noise parameter of a count, in rows."""
    threshold: int | None
    """Noisy counts below it were left out, in a sparse histogram."""
    empty: tuple[str, ...]
    """The groups without mass: too few rows for this noise, or none."""
    warnings: tuple[str, ...]

    @model_validator(mode="after")
    def _mass_is_whole(self) -> Self:
        sides = {(len(group), len(row)) for group in self.mass for row in group}
        cells = [share for group in self.mass for row in group for share in row]
        if len(self.mass) != len(self.groups) or len(sides) != 1 or min(cells, default=-1.0) < 0:
            raise ValueError(
                f"mass must be one grid of shares for each of {len(self.groups)} groups; got "
                "another shape or negative shares. Use a release as it was written."
            )
        return self


Result = ReleasedDirections | ReleasedScree | ReleasedScores
Released = Annotated[Result, Field(discriminator="kind")]


class Release(OnPaper, Fact):
    """Everything that one run of a plan let out of a table."""

    data_set: str
    release_key: str
    plan_hash: str
    time: datetime
    budget: Budget
    unit: PrivacyUnit
    rows: int
    columns: tuple[str, ...]
    composition: Annotated[Composition, Field(exclude_if=lambda given: given == "sum")] = "sum"
    """How its losses fit in the budget."""
    stages: tuple[Stage, ...]
    """The stages as they were charged, each named after its release."""
    results: tuple[Released, ...]
    versions: dict[str, str]
    from_ledger: Annotated[bool, Field(exclude=True)] = False
    """Whether it was paid for before and cost nothing now."""

    def __getitem__(self, name: str) -> Result:
        for result in self.results:
            if result.name == name:
                return result
        names = ", ".join(result.name for result in self.results)
        raise KeyError(f"name must be one of {names}; got {name}. Use the plan's name for it.")

    @property
    def screes(self) -> tuple[ReleasedScree, ...]:
        """The eigenvalue releases, in the plan's order."""
        return tuple(r for r in self._variances if r not in self.column_variances)

    @property
    def column_variances(self) -> tuple[ReleasedScree, ...]:
        """The releases along the axes: a component is a column, with a unit of its own."""
        return tuple(r for r in self._variances if self.columns_of(r))

    def columns_of(self, result: ReleasedScree | ReleasedScores) -> tuple[str, ...]:
        """The names of a result's components, where these are columns."""
        directions = {r.name for r in self.results if isinstance(r, ReleasedDirections)}
        old = AXES in directions  # then it was a name like any other
        return self.columns if result.directions == AXES and not old else ()

    @property
    def _variances(self) -> tuple[ReleasedScree, ...]:
        return tuple(r for r in self.results if isinstance(r, ReleasedScree))

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the analyst should know, release by release."""
        return tuple(
            f"{result.name}: {text}" for result in self.results for text in result.warnings
        )

    @property
    def scores(self) -> tuple[ReleasedScores, ...]:
        """The score pictures, in the plan's order."""
        return tuple(r for r in self.results if isinstance(r, ReleasedScores))

    def __rich__(self) -> RenderableType:
        from dppca_odp.printing import tables_of  # a release prints itself, from above

        return tables_of(self)

    def plot(self) -> Gallery:
        """Every picture of this release: the scree, score histograms, points drawn from them."""
        from dppca_odp.plots.pictures import gallery  # a release shows itself, from above

        return gallery(self)

    def write(self, path: str | Path) -> None:
        """Write JSON that ``read`` understands. Folders that are missing are made."""
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(self.model_dump_json(indent=2) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read what ``write`` wrote.

        Raises:
            InvalidRelease: no such file, or not a release; in one line.
        """
        return read_file(cls, path, "the release must be a readable file", InvalidRelease)
