"""A measurement in stages: each may be chosen from the answers before it.

A *program* makes one answer out of the answers to measurements that it asks; it never sees the
data. What it may ask is planned before: every loss of every stage has one slot, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple, TypeVar

import opendp.prelude as dp
from opendp.mod import Domain, Measure, Measurement, Metric, Transformation

from accountant.amounts import float_above
from accountant.losses import ApproximateLoss, GaussianLoss, Loss, PureLoss
from accountant.rules import CommittedRule
from accountant.specs import NOTHING, Budget, Stage
from dppca_odp.primitives.noise import gaussian_to_approximate, lowered, stage_loss
from dppca_odp.spaces import approximate, gaussian_privacy, is_measured_in, pure, to_then

Answer = TypeVar("Answer")
Ask = Callable[[Measurement], Any]
Program = Callable[[Ask], Answer]


def make_in_stages(
    input_domain: Domain,
    input_metric: Metric,
    *,
    d_in: int,
    stages: Sequence[Stage],
    run: Program[Any],
) -> Measurement:
    """What a program makes of the answers to the measurements it asks.

    ==================  ==================================================
    input domain        any
    input metric        any whose distances are integers
    output              that of ``run``
    output measure      approximate differential privacy
    privacy map         1..d_in -> the sum of the slots, at most that of the stages' budgets;
                        0 -> (0, 0); beyond d_in: error
    cost                that of the measurements
    ==================  ==================================================

    ``run`` gets a function that asks one measurement of the data. The next slot admits it only
    if its output measure is that of the declared loss, and its own map at ``d_in`` at most that
    loss, compared exactly. So both the types and the amounts of the losses are those of the plan,
    whatever the answers were.

    Proof: OpenDP's adaptive composition over the slots, in which a measurement of a pure loss
    counts as (epsilon, 0), and one of a Gaussian loss as what its mu and leak cost at the delta
    of its stage. What ``run`` does besides asking is post-processing.
    Source: sequential composition, Dwork and Roth (2014), Theorem 3.16.

    Raises:
        ValueError: no stages, d_in below 1, a stage without losses or with more than its budget;
            inside ``run``, a measurement that its slot does not admit, or one without a slot.

    >>> from accountant.specs import Budget
    >>> from dppca_odp.spaces import matrix_domain, rows_metric
    >>> stage = Stage(name="q", budget=Budget.of(1, 0), losses=(PureLoss(epsilon="1/2", count=2),))
    >>> m = make_in_stages(matrix_domain(9, 1), rows_metric(), d_in=2, stages=[stage],
    ...     run=lambda ask: None)
    >>> 0.999999 < m.map(2)[0] < 1 and m.map(0) == (0, 0)
    True
    """
    if d_in < 1 or not stages:
        raise ValueError(
            f"d_in must be at least 1, with at least one stage; got {d_in} and {len(stages)}. "
            "Plan a stage for each loss."
        )
    slots = [slot for stage in stages for slot in _slots(stage)]
    composition = dp.c.make_adaptive_composition(
        input_domain, input_metric, approximate(), d_in, [slot.cost for slot in slots]
    )

    def take_stages(data: Any) -> Any:
        queryable, free = composition(data), iter(slots)

        def ask(measurement: Measurement) -> Any:
            slot = next(free, None)
            if slot is None:
                raise ValueError(
                    f"a measurement must have a slot; got one more than the {len(slots)} that are "
                    "planned. Plan a stage for it."
                )
            return queryable(slot.admit(measurement, d_in))

        return run(ask)

    return dp.m.make_user_measurement(
        input_domain,
        input_metric,
        approximate(),
        take_stages,
        lambda distance: composition.map(distance) if distance else (0.0, 0.0),
    )


def make_committed_stages(
    input_domain: Domain,
    input_metric: Metric,
    *,
    d_in: int,
    stages: Sequence[Stage],
    delta: float,
    run: Program[Any],
) -> Measurement:
    """``make_in_stages``, priced by all of its losses together at one public delta.

    ==================  ==================================================
    input domain        any
    input metric        any whose distances are integers
    output              that of ``run``
    output measure      approximate differential privacy
    privacy map         1..d_in -> (epsilon, delta), the certificate of ``CommittedRule``;
                        0 -> (0, 0); beyond d_in: error
    cost                that of the measurements
    ==================  ==================================================

    Proof: every loss was fixed before the first answer, and no slot admits another one. Whatever
    the answers so far, the next measurement is thus no easier to tell apart than the known pair
    of laws of its slot, so the product of these pairs bounds all answers together, adaptive or
    not (``accountant.laws`` composes it). A cutoff may depend on earlier answers: it moves
    sensitivity and noise alike, and mu stays. The *type* of a loss may not: a Gaussian slot
    filled with a pure loss of the same (epsilon, delta) has another pair of laws, and the product
    would be that of a plan which nobody composed.
    Source: Zhu, Dong and Wang (2022), Optimal Accounting of Differential Privacy, theorem 10.

    Raises:
        ValueError: as ``make_in_stages``.
        InvalidAmount: losses that tell more than delta at any epsilon.

    >>> from accountant.specs import Budget
    >>> from dppca_odp.spaces import matrix_domain, rows_metric
    >>> many = PureLoss(epsilon="1/100", count=100)
    >>> m = make_committed_stages(matrix_domain(9, 1), rows_metric(), d_in=2, delta=1e-6,
    ...     stages=[Stage(name="q", budget=Budget.of(1, 0), losses=(many,))], run=lambda ask: None)
    >>> round(m.map(2)[0], 3), m.map(2)[1], m.map(0)
    (0.392, 1e-06, (0.0, 0.0))
    """
    in_stages = make_in_stages(input_domain, input_metric, d_in=d_in, stages=stages, run=run)
    certificate = CommittedRule(delta=Fraction(delta)).cost(stages)

    def price(distance: int) -> tuple[float, float]:
        in_stages.map(distance)  # an error beyond d_in
        return (float_above(certificate.epsilon), delta) if distance else (0.0, 0.0)

    return dp.m.make_user_measurement(
        input_domain, input_metric, approximate(), lambda data: in_stages(data), price
    )


def program_after(transformation: Transformation, program: Program[Answer]) -> Program[Answer]:
    """The same program, asking about what a transformation makes of the data, once in a run."""
    return lambda ask: program(ask_after(transformation, ask))


def ask_after(transformation: Transformation, ask: Ask) -> Ask:
    """Asks about what a transformation makes of the data; however often, it is made once."""
    first = _once(transformation)
    return lambda measurement: ask(first >> measurement)


def _once(transformation: Transformation) -> Transformation:
    """The same transformation, which remembers what it made of the last data it was given."""
    last: list[tuple[Any, Any]] = []

    def remember(data: Any) -> Any:
        if not last or last[0][0] is not data:
            last[:] = [(data, transformation(data))]
        return last[0][1]

    return dp.t.make_user_transformation(
        transformation.input_domain,
        transformation.input_metric,
        transformation.output_domain,
        transformation.output_metric,
        remember,
        transformation.map,
    )


class _Slot(NamedTuple):
    """Room for one measurement."""

    stage: str
    loss: Loss
    cost: tuple[float, float]
    """(epsilon, delta) of the loss, a little below what the stage pays for it."""

    def admit(self, measurement: Measurement, d_in: int) -> Measurement:
        """The measurement as approximate differential privacy, if it is what was declared."""
        measure, most = _declared(self.loss)
        if not is_measured_in(measurement, measure):
            raise ValueError(
                f"a measurement of {self.stage} must be of {measure}; got "
                f"{measurement.output_measure}. Declare the loss that it has."
            )
        loss = measurement.map(d_in)
        at_unit = loss if isinstance(loss, tuple) else (loss,)
        if not all(amount <= limit for amount, limit in zip(at_unit, most, strict=True)):
            raise ValueError(
                f"a measurement of {self.stage} must cost at most what was declared, {self.loss}; "
                f"got more at {d_in} rows. Declare the loss that it has."
            )
        match self.loss:
            case PureLoss():
                return dp.c.make_approximate(measurement)
            case GaussianLoss():
                return gaussian_to_approximate(measurement, delta=self.cost[1])
            case ApproximateLoss():
                return measurement


def _slots(stage: Stage) -> Iterator[_Slot]:
    """One slot for each loss, as often as it counts."""
    if not stage.losses:
        raise ValueError(f"stage {stage.name} must state its losses; got none. State its cost.")
    slots = [
        _Slot(stage.name, loss.model_copy(update={"count": 1}), _cost(loss, stage))
        for loss in stage.losses
        for _ in range(loss.count)
    ]
    costs = (Budget.of(*map(Fraction, slot.cost)) for slot in slots)
    if not NOTHING.plus(costs).fits_within(stage.budget):
        raise ValueError(
            f"the losses of {stage.name} must come to at most its budget, {stage.budget}; got "
            f"{', '.join(map(str, stage.losses))}. Give a Gaussian loss a stage of its own."
        )
    yield from slots


def _cost(loss: Loss, stage: Stage) -> tuple[float, float]:
    match loss:
        case PureLoss():
            return lowered(loss.epsilon), 0.0
        case GaussianLoss():
            return stage_loss(stage.budget)  # all of it: only together with mu is delta a price
        case ApproximateLoss():
            return lowered(loss.epsilon), lowered(loss.delta)


def _declared(loss: Loss) -> tuple[Measure, tuple[Fraction, ...]]:
    """The output measure of a loss, and the largest distance in it."""
    match loss:
        case PureLoss():
            return pure(), (loss.epsilon,)
        case GaussianLoss():
            return gaussian_privacy(), (loss.mu, loss.leak)
        case ApproximateLoss():
            return approximate(), (loss.epsilon, loss.delta)


then_committed_stages: Any = to_then(make_committed_stages)
then_in_stages: Any = to_then(make_in_stages)
