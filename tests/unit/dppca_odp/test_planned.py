from fractions import Fraction

import pytest
from pydantic import ValidationError

from accountant import Budget, GaussianLoss, PrivacyUnit, Stage
from accountant.errors import InvalidValue
from dppca_odp.directions import Directions
from dppca_odp.eigenvalues.clipped import Clipped
from dppca_odp.eigenvalues.huber import Huber
from dppca_odp.eigenvalues.pmwm import PMWM
from dppca_odp.eigenvalues.scree import Scree
from dppca_odp.planned import PlannedStage, Setting

SETTING = Setting(
    rows=101, names=("a", "b", "c"), components=2, unit=PrivacyUnit(rows_per_person=2)
)
RELEASES = [
    Directions(name="release", components=2),
    *(
        Scree(name="release", directions="axes", method=method)
        for method in (
            Clipped(clipping_bound=5),
            PMWM(lower_bound=0, upper_bound=5),
            PMWM(lower_bound=0, upper_bound=5, pair_rows="reuse"),
            Huber(lowest_scale=-5, highest_scale=5, scale_fraction="1/7"),
        )
    ),
]


@pytest.mark.parametrize("release", RELEASES, ids=range(len(RELEASES)))
@pytest.mark.parametrize("share", [("1", "1e-6"), ("1/3", "1e-6"), ("0.7", "1/300000")])
def test_the_stages_of_a_release_sum_to_its_share_exactly(release, share):
    budgets = [line.stage.budget for line in release.stages(Budget.of(*share), SETTING)]
    assert sum(budget.epsilon for budget in budgets) == Fraction(share[0])
    assert sum(budget.delta for budget in budgets) == Fraction(share[1])


@pytest.mark.parametrize("release", RELEASES, ids=range(len(RELEASES)))
def test_every_stage_says_what_its_noise_scale_measures(release):
    for line in release.stages(Budget.of("1", "1e-6"), SETTING):
        assert line.noise
        assert line.noise_scale is None or line.noise_scale > 0


def test_a_stage_goes_both_ways_through_json():
    loss = GaussianLoss(mu="0.1", leak="1e-30")
    stage = Stage(name="mean", budget=Budget.of("1/3", "1e-6"), losses=(loss,))
    for noise_scale in (None, 0.1):
        line = PlannedStage(stage=stage, noise_scale=noise_scale, noise="what it measures")
        assert line == PlannedStage.model_validate_json(line.model_dump_json())


def test_a_setting_has_no_labels_unless_they_are_given():
    assert () == SETTING.labels


def test_the_weight_is_one_unless_it_is_given_and_stays_exact():
    assert 1 == Directions(name="d", components=1).weight
    assert Fraction(1, 3) == Directions(name="d", components=1, weight="1/3").weight


@pytest.mark.parametrize("weight", ["0", "-1", "nan", 0.5])
def test_a_weight_that_is_not_positive_and_exact_is_refused(weight):
    with pytest.raises(InvalidValue, match=r"^weight\b"):
        Directions(name="d", components=1, weight=weight)


def test_a_release_needs_a_name():
    with pytest.raises(InvalidValue, match=r"^name\b"):
        Directions(name="", components=1)


@pytest.mark.parametrize("name", [" ", "two\nlines", "\x1b[31m"], ids=repr)
def test_a_release_that_the_ledger_could_not_name_is_refused(name):
    with pytest.raises(InvalidValue, match=r"^name\b"):
        Directions(name=name, components=1)


@pytest.mark.parametrize(
    ("key", "value"),
    [("components", 0), ("components", -1), ("degree", 0), ("degree", 1), ("degree", 3), ("k", 2)],
)
def test_directions_out_of_range_are_refused(key, value):
    with pytest.raises(ValidationError, match=f"(?m)^{key}$"):
        Directions.model_validate({"name": "d", "components": 1, key: value})


def test_an_unknown_key_of_a_scree_is_refused():
    with pytest.raises(ValidationError, match=r"(?m)^isotonic$"):
        Scree.model_validate(
            {
                "name": "s",
                "directions": "d",
                "method": {"kind": "clipped", "clipping_bound": 1},
                "isotonic": True,
            }
        )


def test_an_unknown_method_is_refused():
    with pytest.raises(ValidationError, match=r"'mean' .* 'clipped', 'pmwm', 'huber'"):
        Scree.model_validate({"name": "s", "directions": "d", "method": {"kind": "mean"}})
