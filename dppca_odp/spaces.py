"""The OpenDP domains, metrics and measures in use.

This is the one place that turns on OpenDP's feature switches, which are global to the process:
``contrib`` (constructors without a finished vetting) and ``honest-but-curious`` (Python
callbacks, whose stability or privacy maps are our claims, proved beside each constructor).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import opendp.prelude as dp
from opendp.extras._utilities import to_then as _to_then  # OpenDP shows it nowhere else
from opendp.extras.numpy import array2_domain
from opendp.mod import Domain, Measure, Measurement, Metric

dp.enable_features("contrib", "honest-but-curious")


def matrix_domain(rows: int, columns: int) -> Domain:
    """All float matrices of a public shape.

    OpenDP does not check members before a Python callback sees them: kernels must answer for
    every float, NaN and infinities included.
    """
    return array2_domain(size=rows, num_columns=columns, T=float, nan=False)


def integers_domain(size: int) -> Domain:
    """All vectors of ``size`` 64-bit integers."""
    return dp.vector_domain(dp.atom_domain(T=dp.i64), size=size)


def rows_metric() -> Metric:
    """How many rows differ, position by position."""
    return dp.hamming_distance()


def integers_metric() -> Metric:
    """Euclidean distance between integer vectors."""
    return dp.l2_distance(T=dp.f64)


def pure() -> Measure:
    """Pure differential privacy, epsilon."""
    return dp.max_divergence()


def gaussian_privacy() -> Measure:
    """Gaussian differential privacy, up to a leak (``GaussianLoss``).

    Its distance is (mu, leak), both exact fractions: every answer's law lies within ``leak``, in
    total variation, of that of a mu-GDP one. OpenDP has no such measure, so this one is ours.
    """
    return dp.user_divergence("gaussian differential privacy")


def approximate() -> Measure:
    """Approximate differential privacy, (epsilon, delta): the currency of every release."""
    return dp.approximate(dp.max_divergence())


def is_measured_in(measurement: Measurement, measure: Measure) -> bool:
    """Whether this is its output measure, by name too: OpenDP takes all of ours for one."""
    found = measurement.output_measure
    return bool(found == measure) and str(found) == str(measure)


def matrix_shape(input_domain: Domain, input_metric: Metric) -> tuple[int, int]:
    """Check that the space is matrices under the row metric; its public shape.

    Raises:
        ValueError: another domain or metric, or a shape that is not public.
    """
    shape: Any = getattr(input_domain, "descriptor", None)
    if not hasattr(shape, "num_columns"):
        raise ValueError(
            f"input_domain must be a matrix domain; got {input_domain}. Use matrix_domain."
        )
    if shape.size is None or shape.num_columns is None:
        raise ValueError(
            f"input_domain must fix size and num_columns; got {input_domain}. Use matrix_domain."
        )
    if input_metric != rows_metric():
        raise ValueError(
            f"input_metric must be hamming_distance(); got {input_metric}. Use rows_metric()."
        )
    return int(shape.size), int(shape.num_columns)


def to_then(constructor: Callable[..., Any]) -> Callable[..., Any]:
    """The ``then_`` form of a ``make_`` constructor: domain and metric come from the left."""
    return _to_then(constructor)
