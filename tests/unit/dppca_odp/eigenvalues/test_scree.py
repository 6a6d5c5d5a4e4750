from fractions import Fraction

import numpy as np
import pytest

from accountant import Budget, PrivacyUnit
from dppca_odp.columns import Label
from dppca_odp.eigenvalues.clipped import Clipped
from dppca_odp.eigenvalues.huber import Huber
from dppca_odp.eigenvalues.method import Estimate
from dppca_odp.eigenvalues.pmwm import PMWM
from dppca_odp.eigenvalues.scree import Scree, make_scree, then_scree
from dppca_odp.flags import Flag, Note
from dppca_odp.planned import Setting, Size
from dppca_odp.spaces import matrix_domain, rows_metric

SHARE = Budget.of("1", "1e-5")
PLENTY = Budget.of("25", "1e-5")
METHODS = [
    Clipped(clipping_bound=50),
    PMWM(lower_bound=0, upper_bound=50),
    Huber(lowest_scale=-5, highest_scale=5, scale_fraction="1/4"),
]


def scree(method, *, directions="axes", **changes):
    return Scree(name="scree", method=method, directions=directions, **changes)


def unit(rows_per_person):
    return PrivacyUnit(rows_per_person=rows_per_person)


ONE = unit(1)


def made(method, rows, columns, *, labels=(), unit=ONE, share=PLENTY, directions=None):
    """The measurement on prepared rows, the codes of the labels behind the columns."""
    given = "axes" if directions is None else directions.tolist()
    return scree(method, directions=given).make(
        matrix_domain(rows, columns + len(labels)),
        rows_metric(),
        share=share,
        setting=Setting(rows, tuple("abc"[:columns]), columns, unit, labels),
        earlier={},
    )


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.kind)
@pytest.mark.parametrize("rows_per_person", [1, 5])
def test_a_chain_from_rows_costs_at_most_its_share(method, rows_per_person):
    measurement = make_scree(
        matrix_domain(201, 3),
        rows_metric(),
        method=method,
        directions=np.eye(3, 2),
        share=SHARE,
        rows_per_person=rows_per_person,
    )
    epsilon, delta = measurement.map(rows_per_person)
    assert epsilon > 1 - 1e-9
    assert Fraction(epsilon) <= SHARE.epsilon
    assert Fraction(delta) <= SHARE.delta
    assert (0.0, 0.0) == measurement.map(0)


def test_a_unit_of_more_rows_than_the_table_changes_every_pair():
    measurement = made(Clipped(clipping_bound=50), 10, 2, unit=unit(1000), share=SHARE)
    epsilon, _ = measurement.map(1000)
    assert 1 - 1e-9 < epsilon <= 1


def test_the_values_are_variances_along_the_directions():
    rows = 100_000
    table = np.random.default_rng(10).normal(size=(rows, 2)) * [3.0, 1.0]
    turned = np.array([[0.6, 0.8], [0.8, -0.6]])
    measurement = made(Clipped(clipping_bound=200), rows, 2, directions=turned)
    answer = measurement(table @ turned.T)
    assert pytest.approx([9.0, 1.0], abs=0.5) == answer.values


def test_a_constant_table_has_no_variance():
    measurement = made(Clipped(clipping_bound=1), 10_000, 2)
    answer = measurement(np.full((10_000, 2), 31337.25))
    assert np.abs(answer.values).max() <= 9 * answer.noise_scales.max() < 0.01


def test_duplicate_rows_are_counted_like_others():
    table = np.repeat(np.random.default_rng(11).normal(size=(10_000, 1)), 2, axis=0)
    measurement = made(Clipped(clipping_bound=50), 20_000, 1, unit=unit(2))
    assert pytest.approx([1.0], abs=0.2) == measurement(table).values


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.kind)
def test_stages_are_planned_for_a_pair_to_every_two_rows(method):
    setting = Setting(rows=201, names=("a", "b", "c"), components=2, unit=unit(5))
    planned = scree(method).stages(SHARE, setting)
    assert planned == method.stages(SHARE, Size(200, 2, 5))


def test_no_more_pairs_are_planned_to_change_than_there_are():
    method = Clipped(clipping_bound=50)
    setting = Setting(rows=11, names=("a", "b", "c"), components=2, unit=unit(99))
    planned = scree(method).stages(SHARE, setting)
    assert planned == method.stages(SHARE, Size(10, 2, 5))


def released(*, nonincreasing):
    raw = np.array([5.0, -0.2, 2.0, 3.0, 1.0])
    notes = (Note("note", (1, 3)), Note("of all"))
    answer = Estimate(raw, np.full(5, 0.5), np.zeros(5), np.full(5, 9.0), notes)
    asked = scree(Clipped(clipping_bound=9), nonincreasing=nonincreasing)
    return asked.released(answer, Setting(rows=10, names=tuple("abcde"), components=5, unit=ONE))


