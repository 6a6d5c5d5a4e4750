"""Accuracy and speed, measured: `python -m benchmarks` writes `docs/benchmarks.md`."""
