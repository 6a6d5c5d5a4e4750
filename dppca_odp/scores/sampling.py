"""Synthetic points drawn from a released histogram: post-processing, so they cost nothing.

The seed is that of a simulation, not of any privacy noise: the histogram has left already.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from dppca_odp.releases import ReleasedScores
from dppca_odp.values import Floats


def sample_points(
    scores: ReleasedScores,
    number: int,
    *,
    seed: int,
    group: str | None = None,
    spread: Literal["uniform", "centre"] = "uniform",
    bandwidth: float = 0.0,
) -> Floats:
    """Points (number by 2) with the distribution of one group's histogram.

    Cells are drawn by their mass; inside a cell a point lies anywhere, or at its centre.
    ``bandwidth`` adds a normal deviation in units of the scores. An empty group gives no points.

    Raises:
        ValueError: a negative number or bandwidth, another spread, a group that is not there or
            not chosen.
    """
    if number < 0 or not 0 <= bandwidth < np.inf:
        raise ValueError(
            f"number and bandwidth must not be negative; got {number} and {bandwidth}. "
            "Use 0 or more."
        )
    if spread not in ("uniform", "centre"):
        raise ValueError(f"spread must be uniform or centre; got {spread}. Choose one.")
    if (group is None and len(scores.groups) > 1) or group not in (None, *scores.groups):
        raise ValueError(
            f"group must be one of {', '.join(scores.groups)}; got {group}. Choose one."
        )
    mass = np.array(scores.mass[0 if group is None else scores.groups.index(group)])
    if not mass.any():
        return np.empty((0, 2))
    random = np.random.default_rng(seed)
    up, across = mass.shape
    cells = random.choice(mass.size, size=number, p=mass.ravel() / mass.sum())
    within = random.random((number, 2)) if spread == "uniform" else np.full((number, 2), 0.5)
    frame = scores.frame
    steps = (np.column_stack([cells % across, cells // across]) + within) / (across, up)
    low = np.array([frame.x_low, frame.y_low])
    points = low + steps * (np.array([frame.x_high, frame.y_high]) - low)
    return np.asarray(points + random.normal(0.0, 1.0, (number, 2)) * bandwidth)
