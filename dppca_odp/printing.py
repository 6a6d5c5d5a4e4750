"""A release in tables, for a terminal or a page of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, zip_longest

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from dppca_odp.flags import Flag
from dppca_odp.releases import Release, ReleasedDirections, ReleasedScree

LOADINGS_ACROSS = 5
#: Of more columns than this the largest loadings are shown: so many, or fewer that hold this part.
MOST_COLUMNS, MOST_LARGEST, ENOUGH = 20, 10, 0.9
LONGEST_NAME = 24  # on one line
TURNED_BY = "noise (sine)"
LARGEST_NOTE = (
    "loadings: of each component the largest in order, until their squares hold 90 % of it, ten at "
    "most; part: what these hold. Report these. All of them are in release.json, and in Python in "
    "vectors and loadings."
)
NOISE_NOTE = (
    "noise: 95 times in 100 the interval holds what the method would give at the same cutoffs "
    "without its last noise. It is no interval of the variance: what clipping takes from a skewed "
    "or heavy column is not in it, and the variance may be well above."
)
SAMPLING_NOTE = (
    "sampling: how far the sample is from its population (sd), of Gaussian columns, from the "
    "released values; a heavier tail has more. share: among the components here."
)


def tables_of(release: Release) -> RenderableType:
    """Variances of columns, screes and directions; then notes."""
    directions = [r for r in release.results if isinstance(r, ReleasedDirections)]
    loadings = [table for result in directions for table in _loadings(result, release.columns)]
    variances = [_of_columns(scree, release.columns) for scree in release.column_variances]
    eigenvalues = [_eigenvalues(release.screes)] if release.screes else []
    explained = [NOISE_NOTE, SAMPLING_NOTE] if variances or eigenvalues else []
    if loadings and len(release.columns) > MOST_COLUMNS:
        explained.append(LARGEST_NOTE)
    warned = (f"note: {warning}" for warning in release.warnings)
    notes = [Text(note, style="dim") for note in (*explained, *warned)]
    if release.from_ledger:
        measured = f"measured {release.time:%Y-%m-%d %H:%M} UTC"
        notes.append(
            Text(f"From the ledger, {measured}: the table was not read, and nothing was charged.")
        )
    return Group(*variances, *eigenvalues, *loadings, *notes)


def _eigenvalues(screes: tuple[ReleasedScree, ...]) -> Table:
    """A line for each component; blank where an older release says nothing."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("scree", overflow="fold")
    table.add_column("component", justify="right", overflow="fold")
    _add_errors(table)
    table.add_column("share", justify="right", overflow="fold")
    for scree in screes:
        for number, told in enumerate(_errors(scree), start=1):
            name = scree.name if number == 1 else ""
            table.add_row(name, str(number), *told, f"{scree.proportions[number - 1]:.1%}")
        table.add_section()
    return table


def _add_errors(table: Table) -> None:
    """The headings of what ``_errors`` tells."""
    for name in ("variance", "noise\n(sd)"):
        table.add_column(name, justify="right", overflow="fold")
    table.add_column("noise alone,\n95 % interval", justify="right", no_wrap=True)
    table.add_column("sampling\n(sd)", justify="right", overflow="fold")


def _errors(scree: ReleasedScree) -> Iterator[tuple[str, ...]]:
    """Value, noise, its interval and the sampling error; blank where nothing is known.

    That is where no scale was found, and where an older release is silent.
    """
    intervals = zip(scree.noise_low, scree.noise_high, strict=True)
    lines = zip_longest(
        [f"{value:.4g}" for value in scree.values],
        [f"{noise:.2g}" for noise in scree.noise_scales],
        [f"{low:.4g} to {high:.4g}" for low, high in intervals],
        [f"{scale:.2g}" for scale in scree.sampling_scales],
        fillvalue="",
    )
    for component, told in enumerate(lines):
        missing = Flag.NOT_FOUND in scree.flags_of(component)
        yield (Flag.NOT_FOUND, "", "", "") if missing else told


