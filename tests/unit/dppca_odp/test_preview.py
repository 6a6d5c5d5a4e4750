from accountant import Budget, GaussianLoss, PrivacyUnit, PureLoss, Stage
from dppca_odp.planned import PlannedStage
from dppca_odp.preview import Preview

BUDGET = Budget.of("1/3", "1e-6")


def preview(*stages):
    return Preview(
        budget=BUDGET, unit=PrivacyUnit(rows_per_person=2), rows=100, columns=3, stages=stages
    )


MEASURED = GaussianLoss(mu="0.12345678")
SEARCHED = PureLoss(epsilon="1/3", count=6)


def line(name, noise_scale=0.5, loss=MEASURED):
    stage = Stage(name=name, budget=BUDGET, losses=(loss,))
    return PlannedStage(stage=stage, noise_scale=noise_scale, noise="what it measures")


def test_json_goes_both_ways():
    shown = preview(line("a: matrix"), line("b: mean", None))
    assert Preview.model_validate_json(shown.model_dump_json()) == shown


def test_the_table_shows_stages_shares_and_noise():
    search = line("c: quantile", 12.0, SEARCHED)
    shown = str(preview(line("a: matrix"), line("b: mean", None), search))
    rows = [row.split() for row in shown.splitlines()]
    assert "100 rows by 3 columns; protects one person, at most 2 rows (change-one)." in shown
    cost = ["0.333334", "1e-6"]
    assert ["a:", "matrix", *cost, *str(MEASURED).split(), "0.5", "(1)"] in rows
    assert ["b:", "mean", *cost, *str(MEASURED).split(), "(2)"] in rows
    assert ["c:", "quantile", *cost, *str(SEARCHED).split(), "12", "(3)"] in rows
    assert ["total", "0.333334", "1e-6"] in rows
    assert "(1) a: matrix: what it measures." in shown


def test_the_table_fits_100_columns_and_loses_nothing():
    name = "a name of a release that goes on and on: gradient descent"
    shown = str(preview(line(name, 1.5e-300), line(name, 1.5e300)))
    assert max(map(len, shown.splitlines())) <= 100
    assert "…" not in shown
