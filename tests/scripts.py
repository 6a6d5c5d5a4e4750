"""Both scripts, called in this process or, once for each way to end, in one of their own."""

from __future__ import annotations

import gc
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from importlib import import_module
from io import StringIO
from pathlib import Path
from unittest.mock import patch


def call(module: str, place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`python -m MODULE ...` in this process, which has imported it; a traceback is raised."""
    main = import_module(f"{module}.__main__").main
    threshold, status = gc.get_threshold(), 0
    with (
        chdir(place),
        patch.object(sys, "argv", [module, *words]),
        redirect_stdout(StringIO()) as shown,
        redirect_stderr(StringIO()) as said,
    ):
        try:
            main()
        except SystemExit as ended:
            status = ended.code or 0
        finally:
            gc.unfreeze()  # a script freezes what it imported: it lives for seconds
            gc.set_threshold(*threshold)
    return subprocess.CompletedProcess(words, status, shown.getvalue(), said.getvalue())


def launch(module: str, place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The same in a process of its own, with warnings as errors."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", module, *words],
        cwd=place,
        capture_output=True,
        text=True,
        timeout=300,
    )
