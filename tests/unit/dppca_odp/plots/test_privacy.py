from fractions import Fraction
from inspect import signature
from math import e, inf
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import rgb_to_hsv, to_hex, to_rgb
from matplotlib.image import imread
from scipy.special import ndtr, ndtri

from accountant.losses import ApproximateLoss, GaussianLoss, PureLoss
from accountant.readings import reading_of_budget, reading_of_gaussian, reading_of_losses
from accountant.rules import GaussianRule
from accountant.specs import Budget
from dppca_odp.plots.privacy import MU, TOTAL, plot_privacy
from dppca_odp.plots.style import PALETTE

MILLIONTH = Fraction(1, 10**6)
TITLE = "What clinic was granted"
RULE = GaussianRule(budget=Budget.of("1", "1e-6"), set_aside=Fraction(1, 10**7))
VOTE = PureLoss(epsilon=Fraction(1))
MIXED = (
    PureLoss(epsilon=Fraction(1, 20), count=10),
    GaussianLoss(mu=Fraction(2, 5), leak=Fraction(1, 10**20)),
    ApproximateLoss(epsilon=Fraction(1, 10), delta=Fraction(1, 10**9)),
)
READINGS = {
    "losses": reading_of_losses(MIXED, [MILLIONTH]),
    "vote": reading_of_losses([VOTE], [MILLIONTH]),
    "budget": reading_of_budget(Budget.of("1", "1e-6")),
    "gaussian": reading_of_gaussian(RULE.capacity(RULE.budget), [RULE.budget.delta]),
    "nothing": reading_of_losses([]),
    "everything": reading_of_losses([PureLoss(epsilon=Fraction(10**999))]),
}


def draw(name, delta=MILLIONTH):
    return plot_privacy(READINGS[name], TITLE, delta)


def lines(axes):
    return {line.get_label(): line for line in axes.get_lines()}


def caption(figure):
    return figure._supxlabel.get_text().replace("\n", " ")


@pytest.mark.parametrize("name", READINGS)
def test_every_total_can_be_drawn(name, tmp_path):
    figure = draw(name)
    figure.savefig(tmp_path / "privacy.png")
    assert (630, 1200, 4) == imread(tmp_path / "privacy.png").shape
    assert TITLE == figure.get_suptitle()


@pytest.mark.parametrize("name", ["losses", "vote", "budget", "gaussian"])
def test_the_curve_is_that_of_the_reading(name):
    curve, _ = draw(name).axes
    epsilons, deltas = curve.get_lines()[0].get_data()
    for epsilon, delta in zip(epsilons[::20], deltas[::20], strict=True):
        assert pytest.approx(max(READINGS[name].delta(epsilon), 1e-14)) == delta
    known = {point.epsilon for point in READINGS[name].curve if point.epsilon < inf}
    assert known <= set(epsilons)
    assert "log" == curve.get_yscale()
    assert (1e-13, 1.0) == curve.get_ylim()


@pytest.mark.parametrize("name", ["losses", "vote", "budget", "gaussian"])
def test_the_declared_delta_is_marked_on_the_curve(name):
    curve, _ = draw(name).axes
    _, level, dot = curve.get_lines()
    ((epsilon,), (delta,)) = dot.get_data()
    (expected,) = [p.epsilon for p in READINGS[name].curve if p.delta == MILLIONTH]
    assert (expected, 1e-6) == (epsilon, delta)
    assert {1e-6} == set(level.get_ydata())


def test_the_title_of_a_panel_tells_the_epsilon_at_the_declared_delta():
    curve, tests = draw("budget").axes
    assert "epsilon 1 at delta 1e-6" == curve.get_title()
    assert "the most that an attacker's test can reach" == tests.get_title()
    assert ("epsilon", "delta") == (curve.get_xlabel(), curve.get_ylabel())
    assert ("false-positive rate", "true-positive rate") == (
        tests.get_xlabel(), tests.get_ylabel()
    )  # fmt: skip


def test_a_delta_without_an_epsilon_has_a_line_and_no_dot():
    curve, _ = draw("budget", Fraction(1, 10**9)).axes
    assert "no epsilon at delta 1e-9" == curve.get_title()
    assert 2 == len(curve.get_lines())


def test_a_delta_that_the_curve_does_not_have_is_refused():
    expected = r"^delta must be one of the curve's; got 2e-7\. Read the total with it\.$"
    with pytest.raises(ValueError, match=expected):
        draw("budget", Fraction(2, 10**7))


