"""Environments of the peers' own, built once into a cache folder, and calls into them."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dppca_odp.values import Floats

SCRIPTS = Path(__file__).parent / "peers"
BUILD_SECONDS = 600
#: For a process to start and import, on a busy machine.
START_SECONDS = 60


class PeerFailed(Exception):
    """A peer did not install, stopped or took too long: in one line, as the page reports it."""


class OutOfTime(PeerFailed):
    """A process took longer than it was given."""


@dataclass(frozen=True)
class Library:
    """A library that needs an environment of its own, with its pins."""

    name: str
    pins: tuple[str, ...]
    script: str

    @property
    def folder(self) -> Path:
        """Where its environment is: another one for other pins."""
        mark = hashlib.sha256(" ".join((sys.version, *self.pins)).encode()).hexdigest()[:8]
        return cache() / f"{self.name}-{mark}"

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    @property
    def installed(self) -> Path:
        """The mark of a whole environment."""
        return self.folder / "installed"

    def install(self) -> None:
        """Build the environment, unless it is there and whole.

        Raises:
            PeerFailed: a pin cannot be had here, or it took too long.
        """
        if self.installed.exists():
            return
        own = [sys.executable, "-m"]
        create = [*own, "venv", "--clear", "--without-pip", str(self.folder)]
        _run(create, BUILD_SECONDS, "did not install")
        install = [*own, "pip", "--python", str(self.python), "install", "--quiet", *self.pins]
        _run(install, BUILD_SECONDS, "did not install")
        self.installed.touch()

    def fit(self, table: Floats, settings: dict[str, Any], limit: float) -> dict[str, Any]:
        """One fit in a process of its own, of at most so many processor seconds.

        Raises:
            PeerFailed: it is not installed, stopped, or took longer.
        """
        if not self.installed.exists():
            raise PeerFailed("not installed")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "table.npy"
            np.save(path, table)
            command = [str(self.python), str(SCRIPTS / self.script), str(path)]
            command.append(json.dumps(settings | {"limit": limit}))
            try:
                printed = _run(command, 10 * limit + START_SECONDS, "stopped")
            except OutOfTime:
                raise PeerFailed(f"no fit within {limit:g} CPU seconds") from None
        answer: dict[str, Any] = json.loads(printed)
        return answer


OPENDP = Library(
    "opendp",
    ("opendp==0.16.0", "scikit-learn==1.9.1", "numpy==2.4.6", "scipy==1.17.1", "randomgen==2.5.1"),
    "opendp_pca.py",
)
DIFFPRIVLIB = Library(
    "diffprivlib",
    ("diffprivlib==0.6.6", "scikit-learn==1.6.1", "numpy==2.4.6", "scipy==1.17.1"),
    "diffprivlib_pca.py",
)
LIBRARIES = (OPENDP, DIFFPRIVLIB)


def cache() -> Path:
    """The folder of environments and tables."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "dppca-odp-benchmarks"


def install_all() -> dict[str, dict[str, Any]]:
    """Build what is missing; the pins of each library, and why it could not be had."""
    found = {}
    for library in LIBRARIES:
        problem = None
        try:
            library.install()
        except PeerFailed as failure:
            problem = str(failure)
        found[library.name] = {"pins": list(library.pins), "problem": problem}
    return found


def _run(command: list[str], seconds: float, problem: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        raise OutOfTime(f"{problem}: not within {seconds:g} s") from None
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        raise OutOfTime(f"{problem}: no processor time left")
    if done.returncode:
        raise PeerFailed(f"{problem}: {_last_words(done.stderr)}")
    return done.stdout


def _last_words(printed: str) -> str:
    lines = [line for line in printed.splitlines() if line.strip() and "WARNING" not in line]
    last = lines[-1] if lines else "without a word"
    return last.replace(str(Path.home()), "~")[:200]
