"""What an analyst should know about a released eigenvalue."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple


class Flag(StrEnum):
    """Something to know about a component, drawn from released numbers."""

    NOT_FOUND = "not found"
    UNCLEAR = "unclear scale"
    RARE_LARGE_VALUES = "rare large values"
    HEAVY_TAIL = "heavy tail"
    MIXED = "mixed"
    SATURATED = "saturated"
    AT_ZERO = "at zero"


def about(components: Sequence[int], columns: Sequence[str] = ()) -> str:
    """These components, counted from 1; along the axes they are the columns of these names."""
    kind = "column" if columns else "component"
    names = [columns[number - 1] if columns else str(number) for number in components]
    return f"{kind}{'s' if len(names) > 1 else ''} {', '.join(names)}"


class Note(NamedTuple):
    """A sentence of a release, and the components it is about, counted from 1; none: all."""

    text: str
    components: tuple[int, ...] = ()

    @classmethod
    def of(cls, where: Iterable[bool], text: str) -> Note:
        """About the components where this is so."""
        return cls(text, tuple(number for number, told in enumerate(where, start=1) if told))

    def told(self, columns: Sequence[str] = ()) -> str:
        """With its components; along the axes with columns of these names."""
        return f"{about(self.components, columns)}: {self.text}" if self.components else self.text


OF_THE_BULK = Note(
    "robust: the values are scales of the bulk of the rows, equal to variances "
    "for Gaussian columns."
)

MEANINGS = {
    Flag.NOT_FOUND: "no scale was found, and 0 stands for its variance: the budget is too small "
    "for so few rows, or the rows hardly differ.",
    Flag.UNCLEAR: "its scale is not clear by itself and was sought near those of the others: its "
    "variance may be wrong by any factor.",
    Flag.RARE_LARGE_VALUES: "rare large values are most of its variance, which is likely higher "
    "than this: what lies beyond the cutoff is not in the noise.",
    Flag.HEAVY_TAIL: "in one of them at least, values far beyond those of a Gaussian column have "
    "weight: variances may be higher than this.",
    Flag.MIXED: "fewer than half of the pairs look like a Gaussian column of one scale, as with "
    "many equal values or groups far apart: its variance may be higher than this.",
    Flag.SATURATED: "most of it lies at the cutoff: its variance is likely higher than this.",
    Flag.AT_ZERO: "it cannot be told from 0 at this noise.",
}


def sentences(flags: Sequence[Sequence[Flag]]) -> Iterator[Note]:
    """Each flag that is raised, with the components it is about."""
    for flag, meaning in MEANINGS.items():
        note = Note.of((flag in raised for raised in flags), f"{flag}: {meaning}")
        if note.components:
            yield note
