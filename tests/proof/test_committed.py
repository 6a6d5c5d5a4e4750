"""Committed plans: what they cost, and that nothing but the declared losses can run inside."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from opendp.mod import OpenDPException

from accountant.losses import ApproximateLoss, GaussianLoss, PureLoss
from accountant.rules import CommittedRule
from dppca_odp import plan as plans
from dppca_odp.errors import InvalidPlan
from dppca_odp.plan import Plan
from dppca_odp.primitives.stages import make_committed_stages

ROWS, UNIT = 60, 3
COLUMNS = ("a", "b", "c", "d", "e")
PUBLIC = {"x_low": -3, "x_high": 3, "y_low": -3, "y_high": 3}
PMWM = {"kind": "pmwm", "lower_bound": 0, "upper_bound": 100}
#: More blocks than rows of a person, so that all of these count.
HUBER = {
    "kind": "huber",
    "lowest_scale": -5,
    "highest_scale": 5,
    "scale_fraction": "1/4",
    "blocks": 5,
}


def scree(method, name):
    return {"kind": "scree", "name": name, "directions": "main", "method": method}


def scores(name, **changes):
    return {"kind": "scores", "name": name, "directions": "main", "groups": "g"} | changes


AXES = {"kind": "directions", "name": "main", "components": 2}
RELEASES = {
    "clipped": scree({"kind": "clipped", "clipping_bound": 5}, "clipped"),
    "pmwm": scree(PMWM, "pmwm"),
    "pmwm reuse": scree(PMWM | {"pair_rows": "reuse"}, "pmwm reuse"),
    "huber": scree(HUBER, "huber"),
    "additive": scores("additive", histogram="additive"),
    "sparse": scores("sparse", histogram="sparse"),
    "public": scores("public", histogram="additive", frame=PUBLIC),
}


def plan(*names, composition="committed", budget=("1", "1e-6")):
    return Plan.model_validate(
        {
            "budget": dict(zip(("epsilon", "delta"), budget, strict=True)),
            "unit": {"rows_per_person": UNIT},
            "columns": COLUMNS,
            "labels": [{"name": "g", "levels": ["x", "y"]}],
            "releases": [AXES, *(RELEASES[name] for name in names)],
            "composition": composition,
        }
    )


def table(number=ROWS):
    rows = np.random.default_rng(44).normal(size=(number, len(COLUMNS) + 1))
    rows[:, -1] = np.arange(number) % 3
    return rows


EVERY = [*RELEASES, "all"]


def of(name, **changes):
    return plan(*(RELEASES if name == "all" else [name]), **changes)


@pytest.mark.parametrize("budget", [("1", "1e-6"), ("1/3", "1e-9"), ("4", "1e-5")])
@pytest.mark.parametrize("name", EVERY)
def test_the_map_is_the_certificate_and_just_below_the_budget(name, budget):
    committed = of(name, budget=budget)
    measurement = committed.make(ROWS)
    epsilon, delta = measurement.map(UNIT)
    granted = committed.budget
    assert granted.epsilon * (1 - Fraction(1, 10**6)) <= Fraction(epsilon)
    assert Fraction(epsilon) <= granted.epsilon * (1 - Fraction(1, 10**9))
    assert granted.delta * (1 - Fraction(1, 10**12)) <= Fraction(delta) <= granted.delta
    stages = [line.stage for line in committed.stages(ROWS)]
    assert CommittedRule(delta=Fraction(delta)).cost(stages).epsilon == Fraction(epsilon)
    assert CommittedRule(delta=granted.delta).cost(stages).fits_within(granted)


@pytest.mark.parametrize("name", EVERY)
def test_the_map_at_every_distance(name):
    measurement = of(name).make(ROWS)
    certificate = measurement.map(UNIT)
    assert [(0.0, 0.0)] + [certificate] * UNIT == [measurement.map(d) for d in range(UNIT + 1)]
    with pytest.raises(OpenDPException):
        measurement.map(UNIT + 1)


@pytest.mark.parametrize("name", EVERY)
def test_every_release_runs_inside(name):
    answers = of(name).make(ROWS)(table())
    assert list(answers) == list(of(name).release_names)
    constant = np.zeros((ROWS, len(COLUMNS) + 1))  # no range left for a mean, no eigenvalue apart
    assert list(of(name).make(ROWS)(constant)) == list(answers)


def with_stages(monkeypatch, change):
    """Plans that declare other stages than their releases take."""
    honest = make_committed_stages

    def dishonest(*space, stages, **rest):
        return honest(*space, stages=[change(stage) for stage in stages], **rest)

    monkeypatch.setattr(plans, "make_committed_stages", dishonest)


def less(loss, factor):
    changed = {
        PureLoss: lambda: {"epsilon": loss.epsilon * factor},
        GaussianLoss: lambda: {"mu": loss.mu * factor},
        ApproximateLoss: lambda: {"epsilon": loss.epsilon * factor},
    }
    return loss.model_copy(update=changed[type(loss)]())


#: Rows that keep the cutoffs of a mean apart; else it spends less than it declares.
ENOUGH = 6000
STAGES = {
    "main: matrix": "clipped",
    "clipped: mean": "clipped",
    "pmwm: quantile": "pmwm",
    "pmwm: mean": "pmwm",
    "huber: scale": "huber",
    "huber: gradient descent": "huber",
    "additive: frame": "additive",
    "additive: histogram": "additive",
    "sparse: histogram": "sparse",
}


def refusals(monkeypatch, name, change):
    """What a run says when the declared losses of one stage are changed."""
    with_stages(
        monkeypatch,
        lambda stage: (
            stage.model_copy(update={"losses": tuple(map(change, stage.losses))})
            if stage.name == name
            else stage
        ),
    )
    measurement = plan(STAGES[name], budget=("4", "1e-6")).make(ENOUGH)
    with pytest.raises(OpenDPException) as caught:
        measurement(table(ENOUGH))
    return str(caught.value)


@pytest.mark.parametrize("name", STAGES)
def test_half_of_a_declared_loss_makes_ask_refuse(monkeypatch, name):
    """The price falls with the declaration, so what runs must be held to it."""
    said = refusals(monkeypatch, name, lambda loss: less(loss, Fraction(1, 2)))
    assert f"a measurement of {name} must cost at most what was declared" in said


@pytest.mark.parametrize("name", STAGES)
def test_the_declared_loss_is_the_one_that_is_spent(monkeypatch, name):
    said = refusals(monkeypatch, name, lambda loss: less(loss, 1 - Fraction(1, 10**11)))
    assert f"a measurement of {name} must cost at most what was declared" in said


@pytest.mark.parametrize("name", STAGES)
def test_another_type_of_loss_makes_ask_refuse_however_large_it_is(monkeypatch, name):
    def retyped(loss):
        if isinstance(loss, PureLoss):
            return GaussianLoss(mu=5, leak=Fraction(1, 10**30))
        return PureLoss(epsilon=Fraction(1, 100), count=1)

    if name in ("pmwm: quantile", "huber: scale", "additive: frame"):
        # as many Gaussian losses do not fit in a stage: one, in a stage with a delta
        with_stages(
            monkeypatch,
            lambda stage: (
                stage.model_copy(
                    update={
                        "losses": (GaussianLoss(mu=Fraction(1, 100)),),
                        "budget": stage.budget.of(1, "1e-8"),
                    }
                )
                if stage.name == name
                else stage
            ),
        )
        with pytest.raises(OpenDPException, match=f"a measurement of {name} must be of gaussian"):
            plan(STAGES[name]).make(ROWS)(table())
    else:
        assert f"a measurement of {name} must be of" in refusals(monkeypatch, name, retyped)


# Known numbers.


def pipeline(composition, histogram="additive"):
    """Directions, PMWM and a histogram in thirds of (1, 1e-6); five components."""
    return Plan.model_validate(
        {
            "budget": {"epsilon": "1", "delta": "1e-6"},
            "unit": {"rows_per_person": 1},
            "columns": COLUMNS,
            "releases": [
                AXES | {"components": 5},
                scree(PMWM, "pmwm"),
                scores("scores", histogram=histogram, frame=PUBLIC, groups=None),
            ],
            "composition": composition,
        }
    )


@pytest.mark.parametrize(
    ("histogram", "epsilon", "noise"), [("additive", 0.532, 0.56), ("sparse", 0.743, 0.75)]
)
def test_directions_pmwm_and_a_histogram_in_thirds(histogram, epsilon, noise):
    alone, committed = (pipeline(rule, histogram).stages(10_000) for rule in ("sum", "committed"))
    together = CommittedRule(delta=Fraction("1e-6")).cost(line.stage for line in alone)
    assert float(together.epsilon) == pytest.approx(epsilon, abs=1e-3)
    matrix, *_, last = (
        one.noise_scale / other.noise_scale for one, other in zip(committed, alone, strict=True)
    )
    assert last == pytest.approx(noise, abs=0.01)
    assert matrix == pytest.approx(noise, abs=0.02)


def test_a_plan_whose_stages_tell_all_of_delta_is_refused():
    only = scores("s", histogram="sparse", directions=np.eye(5, 2).tolist())
    asked = Plan.model_validate(plan("clipped").model_dump(mode="json") | {"releases": [only]})
    with pytest.raises(InvalidPlan, match=r"^a committed plan must keep delta 1e-6 at some"):
        asked.make(ROWS)
    assert asked.model_copy(update={"composition": "sum"}).make(ROWS).map(1)[0] < 1
