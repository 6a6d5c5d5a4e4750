"""What public numbers say against a plan: in its preview, and before its charge."""

import warnings

import numpy as np
import pytest

from accountant import Accountant, Budget, BudgetExceeded, PrivacyUnit
from dppca_odp import PMWM, Clipped, Directions, Huber, Plan, PoorOutlook, Scores, Scree, advise

UNIT = PrivacyUnit(rows_per_person=2)
LARGE = 100_000
HUBER = Huber(lowest_scale=-5, highest_scale=5, scale_fraction="1/4")
FINE = Huber(lowest_scale=-1, highest_scale=0, scale_fraction="3/4")
PUBLIC = ((1.0,), (0.0,), (0.0,))


def plan(*releases, delta="1e-7", epsilon="1"):
    return Plan(
        budget=Budget.of(epsilon, delta), unit=UNIT, columns=("a", "b", "c"), releases=releases
    )


def along_a(method):
    return Scree(name="scree", directions=PUBLIC, method=method)


SMALL = plan(Directions(name="main", components=2), Scree(name="scree", directions="main"))


@pytest.fixture
def table():
    return np.random.default_rng(3).normal(size=(60, 3)) * [3, 2, 1]


@pytest.fixture
def accountant(tmp_path):
    return Accountant.grant(
        tmp_path / "ledger.db", data_set="clinic", budget=Budget.of("2", "1e-5"), unit=UNIT
    )


@pytest.mark.parametrize(
    ("method", "rows", "words"),
    [
        (Scree.model_fields["method"].default, 60, "scree: not likely to find the scale (chance"),
        (HUBER, 60, "scree: not likely to find the scale (chance"),
        (Clipped(clipping_bound=50), 20, "scree: noise (sd) of "),
        (PMWM(lower_bound=0, upper_bound=100), 200, "scree: noise (sd) of "),
    ],
)
def test_a_scree_that_will_be_noise_is_told_and_no_other(method, rows, words):
    (told,) = plan(along_a(method), epsilon="1/4").cautions(rows)
    assert told.startswith(words)
    found = FINE if method is HUBER else method
    assert () == plan(along_a(found)).cautions(LARGE)


@pytest.mark.parametrize(
    ("histogram", "words"),
    [
        ("additive", "the picture will likely be noise. Take fewer bins or groups"),
        ("sparse", "the picture will likely be empty. Take fewer bins or groups"),
    ],
)
def test_a_picture_of_which_the_cells_hold_too_few_rows_is_told(histogram, words):
    def told(rows, bins):
        directions = ((1.0, 0.0), (0.0, 1.0), (0.0, 0.0))
        scores = Scores(name="s", directions=directions, bins=(bins, bins), histogram=histogram)
        return plan(scores).cautions(rows)

    (line,) = told(1000, 20)
    assert line.startswith("s: ")
    assert words in line
    assert () == told(LARGE, 20) == told(1000, 2)


def test_noise_above_what_constants_suit_is_told_where_it_starts():
    asked = plan(along_a(Clipped(clipping_bound=50)))
    told = [rows for rows in range(4, 200, 2) if asked.cautions(rows)]
    (stage,) = asked.stages(told[-1])
    assert list(range(4, told[-1] + 1, 2)) == told
    assert stage.noise_scale >= 50 / 4 > asked.stages(told[-1] + 2)[0].noise_scale


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (30, "main: noise hides every direction, whatever the rows: "),
        (60, "main: noise hides every direction with less than "),
    ],
)
def test_directions_that_noise_hides_are_told(rows, words):
    asked = plan(Directions(name="main", components=1))
    assert asked.cautions(rows)[0].startswith(words)
    assert () == asked.cautions(LARGE)


@pytest.mark.parametrize(("delta", "told"), [("1.9e-6", False), ("2e-6", True), ("0.1", True)])
def test_a_delta_near_one_over_the_number_of_people_is_told(delta, told):
    words = "should be far below one over the number of people, 50000 at least: "
    asked = plan(Directions(name="main", components=1), delta=delta)
    assert [told] * told == [words in line for line in asked.cautions(LARGE)]
    assert told == (words in str(asked.preview(LARGE)).replace("\n", " "))
    advice = advise(Budget.of("1", delta), LARGE, 3, unit=UNIT)
    assert told == any(words in line for line in advice.sentences())
    assert not told or "Take 1e-7." in asked.cautions(LARGE)[0]


def test_a_preview_says_each_caution_once():
    shown = SMALL.preview(60)
    assert SMALL.cautions(60) == shown.cautions
    assert 1 == str(shown).count("not likely to find all 2 scales")
    assert 1 == str(shown).count("noise hides every direction")


def test_a_run_says_the_same_before_its_charge_in_the_line_that_asks(table, accountant):
    seen = []

    def show(message, category, filename, *rest):
        assert Budget.of(0, 0) == accountant.spent()
        seen.append((str(message), category, filename))

    with warnings.catch_warnings():
        warnings.simplefilter("always", PoorOutlook)
        warnings.showwarning = show
        SMALL.run(table, accountant)
        expected = [
            (f"before the charge: {line}", PoorOutlook, __file__) for line in SMALL.cautions(60)
        ]
        assert expected == seen
        assert Budget.of(1, "1e-7") == accountant.spent()
        SMALL.run(table, accountant)  # from the ledger: nothing is charged
    assert expected == seen


@pytest.mark.parametrize(
    ("budget", "told"),
    [
        (Budget.of("1", "1e-5"), True),
        (Budget.of("2", "1e-5"), False),  # the grant ends with it
        (Budget.of("1", "9e-6"), False),
        (Budget.of("2", "9e-6"), False),
    ],
)
def test_epsilon_that_will_be_left_without_delta_is_told(table, accountant, budget, told):
    asked = SMALL.model_copy(update={"budget": budget})
    with pytest.warns(PoorOutlook) as caught:
        asked.run(table, accountant)
    words = "it takes all delta that is left, so that epsilon 1 remains and cannot be spent"
    assert [words] * told == [words for warning in caught if words in str(warning.message)]


def test_what_is_said_is_the_same_for_every_table_of_the_shape(table, tmp_path):
    told = []
    for number, values in enumerate((table, np.zeros_like(table), table * 1e90)):
        address = tmp_path / f"{number}.db"
        handle = Accountant.grant(
            address, data_set="clinic", budget=Budget.of("2", "1e-5"), unit=UNIT
        )
        with pytest.warns(PoorOutlook) as caught:
            SMALL.run(values, handle)
        told.append([str(warning.message) for warning in caught])
    assert told[0] == told[1] == told[2]


def test_what_the_budget_refuses_is_refused_in_its_own_words_alone(table, accountant):
    with warnings.catch_warnings():
        warnings.simplefilter("error", PoorOutlook)
        with pytest.raises(BudgetExceeded):
            SMALL.model_copy(update={"budget": Budget.of("3", "1e-7")}).run(table, accountant)


def test_a_filter_that_makes_it_an_error_stops_the_run_uncharged(table, accountant):
    with warnings.catch_warnings():
        warnings.simplefilter("error", PoorOutlook)
        with pytest.raises(PoorOutlook):
            SMALL.run(table, accountant)
    assert Budget.of(0, 0) == accountant.spent()