def test_one_vote_has_its_kink():
    """From (0, 0) to (1, e) / (1 + e), and on to (1, 1)."""
    _, tests = draw("vote").axes
    rates, reached = lines(tests)["the total"].get_data()
    exact = np.minimum(e * rates, 1 - (1 - rates) / e)
    assert np.all(exact - 1e-12 <= reached)
    assert np.all(reached <= exact + 1e-6)


def test_no_test_of_the_total_is_above_those_of_its_mu():
    for name in ("losses", "vote", "budget", "gaussian"):
        reading = READINGS[name]
        total, mu, guess = draw(name).axes[1].get_lines()
        rates, allowed = mu.get_data()
        beside = float(reading.uncovered) + float(reading.leak)
        within = ndtr(ndtri(rates + float(reading.leak)) + reading.mu) + beside
        assert pytest.approx(np.minimum(within, 1), abs=1e-9) == allowed
        gap = allowed - total.get_ydata()
        assert -2e-5 <= gap.min()  # the total is drawn by a few hundred tangents
        assert gap.max() <= reading.looseness + beside + 1e-9
        assert np.all(total.get_ydata() >= rates - 1e-12)
        assert [[0, 1], [0, 1]] == [list(ends) for ends in guess.get_data()]


def test_the_legend_names_what_is_drawn():
    _, tests = draw("vote").axes
    names = [text.get_text() for text in tests.get_legend().get_texts()]
    assert ["the total", "Gaussian mu 1.23204", "guessing"] == names
    names = draw("everything").axes[1].get_legend().get_texts()
    assert ["the total", "guessing"] == [text.get_text() for text in names]


def test_lines_differ_in_more_than_colour():
    total, mu, guess = draw("vote").axes[1].get_lines()
    assert ["-", "--", ":"] == [line.get_linestyle() for line in (total, mu, guess)]
    assert [PALETTE[TOTAL], PALETTE[MU]] == [
        to_hex(line.get_color()).upper() for line in (total, mu)
    ]
    light, dark = (np.dot([0.299, 0.587, 0.114], to_rgb(line.get_color())) for line in (total, mu))
    assert light > dark + 0.1
    assert rgb_to_hsv(to_rgb(guess.get_color()))[1] == 0


def test_the_caption_tells_the_mu_what_it_leaves_out_and_how_loose_it_is():
    assert (
        "mu 1.23204 dominates, but for a probability of 1e-6; looseness 21.4 %; "
        "advantage at most 46.22 %"
    ) == caption(draw("budget"))
    assert "mu 1.23204 dominates; looseness 21.4 %" in caption(draw("vote"))
    both = "but for a probability of 1e-9 and a total variation of 1e-20; "
    assert both in caption(draw("losses")).replace("1.00001e-9", "1e-9")
    assert "looseness 0 %" in caption(draw("gaussian"))
    assert "no mu dominates; advantage at most 100 %" == caption(draw("everything"))


@pytest.mark.parametrize("name", ["losses", "budget", "gaussian"])
def test_texts_do_not_overlap(name):
    figure = draw(name)
    figure.draw_without_rendering()
    renderer = FigureCanvasAgg(figure).get_renderer()
    texts = [figure._suptitle, figure._supxlabel]
    for axes in figure.axes:
        texts += [axes.title, axes.xaxis.label, axes.yaxis.label]
        last = axes.get_xlim()[1]
        texts += [text for text in axes.get_xticklabels() if text.get_position()[0] <= last]
    boxes = [text.get_window_extent(renderer) for text in texts]
    assert [] == [
        (one, other)
        for one in range(len(boxes))
        for other in range(one)
        if boxes[one].overlaps(boxes[other])
    ]
    tests = figure.axes[1]
    legend = tests.get_legend().get_window_extent(renderer)
    for line in tests.get_lines():
        inside = [legend.contains(*tests.transData.transform(point)) for point in line.get_xydata()]
        assert not any(inside)


def test_the_same_total_is_drawn_the_same(tmp_path):
    for number in (1, 2):
        draw("losses").savefig(tmp_path / f"{number}.png")
    assert (tmp_path / "1.png").read_bytes() == (tmp_path / "2.png").read_bytes()


def test_the_svg_is_well_formed_and_dollar_signs_are_text(tmp_path):
    plot_privacy(READINGS["budget"], "$_$ of clinic", MILLIONTH).savefig(tmp_path / "privacy.svg")
    assert ElementTree.parse(tmp_path / "privacy.svg").getroot().tag.endswith("}svg")


def test_it_takes_a_reading_a_title_and_a_delta():
    assert {"reading": "Reading", "title": "str", "delta": "Fraction"} == {
        name: given.annotation for name, given in signature(plot_privacy).parameters.items()
    }
