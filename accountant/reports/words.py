"""How a statement words what every report shows."""

from __future__ import annotations

import math
import re

from accountant.risk import Risk

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
    "Advantage: how much better than guessing the attacker can tell them apart, at best, from 0 "
    "(guessing) to 1 (certainty). The rates: how often the attacker is right about the one "
    "candidate when wrong about the other in 0.1, 1 or 10 of 100 cases; guessing gives 0.1, 1 "
    "and 10 %."
)
BASIS = {
    "losses": "from the composed losses of its stages, which were fixed before it ran",
    "budget": "from epsilon and delta alone: an upper bound",
}


def shown_name(name: str) -> str:
    """A name, and its code points where letters may pass for others."""
    return name if name.isascii() else f"{name} ({name.encode('unicode_escape').decode()})"


def short_key(key: str) -> str:
    """A key as people read it: a plan's hash by its beginning, as version control does."""
    head, mark, attempt = key.partition("#")
    return head[:12] + mark + attempt if re.fullmatch("[0-9a-f]{64}", head) else key


def when(time: str, actor: str = "", why: str = "") -> str:
    """A moment to the minute, who, and why."""
    by = f" by {actor}" if actor else ""
    return f"{time[:16].replace('T', ' ')} UTC{by}{': ' + why if why else ''}"


def percent_up(share: float) -> str:
    """A probability in percent, with three digits, never below it."""
    if share <= 0:
        return "0 %"
    digits = max(0, 2 - math.floor(math.log10(share * 100)))
    scale = 10**digits
    return f"{min(math.ceil(share * 100 * scale) / scale, 100):.{digits}f} %"


def rates(risk: Risk) -> str:
    """The rates of true positives in one line."""
    return ", ".join(
        f"{percent_up(rate.at_most)} at {rate.false_positive_rate * 100:g} %"
        for rate in risk.true_positive_rates
    )
