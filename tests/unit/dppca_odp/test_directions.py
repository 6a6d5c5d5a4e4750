import math
from fractions import Fraction

import numpy as np
import pytest

from accountant import Budget, GaussianLoss, PrivacyUnit
from dppca_odp.columns import Label
from dppca_odp.directions import (
    CLEAR_SINE,
    UNIT_LENGTH,
    Directions,
    MatrixUnits,
    NoisyDirections,
    _join,
    eigenpairs,
    exact_products,
    integer_directions,
    make_directions,
    make_kendall_matrix,
    make_noisy_eigenvectors,
    sines_of_noise,
    then_directions,
    then_kendall_matrix,
)
from dppca_odp.earlier import ColumnScales
from dppca_odp.eigenvalues.method import Estimate
from dppca_odp.planned import Setting
from dppca_odp.primitives.noise import gaussian_stage, stage_loss, then_gaussian
from dppca_odp.primitives.pairs import Pairing, draw_pairing
from dppca_odp.spaces import gaussian_privacy, matrix_domain, rows_metric

SHARE = Budget.of("1", "1e-5")
PLENTY = Budget.of("25", "1e-5")
MU = 0.268051123211294  # of (1, 1e-5), solved to 15 digits


def kendall(rows, columns, *, degree=2):
    return make_kendall_matrix(
        matrix_domain(rows, columns), rows_metric(), pairing=draw_pairing(rows, degree)
    )


def directions(rows, columns, components, *, degree=2, share=SHARE, d_in=1):
    return make_directions(
        matrix_domain(rows, columns),
        rows_metric(),
        components=components,
        pairing=draw_pairing(rows, degree),
        share=share,
        d_in=d_in,
    )


def mean_matrix(table, pairs):
    """The mean of u u' over the pairs, in floats."""
    total = np.zeros((table.shape[1],) * 2)
    for a, b in pairs:
        difference = table[a] - table[b]
        norm = np.linalg.norm(difference)
        if norm > 0:
            total += np.outer(difference, difference) / norm**2
    return total / len(pairs)


def test_a_direction_keeps_its_length_to_twenty_bits_and_never_more():
    differences = np.random.default_rng(12).normal(size=(5000, 4))
    units = integer_directions(differences)
    norms = (units**2).sum(axis=1)
    assert norms.max() <= UNIT_LENGTH**2
    assert norms.min() >= (UNIT_LENGTH - 4) ** 2
    cosines = (units * differences).sum(axis=1) / UNIT_LENGTH / np.linalg.norm(differences, axis=1)
    assert cosines.min() > 1 - 1e-5


def test_directions_are_whole_numbers_truncated_toward_zero():
    assert integer_directions(np.array([[3.0, -4.0]])).tolist() in (
        [[629145.0, -838860.0]],
        [[629145.0, -838861.0]],
    )
    assert [[-UNIT_LENGTH, 0.0]] == integer_directions(np.array([[-7.0, 0.0]])).tolist()


@pytest.mark.parametrize("size", [5e-324, 1e-300, 1e-160, 1.0, 1e100, 2e100])
def test_the_length_of_a_difference_does_not_matter(size):
    units = integer_directions(np.array([[size, 0.0], [-size, size]]))
    assert [UNIT_LENGTH, 0.0] == units[0].tolist()
    assert [-741455.0, 741455.0] == units[1].tolist()


def test_equal_rows_have_no_direction():
    assert [[0.0] * 3] * 2 == integer_directions(np.zeros((2, 3))).tolist()


@pytest.mark.parametrize(
    ("rows", "columns"), [(1, 1), (64, 3), (65, 3), (4096, 1), (4096, 20), (65, 300)]
)
def test_products_are_exact(rows, columns):
    units = integer_directions(np.random.default_rng(13).normal(size=(rows, columns)))
    exact = np.array(units, dtype=np.int64)
    assert np.array_equal(exact_products(units), exact.T @ exact)


@pytest.mark.parametrize("bits", [0, 1, 19, 20, 21, 30])
@pytest.mark.parametrize("value", [0, 1, -1, 2**50 + 12345, -(2**50) - 12345])
def test_both_halves_of_a_sum_are_joined_and_rounded_down(bits, value):
    high, low = np.array([value >> 20]), np.array([value & (2**20 - 1)])
    assert _join(high, low, bits).tolist() == [value >> bits]
    assert _join(high - 5, low + 5 * 2**20, bits).tolist() == [value >> bits]


