"""Measure accuracy and speed, and write `docs/benchmarks.md`.

Usage: python -m benchmarks [--quick] [--minutes M | --hours H] [--redraw] [--out FOLDER]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks import accuracy, attempts, sweep
from benchmarks.attempts import PEERS
from benchmarks.contenders import CONTENDERS
from benchmarks.environments import install_all
from benchmarks.families import FAMILIES
from benchmarks.page import page
from benchmarks.pictures import save_pictures
from benchmarks.schedule import CORES, all_cores
from benchmarks.scopes import FULL, QUICK, SHARES, Scope
from benchmarks.sources import REAL_TABLES

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    """Measure unless only asked to draw, then draw."""
    options = arguments()
    page_at, results_at = options.out / "docs", options.out / "benchmarks" / "results.json"
    if not options.redraw:
        scope = QUICK if options.quick else FULL
        minutes = options.hours * 60 if options.hours else options.minutes or scope.minutes
        results_at.parent.mkdir(parents=True, exist_ok=True)
        results = measure(replace(scope, minutes=minutes))
        results_at.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    draw(results_at, page_at)


def measure(scope: Scope) -> dict[str, Any]:
    """All sections in turn, each within its part of the time that is left."""
    print("environments of the peers")
    libraries = install_all()
    start = time.monotonic()

    def left(section: str) -> float:
        seconds = 60 * scope.minutes - (time.monotonic() - start)
        print(f"{section}: {seconds / 60:.1f} minutes left", flush=True)
        return max(0.0, seconds * SHARES[section])

    speed = sweep.measure(scope.sweep, seconds=left("speed"))
    with all_cores() as pool:
        whole = attempts.measure(scope.whole, seconds=left("whole"), pool=pool)
        real = attempts.measure(scope.real, seconds=left("real"), pool=pool)
        errors = accuracy.measure(scope.points, seconds=left("accuracy"), pool=pool)
    minutes = round((time.monotonic() - start) / 60, 1)
    print(f"done after {minutes} minutes")
    return {
        "form": scope.form,
        "minutes": minutes,
        "machine": machine(),
        "libraries": libraries,
        **words(),
        "accuracy": errors,
        "whole": whole,
        "real": real,
        "speed": speed,
    }


def words() -> dict[str, Any]:
    """What the page says of those who compete and of where, so that it is drawn from results."""
    return {
        "methods": [{"name": each.name, "needs": each.needs} for each in CONTENDERS],
        "peers": [{"name": each.name, "needs": each.needs} for each in PEERS],
        "families": [
            {
                "name": each.name,
                "says": each.says,
                "eigenvalues": each.eigenvalues(5).tolist(),
                "relative": each.relative,
                "delta": each.delta,
            }
            for each in FAMILIES.values()
        ],
        "tables": [each.facts() for each in REAL_TABLES.values()],
    }


def draw(results_at: Path, page_at: Path) -> None:
    """The page and its pictures, from results alone."""
    results = json.loads(results_at.read_text(encoding="utf-8"))
    pictures = page_at / "images"
    pictures.mkdir(parents=True, exist_ok=True)
    save_pictures(results, pictures)
    (page_at / "benchmarks.md").write_text(page(results), encoding="utf-8")


def machine() -> dict[str, Any]:
    """What the figures were measured with."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "cores": CORES,
        "gibibytes": round(memory),
        "architecture": platform.machine(),
        "versions": {
            "Python": platform.python_version(),
            **{name: version(name) for name in ("dppca-odp", "opendp", "numpy")},
        },
    }


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few runs, under three minutes")
    parser.add_argument("--minutes", type=float, help="nothing begins after so many")
    parser.add_argument("--hours", type=float, help="the same in hours")
    parser.add_argument("--redraw", action="store_true", help="draw the results that are there")
    parser.add_argument(
        "--out", type=Path, default=ROOT, help="where docs/ and benchmarks/ are written"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
