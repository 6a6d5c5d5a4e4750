"""Score pictures: histograms on the square frame, by group, and points drawn from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dppca_odp.flags import about
from dppca_odp.plots.style import MASS_MAP, colour, cost_caption, new_figure, plain
from dppca_odp.releases import Release, ReleasedScores
from dppca_odp.scores.sampling import sample_points
from dppca_odp.values import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

    from dppca_odp.plots.display import Picture

PANELS_ACROSS = 3


def plot_scores(release: Release, name: str) -> Picture:
    """The histogram of one scores release; by group, a panel each and an overlay of all.

    Raises:
        KeyError, ValueError: no such release, or not one of scores.
    """
    scores = _scores(release, name)
    groups = len(scores.groups)
    if groups == 1:
        figure = new_figure(5.6, 5.6, _title(release, scores), _caption(release, scores))
        axes = figure.subplots()
        image = _histogram(axes, scores, np.array(scores.mass[0]), _highest(scores))
        _label(axes, release, scores)
        figure.colorbar(image, ax=axes, label="share of mass", shrink=0.8)
        return figure
    across = 2 if groups + 1 == 4 else min(groups + 1, PANELS_ACROSS)
    down = -(-(groups + 1) // across)
    figure = new_figure(
        2.9 * across + 0.8, 2.9 * down + 0.9, _title(release, scores), _caption(release, scores)
    )
    grid = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True)
    panels = grid.ravel()
    for number, group in enumerate(scores.groups):
        mass = np.array(scores.mass[number])
        image = _histogram(panels[number], scores, mass, _highest(scores))
        empty = " (empty)" if group in scores.empty else ""
        title = plain(f"{scores.label} {group}{empty}")
        panels[number].set_title(title, fontsize=9, color=colour(number))
    _overlay(panels[groups], scores)
    for axes in panels[groups + 1 :]:
        axes.set_visible(False)
    for axes in grid[:, 0]:
        axes.set_ylabel(_axis(release, scores, 1))
    for position in range(across):
        lowest = [axes for axes in grid[:, position] if axes.get_visible()][-1]
        lowest.set_xlabel(_axis(release, scores, 0))
        lowest.tick_params(labelbottom=True)
    figure.colorbar(image, ax=panels[:groups], label="share of the group's mass", shrink=0.8)
    return figure


def plot_points(release: Release, name: str, number: int = 1000, *, seed: int = 0) -> Picture:
    """Synthetic points drawn from the released histogram, ``number`` for each group.

    Raises:
        KeyError, ValueError: no such release, or not one of scores.
    """
    scores = _scores(release, name)
    title = f"Synthetic points, drawn from the private scores of {release.data_set}"
    figure = new_figure(5.6, 5.6, title, _caption(release, scores))
    axes = figure.subplots()
    for position, group in enumerate(scores.groups):
        points = sample_points(scores, number, seed=seed + position, group=group)
        axes.scatter(
            points[:, 0],
            points[:, 1],
            s=5,
            alpha=0.5,
            color=colour(position),
            label=plain(f"{scores.label} {group}{' (empty)' if group in scores.empty else ''}"),
        )
    _square(axes, scores)
    _label(axes, release, scores)
    if len(scores.groups) > 1:
        axes.legend(framealpha=0.8, edgecolor="none", fontsize=8, markerscale=2)
    return figure


def _histogram(axes: Axes, scores: ReleasedScores, mass: Floats, highest: float) -> AxesImage:
    image: AxesImage = axes.imshow(
        mass,
        origin="lower",
        extent=_extent(scores),
        cmap=MASS_MAP,
        vmin=0.0,
        vmax=highest,
        interpolation="nearest",
    )
    _square(axes, scores)
    return image


def _overlay(axes: Axes, scores: ReleasedScores) -> None:
    """All groups at once: each cell tinted by the groups whose mass it holds."""
    from matplotlib.colors import to_rgb

    mass = np.array(scores.mass)
    strength = mass / _highest(scores)
    tints = np.array([to_rgb(colour(number)) for number in range(len(mass))])
    ink = np.einsum("gyx,gc->yxc", strength, 1.0 - tints)
    axes.imshow(
        np.clip(1.0 - ink, 0.0, 1.0),
        origin="lower",
        extent=_extent(scores),
        interpolation="nearest",
    )
    axes.set_title("all groups", fontsize=9)
    _square(axes, scores)


def _square(axes: Axes, scores: ReleasedScores) -> None:
    frame = scores.frame
    axes.set_xlim(frame.x_low, frame.x_high)
    axes.set_ylim(frame.y_low, frame.y_high)
    axes.set_aspect("equal")


def _label(axes: Axes, release: Release, scores: ReleasedScores) -> None:
    axes.set(xlabel=_axis(release, scores, 0), ylabel=_axis(release, scores, 1))


def _axis(release: Release, scores: ReleasedScores, position: int) -> str:
    """The component, and its share if the plan released one on the same directions."""
    component = scores.axes[position]
    told = plain(about([component], release.columns_of(scores)))
    for scree in release.screes:
        if scree.directions == scores.directions != "given":
            return f"{told} ({scree.proportions[component - 1]:.0%} of the k)"
    return told


def _extent(scores: ReleasedScores) -> tuple[float, float, float, float]:
    frame = scores.frame
    return frame.x_low, frame.x_high, frame.y_low, frame.y_high


def _highest(scores: ReleasedScores) -> float:
    """The largest share of any cell of any group: one colour scale for all."""
    return float(np.max(scores.mass)) or 1.0


def _title(release: Release, scores: ReleasedScores) -> str:
    return f"Private scores of {release.data_set}, {scores.histogram} histogram"


def _caption(release: Release, scores: ReleasedScores) -> str:
    """The noise of a cell, then the cost."""
    if scores.threshold is None:
        noise = f"noise of {scores.noise_scale:.3g} rows (sd) in every cell"
    else:
        noise = f"cells below about {scores.threshold} rows are left out"
    return f"{noise}; {cost_caption(release)}"


def _scores(release: Release, name: str) -> ReleasedScores:
    result = release[name]
    if not isinstance(result, ReleasedScores):
        raise ValueError(f"name must be that of a scores release; got {name}. Choose another.")
    return result
