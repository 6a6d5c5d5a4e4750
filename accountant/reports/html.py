"""Statements as one page: nothing to fetch, nothing that runs, pure ASCII, the same every time."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from accountant.amounts import show_up
from accountant.balances import Pool
from accountant.losses import Loss
from accountant.reports.words import (
    BASIS,
    COUNTED,
    NO_GRANT,
    OF_ONE,
    RELATIONS,
    RISK,
    RULES,
    STATES,
    WHOLE,
    amounts_down,
    amounts_up,
    code_points,
    loss_in_full,
    moment,
    one_number,
    percent_up,
    plain_percent,
    points,
    rates,
    short_key,
)
from accountant.specs import AnyBudget, Stage
from accountant.statements import AllocationLine, ChargeLine, GrantLine, Statement

TOGETHER = 100  # so many charges stand in one table; more are folded away by the hundred
BRIEF = 100  # characters of a purpose that are seen while its release is folded away
MARKS = {"charged": "\u25cb", "started": "\u25d0", "released": "\u25cf", "voided": "\u00d7"}
_NOT_PLAIN = re.compile(r"[^\n -~]")
_NUMBER = re.compile(r"[0-9.]+(?:e-?[0-9]+| %)")


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
            of_one=OF_ONE,
            whole_records=WHOLE,
            rules=RULES,
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
        optimized=False,  # nothing in the page is constant but its text
    )
    environment.filters |= {
        "up": show_up,
        "exactly_up": lambda number: show_up(Fraction(number)) if number < math.inf else "infinite",
        "pair_up": lambda budget: _unbroken(budget.show_up()),
        "pair_down": lambda budget: _unbroken(budget.show_down()),
        "amounts_up": amounts_up,
        "amounts_down": amounts_down,
        "percent_up": percent_up,
        "plain_percent": plain_percent,
        "rates": rates,
        "one_number": one_number,
        "points": points,
        "losses": _losses,
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
    granted: AnyBudget
    spent: AnyBudget
    remaining: AnyBudget
    bars: tuple[_Bar, ...]
    """One for each amount."""


@dataclass(frozen=True, slots=True)
class _Group:
    """Charges that stand in one table."""

    charges: Sequence[ChargeLine]
    cost: AnyBudget
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
        self.counted = COUNTED[statement.rule.kind]
        self.guarantee = _sentence(statement.guarantee, "Guarantee: ")
        self.public = _sentence(statement.public, "Public, so not protected: ")
        self.pools = list(_pools(statement))
        self.allocated = statement.granted - statement.free.granted
        self.terms = sorted(_terms(statement), key=lambda terms: terms.line.sequence)
        charges = statement.charges
        self.groups = [
            _Group(lines, self._total(lines))
            for lines in (
                charges[start : start + TOGETHER] for start in range(0, len(charges), TOGETHER)
            )
        ]
        self.spenders = self._spenders()
        self.counts = {
            state: count
            for state in STATES
            if (count := sum(line.state == state for line in charges))
        }
        #: A bound on the records that leave if each left with probability delta.
        self.expected = (
            None if statement.table is None else statement.table.rows * statement.budget.delta
        )

    def cost(self, stage: Stage) -> AnyBudget:
        """What a stage takes under the rule of the grant."""
        return self.statement.rule.cost((stage,))

    def _total(self, charges: Iterable[ChargeLine]) -> AnyBudget:
        """What they cost together, without what was voided."""
        return self.statement.rule.nothing.plus(
            line.cost for line in charges if line.state != "voided"
        )

    def _spenders(self) -> list[tuple[str, int, AnyBudget]]:
        """Who charged how often, and how much, in the order of their first charge."""
        of: dict[str, list[ChargeLine]] = {}
        for line in self.statement.charges:
            if line.state != "voided":
                of.setdefault(line.actor, []).append(line)
        return [(actor, len(lines), self._total(lines)) for actor, lines in of.items()]


def _sentence(text: str, heading: str) -> str:
    """The text without the word that the page has for its heading."""
    rest = text.removeprefix(heading)
    return rest[:1].upper() + rest[1:]


def _pools(statement: Statement) -> Iterator[_Pool]:
    """The whole grant, then the parts that it consists of, side by side on its scale."""
    nothing = statement.rule.nothing
    yield _pool("whole", "Whole grant", statement, nothing, statement.granted)
    yield _pool("free", "Free pool", statement.free, nothing, statement.granted)
    before = statement.free.granted
    for line in statement.allocations:
        yield _pool("allocation", line.name, line, before, statement.granted)
        before += line.granted


def _pool(
    kind: str,
    name: str,
    part: Statement | Pool | AllocationLine,
    start: AnyBudget,
    whole: AnyBudget,
) -> _Pool:
    def shares(budget: AnyBudget) -> list[str]:
        pairs = zip(budget.coordinates, whole.coordinates, strict=True)
        return [f"{float(100 * amount / of) if of else 0:.3f}%" for amount, of in pairs]

    places = zip(shares(start), shares(part.granted), shares(part.spent), strict=True)
    return _Pool(
        kind=kind,
        name=name,
        granted=part.granted,
        spent=part.spent,
        remaining=part.remaining,
        bars=tuple(_Bar(*place) for place in places),
    )


def _terms(statement: Statement) -> Iterator[_Terms]:
    for number, line in enumerate(statement.grants):
        yield _Terms("Grant raised to" if number else "Granted", "", line)
    for allocation in statement.allocations:
        for number, line in enumerate(allocation.grants):
            yield _Terms("Raised to" if number else "Allocated", allocation.name, line)
