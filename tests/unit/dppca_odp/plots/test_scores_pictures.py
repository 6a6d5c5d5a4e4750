from datetime import UTC, datetime
from inspect import signature
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.image import imread

from accountant import Budget, PrivacyUnit
from dppca_odp.frame import Frame
from dppca_odp.plots.scores import plot_points, plot_scores
from dppca_odp.plots.style import PALETTE
from dppca_odp.releases import Release, ReleasedDirections, ReleasedScores, ReleasedScree
from dppca_odp.scores.sampling import sample_points

FRAME = Frame(x_low=-2, x_high=4, y_low=10, y_high=16)
MASS = ((0.125, 0.0, 0.25), (0.5, 0.125, 0.0))
ZERO = ((0.0,) * 3,) * 2
SCREE = ReleasedScree(
    name="scree",
    method="clipped",
    directions="d",
    values=(3.0, 1.0, 0.0),
    proportions=(0.75, 0.25, 0.0),
    raw=(3.0, 1.0, -0.1),
    noise_scales=(0.1,) * 3,
    lower=(0.0,) * 3,
    upper=(9.0,) * 3,
    warnings=(),
)
DIRECTIONS = ReleasedDirections(name="d", vectors=((1.0,), (0.0,)), noise_scale=0.1)


def scores(*mass, groups=("all",), **changes):
    usual = {
        "name": "scores",
        "directions": "d",
        "axes": (1, 2),
        "frame": FRAME,
        "histogram": "sparse",
        "label": None if groups == ("all",) else "city",
        "groups": groups,
        "mass": mass or (MASS,),
        "noise_scale": 1.0,
        "threshold": 3,
        "empty": (),
        "warnings": (),
    }
    return ReleasedScores.model_validate(usual | changes)


def in_groups(*names, **changes):
    """Equal mass in every group but the last, which is empty."""
    weights = [MASS] * (len(names) - 1)
    return scores(*weights, ZERO, groups=names, empty=names[-1:], **changes)


def release(*results, data_set="clinic"):
    return Release(
        data_set=data_set,
        release_key="first",
        plan_hash="0" * 64,
        time=datetime(2024, 5, 17, tzinfo=UTC),
        budget=Budget.of("1/3", "1e-6"),
        unit=PrivacyUnit(rows_per_person=2),
        rows=100,
        columns=("a", "b"),
        stages=(),
        results=results or (scores(),),
        versions={},
    )


def rendered(figure, folder):
    """Width and height in pixels of the PNG; the SVG is well formed."""
    figure.savefig(folder / "picture.png")
    figure.savefig(folder / "picture.svg")
    assert ElementTree.parse(folder / "picture.svg").getroot().tag.endswith("}svg")
    return imread(folder / "picture.png").shape[1::-1]


def panels(figure):
    return [axes for axes in figure.axes if axes.get_visible() and axes.get_images()]


def assert_square_on_the_frame(axes):
    assert (FRAME.x_low, FRAME.x_high) == axes.get_xlim()
    assert (FRAME.y_low, FRAME.y_high) == axes.get_ylim()
    assert 1 == axes.get_aspect()


class TestOneHistogram:
    def test_the_picture_shows_the_mass_on_the_frame(self, tmp_path):
        figure = plot_scores(release(), "scores")
        axes, bar = figure.axes
        (image,) = axes.get_images()
        assert np.array_equal(MASS, image.get_array())
        assert "lower" == image.origin
        assert [-2, 4, 10, 16] == list(image.get_extent())
        assert_square_on_the_frame(axes)
        assert (0.0, 0.5) == image.get_clim()
        assert "share of mass" == bar.get_ylabel()
        assert (840, 840) == rendered(figure, tmp_path)

    def test_title_and_caption_say_what_it_is_and_what_it_cost(self):
        figure = plot_scores(release(), "scores")
        assert "Private scores of clinic, sparse histogram" == figure.get_suptitle()
        caption = figure._supxlabel.get_text().replace("\n", " ")
        assert "epsilon 0.333334, delta 1e-6" in caption
        assert "one person, at most 2 rows" in caption

    def test_labels_hold_component_numbers(self):
        axes = plot_scores(release(scores(axes=(3, 1))), "scores").axes[0]
        assert ("component 3", "component 1") == (axes.get_xlabel(), axes.get_ylabel())

    def test_labels_hold_shares_that_the_plan_released_on_the_same_directions(self):
        axes = plot_scores(release(DIRECTIONS, SCREE, scores(axes=(2, 1))), "scores").axes[0]
        expected = ("component 2 (25% of the k)", "component 1 (75% of the k)")
        assert expected == (axes.get_xlabel(), axes.get_ylabel())

    @pytest.mark.parametrize(("of_scree", "of_scores"), [("other", "d"), ("given", "given")])
    def test_shares_on_other_or_unnamed_directions_are_left_out(self, of_scree, of_scores):
        other = SCREE.model_copy(update={"directions": of_scree})
        axes = plot_scores(release(other, scores(directions=of_scores)), "scores").axes[0]
        assert "component 1" == axes.get_xlabel()

    def test_labels_along_the_axes_are_columns(self):
        along = scores(directions="axes", axes=(2, 1))
        axes = plot_scores(release(along), "scores").axes[0]
        names = release(along).columns
        assert (f"column {names[1]}", f"column {names[0]}") == (
            axes.get_xlabel(),
            axes.get_ylabel(),
        )
        old = DIRECTIONS.model_copy(update={"name": "axes"})  # once a name like any other
        assert "component 2" == plot_scores(release(old, along), "scores").axes[0].get_xlabel()

    def test_an_empty_histogram_can_be_drawn(self, tmp_path):
        figure = plot_scores(release(scores(ZERO, empty=("all",))), "scores")
        assert (0.0, 1.0) == panels(figure)[0].get_images()[0].get_clim()
        assert (840, 840) == rendered(figure, tmp_path)


