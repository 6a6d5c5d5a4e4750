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
from fractions import Fraction
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from opendp.mod import Domain, Measurement, Metric

from accountant.gaussian import gaussian_mu
from accountant.losses import GaussianLoss
from accountant.specs import Budget, Stage
from dppca_odp.eigenvalues.matching import (
    chance_of_scales,
    full_signal,
    least_signal,
    match_scales,
)
from dppca_odp.eigenvalues.method import (
    LIKELY,
    EigenvalueMethod,
    Estimate,
    ScaleOutlook,
    draw_pairs,
)
from dppca_odp.eigenvalues.rules import (
    ROBUST_CUTOFF,
    TAIL_COUNTS,
    Rare,
    Tail,
    find_rare,
    find_tail,
    gaussian_cutoff,
    kept_cutoff,
    read,
    units_of,
)
from dppca_odp.eigenvalues.shape import growth_of_clipped_mean
from dppca_odp.flags import OF_THE_BULK
from dppca_odp.planned import PlannedStage, RingDegree, Size
from dppca_odp.primitives.noise import (
    AskSums,
    Link,
    Noisy,
    chain_loss,
    stage_loss,
    then_gaussian_chain,
)
from dppca_odp.primitives.octaves import (
    COUNT_UNITS,
    OCTAVES,
    make_octave_counts,
    make_tail_count,
)
from dppca_odp.primitives.pairs import ring_degree
from dppca_odp.primitives.stages import Program
from dppca_odp.primitives.sums import Limits
from dppca_odp.spaces import matrix_shape, to_then
from dppca_odp.values import Floats

#: Parts of mu squared: of the scale what finds Gaussian components with this chance, and at least
#: this signal, in noise standard deviations, within limits; of the tail, fixed; of the mean, the
#: rest.
AIMED_CHANCE, AIMED_SIGNAL = 0.999, 7.0
LEAST_SCALE_PART, MOST_SCALE_PART = Fraction("0.1"), Fraction("0.6")
TAIL_PART = Fraction("0.18")


