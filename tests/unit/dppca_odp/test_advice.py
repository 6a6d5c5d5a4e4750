import json
import re

import numpy as np
import pytest
from rich.console import Console

from accountant import AccountantError, Budget, PrivacyUnit
from dppca_odp.advice import (
    MOST_SINE,
    WEIGHTS,
    Advice,
    advise,
    expected_sines,
    guessed_spectrum,
    kendall_eigenvalues,
)
from dppca_odp.errors import InvalidPlan
from dppca_odp.plan import Plan

ONE = Budget.of("1", "1e-6")


@pytest.fixture(scope="module")
def good():
    return advise(ONE, 10_000, 5)


@pytest.fixture(scope="module")
def refused():
    return advise(ONE, 300, 5, components=3)


def test_a_good_table_gets_a_committed_plan_of_directions_and_an_adaptive_scree(good):
    directions, scree = good.plan.releases
    assert ("directions", "scree", "adaptive") == (directions.kind, scree.kind, scree.method.kind)
    assert 5 == good.components == directions.components
    assert "committed" == good.plan.composition
    assert ONE == good.plan.budget
    assert (directions.weight, scree.weight) in WEIGHTS
    assert None is good.least_rows is good.least_epsilon


def test_the_plan_is_one_that_runs_and_previews_as_told(good):
    guess = guessed_spectrum(5)
    shown = good.plan.preview(10_000, guesses={"scree": guess})
    (scree,) = shown.screes
    assert scree.outlook == good.outlook
    assert scree.noise_scales / guess == pytest.approx(good.noise)
    assert good.plan.price(10_000).epsilon <= 1


def test_other_weights_are_not_better(good):
    """The stated objective, computed again from previews."""

    def objective(weights):
        directions, scree = good.plan.releases
        releases = (
            directions.model_copy(update={"weight": weights[0]}),
            scree.model_copy(update={"weight": weights[1]}),
        )
        plan = Plan.model_validate(good.plan.model_dump() | {"releases": releases})
        guess = guessed_spectrum(5)
        shown = plan.preview(10_000, guesses={"scree": guess})
        sines = expected_sines(guess, shown.stages[0].noise_scale)
        return sines.mean() + (shown.screes[0].noise_scales / guess).mean()

    told = np.mean(good.sines) + np.mean(good.noise)
    assert told == pytest.approx(min(map(objective, WEIGHTS)))


def test_small_tables_have_more_pairs(good):
    assert {32} == {good.plan.releases[0].degree, good.plan.releases[1].method.degree}
    large = advise(ONE, 1_000_000, 5, components=2).plan
    assert {16} == {large.releases[0].degree, large.releases[1].method.degree}


def test_fewer_rows_have_fewer_components_and_never_more_than_columns(good):
    found = [advise(ONE, rows, 5).components for rows in (400, 600, 800)]
    assert sorted(found) == found
    assert found[0] < found[-1] <= good.components


def test_a_table_too_small_gets_no_plan_but_what_would_do(refused):
    assert refused.plan is None
    assert 600 < refused.least_rows < 1000
    assert 2 < float(refused.least_epsilon) < 4
    told = "\n".join(refused.sentences())
    assert f"epsilon {refused.least_epsilon} would do for these rows" in told
    assert f"{refused.least_rows} rows would do for this budget" in told


def test_from_there_on_there_is_a_plan_and_just_below_none(refused):
    rows = refused.least_rows
    assert advise(ONE, rows, 5, components=3).plan
    assert not advise(ONE, rows - 1, 5, components=3).plan
    enough = float(refused.least_epsilon)
    for factor, is_enough in ((1, True), (0.998, False)):
        budget = Budget.of(f"{factor * enough:.6g}", "1e-6")
        assert is_enough == bool(advise(budget, refused.rows, 5, components=3).plan)


def test_rows_of_one_person_must_be_paid_for(refused):
    three = advise(ONE, refused.rows, 5, components=3, unit=PrivacyUnit(rows_per_person=3))
    assert refused.least_rows * 2.9 < three.least_rows < refused.least_rows * 3.1


def test_where_no_epsilon_is_enough_it_tells_none():
    told = advise(ONE, 3, 5)
    assert (None, None, 1) == (told.plan, told.least_epsilon, told.components)
    assert not any("epsilon" in line and "would do" in line for line in told.sentences())


