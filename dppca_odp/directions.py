"""Private directions: eigenvectors of a noisy spherical Kendall matrix over a ring of pairs.

For pairs of rows, u = (x_a - x_b) / |x_a - x_b| (0 for equal rows); the mean of u u' has the
eigenvectors of the covariance of an elliptical table, in the same order. Differences cancel the
mean and the norm cancels the scale: no bound on the rows is needed, no centring, no outlier
counts more than another. Columns on very different scales are another matter: the largest one has
every u. Each column may be divided by its standard deviation first, if an earlier scree along the
axes released one.

Source: the ``dppca`` package, dp_pc_dir. Differences: pairs on a ring instead of all pairs
(O(n d p^2) instead of O(n^2 p^2)); the sensitivity 2 sqrt(2)/n instead of 4/n.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import opendp.prelude as dp
from opendp.mod import Domain, Measurement, Metric, Transformation
from pydantic import Field

from accountant.amounts import float_above, root_above
from accountant.specs import Budget, Stage
from dppca_odp.columns import Label
from dppca_odp.earlier import AXES, ColumnScales, find_scales
from dppca_odp.flags import Note
from dppca_odp.planned import PlannedRelease, PlannedStage, RingDegree, Setting
from dppca_odp.primitives.columns import make_leading_columns, then_scaled_columns
from dppca_odp.primitives.noise import GaussianStage, gaussian_stage, then_gaussian
from dppca_odp.primitives.pairs import (
    Pairing,
    draw_pairing,
    number_of_pairs,
    pairs_changed,
    ring_degree,
)
from dppca_odp.primitives.stages import Ask, Program, make_in_stages
from dppca_odp.releases import ReleasedDirections
from dppca_odp.spaces import integers_domain, integers_metric, matrix_shape, to_then
from dppca_odp.values import Floats, Integers, as_matrix

#: A direction of a pair is kept to this many units, so |u u'| <= 2^40 in Frobenius norm.
UNIT_LENGTH = 2**20
#: 2^40 * 2^13 = 2^53: sums of this many products are exact in float64.
EXACT_PAIRS = 2**13
#: Multiplications below which OpenBLAS keeps to one thread.
SMALL_PRODUCT = 2**18
#: Bits left for the sums; the noise needs the rest of 63.
SUM_BITS = 56
#: Noise that hides so large a part of all variation is told before it is paid for.
MOST_HIDDEN = 0.5
#: The sine of the angle that noise turns a clear direction by, at most. Of two columns of noise
#: alone the eigenvalues are g sigma or more apart with probability e^(-g^2 / 4), so that one time
#: in 259 theirs is less; of more columns it is rarer.
CLEAR_SINE = 0.15
TURNED = (
    f"unclear direction: noise turns it by a sine above {CLEAR_SINE}, so that it may be any "
    "mixture with others of like variance, or noise alone. Do not read its loadings."
)
UNSCALED = (
    "left unscaled: neither its variance nor its scale is clear of noise. Where a column hardly "
    "varies that is right; one in large units may now outweigh the others."
)
LED_BY_UNSCALED = (
    "mostly of columns that were left unscaled, perhaps for their units alone. Do not read it, nor "
    "its variance."
)


class Directions(PlannedRelease):
    """Private directions as a release of a plan."""

    kind: Literal["directions"] = "directions"
    components: Annotated[int, Field(ge=1)]
    """k, the number of directions."""
    degree: RingDegree = 16
    scales: Annotated[str | None, Field(exclude_if=lambda given: given is None)] = None
    """An earlier scree along the axes: each column is divided by its released standard deviation,
    and the directions are those of the scaled table."""

    def check(self, *, columns: int, components: int, labels: tuple[Label, ...]) -> None:
        """Refuse more directions than columns, and a name that means others."""
        if self.name == AXES:
            raise ValueError(
                f"name must not be {AXES}, which stands for the columns as they are; got "
                f"{self.name}. Choose another."
            )
        if components > columns:
            raise ValueError(
                f"components must be at most the number of columns, {columns}; got {components}. "
                "Use fewer."
            )

    def stages(self, share: Budget, setting: Setting) -> tuple[PlannedStage, ...]:
        """One Gaussian stage: the matrix."""
        units = MatrixUnits(setting.rows, setting.columns, ring_degree(setting.rows, self.degree))
        planned = matrix_stage(units, share, d_in=setting.unit.rows_per_person)
        return (
            PlannedStage(
                stage=Stage(name="matrix", budget=share, losses=(planned.loss,)),
                noise_scale=planned.scale / units.whole,
                noise="standard deviation on the diagonal of the matrix",
            ),
        )

    def cautions(self, share: Budget, setting: Setting) -> Iterator[str]:
        """That noise of the matrix hides even a direction with half of all variation.

        Off the diagonal noise is sigma / sqrt(2); it hides a part of sqrt(p) of that, or less
        (Benaych-Georges and Nadakuditi 2011).
        """
        (matrix,) = self.stages(share, setting)
        assert matrix.noise_scale is not None
        hidden = matrix.noise_scale * math.sqrt(setting.columns / 2)
        if hidden >= 1:
            yield "noise hides every direction, whatever the rows: directions will be noise."
        elif hidden >= MOST_HIDDEN:
            yield (
                f"noise hides every direction with less than {hidden:.0%} of all variation: "
                "directions will likely be noise."
            )

    def program(
        self,
        input_domain: Domain,
        input_metric: Metric,
        *,
        share: Budget,
        setting: Setting,
        earlier: Mapping[str, Any],
    ) -> Program[NoisyDirections]:
        """One question about the measured columns, scaled if earlier variances are named."""
        measured = make_leading_columns(input_domain, input_metric, columns=setting.columns)
        scales = None if self.scales is None else find_scales(self.scales, earlier)
        if scales is not None:
            measured = measured >> then_scaled_columns(scales=scales.values)
        question = make_noisy_eigenvectors(
            measured.output_domain,
            measured.output_metric,
            components=self.components,
            pairing=draw_pairing(setting.rows, ring_degree(setting.rows, self.degree)),
            share=share,
            d_in=setting.unit.rows_per_person,
        )

        def find(ask: Ask) -> NoisyDirections:
            found: NoisyDirections = ask(measured >> question)
            return found._replace(scales=scales)

        return find

    def stand_in(self, setting: Setting) -> NoisyDirections:
        """The first axes."""
        return NoisyDirections(np.eye(setting.columns, setting.components), noise_scale=0.0)

    def released(self, answer: NoisyDirections, setting: Setting) -> ReleasedDirections:
        """The directions, how noisy their matrix was, and the scales with those not found."""
        scales = tuple(answer.scales.values.tolist()) if answer.scales else ()
        return ReleasedDirections(
            name=self.name,
            vectors=answer.vectors.tolist(),
            noise_scale=answer.noise_scale,
            scales=scales,
            sines=() if answer.sines is None else tuple(answer.sines.tolist()),
            warnings=tuple(self._notes(answer, setting)),
        )

    def _notes(self, answer: NoisyDirections, setting: Setting) -> Iterator[str]:
        if answer.scales and not answer.scales.found.all():
            unscaled = ~answer.scales.found
            yield Note.of(unscaled, UNSCALED).told(setting.names)
            led = (answer.vectors[unscaled] ** 2).sum(axis=0) > 1 / 2
            if led.any():
                yield Note.of(led, LED_BY_UNSCALED).told()
        if answer.sines is not None and (answer.sines > CLEAR_SINE).any():
            yield Note.of(answer.sines > CLEAR_SINE, TURNED).told()


class NoisyDirections(NamedTuple):
    """What the measurement answers: released numbers only."""

    vectors: Floats
    """Orthonormal columns, p by k."""
    noise_scale: float
    """The standard deviation on the diagonal of their matrix."""
    scales: ColumnScales | None = None
    """What the columns were divided by."""
    sines: Floats | None = None
    """Of the angles by which noise turns them, from the gaps between released eigenvalues."""

    @property
    def loadings(self) -> Floats:
        """What multiplies a row of the table as it was: finite, as no scale is below 1e-170."""
        return self.vectors if self.scales is None else self.vectors / self.scales.values[:, None]


class MatrixUnits(NamedTuple):
    """How the mean of u u' is written in integers: public."""

    rows: int
    columns: int
    degree: int

    @property
    def pairs(self) -> int:
        """The number of pairs."""
        return number_of_pairs(self.rows, self.degree)

    @property
    def dropped_bits(self) -> int:
        """Low bits of the sums that are dropped before the noise."""
        return max(0, (self.pairs * UNIT_LENGTH**2).bit_length() - SUM_BITS)

    @property
    def whole(self) -> float:
        """The integer that stands for 1."""
        return self.pairs * UNIT_LENGTH**2 / 2.0**self.dropped_bits

    def sensitivity(self, d_in: int) -> float:
        """How far d rows move the integer matrix, in Frobenius norm, rounded up."""
        if not d_in:
            return 0.0
        touched = pairs_changed(self.rows, self.degree, d_in)
        moved = root_above(Fraction(2)) * touched * UNIT_LENGTH**2 / 2**self.dropped_bits
        return float_above(moved + (self.columns if self.dropped_bits else 0))


