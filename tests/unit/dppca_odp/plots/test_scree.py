import itertools
from datetime import UTC, datetime
from inspect import signature
from xml.etree import ElementTree

import pytest
from matplotlib.colors import to_hex
from matplotlib.image import imread

from accountant import Budget, PrivacyUnit
from dppca_odp.plots.scree import THICK, THIN, plot_scree
from dppca_odp.plots.style import PALETTE
from dppca_odp.releases import Release, ReleasedDirections, ReleasedScree


def scree(name, values=(4.0, 1.0, 0.0), noise=1.0, **more):
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
        **more,
    )


#: With intervals that are not symmetric, as of the adaptive method, and larger sampling.
BARS = {
    "noise_low": (3.0, 0.5, 0.0),
    "noise_high": (6.0, 2.0, 0.5),
    "sampling_scales": (0.75, 0.0, 0.0),
}


def bars_of(axes):
    """Every set of bars, by its width: where they go from and to."""
    return {
        float(lines.get_linewidth()[0]): [tuple(at[:, 1]) for at in lines.get_segments()]
        for lines in axes.collections
    }


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
    (line,) = eigenvalues.lines
    assert [1.0, 2.0, 3.0] == list(line.get_xdata())
    assert [4.0, 1.0, 0.0] == list(line.get_ydata())
    assert [80, 20, 0] == [round(bar.get_height()) for bar in shares.patches]
    assert ["80", "20", "0"] == [text.get_text() for text in shares.texts]


def test_the_thick_bar_is_the_noise_interval_and_the_thin_one_all_there_is():
    eigenvalues, _ = plot_scree(release(scree("one", **BARS))).axes
    bars = bars_of(eigenvalues)
    assert {THICK, THIN} == set(bars)
    assert [(3.0, 6.0), (0.5, 2.0), (0.0, 0.5)] == bars[THICK]
    assert [(1.5, 6.5), (0.0, 3.0), (0.0, 2.0)] == bars[THIN]
    assert 0 == eigenvalues.get_ylim()[0]


def test_an_older_release_has_noise_bars_around_its_values_and_no_others():
    eigenvalues, _ = plot_scree(release(scree("one"))).axes
    bars = bars_of(eigenvalues)
    assert {THICK} == set(bars)
    assert bars[THICK] == [
        (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))
        for low, high in ((2.04, 5.96), (0.0, 2.96), (0.0, 1.96))
    ]
    assert "thin" not in eigenvalues.get_title()


@pytest.mark.parametrize("flag", ["not found", "rare large values", "heavy tail", "saturated"])
def test_a_value_that_is_likely_higher_is_open_and_has_an_arrow_upward(flag):
    flags = (), (flag,), ("at zero",)
    eigenvalues, _ = plot_scree(release(scree("one", flags=flags, **BARS))).axes
    _, opened = eigenvalues.lines
    assert ([2.0], [1.0]) == (list(opened.get_xdata()), list(opened.get_ydata()))
    assert "white" == opened.get_markerfacecolor()
    (arrow,) = eigenvalues.texts
    assert (2.0, 1.0) == arrow.xy
    assert arrow.xyann[1] > 0
    assert "<|-" == arrow.arrow_patch.get_arrowstyle().arrow
    assert "open, with an arrow: the variance is likely higher" in eigenvalues.get_title()


def test_values_at_zero_or_without_flags_are_drawn_as_they_are():
    flags = (), (), ("at zero",)
    eigenvalues, _ = plot_scree(release(scree("one", flags=flags, **BARS))).axes
    assert 1 == len(eigenvalues.lines)
    assert not eigenvalues.texts
    assert "arrow" not in eigenvalues.get_title()


def test_twenty_components_have_room():
    values = tuple(20.0 - number for number in range(20))
    _, shares = plot_scree(release(scree("one", values), scree("two", values))).axes
    assert list(range(1, 21, 2)) == list(shares.get_xticks())
    assert not shares.texts


