import numpy as np
import opendp.prelude as dp
import pytest
from opendp.mod import OpenDPException

from dppca_odp.primitives.stages import make_in_stages, then_in_stages
from dppca_odp.spaces import approximate, matrix_domain, rows_metric

SPACE = matrix_domain(5, 1), rows_metric()
TABLE = np.full((5, 1), 3.0)


def measurement(answer, epsilon, delta=0.0):
    """A measurement that answers with a function of the table; one row costs this much."""
    return dp.m.make_user_measurement(
        *SPACE, approximate(), answer, lambda d_in: (epsilon * d_in, delta * d_in)
    )


def in_stages(losses, run, *, d_in=1):
    return make_in_stages(*SPACE, d_in=d_in, losses=losses, run=run)


def test_what_run_makes_of_the_answers_is_the_answer():
    def run(ask):
        rows = ask(measurement(len, 0.5))
        first = ask(measurement(lambda table: float(table[0, 0]), 0.25, 1e-6))
        return {"rows": rows, "first": first}

    assert {"rows": 5, "first": 3.0} == in_stages([(0.5, 0.0), (0.25, 1e-6)], run)(TABLE)


def test_a_stage_can_be_chosen_from_the_answers_before_it():
    def run(ask):
        rows = ask(measurement(len, 0.5))
        return ask(measurement(lambda table: rows * float(table[0, 0]), 0.5))

    assert 15.0 == in_stages([(0.5, 0.0)] * 2, run)(TABLE)


def test_stages_run_when_they_are_asked_and_in_their_order():
    seen = []

    def run(ask):
        for number in (1, 2, 3):
            ask(measurement(lambda table, number=number: seen.append(number) or number, 0.1))
            seen.append(f"after {number}")

    in_stages([(0.1, 0.0)] * 3, run)(TABLE)
    assert [1, "after 1", 2, "after 2", 3, "after 3"] == seen


def test_losses_belong_to_stages_in_order():
    def swapped(ask):
        ask(measurement(len, 0.25))
        ask(measurement(len, 0.5))

    with pytest.raises(OpenDPException):
        in_stages([(0.5, 0.0), (0.25, 0.0)], swapped)(TABLE)
    in_stages([(0.25, 0.0), (0.5, 0.0)], swapped)(TABLE)


@pytest.mark.parametrize(
    "loss", [(np.nextafter(0.5, 0), 1.0), (1.0, np.nextafter(1e-6, 0))], ids=["epsilon", "delta"]
)
def test_a_measurement_a_hair_dearer_than_its_loss_is_stopped_before_the_data(loss):
    seen = []

    def run(ask):
        return ask(measurement(lambda table: seen.append(1) or 0, 0.5, 1e-6))

    with pytest.raises(OpenDPException):
        in_stages([tuple(map(float, loss))], run)(TABLE)
    assert [] == seen


def test_a_measurement_is_priced_at_the_unit():
    def run(ask):
        return ask(measurement(len, 0.25))

    assert 5 == in_stages([(0.5, 0.0)], run, d_in=2)(TABLE)
    with pytest.raises(OpenDPException):
        in_stages([(0.5, 0.0)], run, d_in=3)(TABLE)


def test_more_stages_than_losses_are_stopped():
    def run(ask):
        return [ask(measurement(len, 0.5)), ask(measurement(len, 0.0))]

    with pytest.raises(OpenDPException):
        in_stages([(0.5, 0.0)], run)(TABLE)


def test_stages_that_are_not_asked_are_paid_for():
    made = in_stages([(0.5, 0.0), (0.25, 1e-6)], lambda ask: "nothing")
    assert "nothing" == made(TABLE)
    assert (0.75, 1e-6) == made.map(1)


def test_every_distance_up_to_the_unit_costs_the_whole_and_nothing_costs_nothing():
    made = in_stages([(0.5, 0.0), (0.25, 1e-6)], lambda ask: None, d_in=3)
    assert [(0.0, 0.0), *[(0.75, 1e-6)] * 3] == [made.map(d) for d in range(4)]


def test_more_changed_rows_than_declared_have_no_price():
    with pytest.raises(OpenDPException):
        in_stages([(0.5, 0.0)], lambda ask: None, d_in=2).map(3)


def test_losses_are_added_without_rounding_down():
    made = in_stages([(0.1, 0.1 * 2.0**-30)] * 3, lambda ask: None)
    epsilon, delta = made.map(1)
    assert epsilon >= 3 * 0.1 - 2**-54
    assert dp.c.make_composition([measurement(len, 0.1, 0.1 * 2.0**-30)] * 3).map(1) == (
        epsilon,
        delta,
    )


@pytest.mark.parametrize(
    ("d_in", "losses"), [(0, [(0.5, 0.0)]), (-1, [(0.5, 0.0)]), (1, [])], ids=str
)
def test_no_stages_or_no_unit_are_refused(d_in, losses):
    expected = (
        f"^d_in must be at least 1, with at least one loss; got {d_in} and {len(losses)}. "
        "State a loss for each stage.$"
    )
    with pytest.raises(ValueError, match=expected):
        in_stages(losses, lambda ask: None, d_in=d_in)


def test_stages_chain():
    def run(ask):
        return ask(measurement(len, 0.5))

    chain = SPACE >> then_in_stages(d_in=1, losses=[(0.5, 0.0)], run=run)
    assert 5 == chain(TABLE)
    assert in_stages([(0.5, 0.0)], run).map(1) == chain.map(1)