class TestGroups:
    @pytest.mark.parametrize(("groups", "hidden"), [(2, 0), (3, 0), (4, 1), (5, 0), (6, 2)])
    def test_every_group_has_a_panel_and_all_have_one_more(self, groups, hidden):
        names = tuple(f"g{number}" for number in range(groups))
        figure = plot_scores(release(in_groups(*names)), "scores")
        shown = panels(figure)
        expected = [f"city {name}" for name in names[:-1]]
        expected += [f"city {names[-1]} (empty)", "all groups"]
        assert expected == [axes.get_title() for axes in shown]
        assert hidden == sum(not axes.get_visible() for axes in figure.axes)
        for axes in shown:
            assert_square_on_the_frame(axes)

    def test_panels_that_do_not_fill_their_rows_can_be_drawn(self, tmp_path):
        figure = plot_scores(release(in_groups("a", "b", "c", "rest")), "scores")
        assert min(rendered(figure, tmp_path)) > 800

    def test_all_panels_share_one_colour_scale(self):
        half = tuple(tuple(share / 2 for share in row) for row in MASS)
        figure = plot_scores(
            release(scores(half, MASS, ZERO, groups=("a", "b", "rest"), empty=("rest",))), "scores"
        )
        *groups, overlay = panels(figure)
        assert [(0.0, 0.5)] * 3 == [axes.get_images()[0].get_clim() for axes in groups]
        shown = [axes.get_images()[0].get_array() for axes in groups]
        assert np.array_equal([half, MASS, ZERO], shown)
        assert {groups[0].get_images()[0].get_cmap().name} == {
            axes.get_images()[0].get_cmap().name for axes in groups
        }
        bars = [axes for axes in figure.axes if "share" in axes.get_ylabel()]
        assert ["share of the group's mass"] == [axes.get_ylabel() for axes in bars]
        assert (2, 3, 3) == overlay.get_images()[0].get_array().shape

    def test_titles_have_the_colours_of_the_groups(self):
        *groups, _ = panels(plot_scores(release(in_groups("a", "b", "rest")), "scores"))
        expected = list(PALETTE[:3])
        assert expected == [to_hex(axes.title.get_color()).upper() for axes in groups]

    def test_the_overlay_tints_each_cell_by_the_groups_that_hold_it(self):
        """White where nobody is, a group's colour where it alone has the largest share."""
        left, right = ((1.0, 0.0, 0.0),), ((0.0, 1.0, 0.0),)
        figure = plot_scores(release(scores(left, right, groups=("a", "rest"))), "scores")
        overlay = panels(figure)[-1].get_images()[0].get_array()
        assert [PALETTE[0], PALETTE[1], "#FFFFFF"] == [to_hex(cell).upper() for cell in overlay[0]]

    def test_two_groups_in_one_cell_make_a_darker_tint(self):
        figure = plot_scores(release(scores(((1.0,),), ((1.0,),), groups=("a", "rest"))), "scores")
        both = panels(figure)[-1].get_images()[0].get_array()[0, 0]
        alone = np.array([[int(c[i : i + 2], 16) / 255 for i in (1, 3, 5)] for c in PALETTE[:2]])
        assert (both <= alone.min(axis=0) + 1e-9).all()

    @pytest.mark.parametrize("groups", [2, 3, 4, 6])
    def test_outer_panels_carry_the_labels(self, groups):
        names = tuple(f"g{number}" for number in range(groups))
        shown = panels(plot_scores(release(in_groups(*names)), "scores"))
        columns = {2: 3, 3: 2, 4: 3, 6: 3}[groups]
        left = [axes.get_ylabel() == "component 2" for axes in shown]
        below = [axes.get_xlabel() == "component 1" for axes in shown]
        count = groups + 1
        assert [number % columns == 0 for number in range(count)] == left
        assert [number + columns >= count for number in range(count)] == below

    def test_nothing_but_empty_groups_can_be_drawn(self):
        empty = scores(ZERO, ZERO, groups=("a", "rest"), empty=("a", "rest"))
        figure = plot_scores(release(empty), "scores")
        titles = ["city a (empty)", "city rest (empty)", "all groups"]
        assert titles == [axes.get_title() for axes in panels(figure)]
        assert (panels(figure)[-1].get_images()[0].get_array() == 1).all()

    def test_more_groups_than_colours_can_be_drawn(self):
        names = tuple(f"g{number}" for number in range(8))
        assert 9 == len(panels(plot_scores(release(in_groups(*names)), "scores")))