def make_kendall_matrix(
    input_domain: Domain, input_metric: Metric, *, pairing: Pairing
) -> Transformation:
    """The spherical Kendall matrix of the pairs, in exact integers.

    ==================  ==================================================
    input domain        matrices, n rows by p columns
    input metric        Hamming distance over rows
    output domain       p^2 integers, a symmetric matrix row by row
    output metric       Euclidean (Frobenius) distance
    stability map       d -> sqrt(2) 2^40 min(degree d, N) / 2^b + p [b > 0], rounded up
    units               2^(b - 40) / N of the mean matrix; b dropped bits (0 for N < 2^16)
    cost                N p^2
    ==================  ==================================================

    Proof: u is truncated toward zero to integers over 2^20 and has integer norm at most 2^20 (a
    unit is dropped where floating point left more). Two vectors of norm at most a differ in
    u u' by at most sqrt(|u|^4 + |v|^4 - 2 (u.v)^2) <= sqrt(2) a^2. A row is in ``degree``
    pairs. Products and sums of 8192 pairs are below 2^53 and exact; the rest is added in
    integers. Dropping b bits (floor) moves each of p^2 entries by less than a unit, p in norm.

    NaN counts as 0, values are clamped to +-1e100, equal rows give 0: every table is answered.
    Source: the ``dppca`` package, whose sensitivity of all pairs, 4/n, is loose.

    Raises:
        ValueError: a pairing for another number of rows.

    >>> from dppca_odp.spaces import matrix_domain, rows_metric
    >>> t = make_kendall_matrix(matrix_domain(9, 2), rows_metric(), pairing=draw_pairing(9, 4))
    >>> round(t.map(1) / 2**40, 6)
    5.656854
    """
    rows, columns = matrix_shape(input_domain, input_metric)
    if pairing.rows != rows:
        raise ValueError(
            f"pairing must be for {rows} rows; got {pairing.rows}. Draw one for this table."
        )
    units = MatrixUnits(rows, columns, pairing.degree)

    def kendall(table: Floats) -> list[int]:
        matrix = as_matrix(table, rows, columns)
        high = np.zeros((columns, columns), dtype=np.int64)
        low = np.zeros((columns, columns), dtype=np.int64)
        for difference in pairing.differences(matrix):
            for start in range(0, len(difference), EXACT_PAIRS):
                unit_vectors = integer_directions(difference[start : start + EXACT_PAIRS])
                block = exact_products(unit_vectors)
                high += block >> 20
                low += block & (2**20 - 1)
        return [int(entry) for entry in _join(high, low, units.dropped_bits).ravel()]

    return dp.t.make_user_transformation(
        input_domain,
        input_metric,
        integers_domain(columns**2),
        integers_metric(),
        kendall,
        units.sensitivity,
    )


