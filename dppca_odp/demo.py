"""The demo: the RAND health insurance table, from the grant to a refusal.

The table ships inside statsmodels and is in the public domain: 20,190 person-years in 10 columns,
at most 5 years of one person. Its file names no persons, so that 5 is the study's design (3 or 5
years), stated as the unit and paid for. Bounds and scales below come from the codebook's
definitions of the columns, not from the table.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

from rich.console import Console
from rich.rule import Rule

from accountant import Accountant, Budget, BudgetExceeded, PrivacyUnit, reading_of_losses
from accountant.rules import stated_losses
from dppca_odp.columns import Column, Label
from dppca_odp.directions import Directions
from dppca_odp.eigenvalues.adaptive import Adaptive
from dppca_odp.eigenvalues.clipped import Clipped
from dppca_odp.eigenvalues.pmwm import PMWM
from dppca_odp.eigenvalues.scree import Method, Scree
from dppca_odp.errors import InvalidPlan
from dppca_odp.plan import Plan
from dppca_odp.plots.budget import plot_budget
from dppca_odp.plots.pictures import save_pictures
from dppca_odp.plots.privacy import plot_privacy
from dppca_odp.primitives.quantiles import SearchGrid
from dppca_odp.scores.frames import PrivateFrame
from dppca_odp.scores.scores import Scores

DATA_SET = "rand-hie"
ROWS = 20_190
UNIT = PrivacyUnit(rows_per_person=5)
GRANT = Budget.of("4", "1e-5")

COLUMNS = (
    Column(name="mdvis", lower=0, upper=100, scale=10),  # visits to a doctor
    Column(name="lncoins", lower=0, upper=4.62, scale=4.62),  # ln(coinsurance + 1), up to 100 %
    Column(name="lpi", lower=0, upper=8, scale=8),  # ln(participation incentive), up to 3000
    Column(name="fmde", lower=0, upper=9, scale=9),  # ln(maximum expenditure / coinsurance)
    Column(name="physlm", lower=0, upper=1),  # physical limitation
    Column(name="disea", lower=0, upper=60, scale=20),  # index of chronic diseases
    Column(name="hlthg", lower=0, upper=1),  # good health, self-rated
    Column(name="hlthf", lower=0, upper=1),  # fair
    Column(name="hlthp", lower=0, upper=1),  # poor
)

#: 1 for an individual deductible plan, 0 otherwise.
PLANS = Label(name="idp", levels=("0", "1"))


def _scree(name: str, method: Method) -> Scree:
    return Scree(name=name, directions="directions", method=method)


PLAN = Plan(
    budget=Budget.of("3", "5e-6"),
    unit=UNIT,
    columns=COLUMNS,
    labels=(PLANS,),
    releases=(
        Directions(name="directions", components=3),
        _scree("adaptive", Adaptive()),
        _scree("clipped", Clipped(clipping_bound=2.0)),
        _scree("pmwm", PMWM(lower_bound=0, upper_bound=5, pair_rows="reuse")),
        Scores(
            name="scores",
            directions="directions",
            histogram="sparse",
            bins=(12, 12),
            groups="idp",
            weight=Fraction(2),
            frame=PrivateFrame(grid=SearchGrid(unit=0.1, beta=1.01)),
            histogram_weight=Fraction(3),
        ),
    ),
)

TOO_MUCH = Plan(
    budget=Budget.of("2", "1e-6"),
    unit=UNIT,
    columns=COLUMNS,
    labels=(PLANS,),
    releases=(Directions(name="directions", components=5),),
)


def run_demo(out: Path, console: Console) -> None:
    """Grant, preview, release, re-run for nothing, be refused, and read the statement.

    Raises:
        InvalidPlan: statsmodels is not installed.
    """
    table = out / "randhie.csv"
    copy_table(table)
    ledger = out / "ledger.db"

    console.print(Rule("1. The privacy officer grants a budget"))
    accountant = Accountant.grant(
        ledger,
        data_set=DATA_SET,
        budget=GRANT,
        unit=UNIT,
        rows=ROWS,
        columns=PLAN.table_names,
        purpose="demo",
    )
    console.print(f"{DATA_SET}: {GRANT}; protects {UNIT}.")

    console.print(Rule("2. The analyst sees the cost before spending"))
    console.print(PLAN.preview(ROWS))

    console.print(Rule("3. One charge, five releases"))
    release = PLAN.run(table, accountant, purpose="scree of health care use")
    release.write(out / "release.json")
    save_pictures(release, out)
    console.print(release)
    if release.from_ledger:
        console.print("This release was paid for in an earlier run: nothing was charged.")

    console.print(Rule("4. The same plan again costs nothing"))
    again = PLAN.run(table, accountant)
    console.print(
        f"From the ledger: {again.from_ledger}. Remaining {accountant.remaining().show_down()}."
    )

    console.print(Rule("5. A request that does not fit is refused"))
    try:
        TOO_MUCH.run(table, accountant, purpose="more directions")
    except BudgetExceeded as refusal:
        console.print(str(refusal))

    console.print(Rule("6. The ledger"))
    console.print(accountant.statement().render(console.width), markup=False, highlight=False)
    plot_budget(accountant.statement()).savefig(out / "budget.png")
    losses = stated_losses(release.stages)
    delta = release.budget.delta
    told = plot_privacy(reading_of_losses(losses, [delta]), "What the release can tell", delta)
    told.savefig(out / "privacy.png")
    console.print(
        f"In {out}: the table, release.json, its pictures, budget.png, privacy.png and the ledger. "
        f"Check it: accountant verify {ledger}"
    )


def copy_table(path: Path) -> None:
    """Write the table that statsmodels ships as CSV."""
    try:
        from statsmodels.datasets import randhie
    except ImportError:
        raise InvalidPlan(
            'statsmodels must be installed; got none. Type: pip install "dppca-odp[demo]"'
        ) from None
    path.parent.mkdir(parents=True, exist_ok=True)
    randhie.load_pandas().data.to_csv(path, index=False)
