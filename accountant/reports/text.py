"""A statement as plain text."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import zip_longest

from rich.cells import cell_len

from accountant.amounts import show_up
from accountant.balances import Pool
from accountant.reports.words import (
    BASIS,
    COUNTED,
    OF_ONE,
    RISK,
    RULES,
    STATES,
    amounts_down,
    amounts_up,
    curve,
    loss_in_full,
    one_number,
    percent_up,
    rates,
    short_key,
    shown_name,
    when,
)
from accountant.specs import AnyBudget, GaussianBudget, Stage
from accountant.statements import AllocationLine, ChargeLine, RefusalLine, Statement

_LONGEST_NAME = 30  # of a first column, before it folds
_GAP = "  "
_COLUMNS = 2  # of amounts; a third, the leak, is told in sentences

Row = tuple[str, ...]


def render_text(statement: Statement, width: int) -> str:
    """Plain text for a terminal of this width. Spent is rounded up, remaining down."""
    lines = [line.rstrip() for part in _parts(statement, width) for line in part]
    return "\n".join(lines)


def _parts(statement: Statement, width: int) -> Iterator[Iterator[str] | list[str]]:
    yield _wrap(f"DATA SET {shown_name(statement.data_set)}", width)
    yield [""]
    for sentence in (statement.guarantee, statement.public, statement.trust):
        yield _wrap(sentence, width)
    yield [""]
    yield _wrap(f"Table: {statement.table or 'recorded by the first release'}", width)
    first, *raises = statement.grants
    yield _wrap(f"Granted {when(first.time, first.actor, first.why)}", width)
    for line in raises:
        yield _wrap(f"Raised to {line.budget} {when(line.time, line.actor, line.why)}", width)
    yield [""]
    counted = COUNTED[statement.rule.kind][:_COLUMNS]
    if statement.rule.kind != "sum":
        yield _wrap(RULES[statement.rule.kind], width)
    yield _table(("", *counted), _balance(statement), width)
    for sentence in _leaks(statement):
        yield _wrap(sentence, width)
    yield ["", "WHAT IT MEANS"]
    yield _wrap(RISK, width)
    for sentence in _risk(statement):
        yield _wrap(sentence, width)
    if statement.charges:
        yield ["", "CHARGES, by number of the entry"]
        header = ("charge", *counted, "state or losses")
        yield _table(header, list(_charges(statement)), width)
        for state in dict.fromkeys(line.state for line in statement.charges):
            if state != "released":
                yield _wrap(f"{state}: {STATES[state]}.", width)
    for heading, lines in (
        ("REFUSED", _refused(statement)),
        ("UNUSABLE DATA", _rejected(statement)),
    ):
        if lines:
            yield ["", heading]
        for sentence in lines:
            yield _wrap(sentence, width)
    yield [
        "",
        f"{statement.entries} entries in the ledger, the last with hash",
        statement.last_hash,
    ]


def _pools(statement: Statement) -> Iterator[tuple[str, list[tuple[str, Row]]]]:
    """The whole grant; and, where there are allocations, each pool that it consists of."""
    pools: list[tuple[str, Statement | Pool | AllocationLine]] = [("", statement)]
    if statement.allocations:
        pools.append(("free pool", statement.free))
    pools += ((shown_name(line.name), line) for line in statement.allocations)
    for name, pool in pools:
        yield (
            name,
            [
                ("granted", amounts_down(pool.granted)),
                ("spent", amounts_up(pool.spent)),
                ("remaining", amounts_down(pool.remaining)),
            ],
        )


def _balance(statement: Statement) -> list[Row]:
    return [
        (f"{name}: {side}" if name else side, *amounts[:_COLUMNS])
        for name, sides in _pools(statement)
        for side, amounts in sides
    ]


def _leaks(statement: Statement) -> Iterator[str]:
    """What is kept for the rounding of noise, where that is counted."""
    for name, sides in _pools(statement):
        told = [f"{side} {amounts[_COLUMNS]}" for side, amounts in sides if amounts[_COLUMNS:]]
        if told:
            yield f"Leak{' of ' + name if name else ''}: {', '.join(told)}."


def _risk(statement: Statement) -> Iterator[str]:
    for what, risk in (
        ("all that was spent", statement.risk_of_spent),
        ("the whole grant", statement.reading_of_grant.risk),
    ):
        yield (
            f"With {what}: advantage at most {percent_up(risk.advantage)}; right in at most "
            f"{rates(risk)} ({BASIS[risk.basis]})."
        )
    if statement.rule.kind == "sum" and statement.charges:
        yield OF_ONE
    yield f"The whole grant at other deltas: {curve(statement.reading_of_grant)}."
    yield f"As one number: {one_number(statement.reading_of_grant)}."


def _charges(statement: Statement) -> Iterator[Row]:
    for line in statement.charges:
        drawn = f" from {shown_name(line.allocation)}" if line.allocation else ""
        drawn += ", committed" if line.composition == "committed" else ""
        yield (
            f"{line.sequence}. {short_key(line.key)}",
            *amounts_up(line.cost)[:_COLUMNS],
            f"{line.state}{drawn}, {when(line.time, line.actor, line.purpose)}; "
            + (
                f"given back {when(line.void.time, line.void.actor, line.void.reason)}"
                if line.void
                else f"{_composed(line)}advantage {percent_up(line.risk.advantage)}"
            ),
        )
        for stage in line.stages:
            yield (
                f"   {stage.name}",
                *amounts_up(_cost(stage, statement))[:_COLUMNS],
                ", ".join(map(loss_in_full, stage.losses)),
            )


def _cost(stage: Stage, statement: Statement) -> AnyBudget:
    """What a stage costs under the rule of the grant."""
    return statement.rule.cost((stage,))


def _composed(line: ChargeLine) -> str:
    if line.composed is None or math.isinf(line.composed):
        return ""
    what = "losses" if line.composition == "sum" else "stages, composed by their losses,"
    return f"its {what} together epsilon {show_up(Fraction(line.composed))}; "


def _refused(statement: Statement) -> list[str]:
    def leak(line: RefusalLine, amounts: Row) -> str:
        """Of these amounts, if the leak was too large."""
        lacking = isinstance(line.shortfall, GaussianBudget) and line.shortfall.leak
        return f" with leak {amounts[_COLUMNS]}" if lacking else ""

    return [
        f"{line.sequence}. {short_key(line.key)}: "
        f"{line.asked.show_up()}{leak(line, amounts_up(line.asked))}, where "
        f"{line.remaining.show_down()}{leak(line, amounts_down(line.remaining))} remained"
        f"{f' of {shown_name(line.allocation)}' if line.allocation else ''}, "
        f"{when(line.time, line.actor, line.purpose)}"
        for line in statement.refusals
    ]


def _rejected(statement: Statement) -> list[str]:
    return [
        f"{line.sequence}. {line.reason} {when(line.time, line.actor)}"
        for line in statement.rejections
    ]


def _table(header: Row, rows: Sequence[Row], width: int) -> Iterator[str]:
    """Columns without rules. Numbers are never wrapped or cut; names and last columns fold."""
    widths = [max(cell_len(row[place]) for row in (header, *rows)) for place in range(3)]
    widths[0] = min(widths[0], _LONGEST_NAME)
    room = max(width - sum(widths) - 3 * len(_GAP), 10)
    for first, epsilon, delta, *last in (header, *rows):
        folded = (
            _wrap(first, widths[0]),
            [epsilon],
            [delta],
            _wrap(last[0], room) if last else [],
        )
        for cells in zip_longest(*folded, fillvalue=""):
            padded = (
                cell + " " * (size - cell_len(cell))
                for cell, size in zip(cells, [*widths, 0], strict=True)
            )
            yield _GAP.join(padded)


def _wrap(text: str, width: int) -> list[str]:
    """Lines of at most this width, where each wide letter takes two columns."""
    if len(text) <= width and text.isascii():
        return [text]
    indent = text[: len(text) - len(text.lstrip())]
    wide = cell_len(text) > len(text)
    return textwrap.wrap(text, width // 2 if wide else width, subsequent_indent=indent) or [""]
