from fractions import Fraction

import numpy as np
import pytest

from accountant import Budget, GaussianLoss, gaussian_epsilon
from accountant.errors import InvalidValue
from dppca_odp.eigenvalues.clipped import Clipped, make_clipped_mean, then_clipped_mean
from dppca_odp.planned import Size
from dppca_odp.primitives.noise import stage_loss
from dppca_odp.primitives.pairs import Pairing
from dppca_odp.spaces import matrix_domain, rows_metric

from ....file_order import coordinates_of

pytestmark = pytest.mark.usefixtures("file_order")

SHARE = Budget.of("1", "1e-5")
MU = 0.268051123211294  # of (1, 1e-5), solved to 15 digits


def clipped_mean(bound, *, rows=800, components=2, share=SHARE, rows_per_person=1):
    return make_clipped_mean(
        matrix_domain(rows, components),
        rows_metric(),
        method=Clipped(clipping_bound=bound),
        share=share,
        rows_per_person=rows_per_person,
    )


def test_values_above_the_clipping_bound_count_as_the_bound():
    w = np.repeat([[1.0, 100.0]], 20_000, axis=0)
    answer = clipped_mean(5.0, rows=40_000, share=Budget.of("20", "1e-5"))(coordinates_of(w))
    assert np.abs(answer.values - [1.0, 5.0]).max() <= 9 * answer.noise_scales.max() < 0.01


@pytest.mark.parametrize(
    ("bound", "rows_per_person"), [(50.0, 1), ((50.0, 20.0), 1), ((50.0, 20.0), 4)]
)
def test_the_noise_is_the_sources(bound, rows_per_person):
    answer = clipped_mean(bound, rows_per_person=rows_per_person)(
        coordinates_of(np.zeros((400, 2)))
    )
    expected = np.sqrt(2) * rows_per_person * np.broadcast_to(bound, 2) / (400 * MU)
    assert pytest.approx(expected, rel=1e-9) == answer.noise_scales


def test_the_range_of_each_mean_is_nothing_to_its_bound():
    answer = clipped_mean((50.0, 20.0))(coordinates_of(np.zeros((400, 2))))
    assert [0.0, 0.0] == answer.lower.tolist()
    assert [50.0, 20.0] == answer.upper.tolist()
    assert () == answer.warnings


def test_the_one_stage_is_the_whole_share():
    (planned,) = Clipped(clipping_bound=50).stages(SHARE, Size(800, 2, 3))
    assert "mean" == planned.stage.name
    assert SHARE == planned.stage.budget
    (loss,) = planned.stage.losses
    assert isinstance(loss, GaussianLoss)
    assert pytest.approx(MU, rel=1e-9) == float(loss.mu)
    assert loss.mu < Fraction(MU)


@pytest.mark.parametrize("rows_per_person", [1, 3])
@pytest.mark.parametrize("bound", [50.0, (7.0, 50.0)])
def test_the_planned_noise_is_the_one_that_is_used(bound, rows_per_person):
    (planned,) = Clipped(clipping_bound=bound).stages(SHARE, Size(800, 2, rows_per_person))
    used = clipped_mean(bound, rows_per_person=rows_per_person)(
        coordinates_of(np.zeros((400, 2)))
    ).noise_scales
    assert pytest.approx(used.max(), rel=1e-9) == planned.noise_scale


def test_the_price_is_just_below_the_share():
    measurement = clipped_mean(50.0, rows_per_person=3)
    assert stage_loss(SHARE)[0] * (1 - 1e-9) < measurement.map(3)[0] <= stage_loss(SHARE)[0]
    assert (0.0, 0.0) == measurement.map(0)


def test_the_method_makes_its_own_measurement():
    space = matrix_domain(400, 2), rows_metric()
    made = Clipped(clipping_bound=50).make(*space, share=SHARE, rows_per_person=2)
    assert made.map(2) == clipped_mean(50.0, rows_per_person=2).map(2)
    chain = space >> then_clipped_mean(
        method=Clipped(clipping_bound=50), share=SHARE, rows_per_person=2
    )
    assert chain.map(2) == made.map(2)


def test_the_planned_loss_is_the_one_that_is_used():
    (planned,) = Clipped(clipping_bound=50).stages(SHARE, Size(800, 2, 3))
    (loss,) = planned.stage.losses
    used = clipped_mean(50.0, rows_per_person=3)
    assert (
        pytest.approx(gaussian_epsilon(loss.mu, used.map(3)[1], leak=loss.leak), rel=1e-12)
        == used.map(3)[0]
    )
    assert Fraction(used.map(3)[0]) <= SHARE.epsilon


def test_the_largest_clipping_bound_is_answered():
    assert np.isfinite(clipped_mean(1e200)(coordinates_of(np.full((400, 2), 1e200))).values).all()


