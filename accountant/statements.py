"""What the ledger says about one data set, for the person who answers for it."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from accountant.amounts import show_delta_down, show_delta_up, show_down, show_up
from accountant.audit import Audit
from accountant.books import Attempt, State
from accountant.facts import Fact
from accountant.specs import Budget, PrivacyUnit, Stage, TableFacts

PUBLIC = (
    "Public, so not protected: the number of rows, the names and types of the columns, "
    "who is in the table, and how many rows each person has."
)
TRUST = (
    "Trusted: the holder of the table and of this ledger. The guarantee covers what is released "
    "through this ledger and nothing else."
)


STARTED = (
    "started: the measurement was begun and no release is stored; it may have looked at the table, "
    "so its charge stays."
)


class ReleaseLine(Fact):
    """One charge, and what became of it."""

    sequence: int
    key: str
    time: str
    actor: str
    purpose: str
    plan_hash: str
    budget: Budget
    state: State
    stages: tuple[Stage, ...]


class RefusalLine(Fact):
    """One request that did not fit."""

    sequence: int
    key: str
    time: str
    actor: str
    purpose: str
    asked: Budget
    remaining: Budget
    shortfall: Budget


class RejectionLine(Fact):
    """One table that could not be used."""

    sequence: int
    time: str
    actor: str
    reason: str


class Statement(Fact):
    """Everything an officer needs to know about one data set, as of `entries` entries."""

    data_set: str
    guarantee: str
    public: str = PUBLIC
    trust: str = TRUST
    unit: PrivacyUnit
    table: TableFacts | None
    granted: Budget
    granted_at: str
    granted_by: str
    purpose: str
    spent: Budget
    remaining: Budget
    releases: tuple[ReleaseLine, ...]
    refusals: tuple[RefusalLine, ...]
    rejections: tuple[RejectionLine, ...]
    entries: int
    head: str

    @classmethod
    def of(cls, audit: Audit, data_set: str) -> Statement:
        """The statement of a granted data set."""
        book = audit.books[data_set]
        grant = book.terms()
        return cls(
            data_set=data_set,
            guarantee=_guarantee(grant.budget, grant.unit),
            unit=grant.unit,
            table=book.table,
            granted=grant.budget,
            granted_at=book.granted_at,
            granted_by=grant.actor,
            purpose=grant.purpose,
            spent=book.spent,
            remaining=book.remaining(),
            releases=tuple(_release(attempt) for attempt in book.by_key.values()),
            refusals=tuple(
                RefusalLine(
                    sequence=entry.sequence,
                    key=refusal.release_key,
                    time=entry.time,
                    actor=refusal.actor,
                    purpose=refusal.purpose,
                    asked=refusal.asked,
                    remaining=refusal.remaining,
                    shortfall=refusal.shortfall,
                )
                for entry, refusal in book.refusals
            ),
            rejections=tuple(
                RejectionLine(
                    sequence=entry.sequence,
                    time=entry.time,
                    actor=rejection.actor,
                    reason=rejection.reason,
                )
                for entry, rejection in book.rejections
            ),
            entries=audit.count,
            head=audit.head,
        )

    def render(self, width: int = 80) -> str:
        """Plain text for a terminal of this width. Spent is rounded up, remaining down."""
        paper = io.StringIO()
        Console(file=paper, width=width, color_system=None, force_jupyter=False).print(
            Group(*self._parts())
        )
        return "\n".join(line.rstrip() for line in paper.getvalue().splitlines())

    def __str__(self) -> str:
        return self.render()

    def _parts(self) -> Iterator[RenderableType]:
        yield Text(f"DATA SET {self.data_set}")
        yield Text(f"\n{self.guarantee}\n{self.public}\n{self.trust}\n")
        yield Text(f"Table: {self.table or 'recorded by the first release'}")
        yield Text(f"Granted {_when(self.granted_at, self.granted_by, self.purpose)}\n")
        yield self._balance()
        if self.releases:
            yield Text("\nRELEASES, by number of the entry")
            yield self._release_table()
            if any(line.state == "started" for line in self.releases):
                yield Text(STARTED)
        for heading, lines in (("REFUSED", self._refused()), ("UNUSABLE DATA", self._rejected())):
            if lines:
                yield Text("\n".join(("", heading, *lines)))
        yield Text(f"\n{self.entries} entries in the ledger, the last with hash\n{self.head}")

    def _balance(self) -> RenderableType:
        table = _grid("", "epsilon", "delta")
        table.add_row(
            "granted", show_down(self.granted.epsilon), show_delta_down(self.granted.delta)
        )
        table.add_row("spent", show_up(self.spent.epsilon), show_delta_up(self.spent.delta))
        table.add_row(
            "remaining", show_down(self.remaining.epsilon), show_delta_down(self.remaining.delta)
        )
        return table

    def _release_table(self) -> RenderableType:
        table = _grid("release", "epsilon", "delta", "state or losses")
        for line in self.releases:
            table.add_row(
                Text(f"{line.sequence}. {_short(line.key)}"),
                show_up(line.budget.epsilon),
                show_delta_up(line.budget.delta),
                Text(f"{line.state}, {_when(line.time, line.actor, line.purpose)}"),
            )
            for stage in line.stages:
                table.add_row(
                    Text(f"   {stage.name}"),
                    show_up(stage.budget.epsilon),
                    show_delta_up(stage.budget.delta),
                    Text(", ".join(str(loss) for loss in stage.losses)),
                )
        return table

    def _refused(self) -> list[str]:
        return [
            f"{line.sequence}. {_short(line.key)}: {line.asked.show_up()}, where "
            f"{line.remaining.show_down()} remained, "
            f"{_when(line.time, line.actor, line.purpose)}"
            for line in self.refusals
        ]

    def _rejected(self) -> list[str]:
        return [
            f"{line.sequence}. {line.reason} {_when(line.time, line.actor, '')}"
            for line in self.rejections
        ]


def _release(attempt: Attempt) -> ReleaseLine:
    charge = attempt.charge
    return ReleaseLine(
        sequence=attempt.sequence,
        key=charge.release_key,
        time=attempt.time,
        actor=charge.actor,
        purpose=charge.purpose,
        plan_hash=charge.plan_hash,
        budget=charge.budget,
        state=attempt.state,
        stages=charge.stages,
    )


def _guarantee(granted: Budget, unit: PrivacyUnit) -> str:
    rows = "1 row" if unit.rows_per_person == 1 else f"{unit.rows_per_person} rows"
    factor = math.exp(min(float(granted.epsilon), 700.0))
    return (
        f"Guarantee: if the rows of any one person (at most {rows}) were replaced by others, the "
        "probability of any result of all releases together would change by at most a factor of "
        f"e^{show_up(granted.epsilon)} (about {factor:.3g}) plus {show_delta_up(granted.delta)}."
    )


def _short(key: str) -> str:
    """A key as people read it: a plan's hash by its beginning, as version control does."""
    head, mark, attempt = key.partition("#")
    return head[:12] + mark + attempt if re.fullmatch("[0-9a-f]{64}", head) else key


def _when(time: str, actor: str, purpose: str) -> str:
    by = f" by {actor}" if actor else ""
    return f"{time[:16].replace('T', ' ')} UTC{by}{': ' + purpose if purpose else ''}"


def _grid(first: str, *others: str) -> Table:
    """A table without rules. Numbers are never wrapped or cut; names fold."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(first, max_width=30, overflow="fold")
    for header in others:
        number = header in ("epsilon", "delta")
        table.add_column(header, no_wrap=number, overflow="fold")
    return table
