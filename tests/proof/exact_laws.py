"""Small universes of data sets with all their neighbours, and exact laws of the mechanisms.

A data set is a tuple of letter numbers; a result is a tuple of integers (counts or sums). Only
pairs of different results matter, so each is compared once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from functools import cache
from itertools import combinations, permutations, product
from math import exp, factorial, floor, log, prod

import numpy as np
from scipy.stats import chisquare

from dppca_odp.primitives.pairs import Pairing

DataSet = tuple[int, ...]
Result = tuple[int, ...]
Law = tuple[float, ...]

#: A statistical test fails by chance once in a million million runs.
NEVER = 1e-12
#: Relative room for the floats that the laws are computed in.
FLOATS = 1e-9


def data_sets(letters: int, rows: int) -> Iterator[DataSet]:
    return product(range(letters), repeat=rows)


def neighbours(data_set: DataSet, letters: int, changed: int) -> Iterator[DataSet]:
    """Every data set that differs in at most ``changed`` rows."""
    for places in combinations(range(len(data_set)), changed):
        for replacement in data_sets(letters, changed):
            other = list(data_set)
            for place, letter in zip(places, replacement, strict=True):
                other[place] = letter
            yield tuple(other)


def results_of(
    function: Callable[[Sequence], Iterable[int]], alphabet: Sequence, rows: int
) -> dict[DataSet, Result]:
    """What a function answers on every data set of ``rows`` letters."""
    return {
        data_set: tuple(function([alphabet[letter] for letter in data_set]))
        for data_set in data_sets(len(alphabet), rows)
    }


def neighbouring_results(
    results: dict[DataSet, Result], letters: int, changed: int
) -> set[tuple[Result, Result]]:
    """The results of all pairs of data sets that differ in at most ``changed`` rows."""
    return {
        (result, results[other])
        for data_set, result in results.items()
        for other in neighbours(data_set, letters, changed)
    }


def squared_distance(one: Result, other: Result) -> int:
    return sum((a - b) ** 2 for a, b in zip(one, other, strict=True))


def largest_difference(one: Result, other: Result) -> int:
    return max(abs(a - b) for a, b in zip(one, other, strict=True))


def worst_loss(pairs: Iterable[tuple[Result, Result]], law: Callable[[Result], Law]) -> float:
    """The largest log-ratio of the probabilities of any output, over ordered pairs."""
    return max(
        (log(p / q) for one, other in pairs for p, q in zip(law(one), law(other), strict=True)),
        default=0.0,
    )


def pairs_of(pairing: Pairing) -> list[tuple[int, int]]:
    """Which rows meet, from the definition."""
    order = [int(row) for row in pairing.order]
    if pairing.degree == 1:
        return list(zip(order[0::2], order[1::2], strict=False))
    return [
        (row, order[(place + step) % len(order)])
        for step in range(1, pairing.degree // 2 + 1)
        for place, row in enumerate(order)
    ]


@cache
def search_law(
    counts: Result, thresholds: tuple[int, ...], target_rate: float, count_rate: float
) -> Law:
    """Where a search stops: at each grid point, or at none.

    With target noise g, point i stops when its noise is above thresholds[g] - c_i; a geometric
    noise is at least s with probability exp(-rate s). Target noises beyond ``thresholds`` have
    probability below 1e-17 and are left out.
    """
    law = [0.0] * (len(counts) + 1)
    for noise, threshold in enumerate(thresholds):
        going_on = -np.expm1(-target_rate) * exp(-target_rate * noise)
        for point, count in enumerate(counts):
            stops = exp(-count_rate * max(0, threshold + 1 - count))
            law[point] += going_on * stops
            going_on *= 1 - stops
        law[-1] += going_on
    return tuple(law)


def ideal_thresholds(quantile: float, pairs: int, noises: int = 90) -> tuple[int, ...]:
    """c + G_i > q m + g if and only if c + G_i > floor(q m) + g, all being integers."""
    target = floor(Fraction(quantile) * pairs)
    return tuple(target + noise for noise in range(noises))


def fold(noise: int) -> int:
    """The geometric draw of an integer Laplace draw."""
    return noise if noise >= 0 else -noise - 1


@cache
def permute_and_flip(scores: Result, scale: float) -> Law:
    """OpenDP's noisy maximum under pure privacy: exponential noise, as coins in random order.

    Candidates come up in random order; each is taken with probability exp((score - best)/scale).
    """
    best = max(scores)
    taken = [exp((score - best) / scale) for score in scores]
    law = [0.0] * len(scores)
    for order in permutations(range(len(scores))):
        for place, candidate in enumerate(order):
            law[candidate] += taken[candidate] * prod(1 - taken[i] for i in order[:place])
    return tuple(p / factorial(len(scores)) for p in law)


def deviations_off(drawn: Sequence[int], law: Law, true: Law) -> float:
    """How far the draws lean from a law to the true one: mean log-ratios, in their deviations."""
    wrong, right = np.array(law) / sum(law), np.array(true) / sum(true)
    ratios = np.log(right / wrong)
    mean = float(wrong @ ratios)
    deviation = float(np.sqrt(wrong @ (ratios - mean) ** 2 / len(drawn)))
    return (float(ratios[np.array(drawn)].mean()) - mean) / deviation


def p_value(drawn: Sequence[int], law: Law) -> float:
    """How likely a worse fit of these draws (numbers of outputs) is under the law."""
    seen = np.bincount(drawn, minlength=len(law))
    return float(chisquare(seen, len(drawn) * np.array(law) / sum(law)).pvalue)
