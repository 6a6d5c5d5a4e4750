"""The first rule of the adaptive method: where components lie, from noisy octaves alone.

Evidence for something is how much likelier it makes the octaves than noise alone does. Before the
octaves are seen it is 1 in the mean, whatever is averaged over; so noise alone reaches ``ENOUGH``
at most once in ``ENOUGH`` looks (Markov's inequality).

Averaged over: the window of octaves that holds the scales of most components, at all places; the
place of each component in it; whether it is there; whether it is as clear as a Gaussian one. Weak
components that lie near each other are so found together, where none would be alone.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view
from scipy.special import logsumexp, ndtr

from dppca_odp.eigenvalues.shape import PER_OCTAVE, SCALES, octaves_at_scales
from dppca_odp.values import Floats

Flags = npt.NDArray[np.bool_]

#: Of scales that count as found.
ENOUGH = 10_000
#: Octaves that a window may have, and the probability of a component to be in it.
WINDOWS, IN_WINDOW = (4, 8, 16), 0.9
#: Euclidean norm of the shares of a Gaussian component's octaves.
SIGNAL = 0.33
#: Others have smaller signals: a half, a quarter and so on, down to this many standard deviations
#: of the noise. So probable is that, among those near each other and then among the rest.
LEAST_SIGNAL, NOT_GAUSSIAN = 3.0, (0.01, 0.5)
#: Logarithms of how many places there are for a component in its window, and for the window.
PLACES, TOGETHER = 0.8, 4.0
#: The probability to be in the window that makes a component found, and beyond doubt.
FOUND, CLEAR = 0.5, 0.999
#: Of the pairs: a component of which fewer look Gaussian at its scale is mixed.
MIXED = 0.5

_POSITIONS: Floats = np.log2(SCALES)


class Matched(NamedTuple):
    """What the octaves tell of each component."""

    scales: Floats
    """0 if none was found."""
    unclear: Flags
    """Found thanks to others near it."""
    mixed: Flags
    """Fewer than half of its pairs look Gaussian."""


def match_scales(octaves: Floats, noise: float) -> Matched:
    """The scales of components, from the shares of pairs in their octaves.

    Those that lie together are found together; then the rest is searched alike.
    """
    signals = octaves @ octaves_at_scales().T / noise
    scales, presence = np.zeros((2, len(octaves)))
    for not_gaussian in NOT_GAUSSIAN:
        evidence = _evidence(signals, SIGNAL / noise, not_gaussian)
        while (left := np.flatnonzero(scales == 0)).size:
            window = _search(evidence[left])
            found = window.presence >= FOUND
            if window.evidence < math.log(ENOUGH) or not found.any():
                break
            scales[left[found]] = np.exp2(window.positions[found])
            presence[left[found]] = window.presence[found]
    return Matched(
        scales=scales,
        unclear=(scales > 0) & (presence < CLEAR),
        mixed=(signals.max(axis=1) + 2) * noise / SIGNAL < MIXED,
    )


def _evidence(signals: Floats, full: float, not_gaussian: float) -> Floats:
    """Its logarithm for a component at each scale; a Gaussian one has the signal ``full``."""
    halvings = max(0, int(math.log2(max(full, LEAST_SIGNAL) / LEAST_SIGNAL)))
    weights = [1 - not_gaussian, *[not_gaussian / halvings] * halvings] if halvings else [1.0]
    strengths = full * 0.5 ** np.arange(halvings + 1)
    each = np.multiply.outer(strengths, signals) - strengths[:, None, None] ** 2 / 2
    return logsumexp(each, axis=0, b=np.array(weights)[:, None, None])


class _Window(NamedTuple):
    """Averages over all windows, each by its evidence."""

    evidence: float
    """Its logarithm."""
    presence: Floats
    """The probability of each component to be in the window."""
    positions: Floats
    """The mean logarithm, to base 2, of its scale if it is."""


def _search(evidence: Floats) -> _Window:
    totals, presences, positions = [], [], []
    for octaves in WINDOWS:
        places, step = octaves * PER_OCTAVE + 1, octaves * PER_OCTAVE // 4
        inside = sliding_window_view(evidence, places, axis=1)[:, ::step]
        one = logsumexp(inside, axis=2)
        there = math.log(IN_WINDOW / places) + one
        either = np.logaddexp(math.log(1 - IN_WINDOW), there)
        totals.append(either.sum(axis=0) - math.log(len(WINDOWS) * either.shape[1]))
        presences.append(np.exp(there - either))
        at = sliding_window_view(_POSITIONS, places)[::step]
        positions.append((np.exp(inside - one[..., np.newaxis]) * at).sum(axis=2))
    total = np.concatenate(totals)
    altogether = float(logsumexp(total))
    weights = np.concatenate(presences, axis=1) * np.exp(total - altogether)
    presence = weights.sum(axis=1)
    mean = (weights * np.concatenate(positions, axis=1)).sum(axis=1)
    return _Window(altogether, presence, mean / np.maximum(presence, 1e-300))


def full_signal(noise: float, components: int) -> float:
    """Of a Gaussian component at its own scale, were all of mu spent on its octaves."""
    return SIGNAL / (noise * math.sqrt(2 * components))


def chance_of_scales(signal: float, components: int) -> float:
    """That all are found, if they are Gaussian and near each other: an approximation.

    The evidence of each is near normal.
    """
    mean = signal**2 / 2 - PLACES
    together = components * mean - math.log(ENOUGH) - TOGETHER
    found = float(ndtr(together / (signal * math.sqrt(components))))
    each = float(ndtr((mean + math.log(IN_WINDOW / (1 - IN_WINDOW))) / signal))
    return found * each**components


@lru_cache(maxsize=256)
def least_signal(chance: float, components: int) -> float:
    """At which all are found with this chance."""
    low, high = 0.5, 20.0
    for _ in range(50):
        middle = (low + high) / 2
        is_enough = chance_of_scales(middle, components) >= chance
        low, high = (low, middle) if is_enough else (middle, high)
    return high
