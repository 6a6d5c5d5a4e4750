"""The scores release: from rows, through two coordinates, to a private picture of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import opendp.prelude as dp
from opendp.mod import Domain, Measurement, Metric, Transformation
from pydantic import Discriminator, Field, Tag

from accountant.amounts import Amount
from accountant.losses import ApproximateLoss
from accountant.specs import Budget, Split, Stage, StageWeight
from dppca_odp.columns import Label
from dppca_odp.earlier import StandsOn, find_loadings, named
from dppca_odp.frame import Frame
from dppca_odp.planned import PlannedRelease, PlannedStage, Setting, Weighted
from dppca_odp.primitives.columns import make_projection
from dppca_odp.primitives.stages import Ask, Program, make_in_stages, program_after
from dppca_odp.releases import ReleasedScores
from dppca_odp.scores.additive import (
    ROW,
    additive_stage,
    make_additive_histogram,
    make_grouped_additive_histogram,
)
from dppca_odp.scores.cells import Bins, Cells, Histogram
from dppca_odp.scores.frames import FoundFrame, PrivateFrame
from dppca_odp.scores.sparse import (
    make_grouped_sparse_histogram,
    make_sparse_histogram,
    sparse_stage,
)
from dppca_odp.spaces import matrix_domain, matrix_shape, rows_metric, to_then
from dppca_odp.values import Floats, as_matrix

Weight = Annotated[Amount, Field(gt=0)]
Axis = Annotated[int, Field(ge=1)]


def _frame_kind(given: Any) -> str:
    """A public frame names its sides."""
    sides = Frame.model_fields.keys()
    public = sides & given.keys() if isinstance(given, dict) else isinstance(given, Frame)
    return "public" if public else "private"


AnyFrame = Annotated[
    Annotated[PrivateFrame, Tag("private")] | Annotated[Frame, Tag("public")],
    Discriminator(_frame_kind),
]
#: Any frame: stages and privacy maps of a histogram do not depend on where it lies.
SOMEWHERE = Frame(x_low=0, x_high=1, y_low=0, y_high=1)


#: By kind, and whether there are groups.
HISTOGRAMS = {
    ("additive", False): make_additive_histogram,
    ("additive", True): make_grouped_additive_histogram,
    ("sparse", False): make_sparse_histogram,
    ("sparse", True): make_grouped_sparse_histogram,
}


#: The most rows in a cell, over the average: of Gaussian scores on a frame of three deviations.
PEAK = 6
MORE_IN_CELLS = "Take fewer bins or groups, or give it more weight."


class ScorePicture(NamedTuple):
    """What the measurement answers: released things only."""

    frame: Frame
    histogram: Histogram
    warnings: tuple[str, ...]


class Scores(Weighted, PlannedRelease):
    """A private score picture as a release of a plan."""

    kind: Literal["scores"] = "scores"
    directions: StandsOn
    axes: tuple[Axis, Axis] = (1, 2)
    """Two different components, counted from 1."""
    bins: tuple[Bins, Bins] = (20, 20)
    """Along x and along y."""
    histogram: Literal["additive", "sparse"]
    groups: str | None = None
    """A declared label: one histogram for each of its groups."""
    frame: AnyFrame = PrivateFrame()
    """How to find the frame, or a public one."""
    frame_weight: Weight = Fraction(1)
    histogram_weight: Weight = Fraction(1)
    """How the share is split when the frame is private; a public one leaves all to the counts."""

    @property
    def own_split(self) -> Split:
        """The frame, if it is private, takes no delta."""
        frame = StageWeight(name="frame", weight=self.frame_weight, uses_delta=False)
        histogram = StageWeight(name="histogram", weight=self.histogram_weight, uses_delta=True)
        public = isinstance(self.frame, Frame)
        stages = (histogram,) if public else (frame, histogram)
        return Split(weights=stages)

    def check(self, *, columns: int, components: int, labels: tuple[Label, ...]) -> None:
        """Refuse axes that are equal or not there, and a label that is not declared."""
        if self.axes[0] == self.axes[1] or max(self.axes) > components:
            raise ValueError(
                f"axes must be two different components of {components}; got {self.axes[0]} and "
                f"{self.axes[1]}. Count from 1."
            )
        if self.groups is not None and self.groups not in [label.name for label in labels]:
            raise ValueError(
                f"groups must be a declared label; got {self.groups}. Declare it under labels."
            )

    def shares(self, share: Budget) -> dict[str, Budget]:
        """The budgets of the stages."""
        return self.split.divide(share)

    def cells(self, frame: Frame, labels: tuple[Label, ...]) -> Cells:
        """The grid on a frame, for every group."""
        return Cells(frame=frame, bins=self.bins, groups=len(self.group_names(labels)))

    def group_names(self, labels: tuple[Label, ...]) -> tuple[str, ...]:
        """The declared levels and the rest; "all" without groups."""
        return next((label.groups for label in labels if label.name == self.groups), ("all",))

    def stages(self, share: Budget, setting: Setting) -> tuple[PlannedStage, ...]:
        """A frame, if it is private, and a histogram."""
        return self.picture_stages(share, setting.labels, setting.unit.rows_per_person)

    def picture_stages(
        self, share: Budget, labels: tuple[Label, ...], d_in: int
    ) -> tuple[PlannedStage, ...]:
        """The same for a table of scores."""
        shares = self.shares(share)
        histogram = self._histogram_stage(shares["histogram"], labels, d_in)
        if isinstance(self.frame, Frame):
            return (histogram,)
        return (self.frame.stage(shares["frame"], d_in), histogram)

    def cautions(self, share: Budget, setting: Setting) -> Iterator[str]:
        """That the fullest cells of Gaussian rows lie in noise, or below the threshold."""
        histogram = self.shares(share)["histogram"]
        d_in = setting.unit.rows_per_person
        average = setting.rows / self.cells(SOMEWHERE, setting.labels).number
        if self.histogram == "sparse":
            threshold = sparse_stage(histogram, d_in=d_in).threshold
            if PEAK * average < threshold:
                yield (
                    f"cells with less than {threshold} rows are left out, and they have "
                    f"{average:.2g} on average: the picture will likely be empty. {MORE_IN_CELLS}"
                )
            return
        noise = self._histogram_stage(histogram, setting.labels, d_in).noise_scale
        if noise is not None and PEAK * average < 2 * noise:
            yield (
                f"noise of a cell is of {noise:.2g} rows, where {average:.2g} lie on average: the "
                f"picture will likely be noise. {MORE_IN_CELLS}"
            )

    def _histogram_stage(self, share: Budget, labels: tuple[Label, ...], d_in: int) -> PlannedStage:
        if self.histogram == "sparse":
            sparse = sparse_stage(share, d_in=d_in)
            loss = ApproximateLoss(epsilon=share.epsilon, delta=share.delta)
            return PlannedStage(
                stage=Stage(name="histogram", budget=share, losses=(loss,)),
                noise_scale=sparse.scale,
                noise=f"scale of the noise on counts; below {sparse.threshold} they are left out",
            )
        cells = self.cells(SOMEWHERE, labels).number
        additive = additive_stage(share, cells=cells, d_in=d_in)
        return PlannedStage(
            stage=Stage(name="histogram", budget=share, losses=(additive.loss,)),
            noise_scale=additive.scale / ROW,
            noise="standard deviation of the noise on counts",
        )

    def program(
        self,
        input_domain: Domain,
        input_metric: Metric,
        *,
        share: Budget,
        setting: Setting,
        earlier: Mapping[str, Any],
    ) -> Program[ScorePicture]:
        """The picture's, asked about the scores of the rows."""
        loadings = find_loadings(self.directions, earlier, columns=setting.columns)
        names = [label.name for label in setting.labels]
        scores = make_scores(
            input_domain,
            input_metric,
            directions=loadings[:, [axis - 1 for axis in self.axes]],
            label=None if self.groups is None else setting.columns + names.index(self.groups),
        )
        picture = self.picture(
            scores.output_domain,
            scores.output_metric,
            share=share,
            labels=setting.labels,
            d_in=setting.unit.rows_per_person,
        )
        return program_after(scores, picture)

    def picture(
        self,
        input_domain: Domain,
        input_metric: Metric,
        *,
        share: Budget,
        labels: tuple[Label, ...],
        d_in: int,
    ) -> Program[ScorePicture]:
        """The frame, if it is private, then the histogram on it."""
        shares = self.shares(share)
        make_histogram = HISTOGRAMS[self.histogram, self.groups is not None]

        def histogram_on(frame: Frame) -> Measurement:
            return make_histogram(
                input_domain,
                input_metric,
                cells=self.cells(frame, labels),
                share=shares["histogram"],
                d_in=d_in,
            )

        histogram_on(SOMEWHERE)  # what it cannot do anywhere is refused before the first question
        if isinstance(self.frame, Frame):
            find = _given(self.frame)
        else:
            find = self.frame.program(input_domain, input_metric, share=shares["frame"], d_in=d_in)

        def draw(ask: Ask) -> ScorePicture:
            found = find(ask)
            return ScorePicture(found.frame, ask(histogram_on(found.frame)), found.warnings)

        return draw

    def released(self, answer: ScorePicture, setting: Setting) -> ReleasedScores:
        """The histogram on its frame, and which groups are empty."""
        groups = self.group_names(setting.labels)
        mass = answer.histogram.mass
        empty = tuple(name for name, group in zip(groups, mass, strict=True) if not group.any())
        return ReleasedScores(
            name=self.name,
            directions=named(self.directions),
            axes=self.axes,
            frame=answer.frame,
            histogram=self.histogram,
            label=self.groups,
            groups=groups,
            mass=mass.tolist(),
            noise_scale=answer.histogram.noise_scale,
            threshold=answer.histogram.threshold,
            empty=empty,
            warnings=answer.warnings
            + tuple(
                f"{name}: its histogram is all zero: no rows are in it, or too few for this noise. "
                "Fewer bins or a larger share show smaller groups."
                for name in empty
            ),
        )


