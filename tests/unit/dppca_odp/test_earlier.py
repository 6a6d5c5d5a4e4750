import numpy as np
import pytest

from dppca_odp.directions import NoisyDirections
from dppca_odp.earlier import ColumnScales, find_loadings, find_scales, named
from dppca_odp.eigenvalues.matching import Matched
from dppca_odp.eigenvalues.method import Estimate
from dppca_odp.eigenvalues.rules import Tail, read
from dppca_odp.flags import Flag

VECTORS = np.array([[0.6], [0.8]])


def variances(values, noise_scales):
    values, noise_scales = np.array(values), np.array(noise_scales)
    return {"variances": Estimate(values, noise_scales, 0 * values, values + 1, ())}


class TestLoadings:
    def test_the_axes_are_one_component_for_each_column(self):
        assert np.array_equal(np.eye(3), find_loadings("axes", {}, columns=3))

    def test_public_ones_are_as_given(self):
        assert VECTORS.tolist() == find_loadings(((0.6,), (0.8,)), {}, columns=2).tolist()

    def test_those_of_an_earlier_release_are_its_vectors(self):
        earlier = {"main": NoisyDirections(VECTORS, 0.1), "other": None}
        assert VECTORS.tolist() == find_loadings("main", earlier, columns=2).tolist()

    def test_those_of_scaled_columns_multiply_rows_as_they_were(self):
        scales = ColumnScales(np.array([1e6, 1e-6]), np.array([True, True]))
        loadings = find_loadings("main", {"main": NoisyDirections(VECTORS, 0.1, scales)}, columns=2)
        row = np.array([3e6, 2e-6])
        assert pytest.approx(row / scales.values @ VECTORS) == row @ loadings

    @pytest.mark.parametrize(
        ("directions", "word"), [("axes", "axes"), ("main", "main"), (((1.0,),), "given")]
    )
    def test_a_record_says_which(self, directions, word):
        assert word == named(directions)


class TestScales:
    def test_they_are_standard_deviations(self):
        scales = find_scales("variances", variances([4e12, 1e-12, 9.0], [1e10, 1e-14, 0.0]))
        assert pytest.approx([2e6, 1e-6, 3.0], rel=1e-12) == scales.values
        assert scales.found.all()

    @pytest.mark.parametrize("value", [-5.0, -0.1, 0.0, 1e-300, 0.1, 0.2])
    def test_a_variance_that_may_be_noise_alone_scales_nothing(self, value):
        scales = find_scales("variances", variances([value, 4.0], [0.1, 0.1]))
        assert [1.0, 2.0] == scales.values.tolist()
        assert [False, True] == scales.found.tolist()

    def test_no_variance_and_no_noise_is_not_found(self):
        assert not find_scales("variances", variances([0.0], [0.0])).found.any()

    def test_the_smallest_of_all_leave_loadings_finite(self):
        scales = find_scales("variances", variances([5e-324, 1e200], [0.0, 0.0]))
        loadings = NoisyDirections(VECTORS, 0.1, scales).loadings
        assert scales.found.all()
        assert np.isfinite(1e100 * loadings).all()
        assert (loadings > 0).all()

    def test_a_scale_that_is_unclear_is_not_used(self):
        answer = Estimate(
            values=np.array([4.0, 9.0]),
            noise_scales=np.array([0.1, 0.1]),
            lower=np.zeros(2),
            upper=np.ones(2),
            warnings=(),
            flags=((Flag.UNCLEAR,), (Flag.HEAVY_TAIL,)),
        )
        scales = find_scales("variances", {"variances": answer})
        assert [1.0, 3.0] == scales.values.tolist()
        assert [False, True] == scales.found.tolist()

    def test_the_bulk_stands_in_for_a_variance_that_may_be_noise_alone(self):
        answer = variances([0.1, 4.0, 0.1, -3.0], [0.1, 0.1, 0.1, 1.0])["variances"]
        answer = answer._replace(bulk=np.array([9.0, 9.0, 0.0, 0.0]))
        scales = find_scales("variances", {"variances": answer})
        assert [3.0, 2.0, 1.0, 1.0] == scales.values.tolist()
        assert [True, True, False, False] == scales.found.tolist()

    def test_the_adaptive_method_tells_the_bulk_of_what_is_clear(self):
        noise, means = np.full(3, 0.1), np.ones(3)
        unclear = np.array([False, True, False])
        matched = Matched(np.array([2.0, 3.0, 0.0]), unclear, np.zeros(3, dtype=bool))
        cutoffs = 4 * matched.scales
        answer = read(means, noise, cutoffs, Tail(4.0, 0), rare=[], matched=matched)
        assert [2.0, 0.0, 0.0] == answer.bulk.tolist()

    def test_what_the_adaptive_method_flags_as_not_found_or_at_zero_is_not_found(self):
        rng = np.random.default_rng(31)
        number = 20_000
        cutoffs = rng.lognormal(sigma=9, size=number) * (rng.random(number) > 0.1)
        noise = cutoffs * rng.uniform(1e-4, 0.125, size=number)
        means = np.clip(rng.normal(size=number) * 3, -3, 9) * noise
        matched = Matched(cutoffs / 4, *np.zeros((2, number), dtype=bool))
        answer = read(means, noise, cutoffs, Tail(4.0, 0), rare=[], matched=matched)
        flagged = [{Flag.NOT_FOUND, Flag.AT_ZERO} & set(flags) != set() for flags in answer.flags]
        found = find_scales("variances", {"variances": answer._replace(bulk=None)}).found
        assert 0.5 < np.mean(flagged) < 0.9
        assert found.mean() > 0.1
        assert not (found & flagged).any()
