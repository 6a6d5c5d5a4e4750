"""What a release stands on: directions, and scales of columns, from earlier answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import Discriminator, Tag

from dppca_odp.flags import Flag
from dppca_odp.values import Booleans, Finite, Floats

#: Directions along which columns stay as they are: a component for each.
AXES = "axes"
#: A variance is told from 0 from so many standard deviations of its noise on.
TOLD_FROM_ZERO = 2.0

#: Directions that a release stands on: the name of an earlier release of directions, the word
#: "axes", or public ones, a row for each column.
StandsOn = Annotated[
    Annotated[str, Tag("name")] | Annotated[tuple[tuple[Finite, ...], ...], Tag("matrix")],
    Discriminator(lambda given: "name" if isinstance(given, str) else "matrix"),
]


def named(directions: StandsOn) -> str:
    """The release of directions, "axes", or "given"."""
    return directions if isinstance(directions, str) else "given"


def find_loadings(directions: StandsOn, earlier: Mapping[str, Any], *, columns: int) -> Floats:
    """What multiplies a row of the table, p by k."""
    if directions == AXES:
        return np.eye(columns)
    if isinstance(directions, str):
        loadings: Floats = earlier[directions].loadings
        return loadings
    return np.array(directions)


class ColumnScales(NamedTuple):
    """What each column is divided by."""

    values: Floats
    """Positive; 1 where none was found."""
    found: Booleans


def find_scales(scree: str, earlier: Mapping[str, Any]) -> ColumnScales:
    """Released standard deviations of columns, by the name of a scree along the axes.

    Where a variance cannot be told from 0, that of the bulk stands in, if it is clear: it was found
    before, by other noise. What may be noise alone is of no use: dividing by it could let a column
    outweigh all others.
    """
    estimate = earlier[scree]
    told_from_zero = estimate.values > TOLD_FROM_ZERO * estimate.noise_scales
    is_clear = told_from_zero & ~estimate.flagged(Flag.UNCLEAR)
    bulk = 0.0 if estimate.bulk is None else estimate.bulk
    variances: Floats = np.where(is_clear, estimate.values, bulk)
    found = variances > 0
    return ColumnScales(np.sqrt(np.where(found, variances, 1.0)), found)
