"""The laws that tables are drawn from, and what is true of them."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dppca_odp.values import Floats

Generator = np.random.Generator


@dataclass(frozen=True)
class Known:
    """What an analyst is taken to know in public, for the methods that need constants."""

    largest: float
    """The largest eigenvalue that is asked for: a lucky guess."""
    bulk: bool = False
    """Rare far rows are not to count."""


@dataclass(frozen=True)
class Family:
    """A law of rows with independent columns, so that the axes are the true directions."""

    name: str
    says: str
    draw: Callable[[Generator, int, int], Floats]
    """Rows by columns, for a generator and both numbers."""
    eigenvalues: Callable[[int], Floats]
    """What is to be estimated, for a number of columns."""
    relative: bool = False
    """Errors are divided by the eigenvalues before they are squared and added."""
    bulk: bool = False
    delta: str = "1e-5"
    row_norm: float = 20.0
    """A round number that hardly any row exceeds, for peers that must be told one."""

    def table(self, rows: int, columns: int, run: int) -> Floats:
        """The table of a run: the same whenever it is asked for."""
        return self.draw(self.generator(rows, columns, run), rows, columns)

    def generator(self, rows: int, columns: int, run: int, of: str = "rows") -> Generator:
        """A generator of its own for each run and purpose."""
        names = [zlib.crc32(name.encode()) for name in (self.name, of)]
        return np.random.default_rng([*names, rows, columns, run])

    def known(self, columns: int) -> Known:
        """The lucky guess."""
        return Known(float(self.eigenvalues(columns).max()), self.bulk)


def spectrum(columns: int) -> Floats:
    """10, 6, 3, 1.5, 1; for other numbers of columns even steps of the logarithm, 10 to 1."""
    return np.array([10, 6, 3, 1.5, 1]) if columns == 5 else np.geomspace(10, 1, columns)


def _spread(draw: Callable[[Generator, tuple[int, int]], Floats]) -> Callable[..., Floats]:
    """Columns of unit variance, spread by the spectrum."""
    return lambda rng, rows, columns: draw(rng, (rows, columns)) * np.sqrt(spectrum(columns))


def _gaussian(rng: Generator, shape: tuple[int, int]) -> Floats:
    return rng.normal(size=shape)


def _t4(rng: Generator, shape: tuple[int, int]) -> Floats:
    return np.divide(rng.standard_t(4, size=shape), np.sqrt(2))


def _lognormal(rng: Generator, shape: tuple[int, int]) -> Floats:
    centred = rng.lognormal(size=shape) - np.exp(0.5)
    return np.divide(centred, np.sqrt((np.e - 1) * np.e))


def _contaminated(rng: Generator, shape: tuple[int, int]) -> Floats:
    table: Floats = rng.normal(size=shape)
    table[rng.random(shape[0]) < 0.01] *= 100
    return table


def _zero_inflated(rng: Generator, rows: int, columns: int) -> Floats:
    present = rng.random(rows) < 0.08
    heavy = np.where(present, rng.lognormal(8.5, 1, rows), 0)
    others = rng.normal(0, 13, rows), rng.gamma(4, 3, rows), rng.normal(0, 2.5, rows)
    return np.column_stack((heavy, *others))[:, :columns]


def _zero_inflated_variances(columns: int) -> Floats:
    heavy = 0.08 * np.exp(19) - (0.08 * np.exp(9)) ** 2
    return np.array([heavy, 169, 36, 6.25])[:columns]


FAMILIES = {
    family.name: family
    for family in (
        Family("Gaussian", "Independent Gaussian columns", _spread(_gaussian), spectrum),
        Family(
            "Student t4",
            "Student's t with 4 degrees of freedom",
            _spread(_t4),
            spectrum,
            row_norm=100,
        ),
        Family("lognormal", "Log-normal, sigma 1, centred", _spread(_lognormal), spectrum),
        Family(
            "contaminated, bulk",
            "Gaussian; 1 % of the rows at 100 sigma are not to count",
            _spread(_contaminated),
            spectrum,
            bulk=True,
        ),
        Family(
            "contaminated, all",
            "The same law; all rows count, so that variances are 100.99 times as large",
            _spread(_contaminated),
            lambda columns: 100.99 * spectrum(columns),
            relative=True,
        ),
        Family(
            "zero-inflated",
            "One column is 0 in 92 % of the rows and log-normal (8.5, 1) in the rest; the "
            "others are Gaussian or gamma",
            _zero_inflated,
            _zero_inflated_variances,
            relative=True,
            delta="1e-6",
        ),
    )
}