class TestPoints:
    def test_points_are_those_drawn_from_the_histogram(self, tmp_path):
        figure = plot_points(release(), "scores", 200, seed=4)
        (axes,) = figure.axes
        (dots,) = axes.collections
        assert np.array_equal(sample_points(scores(), 200, seed=4), dots.get_offsets())
        assert_square_on_the_frame(axes)
        assert axes.get_legend() is None
        assert (840, 840) == rendered(figure, tmp_path)

    def test_a_thousand_points_unless_another_number_is_given(self):
        (dots,) = plot_points(release(), "scores").axes[0].collections
        assert 1000 == len(dots.get_offsets())

    def test_the_title_says_that_they_are_synthetic_and_the_caption_what_they_cost(self):
        figure = plot_points(release(), "scores", 5)
        title = "Synthetic points, drawn from the private scores of clinic"
        assert title == figure.get_suptitle()
        assert "epsilon 0.333334, delta 1e-6" in figure._supxlabel.get_text()

    def test_labels_hold_component_numbers_and_shares(self):
        axes = plot_points(release(SCREE, scores(axes=(2, 1))), "scores", 5).axes[0]
        expected = ("component 2 (25% of the k)", "component 1 (75% of the k)")
        assert expected == (axes.get_xlabel(), axes.get_ylabel())

    def test_groups_are_told_apart_and_an_empty_one_is_marked(self):
        figure = plot_points(release(in_groups("a", "b", "rest")), "scores", 50)
        (axes,) = figure.axes
        expected = ["city a", "city b", "city rest (empty)"]
        assert expected == [text.get_text() for text in axes.get_legend().get_texts()]
        assert [50, 50, 0] == [len(dots.get_offsets()) for dots in axes.collections]
        first, second, _ = axes.collections
        assert list(PALETTE[:2]) == [
            to_hex(dots.get_facecolor()[0]).upper() for dots in (first, second)
        ]
        assert not np.array_equal(first.get_offsets(), second.get_offsets())

    def test_an_empty_histogram_has_no_points(self, tmp_path):
        figure = plot_points(release(scores(ZERO, empty=("all",))), "scores")
        assert 0 == len(figure.axes[0].collections[0].get_offsets())
        assert (840, 840) == rendered(figure, tmp_path)


@pytest.mark.parametrize("plot", [plot_scores, plot_points])
class TestBoth:
    def test_a_name_that_is_not_there_is_refused(self, plot):
        with pytest.raises(KeyError, match="name must be one of scores; got pca"):
            plot(release(), "pca")

    @pytest.mark.parametrize("name", ["d", "scree"])
    def test_a_release_that_is_not_of_scores_is_refused(self, plot, name):
        expected = f"^name must be that of a scores release; got {name}. Choose another.$"
        with pytest.raises(ValueError, match=expected):
            plot(release(DIRECTIONS, SCREE, scores()), name)

    def test_it_takes_a_release_a_name_and_numbers(self, plot):
        expected = {"release": "Release", "name": "str"}
        if plot is plot_points:
            expected |= {"number": "int", "seed": "int"}
        assert expected == {
            name: given.annotation for name, given in signature(plot).parameters.items()
        }

    @pytest.mark.parametrize(
        ("groups", "label", "data_set"),
        [
            (("$1_$2", "rest"), "income", "clinic"),
            (("a", "rest"), "$_$", "clinic"),
            (("a", "rest"), "city", r"$\wrong$"),
        ],
        ids=["group", "label", "data set"],
    )
    def test_dollar_signs_are_text(self, plot, groups, label, data_set):
        shown = scores(MASS, MASS, groups=groups, label=label)
        plot(release(shown, data_set=data_set), "scores").draw_without_rendering()


def test_a_label_that_starts_with_an_underscore_is_in_the_legend():
    shown = scores(MASS, MASS, groups=("a", "rest"), label="_city")
    (axes,) = plot_points(release(shown), "scores", 5).axes
    assert ["_city a", "_city rest"] == [
        text.get_text().strip() for text in axes.get_legend().get_texts()
    ]
