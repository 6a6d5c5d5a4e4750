"""The noise of histograms is the one that was paid for, and a private frame holds the points.

A scale is accepted when what was seen has a two-sided p above 1e-12, and rejected below; there are
draws enough that the true scale is accepted and 0.7 and 1.3 times it are rejected for certain.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom, chi2

from accountant import Budget
from dppca_odp.scores.additive import make_additive_histogram, make_grouped_additive_histogram
from dppca_odp.scores.cells import Cells
from dppca_odp.scores.frames import Frame, PrivateFrame, make_score_frame
from dppca_odp.scores.sparse import make_sparse_histogram
from dppca_odp.spaces import matrix_domain, rows_metric

TINY = 1e-12
WRONG = (0.7, 1.3)
MU_1 = 0.268051123211294  # of (1, 1e-5): Dong, Roth and Su (2022), Corollary 2.13
SQUARE = Frame(x_low=0, x_high=1, y_low=0, y_high=1)


def centres(across: int, up: int) -> np.ndarray:
    """One point in the middle of every cell."""
    x, y = np.meshgrid((np.arange(across) + 0.5) / across, (np.arange(up) + 0.5) / up)
    return np.column_stack([x.ravel(), y.ravel()])


def two_sided(law, seen) -> float:
    """The p of a statistic under a law of scipy; for counts, both tails hold what was seen."""
    at_least = law.sf(seen - 1) if hasattr(law, "pmf") else law.sf(seen)
    return 2 * min(law.cdf(seen), at_least)


def check(law_at, seen) -> None:
    """Accept the law at the true scale, reject it at the wrong ones."""
    assert two_sided(law_at(1.0), seen) > TINY
    for factor in WRONG:
        assert two_sided(law_at(factor), seen) < TINY


@pytest.mark.parametrize(("d_in", "groups"), [(1, 1), (3, 1), (1, 2)])
def test_additive_noise(d_in, groups):
    """Full cells, so that nothing is clipped and the total hardly moves (by 1 in 10^4)."""
    bins, full = (8, 8), 2000
    table = np.tile(centres(*bins), (full, 1))
    if groups > 1:
        table = np.vstack([np.column_stack([table, np.full(len(table), g)]) for g in range(groups)])
    make = make_grouped_additive_histogram if groups > 1 else make_additive_histogram
    histogram = make(
        matrix_domain(*table.shape),
        rows_metric(),
        cells=Cells(frame=SQUARE, bins=bins, groups=groups),
        share=Budget.of("1", "1e-5"),
        d_in=d_in,
    )
    sigma = math.sqrt(2) * d_in / MU_1
    squares, freedom = 0.0, 0
    for _ in range(40 // groups):
        answer = histogram(table)
        assert answer.noise_scale == pytest.approx(sigma, rel=1e-9)
        counts = answer.mass.reshape(groups, -1) * 64 * full
        squares += float(((counts - full) ** 2).sum()) / sigma**2
        freedom += groups * 63  # the shares of a group sum to 1
    check(lambda factor: chi2(freedom, scale=factor**2), squares)


@pytest.mark.parametrize(
    ("epsilon", "delta", "d_in"), [("2", "1e-2", 1), ("1/2", "1e-1", 1), ("4", "1e-1", 2)]
)
def test_survival_of_a_cell_with_one_point(epsilon, delta, d_in):
    bins = (64, 64)
    table = centres(*bins)
    histogram = make_sparse_histogram(
        matrix_domain(*table.shape),
        rows_metric(),
        cells=Cells(frame=SQUARE, bins=bins),
        share=Budget.of(epsilon, delta),
        d_in=d_in,
    )
    trials, repetitions = len(table), 10
    kept = 0
    for _ in range(repetitions):
        answer = histogram(table)
        assert answer.noise_scale == pytest.approx(2 * d_in / float(Fraction(epsilon)), rel=1e-9)
        kept += int((answer.mass > 0).sum())

    def law(factor: float):
        ratio = math.exp(-1 / (answer.noise_scale * factor))
        return binom(trials * repetitions, ratio ** (answer.threshold - 1) / (1 + ratio))

    check(law, kept)


def test_frame_holds_the_points():
    """At least 95 percent of Gaussian points, in each of many frames; 98 is the least expected.

    A radius that leaves out 5 percent stops 200 rows early, and one of at most 5000 draws of rate
    1/6 reaches 200 with probability 5000 e^(-200/6), 1.6e-11; a centre off by a fifth of a standard
    deviation (about 400 rows, at rate 1/9) would still not do it, thanks to the inflation.
    """
    rows = 5000
    measurement = make_score_frame(
        matrix_domain(rows, 2),
        rows_metric(),
        method=PrivateFrame(),
        share=Budget.of("1", 0),
        d_in=1,
    )
    generator = np.random.default_rng(28)
    held = []
    for scales in [(1.0, 1.0), (3.0, 1.0), (100.0, 30.0)] * 20:
        table = generator.normal(size=(rows, 2)) * scales + generator.normal(size=2) * scales
        frame = measurement(table).frame
        x, y = table.T
        inside = (x >= frame.x_low) & (x <= frame.x_high) & (y >= frame.y_low) & (y <= frame.y_high)
        held.append(inside.mean())
    assert min(held) >= 0.95
