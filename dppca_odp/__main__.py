"""The command line: advise, preview, run, plot, schema, demo.

Exit status: 0 done; 1 a release that stopped after its charge, or a bug caught before it;
2 wrong usage or plan; 3 refused by the budget; 4 unusable data; 130 interrupted.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated, Any

import typer
from rich.console import Console

from accountant import (
    Accountant,
    AccountantError,
    Budget,
    BudgetExceeded,
    GaussianRule,
    NoGrant,
    PrivacyUnit,
    SumRule,
    TableMismatch,
)
from accountant.facts import quoted
from accountant.rules import gaussian_cost
from accountant.scripts import INTERRUPTED, leave, run_script
from dppca_odp.advice import advise as advise_on
from dppca_odp.budgets import ShareBudget
from dppca_odp.eigenvalues.scree import Scree
from dppca_odp.errors import DppcaError, InvalidPlan, InvalidRelease, PoorOutlook, UnusableTable
from dppca_odp.plan import Plan
from dppca_odp.plots.pictures import save_pictures
from dppca_odp.releases import Release
from dppca_odp.session import UNCHARGED, interrupts_told, stored

NAME = "dppca-odp"

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Private principal component analysis with a budget ledger.",
)
console = Console(markup=False)  # names are shown as they are

PlanFile = Annotated[Path, typer.Argument(metavar="PLAN.json", help="The plan to price or run.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Allocation = Annotated[
    str | None, typer.Option(help="The part of the grant that pays; the free pool if left out.")
]


@app.command()
def preview(
    plan: PlanFile,
    rows: Annotated[
        int | None, typer.Option(help="Number of rows of the table; the ledger's if left out.")
    ] = None,
    columns: Annotated[
        int | None, typer.Option(help="Number of measured columns, to be checked.")
    ] = None,
    ledger: Annotated[str | None, typer.Option(help="The ledger that would pay.")] = None,
    dataset: Annotated[
        str | None, typer.Option(metavar="NAME", help="The granted data set in it.")
    ] = None,
    allocation: Allocation = None,
    guess: Annotated[
        str | None,
        typer.Option(
            metavar="V1,V2,...",
            help="Rough public guesses of variances, for every scree of so many components, or "
            "one for all: shows the errors to expect.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what a plan costs and will likely find; no data is read and nothing is charged."""
    with exit_status():
        asked, accountant = Plan.read(plan), None
        if (ledger is None) != (dataset is None) or (allocation and ledger is None):
            leave(NAME, 2, "ledger and dataset must be given together; got a part. Give both.")
        if ledger is not None and dataset is not None:
            accountant = Accountant(ledger, data_set=dataset, allocation=allocation)
            accountant.check_unit(asked.unit)
            if rows is None and accountant.table:
                rows = accountant.table.rows
        if rows is None:
            leave(NAME, 2, "rows must be given where no ledger tells them; got none. Add --rows.")
        guesses = None if guess is None else guessed(asked, guess)
        shown = (asked.at(accountant) if accountant else asked).preview(rows, columns, guesses)
        if as_json:
            typer.echo(shown.model_dump_json(indent=2))
            return
        console.print(shown)
        if accountant:
            rule, left = accountant.rule, accountant.remaining()
            cost = shown.budget if isinstance(rule, SumRule) else rule.cost(shown.charged)
            times = cost.times_within(left)
            enough = f": enough for this plan {times} time{'' if times == 1 else 's'}"
            if isinstance(asked.budget, ShareBudget):  # of what remains, however little
                enough = ""
            console.print(f"{_pool(allocation)} has {left.show_down()} left{enough}.")


