from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest
from opendp.mod import OpenDPException

from accountant.errors import InvalidAmount
from accountant.gaussian import gaussian_epsilon
from accountant.losses import ApproximateLoss, GaussianLoss, PureLoss
from accountant.rules import CommittedRule
from accountant.specs import Budget, Stage
from dppca_odp.primitives.noise import lowered, stage_loss
from dppca_odp.primitives.stages import (
    make_committed_stages,
    make_in_stages,
    program_after,
    then_committed_stages,
    then_in_stages,
)
from dppca_odp.spaces import approximate, gaussian_privacy, matrix_domain, pure, rows_metric

SPACE = matrix_domain(5, 1), rows_metric()
TABLE = np.full((5, 1), 3.0)


def measurement(answer, epsilon, delta=None):
    """A measurement that answers with a function of the table; one row costs this much."""
    if delta is None:
        return dp.m.make_user_measurement(*SPACE, pure(), answer, lambda d_in: epsilon * d_in)
    return dp.m.make_user_measurement(
        *SPACE, approximate(), answer, lambda d_in: (epsilon * d_in, delta * d_in)
    )


def gaussian(answer, mu, leak=0):
    return dp.m.make_user_measurement(
        *SPACE, gaussian_privacy(), answer, lambda d_in: (Fraction(mu) * d_in, Fraction(leak))
    )


def pure_stage(epsilon, count=1, name="pure"):
    loss = PureLoss(epsilon=Fraction(epsilon), count=count)
    return Stage(name=name, budget=Budget.of(count * loss.epsilon, 0), losses=(loss,))


def approximate_stage(epsilon, delta):
    loss = ApproximateLoss(epsilon=Fraction(epsilon), delta=Fraction(delta))
    return Stage(name="told", budget=Budget.of(loss.epsilon, loss.delta), losses=(loss,))


#: 0.5 at (2.3, 1e-6): see EPSILON in test_noise.
GAUSSIAN = Stage(
    name="mean",
    budget=Budget.of("2.3", "1e-6"),
    losses=(GaussianLoss(mu=Fraction(1, 2), leak=Fraction(1, 10**20)),),
)


def in_stages(stages, run, *, d_in=1):
    return make_in_stages(*SPACE, d_in=d_in, stages=stages, run=run)


def ask_all(*measurements):
    return lambda ask: [ask(measurement) for measurement in measurements]


def refused(stages, *measurements, d_in=1):
    """What ``ask`` says to the last measurement."""
    said = []

    def run(ask):
        for accepted in measurements[:-1]:
            ask(accepted)
        with pytest.raises(ValueError, match=" must ") as caught:
            ask(measurements[-1])
        said.append(str(caught.value))

    in_stages(stages, run, d_in=d_in)(TABLE)
    return said[0]


def test_what_run_makes_of_the_answers_is_the_answer():
    def run(ask):
        rows = ask(measurement(len, 0.4))
        first = ask(measurement(lambda table: float(table[0, 0]), 0.2, 1e-7))
        noisy = ask(gaussian(lambda table: 7, "0.5"))
        return {"rows": rows, "first": first, "noisy": noisy}

    stages = [pure_stage("0.5"), approximate_stage("0.25", "1e-6"), GAUSSIAN]
    assert {"rows": 5, "first": 3.0, "noisy": 7} == in_stages(stages, run)(TABLE)


def test_a_stage_can_be_chosen_from_the_answers_before_it():
    def run(ask):
        rows = ask(measurement(len, 0.4))
        return ask(measurement(lambda table: rows * float(table[0, 0]), 0.4))

    assert 15.0 == in_stages([pure_stage("0.5"), pure_stage("0.5")], run)(TABLE)


def test_stages_run_when_they_are_asked_and_in_their_order():
    seen = []

    def run(ask):
        for number in (1, 2, 3):
            ask(measurement(lambda table, number=number: seen.append(number) or number, 0.09))
            seen.append(f"after {number}")

    in_stages([pure_stage("0.1", 3)], run)(TABLE)
    assert [1, "after 1", 2, "after 2", 3, "after 3"] == seen


def test_losses_belong_to_slots_in_order():
    small, large = pure_stage("0.26", name="small"), pure_stage("0.51", name="large")
    asked = measurement(len, 0.25), measurement(len, 0.5)
    assert [5, 5] == in_stages([small, large], ask_all(*asked))(TABLE)
    assert "small must cost at most" in refused([small, large], asked[1])
    assert "small must cost at most" in refused([large, small], asked[1], asked[1])


def test_each_loss_counts_as_many_slots():
    stages = [pure_stage("0.1", 2), pure_stage("0.2")]
    asked = measurement(len, 0.09), measurement(len, 0.09), measurement(len, 0.19)
    assert [5, 5, 5] == in_stages(stages, ask_all(*asked))(TABLE)
    assert "pure 0.1" in refused(stages, asked[0], asked[2])


