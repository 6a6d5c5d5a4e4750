"""The budget picture: what was granted, on what it was spent, and what remains."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from accountant import Statement
from accountant.reports.words import COUNTED
from accountant.specs import AnyBudget
from dppca_odp.plots.style import GREY, PALETTE, colour, new_figure, open_sides, plain
from dppca_odp.values import Floats

if TYPE_CHECKING:
    from dppca_odp.plots.display import Picture

#: Below this a segment is rounding, not spending.
LEAST_PERCENT = 1e-9


def plot_budget(statement: Statement) -> Picture:
    """One bar for each amount that the grant's rule counts, with a segment for each stage."""
    names = COUNTED[statement.rule.kind][:2]  # a leak is too small to be drawn
    spent = f"spent {statement.spent.show_up()} of {statement.granted.show_down()}"
    figure = new_figure(8, 3.4, f"Budget of {statement.data_set}", f"{spent}; {statement.unit}")
    axes = figure.subplots()
    ends = np.zeros(2)
    for number, (name, widths) in enumerate(percents_by_stage(statement).items()):
        hatch = "//" if number >= len(PALETTE) else None
        axes.barh(
            [1, 0], widths, left=ends, height=0.6, label=plain(name),
            color=colour(number), hatch=hatch, edgecolor="white",
        )  # fmt: skip
        ends += widths
    remaining = percents(statement.remaining, statement.granted)
    unnamed = 100 - ends - remaining
    if unnamed.max() > LEAST_PERCENT:
        axes.barh([1, 0], unnamed, left=ends, height=0.6, label="no stage", color=GREY)
    axes.barh(
        [1, 0], remaining, left=100 - remaining, height=0.6, label="remaining",
        color="white", edgecolor=GREY,
    )  # fmt: skip
    axes.set_yticks([1, 0], names)
    axes.set(xlabel="percent of the grant", xlim=(0, 100))
    axes.legend(frameon=False, fontsize=7.5, loc="upper left", bbox_to_anchor=(1.01, 1.0))
    open_sides(axes)
    return figure


def percents(part: AnyBudget, whole: AnyBudget) -> Floats:
    """A part of a budget in percent of the two amounts that people see."""
    pairs = zip(part.coordinates[:2], whole.coordinates[:2], strict=True)
    return np.array([float(100 * amount / of) if of else 0.0 for amount, of in pairs])


def percents_by_stage(statement: Statement) -> dict[str, Floats]:
    """What each stage took of the grant: its part of what its charge paid.

    The stages of a committed plan come to more when they are added than its charge paid.
    """
    taken: dict[str, Floats] = {}
    for charge in (line for line in statement.charges if line.state != "voided"):
        alone = {
            s.name: percents(statement.rule.cost((s,)), statement.granted) for s in charge.stages
        }
        paid, added = percents(charge.cost, statement.granted), sum(alone.values(), np.zeros(2))
        scale = np.divide(paid, added, out=np.zeros(2), where=added > 0)
        for name, widths in alone.items():
            part = widths * np.minimum(scale, 1.0)
            taken[name] = taken.get(name, np.zeros(2)) + part
    return taken