def make_scores(
    input_domain: Domain,
    input_metric: Metric,
    *,
    directions: npt.ArrayLike,
    label: int | None,
) -> Transformation:
    """Two coordinates of every row and, for groups, its code.

    ==================  ==================================================
    input domain        matrices, n rows by p columns and the codes of labels
    input metric        Hamming distance over rows
    output domain       matrices, n by 2, or 3 with the code of a label
    output metric       Hamming distance over rows
    stability map       d -> d
    cost                n p
    ==================  ==================================================

    ``directions`` are p by 2; ``label`` is the column of the code.

    Proof: row i of the output is a function of row i of the input.
    Source: the ``dppca`` package, private scores. Nothing is centred on the data.

    Raises:
        ValueError: as ``make_projection``; a label that is not a column behind the measured ones.

    >>> t = make_scores(matrix_domain(4, 3), rows_metric(), directions=[[1, 0], [0, 1]], label=2)
    >>> t.map(3)
    3
    """
    rows, present = matrix_shape(input_domain, input_metric)
    measured = np.shape(directions)[0]
    if label is not None and not measured <= label < present:
        raise ValueError(
            f"label must be a column from {measured} to {present - 1}; got {label}. Count from 0."
        )
    project = make_projection(matrix_domain(rows, measured), input_metric, directions=directions)

    def score(table: Floats) -> Floats:
        matrix = as_matrix(table, rows, present)
        coordinates: Floats = project(matrix[:, :measured])
        return coordinates if label is None else np.column_stack([coordinates, matrix[:, label]])

    return dp.t.make_user_transformation(
        input_domain,
        input_metric,
        matrix_domain(rows, 2 if label is None else 3),
        rows_metric(),
        score,
        lambda d_in: d_in,
    )


