"""The pictures of the page, from results alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.summary import Record
from benchmarks.sweep import line_of
from dppca_odp.plots.style import GREY, MARKERS, PALETTE, new_figure, open_sides

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dppca_odp.plots.display import Picture

EPSILON = "1"
#: Less above an empty run, in seconds or MiB, is not told from nothing.
LEAST_DRAWN = 1e-3
NAMES = {"hindsight": "clipped, best constant in hindsight", "none": "no privacy"}


def save_pictures(results: Record, folder: Path) -> None:
    """One file for each picture that the page shows."""
    for draw in (accuracy, whole, speed):
        path = folder / f"benchmarks-{draw.__name__}.png"
        draw(results).savefig(path, metadata={"Software": None})


def looks(results: Record) -> dict[str, Record]:
    """How each name is drawn: methods in the first colours of the palette, peers in the last."""
    found: dict[str, Record] = {
        "hindsight": {"color": "black", "linestyle": ":"},
        "none": {"color": GREY, "linestyle": "--"},
        "directions": {"color": "black", "marker": "x", "linestyle": "-"},
    }
    for number, method in enumerate(results["methods"]):  # four colours, then hollow markers
        found[method["name"]] = _look(number % 4, "-", "full" if number < 4 else "none")
    for number, peer in enumerate(results["peers"]):  # two told differently for each library
        told = number % 2
        found[peer["name"]] = _look(-1 - number // 2, ("--", ":")[told], ("full", "none")[told])
    return found


def _look(place: int, linestyle: str, fillstyle: str) -> Record:
    return {
        "color": PALETTE[place],
        "marker": MARKERS[place],
        "linestyle": linestyle,
        "fillstyle": fillstyle,
    }


def accuracy(results: Record) -> Picture:
    """Error against rows for each law, and against the number of components."""
    figure = new_figure(
        12, 6.4, f"Error of the eigenvalues at epsilon {EPSILON}", "bars: two Monte Carlo errors"
    )
    panels = figure.subplots(2, 4).ravel()
    for axes, family in zip(panels, results["families"], strict=False):
        standard = len(family["eigenvalues"])
        these = [r for r in of_law(results, family["name"]) if r["components"] == standard]
        _errors(axes, results, these, "rows")
        label = "relative total error" if family["relative"] else "total error"
        axes.set(xlabel="rows", ylabel=label)
        axes.set_title(f"{family['name']}, {standard} components", fontsize=9)
    by_components = [r for r in of_law(results, "Gaussian") if r["rows"] == 10_000]
    _errors(panels[6], results, by_components, "components")
    panels[6].set(xlabel="components", ylabel="total error")
    panels[6].set_title("Gaussian, 10,000 rows", fontsize=9)
    _legend_alone(panels[7], panels[0])
    return figure


def of_law(results: Record, family: str) -> list[Record]:
    """Its records at the epsilon of the pictures."""
    wanted = family, EPSILON
    return [r for r in results["accuracy"] if (r["family"], r["epsilon"]) == wanted]


def _errors(axes: Axes, results: Record, records: list[Record], along: str) -> None:
    records = sorted(records, key=lambda record: record[along])
    for name in ("none", "hindsight", *(method["name"] for method in results["methods"])):
        points = [(record[along], record["cells"][name]) for record in records]
        _line(axes, points, "rmse", NAMES.get(name, name), looks(results)[name])
    _logarithmic(axes, {record[along] for record in records})
    open_sides(axes)


def _line(
    axes: Axes, points: list[tuple[float, Record]], key: str, label: str, look: Record
) -> None:
    axes.errorbar(
        [place for place, _ in points],
        [cell[key] for _, cell in points],
        yerr=[_bar(cell[key], cell["error"]) for _, cell in points] or None,
        markersize=5,
        linewidth=1.2,
        elinewidth=1,
        capsize=2,
        label=label,
        **look,
    )


def _bar(value: float, error: float | None) -> float:
    """Two Monte Carlo errors, cut so that a logarithm can show them."""
    return min(2 * (error or 0), 0.95 * value)


def whole(results: Record) -> Picture:
    """Errors of whole releases on Gaussian rows: eigenvalues, and the leading direction."""
    figure = new_figure(
        10,
        4.2,
        f"Private directions and eigenvalues together: Gaussian, 5 columns, epsilon {EPSILON}",
        "bars: two Monte Carlo errors; the peers' epsilon is pure, ours has delta 1e-5",
    )
    panels = figure.subplots(1, 3, width_ratios=(3, 3, 2))
    wanted = "Gaussian", 5
    these = [r for r in results["whole"] if (r["source"], r["columns"]) == wanted and r["done"]]
    these.sort(key=lambda record: record["rows"])
    names = [each["name"] for each in results["methods"] + results["peers"]]
    for number, name in enumerate(names):
        own = [record for record in these if record["competitor"] == name]
        aside = 1.04 ** (number - len(names) / 2)  # so that points do not hide each other
        for axes, cell, key in ((panels[0], "eigenvalues", "rmse"), (panels[1], "sine", "mean")):
            points = [(record["rows"] * aside, record[cell]) for record in own]
            _line(axes, points, key, name, looks(results)[name])
    titles = "total error of the eigenvalues", "sine of the angle of the leading direction"
    for axes, title in zip(panels, titles, strict=False):
        axes.set(xlabel="rows")
        _logarithmic(axes, {record["rows"] for record in these})
        axes.set_title(title, fontsize=9)
        open_sides(axes)
    _legend_alone(panels[2], panels[0])
    return figure


def speed(results: Record) -> Picture:
    """Seconds against rows, columns and components, and memory against rows."""
    figure = new_figure(
        12,
        3.8,
        "Time and memory of one release, charged to a ledger",
        "each run a process of its own; memory above an empty run, the table included",
    )
    measured = results["speed"]
    panels = figure.subplots(1, 4)
    for axes, along, unit in zip(
        panels,
        ("rows", "columns", "components", "rows"),
        ("seconds", "seconds", "seconds", "mebibytes"),
        strict=True,
    ):
        for name in ["directions", *(method["name"] for method in results["methods"])]:
            line = [r for r in line_of(measured, along, name) if r[unit] >= LEAST_DRAWN]
            heights = [record[unit] for record in line]
            look = looks(results)[name]
            axes.plot([r[along] for r in line], heights, markersize=5, label=name, **look)
        middle = {each: measured["middle"][each] for each in ("rows", "columns", "components")}
        others = [f"{number:,} {each}" for each, number in middle.items() if each != along]
        axes.set(xlabel=along, ylabel=unit)
        _logarithmic(axes, {record[along] for record in measured["records"]})
        axes.set_title(", ".join(others), fontsize=9)
        open_sides(axes)
    handles = panels[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside right center", frameon=False, fontsize=8)
    return figure


def _logarithmic(axes: Axes, places: set[int]) -> None:
    """Logarithmic axes with plain numbers: the sizes that were measured; 1, 2, 5 and so on."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    if axes.dataLim.height < 0:  # nothing was drawn
        axes.set_ylim(1, 10)
    axes.set(xscale="log", yscale="log")
    axes.set_xticks(sorted(places), [_in_short(place) for place in sorted(places)])
    axes.set_xlim(min(places, default=1) / 1.5, max(places, default=1) * 1.5)
    low, high = axes.get_ylim()
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 100 * low else (1,)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda height, _: f"{height:,.10g}"))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())


def _in_short(size: int) -> str:
    """1k and 1M, so that the sizes of an axis stand beside each other."""
    for unit, letter in ((1_000_000, "M"), (1_000, "k")):
        if size >= unit and not size % unit:
            return f"{size // unit}{letter}"
    return f"{size}"


def _legend_alone(axes: Axes, of: Axes) -> None:
    axes.set_axis_off()
    axes.legend(*of.get_legend_handles_labels(), loc="center", frameon=False, fontsize=8)
