"""What all pictures share: size, colours that most readers tell apart, a caption of the cost."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from accountant.amounts import show_delta_up, show_up
from dppca_odp.releases import Release

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dppca_odp.plots.display import Picture

#: Okabe and Ito's palette: told apart by most readers, and in print.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P")
GREY = "#999999"
#: Letters of a caption that fit on an inch.
CAPTION_LETTERS = 16
#: Mass, from none to most: even steps of lightness, told apart without colour.
MASS_MAP = "cividis"


def plain(name: str) -> str:
    """A name as it stands: matplotlib takes $ for mathematics and hides what begins with _."""
    shown = name.replace("$", r"\$")
    return f" {shown}" if shown.startswith("_") else shown


def colour(number: int) -> str:
    """The colour of the numbered thing."""
    return PALETTE[number % len(PALETTE)]


def new_figure(width: float, height: float, title: str, caption: str) -> Picture:
    """A figure of this size in inches at 150 dots each, with a title and a small caption."""
    from dppca_odp.plots.display import Picture

    figure = Picture(figsize=(width, height), dpi=150, layout="constrained")
    figure.suptitle(plain(title), fontsize=12)
    lines = textwrap.wrap(plain(caption), width=int(CAPTION_LETTERS * width))
    figure.supxlabel("\n".join(lines), fontsize=7.5, color="#555555")
    return figure


def cost_caption(release: Release) -> str:
    """What the whole plan cost, and whom it protects."""
    return (
        f"epsilon {show_up(release.budget.epsilon)}, delta {show_delta_up(release.budget.delta)} "
        f"for all releases of this plan; protects {release.unit}; {release.rows} rows"
    )


def open_sides(axes: Axes) -> None:
    """Draw only the axes that carry numbers."""
    axes.spines[["top", "right"]].set_visible(False)
