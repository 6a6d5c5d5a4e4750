"""Every picture of a release, by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from dppca_odp.plots.scores import plot_points, plot_scores
from dppca_odp.plots.scree import plot_scree
from dppca_odp.releases import Release

if TYPE_CHECKING:
    from dppca_odp.plots.display import Gallery, Picture


def pictures(release: Release) -> Iterator[tuple[str, Picture]]:
    """The scree if there are eigenvalues; for each scores release its histogram and points."""
    if release.screes:
        yield "scree", plot_scree(release)
    for scores in release.scores:
        yield scores.name, plot_scores(release, scores.name)
        yield f"{scores.name}-points", plot_points(release, scores.name)


def gallery(release: Release) -> Gallery:
    """Every picture, as a notebook shows them."""
    from dppca_odp.plots.display import Gallery

    return Gallery(picture for _, picture in pictures(release))


def save_pictures(
    release: Release, folder: str | Path, endings: Iterable[str] = ("png",)
) -> list[Path]:
    """Write every picture in every format; the paths. Folders that are missing are made."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    taken: set[str] = set()
    for name, picture in pictures(release):
        stem = _file_name(name, taken)
        taken.add(stem.casefold())
        for ending in endings:
            path = Path(folder) / f"{stem}.{ending}"
            picture.savefig(path)
            written.append(path)
    return written


def _file_name(name: str, taken: set[str]) -> str:
    """A name as a file's: letters, digits, dash and underscore, short, unlike those taken."""
    stem = "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in name)[:60]
    number = 1
    found = stem
    while found.casefold() in taken:
        number += 1
        found = f"{stem}-{number}"
    return found
