"""How both scripts end: a mistake in usage is one line on stderr and exit status 2."""

from __future__ import annotations

import gc
import sys
from typing import Any, NoReturn

import typer

#: What typer raises for wrong usage; it shows no name for it, whichever click it stands on.
_UsageError: Any = typer.BadParameter.__bases__[0]

INTERRUPTED = 130


def run_script(app: typer.Typer, name: str) -> NoReturn:
    """Run a script to its exit status. Without words it shows its help."""
    gc.freeze()  # a script lives for seconds: what it imported stays, and it makes little garbage
    gc.set_threshold(50_000)
    if len(sys.argv) == 1:
        app(prog_name=name)
    try:
        status = app(prog_name=name, standalone_mode=False)
    except _UsageError as error:
        where = error.ctx.command_path if error.ctx else name
        leave(name, 2, f"{error.format_message().rstrip('.')}. Try '{where} --help'.")
    except OSError as error:
        leave(name, 1, f"the output could not be written: {error.strerror or error}.")
    except typer.Abort:
        leave(name, INTERRUPTED, "interrupted.")
    sys.exit(status or 0)


def leave(name: str, status: int, message: str) -> NoReturn:
    """One line on stderr, and the exit status."""
    typer.echo(f"{name}: {' '.join(message.split())}", err=True)
    sys.exit(status)
