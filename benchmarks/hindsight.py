"""The clipped mean with the best constant in hindsight: a mark to compare with, not a release.

One constant for all components, pairs on a ring of degree 16, all of mu on the noise. The constant
is the best of a grid, found on the same runs against the truth; the noise comes from NumPy.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from accountant.gaussian import gaussian_mu
from benchmarks.families import Generator
from dppca_odp.values import Floats

DEGREE = 16
#: Clipping bounds, as multiples of the largest eigenvalue.
GRID = np.geomspace(0.3, 1000, 20)


def clipped_means(table: Floats, bounds: Floats, rng: Generator) -> Floats:
    """Means of min(w, C) over the ring: a row for each bound, a column for each component."""
    ring = table[rng.permutation(len(table))]
    degree = min(DEGREE, (len(table) - 1) // 2 * 2)
    shifts = range(1, degree // 2 + 1)
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
