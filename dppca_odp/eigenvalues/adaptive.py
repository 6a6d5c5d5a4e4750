"""The adaptive method: private variances with no constant to guess.

Three looks at the half squared differences w of a ring of pairs, each chosen from those before:

1. *scale*: how many w of each component lie in each octave. The octaves of a Gaussian component,
   slid over them, find its scale s.
2. *tail*: three counts of pairs with a w beyond a common multiple of its scale. They find, by
   bisection, how far out the tail has weight.
3. *mean*: w clipped there, one Gaussian mean. What a Gaussian component loses to clipping is known
   and given back.

Every look is a Gaussian on integers with its part of one mu, known before. The rules in between
decide from released numbers alone: they cost nothing, and where they err, accuracy suffers and not
privacy. Counts are shares of all pairs here, and so is their noise.

Source: ours. The scale among powers of two goes back to Dwork and Lei (2009); clipping far out,
where the noise is still small, to Huang, Liang and Yi (2021).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from opendp.mod import Domain, Measurement, Metric
from pydantic import Field
from scipy.special import ndtr

from accountant.specs import Budget, Stage
from dppca_odp.eigenvalues.flags import OF_THE_BULK, Flag, sentences
from dppca_odp.eigenvalues.method import (
    LIKELY,
    NORMAL_95,
    EigenvalueMethod,
    Estimate,
    ScaleOutlook,
    draw_pairs,
    mean_pairs,
)
from dppca_odp.eigenvalues.shape import (
    SCALES,
    cutoff_of_tail,
    growth_of_clipped_mean,
    octaves_at_scales,
    tail_share,
    variance_of_clipped_mean,
)
from dppca_odp.planned import PlannedStage
from dppca_odp.primitives.noise import (
    AskSums,
    GaussianStage,
    Link,
    Noisy,
    gaussian_stage,
    then_gaussian_chain,
)
from dppca_odp.primitives.octaves import (
    COUNT_UNITS,
    OCTAVES,
    UPPER_ENDS,
    make_octave_counts,
    make_tail_count,
)
from dppca_odp.primitives.pairs import pairs_changed, ring_degree
from dppca_odp.primitives.stages import Program
from dppca_odp.primitives.sums import (
    FULL_RANGE,
    allocated_units,
    decode_means,
    decode_noise,
    make_clamped_sum,
)
from dppca_odp.spaces import matrix_shape, to_then
from dppca_odp.values import LARGEST_BOUND, Floats, Integers

# --- parts of mu squared ---------------------------------------------------------------------
#: The signal of a Gaussian component at its own scale to aim at, in noise standard deviations ...
AIM = 9.5
#: ... and the least that counts as found: by chance alone, one of 961 scales in 50,000 looks.
FOUND = 5.5
#: Within so many octaves of a scale that is found there are fewer to choose from: one in 1,000.
NEAR, FOUND_NEAR = 12, 4.0
LEAST_SCALE_PART, MOST_SCALE_PART = Fraction("0.1"), Fraction("0.6")
TAIL_PART, TAIL_COUNTS = Fraction("0.15"), 3
#: Euclidean norm of the shares of a Gaussian component's octaves.
SIGNAL = 0.33

# --- cutoffs, in scales ----------------------------------------------------------------------
LEAST_CUTOFF = 4.0
ROBUST_CUTOFF = 3.0
#: A count is a tail from so many noise standard deviations on.
CLEAR = 3.7
#: A tail that reaches this many doublings beyond the cutoff of a Gaussian component is heavy.
HEAVY = 4
#: Beyond so many scales a component's own octaves are searched for rare large values.
FAR = 64.0
WINDOWS = (1, 2, 3, 4, 6, 8, 12)
#: The noise of a mean of which rare large values are the most, as a share of it.
LEAST_FAR_NOISE, MOST_NOISE = 0.15, 0.5

# --- means -----------------------------------------------------------------------------------
#: Noise grows with the range to this power, yet relative to the range it is at most so many times
#: that of the widest.
NOISE_EXPONENT, MOST_RELATIVE_NOISE = 0.75, 4
#: Of the range: a mean above it was clipped too low.
SATURATED = 0.6
#: Of the pairs: a component of which fewer look Gaussian at its scale is mixed.
MIXED = 0.5
TINY = 1e-300


class Adaptive(EigenvalueMethod):
    """Parameters of the adaptive method: none must be given."""

    expectation: ClassVar[str] = (
        "of Gaussian columns whose scales are found; a heavier tail has more"
    )
    kind: Literal["adaptive"] = "adaptive"
    degree: Annotated[int, Field(ge=2, multiple_of=2)] = 16
    """Each row is in this many pairs (fewer when the table is small); no privacy cost."""
    robust: bool = False
    """Estimate the scale of the bulk of the rows instead of the variance: another quantity, equal
    to the variance for Gaussian columns, and hardly moved by rare large values."""

    def stages(
        self, share: Budget, *, rows: int, components: int, rows_per_person: int
    ) -> tuple[PlannedStage, ...]:
        """One stage: the chain, whose loss is that of one Gaussian."""
        d_in = pairs_changed(rows, self.fitted_degree(rows), rows_per_person)
        chain = chain_stage(share, components, d_in)
        stage = Stage(name="chain", budget=share, losses=(chain.loss,))
        return (PlannedStage(stage=stage, noise_scale=None, noise="depends on the private scales"),)

    def fitted_degree(self, rows: int) -> int:
        """That of a ring, in a small table less."""
        return ring_degree(rows, self.degree)

    @property
    def exponent(self) -> float:
        """Between equal noise and the least total variance."""
        return NOISE_EXPONENT

    def unit_noise(
        self, share: Budget, *, rows: int, components: int, rows_per_person: int
    ) -> float:
        """The noise of a mean of values up to 1, were all of mu spent on it."""
        of = mean_pairs(rows, self.fitted_degree(rows), rows_per_person)
        return of["d_in"] / (of["pairs"] * chain_stage(share, components, of["d_in"]).mu)

    def scale_outlook(
        self, share: Budget, *, rows: int, components: int, rows_per_person: int
    ) -> ScaleOutlook:
        """The signal of each component is normal around what it is of a Gaussian one."""
        noise = self.unit_noise(
            share, rows=rows, components=components, rows_per_person=rows_per_person
        )
        full = full_signal(noise, components)
        part = Parts.of(noise, components, robust=self.robust).scale
        needed = likely_signal(components) / (full * math.sqrt(MOST_SCALE_PART)) * 2 / noise
        by = f" / {rows_per_person}" if rows_per_person > 1 else ""
        return ScaleOutlook(
            chance=chance_of_scales(full * math.sqrt(part), components),
            reason=f"n mu{by} (rows times mu) is {2 / noise:.0f}; likely from {needed:.0f} on",
        )

    def expected_noise(
        self,
        share: Budget,
        *,
        rows: int,
        components: int,
        rows_per_person: int,
        eigenvalues: npt.ArrayLike,
    ) -> Floats:
        """That of the cutoffs which the rules give Gaussian columns whose scales are found."""
        noise = self.unit_noise(
            share, rows=rows, components=components, rows_per_person=rows_per_person
        )
        mean_noise = noise / math.sqrt(Parts.of(noise, components, robust=self.robust).mean)
        scales = np.asarray(eigenvalues, dtype=np.float64)
        cutoff = min(gaussian_cutoff(noise), largest_cutoff(scales, mean_noise))
        cutoff = ROBUST_CUTOFF if self.robust else max(LEAST_CUTOFF, cutoff)
        units = units_of(cutoff * scales)
        of_clipped = mean_noise * np.linalg.norm(units) * cutoff * scales / units
        return of_clipped / growth_of_clipped_mean(np.full(components, cutoff))

    def program(
        self, input_domain: Domain, input_metric: Metric, *, share: Budget, rows_per_person: int
    ) -> Program[Estimate]:
        """One question: the chain over pairs on a ring."""
        rows, components = matrix_shape(input_domain, input_metric)
        pairs = draw_pairs(input_domain, input_metric, degree=self.fitted_degree(rows))
        d_in = pairs.map(rows_per_person)
        stage = chain_stage(share, components, d_in)
        number, _ = matrix_shape(pairs.output_domain, pairs.output_metric)
        noise = d_in / (number * stage.mu)
        parts = Parts.of(noise, components, robust=self.robust)
        looks = Looks(pairs.output_domain, pairs.output_metric, number, components)
        chain = pairs >> then_gaussian_chain(
            d_in=d_in,
            loss=stage.loss,
            links=parts.links(components),
            least_sensitivity=float(d_in * COUNT_UNITS),
            run=lambda ask: estimate(ask, looks, noise, parts, robust=self.robust),
        )
        return lambda ask: ask(chain)


def chain_stage(share: Budget, components: int, d_in: int) -> GaussianStage:
    """The loss that a share pays for, with the leak of as many integers as any look has.

    No look is less sensitive to ``d_in`` changed pairs than one count.
    """
    sensitivity = float(d_in * COUNT_UNITS)
    return gaussian_stage(share, sensitivity=sensitivity, numbers=OCTAVES * components)


class Parts(NamedTuple):
    """What part of mu squared each look has: public."""

    scale: Fraction
    tail: Fraction
    mean: Fraction

    @classmethod
    def of(cls, noise: float, components: int, *, robust: bool) -> Parts:
        """Enough for the scale to be found, if it can be; the mean has the rest.

        ``noise`` is that of a mean of values up to 1, were all of mu spent on it.
        """
        wanted = Fraction(min((AIM / full_signal(noise, components)) ** 2, 1.0))
        scale = min(max(round(wanted, 6), LEAST_SCALE_PART), MOST_SCALE_PART)
        tail = Fraction(0) if robust else TAIL_PART
        return cls(scale, tail, 1 - scale - tail)

    def links(self, components: int) -> list[Link]:
        """In the order of the looks."""
        counts = [Link(self.tail / TAIL_COUNTS, 1)] * TAIL_COUNTS if self.tail else []
        return [Link(self.scale, OCTAVES * components), *counts, Link(self.mean, components)]


def full_signal(noise: float, components: int) -> float:
    """Of a Gaussian component at its own scale, were all of mu spent on its octaves."""
    return SIGNAL / (noise * math.sqrt(2 * components))


def chance_of_scales(signal: float, components: int) -> float:
    """That one is found alone and the others near it, if the signal of each is normal."""
    alone = 1 - (1 - float(ndtr(signal - FOUND))) ** components
    return alone * float(ndtr(signal - FOUND_NEAR)) ** components


def likely_signal(components: int) -> float:
    """The least signal at which all are likely found."""
    low, high = FOUND_NEAR, 4 * FOUND
    for _ in range(50):
        middle = (low + high) / 2
        is_likely = chance_of_scales(middle, components) >= LIKELY
        low, high = (low, middle) if is_likely else (middle, high)
    return high


class Looks(NamedTuple):
    """The three looks at pairs, read as shares and as means, with their noise."""

    domain: Domain
    metric: Metric
    pairs: int
    components: int

    def octave_shares(self, ask: AskSums) -> tuple[Floats, float]:
        """Of each component, k by 256."""
        counts = ask(make_octave_counts(self.domain, self.metric))
        return self._shares(counts).reshape(self.components, OCTAVES), self._noise(counts)

    def tail_share(self, ask: AskSums, cutoffs: Floats) -> tuple[float, float]:
        """Of pairs beyond the cutoff of some component."""
        count = ask(make_tail_count(self.domain, self.metric, cutoffs=cutoffs))
        return float(self._shares(count)[0]), self._noise(count)

    def clipped_means(self, ask: AskSums, cutoffs: Floats) -> tuple[Floats, Floats]:
        """Of min(w, cutoff)."""
        limits: dict[str, Any] = {"lower": 0, "upper": cutoffs, "units": units_of(cutoffs)}
        sums = ask(make_clamped_sum(self.domain, self.metric, **limits))
        means = decode_means(sums.sums, pairs=self.pairs, **limits)
        noise = decode_noise(sums.scale, pairs=self.pairs, columns=self.components, **limits)
        return means, noise

    def _shares(self, counts: Noisy) -> Floats:
        return np.array([count / (COUNT_UNITS * self.pairs) for count in counts.sums])

    def _noise(self, counts: Noisy) -> float:
        return counts.scale / (COUNT_UNITS * self.pairs)


def estimate(ask: AskSums, looks: Looks, noise: float, parts: Parts, *, robust: bool) -> Estimate:
    """Scales, then cutoffs, then means: from noisy answers alone."""
    mean_noise = noise / math.sqrt(parts.mean)
    octaves, octave_noise = looks.octave_shares(ask)
    scales, alike = find_scales(octaves, octave_noise)
    if robust:
        tail = Tail(ROBUST_CUTOFF, 0)
        far: list[Far | None] = [None] * looks.components
    else:
        far = [
            find_far(shares, octave_noise, scale)
            for shares, scale in zip(octaves, scales, strict=True)
        ]
        bulk = np.array([0.0 if alone else scale for scale, alone in zip(scales, far, strict=True)])
        tail = find_tail(ask, looks, bulk, noise=noise, mean_noise=mean_noise)
    number_far = sum(alone is not None for alone in far)
    cutoffs = np.array(
        [
            alone.cutoff(mean_noise * math.sqrt(number_far)) if alone else tail.cutoff * scale
            for scale, alone in zip(scales, far, strict=True)
        ]
    )
    means, mean_noises = looks.clipped_means(ask, cutoffs)
    mixed = alike + 2 * octave_noise / SIGNAL < MIXED
    answer = read(means, mean_noises, cutoffs, far, tail, mixed)
    return answer._replace(warnings=(OF_THE_BULK, *answer.warnings)) if robust else answer


# --- 1. scale --------------------------------------------------------------------------------


def find_scales(octaves: Floats, noise: float) -> tuple[Floats, Floats]:
    """The scales whose Gaussian components look most like these octaves, and how much is alike.

    A matched filter: signals are in standard deviations of the noise. A component that is not clear
    alone may be so among scales not far from those of others. Scale 0 if none is clear.
    """
    signals = octaves @ octaves_at_scales().T / noise
    clear = signals.max(axis=1) >= FOUND
    found = np.log2(SCALES[signals[clear].argmax(axis=1)])
    near = (np.abs(np.log2(SCALES)[:, np.newaxis] - found) <= NEAR).any(axis=1)
    signals[~clear] = np.where(near & (signals[~clear] >= FOUND_NEAR), signals[~clear], 0.0)
    best = signals.max(axis=1)
    return np.where(best > 0, SCALES[signals.argmax(axis=1)], 0.0), best * noise / SIGNAL


class Far(NamedTuple):
    """Rare large values: what they add to a mean, at least, and where they seem to end."""

    mean: float
    end: float

    def cutoff(self, noise: float) -> float:
        """Where they end, but as far out as noise, that of a mean up to 1, stays small."""
        least, most = (part * self.mean / noise for part in (LEAST_FAR_NOISE, MOST_NOISE))
        return min(max(self.end, least), most, LARGEST_BOUND)


def find_far(shares: Floats, noise: float, scale: float) -> Far | None:
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
    return Far(mean=max(scale, float(mass[: last + 1] @ middle)), end=float(ends[last]))


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
    ask: AskSums, looks: Looks, scales: Floats, *, noise: float, mean_noise: float
) -> Tail:
    """The least of seven cutoffs, each twice the one before, that few enough pairs are beyond.

    A component whose scale is 0 takes no part. ``mean_noise`` is that of a mean up to 1: the cutoff
    keeps the noise below half of the scales, in Euclidean norm.
    """
    candidates = gaussian_cutoff(noise) * 2.0 ** np.arange(2**TAIL_COUNTS - 1)
    taking_part = scales > 0
    low, high = 0, len(candidates)
    while low < high:
        at = (low + high) // 2
        cutoffs = np.where(taking_part, candidates[at] * scales, np.inf)
        share, share_noise = looks.tail_share(ask, cutoffs)
        expected = min(1.0, taking_part.sum() * float(tail_share(candidates[at])))
        if share > CLEAR * share_noise + 2 * expected:
            low = at + 1
        else:
            high = at
    most = largest_cutoff(scales, mean_noise)
    return Tail(max(LEAST_CUTOFF, min(candidates[min(low, len(candidates) - 1)], most)), low)


def gaussian_cutoff(noise: float) -> float:
    """Where Gaussian columns are clipped, in scales: what lies beyond is less than noise."""
    return max(LEAST_CUTOFF, cutoff_of_tail(min(0.5, 7.5 * noise)))


def largest_cutoff(scales: Floats, mean_noise: float) -> float:
    """In scales: beyond, the noise is above half of the scales, in Euclidean norm."""
    largest: float = MOST_NOISE / mean_noise * np.linalg.norm(scales) / max(scales.sum(), TINY)
    return largest


# --- 3. mean ---------------------------------------------------------------------------------


def units_of(cutoffs: Floats) -> Integers:
    """Integer units of each mean: its noise in data units is the cutoff over them."""
    least = np.where(cutoffs > 0, FULL_RANGE // MOST_RELATIVE_NOISE, 0)
    return np.maximum(allocated_units(cutoffs, NOISE_EXPONENT), least)


def read(
    means: Floats,
    noise: Floats,
    cutoffs: Floats,
    far: Sequence[Far | None],
    tail: Tail,
    mixed: npt.NDArray[np.bool_],
) -> Estimate:
    """Variances from clipped means, the noise that is left in them, and what to know of them."""
    alone = np.array([rare is not None for rare in far])
    bulk = (cutoffs > 0) & ~alone

    def variances(clipped: Floats) -> Floats:
        return np.where(alone, np.maximum(clipped, 0.0), variance_of_clipped_mean(clipped, cutoffs))

    values = variances(means)
    growth = np.ones_like(values)
    kept = bulk & (values > 0)
    growth[kept] = growth_of_clipped_mean(cutoffs[kept] / values[kept])
    raised = {
        Flag.NOT_FOUND: cutoffs == 0,
        Flag.RARE_LARGE_VALUES: alone,
        Flag.HEAVY_TAIL: bulk & (tail.doublings >= HEAVY),
        Flag.MIXED: bulk & mixed,
        Flag.SATURATED: bulk & (means > SATURATED * cutoffs),
        Flag.AT_ZERO: (cutoffs > 0) & (means < 2 * noise),
    }
    flags = [
        tuple(flag for flag, where in raised.items() if where[component])
        for component in range(len(values))
    ]
    reach = NORMAL_95 * noise
    return Estimate(
        values=values,
        noise_scales=noise / growth,
        lower=np.zeros(len(values)),
        upper=cutoffs,
        warnings=tuple(sentences(flags)),
        flags=tuple(flags),
        own_interval=(variances(means - reach), variances(means + reach)),
    )


def make_adaptive(
    input_domain: Domain,
    input_metric: Metric,
    *,
    method: Adaptive,
    share: Budget,
    rows_per_person: int,
) -> Measurement:
    """Variances by the adaptive method, one for each component.

    ==================  ==================================================
    input domain        matrices, n rows by k, coordinates along directions
    input metric        Hamming distance over rows
    output              Estimate, k values in squared data units
    output measure      approximate differential privacy
    privacy map         1..rows_per_person -> that of one Gaussian of the share's mu;
                        0 -> (0, 0); beyond: error
    cost                a few passes over N k pairs, N = n degree / 2
    ==================  ==================================================

    Proof: a row is in ``degree`` pairs. Scale: each of them leaves one octave of each component
    for another, so c rows move the counts by at most c degree sqrt(2k). Tail: a pair is beyond or
    not, whatever the cutoffs: c degree. Mean: c degree cutoffs, in each component. The chain scales
    each noise to that and to the part of mu squared that was fixed before, and composes them.
    Source: ours; see the module.

    Raises:
        ValueError: fewer than 3 rows; a share without delta.

    >>> from dppca_odp.spaces import matrix_domain, rows_metric
    >>> m = make_adaptive(matrix_domain(500, 3), rows_metric(), method=Adaptive(),
    ...     share=Budget.of("1", "1e-6"), rows_per_person=1)
    >>> 0.999999 < m.map(1)[0] < 1 and m.map(0) == (0, 0)
    True
    """
    return method.make(input_domain, input_metric, share=share, rows_per_person=rows_per_person)


then_adaptive: Any = to_then(make_adaptive)
