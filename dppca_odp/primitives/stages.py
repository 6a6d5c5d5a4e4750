"""A measurement in stages: each may be chosen from the answers before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import opendp.prelude as dp
from opendp.mod import Domain, Measurement, Metric

from dppca_odp.spaces import approximate, to_then

Ask = Callable[[Measurement], Any]


def make_in_stages(
    input_domain: Domain,
    input_metric: Metric,
    *,
    d_in: int,
    losses: Sequence[tuple[float, float]],
    run: Callable[[Ask], Any],
) -> Measurement:
    """What ``run`` makes of the answers to the measurements it asks.

    ==================  ==================================================
    input domain        any
    input metric        any whose distances are integers
    output              that of ``run``
    output measure      approximate differential privacy
    privacy map         1..d_in -> the sum of ``losses``, rounded up; 0 -> (0, 0); beyond: error
    cost                that of the measurements
    ==================  ==================================================

    ``run`` gets a function that asks one measurement of the data, in the order of ``losses``; it
    never sees the data.

    Proof: OpenDP's adaptive composition, which refuses a measurement whose map at ``d_in`` exceeds
    its loss. What ``run`` does besides asking is post-processing.
    Source: sequential composition, Dwork and Roth (2014), Theorem 3.16.

    Raises:
        ValueError: no losses, or d_in below 1.

    >>> from dppca_odp.spaces import matrix_domain, rows_metric
    >>> m = make_in_stages(matrix_domain(9, 1), rows_metric(), d_in=2,
    ...     losses=[(0.5, 0.0), (0.25, 1e-6)], run=lambda ask: None)
    >>> m.map(2), m.map(0)
    ((0.75, 1e-06), (0.0, 0.0))
    """
    if d_in < 1 or not losses:
        raise ValueError(
            f"d_in must be at least 1, with at least one loss; got {d_in} and {len(losses)}. "
            "State a loss for each stage."
        )
    composition = dp.c.make_adaptive_composition(
        input_domain, input_metric, approximate(), d_in, list(losses)
    )
    return dp.m.make_user_measurement(
        input_domain,
        input_metric,
        approximate(),
        lambda data: run(composition(data)),
        lambda distance: composition.map(distance) if distance else (0.0, 0.0),
    )


then_in_stages: Any = to_then(make_in_stages)
