"""Tables as plain text, for print and for notebooks."""

from __future__ import annotations

from rich.console import Console, RenderableType

WIDTH = 100


def on_paper(thing: RenderableType) -> str:
    """What a terminal would show, without colours."""
    console = Console(width=WIDTH, color_system=None, force_jupyter=False, markup=False)
    with console.capture() as captured:
        console.print(thing)
    return captured.get()