def integer_directions(differences: Floats) -> Floats:
    """Each row's direction in integers over 2^20, truncated, of norm at most 2^20; 0 for 0."""
    largest = np.abs(differences).max(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore", under="ignore"):
        scaled = np.where(largest > 0, differences / largest, 0.0)
    norm = np.sqrt((scaled * scaled).sum(axis=1, keepdims=True))
    units: Floats = np.trunc(scaled / np.maximum(norm, 1.0) * UNIT_LENGTH)
    over = np.flatnonzero((units * units).sum(axis=1) > UNIT_LENGTH**2)
    if len(over):
        at = np.abs(units[over]).argmax(axis=1)
        units[over, at] -= np.sign(units[over, at])
    return units


def exact_products(units: Floats) -> Integers:
    """Sum of u u' over at most 8192 rows, exactly.

    Multiplied in slices too small for the linear algebra library to spread over threads, which
    on few or busy cores costs several times what it gains.
    """
    columns = units.shape[1]
    rows = max(64, SMALL_PRODUCT // columns**2)
    padded = np.zeros((-(-len(units) // rows), rows, columns))
    padded.reshape(-1, columns)[: len(units)] = units
    products: Integers = (padded.transpose(0, 2, 1) @ padded).sum(axis=0).astype(np.int64)
    return products


def _join(high: Integers, low: Integers, dropped_bits: int) -> Integers:
    """floor((high 2^20 + low) / 2^dropped_bits) without leaving 64 bits."""
    carried, rest = high + (low >> 20), low & (2**20 - 1)
    if dropped_bits >= 20:
        return carried >> (dropped_bits - 20)
    return (carried << (20 - dropped_bits)) + (rest >> dropped_bits)


def make_directions(
    input_domain: Domain,
    input_metric: Metric,
    *,
    components: int,
    pairing: Pairing,
    share: Budget,
    d_in: int,
) -> Measurement:
    """The first k eigenvectors of the noisy spherical Kendall matrix.

    ==================  ==================================================
    input domain        matrices, n rows by p columns
    input metric        Hamming distance over rows
    output              NoisyDirections: p by k, orthonormal, largest eigenvalue first
    output measure      approximate differential privacy
    privacy map         1..d_in -> that of the noisy matrix, at most the share; 0 -> (0, 0);
                        beyond d_in: error
    cost                N p^2 + p^3
    ==================  ==================================================

    Proof: that of ``make_noisy_eigenvectors``, at the share's delta.
    Source: the ``dppca`` package, dp_pc_dir.

    Raises:
        ValueError: components outside 1..p; a pairing for another table; no delta.

    >>> from dppca_odp.spaces import matrix_domain, rows_metric
    >>> m = make_directions(matrix_domain(9, 2), rows_metric(), components=1,
    ...     pairing=draw_pairing(9, 4), share=Budget.of("1", "1e-6"), d_in=1)
    >>> 0.999999 < m.map(1)[0] < 1 and m.map(0) == (0, 0)
    True
    """
    question = make_noisy_eigenvectors(
        input_domain, input_metric, components=components, pairing=pairing, share=share, d_in=d_in
    )
    units = MatrixUnits(*matrix_shape(input_domain, input_metric), pairing.degree)
    loss = matrix_stage(units, share, d_in=d_in).loss
    return make_in_stages(
        input_domain,
        input_metric,
        d_in=d_in,
        stages=[Stage(name="matrix", budget=share, losses=(loss,))],
        run=lambda ask: ask(question),
    )


def make_noisy_eigenvectors(
    input_domain: Domain,
    input_metric: Metric,
    *,
    components: int,
    pairing: Pairing,
    share: Budget,
    d_in: int,
) -> Measurement:
    """The same eigenvectors, with the Gaussian loss of their matrix.

    ==================  ==================================================
    input domain        matrices, n rows by p columns
    input metric        Hamming distance over rows
    output              NoisyDirections: p by k, orthonormal, largest eigenvalue first
    output measure      Gaussian differential privacy
    privacy map         that of ``make_gaussian`` at the matrix's sensitivity; at ``d_in`` at
                        most the loss of ``matrix_stage``
    cost                N p^2 + p^3
    ==================  ==================================================

    Proof: one Gaussian on p^2 integers; (E + E')/2, eigenvectors and signs (the largest entry
    is positive) are post-processing. Noise on the mean matrix: sigma on the diagonal,
    sigma/sqrt(2) off it, sigma = 2 sqrt(2) d_in / (n mu) for a ring.
    Source: the ``dppca`` package, dp_pc_dir.

    Raises:
        ValueError: as ``make_directions``.

    >>> from dppca_odp.spaces import matrix_domain, rows_metric
    >>> m = make_noisy_eigenvectors(matrix_domain(9, 2), rows_metric(), components=1,
    ...     pairing=draw_pairing(9, 4), share=Budget.of("1", "1e-5"), d_in=1)
    >>> round(float(m.map(1)[0]), 6)
    0.268051
    """
    _, columns = matrix_shape(input_domain, input_metric)
    if not 1 <= components <= columns:
        raise ValueError(
            f"components must be between 1 and {columns}; got {components}. Use fewer."
        )
    matrix = make_kendall_matrix(input_domain, input_metric, pairing=pairing)
    units = MatrixUnits(pairing.rows, columns, pairing.degree)
    stage = matrix_stage(units, share, d_in=d_in)

    def read(entries: list[int]) -> NoisyDirections:
        values, vectors = eigenpairs(entries)
        noise = stage.scale / units.whole
        sines = sines_of_noise(values / units.whole, noise)
        return NoisyDirections(vectors[:, :components], noise, sines=sines[:components])

    chain: Measurement = matrix >> then_gaussian(scale=stage.scale) >> read
    return chain


def matrix_stage(units: MatrixUnits, share: Budget, *, d_in: int) -> GaussianStage:
    """The Gaussian stage of the matrix."""
    return gaussian_stage(share, sensitivity=units.sensitivity(d_in), numbers=units.columns**2)


def eigenpairs(entries: list[int]) -> tuple[Floats, Floats]:
    """Of the symmetric part: largest eigenvalue first, largest entry of a vector positive."""
    side = round(len(entries) ** 0.5)
    matrix = np.array(entries, dtype=np.float64).reshape(side, side)
    found = np.linalg.eigh(matrix + matrix.T)
    vectors = found.eigenvectors[:, ::-1]
    at = np.abs(vectors).argmax(axis=0)
    return found.eigenvalues[::-1] / 2, np.asarray(vectors * np.sign(vectors[at, range(side)]))


def sines_of_noise(eigenvalues: Floats, noise: float) -> Floats:
    """Of the angle by which noise turns each eigenvector: root mean square, to first order.

    ``noise`` is the standard deviation on the diagonal of the matrix; off it, it is less by
    sqrt(2), and moves direction j along i by itself over the gap of their eigenvalues
    (Anderson 1963).
    """
    gaps = np.abs(eigenvalues[:, np.newaxis] - eigenvalues)
    np.fill_diagonal(gaps, np.inf)
    turns = noise / np.sqrt(2) / np.maximum(gaps, noise / np.sqrt(2))  # no more than one
    sines: Floats = np.minimum(np.linalg.norm(turns, axis=1), 1.0)
    return sines


then_kendall_matrix: Any = to_then(make_kendall_matrix)
then_directions: Any = to_then(make_directions)
then_noisy_eigenvectors: Any = to_then(make_noisy_eigenvectors)
