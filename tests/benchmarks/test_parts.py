"""What the figures of the benchmarks stand on: laws, marks, time limits, summaries."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest

ENDLESS = """
from one_fit import one_fit

class Model:
    def fit(self, table):
        while True:
            pass

one_fit(lambda table, settings: Model())
"""


@pytest.mark.parametrize(
    ("name", "within"),
    [
        ("Gaussian", 0.02),
        ("Student t4", 0.1),
        ("lognormal", 0.2),
        ("contaminated, all", 0.1),
        ("zero-inflated", 0.2),
    ],
)
def test_a_law_has_the_eigenvalues_that_it_states(name, within):
    from benchmarks.families import FAMILIES

    family = FAMILIES[name]
    columns = len(family.eigenvalues(5))
    table = family.table(400_000, columns, run=1)  # the same rows in every run of this test
    covariance = np.cov(table, rowvar=False)
    assert covariance.diagonal() == pytest.approx(family.eigenvalues(columns), rel=within)
    scales = np.sqrt(covariance.diagonal())
    correlation = covariance / np.outer(scales, scales)
    assert np.abs(correlation - np.eye(columns)).max() < 0.06


def test_a_table_comes_from_its_seed_alone():
    from benchmarks.families import FAMILIES

    first, again, other = (FAMILIES["lognormal"].table(50, 3, run) for run in (4, 4, 5))
    assert (first == again).all()
    assert not (first == other).any()


def test_clipped_means_over_the_ring_are_those_of_all_pairs_when_nothing_is_clipped():
    from benchmarks.hindsight import clipped_means

    table = np.random.default_rng(3).normal(size=(17, 2))  # degree 16: every pair, once
    means = clipped_means(table, np.array([1e9, 0.1]), np.random.default_rng(4))
    assert means[0] == pytest.approx(table.var(axis=0, ddof=1))
    assert (means[1] <= 0.1).all()
    assert (means[1] > 0).all()


def test_the_noise_in_hindsight_is_that_of_the_clipped_mean_of_a_plan():
    from benchmarks.contenders import plan_along
    from benchmarks.hindsight import noise_scales
    from dppca_odp import Clipped

    plan = plan_along(np.eye(3), Clipped(clipping_bound=50), epsilon="1", delta="1e-5")
    (stage,) = plan.stages(1000)
    (scale,) = noise_scales(np.array([50.0]), 1000, 3, epsilon="1", delta="1e-5")
    assert scale == pytest.approx(stage.noise_scale, rel=1e-6)


def test_constants_follow_the_largest_eigenvalue():
    from benchmarks.contenders import contender
    from benchmarks.families import Known

    for largest in (1.0, 10.0, 1.4e7):
        known = Known(largest)
        pmwm = contender("pmwm").method(known)
        grid = pmwm.grid
        reach = grid.lower + grid.unit * (grid.beta**grid.steps - 1)
        assert reach >= pmwm.upper_bound == 10 * largest
        assert contender("clipped").method(known).clipping_bound == 5 * largest
    assert contender("huber").method(Known(10)).highest_scale == 15
    assert contender("huber").method(Known(40)).highest_scale == 19


def test_a_peer_that_runs_on_is_stopped_and_one_that_breaks_is_quoted(tmp_path, monkeypatch):
    from benchmarks.environments import SCRIPTS, Library, PeerFailed

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(SCRIPTS)]))
    endless, broken = tmp_path / "endless.py", tmp_path / "broken.py"
    endless.write_text(ENDLESS)
    broken.write_text("raise ValueError('no such norm')")
    for script, said in ((endless, "no fit within 0.1 CPU seconds"), (broken, "no such norm")):
        library = Library("peer", ("pin",), str(script))
        library.python.parent.mkdir(parents=True, exist_ok=True)
        library.python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        library.python.chmod(0o755)
        library.installed.touch()
        with pytest.raises(PeerFailed, match=said):
            library.fit(np.ones((3, 2)), {}, limit=0.1)


def test_runs_go_in_turn_and_end_with_a_problem_or_the_time():
    from benchmarks.schedule import carry_out

    points = [SimpleNamespace(name=name, runs=runs) for name, runs in (("a", 50), ("b", 50))]

    def one_run(point, run):
        return {"problem": "broken"} if point.name == "b" else {"run": run}

    with ThreadPoolExecutor(1) as pool:
        whole, broken = carry_out(one_run, points, seconds=60, pool=pool)
        assert [result["run"] for result in whole] == list(range(50))
        assert 1 <= len(broken) < 50
        assert carry_out(one_run, points, seconds=0, pool=pool) == [[], []]


def test_a_root_mean_square_has_the_error_of_many_repetitions():
    from benchmarks.summary import root_mean_square

    rng = np.random.default_rng(5)
    squares = rng.exponential(4, size=(4000, 50))
    cells = [root_mean_square(row.tolist()) for row in squares]
    spread = np.std([cell["rmse"] for cell in cells])
    assert np.mean([cell["error"] for cell in cells]) == pytest.approx(spread, rel=0.1)
    assert root_mean_square([9.0]) == {"runs": 1, "rmse": 3.0, "error": None}


@pytest.mark.parametrize(
    ("value", "error", "written"),
    [
        (0.53124, 0.0234, "0.53 ± 0.02"),
        (0.53124, 0.0134, "0.531 ± 0.013"),
        (38512.3, 1234.0, "38,512 ± 1,234"),
        (2.2361, 1e-9, "2.236 ± <0.001"),
        (1.5, None, "1.50"),
        (5640.3, None, "5,640"),
        (0.0, None, "0"),
    ],
)
def test_figures_are_written_to_the_digits_of_their_error(value, error, written):
    from benchmarks.page.markdown import measured

    assert measured(value, error) == written


def test_the_least_is_marked_with_what_is_within_two_of_its_errors():
    from benchmarks.page.markdown import least

    cells = {
        "a": {"rmse": 1.0, "error": 0.1},
        "b": {"rmse": 1.15, "error": 0.0},
        "c": {"rmse": 1.3, "error": 9.0},
    }
    assert least(cells, "rmse") == {"a", "b"}
    assert least({}, "rmse") == set()


def test_an_exponent_is_that_of_a_power():
    from benchmarks.sweep import exponent

    assert exponent([10, 100, 1000], [2.0, 63.2455532, 2000.0]) == pytest.approx(1.5)