@pytest.mark.parametrize("degree", [1, 2, 4])
def test_the_matrix_is_the_mean_of_the_pairs_outer_products(degree):
    rows = 9
    table = np.random.default_rng(14).normal(size=(rows, 3))
    make = make_kendall_matrix(
        matrix_domain(rows, 3), rows_metric(), pairing=Pairing(rows, degree, np.arange(rows))
    )
    if degree == 1:
        pairs = [(0, 1), (2, 3), (4, 5), (6, 7)]
    else:
        pairs = [(i, (i + s) % rows) for s in range(1, degree // 2 + 1) for i in range(rows)]
    found = np.array(make(table)).reshape(3, 3) / (len(pairs) * UNIT_LENGTH**2)
    assert pytest.approx(mean_matrix(table, pairs), abs=1e-5) == found


def test_a_large_matrix_drops_low_bits_and_stays_in_64():
    rows, columns = 150_000, 2
    table = np.zeros((rows, columns))
    table[::2, 0] = 1.0
    order = np.arange(rows)
    matrix = make_kendall_matrix(
        matrix_domain(rows, columns), rows_metric(), pairing=Pairing(rows, 2, order)
    )
    # 150,000 pairs of squared length 2^40 need 58 bits: two are dropped.
    assert matrix(table) == [rows * UNIT_LENGTH**2 // 4, 0, 0, 0]
    assert pytest.approx(2 * math.sqrt(2) * UNIT_LENGTH**2 / 4 + 2, rel=1e-12) == matrix.map(1)


@pytest.mark.parametrize("degree", [2, 4, 16])
def test_the_sensitivity_of_every_ring_is_the_same(degree):
    rows = 100
    matrix = kendall(rows, 3, degree=degree)
    whole = rows * degree / 2 * UNIT_LENGTH**2
    for d_in in (1, 5):
        assert pytest.approx(2 * math.sqrt(2) * d_in / rows, rel=1e-12) == matrix.map(d_in) / whole
        assert Fraction(matrix.map(d_in)) ** 2 >= 2 * (degree * d_in * UNIT_LENGTH**2) ** 2


@pytest.mark.parametrize("rows", [10, 11])
def test_the_sensitivity_of_disjoint_pairs_is_root_two_over_their_number(rows):
    matrix = kendall(rows, 3, degree=1)
    whole = rows // 2 * UNIT_LENGTH**2
    assert pytest.approx(math.sqrt(2) / (rows // 2), rel=1e-12) == matrix.map(1) / whole


def test_nothing_changed_moves_nothing_and_all_pairs_are_the_most():
    matrix = kendall(10, 3, degree=4)
    assert 0.0 == matrix.map(0)
    assert matrix.map(5) == matrix.map(10) == matrix.map(1000)
    assert 0.0 == kendall(150_000, 2).map(0)


@pytest.mark.parametrize("fill", [np.nan, np.inf, -np.inf, 1e308])
def test_every_float_is_answered(fill):
    table = np.random.default_rng(15).normal(size=(9, 3))
    table[4] = fill
    matrix = np.array(kendall(9, 3)(table)).reshape(3, 3)
    assert np.array_equal(matrix, matrix.T)
    assert np.trace(matrix) <= 9 * UNIT_LENGTH**2


def test_the_largest_differences_point_somewhere():
    table = np.array([[1e308, 0.0], [-1e308, 0.0], [0.0, 0.0]])
    assert [3 * UNIT_LENGTH**2, 0, 0, 0] == kendall(3, 2)(table)


def test_a_shift_of_all_rows_changes_nothing():
    table = np.random.default_rng(16).integers(-50, 50, size=(9, 3)).astype(float)
    matrix = kendall(9, 3)
    assert matrix(table) == matrix(table + 4096.0)


@pytest.mark.parametrize("rows", [9, 11])
def test_a_pairing_for_another_number_of_rows_is_refused(rows):
    with pytest.raises(
        ValueError, match=f"^pairing must be for 10 rows; got {rows}. Draw one for this"
    ):
        make_kendall_matrix(matrix_domain(10, 3), rows_metric(), pairing=draw_pairing(rows, 2))


def test_eigenvectors_come_largest_first_with_their_largest_entry_positive():
    vectors = eigenpairs([2, 0, 0, 0, -1, 0, 0, 0, 7])[1][:, :3]
    assert [[0, 1, 0], [0, 0, 1], [1, 0, 0]] == np.abs(vectors).tolist()
    assert [1.0, 1.0, 1.0] == vectors.max(axis=0).tolist()


def test_the_sign_rule_decides_between_a_vector_and_its_opposite():
    axis = np.array([1.0, -2.0, 0.5]) / math.sqrt(5.25)
    entries = [int(entry) for entry in np.rint(np.outer(axis, axis) * 2**40).ravel()]
    (vector,) = eigenpairs(entries)[1][:, :1].T
    assert pytest.approx(-axis, abs=1e-6) == vector


def test_eigenvectors_see_the_symmetric_part_alone():
    assert np.array_equal(eigenpairs([4, 3, 1, 1])[1], eigenpairs([4, 2, 2, 1])[1])


@pytest.mark.parametrize("degree", [1, 2, 16])
def test_planted_directions_are_recovered_from_many_rows(degree):
    rng = np.random.default_rng(17)
    rows = 20_000
    planted, _ = np.linalg.qr(rng.normal(size=(5, 5)))
    table = 40 + rng.normal(size=(rows, 5)) * np.sqrt([20, 8, 3, 0.5, 0.1]) @ planted.T
    found = directions(rows, 5, 3, degree=degree, share=PLENTY)(table).vectors
    assert pytest.approx(np.eye(3), abs=1e-12) == found.T @ found
    assert np.abs((found * planted[:, :3]).sum(axis=0)).min() > 0.99


def test_one_wild_row_does_not_turn_the_directions():
    rng = np.random.default_rng(18)
    table = rng.normal(size=(20_000, 3)) * [5.0, 2.0, 0.5]
    table[0] = [0.0, 0.0, 1e300]
    found = directions(20_000, 3, 1, share=PLENTY)(table).vectors
    assert abs(found[0, 0]) > 0.99


def test_duplicate_rows_are_allowed():
    table = np.repeat(np.random.default_rng(19).normal(size=(10_000, 2)) * [5.0, 0.5], 2, axis=0)
    found = directions(20_000, 2, 1, share=PLENTY, d_in=2)(table).vectors
    assert abs(found[0, 0]) > 0.99


def test_a_constant_table_gives_directions_of_the_noise():
    constant = np.full((50, 3), 31337.25)
    first, second = (directions(50, 3, 3)(constant).vectors for _ in range(2))
    assert pytest.approx(np.eye(3), abs=1e-12) == first.T @ first
    assert not np.allclose(first, second)


@pytest.mark.parametrize("components", [0, -1, 4])
def test_components_outside_the_columns_are_refused(components):
    with pytest.raises(
        ValueError, match=f"^components must be between 1 and 3; got {components}. Use fewer.$"
    ):
        directions(10, 3, components)


def test_a_share_without_delta_is_refused():
    with pytest.raises(ValueError, match="a Gaussian stage must have epsilon and delta; got"):
        directions(10, 3, 1, share=Budget.of("1", "0"))


@pytest.mark.parametrize("d_in", [1, 4])
def test_the_price_at_the_unit_is_just_below_the_share(d_in):
    measurement = directions(100, 3, 2, d_in=d_in)
    epsilon, delta = measurement.map(d_in)
    assert stage_loss(SHARE)[0] * (1 - 1e-9) < epsilon <= stage_loss(SHARE)[0]
    assert delta == stage_loss(SHARE)[1]
    assert (0.0, 0.0) == measurement.map(0)


def setting(rows, columns, rows_per_person, labels=()):
    names = tuple(f"column {number}" for number in range(1, columns + 1))
    return Setting(rows, names, 2, PrivacyUnit(rows_per_person=rows_per_person), labels)


@pytest.mark.parametrize("rows_per_person", [1, 4])
def test_the_planned_noise_is_the_designs(rows_per_person):
    plan = Directions(name="directions", components=2)
    (planned,) = plan.stages(SHARE, setting(1000, 3, rows_per_person))
    assert "matrix" == planned.stage.name
    assert SHARE == planned.stage.budget
    (loss,) = planned.stage.losses
    assert isinstance(loss, GaussianLoss)
    assert pytest.approx(MU, rel=1e-9) == float(loss.mu)
    expected = 2 * math.sqrt(2) * rows_per_person / (1000 * MU)
    assert pytest.approx(expected, rel=1e-9) == planned.noise_scale


@pytest.mark.parametrize(("rows", "degree"), [(1000, 16), (9, 8), (150_000, 2)])
def test_the_planned_noise_is_the_one_that_is_used(rows, degree):
    plan = Directions(name="directions", components=2, degree=degree)
    (planned,) = plan.stages(SHARE, setting(rows, 3, 4))
    matrix = kendall(rows, 3, degree=degree)
    stage = gaussian_stage(SHARE, sensitivity=matrix.map(4), numbers=9)
    assert planned.stage.losses == (stage.loss,)
    dropped = {150_000: 2}.get(rows, 0)
    whole = rows * degree / 2 * UNIT_LENGTH**2 / 2**dropped
    assert pytest.approx(stage.scale, rel=1e-12) == planned.noise_scale * whole
    chain = matrix >> then_gaussian(scale=stage.scale)
    used = directions(rows, 3, 2, degree=degree, d_in=4)
    question = make_noisy_eigenvectors(
        matrix_domain(rows, 3),
        rows_metric(),
        components=2,
        pairing=draw_pairing(rows, degree),
        share=SHARE,
        d_in=4,
    )
    assert gaussian_privacy() == question.output_measure
    assert [question.map(d) for d in range(5)] == [chain.map(d) for d in range(5)]
    assert stage_loss(SHARE) == used.map(4)
    answer = used(np.zeros((rows, 3)))
    assert isinstance(answer, NoisyDirections)
    assert planned.noise_scale == answer.noise_scale


@pytest.mark.parametrize(
    ("rows", "degree", "pairs", "dropped"),
    [
        (10, 1, 5, 0),
        (11, 1, 5, 0),
        (11, 4, 22, 0),
        (65_535, 2, 65_535, 0),
        (65_536, 2, 65_536, 1),
        (150_000, 2, 150_000, 2),
    ],
)
def test_units_say_which_integer_stands_for_one(rows, degree, pairs, dropped):
    units = MatrixUnits(rows, 3, degree)
    assert (pairs, dropped) == (units.pairs, units.dropped_bits)
    assert pairs * UNIT_LENGTH**2 / 2**dropped == units.whole


@pytest.mark.parametrize(("rows", "degree"), [(11, 1), (1000, 4), (150_000, 16), (10**7, 16)])
@pytest.mark.parametrize("d_in", [1, 3, 100])
def test_the_sensitivity_is_never_below_the_exact_root_and_at_most_a_hair_above(rows, degree, d_in):
    units = MatrixUnits(rows, 5, degree)
    floors = 5 if units.dropped_bits else 0
    stated = Fraction(units.sensitivity(d_in)) - floors
    moved = Fraction(min(d_in * degree, units.pairs) * UNIT_LENGTH**2, 2**units.dropped_bits)
    assert 2 * moved**2 <= stated**2 <= 2 * moved**2 * (1 + Fraction(1, 10**14))


def test_a_small_table_gets_a_smaller_ring():
    plan = Directions(name="directions", components=2, degree=16)
    measurement = plan.make(
        matrix_domain(9, 3),
        rows_metric(),
        share=SHARE,
        setting=setting(9, 3, 1),
        earlier={},
    )
    assert measurement.map(1) == directions(9, 3, 2, degree=8).map(1)


def test_codes_of_labels_are_not_measured():
    plan = Directions(name="directions", components=1)
    rows = 5000
    labels = (Label(name="group", levels=("x", "y")),)
    measurement = plan.make(
        matrix_domain(rows, 3),
        rows_metric(),
        share=PLENTY,
        setting=setting(rows, 2, 1, labels),
        earlier={},
    )
    measured = np.random.default_rng(29).normal(size=(rows, 2)) * [1.0, 5.0]
    codes = np.random.default_rng(30).integers(0, 3, size=rows) * 1e9
    vectors = measurement(np.column_stack([measured, codes])).vectors
    assert (2, 1) == vectors.shape
    assert abs(vectors[1, 0]) > 0.99
    assert directions(rows, 2, 1, degree=16, share=PLENTY).map(1) == measurement.map(1)


def test_the_record_holds_the_directions_and_how_noisy_their_matrix_was():
    plan = Directions(name="directions", components=2)
    record = plan.released(NoisyDirections(np.eye(3, 2), 0.125), setting(1000, 3, 1))
    assert "directions" == record.name
    assert ((1.0, 0.0), (0.0, 1.0), (0.0, 0.0)) == record.vectors
    assert 0.125 == record.noise_scale


def test_the_record_holds_the_scales_and_names_columns_without_one():
    plan = Directions(name="directions", components=1, scales="variances")
    scales = ColumnScales(np.array([2e6, 1.0, 1.0]), np.array([True, False, False]))
    record = plan.released(NoisyDirections(np.eye(3, 1), 0.125, scales), setting(1000, 3, 1))
    assert (2e6, 1.0, 1.0) == record.scales
    assert ((5e-7,), (0.0,), (0.0,)) == record.loadings
    (warning,) = record.warnings
    assert warning.startswith("columns column 2, column 3: left unscaled: ")


def test_a_component_that_is_mostly_unscaled_columns_is_not_to_be_read():
    plan = Directions(name="directions", components=1, scales="variances")
    scales = ColumnScales(np.array([2.0, 1.0, 1.0]), np.array([True, False, False]))
    for unscaled, told in ((0.49, []), (0.51, ["component 1: mostly of columns that were left"])):
        vectors = np.sqrt([[1 - unscaled], [unscaled / 2], [unscaled / 2]])
        record = plan.released(NoisyDirections(vectors, 0.125, scales), setting(1000, 3, 1))
        _, *more = record.warnings
        assert told == [warning[:45] for warning in more]


def test_the_record_of_scales_that_were_all_found_warns_of_nothing():
    plan = Directions(name="directions", components=1, scales="variances")
    scales = ColumnScales(np.array([2.0, 3.0]), np.array([True, True]))
    record = plan.released(NoisyDirections(np.eye(2, 1), 0.125, scales), setting(1000, 2, 1))
    assert ((2.0, 3.0), ()) == (record.scales, record.warnings)


def test_the_record_tells_which_directions_noise_has_turned():
    plan = Directions(name="directions", components=2)
    answer = NoisyDirections(np.eye(3, 2), 0.125, sines=np.array([0.1, 0.6]))
    record = plan.released(answer, setting(1000, 3, 1))
    assert (0.1, 0.6) == record.sines
    (warning,) = record.warnings
    assert warning.startswith("component 2: unclear direction: ")


@pytest.mark.parametrize(
    ("rows", "scales", "clear"),
    [(100_000, [3, 2, 1], [True, True]), (3000, [1000] + 9 * [1], [True, False])],
)
def test_a_direction_is_clear_where_its_eigenvalue_is_apart_from_the_others(rows, scales, clear):
    columns = len(scales)
    table = np.random.default_rng(31).normal(size=(rows, columns)) * scales
    for _ in range(5):
        sines = directions(rows, columns, 2)(table).sines
        assert (sines <= CLEAR_SINE).tolist() == clear
        assert ((sines > 0) & (sines <= 1)).all()


def test_two_directions_of_noise_alone_seldom_seem_clear():
    """Once in 259 times, so 2000 times have more than 40 once in 10^15."""
    noise = np.random.default_rng(33).normal(size=(2000, 2, 2))
    symmetric = (noise + noise.transpose(0, 2, 1)) / 2
    eigenvalues = np.linalg.eigvalsh(symmetric)
    clear = [sines_of_noise(two, 1.0).max() <= CLEAR_SINE for two in eigenvalues]
    assert 0 < np.count_nonzero(clear) <= 40


@pytest.mark.parametrize(("rows", "columns"), [(300, 6), (3000, 20)])
def test_directions_of_noise_alone_among_several_are_unclear(rows, columns):
    table = np.random.default_rng(32).normal(size=(rows, columns))
    made = directions(rows, columns, 2)
    unclear = [(made(table).sines > CLEAR_SINE).mean() for _ in range(30)]
    assert np.mean(unclear) > 0.95


def test_the_sines_are_those_of_first_order():
    assert [1, 1, 0.1] == pytest.approx(sines_of_noise(np.array([2.0, 2.0, -8.0]), 1.0), abs=1e-9)
    (first, second) = sines_of_noise(np.array([3.0, 1.0]), 0.2)
    assert first == second == pytest.approx(0.2 / math.sqrt(2) / 2)


def test_scaling_costs_the_matrix_nothing():
    variances, zero = np.array([4.0, 9.0]), np.zeros(2)
    earlier = {"variances": Estimate(variances, zero, zero, variances, ())}
    made = [
        Directions(name="directions", components=1, scales=scales).make(
            matrix_domain(100, 2),
            rows_metric(),
            share=SHARE,
            setting=setting(100, 2, 3),
            earlier=earlier,
        )
        for scales in (None, "variances")
    ]
    assert made[0].map(3) == made[1].map(3)


def test_directions_without_scales_are_written_as_before():
    plan = Directions(name="directions", components=2)
    assert "scales" not in plan.model_dump()
    record = plan.released(NoisyDirections(np.eye(3, 2), 0.125), setting(1000, 3, 1))
    assert {"kind", "name", "vectors", "noise_scale"} == record.model_dump().keys()


def test_the_constructors_chain():
    space = matrix_domain(10, 3), rows_metric()
    pairing = draw_pairing(10, 2)
    assert (space >> then_kendall_matrix(pairing=pairing)).map(1) == kendall(10, 3).map(1)
    chain = space >> then_directions(components=2, pairing=pairing, share=SHARE, d_in=1)
    assert chain.map(1) == directions(10, 3, 2).map(1)
