"""What half squared differences of a Gaussian column look like: its octaves, tail, clipped mean.

With variance 1 they are chi-squared with one degree of freedom; everything here is public.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.special import chdtr, chdtrc, chdtri

from dppca_odp.primitives.octaves import UPPER_ENDS
from dppca_odp.values import Floats

PER_OCTAVE = 4
#: Scales to choose from.
SCALES: Floats = np.exp2(np.arange(-120, 120 + 1 / PER_OCTAVE, 1 / PER_OCTAVE))


@lru_cache(maxsize=1)
def octaves_at_scales() -> Floats:
    """The shares of the octaves, a row of Euclidean norm 1 for each scale."""
    ends = UPPER_ENDS / SCALES[:, None]
    shares = tail_share(ends / 2) - tail_share(ends)
    shares[:, 0] = 0.0  # the lowest octave holds zeros
    norms: Floats = np.linalg.norm(shares, axis=1, keepdims=True)
    return shares / norms


def tail_share(cutoffs: Floats | float) -> Floats:
    """The part above a cutoff."""
    return np.asarray(chdtrc(1.0, np.asarray(cutoffs, dtype=np.float64)), dtype=np.float64)


def cutoff_of_tail(share: float) -> float:
    """The cutoff with this part above it."""
    return float(chdtri(1.0, share))


def variance_of_clipped_mean(means: Floats, cutoffs: Floats) -> Floats:
    """The variance at which min(w, cutoff) has this mean; between 0 and the cutoff.

    That is the root v of v G(cutoff / v) = mean, G(c) = E min(chi-squared_1, c).
    """
    ratios, cuts = _clipped_ratios()
    share = np.divide(means, cutoffs, out=np.zeros_like(means), where=cutoffs > 0)
    cut = np.interp(-share, -ratios, cuts)
    variance = np.where(share < ratios[-1], means, cutoffs / cut)  # far out nothing is clipped
    return np.where(means <= 0, 0.0, np.minimum(variance, cutoffs))


def growth_of_clipped_mean(cutoffs: Floats) -> Floats:
    """How the mean of min(w, cutoff) grows with the variance, at variance 1."""
    return np.asarray(chdtr(3.0, cutoffs), dtype=np.float64)


@lru_cache(maxsize=1)
def _clipped_ratios() -> tuple[Floats, Floats]:
    """G(c) / c, which falls from 1 to 0, and c."""
    cuts = np.geomspace(1e-3, 1e4, 40_001)
    return (growth_of_clipped_mean(cuts) + cuts * tail_share(cuts)) / cuts, cuts
