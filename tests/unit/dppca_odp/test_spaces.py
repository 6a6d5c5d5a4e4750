import opendp.prelude as dp
import pytest

from dppca_odp.spaces import (
    approximate,
    integers_domain,
    integers_metric,
    matrix_domain,
    matrix_shape,
    pure,
    rows_metric,
    to_then,
)


def test_the_shape_of_a_matrix_space_is_read_back():
    assert (7, 3) == matrix_shape(matrix_domain(7, 3), rows_metric())


def test_another_domain_is_refused():
    with pytest.raises(ValueError, match="input_domain must be a matrix domain; got VectorDomain"):
        matrix_shape(integers_domain(3), rows_metric())


@pytest.mark.parametrize(
    "domain",
    [
        dp.numpy.array2_domain(num_columns=3, T=float, nan=False),
        dp.numpy.array2_domain(size=7, T=float, nan=False),
    ],
    ids=["rows unknown", "columns unknown"],
)
def test_a_shape_that_is_not_public_is_refused(domain):
    with pytest.raises(ValueError, match="input_domain must fix size and num_columns"):
        matrix_shape(domain, rows_metric())


@pytest.mark.parametrize("metric", [dp.symmetric_distance(), dp.change_one_distance()])
def test_another_row_metric_is_refused(metric):
    with pytest.raises(ValueError, match=r"input_metric must be hamming_distance\(\); got"):
        matrix_shape(matrix_domain(7, 3), metric)


def test_the_integer_space_holds_64_bits_and_is_measured_by_euclidean_distance():
    assert integers_domain(3) == dp.vector_domain(dp.atom_domain(T="i64"), size=3)
    assert dp.l2_distance(T="f64") == integers_metric()


def test_releases_are_paid_in_epsilon_and_delta():
    assert dp.max_divergence() == pure()
    assert dp.approximate(dp.max_divergence()) == approximate()


def test_a_then_form_takes_its_space_from_the_left():
    def make_identity(input_domain, input_metric, *, factor):
        return dp.t.make_user_transformation(
            input_domain,
            input_metric,
            input_domain,
            input_metric,
            lambda table: table,
            lambda d_in: factor * d_in,
        )

    then_identity = to_then(make_identity)
    space = matrix_domain(7, 3), rows_metric()
    chain = make_identity(*space, factor=2) >> then_identity(factor=5)
    assert 10 == chain.map(1)
