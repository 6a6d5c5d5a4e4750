"""Pictures of releases. They take releases and nothing else, so none can show private data.

Matplotlib is imported when a picture is drawn: the command line starts sooner without it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from accountant.amounts import show_delta_up, show_up
from dppca_odp.releases import Release, ReleasedScree

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Okabe and Ito's palette: told apart by most readers, and in print.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P")


def plot_scree(release: Release) -> Figure:
    """Eigenvalues with error bars of two noise standard deviations, and shares among the k."""
    from matplotlib.figure import Figure

    screes = release.screes
    if not screes:
        raise ValueError("release must hold eigenvalues; got none. Plan a scree release.")
    figure = Figure(figsize=(8, 4.2), dpi=150, layout="constrained")
    eigenvalues, shares = figure.subplots(1, 2, width_ratios=(3, 2))
    _eigenvalues(eigenvalues, screes)
    _shares(shares, screes)
    figure.suptitle(f"Private eigenvalues of {release.data_set}", fontsize=12)
    figure.supxlabel(_caption(release), fontsize=7.5, color="#555555")
    return figure


def save_scree(release: Release, path: str | Path) -> None:
    """Write the scree picture; the ending of the name decides the format."""
    plot_scree(release).savefig(path)


def _eigenvalues(axes: Axes, screes: tuple[ReleasedScree, ...]) -> None:
    for number, scree in enumerate(screes):
        axes.errorbar(
            _positions(scree, number, len(screes), width=0.3),
            scree.values,
            yerr=_bars(scree),
            color=PALETTE[number % len(PALETTE)],
            marker=MARKERS[number % len(MARKERS)],
            markersize=5,
            linewidth=1.2,
            elinewidth=1,
            capsize=3,
            label=scree.name,
        )
    axes.set(xlabel="component", ylabel="variance along the component")
    axes.set_title("scree, with two standard deviations of noise", fontsize=9)
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
            color=PALETTE[number % len(PALETTE)],
            label=scree.name,
        )
        axes.bar_label(bars, fmt="%.0f", fontsize=7, padding=1)
    axes.set(xlabel="component", ylabel="percent")
    axes.set_title("share among the k reported components", fontsize=9)
    _component_ticks(axes, screes)


def _bars(scree: ReleasedScree) -> np.ndarray:
    """Two noise standard deviations either way; a variance goes down to 0 at most."""
    values, reach = np.array(scree.values), 2 * np.array(scree.noise_scales)
    return np.vstack([np.minimum(reach, values), reach])


def _positions(scree: ReleasedScree, number: int, of: int, width: float) -> np.ndarray:
    shift = 0.0 if of == 1 else width * (number / (of - 1) - 0.5)
    return np.arange(1, len(scree.values) + 1) + shift


def _component_ticks(axes: Axes, screes: tuple[ReleasedScree, ...]) -> None:
    axes.set_xticks(range(1, max(len(scree.values) for scree in screes) + 1))
    axes.spines[["top", "right"]].set_visible(False)


def _caption(release: Release) -> str:
    return (
        f"epsilon {show_up(release.budget.epsilon)}, delta {show_delta_up(release.budget.delta)} "
        f"for all releases of this plan; protects {release.unit}; {release.rows} rows"
    )