class Adaptive(EigenvalueMethod):
    """Parameters of the adaptive method: none must be given."""

    expectation: ClassVar[str] = (
        "of Gaussian columns whose scales are found; a heavier tail has more"
    )
    kind: Literal["adaptive"] = "adaptive"
    degree: RingDegree = 16
    robust: bool = False
    """Estimate the scale of the bulk of the rows instead of the variance: another quantity, equal
    to the variance for Gaussian columns, and hardly moved by rare large values."""

    def stages(self, share: Budget, size: Size) -> tuple[PlannedStage, ...]:
        """One stage: the chain, whose loss is that of one Gaussian."""
        parts = Parts.of(self.unit_noise(share, size), size.components, robust=self.robust)
        loss = parts.loss(share, size.components, self.mean_pairs(size).d_in)
        stage = Stage(name="chain", budget=share, losses=(loss,))
        return (PlannedStage(stage=stage, noise_scale=None, noise="depends on the private scales"),)

    def fitted_degree(self, rows: int) -> int:
        """That of a ring, in a small table less."""
        return ring_degree(rows, self.degree)

    def unit_noise(self, share: Budget, size: Size) -> float:
        """The noise of a mean of values up to 1, were all of mu spent on it."""
        pairs, d_in = self.mean_pairs(size)
        return d_in / (pairs * gaussian_mu(*stage_loss(share)))

    def scale_outlook(self, share: Budget, size: Size) -> ScaleOutlook:
        """The signal of each component is normal around what it is of a Gaussian one."""
        noise, components = self.unit_noise(share, size), size.components
        full = full_signal(noise, components)
        part = Parts.of(noise, components, robust=self.robust).scale
        needed = least_signal(LIKELY, components) / (full * math.sqrt(MOST_SCALE_PART)) * 2 / noise
        by = f" / {size.rows_per_person}" if size.rows_per_person > 1 else ""
        return ScaleOutlook(
            chance=chance_of_scales(full * math.sqrt(part), components),
            reason=f"n mu{by} (rows times mu) is {2 / noise:.0f}; likely from {needed:.0f} on",
        )

    def expected_noise(self, share: Budget, size: Size, eigenvalues: npt.ArrayLike) -> Floats:
        """That of the cutoffs which the rules give Gaussian columns whose scales are found."""
        noise, components = self.unit_noise(share, size), size.components
        mean_noise = noise / math.sqrt(Parts.of(noise, components, robust=self.robust).mean)
        scales = np.asarray(eigenvalues, dtype=np.float64)
        cutoff = ROBUST_CUTOFF
        if not self.robust:
            cutoff = kept_cutoff(gaussian_cutoff(noise), scales, mean_noise)
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
        number, _ = matrix_shape(pairs.output_domain, pairs.output_metric)
        noise = self.unit_noise(share, Size(rows, components, rows_per_person))
        parts = Parts.of(noise, components, robust=self.robust)
        looks = Looks(pairs.output_domain, pairs.output_metric, number, components)
        chain = pairs >> then_gaussian_chain(
            d_in=d_in,
            loss=parts.loss(share, components, d_in),
            links=parts.links(components),
            least_sensitivity=float(d_in * COUNT_UNITS),
            run=lambda ask: estimate(ask, looks, noise, parts, robust=self.robust),
        )
        return lambda ask: ask(chain)


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
        aim = max(AIMED_SIGNAL, least_signal(AIMED_CHANCE, components))
        wanted = Fraction(min((aim / full_signal(noise, components)) ** 2, 1.0))
        scale = min(max(round(wanted, 6), LEAST_SCALE_PART), MOST_SCALE_PART)
        tail = Fraction(0) if robust else TAIL_PART
        return cls(scale, tail, 1 - scale - tail)

    def links(self, components: int) -> list[Link]:
        """In the order of the looks."""
        counts = [Link(self.tail / TAIL_COUNTS, 1)] * TAIL_COUNTS if self.tail else []
        return [Link(self.scale, OCTAVES * components), *counts, Link(self.mean, components)]

    def loss(self, share: Budget, components: int, d_in: int) -> GaussianLoss:
        """Of all looks: none is less sensitive to ``d_in`` changed pairs than one count."""
        least = float(d_in * COUNT_UNITS)
        return chain_loss(share, self.links(components), least_sensitivity=least)


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
        limits = Limits.of(0, cutoffs, self.components, units_of(cutoffs))
        sums, scale = ask(limits.sum(self.domain, self.metric))
        return limits.means(sums, self.pairs), limits.noise(scale, self.pairs)

    def _shares(self, counts: Noisy) -> Floats:
        return np.array([count / (COUNT_UNITS * self.pairs) for count in counts.sums])

    def _noise(self, counts: Noisy) -> float:
        return counts.scale / (COUNT_UNITS * self.pairs)


def estimate(ask: AskSums, looks: Looks, noise: float, parts: Parts, *, robust: bool) -> Estimate:
    """Scales, then cutoffs, then means: from noisy answers alone."""
    mean_noise = noise / math.sqrt(parts.mean)
    octaves, octave_noise = looks.octave_shares(ask)
    matched = match_scales(octaves, octave_noise)
    scales = matched.scales
    tail, rare = Tail(ROBUST_CUTOFF, 0), dict[int, Rare]()
    if not robust:
        for component, scale in enumerate(scales):
            if found := find_rare(octaves[component], octave_noise, scale):
                rare[component] = found
        tail = find_tail(
            lambda cutoffs: looks.tail_share(ask, cutoffs),
            np.where(np.isin(range(looks.components), list(rare)), 0.0, scales),
            noise=noise,
            mean_noise=mean_noise,
        )
    cutoffs = tail.cutoff * scales
    for component, found in rare.items():
        cutoffs[component] = found.cutoff(mean_noise * math.sqrt(len(rare)))
    means, mean_noises = looks.clipped_means(ask, cutoffs)
    answer = read(means, mean_noises, cutoffs, tail, rare=list(rare), matched=matched)
    return answer._replace(warnings=(OF_THE_BULK, *answer.warnings)) if robust else answer


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
