"""A statement as plain text."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from accountant.amounts import show_delta_down, show_delta_up, show_down, show_up
from accountant.reports.words import (
    BASIS,
    RISK,
    STATES,
    percent_up,
    rates,
    short_key,
    shown_name,
    when,
)
from accountant.specs import Budget

if TYPE_CHECKING:
    from accountant.statements import Statement


def render_text(statement: Statement, width: int) -> str:
    """Plain text for a terminal of this width. Spent is rounded up, remaining down."""
    paper = io.StringIO()
    Console(file=paper, width=width, color_system=None, force_jupyter=False).print(
        Group(*_parts(statement))
    )
    return "\n".join(line.rstrip() for line in paper.getvalue().splitlines())


def _parts(statement: Statement) -> Iterator[RenderableType]:
    yield Text(f"DATA SET {shown_name(statement.data_set)}")
    yield Text(f"\n{statement.guarantee}\n{statement.public}\n{statement.trust}\n")
    yield Text(f"Table: {statement.table or 'recorded by the first release'}")
    first, *raises = statement.grants
    yield Text(f"Granted {when(first.time, first.actor, first.why)}")
    for line in raises:
        yield Text(f"Raised to {line.budget} {when(line.time, line.actor, line.why)}")
    yield Text("")
    yield _balance(statement)
    yield from _risk(statement)
    if statement.releases:
        yield Text("\nRELEASES, by number of the entry")
        yield _release_table(statement)
        for state in dict.fromkeys(line.state for line in statement.releases):
            if state != "released":
                yield Text(f"{state}: {STATES[state]}.")
    for heading, lines in (
        ("REFUSED", _refused(statement)),
        ("UNUSABLE DATA", _rejected(statement)),
    ):
        if lines:
            yield Text("\n".join(("", heading, *lines)))
    yield Text(f"\n{statement.entries} entries in the ledger, the last with hash\n{statement.head}")


def _balance(statement: Statement) -> RenderableType:
    """The whole grant; and, where there are allocations, each pool that it consists of."""
    table = _grid("", "epsilon", "delta")
    _pool_rows(table, "", statement.granted, statement.spent, statement.remaining)
    if statement.allocations:
        free = statement.free
        _pool_rows(table, "free pool: ", free.granted, free.spent, free.remaining)
        for line in statement.allocations:
            name = f"{shown_name(line.name)}: "
            _pool_rows(table, name, line.granted, line.spent, line.remaining)
    return table


def _pool_rows(table: Table, whose: str, granted: Budget, spent: Budget, remaining: Budget) -> None:
    table.add_row(
        Text(f"{whose}granted"), show_down(granted.epsilon), show_delta_down(granted.delta)
    )
    table.add_row(Text(f"{whose}spent"), show_up(spent.epsilon), show_delta_up(spent.delta))
    table.add_row(
        Text(f"{whose}remaining"), show_down(remaining.epsilon), show_delta_down(remaining.delta)
    )


def _risk(statement: Statement) -> Iterator[RenderableType]:
    yield Text(f"\nWHAT IT MEANS\n{RISK}")
    for what, risk in (
        ("all that was spent", statement.risk_of_spent),
        ("the whole grant", statement.risk_of_grant),
    ):
        yield Text(
            f"With {what}: advantage at most {percent_up(risk.advantage)}; right in at most "
            f"{rates(risk)} ({BASIS[risk.basis]})."
        )


def _release_table(statement: Statement) -> RenderableType:
    table = _grid("release", "epsilon", "delta", "state or losses")
    for line in statement.releases:
        drawn = f" from {shown_name(line.allocation)}" if line.allocation else ""
        void = f" ({line.void})" if line.void else ""
        table.add_row(
            Text(f"{line.sequence}. {short_key(line.key)}"),
            show_up(line.budget.epsilon),
            show_delta_up(line.budget.delta),
            Text(
                f"{line.state}{void}{drawn}, {when(line.time, line.actor, line.purpose)}; "
                f"advantage {percent_up(line.risk.advantage)}"
            ),
        )
        for stage in line.stages:
            table.add_row(
                Text(f"   {stage.name}"),
                show_up(stage.budget.epsilon),
                show_delta_up(stage.budget.delta),
                Text(", ".join(str(loss) for loss in stage.losses)),
            )
    return table


def _refused(statement: Statement) -> list[str]:
    return [
        f"{line.sequence}. {short_key(line.key)}: {line.asked.show_up()}, where "
        f"{line.remaining.show_down()} remained"
        f"{f' of {shown_name(line.allocation)}' if line.allocation else ''}, "
        f"{when(line.time, line.actor, line.purpose)}"
        for line in statement.refusals
    ]


def _rejected(statement: Statement) -> list[str]:
    return [
        f"{line.sequence}. {line.reason} {when(line.time, line.actor)}"
        for line in statement.rejections
    ]


def _grid(first: str, *others: str) -> Table:
    """A table without rules. Numbers are never wrapped or cut; names fold."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(first, max_width=30, overflow="fold")
    for header in others:
        number = header in ("epsilon", "delta")
        table.add_column(header, no_wrap=number, overflow="fold")
    return table
