"""Errors along the true directions, as the page shows them."""

from __future__ import annotations

from benchmarks.page.markdown import bold, least, listed, measured, number, paragraph, table
from benchmarks.summary import Record


def by_law(results: Record) -> str:
    """A table and what it says, for each law."""
    laws = "\n".join(_law(results, family) for family in results["families"])
    return f"""## Accuracy along the true directions

![Error of the eigenvalues against rows, by law](images/benchmarks-accuracy.png)

{laws}"""


def _law(results: Record, family: Record) -> str:
    records = [
        record
        for record in results["accuracy"]
        if record["family"] == family["name"] and record["components"] == len(family["eigenvalues"])
    ]
    truth = ", ".join(
        f"{value:,.0f}" if value >= 1000 else f"{value:g}" for value in family["eigenvalues"]
    )
    kind = "Relative total error" if family["relative"] else "Total error"
    said = f"{family['says']}. Eigenvalues {truth}; delta {family['delta']}. {kind}."
    return f"""### {family["name"][0].upper()}{family["name"][1:]}

{paragraph(said)}

{_errors(results, records, ("rows", "epsilon"))}
{_least(results, [record for record in records if record["epsilon"] == "1"])}
"""


def by_components(results: Record) -> str:
    """The same for numbers of components."""
    wanted = "Gaussian", 10_000, "1"
    records = [
        record
        for record in results["accuracy"]
        if (record["family"], record["rows"], record["epsilon"]) == wanted
    ]
    records.sort(key=lambda record: record["components"])
    return f"""## Accuracy by the number of components

10,000 Gaussian rows, epsilon 1, delta 1e-5; the eigenvalues fall from 10 to 1. Total error.

{_errors(results, records, ("components",))}"""


def _errors(results: Record, records: list[Record], keys: tuple[str, ...]) -> str:
    methods = [each["name"] for each in results["methods"]]
    head = [*keys, "runs", "no privacy", *(f"`{name}`" for name in methods), "best constant (C)"]
    return table(head, [_row(record, keys, methods) for record in records])


def _row(record: Record, keys: tuple[str, ...], methods: list[str]) -> list[str]:
    cells = record["cells"]
    best = least({name: cells[name] for name in methods}, "rmse")
    own = []
    for name in methods:
        warned = cells[name]["warned"]
        text = bold(_error(cells[name]), where=name in best)
        own.append(text + f" ({100 * warned:.0f} %)" * bool(warned))
    constant = number(cells["hindsight"]["constant"])
    return [
        *(record[key] if key == "epsilon" else f"{record[key]:,}" for key in keys),
        str(cells["none"]["runs"]),
        _error(cells["none"]),
        *own,
        f"{_error(cells['hindsight'])} ({constant})",
    ]


def _error(cell: Record) -> str:
    return measured(cell["rmse"], cell["error"])


def _least(results: Record, records: list[Record]) -> str:
    """Which of our methods has the least error at each number of rows, and by what."""
    where: dict[str, list[str]] = {}
    times: dict[str, list[str]] = {"none": [], "hindsight": []}
    for record in records:
        cells = record["cells"]
        best = min((m["name"] for m in results["methods"]), key=lambda name: cells[name]["rmse"])
        where.setdefault(best, []).append(f"{record['rows']:,}")
        for mark, ratios in times.items():
            ratios.append(number(cells[best]["rmse"] / cells[mark]["rmse"], digits=2))
    if not where:
        return ""
    who = listed([f"`{name}` at {listed(rows)} rows" for name, rows in where.items()])
    return paragraph(
        f"At epsilon 1 the least error is that of {who}. From fewest rows to most it is "
        f"{listed(times['none'])} times that of no privacy, and {listed(times['hindsight'])} times "
        "that of the best constant."
    )
