"""After the noise: functions of released numbers alone, which cost nothing.

Source: eigenvalues document, section 5.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dppca_odp.values import Floats


def nonnegative(values: npt.ArrayLike) -> Floats:
    """Negative estimates of a variance become 0."""
    return np.maximum(np.asarray(values, dtype=np.float64), 0.0)


def nonincreasing(values: npt.ArrayLike) -> Floats:
    """The nearest nonincreasing sequence, in least squares."""
    from scipy.optimize import isotonic_regression  # half a second, for one option of a plan

    return np.asarray(isotonic_regression(np.asarray(values, dtype=np.float64), increasing=False).x)


def proportions_of_variance(values: npt.ArrayLike) -> Floats:
    """Shares among the reported values; all 0 when their sum is 0."""
    array = np.asarray(values, dtype=np.float64)
    total = array.sum()
    return array / total if total > 0 else np.zeros_like(array)
