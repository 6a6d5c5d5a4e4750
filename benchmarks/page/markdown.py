"""Tables and figures as the page writes them."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; a cell that repeats the one above it at the front of a row is left empty."""
    lines = [_line(head), _line(["---"] * len(head))]
    above: Sequence[str] = ()
    for row in rows:
        first = "" if above and row[0] == above[0] else row[0]
        lines.append(_line([first, *row[1:]]))
        above = row
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def measured(value: float, error: float | None) -> str:
    """A value with its Monte Carlo error, to the digits that the error leaves, four at most."""
    if not error or not value:
        return number(value)
    decimals = -math.floor(math.log10(error)) + (f"{error:e}"[0] == "1")
    decimals = max(0, min(decimals, 3 - math.floor(math.log10(abs(value)))))
    unit = 10.0**-decimals
    spread = f"{error:,.{decimals}f}" if error >= unit / 2 else f"<{unit:.{decimals}f}"
    return f"{value:,.{decimals}f} ± {spread}"


def number(value: float, digits: int = 3) -> str:
    """So many digits, and never an exponent."""
    if not value:
        return "0"
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    return f"{round(value, decimals):,.{max(0, decimals)}f}"


def listed(words: Sequence[str]) -> str:
    """As a sentence lists them."""
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def paragraph(text: str) -> str:
    """Lines of a readable length."""
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)


def least(cells: Mapping[str, Mapping[str, Any]], key: str) -> set[str]:
    """The name with the least value, and those within two of its Monte Carlo errors."""
    if not cells:
        return set()
    best = min(cells.values(), key=lambda cell: cell[key])
    reach = best[key] + 2 * (best["error"] or 0)
    return {name for name, cell in cells.items() if cell[key] <= reach}


def bold(text: str, *, where: bool) -> str:
    """A text that is bold where that holds."""
    return f"**{text}**" if where else text


def plain(text: str) -> str:
    """A message inside a table."""
    return text.replace("|", "/").replace("\n", " ")
