"""What leaves: released values, their cost, where they came from. No data."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, model_validator
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from accountant.facts import Fact, read_file
from accountant.rules import Composition
from accountant.specs import Budget, PrivacyUnit, Stage
from dppca_odp.errors import InvalidRelease
from dppca_odp.frame import Frame
from dppca_odp.paper import on_paper

if TYPE_CHECKING:
    from dppca_odp.plots.display import Gallery

LOADINGS_ACROSS = 5
NOISE_NOTE = (
    "noise: 95 times in 100 the interval holds what the method would give at the same cutoffs "
    "without its last noise; what clipping takes from a tail is not in it."
)
SAMPLING_NOTE = (
    "sampling: how far the sample is from its population (sd), of Gaussian columns, from the "
    "released values; a heavier tail has more. share: among the components here."
)


#: What releases that were written before do not have.
Later = Annotated[tuple[float, ...], Field(exclude_if=lambda given: not given)]


class ReleasedDirections(Fact):
    """Private directions."""

    kind: Literal["directions"] = "directions"
    name: str
    vectors: tuple[tuple[float, ...], ...]
    """p rows, one for each column of the table, of k numbers; columns are orthonormal."""
    noise_scale: float
    """Standard deviation on the diagonal of the mean matrix."""


class ReleasedScree(Fact):
    """Private eigenvalues along k directions."""

    kind: Literal["scree"] = "scree"
    name: str
    method: str
    directions: str
    """The release of directions they belong to, or "given"."""
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
    noise_low: Later = ()
    noise_high: Later = ()
    """The 95 % noise interval of each value, before values are made nonincreasing."""
    sampling_scales: Later = ()
    """How far the sample is from its population, in standard deviations: of Gaussian columns, from
    the released values."""
    flags: Annotated[
        tuple[tuple[str, ...], ...], Field(exclude_if=lambda given: not any(given))
    ] = ()
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
    """The release of directions they belong to, or "given"."""
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


class Release(Fact):
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
        return tuple(r for r in self.results if isinstance(r, ReleasedScree))

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the analyst should know, release by release."""
        warned = (r for r in self.results if not isinstance(r, ReleasedDirections))
        return tuple(f"{result.name}: {text}" for result in warned for text in result.warnings)

    @property
    def scores(self) -> tuple[ReleasedScores, ...]:
        """The score pictures, in the plan's order."""
        return tuple(r for r in self.results if isinstance(r, ReleasedScores))

    def __rich__(self) -> RenderableType:
        table = _eigenvalues(self.screes)
        directions = [r for r in self.results if isinstance(r, ReleasedDirections)]
        loadings = [table for result in directions for table in _loadings(result, self.columns)]
        notes = [Text(f"note: {warning}", style="dim") for warning in self.warnings]
        explained = (NOISE_NOTE, SAMPLING_NOTE) if self.screes else ()
        notes = [Text(note, style="dim") for note in explained] + notes
        if self.from_ledger:
            paid = f"From the ledger, measured {self.time:%Y-%m-%d %H:%M} UTC; nothing was charged."
            notes.append(Text(paid))
        return Group(*([table] if self.screes else []), *loadings, *notes)

    def __str__(self) -> str:
        return on_paper(self)

    def plot(self) -> Gallery:
        """Every picture of this release: the scree, score histograms, points drawn from them."""
        from dppca_odp.plots.pictures import gallery  # a release shows itself, from above

        return gallery(self)

    def write(self, path: str | Path) -> None:
        """Write JSON that ``read`` understands."""
        Path(path).write_text(self.model_dump_json(indent=2) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read what ``write`` wrote.

        Raises:
            InvalidRelease: no such file, or not a release; in one line.
        """
        return read_file(cls, path, "the release must be a readable file", InvalidRelease)


def _eigenvalues(screes: tuple[ReleasedScree, ...]) -> Table:
    """A line for each component; blank where an older release says nothing."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("scree", overflow="fold")
    for name in ("component", "variance", "noise\n(sd)"):
        table.add_column(name, justify="right", overflow="fold")
    table.add_column("95 % interval\nof the noise", justify="right", no_wrap=True)
    for name in ("sampling\n(sd)", "share"):
        table.add_column(name, justify="right", overflow="fold")
    for scree in screes:
        intervals = zip(scree.noise_low, scree.noise_high, strict=True)
        for number, (value, noise, interval, sampling, share) in enumerate(
            zip_longest(
                scree.values,
                scree.noise_scales,
                [f"{low:.4g} to {high:.4g}" for low, high in intervals],
                [f"{scale:.2g}" for scale in scree.sampling_scales],
                scree.proportions,
                fillvalue="",
            ),
            start=1,
        ):
            name = scree.name if number == 1 else ""
            told = (f"{value:.4g}", f"{noise:.2g}", interval, sampling, f"{share:.1%}")
            table.add_row(name, str(number), *told)
        table.add_section()
    return table


def _loadings(result: ReleasedDirections, columns: tuple[str, ...]) -> Iterator[Table]:
    """Tables of a few components each, so that no number is cut at a hundred columns."""
    components = len(result.vectors[0])
    for start in range(0, components, LOADINGS_ACROSS):
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column(result.name)
        shown = range(start, min(start + LOADINGS_ACROSS, components))
        for number in shown:
            table.add_column(f"component {number + 1}", justify="right")
        for column, row in zip(columns, result.vectors, strict=True):
            table.add_row(column, *(f"{row[number]:+.2f}" for number in shown))
        yield table
