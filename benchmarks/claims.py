"""What the adaptive method claims, each line measured through the real measurements.

Usage: python -m benchmarks.claims [--runs N] [--only TEXT]

Exits with 1 if a line does not hold. Errors are total root mean squares against population values
10, 6, 3, 1.5, 1 at delta 1e-5, unless a line says otherwise.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from accountant.gaussian import gaussian_mu
from benchmarks.families import FAMILIES, Generator
from benchmarks.hindsight import Oracle
from benchmarks.schedule import Result, all_cores, carry_out
from dppca_odp import Adaptive, Budget, draw_pairing, make_adaptive, make_noisy_eigenvectors
from dppca_odp.directions import (
    MatrixUnits,
    eigenpairs,
    exact_products,
    integer_directions,
)
from dppca_odp.eigenvalues.shape import variance_of_clipped_mean
from dppca_odp.spaces import matrix_domain, rows_metric
from dppca_odp.values import Floats

PAIR_OF_ZEROS = "two columns of mostly zeros"


@dataclass(frozen=True)
class Trial:
    """Runs of one method on one law."""

    law: str
    rows: int
    epsilon: str
    runs: int
    components: int = 5
    robust: bool = False
    unit: float = 1.0
    hindsight: bool = False

    @property
    def delta(self) -> str:
        """That of the law."""
        return "1e-6" if self.law in ("zero-inflated", PAIR_OF_ZEROS) else "1e-5"

    @property
    def truth(self) -> Floats:
        """Population variances."""
        if self.law == PAIR_OF_ZEROS:
            heavy = FAMILIES["zero-inflated"].eigenvalues(1)[0]
            return np.array([heavy, heavy / 300, 169, 36, 6.25])
        return FAMILIES[self.law].eigenvalues(self.components) * self.unit**2

    def table(self, run: int) -> Floats:
        """The table of a run."""
        law = FAMILIES["zero-inflated" if self.law == PAIR_OF_ZEROS else self.law]
        table = law.table(self.rows, self.components, run)
        if self.law == PAIR_OF_ZEROS:
            other = law.table(self.rows, 1, run + 10**6) / np.sqrt(300)
            table = np.column_stack((table[:, :1], other, table[:, 1:]))
        return table * self.unit


@lru_cache(maxsize=4)
def measurement(rows: int, components: int, epsilon: str, delta: str, method: Adaptive) -> Any:
    """The method on tables of this shape; its pairs are drawn once."""
    space = matrix_domain(rows, components), rows_metric()
    share = Budget.of(epsilon, delta)
    return make_adaptive(*space, method=method, share=share, rows_per_person=1)


def one_run(trial: Trial, run: int) -> Result:
    """Estimates and flags, and the errors of the clipped means with each constant."""
    table, truth = trial.table(run), trial.truth
    method = Adaptive(robust=trial.robust)
    answer = measurement(trial.rows, len(truth), trial.epsilon, trial.delta, method)(table)
    found: Result = {
        "ratios": (answer.values / truth).tolist(),
        "square": float(((answer.values - truth) ** 2).sum()),
        "flags": [[str(flag) for flag in flags] for flags in answer.flags],
    }
    if trial.hindsight:
        rng: Generator = np.random.default_rng([trial.rows, run])
        oracle = Oracle.of(table, truth.max(), rng)
        answers = oracle.answers(epsilon=trial.epsilon, delta=trial.delta)
        found["hindsight"] = ((answers - truth) ** 2).sum(axis=1).tolist()
    return found


@dataclass(frozen=True)
class Claim:
    """A figure and its limit."""

    says: str
    trial: Trial
    figure: Callable[[list[Result]], float]
    limit: float
    at_least: bool = False

    def holds(self, figure: float) -> bool:
        """Whether the figure is within the limit."""
        return figure >= self.limit if self.at_least else figure <= self.limit


def error(runs: list[Result]) -> float:
    """Total root mean squared error."""
    return float(np.sqrt(np.mean([run["square"] for run in runs])))


def to_hindsight(runs: list[Result]) -> float:
    """Error relative to that of the best common constant."""
    best = np.mean([run["hindsight"] for run in runs], axis=0).min()
    return error(runs) / float(np.sqrt(best))


def flagged(runs: list[Result]) -> float:
    """The part of runs in which some component is flagged."""
    return float(np.mean([any(run["flags"]) for run in runs]))


def within(factor: float) -> Callable[[list[Result]], float]:
    """The least share of a component within a factor."""

    def share(runs: list[Result]) -> float:
        ratios = np.array([run["ratios"] for run in runs])
        return float(((ratios > 1 / factor) & (ratios < factor)).mean(axis=0).min())

    return share


def wrong_unflagged(runs: list[Result]) -> float:
    """The part of runs with a component wrong by more than 3 that is not flagged."""
    wrong = [
        any(
            not 1 / 3 < ratio < 3 and not of
            for ratio, of in zip(run["ratios"], run["flags"], strict=True)
        )
        for run in runs
    ]
    return float(np.mean(wrong))


def largest(truth: Floats) -> Callable[[list[Result]], float]:
    """The largest norm of an answer, relative to that of the truth."""

    def norm(runs: list[Result]) -> float:
        norms = [np.linalg.norm(np.multiply(run["ratios"], truth)) for run in runs]
        return float(max(norms) / np.linalg.norm(truth))

    return norm


def nothing_found(runs: list[Result]) -> float:
    """The part of runs in which no scale is found."""
    return float(np.mean([all("not found" in of for of in run["flags"]) for run in runs]))


def zero(runs: list[Result]) -> float:
    """The largest part of runs in which one of the first two components is 0."""
    return float((np.array([run["ratios"][:2] for run in runs]) == 0).mean(axis=0).max())


def relative(runs: list[Result]) -> float:
    """Mean absolute error, relative to the truth."""
    return float(np.abs(np.array([run["ratios"] for run in runs]) - 1).mean())


def claims(runs: int) -> Iterator[Claim]:
    """Each line with its limit."""
    for epsilon, limit in (("0.5", 0.36), ("1", 0.27), ("3", 0.21)):
        trial = Trial("Gaussian", 10_000, epsilon, 2 * runs, hindsight=True)
        yield Claim("error", trial, error, limit)
        yield Claim("error / hindsight", trial, to_hindsight, 1.1)
    for epsilon in ("0.5", "1", "3"):
        trial = Trial("Gaussian", 2_000, epsilon, 2 * runs, hindsight=True)
        yield Claim("error / hindsight", trial, to_hindsight, 1.1)
    yield Claim("error", Trial("Gaussian", 100_000, "1", 4 * runs), error, 0.064)
    trial = Trial("Gaussian", 100_000, "1", runs, hindsight=True)
    yield Claim("error / hindsight", trial, to_hindsight, 1.1)
    for law in ("Student t4", "lognormal"):
        trial = Trial(law, 10_000, "1", 2 * runs, hindsight=True)
        yield Claim("error / hindsight", trial, to_hindsight, 1.0)
    for epsilon in ("0.5", "1"):
        trial = Trial("contaminated, bulk", 10_000, epsilon, runs, robust=True)
        yield Claim("error of the bulk, robust", trial, error, 1.1)
    for rows, epsilon in ((10_000, "1"), (10_000, "3"), (30_000, "1")):
        trial = Trial("contaminated, all", rows, epsilon, 2 * runs)
        yield Claim("flagged, not robust", trial, flagged, 0.95, at_least=True)
    for epsilon, factor in (("1", 3.0), ("3", 1.5)):
        trial = Trial("zero-inflated", 30_000, epsilon, runs, components=4)
        yield Claim(f"each variance within {factor:g}", trial, within(factor), 0.95, at_least=True)
        yield Claim("wrong by 3 and not flagged", trial, wrong_unflagged, 0.0)
    trial = Trial(PAIR_OF_ZEROS, 30_000, "1", runs, components=4)
    yield Claim("one of the two comes out 0", trial, zero, 0.05)
    for unit in (1e-12, 1.0, 1e12):
        trial = Trial("Gaussian", 10_000, "1", runs, unit=unit)
        yield Claim(f"mean relative error in units of {unit:g}", trial, relative, 0.03)
    trial = Trial("Gaussian", 10_000, "1", runs, components=20, hindsight=True)
    yield Claim("error / hindsight", trial, to_hindsight, 1.1)
    trial = Trial("Gaussian", 280, "0.5", 10 * runs)
    yield Claim("n mu = 40: largest answer / truth", trial, largest(trial.truth), 3.0)
    yield Claim("n mu = 40: nothing found", trial, nothing_found, 0.9, at_least=True)


def coverage(runs: int) -> float:
    """Of 95 % noise intervals, where each row meets each other one: no order matters."""
    rows = 201
    table = np.random.default_rng(1).normal(size=(rows, 3)) * [5, 2, 1]
    halves = 0.5 * (table[:, np.newaxis] - table)[np.triu_indices(rows, 1)] ** 2
    method, covered = measurement(rows, 3, "8", "1e-5", Adaptive(degree=rows - 1)), []
    for _ in range(runs):
        answer = method(table)
        without = variance_of_clipped_mean(
            np.minimum(halves, answer.upper).mean(axis=0), answer.upper
        )
        low, high = answer.noise_interval
        covered += ((low <= without) & (without <= high)).tolist()
    return float(np.mean(covered))


def directions(runs: int) -> tuple[float, float]:
    """Noise and mean sine of the leading direction, relative to the source's formula.

    The source adds one symmetric Gaussian matrix of standard deviation 4 / (n mu).
    """
    rows, columns = 10_000, 20
    spread = np.sqrt(np.array([10, 6, 3, 1.5] + [1.0] * 16))
    mu = gaussian_mu(Fraction(1), Fraction("1e-5"))
    source_noise = 4 / (rows * mu)
    rng = np.random.default_rng(2)
    pairing = draw_pairing(rows, 16)
    ours = make_noisy_eigenvectors(
        matrix_domain(rows, columns),
        rows_metric(),
        components=1,
        pairing=pairing,
        share=Budget.of("1", "1e-5"),
        d_in=1,
    )
    whole = MatrixUnits(rows, columns, 16).pairs * 2.0**40
    sines: list[tuple[float, float]] = []
    for _ in range(runs):
        table = rng.normal(size=(rows, columns)) * spread
        answer = ours(table)
        kendall = np.zeros((columns, columns))
        for difference in pairing.differences(table):
            kendall += exact_products(integer_directions(difference)) / whole
        noise = np.triu(rng.normal(size=(columns, columns))) * source_noise
        noisy = kendall + noise + np.triu(noise, 1).T
        theirs = eigenpairs((noisy * 2**40).ravel().tolist())[1][:, :1]
        sines.append((_sine(answer.vectors), _sine(theirs)))
    diagonal = answer.noise_scale / source_noise
    share = 1 / columns  # of entries on the diagonal; off it the noise is less by sqrt(2)
    noise_ratio = diagonal * np.sqrt(share + (1 - share) / 2)
    mean = np.mean(sines, axis=0)
    return float(noise_ratio), float(mean[0] / mean[1])


def _sine(vectors: Floats) -> float:
    return float(np.sqrt(max(0.0, 1 - vectors[0, 0] ** 2)))


def main() -> None:
    """Measure and print each line."""
    options = arguments()
    failed = 0

    def tell(says: str, figure: float, limit: str, holds: bool) -> None:
        nonlocal failed
        failed += not holds
        print(f"{'' if holds else 'NOT '}held  {says}: {figure:.4g} ({limit})", flush=True)

    wanted = [claim for claim in claims(options.runs) if options.only in claim.says]
    trials = list(dict.fromkeys(claim.trial for claim in wanted))
    start = time.monotonic()
    with all_cores() as pool:
        for trial in trials:
            (runs,) = carry_out(one_run, [trial], seconds=3600, pool=pool)
            for claim in wanted:
                if claim.trial == trial:
                    figure = claim.figure(runs)
                    size = f"n = {trial.rows}, k = {len(trial.truth)}, epsilon {trial.epsilon}"
                    bound = f"{'at least' if claim.at_least else 'at most'} {claim.limit:g}"
                    says = f"{trial.law}, {size}, {len(runs)} runs: {claim.says}"
                    tell(says, figure, bound, claim.holds(figure))
    if not options.only:
        found = coverage(10 * options.runs)
        tell("coverage of 95 % noise intervals", found, "0.93 to 0.97", 0.93 < found < 0.97)
        noise, sine = directions(options.runs)
        tell("directions: noise / source", noise, "at most 0.55", noise <= 0.55)
        tell("directions: mean sine / source", sine, "at most 0.8", sine <= 0.8)
    print(f"{time.monotonic() - start:.0f} s")
    sys.exit(failed > 0)


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=100, help="of each line, at least")
    parser.add_argument("--only", default="", help="lines that say this")
    return parser.parse_args()


if __name__ == "__main__":
    main()
