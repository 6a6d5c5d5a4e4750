"""OpenDP's PCA, at the epsilon for which its measurement's own map says ours."""

from typing import Any

import numpy as np
import opendp.prelude as dp
from one_fit import one_fit

dp.enable_features("contrib", "idealized-numerics", "honest-but-curious")

ONE_REPLACED_ROW = 2  # in OpenDP's symmetric distance: one row out, one row in


def build(table: np.ndarray, settings: dict[str, Any]) -> Any:
    """The model, not fitted yet."""

    def model(epsilon: float) -> Any:
        rows, columns = table.shape
        return dp.sklearn.decomposition.PCA(
            epsilon=epsilon,
            row_norm=settings["row_norm"],
            n_samples=rows,
            n_features=columns,
            n_components=settings["components"],
        )

    def charged(epsilon: float) -> float:
        cost: float = model(epsilon).measurement().map(ONE_REPLACED_ROW)
        return cost

    epsilon = settings["epsilon"] / charged(1.0)
    assert charged(epsilon) <= settings["epsilon"] * (1 + 1e-9), charged(epsilon)
    return model(epsilon)


if __name__ == "__main__":
    one_fit(build)