@pytest.mark.parametrize(
    ("stage", "fits", "dearer"),
    [
        (pure_stage(0.5), measurement(len, lowered(Fraction(0.5))), measurement(len, 0.5 + 2**-53)),
        (
            approximate_stage(0.5, 2.0**-20),
            measurement(len, 0.49, lowered(Fraction(2.0**-20))),
            measurement(len, 0.49, np.nextafter(2.0**-20, 1)),
        ),
        (
            approximate_stage(0.5, 2.0**-20),
            measurement(len, 0.49, 0.0),
            measurement(len, np.nextafter(0.5, 1), 0.0),
        ),
        (
            GAUSSIAN,
            gaussian(len, "0.5", "1e-20"),
            gaussian(len, Fraction("0.5") + Fraction(1, 10**80)),
        ),
        (
            GAUSSIAN,
            gaussian(len, "0.5", "1e-20"),
            gaussian(len, "0.5", Fraction("1e-20") + Fraction(1, 10**80)),
        ),
    ],
    ids=["pure", "delta", "epsilon", "mu", "leak"],
)
def test_a_measurement_a_hair_dearer_than_its_loss_is_refused_before_the_data(stage, fits, dearer):
    assert [5] == in_stages([stage], ask_all(fits))(TABLE)
    said = refused([stage], dearer)
    expected = f"a measurement of {stage.name} must cost at most what was declared, "
    assert said.startswith(expected + str(stage.losses[0]))
    assert said.endswith("; got more at 1 rows. Declare the loss that it has.")


def test_between_a_loss_and_what_its_slot_pays_opendp_stops_a_measurement_before_the_data():
    seen = []
    asked = measurement(lambda table: seen.append(1) or 0, 0.5)
    with pytest.raises(OpenDPException):
        in_stages([pure_stage("0.5")], ask_all(asked))(TABLE)
    assert [] == seen


KINDS = {
    "pure": (pure_stage("0.5"), measurement(len, 0.1)),
    "Gaussian": (GAUSSIAN, gaussian(len, "0.01")),
    "approximate": (approximate_stage("0.5", "1e-6"), measurement(len, 0.1, 1e-9)),
}


@pytest.mark.parametrize("asked", KINDS)
@pytest.mark.parametrize("declared", KINDS)
def test_only_the_declared_type_is_admitted_however_little_it_costs(declared, asked):
    stage, question = KINDS[declared][0], KINDS[asked][1]
    if declared == asked:
        assert [5] == in_stages([stage], ask_all(question))(TABLE)
    else:
        measures = {"pure": pure(), "Gaussian": gaussian_privacy(), "approximate": approximate()}
        expected = (
            f"a measurement of {stage.name} must be of {measures[declared]}; got "
            f"{measures[asked]}. Declare the loss that it has."
        )
        assert expected == refused([stage], question)


def test_a_measurement_of_zero_concentrated_privacy_has_no_slot():
    asked = dp.m.make_user_measurement(
        *SPACE, dp.zero_concentrated_divergence(), len, lambda d_in: 1e-9
    )
    for stage, _ in KINDS.values():
        assert "must be of" in refused([stage], asked)


def test_a_measurement_is_priced_at_the_unit():
    stage, asked = pure_stage("0.51"), measurement(len, 0.25)
    assert [5] == in_stages([stage], ask_all(asked), d_in=2)(TABLE)
    assert "got more at 3 rows. Declare" in refused([stage], asked, d_in=3)


def test_more_measurements_than_planned_are_refused():
    expected = (
        "a measurement must have a slot; got one more than the 2 that are planned. "
        "Plan a stage for it."
    )
    asked = measurement(len, 0.0)
    assert expected == refused([pure_stage("0.5", 2)], asked, asked, asked)


def test_stages_that_are_not_asked_are_paid_for():
    made = in_stages([pure_stage("0.5"), approximate_stage("0.25", "1e-6")], lambda ask: "nothing")
    assert "nothing" == made(TABLE)
    epsilon, delta = made.map(1)
    assert Fraction(3, 4) * (1 - Fraction(1, 10**11)) < Fraction(epsilon) <= Fraction(3, 4)
    assert lowered(Fraction("1e-6")) == delta


def test_a_gaussian_slot_pays_what_its_stage_does():
    made = in_stages([GAUSSIAN], lambda ask: None)
    assert stage_loss(GAUSSIAN.budget) == made.map(1)
    assert gaussian_epsilon(Fraction(1, 2), Fraction("1e-6")) < made.map(1)[0]
    dear = GAUSSIAN.model_copy(update={"budget": Budget.of("2.2", "1e-6")})
    with pytest.raises(OpenDPException):
        in_stages([dear], ask_all(gaussian(len, "0.5")))(TABLE)


def test_every_distance_up_to_the_unit_costs_the_whole_and_nothing_costs_nothing():
    made = in_stages([pure_stage("0.5")], lambda ask: None, d_in=3)
    assert [(0.0, 0.0), *[(lowered(Fraction(1, 2)), 0.0)] * 3] == [made.map(d) for d in range(4)]


def test_more_changed_rows_than_declared_have_no_price():
    with pytest.raises(OpenDPException):
        in_stages([pure_stage("0.5")], lambda ask: None, d_in=2).map(3)


