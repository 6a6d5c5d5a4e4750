"""The frame of a score picture: a square around most points, found privately.

Source: the ``dppca`` package, private score frames (with Algorithm 2). Differences: the two
searches of a median cost less than twice one; unit and steps of the grid are public parameters.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple, Self

import numpy as np
import opendp.prelude as dp
from opendp.mod import Domain, Measurement, Metric, Transformation
from pydantic import model_validator

from accountant.facts import Fact
from accountant.losses import PureLoss
from accountant.specs import Budget, Stage
from dppca_odp.frame import Frame
from dppca_odp.planned import PlannedStage
from dppca_odp.primitives.noise import lowered
from dppca_odp.primitives.quantiles import (
    Quantile,
    SearchGrid,
    make_signed_quantile,
    then_unbounded_quantile,
)
from dppca_odp.primitives.stages import Ask, Program, make_in_stages
from dppca_odp.spaces import matrix_domain, matrix_shape, rows_metric, to_then
from dppca_odp.values import LARGEST_BOUND, Floats, Positive, as_matrix, clamp

#: The radius reaches this share of the points.
COVERED = 0.99
#: A side is at least this part of the centre, so that floating point tells its ends apart.
LEAST_SIDE = 1e-12
#: Two medians and a radius.
SEARCHES = 3


class PrivateFrame(Fact):
    """Public parameters of a frame that is found in the table."""

    grid: SearchGrid = SearchGrid(beta=1.01)
    inflation: Positive = 0.2
    """The square reaches this much further than the radius."""

    @model_validator(mode="after")
    def _frame_fits(self) -> Self:
        end = float(self.grid.points()[-1])
        if not (2 + self.inflation) * end <= LARGEST_BOUND:
            raise ValueError(
                f"grid must end so that the frame stays within {LARGEST_BOUND:g}; got {end:g}. "
                "Lower its beta, steps or unit."
            )
        return self

    def stage(self, share: Budget, d_in: int) -> PlannedStage:
        """Three searches, each with a third of epsilon."""
        each = share.epsilon / SEARCHES
        return PlannedStage(
            stage=Stage(
                name="frame", budget=share, losses=(PureLoss(epsilon=each, count=SEARCHES),)
            ),
            noise_scale=float(3 * d_in / each),
            noise="largest scale of the noise on counts of rows",
        )

    def program(
        self, input_domain: Domain, input_metric: Metric, *, share: Budget, d_in: int
    ) -> Program[FoundFrame]:
        """Two medians, then the radius around them."""
        _, columns = matrix_shape(input_domain, input_metric)
        if columns < 2:
            raise ValueError(f"input_domain must have two columns; got {columns}. Give two scores.")
        points = self.grid.points()
        each = Fraction(lowered(share.epsilon / SEARCHES))
        signed_rate = lowered(each / (3 * d_in))
        radius_rate = lowered(each / (2 * d_in))
        medians = [
            make_signed_quantile(
                input_domain,
                input_metric,
                column=column,
                quantile=0.5,
                points=points,
                epsilon_target=signed_rate,
                epsilon_counts=signed_rate,
            )
            for column in range(2)
        ]

        def find(ask: Ask) -> FoundFrame:
            centre_x, centre_y = (ask(median) for median in medians)
            x, y = centre_x.value, centre_y.value
            radius: Quantile = ask(
                make_distances(input_domain, input_metric, x=x, y=y)
                >> then_unbounded_quantile(
                    column=0,
                    quantile=COVERED,
                    points=points,
                    epsilon_target=radius_rate,
                    epsilon_counts=radius_rate,
                )
            )
            half = max(radius.value * (1 + self.inflation), LEAST_SIDE * max(abs(x), abs(y)))
            frame = Frame(x_low=x - half, x_high=x + half, y_low=y - half, y_high=y + half)
            return FoundFrame(frame, _warnings(centre_x, centre_y, radius, end=float(points[-1])))

        return find


class FoundFrame(NamedTuple):
    """A released frame, and what the searches said."""

    frame: Frame
    warnings: tuple[str, ...]


def make_score_frame(
    input_domain: Domain, input_metric: Metric, *, method: PrivateFrame, share: Budget, d_in: int
) -> Measurement:
    """A square that most of the first two coordinates lie in.

    ==================  ==================================================
    input domain        matrices, n rows by 2 or more; the first two are the scores
    input metric        Hamming distance over rows
    output              FoundFrame(frame, warnings)
    output measure      approximate differential privacy, with delta 0
    privacy map         1..d_in -> (at most the share's epsilon, 0); 0 -> (0, 0); beyond: error
    units               those of the scores
    cost                n log(points), and up to five searches of the grid
    ==================  ==================================================

    The centre is two signed medians; the radius the 0.99 quantile of the distances to it; the
    square's half side the radius, inflated. Nothing is centred on the data itself.

    Proof: an adaptive composition of three searches, each a third of epsilon for d_in rows; the
    distances are functions of one row each, given the released centre.
    Source: the ``dppca`` package, private score frame.

    Raises:
        ValueError: fewer than two columns, a share too small for the searches.

    >>> m = make_score_frame(matrix_domain(99, 2), rows_metric(), method=PrivateFrame(),
    ...     share=Budget.of("0.75", 0), d_in=3)
    >>> 0.749999 < m.map(3)[0] < 0.75 and m.map(3)[1] == 0 and m.map(0) == (0, 0)
    True
    """
    find = method.program(input_domain, input_metric, share=share, d_in=d_in)
    stages = [method.stage(share, d_in).stage]
    return make_in_stages(input_domain, input_metric, d_in=d_in, stages=stages, run=find)


def make_distances(
    input_domain: Domain, input_metric: Metric, *, x: float, y: float
) -> Transformation:
    """Distances of the first two coordinates to a public or released centre.

    ==================  ==================================================
    input domain        matrices, n rows by 2 or more
    input metric        Hamming distance over rows
    output domain       matrices, n by 1
    output metric       Hamming distance over rows
    stability map       d -> d
    cost                n
    ==================  ==================================================

    Proof: row i of the output is a function of row i of the input.
    Source: the ``dppca`` package, private score frame.

    Raises:
        ValueError: a domain that is not matrices.

    >>> make_distances(matrix_domain(9, 2), rows_metric(), x=0.0, y=0.0).map(2)
    2
    """
    rows, columns = matrix_shape(input_domain, input_metric)

    def distances(scores: Floats) -> Floats:
        clamped = clamp(as_matrix(scores, rows, columns)[:, :2])
        return np.hypot(clamped[:, :1] - x, clamped[:, 1:2] - y)

    return dp.t.make_user_transformation(
        input_domain,
        input_metric,
        matrix_domain(rows, 1),
        rows_metric(),
        distances,
        lambda d_in: d_in,
    )


def _warnings(x: Quantile, y: Quantile, radius: Quantile, end: float) -> tuple[str, ...]:
    names = {"the centre's x": x, "the centre's y": y, "the radius": radius}
    return tuple(
        f"{name}: a search reached the end of the grid ({end:.6g}). Raise its unit, beta or steps."
        for name, found in names.items()
        if found.capped
    )


then_distances: Any = to_then(make_distances)
then_score_frame: Any = to_then(make_score_frame)
