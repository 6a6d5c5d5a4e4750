"""An unbounded quantile: a search up a geometric grid, with noise on the target and the counts.

Source: Durfee (2023), Unbounded differentially private quantile and maximum estimation, in the
form of Algorithm 2 of the source. Differences: integer (geometric) noise instead of exponential,
which costs the same; the grid's unit and number of steps are public parameters.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Annotated, Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import opendp.prelude as dp
from opendp.mod import Domain, Measurement, Metric
from pydantic import Field, model_validator

from accountant.amounts import float_above
from accountant.facts import Fact
from dppca_odp.spaces import matrix_shape, pure, rows_metric, to_then
from dppca_odp.values import Finite, Floats, Positive, as_matrix, clamp

DRAWS_AT_ONCE = 512
#: The noise of a smaller rate could leave 64 bits.
LEAST_RATE = 2.0**-40


class SearchGrid(Fact):
    """The public candidates t_i = lower + unit (beta^i - 1), i = 1..steps."""

    lower: Finite = 0.0
    unit: Positive = 1.0
    beta: Annotated[Finite, Field(gt=1)] = 1.001
    steps: Annotated[int, Field(ge=1, le=1_000_000)] = 5000

    def points(self) -> Floats:
        """The candidates, increasing."""
        with np.errstate(over="ignore"):
            powers = np.expm1(np.arange(1, self.steps + 1) * np.log(self.beta))
            return np.asarray(self.lower + self.unit * powers)

    @model_validator(mode="after")
    def _points_are_usable(self) -> Self:
        points = self.points()
        if not np.isfinite(points[-1]):
            raise ValueError(
                f"beta and steps must keep the grid finite; got {self.beta} and {self.steps}. "
                "Lower one of them."
            )
        if (np.diff(points, prepend=self.lower) <= 0).any():
            raise ValueError(
                f"beta and unit must give increasing grid points; got {self.beta} and {self.unit}. "
                "Raise one of them."
            )
        return self


class Quantile(NamedTuple):
    """What a search answers: a grid point, and whether the search ran into the grid's end."""

    value: float
    capped: bool


def make_unbounded_quantile(
    input_domain: Domain,
    input_metric: Metric,
    *,
    column: int,
    quantile: float,
    points: npt.ArrayLike,
    epsilon_target: float,
    epsilon_counts: float,
) -> Measurement:
    """A grid point near a quantile of one column.

    ==================  ==================================================
    input domain        matrices, m pairs by k
    input metric        Hamming distance over pairs
    output              Quantile(value, capped)
    output measure      pure differential privacy
    privacy map         d -> d (epsilon_target + epsilon_counts), rounded up
    units               those of the column
    cost                m log(points), and at most one draw a point
    ==================  ==================================================

    ``points`` t_1 < t_2 < ... are public (``SearchGrid`` gives the source's).
    With c_i the number of values strictly below t_i, G and G_i geometric of rates
    ``epsilon_target`` and ``epsilon_counts``: the first i with c_i + G_i > floor(q m) + G. If none,
    the last point, flagged. All of it is integers: an integer passes q m + G exactly when it passes
    floor(q m) + G, and a sum in floating point would skip thresholds that the proof needs.

    Proof: at d = 1 all counts move the same way, by at most 1. *Up*: to keep stopping at i,
    raise the threshold noise by 1 (cost epsilon_target): earlier counts, up by at most 1, still
    stay below, and G_i needs a shift of at most 1 (cost epsilon_counts). *Down*: keep G; earlier
    counts only fall, G_i shifts by at most 1 (epsilon_counts). A NaN counts as above every
    point: it is still one value, moving counts one way. d > 1:
    group privacy over a path of d changes: two changes can move counts both ways.

    Source: Algorithm 2 of the source, after Durfee (2023), Algorithm 2.

    Raises:
        ValueError: a quantile outside (0, 1), a rate that is not positive, an unknown column,
            points that are not finite and increasing.

    >>> from dppca_odp.spaces import matrix_domain, rows_metric
    >>> m = make_unbounded_quantile(matrix_domain(9, 1), rows_metric(), column=0, quantile=0.5,
    ...     points=SearchGrid(beta=2, steps=9).points(), epsilon_target=0.5, epsilon_counts=0.5)
    >>> round(m.map(2), 9)
    2.0
    """
    pairs, _ = matrix_shape(input_domain, input_metric)
    search = _Search(input_domain, column, quantile, points, epsilon_target, epsilon_counts)
    rate = search.target_rate + search.count_rate

    def answer(values: Floats) -> Quantile:
        at = search(as_matrix(values, *search.shape)[:, column])
        return Quantile(float(search.points[-1 if at is None else at]), capped=at is None)

    return dp.m.make_user_measurement(
        input_domain,
        input_metric,
        pure(),
        answer,
        lambda d_in: float_above(min(d_in, pairs) * rate),
    )