@pytest.mark.parametrize(
    ("d_in", "stages"), [(0, [pure_stage("0.5")]), (-1, [pure_stage("0.5")]), (1, [])], ids=str
)
def test_no_stages_or_no_unit_are_refused(d_in, stages):
    expected = (
        f"^d_in must be at least 1, with at least one stage; got {d_in} and {len(stages)}. "
        "Plan a stage for each loss.$"
    )
    with pytest.raises(ValueError, match=expected):
        in_stages(stages, lambda ask: None, d_in=d_in)


def test_a_stage_without_losses_is_refused():
    stage = Stage(name="odd", budget=Budget.of(1, 0), losses=())
    with pytest.raises(ValueError, match=r"^stage odd must state its losses; got none\. State"):
        in_stages([stage], lambda ask: None)


@pytest.mark.parametrize(
    "losses",
    [
        (PureLoss(epsilon="0.1", count=24),),
        (ApproximateLoss(epsilon="0.1", delta="1.1e-6"),),
        GAUSSIAN.losses * 2,
        (GaussianLoss(mu="0.1", count=2),),
        (PureLoss(epsilon="0.001"), *GAUSSIAN.losses),
    ],
    ids=["epsilon", "delta", "two Gaussians", "twice Gaussian", "more than Gaussian"],
)
def test_losses_that_pass_the_budget_of_their_stage_are_refused(losses):
    stage = Stage(name="odd", budget=GAUSSIAN.budget, losses=losses)
    expected = "^the losses of odd must come to at most its budget, epsilon 2.3 and delta 1e-6; got"
    with pytest.raises(ValueError, match=expected):
        in_stages([stage], lambda ask: None)


def test_stages_chain():
    stages = [pure_stage("0.5")]
    run = ask_all(measurement(len, 0.4))
    chain = SPACE >> then_in_stages(d_in=1, stages=stages, run=run)
    assert [5] == chain(TABLE)
    assert in_stages(stages, run).map(1) == chain.map(1)
    committed = SPACE >> then_committed_stages(d_in=1, stages=stages, delta=1e-6, run=run)
    assert [5] == committed(TABLE)


# Committed.

MANY = [pure_stage("0.05", 10), GAUSSIAN]


def test_the_certificate_is_that_of_all_losses_at_the_delta():
    made = make_committed_stages(*SPACE, d_in=3, stages=MANY, delta=1e-6, run=lambda ask: None)
    epsilon, delta = made.map(3)
    certificate = CommittedRule(delta=Fraction(1e-6)).cost(MANY)
    assert (Fraction(epsilon), Fraction(delta)) == certificate.coordinates
    assert epsilon < 0.95 * in_stages(MANY, lambda ask: None).map(1)[0]
    assert [(0.0, 0.0), *[(epsilon, delta)] * 3] == [made.map(d) for d in range(4)]
    with pytest.raises(OpenDPException):
        made.map(4)


def test_committed_stages_admit_what_stages_do():
    def run(ask):
        with pytest.raises(ValueError, match="must be of"):
            ask(gaussian(len, "0.01"))
        return "refused"

    made = make_committed_stages(*SPACE, d_in=1, stages=MANY, delta=1e-6, run=run)
    assert "refused" == made(TABLE)


def test_a_delta_that_the_losses_exceed_is_refused():
    with pytest.raises(InvalidAmount, match="losses must keep delta"):
        make_committed_stages(
            *SPACE,
            d_in=1,
            stages=[approximate_stage("0.1", "1e-5")],
            delta=1e-6,
            run=lambda ask: None,
        )


# Programs about what a transformation makes of the data.


def doubled(seen):
    return dp.t.make_user_transformation(
        *SPACE, *SPACE, lambda table: seen.append(1) or 2 * table, lambda d_in: 2 * d_in
    )


def first(table):
    return float(table[0, 0])


def test_a_program_asks_about_what_the_transformation_makes_and_pays_for_its_stability():
    asked = ask_all(measurement(first, 0.1))
    made = in_stages([pure_stage("0.21")], program_after(doubled([]), asked))
    assert [6.0] == made(TABLE)
    cheap = in_stages([pure_stage("0.19")], program_after(doubled([]), asked))
    with pytest.raises(OpenDPException):
        cheap(TABLE)


def test_the_transformation_runs_once_in_a_run_and_again_in_the_next():
    seen = []
    asked = ask_all(*[measurement(first, 0.1)] * 3)
    made = in_stages([pure_stage("0.5", 3)], program_after(doubled(seen), asked))
    assert [6.0] * 3 == made(TABLE)
    assert [1] == seen
    table = TABLE.copy()
    table[:] = 5.0
    assert [10.0] * 3 == made(table)
    assert [1, 1] == seen
    table[:] = 6.0  # in place: nothing of the last run is left
    assert [12.0] * 3 == made(table)


def test_transformations_of_programs_nest():
    seen, outer = [], []
    asked = ask_all(*[measurement(first, 0.1)] * 3)
    program = program_after(doubled(outer), program_after(doubled(seen), asked))
    assert [12.0] * 3 == in_stages([pure_stage("0.5", 3)], program)(TABLE)
    assert ([1], [1]) == (seen, outer)
