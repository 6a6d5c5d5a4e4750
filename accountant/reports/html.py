"""Statements as one page: nothing to fetch, nothing that runs, pure ASCII, the same every time."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from accountant.amounts import (
    show_delta_down,
    show_delta_up,
    show_down,
    show_up,
    to_text,
)
from accountant.balances import Pool
from accountant.losses import Loss
from accountant.reports.words import (
    BASIS,
    NO_GRANT,
    RELATIONS,
    RISK,
    STATES,
    code_points,
    loss_in_full,
    moment,
    percent_up,
    plain_percent,
    rates,
    short_key,
)
from accountant.specs import Budget
from accountant.statements import AllocationLine, ChargeLine, GrantLine, Statement

TOGETHER = 100  # so many charges stand in one table; more are folded away by the hundred
BRIEF = 100  # characters of a purpose that are seen while its release is folded away
MARKS = {"charged": "\u25cb", "started": "\u25d0", "released": "\u25cf", "voided": "\u00d7"}
_NOT_PLAIN = re.compile(r"[^\n -~]")
_NUMBER = re.compile(r"[0-9.]+(?:e-?[0-9]+| %)")
_PRECISE = 10**1000  # a sum with a longer denominator is rounded up, to this one


def render_html(statements: Sequence[Statement]) -> str:
    """One self-contained page on all these data sets. Spent is rounded up, remaining down."""
    page = (
        _environment()
        .get_template("page.html")
        .render(
            views=[
                _View(number, statement) for number, statement in enumerate(statements, start=1)
            ],
            heads=list(dict.fromkeys((line.entries, line.last_hash) for line in statements)),
            states=STATES,
            marks=MARKS,
            relations=RELATIONS,
            basis=BASIS,
            risk_words=RISK,
            no_grant=NO_GRANT,
        )
    )
    return _NOT_PLAIN.sub(_reference, page)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("accountant.reports", package_path=""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "up": show_up,
        "down": show_down,
        "delta_up": show_delta_up,
        "delta_down": show_delta_down,
        "percent_up": percent_up,
        "plain_percent": plain_percent,
        "rates": rates,
        "losses": _losses,
        "exact": to_text,
        "whole": "{:,}".format,
        "brief": _brief,
        "named": _named,
        "unbroken": _unbroken,
        "key": short_key,
        "moment": moment,
    }
    return environment


def _reference(found: re.Match[str]) -> str:
    """A character reference; and for what does not print, and could act on the page, an escape."""
    character = found[0]
    if character.isprintable():
        return f"&#{ord(character)};"
    return character.encode("unicode_escape").decode()


@lru_cache(maxsize=256)
def _named(name: str) -> Markup:
    """A name that cannot turn the text around it, and its code points if letters may mislead."""
    points = code_points(name)
    shown = Markup("<bdi>{}</bdi>").format(name)
    return shown + Markup(" <code>{}</code>").format(points) if points else shown


@lru_cache(maxsize=4096)
def _unbroken(text: str) -> Markup:
    """The text, whose numbers stay on one line with their exponents and percent signs."""
    return Markup(_NUMBER.sub(r'<span class="v">\g<0></span>', str(escape(text))))


@lru_cache(maxsize=4096)
def _losses(losses: tuple[Loss, ...]) -> str:
    return "; ".join(loss_in_full(loss) for loss in losses) or "not stated"


def _brief(text: str) -> str:
    return text if len(text) <= BRIEF else f"{text[:BRIEF].rstrip()}\u2026"


class _Sum(NamedTuple):
    """A sum of budgets. However many digits it would need, it can be written."""

    epsilon: Fraction
    delta: Fraction

    @classmethod
    def of(cls, budgets: Iterable[Budget]) -> _Sum:
        listed = list(budgets)
        return cls(
            _sum(budget.epsilon for budget in listed), _sum(budget.delta for budget in listed)
        )


def _sum(amounts: Iterable[Fraction]) -> Fraction:
    numerators: dict[int, int] = defaultdict(int)  # by denominator, of which most are the same
    for amount in amounts:
        numerators[amount.denominator] += amount.numerator
    total = Fraction(0)
    for denominator, numerator in numerators.items():
        total += Fraction(numerator, denominator)
        if total.denominator > _PRECISE:
            total = Fraction(math.ceil(total * _PRECISE), _PRECISE)
    return total


class _Bar(NamedTuple):
    """Where a pool begins and ends on the scale of the whole grant, and what is spent of it."""

    start: str
    granted: str
    spent: str


@dataclass(frozen=True, slots=True)
class _Pool:
    """The whole grant or a part of it."""

    kind: str
    name: str
    granted: Budget
    spent: Budget
    remaining: Budget
    epsilon_bar: _Bar
    delta_bar: _Bar


@dataclass(frozen=True, slots=True)
class _Group:
    """Charges that stand in one table."""

    charges: Sequence[ChargeLine]
    cost: _Sum
    """Without what was voided."""


class _Terms(NamedTuple):
    """A grant, an allocation, or a raise of one of them."""

    what: str
    name: str
    line: GrantLine


class _View:
    """A statement as the page lays it out."""

    def __init__(self, number: int, statement: Statement) -> None:
        self.id = f"d{number}"
        self.statement = statement
        self.guarantee = _sentence(statement.guarantee, "Guarantee: ")
        self.public = _sentence(statement.public, "Public, so not protected: ")
        self.pools = list(_pools(statement))
        self.allocated = statement.granted - statement.free.granted
        self.terms = sorted(_terms(statement), key=lambda terms: terms.line.sequence)
        charges = statement.charges
        self.groups = [
            _Group(lines, _cost(lines))
            for lines in (
                charges[start : start + TOGETHER] for start in range(0, len(charges), TOGETHER)
            )
        ]
        self.spenders = _spenders(charges)
        self.counts = {
            state: count
            for state in STATES
            if (count := sum(line.state == state for line in charges))
        }
        #: A bound on the records that leave if each left with probability delta.
        self.expected = (
            None if statement.table is None else statement.table.rows * statement.granted.delta
        )


def _sentence(text: str, heading: str) -> str:
    """The text without the word that the page has for its heading."""
    rest = text.removeprefix(heading)
    return rest[:1].upper() + rest[1:]


def _pools(statement: Statement) -> Iterator[_Pool]:
    """The whole grant, then the parts that it consists of, side by side on its scale."""
    yield _pool("whole", "Whole grant", statement, _Sum.of(()), statement.granted)
    yield _pool("free", "Free pool", statement.free, _Sum.of(()), statement.granted)
    before = [statement.free.granted]
    for line in statement.allocations:
        yield _pool("allocation", line.name, line, _Sum.of(before), statement.granted)
        before.append(line.granted)


def _pool(
    kind: str, name: str, part: Statement | Pool | AllocationLine, start: _Sum, whole: Budget
) -> _Pool:
    def share(amount: Fraction, of: Fraction) -> str:
        return f"{float(100 * amount / of) if of else 0:.3f}%"

    granted, spent = part.granted, part.spent
    return _Pool(
        kind=kind,
        name=name,
        granted=granted,
        spent=spent,
        remaining=part.remaining,
        epsilon_bar=_Bar(
            start=share(start.epsilon, whole.epsilon),
            granted=share(granted.epsilon, whole.epsilon),
            spent=share(spent.epsilon, whole.epsilon),
        ),
        delta_bar=_Bar(
            start=share(start.delta, whole.delta),
            granted=share(granted.delta, whole.delta),
            spent=share(spent.delta, whole.delta),
        ),
    )


def _terms(statement: Statement) -> Iterator[_Terms]:
    for number, line in enumerate(statement.grants):
        yield _Terms("Grant raised to" if number else "Granted", "", line)
    for allocation in statement.allocations:
        for number, line in enumerate(allocation.grants):
            yield _Terms("Raised to" if number else "Set aside", allocation.name, line)


def _cost(charges: Iterable[ChargeLine]) -> _Sum:
    return _Sum.of(line.budget for line in charges if line.state != "voided")


def _spenders(charges: Iterable[ChargeLine]) -> list[tuple[str, int, _Sum]]:
    """Who charged how often, and how much, in the order of their first charge."""
    of: dict[str, list[ChargeLine]] = {}
    for line in charges:
        if line.state != "voided":
            of.setdefault(line.actor, []).append(line)
    return [(actor, len(lines), _cost(lines)) for actor, lines in of.items()]