@pytest.mark.parametrize(
    ("rows", "columns", "components", "problem"),
    [
        (2, 5, None, "rows must be at least 3; got 2. A ring of pairs needs them."),
        (99, 1, None, "columns must be at least 2; got 1. Plan a scree along"),
        (99, 5, 0, "components must be between 1 and the number of columns, 5; got 0."),
        (99, 5, 6, "components must be between 1 and the number of columns, 5; got 6."),
    ],
)
def test_a_shape_that_no_plan_suits_is_refused(rows, columns, components, problem):
    with pytest.raises(InvalidPlan, match=f"^{re.escape(problem)}"):
        advise(ONE, rows, columns, components)


@pytest.mark.parametrize("budget", [Budget.of("0", "1e-6"), Budget.of("1", "0")])
def test_a_budget_that_pays_for_no_noise_is_refused_in_one_line(budget):
    with pytest.raises(AccountantError, match=r"must .*; got .*"):
        advise(budget, 1000, 5)


def test_it_shows_sentences_and_a_plan_to_copy(good, refused):
    shown = Plan.model_validate_json(str(good)[str(good).index("{") :])
    assert shown == good.plan
    assert "{" not in str(refused)
    for advice in (good, refused):
        assert Advice.model_validate_json(advice.model_dump_json()) == advice
        for width in (80, 120):
            console = Console(width=width, color_system=None, force_jupyter=False)
            with console.capture() as captured:
                console.print(advice)
            assert max(map(len, captured.get().splitlines())) <= width


def test_columns_may_be_named(good):
    names = [f"c{number}" for number in range(good.columns)]
    named = advise(good.budget, good.rows, names, unit=good.unit)
    assert tuple(names) == named.plan.column_names
    assert named.outlook == good.outlook
    assert names == json.loads(named.plan_json())["columns"]


def test_a_plan_whose_directions_noise_would_turn_far_is_not_advised(good):
    assert max(good.sines) < MOST_SINE
    few = advise(Budget.of("0.05", "1e-6"), 8000, 6)
    assert few.plan is None or max(few.sines) < MOST_SINE
    asked = advise(Budget.of("0.05", "1e-6"), 8000, 6, components=3)
    assert asked.plan is None
    assert f"at most {MOST_SINE}." in "\n".join(asked.sentences())


def test_a_scaled_plan_has_the_variances_of_columns_first(good):
    scaled = advise(good.budget, good.rows, good.columns, unit=good.unit, scaled=True)
    variances, directions, scree = scaled.plan.releases
    assert ("axes", "variances", "directions") == (
        variances.directions,
        directions.scales,
        scree.directions,
    )
    assert variances.weight == scree.weight
    assert scaled.outlook.chance <= good.outlook.chance
    assert sum(scaled.noise + scaled.sines) > sum(good.noise + good.sines)
    assert any("Scaled: " in line for line in scaled.sentences())
    assert not any("Scaled: " in line for line in good.sentences())


def test_a_text_is_no_list_of_names(good):
    with pytest.raises(InvalidPlan, match="columns must be a number or a list of names; got 'abc'"):
        advise(good.budget, good.rows, "abc")


def test_kendall_eigenvalues_are_means_of_shares():
    variances = np.array([5.0, 2.0, 1.0, 0.1])
    squares = np.random.default_rng(1).normal(size=(200_000, 4)) ** 2 * variances
    shares = (squares / squares.sum(axis=1, keepdims=True)).mean(axis=0)
    eigenvalues = kendall_eigenvalues(variances)
    assert 1 == pytest.approx(eigenvalues.sum())
    assert eigenvalues == pytest.approx(shares, abs=0.003)
    assert eigenvalues == pytest.approx(kendall_eigenvalues(1e-20 * variances))


def test_expected_sines_are_those_of_noisy_matrices():
    variances, noise = np.array([8.0, 3.0, 1.0]), 0.01
    generator = np.random.default_rng(2)
    diagonal = np.diag(kendall_eigenvalues(variances))
    squares = []
    for _ in range(2000):
        disturbed = diagonal + noise * generator.normal(size=(3, 3))
        vectors = np.linalg.eigh(disturbed + disturbed.T).eigenvectors[:, ::-1]
        squares.append(1 - np.diag(vectors) ** 2)
    assert np.sqrt(np.mean(squares, axis=0)) == pytest.approx(
        expected_sines(variances, noise), rel=0.1
    )
    assert [1.0, 1.0] == list(expected_sines(np.array([1.0, 1.0]), 0.1))