def test_the_record_holds_raw_values_and_what_became_of_them():
    record = released(nonincreasing=False)
    assert (5.0, -0.2, 2.0, 3.0, 1.0) == record.raw
    assert (5.0, 0.0, 2.0, 3.0, 1.0) == record.values
    assert (5 / 11, 0.0, 2 / 11, 3 / 11, 1 / 11) == record.proportions
    assert (0.5,) * 5 == record.noise_scales
    assert ((0.0,) * 5, (9.0,) * 5) == (record.lower, record.upper)
    assert ("columns a, c: note", "of all") == record.warnings
    assert ("scree", "clipped", "axes") == (record.name, record.method, record.directions)


def test_the_record_is_nonincreasing_if_asked():
    record = released(nonincreasing=True)
    assert pytest.approx((5, 5 / 3, 5 / 3, 5 / 3, 1), rel=1e-12) == record.values
    assert pytest.approx((5 / 11, 5 / 33, 5 / 33, 5 / 33, 1 / 11), rel=1e-12) == record.proportions


def test_public_directions_are_recorded_as_given():
    asked = scree(Clipped(clipping_bound=9), directions=((1.0,), (0.0,)))
    answer = Estimate(np.ones(1), np.ones(1), np.zeros(1), np.ones(1), ())
    setting = Setting(rows=10, names=("a", "b"), components=1, unit=ONE)
    assert "given" == asked.released(answer, setting).directions


def test_codes_of_labels_are_not_measured():
    labels = (Label(name="group", levels=("x",)), Label(name="site", levels=("y", "z")))
    rows = 10_000
    measurement = made(Clipped(clipping_bound=50), rows, 2, labels=labels)
    alone = made(Clipped(clipping_bound=50), rows, 2)
    assert alone.map(1) == measurement.map(1)
    measured = np.random.default_rng(28).normal(size=(rows, 2)) * [2.0, 1.0]
    codes = np.tile([[0.0, 1e9], [1e9, 0.0]], (rows // 2, 1))
    answer = measurement(np.column_stack([measured, codes]))
    assert pytest.approx([4.0, 1.0], abs=0.5) == answer.values


def test_the_scree_chains():
    space = matrix_domain(10, 2), rows_metric()
    chain = space >> then_scree(
        method=Clipped(clipping_bound=1),
        directions=np.eye(2),
        share=SHARE,
        rows_per_person=1,
    )
    assert 1 - 1e-9 < chain.map(1)[0] <= 1


def test_a_plan_asks_for_a_ring_and_the_least_variance_by_name():
    asked = Scree.model_validate(
        {
            "name": "scree",
            "directions": "axes",
            "method": {
                "kind": "clipped",
                "clipping_bound": [50, 2],
                "degree": 16,
                "noise_allocation": "minimum-variance",
            },
        }
    )
    assert (16, "minimum-variance") == (asked.method.degree, asked.method.noise_allocation)
    setting = Setting(rows=1000, names=("a", "b"), components=2, unit=unit(3))
    (planned,) = asked.stages(SHARE, setting)
    measurement = asked.make(
        matrix_domain(1000, 2), rows_metric(), share=SHARE, setting=setting, earlier={}
    )
    answer = measurement(np.random.default_rng(35).normal(size=(1000, 2)))
    assert pytest.approx(answer.noise_scales.max(), rel=1e-9) == planned.noise_scale
    assert pytest.approx(5.0, rel=1e-6) == answer.noise_scales[0] / answer.noise_scales[1]


@pytest.mark.parametrize(
    ("values", "flags", "told"),
    [
        ([5, 2, 3.1, 1], (), None),  # 3.1 may be 2
        ([5, 2, 3.9, 1], (), None),  # at the edge
        (
            [5, 2, 4, 1],
            (),
            "component 3 is clearly above component 2. Report components, with their "
            "loadings, in the order 1, 3, 2, 4: it costs nothing.",
        ),
        (
            [1, 2, 9, 9],
            (),
            "component 3 is clearly above component 1. Report components, with their "
            "loadings, in the order 3, 4, 2, 1: it costs nothing.",
        ),
        ([5, 0, 4, 1], ((), (Flag.NOT_FOUND,), (), ()), None),
        (
            [0, 1, 4, 1],
            ((Flag.NOT_FOUND,), (), (), ()),
            "component 3 is clearly above component 2. "
            "Report components, with their loadings, in the order 3, 2, 4, 1: it costs nothing.",
        ),
    ],
)
def test_components_clearly_out_of_order_are_noted(values, flags, told):
    raw, four = np.array(values, dtype=float), np.ones(4)
    interval = np.maximum(raw - 0.95, 0), raw + 0.95
    answer = Estimate(raw, four, 0 * four, 9 * four, (), flags, interval)
    at = Setting(rows=10, names=tuple("abcd"), components=4, unit=ONE)
    for directions in ("main", "axes", np.eye(4).tolist()):
        asked = Scree(name="s", method=Clipped(clipping_bound=9), directions=directions)
        notes = asked.released(answer, at).warnings
        expected = (f"out of order: {told}",) if told and directions == "main" else ()
        assert expected == notes
