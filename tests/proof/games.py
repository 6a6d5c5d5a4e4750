"""Mechanisms of few answers with exact laws, and games: each is picked after the answers before.

A mechanism has a law under one input and a law under its neighbour. A game is enumerated: the
joint laws of all its answers, and from them the true delta at any epsilon.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.special import ndtr

from accountant.losses import ApproximateLoss, GaussianLoss, Loss, PureLoss

Law = np.ndarray
FARTHEST = 5  # standard deviations from the middle: beyond there is one cell on either side


@dataclass(frozen=True)
class Mechanism:
    """What it states, and the probabilities of its answers under either input."""

    loss: Loss
    first: Law
    second: Law

    @property
    def laws(self) -> tuple[Law, Law]:
        return self.first, self.second


@dataclass(frozen=True)
class History:
    """Answers so far, how likely they are under either input, and what was stated for them."""

    answers: tuple[int, ...] = ()
    first: float = 1.0
    second: float = 1.0
    losses: tuple[Loss, ...] = ()

    @property
    def told(self) -> bool:
        """Whether nothing is left to learn."""
        return self.first == 0 or self.second == 0


def vote(epsilon: Fraction) -> Mechanism:
    """Randomised response."""
    true = 1 / (1 + np.exp(-float(epsilon)))
    law = np.array([true, 1 - true])
    return Mechanism(PureLoss(epsilon=epsilon), law, law[::-1])


def undecided_vote(epsilon: Fraction) -> Mechanism:
    """Randomised response with a third answer that either input gives as often."""
    odds = np.exp(float(epsilon))
    law = np.array([odds, 1, 1]) / (odds + 2)
    return Mechanism(PureLoss(epsilon=epsilon), law, law[[1, 0, 2]])


def truth(epsilon: Fraction, delta: Fraction) -> Mechanism:
    """The truth with probability delta, else randomised response."""
    told, voted = float(delta), (1 - float(delta)) * vote(epsilon).first
    return Mechanism(
        ApproximateLoss(epsilon=epsilon, delta=delta),
        np.array([told, 0, *voted]),
        np.array([0, told, *voted[::-1]]),
    )


def lattice(mu: Fraction, offset: float = 0.0, width: float = 0.5) -> Mechanism:
    """Normals mu apart, of which only the cell is told: exactly mu-GDP, as post-processing."""
    return _normals(mu, (np.arange(-FARTHEST / width, FARTHEST / width + 1) + offset) * width)


def best_test(mu: Fraction, epsilon: float) -> Mechanism:
    """Normals mu apart, of which only is told whether the first is likelier by e^epsilon."""
    return _normals(mu, np.array([epsilon / float(mu)]))


def leaking(mechanism: Mechanism, leak: Fraction) -> Mechanism:
    """Laws within `leak` of these, as far apart as they can be.

    The first tells that it is the first, instead of its least telling answers; the second tells
    that it is the second, instead of the answers that tell most of the first.
    """
    assert isinstance(mechanism.loss, GaussianLoss)
    return Mechanism(
        mechanism.loss.model_copy(update={"leak": leak}),
        np.array([float(leak), 0, *_lessened(mechanism.first, float(leak))]),
        np.array([0, float(leak), *_lessened(mechanism.second[::-1], float(leak))[::-1]]),
    )


def joint_laws(pick: Callable[[History], Mechanism | None], turns: int) -> tuple[Law, Law]:
    """Of all answers of a game of at most this many turns; None ends it sooner."""
    firsts, seconds, unfinished = [], [], [History()]
    while unfinished:
        history = unfinished.pop()
        mechanism = None if history.told else pick(history)
        if mechanism is None:
            firsts.append(np.array([history.first]))
            seconds.append(np.array([history.second]))
            continue
        first, second = history.first * mechanism.first, history.second * mechanism.second
        if len(history.answers) + 1 == turns:
            firsts.append(first)
            seconds.append(second)
            continue
        losses = (*history.losses, mechanism.loss)
        unfinished += [
            History((*history.answers, answer), float(p), float(q), losses)
            for answer, (p, q) in enumerate(zip(first, second, strict=True))
        ]
    return np.concatenate(firsts), np.concatenate(seconds)


def true_delta(laws: tuple[Law, Law], epsilon: float) -> float:
    """The smallest delta at this epsilon, in either direction."""
    first, second = laws
    odds = np.exp(epsilon)
    return float(max(np.maximum(p - odds * q, 0).sum() for p, q in (laws, (second, first))))


def total_variation(law: Law, other: Law) -> float:
    return float(np.abs(law - other).sum() / 2)


def _normals(mu: Fraction, edges: Law) -> Mechanism:
    half = float(mu) / 2
    return Mechanism(GaussianLoss(mu=mu), _cells(edges - half), _cells(edges + half))


def _cells(edges: Law) -> Law:
    """The probabilities of a standard normal between edges, before the first and after the last."""
    ends = np.array([-np.inf, *edges, np.inf])
    low, high = ends[:-1], ends[1:]
    above = low > 0  # there the tail keeps its digits
    return np.where(above, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low))


def _lessened(law: Law, by: float) -> Law:
    """The law without this much probability, taken from its first answers."""
    return np.diff((np.cumsum(law) - by).clip(min=0), prepend=0.0)
