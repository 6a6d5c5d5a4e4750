"""diffprivlib's PCA; its warning that it reads something off the table is an error."""

import warnings
from typing import Any

import numpy as np
from diffprivlib.models import PCA
from diffprivlib.utils import PrivacyLeakWarning
from one_fit import one_fit

warnings.simplefilter("error", PrivacyLeakWarning)


def build(table: np.ndarray, settings: dict[str, Any]) -> Any:
    """The model, not fitted yet."""
    bound = settings["column_bound"]
    centre = {"centered": True} if bound is None else {"bounds": (-bound, bound)}
    return PCA(
        n_components=settings["components"],
        epsilon=settings["epsilon"],
        data_norm=settings["row_norm"],
        **centre,
    )


if __name__ == "__main__":
    one_fit(build)