def test_both_panels_say_what_they_show():
    figure = plot_scree(release(scree("one", **BARS)))
    eigenvalues, shares = figure.axes
    assert "Private eigenvalues of clinic" == figure.get_suptitle()
    words = "scree\nthick bar: 95 % interval of the noise; thin bar: noise and sampling, two sd"
    assert words == eigenvalues.get_title()
    assert "share among the k reported components" == shares.get_title()
    assert ["component"] * 2 == [axes.get_xlabel() for axes in figure.axes]
    assert ["variance along the component", "percent"] == [
        axes.get_ylabel() for axes in figure.axes
    ]
    for axes in figure.axes:
        assert [1, 2, 3] == list(axes.get_xticks())
        assert not axes.spines["top"].get_visible()


def test_one_scree_needs_no_legend():
    eigenvalues, _ = plot_scree(release(scree("one"))).axes
    assert eigenvalues.get_legend() is None


def test_several_screes_are_told_apart():
    eigenvalues, shares = plot_scree(release(scree("one"), scree("two", (3.0, 2.0)))).axes
    assert ["one", "two"] == [text.get_text() for text in eigenvalues.get_legend().get_texts()]
    assert 5 == len(shares.patches)
    first, second = eigenvalues.lines
    assert list(PALETTE[:2]) == [to_hex(line.get_color()).upper() for line in (first, second)]
    assert first.get_marker() != second.get_marker()
    assert [1, 2, 3] == list(shares.get_xticks())


def test_bars_of_several_screes_do_not_overlap():
    screes = [scree(name) for name in ("one", "two", "three", "four")]
    _, shares = plot_scree(release(*screes)).axes
    ends = sorted((bar.get_x(), bar.get_x() + bar.get_width()) for bar in shares.patches)
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(ends))
    assert 0.5 < ends[0][0]
    assert 3.5 > ends[-1][1]


def test_more_screes_than_colours_can_be_drawn():
    screes = [scree(f"scree {number}") for number in range(8)]
    eigenvalues, _ = plot_scree(release(*screes)).axes
    assert 8 == len(eigenvalues.get_legend().get_texts())


def test_a_scree_whose_name_starts_with_an_underscore_is_in_the_legend():
    eigenvalues, _ = plot_scree(release(scree("_one"), scree("two"))).axes
    assert ["_one", "two"] == [
        text.get_text().strip() for text in eigenvalues.get_legend().get_texts()
    ]


def test_the_caption_says_what_it_cost_and_whom_it_protects():
    caption = plot_scree(release(scree("one")))._supxlabel.get_text()
    assert "epsilon 0.333334, delta 1e-6" in caption
    assert "one person, at most 2 rows" in caption
    assert "100 rows" in caption


def test_nothing_but_zeros_can_be_drawn(tmp_path):
    plot_scree(release(scree("zero", (0.0, 0.0), noise=0.0))).savefig(tmp_path / "scree.png")
    assert (630, 1200, 4) == imread(tmp_path / "scree.png").shape


@pytest.mark.parametrize("name", ["scree.png", "scree.pdf", "scree.svg"])
def test_the_ending_decides_the_format(tmp_path, name):
    plot_scree(release(scree("one"))).savefig(tmp_path / name)
    start = {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml"}[name[-3:]]
    assert (tmp_path / name).read_bytes().startswith(start)


def test_the_svg_is_well_formed(tmp_path):
    plot_scree(release(scree("one"))).savefig(tmp_path / "scree.svg")
    assert ElementTree.parse(tmp_path / "scree.svg").getroot().tag.endswith("}svg")


def test_a_release_without_eigenvalues_has_no_scree():
    directions = ReleasedDirections(name="d", vectors=((1.0,), (0.0,), (0.0,)), noise_scale=0.1)
    with pytest.raises(
        ValueError, match=r"^release must hold eigenvalues; got none\. Plan a scree release\.$"
    ):
        plot_scree(release(directions))


def test_it_takes_a_release_and_nothing_else():
    assert {"release": "Release"} == {
        name: given.annotation for name, given in signature(plot_scree).parameters.items()
    }
