"""One fit of a peer's model, in the peer's own environment; needs NumPy alone besides.

Usage of the scripts beside it: python SCRIPT TABLE.npy SETTINGS.json; they print JSON. A fit that
takes more processor seconds than the settings allow ends the process with SIGXCPU.
"""

import json
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np


def one_fit(build: Callable[[np.ndarray, dict[str, Any]], Any]) -> None:
    """Build the model for the table and its settings, fit it, print what it found."""
    table = np.load(sys.argv[1])
    settings = json.loads(sys.argv[2])
    model = build(table, settings)
    start = time.process_time()
    most = int(start + settings["limit"]) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (most, most + 1))
    model.fit(table)
    answer = {
        "values": model.explained_variance_.tolist(),
        "leading": model.components_[0].tolist(),
        "seconds": time.process_time() - start,
    }
    print(json.dumps(answer))
