"""What the best adversary reaches under the rule `gaussian`, by exact dynamic programming.

After each answer the adversary knows the likelihood ratio L so far, and what was spent. It spends
a unit of mu squared, on a Gaussian or on a vote (randomised response), or a unit of delta, on the
truth told with that probability, for the largest P(S) - e^epsilon Q(S) in the end.

What it can still reach is a convex function of L, 0 at 0, with slopes from 0 to 1. It is kept at
the points of a grid and read along the chords between them, and with slope 1 beyond: never too
low. The expectation of what is read, after a Gaussian, is exact (Black and Scholes 1973): what is
read, and at each bend of it a value of its own that depends on the distance in log L alone. A vote
moves log L by whole steps of the grid.

How much too high is bounded beside it: in each cell the function lies above the continued chords
of both neighbours. For all L in a cell, a step from there is bounded by one from its lower end
and the worst of three cells. So the value of the best adversary lies between two numbers, up to
what floats lose: less than 1e-4 of them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property

import numpy as np
import pytest
from scipy.signal import fftconvolve
from scipy.special import ndtr

from accountant.amounts import float_below
from accountant.gaussian import gaussian_delta, gaussian_mu, lifted_mu
from accountant.losses import ApproximateLoss, GaussianLoss, PureLoss
from accountant.rules import GaussianRule
from accountant.specs import Budget, GaussianBudget, Stage

Values = np.ndarray
Allowed = Callable[[int, int], bool]

ERROR = 4e-4  # of the grid, of the delta
EXACT = 1e-12  # room for twelve units rounded up in the whole
UNITS = 12  # of mu squared in all, and of delta
CELLS = 1000  # of the grid, from L = 1 to L = e^epsilon
GRANTS = [("1", "1e-6"), ("3", "1e-5"), ("1", "1e-3")]


@dataclass(frozen=True)
class Grid:
    """Likelihood ratios in geometric order: 1, e^epsilon and all that a mu makes likely."""

    epsilon: float
    mu: float

    @property
    def step(self) -> float:
        return self.epsilon / CELLS

    @property
    def start(self) -> int:
        """Where L is 1."""
        return int(7 * self.mu / self.step)

    @property
    def ratios(self) -> Values:
        return np.exp(self.step * np.arange(-self.start, CELLS + self.start + 1))

    def payoff(self) -> Values:
        return np.maximum(self.ratios - self.ratios[self.start + CELLS], 0.0)

    def slopes(self, values: Values) -> Values:
        """From 0 to the first point, between points, and beyond the last."""
        rises = np.diff(values, prepend=0.0) / np.diff(self.ratios, prepend=0.0)
        return np.append(rises, np.ones((len(values), 1)), axis=1)

    def read(self, values: Values, places: np.ndarray) -> Values:
        """At these points of the grid, of which some lie below the first or beyond the last."""
        nearest = places.clip(0, values.shape[1] - 1)
        ratios = np.exp(self.step * (places - self.start))
        below = np.minimum(ratios / self.ratios[nearest], 1.0)
        return below * values[:, nearest] + (ratios - self.ratios[nearest]).clip(min=0.0)

    def gaps(self, values: Values, gaps: Values) -> Values:
        """At each point, how much too high what is read is in the worst of three cells.

        The values at the points are too high themselves, by the other gaps at most.
        """
        bends = np.diff(self.slopes(values)).clip(min=0.0)
        left, right = bends[:, :-1], bends[:, 1:]
        both = np.where(left + right > 0, left + right, 1.0)
        inside = np.diff(self.ratios) * left * right / both + gaps[:, :-1]
        beyond = (values[:, -1:] - self.payoff()[-1]).clip(min=0.0)
        cells = np.concatenate([values[:, :1], inside, beyond, beyond], axis=1)
        return np.max([cells[:, :-2], cells[:, 1:-1], cells[:, 2:]], axis=0)


@dataclass(frozen=True)
class Gaussian:
    """One more answer: the mean over what it makes of L."""

    grid: Grid
    mu: float

    def values(self, values: Values) -> Values:
        """Before it, from those after it."""
        return values + self._more(np.diff(self.grid.slopes(values)))

    def gaps(self, gaps: Values) -> Values:
        """The same for what is constant below the first point and beyond the last."""
        slopes = np.diff(gaps) / np.diff(self.grid.ratios)
        return gaps + self._more(np.diff(slopes, prepend=0.0, append=0.0))

    def _more(self, bends: Values) -> Values:
        """By how much the mean is above what is read: a convolution in log L."""
        last = len(self.grid.ratios) - 1
        parts = fftconvolve(bends * self.grid.ratios, self._kernel[None], axes=1)
        return parts[:, last : 2 * last + 1]

    @cached_property
    def _kernel(self) -> Values:
        """The mean of (L - 1)_+ less (L - 1)_+ itself, at all distances on the grid from L = 1."""
        last = len(self.grid.ratios) - 1
        away = self.grid.step * np.arange(-last, last + 1)
        near, far = (ndtr(-abs(away) / self.mu + side * self.mu / 2) for side in (1, -1))
        return np.exp(away.clip(min=0.0)) * (np.exp(-abs(away)) * near - far)


@dataclass(frozen=True)
class Vote:
    """One more answer that moves log L by so many steps up or down."""

    grid: Grid
    steps: int

    def values(self, values: Values) -> Values:
        """Before it, from those after it."""
        points = np.arange(values.shape[1])
        return self._mean(lambda move: self.grid.read(values, points + move))

    def gaps(self, gaps: Values) -> Values:
        """The same for what is constant below the first point and beyond the last."""
        points = np.arange(gaps.shape[1])
        return self._mean(lambda move: gaps[:, (points + move).clip(0, points[-1])])

    def _mean(self, moved: Callable[[int], Values]) -> Values:
        up = 1 / (1 + np.exp(self.steps * self.grid.step))  # under Q
        return up * moved(self.steps) + (1 - up) * moved(-self.steps)


@dataclass(frozen=True)
class Units:
    """What one move costs: a Gaussian or a vote of this mu at most, or a truth told."""

    gaussian: GaussianLoss
    vote: PureLoss
    truth: ApproximateLoss
    steps: int
    """Of the grid, by which a vote moves log L."""

    @classmethod
    def of(cls, grid: Grid, mu_squared: Fraction, delta: Fraction) -> Units:
        mu = float_below(mu_squared) ** 0.5 * (1 - EXACT)
        steps = bisect_right(range(1, CELLS), mu, key=lambda moved: lifted_mu(moved * grid.step))
        assert steps > 0
        return cls(
            gaussian=GaussianLoss(mu=Fraction(mu)),
            vote=PureLoss(epsilon=Fraction(steps * grid.step)),
            truth=ApproximateLoss(epsilon=Fraction(0), delta=delta * (1 - Fraction(EXACT))),
            steps=steps,
        )


def best(grid: Grid, units: Units, allowed: Allowed) -> tuple[float, float]:
    """What the best adversary reaches lies between these two numbers.

    `allowed`: whether so many units of mu squared and so many of delta may be spent together.
    """
    answers = Gaussian(grid, float(units.gaussian.mu)), Vote(grid, units.steps)
    told, payoff = float(units.truth.delta), grid.payoff()
    never = np.zeros((UNITS + 2, len(payoff)))  # no value is less: a state that is not allowed
    values, gaps = never, never
    for spent in range(UNITS, -1, -1):
        worst = grid.gaps(values, gaps)
        answered = [(answer.values(values), answer.gaps(worst)) for answer in answers]
        values, gaps = never.copy(), never.copy()
        for aside in range(UNITS, -1, -1):
            if allowed(spent, aside):
                moves = [(value[aside], gap[aside]) for value, gap in answered]
                moves.append((payoff, np.zeros_like(payoff)))
                if allowed(spent, aside + 1):
                    kept = (1 - told) * values[aside + 1], (1 - told) * gaps[aside + 1]
                    moves.append((told * grid.ratios + kept[0], kept[1]))
                values[aside], gaps[aside] = np.max(moves, axis=0)
    value, gap = float(values[0, grid.start]), float(gaps[0, grid.start])
    return value - gap, value


def within_the_rule(rule: GaussianRule, units: Units) -> Allowed:
    """What the costs and the capacity of the rule allow."""
    gaussian, vote, truth = (
        rule.cost([Stage(name="unit", budget=rule.budget, losses=(loss,))])
        for loss in (units.gaussian, units.vote, units.truth)
    )
    assert vote.fits_within(gaussian)
    capacity = rule.capacity(rule.budget)

    def allowed(spent: int, aside: int) -> bool:
        used = GaussianBudget.of(spent * gaussian.mu_squared, aside * truth.delta)
        return used.fits_within(capacity)

    assert allowed(UNITS, UNITS)
    assert not allowed(UNITS + 1, 0)
    assert not allowed(0, UNITS + 1)
    return allowed


def moved_later(budget: Budget, units: Units) -> Allowed:
    """What may be spent if nothing is set aside: delta goes to a mu or to a truth, as it comes."""

    @cache
    def allowed(spent: int, aside: int) -> bool:
        mu = float(units.gaussian.mu) * spent**0.5
        return gaussian_delta(mu, budget.epsilon) + aside * units.truth.delta <= budget.delta

    assert allowed(UNITS, 0)
    assert allowed(0, UNITS)
    return allowed


@pytest.mark.parametrize("share", ["1/10", "1/2"])
@pytest.mark.parametrize("grant", GRANTS)
def test_no_adversary_reaches_more_than_the_granted_delta(
    grant: tuple[str, str], share: str
) -> None:
    budget = Budget.of(*grant)
    rule = GaussianRule(budget=budget, set_aside=budget.delta * Fraction(share))
    capacity = rule.capacity(budget)
    grid = Grid(float(budget.epsilon), float(capacity.mu_below))
    units = Units.of(grid, capacity.mu_squared / UNITS, capacity.delta / UNITS)
    low, high = best(grid, units, within_the_rule(rule, units))
    granted = float(budget.delta)
    assert low <= granted
    assert high <= granted * (1 + ERROR)
    assert high - low <= granted * 10 * ERROR
    promised = gaussian_delta(capacity.mu_below, budget.epsilon) + float(capacity.delta)
    assert low >= promised * (1 - 10 * ERROR)


@pytest.mark.parametrize(("grant", "times"), [(GRANTS[0], 1.8), (GRANTS[1], 1.8), (GRANTS[2], 1.7)])
def test_an_adversary_who_may_move_the_aside_later_reaches_nearly_twice_as_much(
    grant: tuple[str, str], times: float
) -> None:
    budget = Budget.of(*grant)
    mu = gaussian_mu(budget.epsilon, budget.delta)
    grid = Grid(float(budget.epsilon), mu)
    units = Units.of(grid, Fraction(mu) ** 2 / UNITS, budget.delta / UNITS)
    low, _ = best(grid, units, moved_later(budget, units))
    assert low > times * float(budget.delta)


@pytest.mark.parametrize("grant", GRANTS)
def test_without_truths_it_is_the_delta_of_the_whole_mu(grant: tuple[str, str]) -> None:
    budget = Budget.of(*grant)
    mu = gaussian_mu(budget.epsilon, budget.delta)
    grid = Grid(float(budget.epsilon), mu)
    units = Units.of(grid, Fraction(mu) ** 2 / UNITS, budget.delta)
    low, high = best(grid, units, lambda spent, aside: spent <= UNITS and aside == 0)
    assert low < float(budget.delta) * (1 - 1e-9) < high
