"""Tables that ship inside scikit-learn; runs in an environment that has it.

Usage: python tables.py NAME FILE.npy
"""

import sys

import numpy as np
import sklearn.datasets

if __name__ == "__main__":
    name, path = sys.argv[1:]
    np.save(path, getattr(sklearn.datasets, f"load_{name}")().data)
