import sys
from pathlib import Path

# The benchmarks are no part of what is installed: they run from the root of the repository.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
