"""A plan is what its text says, splits its budget exactly, and costs no more than that."""

from fractions import Fraction
from unicodedata import normalize

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from accountant import Budget
from accountant.rules import CommittedRule
from dppca_odp.errors import InvalidPlan
from dppca_odp.plan import Plan

amounts = st.fractions(Fraction(1, 1000), 20, max_denominator=10**6)
#: What may be charged: decimals, over numbers up to 100.
budgets = st.builds(
    lambda epsilon, delta, parts: Budget.of(
        Fraction(epsilon, 1000 * parts), Fraction(delta, 10**9 * parts)
    ),
    st.integers(100, 20_000),
    st.integers(100, 10**8),
    st.integers(1, 100),
)
words = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=12).map(
    lambda text: normalize("NFC", text)  # names are written in one way: others are refused
)
numbers = st.floats(-1e6, 1e6)
positive = st.floats(1e-3, 1e6)
COLUMNS = 3


@st.composite
def columns(draw):
    named = []
    for name in draw(st.lists(words, min_size=COLUMNS, max_size=COLUMNS, unique=True)):
        lower, upper = sorted(draw(st.tuples(numbers, numbers)))
        some = {"lower": lower, "upper": upper, "scale": draw(positive), "missing": draw(numbers)}
        chosen = draw(st.sets(st.sampled_from(sorted(some))))
        named.append({"name": name} | {key: some[key] for key in chosen})
    return named


@st.composite
def labels(draw):
    names = draw(st.lists(words, max_size=2, unique=True))
    return [
        {
            "name": f"label {name}",
            "levels": draw(st.lists(words, min_size=1, max_size=3, unique=True)),
            "rest": "what is left",
        }
        for name in names
    ]


methods = st.one_of(
    st.fixed_dictionaries({"kind": st.just("clipped"), "clipping_bound": positive}),
    st.fixed_dictionaries(
        {
            "kind": st.just("pmwm"),
            "lower_bound": st.floats(-1e3, 0),
            "upper_bound": st.floats(1e-3, 1e3),
        },
        optional={
            "trim_fraction": st.floats(0, 0.49),
            "trim_constant": positive,
            "pair_rows": st.sampled_from(["reuse", "split"]),
            "grid": st.fixed_dictionaries({"steps": st.integers(1, 50), "unit": positive}),
        },
    ),
    st.fixed_dictionaries(
        {
            "kind": st.just("huber"),
            "lowest_scale": st.integers(-20, 0),
            "highest_scale": st.integers(1, 20),
            "scale_fraction": st.sampled_from(["1/4", "0.1", "2/3"]),
        },
        optional={
            "steps": st.integers(1, 12),
            "step_size": positive,
            "initial": numbers,
        },
    ),
)


@st.composite
def plans(draw):
    names = draw(st.lists(words, min_size=1, max_size=4, unique=True))
    given_directions = np.eye(COLUMNS, draw(st.integers(1, COLUMNS))).tolist()
    releases = [
        {
            "kind": "directions",
            "name": names[0],
            "components": draw(st.integers(1, COLUMNS)),
            "degree": draw(st.sampled_from([2, 4, 16])),
            "weight": draw(amounts),
        }
    ]
    for name in names[1:]:
        releases.append(
            {
                "kind": "scree",
                "name": name,
                "method": draw(methods),
                "directions": draw(st.sampled_from([names[0], given_directions])),
                "nonincreasing": draw(st.booleans()),
                "weight": draw(amounts),
            }
        )
    return Plan.model_validate(
        {
            "budget": draw(budgets),
            "unit": {"rows_per_person": draw(st.integers(1, 30))},
            "columns": draw(columns()),
            "labels": draw(labels()),
            "releases": releases,
        }
    )


@settings(max_examples=60)
@given(plans())
def test_printing_then_parsing_is_the_identity_and_keeps_the_hash(plan):
    again = Plan.model_validate_json(plan.model_dump_json())
    assert again == plan
    assert again.hash == plan.hash
    assert Plan.model_validate(plan.model_dump(mode="json")).hash == plan.hash


@settings(max_examples=60)
@given(plans())
def test_shares_and_stages_sum_to_the_budget_exactly(plan):
    shares = plan.shares().values()
    assert sum(share.epsilon for share in shares) == plan.budget.epsilon
    assert sum(share.delta for share in shares) == plan.budget.delta
    stages = [line.stage.budget for line in plan.preview(200).stages]
    assert sum(budget.epsilon for budget in stages) == plan.budget.epsilon
    assert sum(budget.delta for budget in stages) == plan.budget.delta


@settings(max_examples=60)
@given(plans(), st.integers(8, 500))
def test_the_compiled_plan_costs_at_most_its_budget_compared_exactly(plan, rows):
    try:
        measurement = plan.make(rows)
    except InvalidPlan as error:  # a budget so large that integers are too coarse for it
        assume("an epsilon that integers can keep" not in str(error))
        raise
    unit = plan.unit.rows_per_person
    for distance in {1, unit}:
        epsilon, delta = map(Fraction, measurement.map(distance))
        assert epsilon <= plan.budget.epsilon
        assert delta <= plan.budget.delta
    assert (0.0, 0.0) == measurement.map(0)
    assert Fraction(measurement.map(unit)[0]) >= plan.budget.epsilon * (1 - Fraction(1, 10**6))


@settings(max_examples=40)
@given(plans(), st.integers(8, 500))
def test_a_committed_plan_uses_up_its_budget_and_never_passes_it(plan, rows):
    committed = plan.model_copy(update={"composition": "committed"})
    try:
        measurement = committed.make(rows)
    except InvalidPlan:  # too large for integers, or too small for floating point
        assume(False)
    epsilon, delta = map(Fraction, measurement.map(plan.unit.rows_per_person))
    budget = plan.budget
    assert budget.epsilon * (1 - Fraction(1, 10**6)) <= epsilon
    assert epsilon <= budget.epsilon * (1 - Fraction(1, 10**9))
    assert delta <= budget.delta
    stages = [line.stage for line in committed.stages(rows)]
    assert CommittedRule(delta=budget.delta).cost(stages).fits_within(budget)
    factor = committed.factor(rows)
    assert factor >= 1 - Fraction(1, 10**6)
    for name, share in plan.shares().items():
        assert Budget.of(share.epsilon * factor, share.delta) == committed.shares(factor)[name]
