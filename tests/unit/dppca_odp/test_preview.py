from fractions import Fraction

import pytest
from rich.console import Console

from accountant import Budget, GaussianLoss, PrivacyUnit, PureLoss, Stage
from accountant.losses import ApproximateLoss
from accountant.rules import CommittedRule, GaussianRule
from dppca_odp.eigenvalues.method import ScaleOutlook, in_percent
from dppca_odp.planned import PlannedStage
from dppca_odp.preview import Costs, NoiseScales, Preview, ScreeOutlook

BUDGET = Budget.of("1/3", "1e-6")
MILLIONTH = Fraction("1e-6")


def preview(*lines, committed=True, composition="sum", screes=()):
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
        screes=screes,
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
    outlook = OUTLOOK.model_copy(update={"name": name, "noise_scales": (1.5e-299, 1.5e299)})
    console = Console(width=width, color_system=None, force_jupyter=False)
    with console.capture() as captured:
        console.print(preview(line(name, 1.5e-300), line(name, 1.5e300), screes=(outlook,)))
    shown = captured.get()
    assert max(map(len, shown.splitlines())) <= width
    assert "…" not in shown
    assert {"1.5e-300", "1.5e+300", "7.5e-301", "7.5e+299", "1.5e-299", "1.5e+299"} <= set(
        shown.split()
    )


OUTLOOK = ScreeOutlook(
    name="a scree",
    components=2,
    outlook=ScaleOutlook(chance=0.72, reason="n mu (rows times mu) is 130; likely from 160 on"),
    eigenvalues=(10.0, 2.0),
    noise_scales=(3.0, 0.6),
    sampling_scales=(4.0, 0.8),
    expectation="of Gaussian columns",
)


def test_errors_to_expect_stand_beside_the_guesses():
    shown = preview(*LINES, screes=(OUTLOOK,))
    rows = words(shown)
    assert ["a", "scree", "1", "10", "3", "4", "5", "50", "%"] in rows
    assert ["2", "2", "0.6", "0.8", "1", "50", "%"] in rows
    assert (
        "a scree: uncertain to find all 2 scales (chance 72 % for Gaussian columns): n mu (rows "
        "times mu) is 130; "
        "likely from 160 on."
    ) == next(OUTLOOK.sentences())
    told = "a scree: noise: of Gaussian columns. sampling: of Gaussian columns."
    assert told in str(shown)
    assert Preview.model_validate_json(shown.model_dump_json()) == shown


def test_without_guesses_it_still_says_whether_scales_will_be_found():
    unguessed = ScreeOutlook(name="s", components=1, outlook=OUTLOOK.outlook)
    assert 1 == len(list(unguessed.sentences()))
    assert "s: uncertain to find the scale" in str(preview(*LINES, screes=(unguessed,)))
    assert [] == list(ScreeOutlook(name="s", components=1).sentences())


@pytest.mark.parametrize(
    ("chance", "verdict", "percent"),
    [
        (0.0, "not likely", "below 1 %"),
        (0.49, "not likely", "49 %"),
        (0.5, "uncertain", "50 %"),
        (0.94, "uncertain", "94 %"),
        (0.95, "likely", "95 %"),
        (1.0, "likely", "above 99 %"),
    ],
)
def test_a_chance_has_words(chance, verdict, percent):
    assert verdict == ScaleOutlook(chance=chance, reason="r").verdict
    assert percent == in_percent(chance)


def test_along_the_axes_components_are_columns():
    above = {"columns": ("age", "income"), "eigenvalues": (2.0, 2.0)}
    shown = preview(*LINES, screes=(OUTLOOK.model_copy(update=above),))
    assert ["income", "2", "0.6", "0.8", "1", "50", "%"] in words(shown)
    assert "a scree: noise is larger than the guess of column age." in str(shown)


def test_noise_above_a_guess_is_said():
    above = OUTLOOK.model_copy(update={"eigenvalues": (2.0, 0.5)})
    assert "a scree: noise is larger than the guess of components 1, 2." in list(above.sentences())
    assert not any("larger" in line for line in OUTLOOK.sentences())