def test_one_number_bounds_every_component():
    assert (3.0, 3.0, 3.0, 3.0) == Clipped(clipping_bound=3).bounds(4)
    assert (1.0, 2.0) == Clipped(clipping_bound=(1, 2)).bounds(2)


@pytest.mark.parametrize("components", [1, 3])
def test_a_list_of_bounds_for_another_number_of_components_is_refused(components):
    expected = (
        f"clipping_bound must be one number or one for each of {components} components; got 2"
    )
    with pytest.raises(ValueError, match=expected):
        clipped_mean((1.0, 2.0), components=components)


@pytest.mark.parametrize(
    "bound",
    [0, -1, 1.0001e200, float("nan"), float("inf"), "fifty", None, [], [1.0, 0.0], [1.0, 1e201]],
    ids=str,
)
def test_a_clipping_bound_out_of_range_is_refused(bound):
    with pytest.raises(InvalidValue, match="clipping_bound"):
        Clipped(clipping_bound=bound)


def test_the_clipping_bound_has_no_default():
    with pytest.raises(InvalidValue, match=r"^clipping_bound must be given"):
        Clipped()


def test_a_share_without_delta_is_refused():
    with pytest.raises(ValueError, match="a Gaussian stage must have epsilon and delta; got"):
        clipped_mean(1.0, share=Budget.of("1", "0"))


# Rings and allocation.


def on_a_ring(bound=(50.0, 20.0, 1.0), **changes):
    options = {"degree": 16, "noise_allocation": "minimum-variance"} | changes
    return Clipped(clipping_bound=bound, **options)


@pytest.mark.parametrize("degree", [1, 2, 16])
@pytest.mark.parametrize("rows_per_person", [1, 4])
def test_the_noise_is_the_same_on_every_ring(degree, rows_per_person):
    space = matrix_domain(800, 2), rows_metric()
    method = Clipped(clipping_bound=50, degree=degree)
    answer = method.make(*space, share=SHARE, rows_per_person=rows_per_person)(np.zeros((800, 2)))
    expected = [np.sqrt(2) * 2 * rows_per_person * 50 / (800 * MU)] * 2
    assert pytest.approx(expected, rel=1e-9) == answer.noise_scales


def test_the_least_variance_is_that_of_the_sum_of_the_ranges():
    space = matrix_domain(800, 3), rows_metric()
    made = on_a_ring().make(*space, share=SHARE, rows_per_person=1)
    noise = made(np.zeros((800, 3))).noise_scales
    delta = 2 * np.array([50.0, 20.0, 1.0]) / 800
    assert pytest.approx(np.sqrt(delta * delta.sum()) / MU, rel=1e-6) == noise


@pytest.mark.parametrize("changes", [{}, {"degree": 1}, {"noise_allocation": "equal"}], ids=str)
@pytest.mark.parametrize("rows", [9, 17, 800])
def test_the_planned_noise_is_the_one_of_the_ring(changes, rows):
    method = on_a_ring(**changes)
    (planned,) = method.stages(SHARE, Size(rows, 3, 2))
    made = method.make(matrix_domain(rows, 3), rows_metric(), share=SHARE, rows_per_person=2)
    used = made(np.zeros((rows, 3))).noise_scales
    assert pytest.approx(used.max(), rel=1e-9) == planned.noise_scale


def test_a_ring_has_the_mean_of_more_pairs():
    table = np.random.default_rng(33).normal(size=(400, 1))
    made = on_a_ring(99.0, degree=398).make(
        matrix_domain(400, 1), rows_metric(), share=Budget.of("25", "1e-5"), rows_per_person=1
    )
    answer = made(table)
    ring = Pairing(400, 398, np.arange(400)).half_squared_differences(table)
    assert abs(answer.values[0] - np.asarray(ring).mean()) <= 9 * answer.noise_scales[0] < 2


def test_a_ring_of_two_rows_is_refused():
    with pytest.raises(ValueError, match="rows must be at least 3 for a ring; got 2"):
        on_a_ring(1.0).stages(SHARE, Size(2, 1, 1))


@pytest.mark.parametrize("degree", [0, -2, 3, 15, 2.5, "ring", None])
def test_a_degree_that_is_neither_1_nor_even_is_refused(degree):
    with pytest.raises(InvalidValue, match="degree"):
        on_a_ring(degree=degree)


@pytest.mark.parametrize("allocation", ["least", 0.5, None])
def test_another_allocation_is_refused(allocation):
    with pytest.raises(InvalidValue, match="noise_allocation"):
        on_a_ring(noise_allocation=allocation)


def test_an_odd_degree_is_told_what_to_be():
    with pytest.raises(InvalidValue, match=r"degree must be 1 or even; got 3\. Use 1 or 16\."):
        on_a_ring(degree=3)


def test_a_record_of_the_sources_form_names_no_option():
    assert {"kind", "clipping_bound"} == set(Clipped(clipping_bound=2).model_dump())
    written = on_a_ring().model_dump_json()
    assert on_a_ring() == Clipped.model_validate_json(written)
