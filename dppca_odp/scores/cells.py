"""The grid of a score picture: which cell of which group a row lies in, and how many there are."""

from __future__ import annotations

from typing import Annotated, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from opendp.mod import Domain, Metric
from pydantic import Field, model_validator

from accountant.facts import Fact
from dppca_odp.frame import Frame
from dppca_odp.primitives.blocks import summable_shape
from dppca_odp.values import Floats

Bins = Annotated[int, Field(ge=1, le=4096)]

BLOCK_ROWS = 65536
#: Noise on more cells would take minutes, and show nothing else.
MOST_CELLS = 1_000_000


class Cells(Fact):
    """The public grid of a histogram: a frame cut into bins, for one or more groups."""

    frame: Frame
    bins: tuple[Bins, Bins]
    """Along x and along y."""
    groups: Annotated[int, Field(ge=1)] = 1
    """Declared levels and the rest group; 1 for all rows together."""

    @model_validator(mode="after")
    def _cells_are_few_enough(self) -> Self:
        if self.number > MOST_CELLS:
            raise ValueError(
                f"bins and groups must make at most {MOST_CELLS} cells; got {self.number}. "
                "Use fewer bins."
            )
        return self

    @property
    def number(self) -> int:
        """All cells of all groups."""
        return self.groups * self.bins[0] * self.bins[1]

    def positions(self, scores: Floats) -> npt.NDArray[np.intp]:
        """The cell of each row inside the frame; rows outside have none.

        The third column, if there are groups, holds their codes; what is no code counts as the
        last group.
        """
        frame, (across, up) = self.frame, self.bins
        x, y = scores[:, 0], scores[:, 1]
        inside = (x >= frame.x_low) & (x <= frame.x_high) & (y >= frame.y_low) & (y <= frame.y_high)
        kept = scores[inside]
        column = _bin(kept[:, 0], frame.x_low, frame.x_high, across)
        row = _bin(kept[:, 1], frame.y_low, frame.y_high, up)
        cell = row * across + column
        if self.groups == 1:
            return cell
        codes = kept[:, 2]
        known = (codes >= 0) & (codes < self.groups)
        group = np.where(known, codes, self.groups - 1).astype(np.intp)
        return group * (across * up) + cell

    def counts(self, scores: Floats) -> npt.NDArray[np.int64]:
        """How many rows lie in each cell, block by block."""
        total = np.zeros(self.number, dtype=np.int64)
        for start in range(0, len(scores), BLOCK_ROWS):
            cells = self.positions(scores[start : start + BLOCK_ROWS])
            total += np.bincount(cells, minlength=self.number)
        return total


class Histogram(NamedTuple):
    """Shares of mass by group, y bin and x bin; each group sums to 1, or to 0 if it is empty."""

    mass: Floats
    noise_scale: float
    """The standard deviation of the Gaussian, or the scale of the Laplace noise, in rows."""
    threshold: int | None
    """Noisy counts below it are left out; none in an additive histogram."""


def normalised(counts: Floats, cells: Cells) -> Floats:
    """Shares of each group's mass: negative counts are 0, and a group without mass stays 0."""
    across, up = cells.bins
    mass = np.maximum(counts, 0.0).reshape(cells.groups, up, across)
    totals = mass.sum(axis=(1, 2), keepdims=True)
    return np.asarray(np.divide(mass, totals, out=np.zeros_like(mass), where=totals > 0))


def check_columns(input_domain: Domain, input_metric: Metric, cells: Cells) -> tuple[int, int]:
    """Check that a space suits the cells; its rows and columns."""
    rows, columns = summable_shape(input_domain, input_metric)
    wanted = 2 if cells.groups == 1 else 3
    if columns != wanted:
        raise ValueError(
            f"input_domain must have {wanted} columns for {cells.groups} groups; got {columns}. "
            "Give x, y and, for groups, their code."
        )
    return rows, columns


def check_groups(cells: Cells, *, grouped: bool) -> None:
    """Refuse cells of one group where several are meant, and the reverse."""
    if (cells.groups > 1) != grouped:
        wanted, other = ("several", "without") if grouped else ("1", "with")
        raise ValueError(
            f"groups must be {wanted}; got {cells.groups}. Use the constructor {other} groups."
        )


def _bin(values: Floats, low: float, high: float, bins: int) -> npt.NDArray[np.intp]:
    """The bin of each value between the ends; the upper end belongs to the last bin."""
    share = (values - low) / (high - low)
    return np.clip((share * bins).astype(np.intp), 0, bins - 1)
