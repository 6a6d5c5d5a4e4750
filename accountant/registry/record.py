"""A record from a statement: what the ledger knows, and what it does not.

A record is public: the names of people and of allocations are left out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from accountant.amounts import float_above
from accountant.facts import one_line
from accountant.registry.choices import ProductType, Sector
from accountant.registry.form import (
    Accounting,
    Administrative,
    Basic,
    Deployment,
    Implementation,
    Model,
    Parameters,
    PrivacyLoss,
    Record,
    Tier,
    Variant,
)
from accountant.registry.markdown import each_escaped, escaped
from accountant.reports.words import (
    RELATIONS,
    RISK,
    RULES,
    amounts_down,
    amounts_up,
    loss_in_full,
    percent_up,
    rates,
)
from accountant.statements import ChargeLine, Statement

NOT_STATED = "Not stated in the ledger"
LONGEST_SLUG = 100  # characters before the year

PLANS = (
    "Bounds, scales, constants for missing values and the other parameters of a plan count as "
    "public: they must not be read off the table, and the ledger cannot tell whether they were. "
    "How a plan splits its budget over its stages was fixed before it ran."
)
MADE = (
    "- The ledger does not name the program that measured. What follows holds for dppca-odp.",
    "- Library: every measurement is built with OpenDP. Noise: discrete Gaussian, discrete "
    "Laplace and geometric noise, and a noisy maximum.",
    "- Floating point: values become integers before they are summed, and noise is added to "
    "integers, in exact arithmetic. Before a plan runs its privacy map is compared with its "
    "charge, in exact fractions.",
    "- Timing: not protected. Nor is the use of memory.",
    "- Platform: parts of the measurements are Python functions inside OpenDP. dppca-odp proves "
    "and tests their privacy maps; OpenDP does not.",
    "- Security of the table, access controls and version of the code: not stated in the ledger.",
)
CHARGING = (
    "That holds also if each plan, and its cost, was chosen after the answers to the plans before "
    "it. A plan is charged before it runs, and refused if the sums would pass the grant. "
)
COMPOSITION = {
    "sum": (
        "Sequential composition: the epsilons of all charges add, and so do the deltas, exactly. "
        f"{CHARGING}"
    ),
    "gaussian": (
        "Gaussian differential privacy with a fixed filter: the squares of mu of all charges add, "
        "a pure loss counting as the mu that covers it. What no mu covers is paid from a delta "
        "that was set aside when the budget was granted, and the rounding of noise from a leak "
        f"that was kept for it; each adds on its own. {CHARGING}"
    ),
}
STAGES = (
    "The stages of a plan come to at most its charge: added up, or, where all their losses were "
    "fixed before it ran, composed exactly."
)
POST_PROCESSING = (
    "What is computed from answers alone costs nothing. In dppca-odp: the directions from a noisy "
    "matrix, negative variances set to zero, the nearest nonincreasing sequence, proportions of "
    "variance explained, histograms without negative cells that sum to one, and points drawn from "
    "them. Which of these were released, and what was done later, is not stated in the ledger."
)


def record_of(
    statement: Statement,
    *,
    name: str = "",
    curators: Sequence[str] = (),
    description: str = "",
    intended_use: str = "",
    region: str = "",
    product_type: ProductType = ProductType.STATISTICS,
    sector: Sector | None = None,
    preprocessing: str = "",
    justification: str = "",
    authors: Sequence[str] = (),
) -> Record:
    """The draft of a record: what the ledger knows, and the rest as far as it is given.

    Left out, the name is that of the data set and the use is the purpose of the grant; what else
    is left out is said to be not stated. Texts are plain text; they are put on one line.
    """
    title = one_line(name) or statement.data_set
    use = escaped(intended_use) or escaped(statement.grants[0].why)
    curated, written = each_escaped(curators), each_escaped(authors)
    told, where = escaped(description), escaped(region)
    prepared, reasons = escaped(preprocessing), escaped(justification)
    stored = _days(statement)
    day = stored[0] if stored else statement.grants[0].time[:10]
    return Record(
        url_slug=_slug(title, *curators[:1], year=day[:4]),
        status="Draft",
        tier=_tier(bool(stored and curated and told and use and where), bool(prepared and reasons)),
        deployment=Deployment(
            basic=Basic(
                name=escaped(title),
                data_curators=curated or (NOT_STATED,),
                description=told or _description(statement),
                intended_use=use or NOT_STATED,
                data_product_type=product_type,
                data_product_region=where or NOT_STATED,
                publication_date=day,
                data_product_sector=sector,
            ),
            dp_variant=_variant(statement),
            privacy_loss=_privacy_loss(statement),
            deployment_model=_model(statement),
            accounting=Accounting(
                post_processing=POST_PROCESSING,
                composition=f"{COMPOSITION[statement.rule.kind]}{STAGES}",
            ),
            implementation=Implementation(
                preprocessing_and_hyperparameter_tuning=f"{prepared or NOT_STATED}\n\n{PLANS}",
                mechanisms="\n".join((*_stages(statement), *MADE)),
                justification=reasons or NOT_STATED,
            ),
            administrative=Administrative(
                notes="Drawn up from a ledger of "
                f"{_counted(statement.entries, 'entry', 'entries')}, the last with hash "
                f"{statement.last_hash}. Days are in UTC.",
                registry_authors=written or (NOT_STATED,),
            ),
        ),
    )


def _slug(*words: str, year: str) -> str:
    text = re.sub(r"[\W_]+", "-", one_line(" ".join(words)).lower())
    return f"{text[:LONGEST_SLUG].strip('-')}-{year}".strip("-")


def _tier(basics: bool, rationale: bool) -> Tier:
    """The highest of which nothing is missing. The ledger fills the second by itself."""
    if not basics:
        return 1
    return 3 if rationale else 2


def _counted(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _in_state(statement: Statement, *states: str) -> list[ChargeLine]:
    return [line for line in statement.charges if line.state in states]


def _days(statement: Statement) -> list[str]:
    """The day of each stored release, in order."""
    return sorted(line.stored_at[:10] for line in statement.charges if line.stored_at)


def _description(statement: Statement) -> str:
    count = _counted(len(_days(statement)), "release", "releases")
    return (
        f"Differentially private releases from the data set {escaped(statement.data_set)}: {count} "
        "so far. What they hold is not stated in the ledger."
    )


def _variant(statement: Statement) -> Variant:
    table = statement.table
    domain = "Every table of the same number of rows and columns; neither is on record yet."
    if table:
        domain = (
            f"Every table of {_counted(table.rows, 'row', 'rows')}, whatever stands in its cells. "
            f"Columns on record: {', '.join(each_escaped(table.columns))}."
        )
    return Variant(
        variant_name="Approximate DP",
        data_domain=domain,
        unprotected_quantities=(
            f"{statement.public} So are the plans and their parameters. Not protected either: "
            "whether a table fits the columns that a plan declares, which is told to the holder of "
            "the table and costs nothing."
        ),
    )


def _privacy_loss(statement: Statement) -> PrivacyLoss:
    unit, granted, risk = statement.unit, statement.budget, statement.reading_of_grant.risk
    rows = _counted(unit.rows_per_person, "row", "rows")
    lines = [
        f"Granted: {granted.show_up()}, for all releases together. The parameters of this record "
        "are the exact amounts, rounded up.",
        statement.guarantee,
        *_counting(statement),
        f"Spent so far: {statement.spent.show_up()}.",
        *(
            f"Raised on {line.time[:10]} to {line.budget.show_up()}: {escaped(line.why)}"
            for line in statement.grants[1:]
        ),
        f"{RISK} With the whole grant: advantage at most {percent_up(risk.advantage)}; right in at "
        f"most {rates(risk)}.",
    ]
    return PrivacyLoss(
        privacy_unit="Person",
        privacy_unit_details=(
            f"{unit.relation}: {RELATIONS[unit.relation]}. A person has at most {rows}, so that "
            f"the Hamming distance over rows is at most {unit.rows_per_person}; someone with more "
            "rows is protected less."
        ),
        privacy_parameters=Parameters(
            epsilon=float_above(granted.epsilon), delta=float_above(granted.delta)
        ),
        privacy_parameters_details=_listed(lines),
    )


def _counting(statement: Statement) -> Iterator[str]:
    """What the grant comes to where charges are not counted in epsilon."""
    if statement.rule.kind != "sum":
        yield f"Counted as {statement.granted.show_down()}. {RULES[statement.rule.kind]}"
        granted, spent = amounts_down(statement.granted), amounts_up(statement.spent)
        yield f"Leak kept for rounding: {granted[2]}, of which {spent[2]} spent."


def _model(statement: Statement) -> Model:
    releases = len(_days(statement))
    spendable = statement.remaining.coordinates[0] > 0 and (
        statement.rule.kind == "gaussian" or statement.remaining.delta > 0
    )
    asked = _in_state(statement, "released", "started", "charged")
    return Model(
        model_name="Central",
        model_name_details=statement.trust,
        actors=_listed(
            [
                "Holder of the table and of the ledger: sees every row. Trusted to release nothing "
                "but through this ledger, and to keep one ledger and one name for the data set.",
                "Privacy officer: grants the budget and reads the ledger. Trusted with the grant.",
                "Analysts: send plans and see the answers. Not trusted, and they may act together.",
                "Everyone who sees a release: not trusted, whatever else they know.",
                "Who they are is not stated in the ledger.",
            ]
        ),
        release_type=(
            None if not releases else "One release" if releases == 1 else "Many releases"
        ),
        release_type_details=_listed(_history(statement)),
        data_source_type="Static",
        data_source_type_details=(
            "One table. A table of another number of rows is refused; whether a cell was changed "
            "between two releases the ledger cannot see."
        ),
        access_type="Interactive" if spendable or len(asked) > 1 else "Non-interactive",
        access_type_details=_listed(_access(statement)),
    )


def _history(statement: Statement) -> Iterator[str]:
    """What became of the requests, and what may follow."""
    days = _days(statement)
    when = f", {' to '.join(dict.fromkeys((days[0], days[-1])))}" if days else ""
    yield f"Stored: {_counted(len(days), 'release', 'releases')}{when}."
    for state, means in (
        ("started", "begun, and no release is stored; the answers may have been seen"),
        ("charged", "paid for, and not begun"),
        ("voided", "given back, because the measurement never began"),
    ):
        if count := len(_in_state(statement, state)):
            yield f"{_counted(count, 'charge', 'charges')} {means}."
    if count := len(statement.refusals):
        yield f"{_counted(count, 'request', 'requests')} refused, for lack of budget."
    yield f"Still to be spent: {statement.remaining.show_down()}."
    yield "The budget does not reset. It can be raised, which the ledger records."


def _access(statement: Statement) -> Iterator[str]:
    """How the budget is apportioned."""
    yield "Who may send plans is not stated in the ledger. Each plan is charged before it runs."
    if statement.allocations:
        yield f"Free pool: {statement.free.granted.show_up()}."
    for number, line in enumerate(statement.allocations, start=1):
        yield (
            f"Allocation {number} of the grant: {line.granted.show_up()}, of which "
            f"{line.spent.show_up()} spent."
        )
    yield (
        "That analysts do not collude is not assumed: the guarantee is for all their answers "
        "together."
    )


def _stages(statement: Statement) -> Iterator[str]:
    """The stages of every charge that stands; equal ones on one line."""
    stages = Counter(
        f"{escaped(stage.name)} ({stage.budget.show_up()}): "
        f"{', '.join(map(loss_in_full, stage.losses)) or 'losses not stated'}"
        for line in statement.charges
        if line.state != "voided"
        for stage in line.stages
    )
    if not stages:
        yield "- Stages: none on record."
        return
    yield "- Stages, with their shares of the budget and their losses for one person, rounded up:"
    for stage, count in stages.items():
        yield f"  - {stage}{'' if count == 1 else f'; {count} times'}"


def _listed(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)
