"""Texts of people in a record: the registry shows texts as Markdown with LaTeX."""

from __future__ import annotations

import re
from collections.abc import Sequence

from accountant.facts import one_line

_MARKUP = re.compile(
    r"[$\\]+"  # LaTeX
    r"|[<>]|&(?=#?\w+(?:;|$))"  # HTML
    r"|[*`~\[\]]|(?<![^\W_])_|_(?![^\W_])"  # emphasis, code, links; not the _ within a word
    r"|:(?=//)|(?<=(?i:www))\.|@"  # addresses, which become links of themselves
    r"|^[-+#]|^\d+[.)]"  # headings, lists
)
_HTML = {"<": "&lt;", ">": "&gt;", "&": "&amp;"}


def escaped(text: str) -> str:
    """Markdown that shows this text, on one line, and nothing else.

    Dollars and backslashes become code: LaTeX is looked for in the text that is shown, after the
    backslashes of Markdown are gone, but not in code. `<` becomes an entity, because names are put
    on the page as they are, too.
    """
    return _MARKUP.sub(_escape, one_line(text))


def _escape(found: re.Match[str]) -> str:
    mark = found[0]
    if mark[0] in "$\\":
        return f"`{mark}`"
    return _HTML.get(mark, f"{mark[:-1]}\\{mark[-1]}")


def each_escaped(texts: Sequence[str]) -> tuple[str, ...]:
    """Those that are not blank."""
    return tuple(shown for text in texts if (shown := escaped(text)))
