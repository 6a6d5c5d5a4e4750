"""The privacy picture: the curve of a total, and what an attacker's tests can reach."""

from __future__ import annotations

import math
from fractions import Fraction
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from accountant.amounts import show_delta_up, show_up
from accountant.readings import Reading
from dppca_odp.plots.style import GREY, colour, new_figure, open_sides
from dppca_odp.values import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dppca_odp.plots.display import Picture

LEAST_DELTA = 1e-13
#: Numbers of colours: a light one below a dark one, told apart in grey.
TOTAL, MU = 5, 1
POINTS = 200
RATES = 800
FARTHEST = 60.0  # an epsilon that is drawn


def plot_privacy(reading: Reading, title: str, delta: Fraction) -> Picture:
    """Delta against epsilon, this delta marked; true against false positives of the best tests.

    Raises:
        ValueError: the curve has no point at this delta.
    """
    marked = [point.epsilon for point in reading.curve if point.delta == delta]
    if not marked:
        raise ValueError(
            f"delta must be one of the curve's; got {show_delta_up(delta)}. Read the total with it."
        )
    figure = new_figure(8, 4.2, title, _caption(reading))
    curve, tests = figure.subplots(1, 2)
    epsilons = _epsilons(reading)
    deltas = np.array([reading.delta(epsilon) for epsilon in epsilons])
    _draw_curve(curve, epsilons, deltas)
    _mark(curve, marked[0], delta)
    _draw_tests(tests, reading, epsilons, deltas)
    return figure


def _epsilons(reading: Reading) -> Floats:
    """From 0 to a little beyond the last of the curve, its own points included."""
    known = [point.epsilon for point in reading.curve if point.epsilon < FARTHEST]
    last = 1.1 * max(known, default=0.0) or 1.0
    return np.unique([*np.linspace(0.0, last, POINTS), *known])


def _draw_curve(axes: Axes, epsilons: Floats, deltas: Floats) -> None:
    shown = np.maximum(deltas, LEAST_DELTA / 10)  # a logarithm needs more than zero
    axes.semilogy(epsilons, shown, color=colour(TOTAL), linewidth=3)
    axes.set(xlabel="epsilon", ylabel="delta", xlim=(0, epsilons[-1]), ylim=(LEAST_DELTA, 1.0))
    open_sides(axes)


def _mark(axes: Axes, epsilon: float, delta: Fraction) -> None:
    """A dot where the curve has this delta, or a line alone if it has no such epsilon."""
    if delta > 0:
        axes.axhline(float(delta), color=GREY, linewidth=1.2, linestyle=":")
    if epsilon < math.inf:
        height = max(float(delta), LEAST_DELTA)
        axes.plot([epsilon], [height], color=colour(MU), marker="o", clip_on=False, zorder=3)
    shown = f"epsilon {show_up(Fraction(epsilon))}" if epsilon < math.inf else "no epsilon"
    axes.set_title(f"{shown} at delta {show_delta_up(delta)}", fontsize=9)


def _draw_tests(axes: Axes, reading: Reading, epsilons: Floats, deltas: Floats) -> None:
    rates = np.array([NormalDist().cdf(z) for z in np.linspace(-5, 5, RATES + 1)])
    of_total = _true_positive_rates(rates, epsilons, deltas)
    axes.plot(rates, of_total, color=colour(TOTAL), linewidth=3, label="the total")
    if reading.mu < math.inf:
        axes.plot(
            rates, _rates_of_mu(rates, reading), color=colour(MU), linewidth=1.4, linestyle="--",
            label=f"Gaussian mu {show_up(Fraction(reading.mu))}",
        )  # fmt: skip
    axes.plot([0, 1], [0, 1], color=GREY, linewidth=1.2, linestyle=":", label="guessing")
    axes.set(xlabel="false-positive rate", ylabel="true-positive rate", xlim=(0, 1), ylim=(0, 1))
    axes.set_title("the most that an attacker's test can reach", fontsize=9)
    axes.set_aspect("equal")
    axes.legend(frameon=False, fontsize=8, loc="lower right")
    open_sides(axes)


def _true_positive_rates(rates: Floats, epsilons: Floats, deltas: Floats) -> Floats:
    """The most that tests reach at these false-positive rates: the lowest of all tangents.

    Each (epsilon, delta) gives one, and, as either table can be the first, its mirror image.
    """
    odds = np.exp(epsilons)
    slopes = np.concatenate([odds, 1 / odds])
    heights = np.concatenate([deltas, 1 - (1 - deltas) / odds])
    lowest = np.min(heights[:, None] + slopes[:, None] * rates, axis=0)
    return np.asarray(np.minimum(lowest, 1.0), dtype=np.float64)


def _rates_of_mu(rates: Floats, reading: Reading) -> Floats:
    """What the dominating mu allows, with what it does not cover."""
    normal, leak = NormalDist(), float(reading.leak)
    beside = float(reading.uncovered) + leak
    return np.array(
        [
            min(normal.cdf(normal.inv_cdf(rate + leak) + reading.mu) + beside, 1.0)
            if rate + leak < 1
            else 1.0
            for rate in rates
        ]
    )


def _caption(reading: Reading) -> str:
    """The mu, what it leaves out and how loosely it says it; then the advantage."""
    advantage = f"advantage at most {_in_short(reading.risk.advantage)}"
    if math.isinf(reading.mu):
        return f"no mu dominates; {advantage}"
    beside = [
        *([f"a probability of {show_delta_up(reading.uncovered)}"] if reading.uncovered else []),
        *([f"a total variation of {show_delta_up(reading.leak)}"] if reading.leak else []),
    ]
    return (
        f"mu {show_up(Fraction(reading.mu))} dominates"
        f"{', but for ' if beside else ''}{' and '.join(beside)}; "
        f"looseness {_in_short(reading.looseness)}; {advantage}"
    )


def _in_short(share: float) -> str:
    """A share in percent, rounded up in the second decimal."""
    return f"{math.ceil(1e4 * share) / 100:g} %"
