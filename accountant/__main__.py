"""The script `accountant`: grant budgets, show where they went, prove that nothing was altered."""

from __future__ import annotations

import json
from dataclasses import asdict
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from pydantic import TypeAdapter

from accountant.accountant import Accountant
from accountant.amounts import parse_amount, show_delta_up, show_up
from accountant.audit import Audit, Problem
from accountant.databases.schema import FORMAT
from accountant.errors import AccountantError, InvalidValue
from accountant.exports import write_export
from accountant.heads import Head, head_of
from accountant.ledger import Ledger, upgrade
from accountant.registry.choices import ProductType, Sector
from accountant.reports.words import COUNTED, NO_GRANT, WHOLE, percent_up
from accountant.risk import risk_of_budget
from accountant.scripts import leave, run_script
from accountant.sources import entries_of, statements_of
from accountant.specs import AnyBudget, Budget, GaussianBudget, PrivacyUnit
from accountant.statements import Statement

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Keep the privacy budget of data sets in a ledger.",
)

LedgerAddress = Annotated[
    str, typer.Argument(metavar="LEDGER", help="A file, or postgresql+psycopg://USER@HOST/NAME.")
]
LedgerOrExport = Annotated[
    str, typer.Argument(metavar="LEDGER", help="A ledger, or an export of one (.jsonl).")
]
DataSet = Annotated[str, typer.Option(help="The name of the data set.")]
Epsilon = Annotated[str, typer.Option(help='Exact, such as "1" or "0.5".')]
Delta = Annotated[str, typer.Option(help='Exact, such as "1e-6".')]
SetAside = Annotated[
    str, typer.Option(help="Of delta, for (epsilon, delta) losses, under the rule gaussian.")
]
Actor = Annotated[str | None, typer.Option(help="Who does it; the user if left out.")]
Reason = Annotated[str | None, typer.Option(help="Why it is raised, to the budget given here.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


class RuleOfGrant(StrEnum):
    """How charges to a grant add up."""

    SUM = "sum"
    GAUSSIAN = "gaussian"


class ReportForm(StrEnum):
    """The forms of a report."""

    TEXT = "text"
    HTML = "html"
    JSON = "json"


@app.command()
def grant(
    ledger: LedgerAddress,
    dataset: DataSet,
    epsilon: Epsilon,
    delta: Delta,
    rows_per_person: Annotated[int, typer.Option(min=1, help="At most this many rows each.")],
    rule: Annotated[RuleOfGrant, typer.Option(help="How charges add up.")] = RuleOfGrant.SUM,
    set_aside: SetAside = "0",
    rows: Annotated[int | None, typer.Option(min=1, help="Rows of the table.")] = None,
    columns: Annotated[str | None, typer.Option(help="Column names: A,B,...")] = None,
    purpose: Annotated[str, typer.Option(help="What the budget is for.")] = "",
    actor: Actor = None,
    reason: Reason = None,
) -> None:
    """Grant a budget to a data set, once, or raise it. The ledger is created if it is missing."""
    names = None if columns is None else [name.strip() for name in columns.split(",")]
    before = _granted(ledger, dataset)
    keeper = Accountant.grant(
        ledger,
        data_set=dataset,
        budget=Budget.of(epsilon, delta),
        unit=PrivacyUnit(rows_per_person=rows_per_person),
        rule=rule.value,
        set_aside=set_aside,
        rows=rows,
        columns=names,
        actor=actor,
        purpose=purpose,
        reason=reason,
    )
    whole = keeper.balance().total.granted
    counted = "" if rule is RuleOfGrant.SUM else f", counted as {whole.show_down()}"
    happened = _happened("Granted to", before, keeper.budget)
    typer.echo(
        f"{happened} {dataset}: {keeper.budget}{counted}, protecting {keeper.unit}. If all of it "
        "is spent, an attacker can tell two candidates for a person apart with advantage "
        f"{percent_up(risk_of_budget(whole).advantage)} at most."
    )
    if before is None and (near := _near(keeper)):
        typer.echo(
            f"{near!r} has a grant too. If the same data set was meant, leave this one unused: a "
            "grant cannot be taken back.",
            err=True,
        )
    if rows is not None and (expected := rows * keeper.budget.delta) >= 1:
        typer.echo(f"The number of rows times delta is {show_up(expected)}: {WHOLE}.", err=True)


@app.command()
def allocate(
    ledger: LedgerAddress,
    dataset: DataSet,
    allocation: Annotated[str, typer.Option(help="The analyst or project it is for.")],
    epsilon: Annotated[str | None, typer.Option(help="Under the rule sum.")] = None,
    delta: Annotated[str | None, typer.Option(help="Under the rule sum.")] = None,
    mu: Annotated[str | None, typer.Option(help="Under the rule gaussian.")] = None,
    set_aside: SetAside = "0",
    purpose: Annotated[str, typer.Option(help="What it is for.")] = "",
    actor: Actor = None,
    reason: Reason = None,
) -> None:
    """Set a part of the free pool aside under a name, once, or raise it."""
    before = _granted(ledger, dataset, allocation)
    keeper = Accountant(ledger, data_set=dataset).allocate(
        allocation,
        _part(epsilon, delta, mu, set_aside),
        actor=actor,
        purpose=purpose,
        reason=reason,
    )
    free = keeper.balance().free.remaining
    typer.echo(
        f"{_happened('Allocated to', before, keeper.granted)} {allocation}: "
        f"{keeper.granted.show_down()}. "
        f"The free pool has {free.show_down()} left."
    )


@app.command()
def void(
    ledger: LedgerAddress,
    dataset: DataSet,
    key: Annotated[str, typer.Option(help="The release key of the charge.")],
    reason: Annotated[str, typer.Option(help="Why it is given back.")],
    actor: Actor = None,
) -> None:
    """Give back a charge whose measurement never started."""
    keeper = Accountant(ledger, data_set=dataset)
    keeper.void(key, reason, actor=actor)
    typer.echo(f"Voided {key}. Spent {keeper.balance().total.spent.show_up()}.")


@app.command()
def report(
    ledger: LedgerOrExport,
    dataset: Annotated[str | None, typer.Option(help="Only this data set.")] = None,
    form: Annotated[
        ReportForm, typer.Option("--format", help="text, html or json.")
    ] = ReportForm.TEXT,
) -> None:
    """Show what was granted, what was spent on what, what was refused, and what it means."""
    statements = statements_of(ledger, dataset)
    if form is ReportForm.JSON:
        printed = TypeAdapter(list[Statement]).dump_json(list(statements.values()), indent=2)
        typer.echo(printed.decode())
    elif form is ReportForm.HTML:
        from accountant.reports.html import render_html

        typer.echo(render_html(list(statements.values())))
    else:
        texts = [statement.render() for statement in statements.values()]
        typer.echo("\n\n".join(texts) or NO_GRANT)


@app.command()
def registry(
    ledger: LedgerOrExport,
    dataset: DataSet,
    name: Annotated[
        str, typer.Option(help="Of what is published; the data set's if left out.")
    ] = "",
    curator: Annotated[
        list[str] | None, typer.Option(help="Who publishes it. Can be given several times.")
    ] = None,
    description: Annotated[str, typer.Option(help="What it is, in short.")] = "",
    intended_use: Annotated[
        str, typer.Option(help="What it is for; the purpose of the grant if left out.")
    ] = "",
    product_type: Annotated[
        ProductType, typer.Option(help="The kind of data product.")
    ] = ProductType.STATISTICS,
    region: Annotated[str, typer.Option(help="Where the data is from, or whose law applies.")] = "",
    sector: Annotated[Sector | None, typer.Option(help="What field it is about.")] = None,
    preprocessing: Annotated[
        str, typer.Option(help="What was done to the data before, and how parameters were found.")
    ] = "",
    justification: Annotated[str, typer.Option(help="Why it was done in this way.")] = "",
    author: Annotated[
        list[str] | None, typer.Option(help="Who writes the record. Can be given several times.")
    ] = None,
) -> None:
    """Print a draft for the OpenDP Differential Privacy Deployments Registry, as YAML."""
    from accountant.registry.form import to_yaml
    from accountant.registry.record import record_of

    record = record_of(
        statements_of(ledger, dataset)[dataset],
        name=name,
        curators=curator or (),
        description=description,
        intended_use=intended_use,
        product_type=product_type,
        region=region,
        sector=sector,
        preprocessing=preprocessing,
        justification=justification,
        authors=author or (),
    )
    typer.echo(to_yaml(record), nl=False)


@app.command("verify")
def verify_ledger(
    ledger: LedgerOrExport,
    head: Annotated[
        Path | None, typer.Option(metavar="HEAD.json", help="What `head` printed earlier.")
    ] = None,
    public_key: Annotated[
        Path | None, typer.Option(metavar="PUBLIC.pem", help="Who must have signed the head.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check hashes, order, totals and refusals. The exit status is 1 if anything is wrong."""
    if public_key and not head:
        raise InvalidValue(
            "public_key must come with a head, whose signature it checks; got no head. Give --head."
        )
    published = None if head is None else Head.read(head)
    audit, found = Audit(), None
    for entry in entries_of(ledger):
        audit.add(entry)
        if published and audit.count == published.entries:
            found = entry.hash
    problems = audit.problems
    if published:
        wrong = published.problems(found, audit.count, public_key)
        problems += [Problem(published.entries, message) for message in wrong]
    if as_json:
        document = {
            "entries": audit.count,
            "last_hash": audit.last_hash,
            "problems": [asdict(problem) for problem in problems],
        }
        typer.echo(json.dumps(document, indent=2))
    else:
        for problem in problems:
            typer.echo(f"entry {problem.position}: {problem.message}")
        verdict = f"{len(problems)} problems" if problems else f"sound; last hash {audit.last_hash}"
        typer.echo(f"{audit.count} entries, {verdict}")
    raise typer.Exit(1 if problems else 0)


@app.command()
def head(
    ledger: LedgerAddress,
    private_key: Annotated[
        Path | None, typer.Option(metavar="KEY.pem", help="Sign it with this Ed25519 key.")
    ] = None,
) -> None:
    """Print the head. Published elsewhere, it shows when the end is cut off later."""
    with Ledger(ledger).reading() as records:
        found = head_of(records.last())
    signed = found if private_key is None else found.signed(private_key)
    typer.echo(signed.model_dump_json(exclude_defaults=True))


@app.command()
def export(ledger: LedgerAddress) -> None:
    """Print every entry, one JSON object a line, for checking without this package."""
    for line in write_export(entries_of(ledger)):
        typer.echo(line)


@app.command("assert")
def assert_balance(
    ledger: LedgerOrExport,
    dataset: DataSet,
    spent_at_most: Annotated[
        str, typer.Option(help="The epsilon, or the mu, that must not be passed.")
    ],
    delta_at_most: Annotated[str | None, typer.Option(help="And the delta.")] = None,
) -> None:
    """Say so, with exit status 1, if more was spent; silent otherwise. It verifies first."""
    statement = statements_of(ledger, dataset)[dataset]
    most = parse_amount(spent_at_most, "spent_at_most")
    delta = None if delta_at_most is None else parse_amount(delta_at_most, "delta_at_most")
    spent, name = statement.spent, COUNTED[statement.rule.kind][0]
    first = most**2 if statement.rule.kind == "gaussian" else most
    passed = [f"{name} {show_up(most)}"] if spent.coordinates[0] > first else []
    if delta is not None and spent.delta > delta:
        passed.append(f"delta {show_delta_up(delta)}")
    if passed:
        typer.echo(f"{dataset}: spent {spent.show_up()}, more than {' and '.join(passed)}.")
        raise typer.Exit(1)


@app.command("upgrade")
def upgrade_ledger(ledger: LedgerAddress) -> None:
    """Bring a ledger of an older format to this one. No entry is rewritten."""
    found = upgrade(ledger)
    typer.echo(
        f"It has format {FORMAT} already." if found == FORMAT else f"Upgraded from format {found}."
    )


def _part(epsilon: str | None, delta: str | None, mu: str | None, set_aside: str) -> AnyBudget:
    """The part of a grant that the options state: epsilon and delta, or mu."""
    if mu is None and epsilon is not None and delta is not None and set_aside == "0":
        return Budget.of(epsilon, delta)
    if mu is not None and epsilon is None and delta is None:
        aside = parse_amount(set_aside, "set_aside")
        return GaussianBudget.of(parse_amount(mu, "mu") ** 2, aside)
    raise InvalidValue(
        "budget must be epsilon and delta under the rule sum, or mu under the rule gaussian; got "
        "others. Give --epsilon and --delta, or --mu and perhaps --set-aside."
    )


def _near(keeper: Accountant) -> str | None:
    """Another data set of the ledger whose name may be the same one misspelt."""
    with keeper.ledger.reading() as records:
        others = [name for name in records.data_sets() if name != keeper.data_set]
    return next(iter(get_close_matches(keeper.data_set, others, 1, 0.8)), None)


def _granted(address: str, data_set: str, allocation: str | None = None) -> AnyBudget | None:
    """What was granted until now, in all or to an allocation; None if nothing was."""
    try:
        keeper = Accountant(address, data_set=data_set, allocation=allocation)
    except AccountantError:  # there is no ledger yet, or the command itself will say what is wrong
        return None
    return keeper.granted if allocation else keeper.budget


def _happened(first: str, before: AnyBudget | None, after: AnyBudget) -> str:
    if before is None:
        return first
    return "Unchanged for" if before == after else "Raised for"


def main() -> None:
    """Run the script. Errors are one line on stderr and exit status 2."""
    try:
        run_script(app, "accountant")
    except AccountantError as error:
        leave("accountant", 2, str(error))


if __name__ == "__main__":
    main()
