import doctest
import importlib
import pkgutil

import pytest

import accountant
import dppca_odp

MODULES = sorted(
    module.name
    for package in (accountant, dppca_odp)
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    if ".migrations." not in module.name  # only alembic can run those
)


@pytest.fixture(scope="module")
def results():
    return {name: doctest.testmod(importlib.import_module(name)) for name in MODULES}


def test_every_example_in_a_docstring_is_true(results):
    assert {} == {name: result.failed for name, result in results.items() if result.failed}


def test_there_are_examples(results):
    assert sum(result.attempted for result in results.values()) > 0


@pytest.mark.parametrize(
    "name",
    [
        "dppca_odp.directions",
        "dppca_odp.eigenvalues.clipped",
        "dppca_odp.eigenvalues.huber",
        "dppca_odp.eigenvalues.pmwm",
        "dppca_odp.primitives.columns",
        "dppca_odp.primitives.means",
        "dppca_odp.primitives.noise",
        "dppca_odp.primitives.pairs",
        "dppca_odp.primitives.quantiles",
        "dppca_odp.primitives.scales",
        "dppca_odp.primitives.stages",
        "dppca_odp.primitives.sums",
    ],
)
def test_a_constructor_shows_its_map_in_an_example(results, name):
    assert results[name].attempted > 0
