from fractions import Fraction
from inspect import signature

import numpy as np
import pytest
from matplotlib.image import imread

from accountant import (
    Accountant,
    Authorization,
    Budget,
    Charge,
    GaussianLoss,
    PrivacyUnit,
    PureLoss,
    Stage,
)
from dppca_odp.plots.budget import percents_by_stage, plot_budget

UNIT = PrivacyUnit(rows_per_person=5)
LOSS = PureLoss(epsilon=Fraction(1, 100))


@pytest.fixture
def keeper(tmp_path):
    return Accountant.grant(
        tmp_path / "ledger.db", data_set="clinic", budget=Budget.of("3", "1e-5"), unit=UNIT
    )


def spend(keeper, key, budget, **stages):
    """Charge these stages, and store a release."""
    charge = Charge(
        release_key=key,
        plan_hash=key,
        unit=UNIT,
        budget=budget,
        stages=tuple(
            Stage(name=name, budget=share, losses=(LOSS,)) for name, share in stages.items()
        ),
    )
    granted = keeper.authorize(charge, rows=10, columns=("a", "b"))
    assert isinstance(granted, Authorization)
    keeper.start(granted)
    keeper.store(granted, {"values": [1]})


@pytest.fixture
def spent(keeper):
    """Two releases; one stage stands in both."""
    spend(
        keeper, "one", Budget.of("1", "3e-6"),
        matrix=Budget.of("1/3", "1e-6"), mean=Budget.of("2/3", "2e-6"),
    )  # fmt: skip
    spend(keeper, "two", Budget.of("1/2", "1e-6"), matrix=Budget.of("1/2", "1e-6"))
    return keeper.statement()


def segments(figure):
    """By legend entry, where the segment of epsilon and that of delta start, and how wide."""
    (axes,) = figure.axes
    return {
        bars.get_label(): [(bar.get_x(), bar.get_width()) for bar in bars]
        for bars in axes.containers
    }


def test_each_stage_has_its_percent_of_the_grant(spent):
    expected = {"matrix": [250 / 9, 20.0], "mean": [200 / 9, 20.0]}
    found = percents_by_stage(spent)
    assert list(expected) == list(found)
    for name, percents in expected.items():
        assert pytest.approx(percents) == found[name]


def test_segments_follow_each_other_and_sum_to_the_grant(spent):
    drawn = segments(plot_budget(spent))
    assert ["matrix", "mean", "remaining"] == list(drawn)
    for bar in (0, 1):
        ends = np.cumsum([0.0] + [pieces[bar][1] for pieces in drawn.values()])
        assert pytest.approx([pieces[bar][0] for pieces in drawn.values()]) == ends[:-1]
        assert pytest.approx(100) == ends[-1]


def test_segments_match_the_statement(spent):
    drawn = segments(plot_budget(spent))
    remaining = drawn.pop("remaining")
    for bar, part in enumerate(("epsilon", "delta")):
        whole = getattr(spent.granted, part)
        of_stages = sum(pieces[bar][1] for pieces in drawn.values())
        assert pytest.approx(float(100 * getattr(spent.spent, part) / whole)) == of_stages
        assert (
            pytest.approx(float(100 * getattr(spent.remaining, part) / whole))
            == (remaining[bar][1])
        )


def test_a_charge_beyond_its_stages_is_spent_too(keeper):
    """Stages may sum to less than their charge: the rest of it does not remain."""
    spend(keeper, "one", Budget.of("2", "8e-6"), matrix=Budget.of("1", "1e-6"))
    remaining = segments(plot_budget(keeper.statement()))["remaining"]
    assert pytest.approx([100 / 3, 20]) == [width for _, width in remaining]


def test_an_unspent_grant_remains(keeper, tmp_path):
    figure = plot_budget(keeper.statement())
    assert {"remaining": [(0.0, 100.0), (0.0, 100.0)]} == segments(figure)
    figure.savefig(tmp_path / "budget.png")
    assert (510, 1200, 4) == imread(tmp_path / "budget.png").shape


