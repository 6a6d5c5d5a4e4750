"""Advice holds: at the sizes that it tells, scales are found; just below, it has no plan."""

from __future__ import annotations

import numpy as np
import pytest

from accountant import Budget
from dppca_odp.advice import advise, guessed_spectrum
from dppca_odp.flags import Flag


@pytest.mark.parametrize(("components", "columns", "runs"), [(1, 2, 40), (3, 5, 40)])
def test_at_the_least_number_of_rows_scales_are_found(components, columns, runs):
    """The chance is 0.99: of 40 runs more than 9 fail once in 10^12."""
    budget = Budget.of("1", "1e-6")
    rows = advise(budget, 100, columns, components=components).least_rows
    assert not advise(budget, rows - 1, columns, components=components).plan
    measurement = advise(budget, rows, columns, components=components).plan.make(rows)
    generator = np.random.default_rng()
    found = 0
    for _ in range(runs):
        table = generator.normal(size=(rows, columns)) * np.sqrt(7 * guessed_spectrum(columns))
        flags = measurement(table)["scree"].flags
        found += not any(Flag.NOT_FOUND in raised for raised in flags)
    assert found >= runs - 9
