"""The script `accountant`: grant a budget, show where it went, verify the ledger."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from accountant.accountant import Accountant
from accountant.audit import verify
from accountant.errors import AccountantError
from accountant.ledger import Ledger, read_entries
from accountant.scripts import leave, run_script
from accountant.specs import Budget, PrivacyUnit

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Keep the privacy budget of data sets in a ledger.",
)

LedgerPath = Annotated[str, typer.Argument(metavar="LEDGER", help="The ledger file.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command()
def grant(
    ledger: LedgerPath,
    dataset: Annotated[str, typer.Option(help="The name of the data set.")],
    epsilon: Annotated[str, typer.Option(help='Exact, such as "1" or "0.5".')],
    delta: Annotated[str, typer.Option(help='Exact, such as "1e-6".')],
    rows_per_person: Annotated[int, typer.Option(min=1, help="At most this many rows each.")],
    rows: Annotated[int | None, typer.Option(min=1, help="Rows of the table.")] = None,
    columns: Annotated[str | None, typer.Option(help="Column names: A,B,...")] = None,
    purpose: Annotated[str, typer.Option(help="What the budget is for.")] = "",
    actor: Annotated[str | None, typer.Option(help="Who grants; the user if left out.")] = None,
) -> None:
    """Grant a budget to a data set, once. The ledger is created if it is missing."""
    names = None if columns is None else [name.strip() for name in columns.split(",")]
    keeper = Accountant.grant(
        ledger,
        data_set=dataset,
        budget=Budget.of(epsilon, delta),
        unit=PrivacyUnit(rows_per_person=rows_per_person),
        rows=rows,
        columns=names,
        actor=actor,
        purpose=purpose,
    )
    typer.echo(f"Granted to {dataset}: {keeper.granted}, protecting {keeper.unit}.")


@app.command()
def show(
    ledger: LedgerPath,
    dataset: Annotated[str | None, typer.Option(help="Only this data set.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what was granted, what was spent on what, and what was refused."""
    source = Ledger(ledger)
    names = list(source.audit().books) if dataset is None else [dataset]
    statements = [Accountant(source, data_set=name).statement() for name in names]
    if as_json:
        documents = [statement.model_dump(mode="json") for statement in statements]
        typer.echo(json.dumps(documents, indent=2))
    else:
        texts = [statement.render() for statement in statements]
        typer.echo("\n\n".join(texts) or "The ledger holds no grant yet.")


@app.command("verify")
def verify_ledger(ledger: LedgerPath, as_json: AsJson = False) -> None:
    """Check hashes, order and totals. The exit status is 1 if anything is wrong."""
    entries = read_entries(ledger)
    problems = verify(entries)
    head = entries[-1].hash if entries else None
    if as_json:
        document = {
            "entries": len(entries),
            "head": head,
            "problems": [asdict(problem) for problem in problems],
        }
        typer.echo(json.dumps(document, indent=2))
    else:
        for problem in problems:
            typer.echo(f"entry {problem.position}: {problem.message}")
        verdict = f"{len(problems)} problems" if problems else f"sound; last hash {head}"
        typer.echo(f"{len(entries)} entries, {verdict}")
    raise typer.Exit(1 if problems else 0)


def main() -> None:
    """Run the script. Errors are one line on stderr and exit status 2."""
    try:
        run_script(app, "accountant")
    except AccountantError as error:
        leave("accountant", 2, str(error))


if __name__ == "__main__":
    main()
