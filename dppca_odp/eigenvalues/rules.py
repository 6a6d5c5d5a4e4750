"""The rules of the adaptive method: from released numbers to cutoffs, means and flags.

They see no data and cost nothing. Octaves and tails come as shares of all pairs, with the standard
deviation of the noise in them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from dppca_odp.earlier import TOLD_FROM_ZERO
from dppca_odp.eigenvalues.matching import Matched
from dppca_odp.eigenvalues.method import NORMAL_95, Estimate
from dppca_odp.eigenvalues.shape import (
    cutoff_of_tail,
    growth_of_clipped_mean,
    tail_share,
    variance_of_clipped_mean,
)
from dppca_odp.flags import Flag, sentences
from dppca_odp.primitives.octaves import OCTAVES, UPPER_ENDS
from dppca_odp.primitives.sums import FULL_UNITS, allocated_units
from dppca_odp.values import LARGEST_BOUND, Floats, Integers

# --- cutoffs, in scales ----------------------------------------------------------------------
TAIL_COUNTS = 3
LEAST_CUTOFF = 4.0
ROBUST_CUTOFF = 3.0
#: A count is a tail from so many noise standard deviations on.
CLEAR = 4.0
#: A tail that reaches this many doublings beyond the cutoff of a Gaussian component is heavy.
HEAVY = 4
#: Beyond so many scales a component's own octaves are searched for rare large values.
FAR = 64.0
WINDOWS = (1, 2, 3, 4, 6, 8, 12)
#: The noise of a mean of which rare large values are the most, as a share of it.
LEAST_RARE_NOISE, MOST_NOISE = 0.15, 0.5

# --- means -----------------------------------------------------------------------------------
#: Noise grows with the range to this power, yet relative to the range it is at most so many times
#: that of the widest.
NOISE_EXPONENT, MOST_NOISE_RATIO = 0.75, 4
#: Of the range: a mean above it was clipped too low.
SATURATED = 0.6


# --- 1. rare large values -------------------------------------------------------------------


class Rare(NamedTuple):
    """Rare large values: what they add to a mean, at least, and where they seem to end."""

    mean: float
    end: float

    def cutoff(self, noise: float) -> float:
        """Where they end, but as far out as noise, that of a mean up to 1, stays small."""
        least, most = (part * self.mean / noise for part in (LEAST_RARE_NOISE, MOST_NOISE))
        return min(max(self.end, least), most, LARGEST_BOUND)


def find_rare(shares: Floats, noise: float, scale: float) -> Rare | None:
    """The clearest window of octaves beyond 64 scales, if it is clear enough.

    A false window at 2^j scales would let noise grow by 2^j, so it must be rarer by 4^j.
    """
    if not scale:
        return None
    starts, lengths = windows()
    totals = np.concatenate([[0.0], np.cumsum(shares)])
    signals = (totals[starts + lengths] - totals[starts]) / (noise * np.sqrt(lengths))
    doublings = np.log2(UPPER_ENDS[starts + lengths - 1] / scale)
    needed = np.sqrt(3 + 4 * math.log(2) * np.maximum(doublings, 0))
    clear = (UPPER_ENDS[starts] / 2 >= FAR * scale) & (signals >= needed)
    if not clear.any():
        return None
    best = int(np.where(clear, signals, 0).argmax())
    window = slice(int(starts[best]), int(starts[best] + lengths[best]))
    ends, mass = UPPER_ENDS[window], shares[window]
    beyond = np.cumsum(mass[::-1])[::-1] / np.sqrt(np.arange(len(mass), 0, -1))
    last = np.flatnonzero(beyond >= 2 * noise).max(initial=0)  # where there still is mass
    middle = 0.72 * ends[: last + 1]
    return Rare(mean=max(scale, float(mass[: last + 1] @ middle)), end=float(ends[last]))


@lru_cache(maxsize=1)
def windows() -> tuple[Integers, Integers]:
    """Starts and lengths of all windows of octaves, the lowest left out: it holds zeros."""
    pairs = [(start, of) for of in WINDOWS for start in range(1, OCTAVES - of + 1)]
    starts, lengths = np.array(pairs).T
    return starts, lengths


# --- 2. tail ---------------------------------------------------------------------------------


class Tail(NamedTuple):
    """The cutoff of components without rare large values, in scales."""

    cutoff: float
    doublings: int
    """How far beyond that of a Gaussian component the tail reaches."""


def find_tail(
    look: Callable[[Floats], tuple[float, float]],
    scales: Floats,
    *,
    noise: float,
    mean_noise: float,
) -> Tail:
    """The least of seven cutoffs, each twice the one before, that few enough pairs are beyond.

    ``look`` tells the share beyond cutoffs, and its noise. A component whose scale is 0 takes no
    part. ``noise`` is that of a mean of values up to 1, were all of mu spent on it; ``mean_noise``
    is that of the mean to come.
    """
    candidates = gaussian_cutoff(noise) * 2.0 ** np.arange(2**TAIL_COUNTS - 1)
    taking_part = scales > 0
    low, high = 0, len(candidates)
    while low < high:
        at = (low + high) // 2
        share, share_noise = look(np.where(taking_part, candidates[at] * scales, np.inf))
        expected = min(1.0, taking_part.sum() * float(tail_share(candidates[at])))
        if share > CLEAR * share_noise + 2 * expected:
            low = at + 1
        else:
            high = at
    cutoff = float(candidates[min(low, len(candidates) - 1)])
    return Tail(kept_cutoff(cutoff, scales, mean_noise), low)


def gaussian_cutoff(noise: float) -> float:
    """Where Gaussian columns are clipped, in scales: what lies beyond is less than noise."""
    return max(LEAST_CUTOFF, cutoff_of_tail(min(0.5, 7.5 * noise)))


def kept_cutoff(cutoff: float, scales: Floats, mean_noise: float) -> float:
    """The cutoff, unless noise would be above half of the scales, in Euclidean norm."""
    norm = float(np.linalg.norm(scales))
    most = MOST_NOISE / mean_noise * norm / scales.sum() if norm else cutoff
    return max(LEAST_CUTOFF, min(cutoff, most))


# --- 3. mean ---------------------------------------------------------------------------------


def units_of(cutoffs: Floats) -> Integers:
    """Integer units of each mean: its noise in data units is the cutoff over them."""
    least = np.where(cutoffs > 0, FULL_UNITS // MOST_NOISE_RATIO, 0)
    return np.maximum(allocated_units(cutoffs, NOISE_EXPONENT), least)


def read(
    means: Floats,
    noise: Floats,
    cutoffs: Floats,
    tail: Tail,
    *,
    rare: Sequence[int],
    matched: Matched,
) -> Estimate:
    """Variances from clipped means, the noise that is left in them, and what to know of them.

    ``rare``: the components of rare large values.
    """
    is_rare = np.isin(np.arange(len(means)), rare)
    in_bulk = (cutoffs > 0) & ~is_rare

    def variances(clipped: Floats) -> Floats:
        corrected = variance_of_clipped_mean(clipped, cutoffs)
        return np.where(is_rare, np.maximum(clipped, 0.0), corrected)

    values = variances(means)
    growth = np.ones_like(values)
    corrected = in_bulk & (values > 0)
    growth[corrected] = growth_of_clipped_mean(cutoffs[corrected] / values[corrected])
    raised = {
        Flag.NOT_FOUND: cutoffs == 0,
        Flag.RARE_LARGE_VALUES: is_rare,
        Flag.HEAVY_TAIL: in_bulk & (tail.doublings >= HEAVY),
        Flag.UNCLEAR: in_bulk & matched.unclear,
        Flag.MIXED: in_bulk & matched.mixed,
        Flag.SATURATED: in_bulk & (means > SATURATED * cutoffs),
        Flag.AT_ZERO: (cutoffs > 0) & (means < TOLD_FROM_ZERO * noise),
    }
    flags = tuple(
        tuple(flag for flag, where in raised.items() if where[component])
        for component in range(len(values))
    )
    reach = NORMAL_95 * noise
    return Estimate(
        values=values,
        noise_scales=noise / growth,
        lower=np.zeros(len(values)),
        upper=cutoffs,
        warnings=tuple(sentences(flags)),
        flags=flags,
        own_interval=(variances(means - reach), variances(means + reach)),
        bulk=np.where(matched.unclear, 0.0, matched.scales),
    )
