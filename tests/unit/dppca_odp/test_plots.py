from datetime import UTC, datetime

import pytest
from matplotlib.image import imread

from accountant import Budget, PrivacyUnit
from dppca_odp.plots import plot_scree, save_scree
from dppca_odp.releases import Release, ReleasedDirections, ReleasedScree


def scree(name, values=(4.0, 1.0, 0.0), noise=1.0):
    total = sum(values) or 1
    return ReleasedScree(
        name=name,
        method="clipped",
        directions="given",
        values=values,
        proportions=tuple(value / total for value in values),
        raw=values,
        noise_scales=(noise,) * len(values),
        lower=(0.0,) * len(values),
        upper=(9.0,) * len(values),
        warnings=(),
    )


def release(*results):
    return Release(
        data_set="clinic",
        release_key="first",
        plan_hash="0" * 64,
        time=datetime(2024, 5, 17, tzinfo=UTC),
        budget=Budget.of("1/3", "1e-6"),
        unit=PrivacyUnit(rows_per_person=2),
        rows=100,
        columns=("a", "b", "c"),
        stages=(),
        results=results,
        versions={},
    )


def test_the_picture_shows_values_and_shares():
    eigenvalues, shares = plot_scree(release(scree("one"))).axes
    ((line, *_),) = [container.lines for container in eigenvalues.containers]
    assert list(line.get_ydata()) == [4.0, 1.0, 0.0]
    assert [round(bar.get_height()) for bar in shares.patches] == [80, 20, 0]


def test_error_bars_are_two_noise_deviations_and_never_below_zero():
    eigenvalues, _ = plot_scree(release(scree("one"))).axes
    ((_, _, (bars,)),) = [container.lines for container in eigenvalues.containers]
    reach = [tuple(segment[:, 1]) for segment in bars.get_segments()]
    assert reach == [(2.0, 6.0), (0.0, 3.0), (0.0, 2.0)]


def test_several_screes_are_told_apart():
    eigenvalues, shares = plot_scree(release(scree("one"), scree("two", (3.0, 2.0)))).axes
    assert [text.get_text() for text in eigenvalues.get_legend().get_texts()] == ["one", "two"]
    assert len(shares.patches) == 5


def test_the_caption_says_what_it_cost_and_whom_it_protects():
    caption = plot_scree(release(scree("one")))._supxlabel.get_text()
    assert "epsilon 0.333334, delta 1e-6" in caption
    assert "one person, at most 2 rows" in caption


def test_nothing_but_zeros_can_be_drawn(tmp_path):
    save_scree(release(scree("zero", (0.0, 0.0), noise=0.0)), tmp_path / "scree.png")
    assert imread(tmp_path / "scree.png").ndim == 3


@pytest.mark.parametrize("name", ["scree.png", "scree.pdf", "scree.svg"])
def test_the_ending_decides_the_format(tmp_path, name):
    save_scree(release(scree("one")), tmp_path / name)
    start = {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml"}[name[-3:]]
    assert (tmp_path / name).read_bytes().startswith(start)


def test_a_release_without_eigenvalues_has_no_scree():
    directions = ReleasedDirections(name="d", vectors=((1.0,), (0.0,), (0.0,)), noise_scale=0.1)
    with pytest.raises(ValueError, match=r"release must hold eigenvalues\. Plan a scree release\."):
        plot_scree(release(directions))
