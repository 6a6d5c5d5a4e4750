from fractions import Fraction

import pytest
from rich.console import Console

from accountant import Budget, GaussianLoss, PrivacyUnit, PureLoss, Stage
from accountant.losses import ApproximateLoss
from accountant.rules import CommittedRule, GaussianRule
from dppca_odp.planned import PlannedStage
from dppca_odp.preview import Costs, NoiseScales, Preview

BUDGET = Budget.of("1/3", "1e-6")
MILLIONTH = Fraction("1e-6")


def preview(*lines, committed=True, composition="sum"):
    scales = tuple(line.noise_scale for line in lines)
    halves = tuple(scale and scale / 2 for scale in scales)
    return Preview(
        budget=BUDGET,
        unit=PrivacyUnit(rows_per_person=2),
        rows=100,
        columns=3,
        composition=composition,
        stages=lines,
        costs=Costs.of([line.stage for line in lines], MILLIONTH),
        noise_scales=NoiseScales(sum=scales, committed=halves if committed else None),
    )


MEASURED = GaussianLoss(mu="0.12345678")
SEARCHED = PureLoss(epsilon="1/3", count=6)


def line(name, noise_scale=0.5, loss=MEASURED):
    stage = Stage(name=name, budget=BUDGET, losses=(loss,))
    return PlannedStage(stage=stage, noise_scale=noise_scale, noise="what it measures")


LINES = line("a: matrix"), line("b: mean", None), line("c: quantile", 12.0, SEARCHED)


def words(shown):
    return [row.split() for row in str(shown).splitlines()]


def test_json_goes_both_ways():
    shown = preview(line("a: matrix"), line("b: mean", None))
    assert Preview.model_validate_json(shown.model_dump_json()) == shown


def test_the_table_shows_stages_and_shares():
    shown = preview(*LINES)
    rows = words(shown)
    expected = "100 rows by 3 columns; protects one person, at most 2 rows (change-one)."
    assert expected in str(shown)
    cost = ["0.333334", "1e-6"]
    assert ["a:", "matrix", *cost, *str(MEASURED).split()] in rows
    assert ["b:", "mean", *cost, *str(MEASURED).split()] in rows
    assert ["c:", "quantile", *cost, *str(SEARCHED).split()] in rows
    assert ["total", "0.333334", "1e-6"] in rows
    committed = words(preview(*LINES, composition="committed"))
    assert ["committed", "together", "0.333334", "1e-6"] in committed


def test_the_noise_of_both_compositions_stands_side_by_side():
    rows = words(preview(*LINES))
    assert ["a:", "matrix", "0.5", "0.25", "what", "it", "measures"] in rows
    assert ["b:", "mean", "what", "it", "measures"] in rows
    assert ["c:", "quantile", "12", "6", "what", "it", "measures"] in rows
    assert ["a:", "matrix", "0.5", "what", "it", "measures"] in words(
        preview(*LINES, committed=False)
    )


def test_the_cost_by_each_rule_is_that_of_the_rule_rounded_up():
    stages = [line.stage for line in LINES]
    costs = Costs.of(stages, MILLIONTH)
    assert costs.sum == Budget.of(1, "3e-6")
    assert costs.committed == CommittedRule(delta=MILLIONTH).cost(stages)
    assert costs.gaussian == GaussianRule(budget=BUDGET, set_aside=0).cost(stages)
    shown = str(preview(*LINES))
    for rule, cost in (
        ("sum", costs.sum),
        ("committed", costs.committed),
        ("gaussian", costs.gaussian),
    ):
        assert [rule, *cost.show_up().split()] in words(shown)


@pytest.mark.parametrize(
    ("loss", "epsilon", "missing"),
    [
        (ApproximateLoss(epsilon="0.1", delta="1e-6"), "1", ["committed"]),
        (PureLoss(epsilon=1), 1000, []),
        (PureLoss(epsilon=Fraction(10**620)), 10**620, ["committed", "gaussian"]),
    ],
    ids=["told", "large", "enormous"],
)
def test_a_rule_without_an_answer_says_none(loss, epsilon, missing):
    budget = Budget.of(epsilon, "1e-6")
    costs = Costs.of([Stage(name="s", budget=budget, losses=(loss,))], MILLIONTH)
    told = dict(costs.lines())
    assert [rule for rule, cost in told.items() if cost.startswith("none")] == missing
    assert costs == Costs.model_validate_json(costs.model_dump_json())


@pytest.mark.parametrize("width", [80, 100])
def test_the_table_fits_its_width_and_loses_nothing(width):
    name = "a name of a release that goes on: gradient descent"
    console = Console(width=width, color_system=None, force_jupyter=False)
    with console.capture() as captured:
        console.print(preview(line(name, 1.5e-300), line(name, 1.5e300)))
    shown = captured.get()
    assert max(map(len, shown.splitlines())) <= width
    assert "…" not in shown
    assert {"1.5e-300", "1.5e+300", "7.5e-301", "7.5e+299"} <= set(shown.split())
