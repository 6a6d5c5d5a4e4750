"""How a statement words what every report shows."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from functools import lru_cache

from accountant.amounts import show_delta_down, show_delta_up, show_down, show_up
from accountant.losses import GaussianLoss, Loss
from accountant.readings import Reading
from accountant.risk import Risk
from accountant.specs import AnyBudget, Budget

NO_GRANT = "The ledger holds no grant yet."
RELATIONS = {
    "change-one": (
        "two tables are neighbours if all rows of one person in the one are replaced by other "
        "rows in the other; the number of rows stays the same"
    ),
}
STATES = {
    "charged": (
        "paid for, and the measurement has not begun; it can be voided if its process is gone"
    ),
    "started": (
        "the measurement was begun and no release is stored; it may have looked at the table, so "
        "its charge stays"
    ),
    "released": "measured and stored",
    "voided": "given back, because its measurement never began",
}

RISK = (
    "An attacker knows all rows but one person's and holds two candidates for that person. "
    "Advantage: how much better than guessing the attacker can tell them apart, at best, from 0 % "
    "(guessing) to 100 % (certainty). True positives: how often the attacker is right about the "
    "one candidate when wrong about the other in 0.1, 1 or 10 of 100 cases, the false positives; "
    "guessing gives 0.1, 1 and 10 %."
)
#: Under the rule `sum`.
OF_ONE = (
    "The figure of one release is often far lower, because it follows from its losses; over "
    "several releases only epsilon and delta are added."
)
#: Of the number of rows times delta: a bound on the records that leave if each left with delta.
WHOLE = "1 or more, so the delta alone would allow some records to be published whole"
BASIS = {
    "losses": "from the composed losses of its stages, which were fixed before it ran",
    "budget": "from epsilon and delta alone: an upper bound",
    "mu": "from mu, the delta set aside and the leak: an upper bound",
}
#: What the amounts of a budget are, by the rule of the grant.
COUNTED = {"sum": ("epsilon", "delta"), "gaussian": ("mu", "delta aside", "leak")}
RULES = {
    "sum": "Charges add up: epsilons, and deltas.",
    "gaussian": (
        "Mu says how hard two candidates are to tell apart: as hard as two normal laws of standard "
        "deviation 1 whose means are mu apart. "
        "Charges add up as squares of mu: 0.6 spent of 1 leaves 0.8. What no mu covers is paid "
        "from the delta set aside when the budget was granted; the rounding of noise from the leak "
        "kept for it, the total variation between answers and exactly Gaussian ones. The guarantee "
        "is that of the whole grant; what was spent is bookkeeping."
    ),
}


def code_points(name: str) -> str:
    """The name in ASCII where letters may pass for others; empty if it is ASCII already."""
    return "" if name.isascii() else name.encode("unicode_escape").decode()


def shown_name(name: str) -> str:
    """A name, and its code points where letters may pass for others."""
    return name if name.isascii() else f"{name} ({code_points(name)})"


def short_key(key: str) -> str:
    """A key as people read it: a plan's hash by its beginning, as version control does."""
    head, mark, attempt = key.partition("#")
    return head[:12] + mark + attempt if re.fullmatch("[0-9a-f]{64}", head) else key


def amounts_up(budget: AnyBudget) -> tuple[str, ...]:
    """Its amounts, rounded up."""
    if isinstance(budget, Budget):
        return show_up(budget.epsilon), show_delta_up(budget.delta)
    return show_up(budget.mu_above), show_delta_up(budget.delta), show_delta_up(budget.leak)


def amounts_down(budget: AnyBudget) -> tuple[str, ...]:
    """Its amounts, rounded down."""
    if isinstance(budget, Budget):
        return show_down(budget.epsilon), show_delta_down(budget.delta)
    return show_down(budget.mu_below), show_delta_down(budget.delta), show_delta_down(budget.leak)


def moment(time: str) -> str:
    """A moment to the minute."""
    return f"{time[:16].replace('T', ' ')} UTC"


def when(time: str, actor: str = "", why: str = "") -> str:
    """A moment to the minute, who, and why."""
    by = f" by {actor}" if actor else ""
    return f"{moment(time)}{by}{': ' + why if why else ''}"


def loss_in_full(loss: Loss) -> str:
    """A loss, and how far the answers may be from exactly Gaussian ones. Rounded up."""
    if isinstance(loss, GaussianLoss) and loss.leak:
        return f"{loss}, leak {show_delta_up(loss.leak)}"
    return str(loss)


@lru_cache(maxsize=4096)
def percent_up(share: float) -> str:
    """A probability in percent, with three digits, never below it."""
    if share <= 0:
        return "0 %"
    digits = max(0, 2 - math.floor(math.log10(share * 100)))
    scale = 10**digits
    return f"{min(math.ceil(share * 100 * scale) / scale, 100):.{digits}f} %"


def plain_percent(share: float) -> str:
    """A round share in percent, as it is."""
    return f"{share * 100:g} %"


def rates(risk: Risk) -> str:
    """The rates of true positives in one line."""
    return _rates(
        tuple((line.at_most, line.false_positive_rate) for line in risk.true_positive_rates)
    )


def points(reading: Reading) -> list[tuple[str, str]]:
    """Delta and epsilon of each point of the curve, rounded up."""
    return [
        (
            show_delta_up(point.delta),
            show_up(Fraction(point.epsilon)) if point.epsilon < math.inf else "none",
        )
        for point in reading.curve
    ]


def curve(reading: Reading) -> str:
    """The curve in one line; a run of deltas that no epsilon covers by its first."""
    shown = [f"epsilon {epsilon} at {delta}" for delta, epsilon in points(reading)]
    covered = [text for text in shown if not text.startswith("epsilon none")]
    below = [delta for delta, epsilon in points(reading) if epsilon == "none"]
    return ", ".join([*covered, *(f"none at {delta} or less" for delta in below[:1])])


def one_number(reading: Reading) -> str:
    """The Gaussian that dominates, how loosely, and what it leaves out."""
    loose = (
        f"loosely: it allows up to {percent_up(reading.looseness)} more true positives"
        if reading.looseness
        else "exactly that"
    )
    beside = [
        f"{what} of {show_delta_up(amount)}"
        for what, amount in (
            ("a probability", reading.uncovered),
            ("a total variation", reading.leak),
        )
        if amount
    ]
    but_for = f", but for {' and '.join(beside)}" if beside else ""
    mu = show_up(Fraction(reading.mu)) if reading.mu < math.inf else "infinite"
    return f"Gaussian mu {mu} ({loose}){but_for}"


@lru_cache(maxsize=4096)
def _rates(pairs: tuple[tuple[float, float], ...]) -> str:
    return ", ".join(f"{percent_up(most)} at {plain_percent(rate)}" for most, rate in pairs)
