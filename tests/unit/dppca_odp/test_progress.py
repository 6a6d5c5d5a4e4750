import os
import threading

import numpy as np
import pytest

from accountant import Accountant, verify
from dppca_odp import (
    PMWM,
    Adaptive,
    Budget,
    Clipped,
    Directions,
    Huber,
    Plan,
    PrivacyUnit,
    Scores,
    Scree,
    SearchGrid,
)
from dppca_odp.primitives.blocks import BLOCK_ROWS, block_starts, heard_by
from dppca_odp.progress import Step, passes_of, steps_heard_by

ROWS = 2 * BLOCK_ROWS + 7
METHODS = (
    Adaptive(degree=4),
    Clipped(clipping_bound=9),
    PMWM(lower_bound=0, upper_bound=9, grid=SearchGrid(beta=1.1, steps=100)),
    Huber(lowest_scale=-5, highest_scale=5, scale_fraction="0.25"),
)
PLAN = Plan(
    budget=Budget.of("5", "1e-5"),
    unit=PrivacyUnit(rows_per_person=1),
    columns=("a", "b", "c"),
    releases=(
        Directions(name="directions", components=2, degree=4),
        *(Scree(name=m.kind, directions="directions", method=m) for m in METHODS),
        Scores(name="scores", directions="directions", histogram="sparse"),
    ),
)


def steps_on(table):
    steps = []
    with steps_heard_by(steps.append):
        PLAN.make(ROWS)(table)
    return steps


@pytest.fixture(scope="module")
def table():
    return np.random.default_rng(7).normal(size=(ROWS, 3)) * [3, 2, 1]


@pytest.fixture(scope="module")
def steps(table):
    return steps_on(table)


@pytest.fixture
def accountant(tmp_path):
    return Accountant.grant(
        tmp_path / "ledger.db", data_set="clinic", budget=PLAN.budget, unit=PLAN.unit
    )


def assert_paid_and_stored(accountant, release):
    kinds = [entry.kind for entry in accountant.entries()]
    assert kinds == ["grant", "table", "charge", "started", "release"]
    assert verify(accountant.entries()) == []
    assert accountant.spent() == PLAN.budget
    assert PLAN.stored(accountant).results == release.results


def test_directions_are_one_pass_whose_blocks_follow_from_the_rows(steps):
    expected = [Step("directions", 0, 0, 0), *(Step("directions", 1, done, 3) for done in range(4))]
    assert expected == [step for step in steps if step.release == "directions"]


def test_every_release_is_told_in_order_and_every_pass_from_its_begin_to_its_end(steps):
    assert list(PLAN.release_names) == list(dict.fromkeys(step.release for step in steps))
    for name in PLAN.release_names:
        told = [step[1:] for step in steps if step.release == name]
        blocks = {number: of for number, _, of in told}
        assert list(range(len(blocks))) == list(blocks)
        passes = range(1, len(blocks))
        assert told == [(0, 0, 0)] + [
            (number, done, blocks[number])
            for number in passes
            for done in range(blocks[number] + 1)
        ]


def test_rows_of_the_adaptive_method_are_passed_once_to_pair_and_five_times_to_look(steps):
    assert max(step.number for step in steps if step.release == "adaptive") == 6


@pytest.mark.parametrize(
    "change",
    [
        lambda table: np.vstack([table[:-1], [[1e300, -1e300, np.nan]]]),  # a neighbour
        lambda table: np.zeros_like(table),  # and one that shares no row
    ],
)
def test_other_tables_of_as_many_rows_make_the_same_steps(steps, table, change):
    assert steps == steps_on(change(table))


def test_a_listener_that_raises_is_told_no_more_and_the_release_is_stored(accountant, table):
    told = []

    def falls_silent(step):
        told.append(step)
        raise OSError("the terminal was closed")

    with steps_heard_by(falls_silent):
        release = PLAN.run(table, accountant)
    assert told == [Step("directions", 0, 0, 0)]
    assert_paid_and_stored(accountant, release)


def test_a_broken_pipe_stops_neither_the_release_nor_stdout(accountant, table, monkeypatch):
    monkeypatch.setattr("dppca_odp.progress.APPEARS_AFTER", 0)
    written = []

    class BrokenPipe:
        """A stderr nobody reads any more."""

        encoding = "utf-8"

        def write(self, text):
            written.append(text)
            raise BrokenPipeError

        def flush(self):
            raise BrokenPipeError

        def isatty(self):
            return True

    monkeypatch.setattr("sys.stderr", BrokenPipe())
    before = os.fstat(1)
    release = PLAN.run(table, accountant, progress=True)
    assert written
    assert os.path.samestat(before, os.fstat(1))
    assert_paid_and_stored(accountant, release)


def test_nobody_is_told_outside_the_block_or_in_another_thread():
    told = []
    with steps_heard_by(told.append), passes_of("here"):
        other = threading.Thread(target=lambda: list(block_starts(ROWS)))
        other.start()
        other.join()
    with passes_of("there"):
        list(block_starts(ROWS))
    assert told == [Step("here", 0, 0, 0)]


def test_blocks_begin_where_they_did_and_a_pass_that_is_left_is_not_done():
    heard = []
    with heard_by(lambda *counts: heard.append(counts)):
        assert list(block_starts(ROWS)) == [0, BLOCK_ROWS, 2 * BLOCK_ROWS]
        next(iter(block_starts(ROWS)))
    assert heard == [(0, 3), (1, 3), (2, 3), (3, 3), (0, 3)]
    assert list(block_starts(ROWS)) == [0, BLOCK_ROWS, 2 * BLOCK_ROWS]
    assert len(heard) == 5
