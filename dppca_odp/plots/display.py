"""How pictures show themselves in a notebook, without any magic command."""

from __future__ import annotations

import base64
import io

from matplotlib.figure import Figure


class Picture(Figure):
    """A figure that a notebook shows when it is the value of a cell."""

    def _repr_png_(self) -> bytes:
        paper = io.BytesIO()
        self.savefig(paper, format="png")
        return paper.getvalue()


class Gallery(tuple[Picture, ...]):
    """Several pictures, shown one below the other."""

    def _repr_html_(self) -> str:
        shown = (base64.b64encode(picture._repr_png_()).decode() for picture in self)
        return "\n".join(
            f'<img alt="a picture of this release" src="data:image/png;base64,{text}">'
            for text in shown
        )