def test_a_grant_that_is_spent_leaves_nothing(keeper):
    whole = Budget.of("3", "1e-5")
    spend(keeper, "one", whole, all=whole)
    assert pytest.approx([0, 0]) == [
        w for _, w in segments(plot_budget(keeper.statement()))["remaining"]
    ]


def test_the_picture_says_what_was_granted_and_spent(spent):
    figure = plot_budget(spent)
    (axes,) = figure.axes
    assert "Budget of clinic" == figure.get_suptitle()
    caption = figure._supxlabel.get_text().replace("\n", " ")
    assert "spent epsilon 1.5 and delta 4e-6 of epsilon 3 and delta 1e-5" in caption
    assert "one person, at most 5 rows" in caption
    assert "percent of the grant" == axes.get_xlabel()
    assert (0.0, 100.0) == axes.get_xlim()
    assert ["epsilon", "delta"] == [text.get_text() for text in axes.get_yticklabels()]
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert ["matrix", "mean", "remaining"] == names


def test_more_stages_than_colours_differ_by_hatching(keeper, tmp_path):
    part = Budget.of("1/10", "1e-6")
    stages = {f"stage {number}": part for number in range(8)}
    spend(keeper, "one", Budget.of("8/10", "8e-6"), **stages)
    figure = plot_budget(keeper.statement())
    looks = {
        (bars[0].get_facecolor(), bars[0].get_hatch()) for bars in figure.axes[0].containers[:-1]
    }
    assert 8 == len(looks)
    figure.savefig(tmp_path / "budget.svg")
    assert (tmp_path / "budget.svg").read_bytes().startswith(b"<?xml")


def test_a_stage_whose_name_starts_with_an_underscore_is_in_the_legend(keeper):
    part = Budget.of("1", "1e-6")
    spend(keeper, "one", part, **{"_d: matrix": part})
    names = plot_budget(keeper.statement()).axes[0].get_legend().get_texts()
    assert ["_d: matrix", "remaining"] == [text.get_text().strip() for text in names]


def test_dollar_signs_are_text(keeper):
    part = Budget.of("1", "1e-6")
    spend(keeper, "one", part, **{"$_$: matrix": part})
    plot_budget(keeper.statement()).draw_without_rendering()


def test_it_takes_a_statement_and_nothing_else():
    assert {"statement": "Statement"} == {
        name: given.annotation for name, given in signature(plot_budget).parameters.items()
    }


@pytest.mark.parametrize(
    ("rule", "names"),
    [("sum", ["epsilon", "delta"]), ("gaussian", ["mu", "delta aside"])],
)
def test_a_committed_plan_is_drawn_at_what_it_paid_and_a_void_not_at_all(tmp_path, rule, names):
    keeper = Accountant.grant(
        tmp_path / "ledger.db",
        data_set="clinic",
        budget=Budget.of("1", "1e-5"),
        unit=UNIT,
        rule=rule,
        set_aside="1e-6" if rule == "gaussian" else 0,
    )
    losses = PureLoss(epsilon=Fraction(1, 100), count=20), GaussianLoss(mu=Fraction(1, 20))
    stages = tuple(
        Stage(name=f"stage {number}", budget=Budget.of("1/5", "5e-7"), losses=(loss,))
        for number, loss in enumerate(losses)
    )
    for key in ("kept", "voided"):
        charge = Charge(
            release_key=key,
            plan_hash=key,
            unit=UNIT,
            budget=Budget.of("0.39", "1e-6"),
            composition="committed",
            stages=stages,
        )
        keeper.authorize(charge, rows=10, columns=("a", "b"))
    keeper.void("voided", "a mistake")
    statement = keeper.statement()
    figure = plot_budget(statement)
    drawn = sum(percents_by_stage(statement).values())
    paid = [
        float(100 * part / whole) if whole else 0.0
        for part, whole in zip(
            statement.spent.coordinates[:2], statement.granted.coordinates[:2], strict=True
        )
    ]
    assert np.allclose(drawn, paid)
    (axes,) = figure.axes
    assert names == [label.get_text() for label in axes.get_yticklabels()]