def guessed(plan: Plan, text: str) -> dict[str, tuple[float, ...]]:
    """The same guesses for every scree that they suit.

    Raises:
        InvalidPlan: they are no numbers, or suit none.
    """
    try:
        values = tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InvalidPlan(
            f"guess must be numbers with commas between them; got {quoted(text)}. Write 10,6,3."
        ) from None
    components = {
        release.name: plan.components(release)
        for release in plan.releases
        if isinstance(release, Scree)
    }
    suited = {name: values for name, number in components.items() if len(values) in (1, number)}
    if not suited:
        known = ", ".join(f"{name} ({number})" for name, number in components.items()) or "none"
        raise InvalidPlan(
            f"guess must be one number or one for each component of a scree: {known}; "
            f"got {len(values)}. Give as many as components."
        )
    return suited


@app.command()
def advise(
    epsilon: Annotated[str, typer.Option(help="The budget's epsilon, as text: 1 or 0.5.")],
    delta: Annotated[str, typer.Option(help="The budget's delta, such as 1e-6.")],
    rows: Annotated[int, typer.Option(help="Number of rows of the table.")],
    columns: Annotated[
        str, typer.Option(help="The measured columns: A,B,... or how many they are.")
    ],
    components: Annotated[
        int | None, typer.Option(help="k; as many as will likely be found if left out.")
    ] = None,
    rows_per_person: Annotated[int, typer.Option(help="At most so many rows of one person.")] = 1,
    scaled: Annotated[
        bool, typer.Option("--scaled", help="Divide columns in different units by private scales.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="PLAN.json", help="Where the plan goes, to be edited.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Propose a plan for a budget, or say what would be enough; reads no data."""
    with exit_status():
        unit = PrivacyUnit(rows_per_person=rows_per_person)
        names = [name.strip() for name in columns.split(",")]
        given = int(columns) if re.fullmatch("[0-9]{1,9}", columns) else names
        advice = advise_on(Budget.of(epsilon, delta), rows, given, components, unit, scaled=scaled)
        if as_json:
            typer.echo(advice.model_dump_json(indent=2))
        else:
            console.print(advice)
        if advice.plan is None:
            raise typer.Exit(3)
        if out:
            try:
                out.write_text(advice.plan_json() + "\n", encoding="utf-8")
            except OSError:
                leave(NAME, 2, f"out must be a file that can be written; got {out}. Name another.")
            todo = "" if given is names else ": name your columns in it"
            console.print(f"Written to {out}{todo}.", soft_wrap=True)


@app.command()
def run(
    plan: PlanFile,
    data: Annotated[Path, typer.Option(metavar="FILE", help="A .csv or .parquet file.")],
    ledger: Annotated[
        str, typer.Option(help="The ledger of the grant: a file, or an address of PostgreSQL.")
    ],
    dataset: Annotated[str, typer.Option(metavar="NAME", help="The granted data set.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the release goes.")],
    key: Annotated[
        str | None, typer.Option(help="Release key; the plan's hash if left out.")
    ] = None,
    allocation: Allocation = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Pay again, for new noise.")] = False,
    purpose: Annotated[str, typer.Option(help="Why, for the ledger.")] = "",
    progress: Annotated[
        bool | None,
        typer.Option(help="Show how far a long run is, on stderr; on a terminal if left out."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Charge the plan's budget, release, and write release.json and its pictures."""
    with exit_status():
        with interrupts_told(UNCHARGED):
            planned = Plan.read(plan)
            accountant = Accountant(ledger, data_set=dataset, allocation=allocation)
            check_writable(out)
        with outlook_on_stderr():
            release = planned.run(
                data, accountant, key, fresh=fresh, purpose=purpose, progress=progress
            )
        with interrupts_told(stored(release.release_key)):
            written = write_release(release, out)
            tell(release, accountant, as_json=as_json, fresh=fresh)
            if not as_json:
                console.print(f"Written to {out}: {', '.join(path.name for path in written)}")


def tell(release: Release, accountant: Accountant, *, as_json: bool, fresh: bool) -> None:
    """What was released, what it cost, and what is left."""
    if as_json:
        for warning in release.warnings:
            typer.echo(f"note: {warning}", err=True)
        typer.echo(release.model_dump_json(indent=2))
        return
    cost = str(release.budget)
    if release.from_ledger:
        cost = "nothing: it was already paid for"
    elif isinstance(accountant.rule, GaussianRule):
        cost += f", counted as {gaussian_cost(release.stages).show_up()}"
    console.print(release)
    left = accountant.remaining().show_down()
    console.print(f"Cost {cost}. {_pool(accountant.allocation)} has {left} left.")
    console.print(f"Release key {release.release_key}.")
    if "#" in release.release_key and not fresh and not release.from_ledger:
        console.print(
            "An earlier charge under this key left no release, and stays: see the report."
        )


@contextmanager
def outlook_on_stderr() -> Iterator[None]:
    """Say what is warned of before a charge, when it is."""

    def say(message: Warning | str, *where: Any, **more: Any) -> None:
        typer.echo(f"note: {message}", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("always", PoorOutlook)
        warnings.showwarning = say
        yield


def _pool(allocation: str | None) -> str:
    return f"Allocation {allocation}" if allocation else "The free pool"


@app.command()
def plot(
    release: Annotated[Path, typer.Argument(metavar="RELEASE.json", help="What run wrote.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where pictures go.")],
) -> None:
    """Draw a release again, as PNG and SVG; costs nothing and reads no data."""
    with exit_status():
        shown = Release.read(release)
        check_writable(out)
        try:
            written = save_pictures(shown, out, ("png", "svg"))
        except OSError:
            leave(NAME, 2, f"out must be a folder that can be written; got {out}. Choose another.")
        console.print(f"Written to {out}: {', '.join(path.name for path in written) or 'nothing'}")


@app.command()
def schema() -> None:
    """Print the JSON Schema of a plan."""
    typer.echo(json.dumps(Plan.model_json_schema(), indent=2))


@app.command()
def demo(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where results go.")] = Path(
        "demo-output"
    ),
) -> None:
    """Release from the RAND health insurance table, end to end (needs the extra "demo")."""
    from dppca_odp.demo import run_demo

    with exit_status():
        check_writable(out)
        try:
            run_demo(out, console)
        except KeyboardInterrupt:  # of one of its runs: the others may have charged
            raise KeyboardInterrupt("What it charged until then stands in its ledger.") from None


def check_writable(folder: Path) -> None:
    """Refuse what cannot be a folder, before anything is charged. It makes nothing."""
    try:
        TemporaryFile(dir=_nearest(folder)).close()
    except OSError:
        leave(NAME, 2, f"out must be a folder that can be written; got {folder}. Choose another.")


def _nearest(folder: Path) -> Path:
    """The folder, or the one in which it would have to be made."""
    for path in (folder, *folder.parents):
        with suppress(FileNotFoundError):
            path.lstat()
            return path
    return Path()


def write_release(release: Release, folder: Path) -> list[Path]:
    """release.json and its pictures; the paths."""
    written = folder / "release.json"
    try:
        release.write(written)
        return [written, *save_pictures(release, folder)]
    except OSError:
        leave(
            NAME,
            2,
            f"out must be a folder that can be written; got {folder}. The release is paid for and "
            "in the ledger: run again with another folder and not fresh, at no cost.",
        )


@contextmanager
def exit_status() -> Iterator[None]:
    """Turn what is refused into one line on stderr and an exit status."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        leave(NAME, INTERRUPTED, f"interrupted. {interrupt}")  # what was charged, if it is known
    except (BudgetExceeded, NoGrant) as error:
        leave(NAME, 3, str(error))
    except (UnusableTable, TableMismatch) as error:
        leave(NAME, 4, str(error))
    except (InvalidPlan, InvalidRelease, AccountantError) as error:
        leave(NAME, 2, str(error))
    except DppcaError as error:
        leave(NAME, 1, str(error))


def main() -> None:
    """The script ``dppca-odp``."""
    run_script(app, NAME)


if __name__ == "__main__":
    main()
