"""Run a script in this process, which is fast, or in one of its own, as people do."""

from __future__ import annotations

import gc
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from importlib import import_module
from io import StringIO
from pathlib import Path
from unittest.mock import patch

import pytest

Done = subprocess.CompletedProcess[str]
HERE = Path()


def call(module: str, place: Path, *words: object) -> Done:
    """`python -m MODULE ...` in this process, which has imported it; a traceback is raised."""
    main = import_module(f"{module}.__main__").main
    threshold, told = gc.get_threshold(), [*map(str, words)]
    with (
        chdir(place),
        patch.object(sys, "argv", [module, *told]),
        redirect_stdout(StringIO()) as shown,
        redirect_stderr(StringIO()) as said,
    ):
        try:
            with pytest.raises(SystemExit) as ended:
                main()
        finally:
            gc.unfreeze()  # a script freezes what it imported: it lives for seconds
            gc.set_threshold(*threshold)
    assert isinstance(ended.value.code, int)
    return Done(told, ended.value.code, shown.getvalue(), said.getvalue())


def launch(module: str, place: Path, *words: object, timeout: int = 300) -> Done:
    """The same in a process of its own, with warnings as errors."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", module, *map(str, words)],
        cwd=place,
        capture_output=True,
        text=True,
        timeout=timeout,
    )
