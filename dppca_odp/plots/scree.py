"""The scree picture: private eigenvalues with their noise, and shares among the reported k."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dppca_odp.eigenvalues.method import NORMAL_95
from dppca_odp.flags import Flag
from dppca_odp.plots.style import MARKERS, colour, cost_caption, new_figure, open_sides, plain
from dppca_odp.releases import Release, ReleasedScree
from dppca_odp.values import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dppca_odp.plots.display import Picture

#: Flags of values that stand for a larger variance.
LIKELY_HIGHER = {Flag.NOT_FOUND, Flag.RARE_LARGE_VALUES, Flag.HEAVY_TAIL, Flag.SATURATED}
THICK, THIN = 3.5, 0.9
#: More bars than this have no room for their numbers.
MOST_NUMBERS = 24


def plot_scree(release: Release) -> Picture:
    """Eigenvalues with bars for noise and for noise and sampling, and shares among the k.

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
        at, values = _positions(scree, number, len(screes), width=0.3), np.array(scree.values)
        higher = np.array([_is_likely_higher(scree, k) for k in range(len(values))])
        drawn: dict[str, Any] = {"color": colour(number), "zorder": 2, "clip_on": False}
        marker: dict[str, Any] = {"marker": MARKERS[number % len(MARKERS)], "markersize": 4.5}
        noise, total = _noise_bars(scree), _total_bars(scree)
        if total is not None:
            axes.vlines(at, *total, linewidth=THIN, **drawn)
        axes.vlines(at, *noise, linewidth=THICK, alpha=0.55, **drawn)
        axes.plot(at, values, linewidth=THIN, label=plain(scree.name), **marker, **drawn)
        if higher.any():
            open_marker: dict[str, Any] = {"linestyle": "none", "markerfacecolor": "white"}
            axes.plot(at[higher], values[higher], **open_marker, **marker, **drawn)
        for x, y in zip(at[higher], values[higher], strict=True):
            upward = {"arrowstyle": "<|-", "color": colour(number), "shrinkB": 3}
            axes.annotate("", (x, y), (0, 22), textcoords="offset points", arrowprops=upward)
    axes.set(xlabel="component", ylabel="variance along the component")
    axes.set_title(_explained(screes), fontsize=8)
    axes.set_ylim(bottom=0)
    _component_ticks(axes, screes)
    if len(screes) > 1:
        axes.legend(frameon=False, fontsize=8)


def _explained(screes: tuple[ReleasedScree, ...]) -> str:
    """What bars and markers are, in words."""
    bars = "thick bar: 95 % interval of the noise"
    if any(_total_bars(scree) is not None for scree in screes):
        bars += "; thin bar: noise and sampling, two sd"
    lines = ["scree", bars]
    if any(_is_likely_higher(scree, k) for scree in screes for k in range(len(scree.values))):
        lines.append("open, with an arrow: the variance is likely higher than its value")
    return "\n".join(lines)


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
        if len(screes) * len(scree.values) <= MOST_NUMBERS:
            axes.bar_label(bars, fmt="%.0f", fontsize=7, padding=1)
    axes.set(xlabel="component", ylabel="percent")
    axes.set_title("share among the k reported components", fontsize=9)
    _component_ticks(axes, screes)


def _noise_bars(scree: ReleasedScree) -> tuple[Floats, Floats]:
    """The 95 % noise intervals; of an older release, around its values."""
    if scree.noise_low:
        return np.array(scree.noise_low), np.array(scree.noise_high)
    return _around(scree, NORMAL_95 * np.array(scree.noise_scales))


def _total_bars(scree: ReleasedScree) -> tuple[Floats, Floats] | None:
    """Noise and sampling together, two standard deviations; none of an older release."""
    if not scree.sampling_scales:
        return None
    return _around(scree, 2 * np.hypot(scree.noise_scales, scree.sampling_scales))


def _around(scree: ReleasedScree, reach: Floats) -> tuple[Floats, Floats]:
    """As far either way; a variance goes down to 0 at most."""
    values = np.array(scree.values)
    return np.maximum(values - reach, 0.0), values + reach


def _is_likely_higher(scree: ReleasedScree, component: int) -> bool:
    """Whether a flag says that the variance is likely higher than its value."""
    return not LIKELY_HIGHER.isdisjoint(scree.flags_of(component))


def _positions(scree: ReleasedScree, number: int, of: int, width: float) -> Floats:
    shift = 0.0 if of == 1 else width * (number / (of - 1) - 0.5)
    return np.arange(1.0, len(scree.values) + 1.0) + np.float64(shift)


def _component_ticks(axes: Axes, screes: tuple[ReleasedScree, ...]) -> None:
    components = max(len(scree.values) for scree in screes)
    axes.set_xticks(range(1, components + 1, 1 + (components - 1) // 10))
    open_sides(axes)
