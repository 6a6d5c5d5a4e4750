"""Tables as plain text, for print and for notebooks."""

from __future__ import annotations

from typing import Any

from rich.console import Console

WIDTH = 100


class OnPaper:
    """What has tables: printed, and shown by a notebook, as on a terminal without colours."""

    def __str__(self) -> str:
        console = Console(width=WIDTH, color_system=None, force_jupyter=False, markup=False)
        with console.capture() as captured:
            console.print(self)
        return captured.get()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))