def make_signed_quantile(
    input_domain: Domain,
    input_metric: Metric,
    *,
    column: int,
    quantile: float,
    points: npt.ArrayLike,
    epsilon_target: float,
    epsilon_counts: float,
) -> Measurement:
    """A point near a quantile of one column of any sign: two searches away from 0.

    ==================  ==================================================
    input domain        matrices, n rows by k
    input metric        Hamming distance over rows
    output              Quantile(value, capped)
    output measure      pure differential privacy
    privacy map         d -> d (epsilon_target + 2 epsilon_counts), rounded up
    units               those of the column
    cost                n log(points), and at most two draws a point
    ==================  ==================================================

    ``points`` are public and positive. The first search runs up x at level q, the second up -x at
    level 1 - q; ``signed_answer`` says how two answers become one.

    Proof: one row changes one value; NaN counts as 0, so that it lies on one side. If it rises,
    the counts of x fall, which costs the first search epsilon_counts alone, and the counts of -x
    rise, which costs the second epsilon_target + epsilon_counts (see ``make_unbounded_quantile``);
    if it falls, the reverse. Either way epsilon_target + 2 epsilon_counts. d > 1: group privacy.
    Choosing is post-processing.

    Source: Algorithm 2 of the source, fully unbounded, after Durfee (2023). Difference: the source
    charges both searches in full.

    Raises:
        ValueError: as ``make_unbounded_quantile``; points that are not positive.

    >>> from dppca_odp.spaces import matrix_domain, rows_metric
    >>> m = make_signed_quantile(matrix_domain(9, 1), rows_metric(), column=0, quantile=0.5,
    ...     points=SearchGrid(beta=2, steps=9).points(), epsilon_target=0.25, epsilon_counts=0.25)
    >>> round(m.map(2), 9)
    1.5
    """
    rows, _ = matrix_shape(input_domain, input_metric)
    up = _Search(input_domain, column, quantile, points, epsilon_target, epsilon_counts)
    down = _Search(input_domain, column, 1 - quantile, points, epsilon_target, epsilon_counts)
    if up.points[0] <= 0:
        raise ValueError(
            f"points must be positive for signed values; got {up.points[0]}. Use lower 0."
        )
    rate = up.target_rate + 2 * up.count_rate

    def answer(values: Floats) -> Quantile:
        signed = clamp(as_matrix(values, *up.shape)[:, column])
        return signed_answer(up(signed), down(-signed), up.points)

    return dp.m.make_user_measurement(
        input_domain,
        input_metric,
        pure(),
        answer,
        lambda d_in: float_above(min(d_in, rows) * rate),
    )


def signed_answer(up: int | None, down: int | None, points: Floats) -> Quantile:
    """One point from two searches: where each stopped, None if it ran off the grid.

    A search that stopped at its first point did not move; one that ran off is left out. Both
    moved: the midpoint. One moved: that one. None did: 0.
    """
    moved = [
        sign * float(points[at]) for sign, at in ((1, up), (-1, down)) if at is not None and at > 0
    ]
    return Quantile(sum(moved) / max(len(moved), 1), capped=up is None or down is None)


class _Search:
    """One search up the grid: where noisy counts first pass a noisy target."""

    def __init__(
        self,
        input_domain: Domain,
        column: int,
        quantile: float,
        points: npt.ArrayLike,
        epsilon_target: float,
        epsilon_counts: float,
    ) -> None:
        self.shape = matrix_shape(input_domain, rows_metric())
        rows, columns = self.shape
        if not 0 <= column < columns:
            raise ValueError(
                f"column must be between 0 and {columns - 1}; got {column}. Count from 0."
            )
        if not 0 < quantile < 1:
            raise ValueError(f"quantile must be in (0, 1); got {quantile}. Use 0.5 for the median.")
        self.points = np.asarray(points, dtype=np.float64)
        if self.points.ndim != 1 or not len(self.points) or not np.isfinite(self.points).all():
            raise ValueError(
                f"points must be a list of finite numbers; got shape {self.points.shape}. "
                "Use SearchGrid."
            )
        if (np.diff(self.points) <= 0).any():
            raise ValueError("points must increase; got some that do not. Sort them.")
        self.target = math.floor(Fraction(quantile) * rows)
        self.target_noise, self.target_rate = _geometric(epsilon_target, "epsilon_target")
        self.count_noise, self.count_rate = _geometric(epsilon_counts, "epsilon_counts")

    def __call__(self, values: Floats) -> int | None:
        """The position of the point where the search stops; None if it runs off the grid."""
        threshold = self.target + next(self.target_noise(1))
        counts = counts_below(values, self.points)
        draws = self.count_noise(len(counts))
        return next(
            (
                at
                for at, (count, draw) in enumerate(zip(counts, draws, strict=True))
                if count + draw > threshold
            ),
            None,
        )


def counts_below(values: Floats, points: Floats) -> list[int]:
    """For each grid point, how many values lie strictly below it."""
    first_above = np.searchsorted(points, values, side="right")
    return [int(c) for c in np.bincount(first_above, minlength=len(points) + 1).cumsum()[:-1]]


def _geometric(epsilon: float, name: str) -> tuple[Any, Fraction]:
    """Draws from P(g) = (1 - r) r^g with r = exp(-1/scale), and the exact rate 1/scale.

    OpenDP draws x with P(x) proportional to r^|x|. Folding x < 0 onto -x - 1 gives
    r^g + r^(g+1) for g >= 0, which is geometric: no draw is thrown away. OpenDP saturates draws
    at 2^63, and counts are added after that, so the rate has a floor: at 2^-40 a draw saturates
    with probability exp(-2^23).
    """
    if not LEAST_RATE <= epsilon < np.inf:
        raise ValueError(
            f"{name} must be at least 2^-40 and finite; got {epsilon}. Give a larger share."
        )
    scale = float_above(1 / Fraction(epsilon))
    laplace = dp.m.make_laplace(
        dp.vector_domain(dp.atom_domain(T=dp.i64)), dp.l1_distance(T=dp.i64), scale=scale
    )

    def draw(number: int) -> Iterator[int]:
        for start in range(0, number, DRAWS_AT_ONCE):
            for noise in laplace([0] * min(DRAWS_AT_ONCE, number - start)):
                yield noise if noise >= 0 else -noise - 1

    return draw, 1 / Fraction(scale)


then_signed_quantile: Any = to_then(make_signed_quantile)
then_unbounded_quantile: Any = to_then(make_unbounded_quantile)
