"""The clipped mean with the best constant in hindsight: a mark to compare with, not a release.

One constant for all components, pairs on a ring of degree 16, all of mu on the noise. The constant
is the best of a grid, found on the same runs against the truth; the noise comes from NumPy.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from accountant.gaussian import gaussian_mu
from benchmarks.families import Generator
from dppca_odp.primitives.pairs import ring_degree
from dppca_odp.values import Floats

DEGREE = 16
#: Clipping bounds, as multiples of the largest eigenvalue.
GRID = np.geomspace(0.3, 1000, 20)


@dataclass(frozen=True)
class Oracle:
    """What is known of one table: its clipped means with each constant of the grid."""

    bounds: Floats
    means: Floats
    rows: int
    rng: Generator

    @classmethod
    def of(cls, table: Floats, largest: float, rng: Generator) -> Oracle:
        """Told the largest eigenvalue."""
        bounds = GRID * largest
        return cls(bounds, clipped_means(table, bounds, rng), len(table), rng)

    def answers(self, *, epsilon: str, delta: str) -> Floats:
        """With fresh noise, a row for each constant: the same noise for all, as they scale it."""
        components = self.means.shape[1]
        scales = noise_scales(self.bounds, self.rows, components, epsilon=epsilon, delta=delta)
        noise = self.rng.normal(size=components) * scales[:, None]
        answers: Floats = np.maximum(0, self.means + noise)
        return answers


def clipped_means(table: Floats, bounds: Floats, rng: Generator) -> Floats:
    """Means of min(w, C) over the ring: a row for each bound, a column for each component."""
    ring = table[rng.permutation(len(table))]
    shifts = range(1, ring_degree(len(table), DEGREE) // 2 + 1)
    means = np.zeros((len(bounds), table.shape[1]))
    for shift in shifts:
        squares = 0.5 * (ring - np.roll(ring, shift, axis=0)) ** 2
        for number, bound in enumerate(bounds):
            means[number] += np.minimum(squares, bound).mean(axis=0) / len(shifts)
    return means


def noise_scales(bounds: Floats, rows: int, components: int, *, epsilon: str, delta: str) -> Floats:
    """The standard deviation of the noise of each bound: sqrt(k) 2 C / (n mu)."""
    mu = gaussian_mu(Fraction(epsilon), Fraction(delta))
    scales: Floats = np.sqrt(components) * 2 * bounds / rows / mu
    return scales
