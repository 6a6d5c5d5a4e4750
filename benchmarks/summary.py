"""Many squared errors in three numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

#: A part of the results, as JSON holds it.
Record = dict[str, Any]


def root_mean_square(squares: Sequence[float]) -> dict[str, float | int | None]:
    """Their root mean, its Monte Carlo error (by the delta method), and how many they are."""
    mean = float(np.mean(squares))
    spread = float(np.std(squares, ddof=1)) if len(squares) > 1 else None
    root = mean**0.5
    error = None if spread is None or not root else spread / len(squares) ** 0.5 / (2 * root)
    return {"runs": len(squares), "rmse": short(root), "error": short(error)}


def mean(values: Sequence[float]) -> dict[str, float | None]:
    """Their mean and its Monte Carlo error."""
    spread = float(np.std(values, ddof=1)) / len(values) ** 0.5 if len(values) > 1 else None
    return {"mean": short(float(np.mean(values))), "error": short(spread)}


def short(value: float | None) -> float | None:
    """To five digits, for a file that people read."""
    return None if value is None else float(f"{value:.5g}")
