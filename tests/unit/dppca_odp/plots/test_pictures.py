import base64
import importlib
import inspect
import pkgutil
import subprocess
import sys
from datetime import UTC, datetime
from xml.etree import ElementTree

import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from accountant import Budget, PrivacyUnit
from dppca_odp import plots
from dppca_odp.frame import Frame
from dppca_odp.plots.pictures import pictures, save_pictures
from dppca_odp.plots.style import PALETTE, colour, new_figure
from dppca_odp.releases import Release, ReleasedDirections, ReleasedScores, ReleasedScree

DIRECTIONS = ReleasedDirections(name="d", vectors=((1.0,), (0.0,)), noise_scale=0.1)


def scree(name="clipped"):
    return ReleasedScree(
        name=name,
        method="clipped",
        directions="d",
        values=(3.0, 1.0),
        proportions=(0.75, 0.25),
        raw=(3.0, 1.0),
        noise_scales=(0.1, 0.1),
        lower=(0.0, 0.0),
        upper=(9.0, 9.0),
        warnings=(),
    )


def scores(name="scores", groups=("all",)):
    return ReleasedScores(
        name=name,
        directions="d",
        axes=(1, 2),
        frame=Frame(x_low=-1, x_high=1, y_low=-1, y_high=1),
        histogram="additive",
        label=None if groups == ("all",) else "city",
        groups=groups,
        mass=(((0.25, 0.0), (0.5, 0.25)),) * len(groups),
        noise_scale=1.0,
        threshold=None,
        empty=(),
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
        columns=("a", "b"),
        stages=(),
        results=results,
        versions={},
    )


@pytest.fixture
def empty_files(monkeypatch):
    """Pictures are written without being drawn, where their names alone are in question."""
    monkeypatch.setattr(Figure, "savefig", lambda figure, path: path.touch())


ALL = release(DIRECTIONS, scree(), scree("pmwm"), scores(), scores("by city", ("york", "rest")))
SMALL = release(scree(), scores("by city"))


def test_there_is_a_scree_of_all_eigenvalues_and_two_pictures_for_each_scores_release():
    expected = ["scree", "scores", "scores-points", "by city", "by city-points"]
    assert expected == [name for name, _ in pictures(ALL)]


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        ((DIRECTIONS,), []),
        ((DIRECTIONS, scree()), ["scree"]),
        ((scores(),), ["scores", "scores-points"]),
    ],
    ids=["directions", "eigenvalues", "scores"],
)
def test_what_was_not_released_has_no_picture(results, expected):
    assert expected == [name for name, _ in pictures(release(*results))]


def test_a_release_plots_itself():
    figures = ALL.plot()
    assert all(isinstance(figure, Figure) for figure in figures)
    titles = [figure.get_suptitle() for figure in figures]
    assert [figure.get_suptitle() for _, figure in pictures(ALL)] == titles
    assert "Private eigenvalues of clinic" == titles[0]
    assert 5 == len(figures)
    assert not release(DIRECTIONS).plot()


def test_a_notebook_shows_a_picture_and_all_of_a_release():
    gallery = release(scree()).plot()
    (picture,) = gallery
    png = picture._repr_png_()
    assert b"\x89PNG\r\n\x1a\n" == png[:8]
    shown = ElementTree.fromstring(f"<div>{gallery._repr_html_()}</div>".replace('">', '"/>'))
    (source,) = [image.get("src") for image in shown]
    assert png == base64.b64decode(source.removeprefix("data:image/png;base64,"))
    assert "" == release(DIRECTIONS).plot()._repr_html_()


def test_every_picture_is_written_in_every_format(tmp_path):
    written = save_pictures(SMALL, tmp_path, ("png", "svg"))
    names = ["scree", "by-city", "by-city-points"]
    expected = [tmp_path / f"{name}.{ending}" for name in names for ending in ("png", "svg")]
    assert expected == written
    assert sorted(expected) == sorted(tmp_path.iterdir())
    for path in written:
        if path.suffix == ".png":
            assert 3 == imread(path).ndim
        else:
            assert ElementTree.parse(path).getroot().tag.endswith("}svg")


def test_png_is_the_format_unless_another_is_given(tmp_path):
    assert [tmp_path / "scree.png"] == save_pictures(release(scree()), str(tmp_path))


def test_nothing_to_draw_writes_nothing(tmp_path):
    assert [] == save_pictures(release(DIRECTIONS), tmp_path)
    assert [] == list(tmp_path.iterdir())


def test_the_same_release_gives_the_same_png_bytes(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    for one, two in zip(save_pictures(SMALL, first), save_pictures(SMALL, second), strict=True):
        assert one.read_bytes() == two.read_bytes()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("../a b.png", "---a-b-png"),
        ("Größe_1", "Größe_1"),
    ],
)
@pytest.mark.usefixtures("empty_files")
def test_a_name_becomes_a_file_name_inside_the_folder(tmp_path, name, expected):
    written = save_pictures(release(scores(name)), tmp_path)
    assert [tmp_path / f"{expected}.png", tmp_path / f"{expected}-points.png"] == written
    assert sorted(written) == sorted(tmp_path.iterdir())


@pytest.mark.parametrize(
    "results",
    [
        (scree(), scores("scree")),
        (scores("a"), scores("a-points")),
        (scores("a b"), scores("a-b")),
    ],
    ids=["the scree", "points", "blank and dash"],
)
@pytest.mark.usefixtures("empty_files")
def test_no_picture_overwrites_another(tmp_path, results):
    written = save_pictures(release(*results), tmp_path)
    assert len(written) == len(set(written))
    assert len(written) == len(list(tmp_path.iterdir()))


def test_a_long_name_can_be_written(tmp_path):
    assert 2 == len(save_pictures(release(scores("x" * 300)), tmp_path))


def test_no_picture_takes_a_table():
    """Releases, what the accountant tells, names, numbers, what matplotlib draws on: no more."""
    modules = [
        importlib.import_module(f"{plots.__name__}.{module.name}")
        for module in pkgutil.iter_modules(plots.__path__)
    ]
    allowed = {
        "Release", "Statement", "AnyBudget", "Budget", "Reading", "Axes", "Figure", "str", "int",
        "float", "Fraction", "str | Path", "Iterable[str]",
    }  # fmt: skip
    public = {
        given.annotation
        for module in modules
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__ and not name.startswith("_")
        for given in inspect.signature(function).parameters.values()
    }
    assert public <= allowed
    assert {"Release", "Statement"} <= public


def test_matplotlib_is_not_imported_before_a_picture_is_drawn():
    code = "import sys, dppca_odp.__main__; sys.exit('matplotlib' in sys.modules)"
    assert 0 == subprocess.run([sys.executable, "-c", code], timeout=60).returncode


class TestStyle:
    def test_colours_start_again_after_the_last(self):
        assert PALETTE == tuple(colour(number) for number in range(len(PALETTE)))
        assert colour(1) == colour(len(PALETTE) + 1)
        assert len(PALETTE) == len(set(PALETTE))

    def test_a_figure_has_its_size_title_and_wrapped_caption(self):
        caption = "word " * 60
        figure = new_figure(8, 4, "Title", caption)
        assert [8, 4] == list(figure.get_size_inches())
        assert 150 == figure.dpi
        assert "Title" == figure.get_suptitle()
        lines = figure._supxlabel.get_text().splitlines()
        assert caption.split() == " ".join(lines).split()
        assert max(map(len, lines)) <= 128
        assert 3 == len(lines)
