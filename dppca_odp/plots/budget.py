"""The budget picture: what was granted, on what it was spent, and what remains."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from accountant import Statement
from accountant.specs import AnyBudget
from dppca_odp.plots.style import GREY, PALETTE, colour, new_figure, open_sides, plain
from dppca_odp.values import Floats

if TYPE_CHECKING:
    from dppca_odp.plots.display import Picture

#: Below this a segment is rounding, not spending.
LEAST_PERCENT = 1e-9


def plot_budget(statement: Statement) -> Picture:
    """One bar for each amount that the grant's rule counts, with a segment for each stage."""
    names = ["epsilon", "delta"]
    if statement.rule.kind == "gaussian":
        names = ["mu squared", "delta aside"]
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
    """A part of a budget in percent of both amounts of the whole."""
    pairs = zip(part.coordinates, whole.coordinates, strict=True)
    return np.array([float(100 * amount / of) if of else 0.0 for amount, of in pairs])


def percents_by_stage(statement: Statement) -> dict[str, Floats]:
    """What each stage took of the grant, in percent of both amounts that its rule counts."""
    taken: dict[str, Floats] = {}
    for release in statement.charges:
        for stage in release.stages:
            spent = percents(statement.rule.cost((stage,)), statement.granted)
            taken[stage.name] = taken.get(stage.name, np.zeros(2)) + spent
    return taken
