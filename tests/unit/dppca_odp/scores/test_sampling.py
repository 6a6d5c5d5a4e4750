import numpy as np
import pytest
from scipy.stats import chisquare, kstest

from dppca_odp.frame import Frame
from dppca_odp.releases import ReleasedScores
from dppca_odp.scores.sampling import sample_points

#: A true sampler fails a test once in a million runs; seeds are fixed, so none is retried.
SURE = 1e-6
FRAME = Frame(x_low=-3, x_high=3, y_low=10, y_high=12)
MASS = ((0.1, 0.0, 0.2), (0.3, 0.4, 0.0))
ZERO = ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0))


def released(*mass, groups=("all",), empty=()):
    return ReleasedScores(
        name="scores",
        directions="d",
        axes=(1, 2),
        frame=FRAME,
        histogram="sparse",
        label=None if groups == ("all",) else "city",
        groups=groups,
        mass=mass,
        noise_scale=1.0,
        threshold=3,
        empty=empty,
        warnings=(),
    )


ALL = released(MASS)
GROUPED = released(MASS, ZERO, (*ZERO[:1], (0, 1.0, 0)), groups=("a", "b", "rest"), empty=("b",))


def cells(points):
    """How many points lie in each cell, y by x."""
    found, _, _ = np.histogram2d(points[:, 1], points[:, 0], bins=(2, 3), range=((10, 12), (-3, 3)))
    return found


@pytest.mark.parametrize("spread", ["uniform", "centre"])
def test_cells_are_drawn_by_their_mass(spread):
    counts = cells(sample_points(ALL, 20_000, seed=1, spread=spread)).ravel()
    mass = np.ravel(MASS)
    assert 20_000 == counts.sum()
    assert [0, 0] == counts[mass == 0].tolist()
    assert chisquare(counts[mass > 0], 20_000 * mass[mass > 0]).pvalue > SURE
    other = np.array([0.2, 0.2, 0.2, 0.4])
    assert chisquare(counts[mass > 0], 20_000 * other).pvalue < SURE


def test_inside_a_cell_points_are_uniform():
    points = sample_points(GROUPED, 5000, seed=2, group="rest")
    low, steps = np.array([-1.0, 11.0]), np.array([2.0, 1.0])
    shares = (points - low) / steps
    assert ((shares >= 0) & (shares < 1)).all()
    for column in range(2):
        assert kstest(shares[:, column], "uniform").pvalue > SURE
    assert abs(np.corrcoef(shares.T)[0, 1]) < 0.1


def test_at_centres_there_is_one_place_for_each_cell():
    points = sample_points(ALL, 500, seed=3, spread="centre")
    expected = [(-2.0, 10.5), (-2.0, 11.5), (0.0, 11.5), (2.0, 10.5)]
    assert expected == sorted({(round(x, 9), round(y, 9)) for x, y in points})


def test_a_bandwidth_adds_a_normal_deviation_in_units_of_the_scores():
    points = sample_points(GROUPED, 5000, seed=4, group="rest", spread="centre", bandwidth=0.5)
    for deviation in ((points - [0.0, 11.5]) / 0.5).T:
        assert kstest(deviation, "norm").pvalue > SURE
        assert kstest(deviation / 1.3, "norm").pvalue < SURE


def test_the_same_seed_gives_the_same_points_and_another_seed_others():
    first = sample_points(ALL, 50, seed=5, bandwidth=0.1)
    assert np.array_equal(first, sample_points(ALL, 50, seed=5, bandwidth=0.1))
    assert not np.array_equal(first, sample_points(ALL, 50, seed=6, bandwidth=0.1))


def test_each_group_has_its_own_points():
    assert (cells(sample_points(GROUPED, 99, seed=7, group="rest")) > 0).sum() == 1
    counts = cells(sample_points(GROUPED, 999, seed=7, group="a"))
    assert ((counts > 0) == (np.array(MASS) > 0)).all()


def test_an_empty_group_gives_no_points():
    assert (0, 2) == sample_points(GROUPED, 99, seed=8, group="b").shape
    assert (0, 2) == sample_points(released(ZERO, empty=("all",)), 99, seed=8).shape


@pytest.mark.parametrize("number", [0, 1, 1000])
def test_as_many_points_as_asked_for(number):
    assert (number, 2) == sample_points(ALL, number, seed=9).shape
    assert (number, 2) == sample_points(ALL, number, seed=9, group="all").shape


@pytest.mark.parametrize(
    ("number", "bandwidth"),
    [(-1, 0.0), (5, -0.1), (5, np.nan), (5, np.inf)],
)
def test_a_negative_number_or_bandwidth_is_refused(number, bandwidth):
    expected = (
        f"^number and bandwidth must not be negative; got {number} and {bandwidth}. Use 0 or more.$"
    )
    with pytest.raises(ValueError, match=expected):
        sample_points(ALL, number, seed=0, bandwidth=bandwidth)


@pytest.mark.parametrize("group", [None, "c", "all"])
def test_a_group_that_is_not_there_or_not_chosen_is_refused(group):
    expected = f"^group must be one of a, b, rest; got {group}. Choose one.$"
    with pytest.raises(ValueError, match=expected):
        sample_points(GROUPED, 5, seed=0, group=group)


def test_a_spread_that_is_not_known_is_refused():
    with pytest.raises(ValueError, match="spread"):
        sample_points(ALL, 5, seed=0, spread="gaussian")