def make_score_picture(
    input_domain: Domain,
    input_metric: Metric,
    *,
    method: Scores,
    labels: tuple[Label, ...],
    share: Budget,
    d_in: int,
) -> Measurement:
    """A frame, if it is private, and a histogram on it.

    ==================  ==================================================
    input domain        matrices, n rows by 2 (x, y) or 3 (x, y, group code)
    input metric        Hamming distance over rows
    output              ScorePicture(frame, histogram, warnings)
    output measure      approximate differential privacy
    privacy map         1..d_in -> the sum of the stages, at most the share; 0 -> (0, 0);
                        beyond d_in: error
    cost                those of the frame and of the histogram
    ==================  ==================================================

    Proof: an adaptive composition of the frame's searches, if it is private, and a histogram,
    whose map does not depend on where the frame lies.
    Source: Algorithms 2 to 6 of the source.

    Raises:
        ValueError: as the frame and the histogram.

    >>> m = make_score_picture(matrix_domain(99, 2), rows_metric(), labels=(), d_in=1,
    ...     method=Scores(name="scores", directions="directions", histogram="sparse"),
    ...     share=Budget.of("1", "1e-6"))
    >>> 0.999999 < m.map(1)[0] < 1 and m.map(0) == (0, 0)
    True
    """
    lines = method.picture_stages(share, labels, d_in)
    return make_in_stages(
        input_domain,
        input_metric,
        d_in=d_in,
        stages=[line.stage for line in lines],
        run=method.picture(input_domain, input_metric, share=share, labels=labels, d_in=d_in),
    )


def _given(frame: Frame) -> Program[FoundFrame]:
    """A public frame: there is nothing to ask."""
    return lambda ask: FoundFrame(frame, ())


then_score_picture: Any = to_then(make_score_picture)
then_scores: Any = to_then(make_scores)
