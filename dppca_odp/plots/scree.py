"""The scree picture: private eigenvalues with their noise, and shares among the reported k."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dppca_odp.plots.style import MARKERS, colour, cost_caption, new_figure, open_sides, plain
from dppca_odp.releases import Release, ReleasedScree
from dppca_odp.values import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dppca_odp.plots.display import Picture


def plot_scree(release: Release) -> Picture:
    """Eigenvalues with error bars of two noise standard deviations, and shares among the k.

    Raises:
        ValueError: the release holds no eigenvalues.
    """
    screes = release.screes
    if not screes:
        raise ValueError("release must hold eigenvalues; got none. Plan a scree release.")
    title = f"Private eigenvalues of {release.data_set}"
    figure = new_figure(8, 4.2, title, cost_caption(release))
    eigenvalues, shares = figure.subplots(1, 2, width_ratios=(3, 2))
    _eigenvalues(eigenvalues, screes)
    _shares(shares, screes)
    return figure


def _eigenvalues(axes: Axes, screes: tuple[ReleasedScree, ...]) -> None:
    for number, scree in enumerate(screes):
        axes.errorbar(
            _positions(scree, number, len(screes), width=0.3),
            scree.values,
            yerr=_bars(scree),
            color=colour(number),
            marker=MARKERS[number % len(MARKERS)],
            markersize=5,
            linewidth=1.2,
            elinewidth=1,
            capsize=3,
            label=plain(scree.name),
        )
    axes.set(xlabel="component", ylabel="variance along the component")
    axes.set_title("scree; bars: privacy noise alone, two standard deviations", fontsize=9)
    axes.set_ylim(bottom=0)
    _component_ticks(axes, screes)
    if len(screes) > 1:
        axes.legend(frameon=False, fontsize=8)


def _shares(axes: Axes, screes: tuple[ReleasedScree, ...]) -> None:
    width = 0.8 / len(screes)
    for number, scree in enumerate(screes):
        bars = axes.bar(
            _positions(scree, number, len(screes), width=0.8 - width),
            [100 * share for share in scree.proportions],
            width=width * 0.92,
            color=colour(number),
            label=plain(scree.name),
        )
        axes.bar_label(bars, fmt="%.0f", fontsize=7, padding=1)
    axes.set(xlabel="component", ylabel="percent")
    axes.set_title("share among the k reported components", fontsize=9)
    _component_ticks(axes, screes)


def _bars(scree: ReleasedScree) -> Floats:
    """Two noise standard deviations either way; a variance goes down to 0 at most."""
    values, reach = np.array(scree.values), 2 * np.array(scree.noise_scales)
    return np.vstack([np.minimum(reach, values), reach])


def _positions(scree: ReleasedScree, number: int, of: int, width: float) -> Floats:
    shift = 0.0 if of == 1 else width * (number / (of - 1) - 0.5)
    return np.arange(1.0, len(scree.values) + 1.0) + np.float64(shift)


def _component_ticks(axes: Axes, screes: tuple[ReleasedScree, ...]) -> None:
    axes.set_xticks(range(1, max(len(scree.values) for scree in screes) + 1))
    open_sides(axes)
