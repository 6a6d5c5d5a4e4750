"""The budget picture: what was granted, on what it was spent, and what remains."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from accountant import Budget, Statement
from accountant.amounts import show_delta_down, show_delta_up, show_down, show_up
from dppca_odp.plots.style import GREY, PALETTE, colour, new_figure, open_sides, plain
from dppca_odp.values import Floats

if TYPE_CHECKING:
    from dppca_odp.plots.display import Picture

#: Below this a segment is rounding, not spending.
LEAST_PERCENT = 1e-9


def plot_budget(statement: Statement) -> Picture:
    """One bar for epsilon and one for delta, with a segment for each stage that was paid for."""
    spent = (
        f"spent {show_up(statement.spent.epsilon)} of {show_down(statement.granted.epsilon)} "
        f"epsilon, {show_delta_up(statement.spent.delta)} of "
        f"{show_delta_down(statement.granted.delta)} delta"
    )
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
    axes.set_yticks([1, 0], ["epsilon", "delta"])
    axes.set(xlabel="percent of the grant", xlim=(0, 100))
    axes.legend(frameon=False, fontsize=7.5, loc="upper left", bbox_to_anchor=(1.01, 1.0))
    open_sides(axes)
    return figure


def percents(part: Budget, whole: Budget) -> Floats:
    """A part of a budget in percent of epsilon and of delta."""
    return np.array(
        [float(100 * part.epsilon / whole.epsilon), float(100 * part.delta / whole.delta)]
    )


def percents_by_stage(statement: Statement) -> dict[str, Floats]:
    """What each stage took of the grant, in percent of epsilon and of delta."""
    taken: dict[str, Floats] = {}
    for release in statement.charges:
        for stage in release.stages:
            spent = percents(stage.budget, statement.granted)
            taken[stage.name] = taken.get(stage.name, np.zeros(2)) + spent
    return taken