def _of_columns(scree: ReleasedScree, columns: tuple[str, ...]) -> Table:
    """One line a column, in squared units of its own: shares would mean nothing."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(scree.name)
    _add_errors(table)
    for column, told in zip(columns, _errors(scree), strict=True):
        table.add_row(column, *told)
    return table


def _loadings(result: ReleasedDirections, columns: tuple[str, ...]) -> Iterator[Table]:
    """The vectors; of scaled columns also what they were divided by, and loadings in data units."""
    if len(columns) > MOST_COLUMNS:
        yield from _largest(result, columns)
        return
    vectors = _by_component(result.vectors, "+.2f")
    rows = columns
    if result.sines:
        rows = (*columns, TURNED_BY)
        for told, sine in zip(vectors.values(), result.sines, strict=True):
            told.append(f"{sine:.2f}")
    if not result.scales:
        yield from _by_column(result.name, rows, vectors)
        return
    yield from _by_column(f"{result.name}, of scaled columns", rows, vectors)
    divided = {"divided by": [f"{scale:.4g}" for scale in result.scales]}
    loadings = divided | _by_component(result.loadings, "+.3g")
    yield from _by_column(f"{result.name}, in data units", columns, loadings)


def _largest(result: ReleasedDirections, columns: tuple[str, ...]) -> Iterator[Table]:
    """The largest loadings of each component in order, and what part of it they are."""
    forms = [("scaled" if result.scales else "", result.vectors, "+.2f")]
    if result.scales:
        forms.append(("data units", result.loadings, "+.3g"))
    orders = [_in_order(vector) for vector in zip(*result.vectors, strict=True)]
    width = 11 * len(forms) + min(max(map(len, columns)), LONGEST_NAME)
    across = max(1, 64 // width)
    for start in range(0, len(orders), across):
        shown = list(enumerate(orders))[start : start + across]
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column(result.name, overflow="fold", max_width=12)
        for number, _ in shown:
            table.add_column(f"component {number + 1}", overflow="fold", max_width=LONGEST_NAME)
            for heading, _, _ in forms:
                table.add_column(heading, justify="right", no_wrap=True)
        for rank in range(max(len(order) for _, order in shown)):
            cells: list[str] = []
            for number, order in shown:
                at = order[rank] if rank < len(order) else None
                cells.append("" if at is None else columns[at])
                for _, numbers, form in forms:
                    cells.append("" if at is None else f"{numbers[at][number]:{form}}")
            table.add_row(str(rank + 1), *cells)
        table.add_section()
        parts = [
            f"{sum(result.vectors[at][number] ** 2 for at in order):.0%}" for number, order in shown
        ]
        turned = [f"{sine:.2f}" for sine in result.sines[start : start + across]]
        for heading, told in (("part", parts), (TURNED_BY, turned)):
            if told:  # in the column of the first loadings of each component
                cells = [cell for text in told for cell in ("", text, *[""] * (len(forms) - 1))]
                table.add_row(heading, *cells)
        yield table


def _in_order(vector: Sequence[float]) -> list[int]:
    """Where its largest numbers are, until their squares hold enough of it."""
    order = sorted(range(len(vector)), key=lambda at: -abs(vector[at]))[:MOST_LARGEST]
    parts = accumulate(vector[at] ** 2 for at in order)
    return order[: 1 + sum(part < ENOUGH for part in parts)]


def _by_component(numbers: tuple[tuple[float, ...], ...], form: str) -> dict[str, list[str]]:
    """The numbers of each component, as text."""
    return {
        f"component\n{number}": [f"{value:{form}}" for value in values]
        for number, values in enumerate(zip(*numbers, strict=True), start=1)
    }


def _by_column(name: str, columns: tuple[str, ...], texts: dict[str, list[str]]) -> Iterator[Table]:
    """Tables of a few texts across, so that they fit 80 characters."""
    headings = list(texts)
    for start in range(0, len(headings), LOADINGS_ACROSS):
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column(name)
        shown = headings[start : start + LOADINGS_ACROSS]
        for heading in shown:
            table.add_column(heading, justify="right")
        for column, *row in zip(columns, *(texts[heading] for heading in shown), strict=True):
            table.add_row(column, *row)
        yield table
