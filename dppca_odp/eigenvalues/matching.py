"""The first rule of the adaptive method: where components lie, from noisy octaves alone.

Evidence is a Bayes factor: how much likelier components make the noisy octaves than noise alone
does, averaged over a prior. Under noise alone its mean is 1 whatever the prior, so it reaches
``LEAST_EVIDENCE`` in at most one of so many searches (Markov's inequality). A wrong prior makes the
rule miss scales; it cannot make noise alone pass more often.

The prior: one window of octaves, at any place; each component in it with probability 0.9, at any
place there, or anywhere at all, or noise alone, with 0.05 each; as clear as a Gaussian one, or
less. Evidence of components in one window multiplies: weak ones near each other are found together,
where none would be alone. Which of them are in the window is then decided by posterior probability,
and not by that bound: what may be noise alone is called unclear.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.special import logsumexp, ndtr

from dppca_odp.eigenvalues.shape import PER_OCTAVE, SCALES, octaves_at_scales
from dppca_odp.values import Booleans, Floats

#: Of all components together, for some to count as found.
LEAST_EVIDENCE = 10_000
#: Octaves that a window may have, and the probability of a component to be in it.
WINDOW_OCTAVES, IN_WINDOW = (4, 8, 16), 0.9
#: Euclidean norm of the shares of a Gaussian component's octaves.
GAUSSIAN_NORM = 0.33
#: The probability of a weaker signal than a Gaussian component's, in a first pass and in a second
#: over what it left: a half, a quarter and so on, down to so many standard deviations of the noise.
#: Where not even a half is that clear, both passes would be one.
NOT_GAUSSIAN, LEAST_SIGNAL = (0.01, 0.5), 3.0
#: What averaging over places takes from the logarithm of evidence, of each component and of all:
#: fitted to simulations.
OF_EACH, OF_ALL = 0.8, 4.0
#: The least posterior probability to be in the window of what is found, and the most to be noise
#: alone of what is clear.
LEAST_PRESENCE, MOST_DOUBT = 0.5, 0.001
#: Of the pairs: a component of which fewer look Gaussian at its scale is mixed.
MIXED = 0.5

_POSITIONS: Floats = np.log2(SCALES)


class Matched(NamedTuple):
    """What the octaves tell of each component."""

    scales: Floats
    """0 if none was found."""
    unclear: Booleans
    """Noise alone with more than one in 1,000: found thanks to the others."""
    mixed: Booleans
    """Fewer than half of its pairs look Gaussian."""


def match_scales(octaves: Floats, noise: float) -> Matched:
    """The scales of components, from the shares of pairs in their octaves: a window at a time."""
    signals = octaves @ octaves_at_scales().T / noise
    full = GAUSSIAN_NORM / noise
    scales, doubt = np.zeros((2, len(octaves)))
    for not_gaussian in NOT_GAUSSIAN if full >= 2 * LEAST_SIGNAL else NOT_GAUSSIAN[:1]:
        evidence = _evidence(signals, full, not_gaussian)
        while (left := np.flatnonzero(scales == 0)).size:
            window = _search(evidence[left])
            found = window.presence >= LEAST_PRESENCE
            if window.evidence < math.log(LEAST_EVIDENCE) or not found.any():
                break
            scales[left[found]] = np.exp2(window.positions[found])
            doubt[left[found]] = window.doubt[found]
    return Matched(
        scales=scales,
        unclear=doubt > MOST_DOUBT,
        mixed=(signals.max(axis=1) + 2) * noise / GAUSSIAN_NORM < MIXED,
    )


def _evidence(signals: Floats, full: float, not_gaussian: float) -> Floats:
    """Logarithms of the likelihood ratio of a component at each scale to noise alone.

    For a signal z of mean s it is s z - s^2 / 2; averaged over s, ``full`` for a Gaussian one.
    """
    halvings = max(0, int(math.log2(max(full, LEAST_SIGNAL) / LEAST_SIGNAL)))
    weights = [1 - not_gaussian, *[not_gaussian / halvings] * halvings] if halvings else [1.0]
    strengths = full * 0.5 ** np.arange(halvings + 1)
    each = np.multiply.outer(strengths, signals) - strengths[:, None, None] ** 2 / 2
    return logsumexp(each, axis=0, b=np.array(weights)[:, None, None])


class _Window(NamedTuple):
    """The best window and those that overlap it, averaged by their evidence."""

    evidence: float
    """The logarithm of its average over all windows."""
    presence: Floats
    """Posterior probability of each component to be in the window."""
    doubt: Floats
    """Posterior probability of noise alone."""
    positions: Floats
    """The mean logarithm, to base 2, of its scale if it is there."""


def _search(evidence: Floats) -> _Window:
    nowhere = math.log((1 - IN_WINDOW) / 2)
    anywhere = logsumexp(evidence, axis=1, keepdims=True) - math.log(evidence.shape[1])
    not_there = nowhere + np.logaddexp(0, anywhere)
    windows: list[tuple[Floats, ...]] = []
    for octaves in WINDOW_OCTAVES:
        places, step = octaves * PER_OCTAVE + 1, octaves * PER_OCTAVE // 4
        inside = sliding_window_view(evidence, places, axis=1)[:, ::step]
        at = sliding_window_view(_POSITIONS, places)[::step]
        one = logsumexp(inside, axis=2)
        there = math.log(IN_WINDOW / places) + one
        either = np.logaddexp(not_there, there)
        means = (np.exp(inside - one[..., np.newaxis]) * at).sum(axis=2)
        total = either.sum(axis=0) - math.log(len(WINDOW_OCTAVES) * len(at))
        windows.append((at[:, 0], at[:, -1], total, np.exp(there - either), either, means))
    low, high, total, present, either, means = (
        np.concatenate(parts, axis=-1) for parts in zip(*windows, strict=True)
    )
    best = total.argmax()
    near = (low <= high[best]) & (high >= low[best])
    weights = np.where(near, np.exp(total - total[best]), 0.0)
    weights /= weights.sum()
    presence = present @ weights
    return _Window(
        evidence=float(logsumexp(total)),
        presence=presence,
        doubt=np.exp(nowhere - either) @ weights,
        positions=(present * means) @ weights / np.maximum(presence, 1e-300),
    )


def full_signal(noise: float, components: int) -> float:
    """Of a Gaussian component at its own scale, were all of mu spent on its octaves."""
    return GAUSSIAN_NORM / (noise * math.sqrt(2 * components))


def chance_of_scales(signal: float, components: int) -> float:
    """That all are found, if they are Gaussian and near each other: an approximation.

    The evidence of each is near normal.
    """
    mean = signal**2 / 2 - OF_EACH
    together = components * mean - math.log(LEAST_EVIDENCE) - OF_ALL
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
