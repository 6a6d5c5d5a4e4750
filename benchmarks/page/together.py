"""Directions and eigenvalues released together, as the page shows them."""

from __future__ import annotations

from benchmarks.page.markdown import bold, least, listed, measured, number, paragraph, plain, table
from benchmarks.summary import Record


def on_laws(results: Record) -> str:
    """Our whole plans and the peers on tables drawn from a law."""
    records = results["whole"]
    rows, said = [], []
    for place in dict.fromkeys((r["source"], r["rows"], r["columns"]) for r in records):
        group = [r for r in records if (r["source"], r["rows"], r["columns"]) == place]
        title = f"{place[0]}, {place[1]:,} x {place[2]}"
        rows += _attempts(results, group, title)
        said.append(_least(results, group, title))
    limits = listed([f"{limit:g} s" for limit in dict.fromkeys(r["limit"] for r in records)])
    return f"""## Directions and eigenvalues together, with the peers

The peers release both at once, so that they meet plans that pay for private directions and for
eigenvalues along them, half of the budget each. At most five components, epsilon 1. The angle is
between the leading direction and the true one. A table of 20 columns has eigenvalues from 10 to 1
in even steps of the logarithm. A fit of a peer is a process of its own and may take {limits} of the
processor; a peer that took longer is not asked again.

![Errors of whole releases against rows](images/benchmarks-whole.png)

{table(["table", "release", "runs", "total error", "sine of the angle", "CPU seconds"], rows)}
{paragraph(" ".join(said))}
"""


def _least(results: Record, group: list[Record], title: str) -> str:
    done = [record for record in group if record["done"]]
    if not done:
        return ""
    error = min(done, key=lambda record: record["eigenvalues"]["rmse"])
    angle = min(done, key=lambda record: record["sine"]["mean"])
    return (
        f"{title}: the least error is that of {_shown(results, error)}, the least angle that of "
        f"{_shown(results, angle)}."
    )


def _shown(results: Record, record: Record) -> str:
    name = record["competitor"]
    ours = any(method["name"] == name for method in results["methods"])
    return f"directions with `{name}`" if ours else name


def on_real_tables(results: Record) -> str:
    """Eigenvalues along a table's own directions, and whole releases."""
    methods = [each["name"] for each in results["methods"]]
    along, whole = [], []
    for facts in results["tables"]:
        for epsilon in dict.fromkeys(record["epsilon"] for record in results["real"]):
            wanted = facts["name"], epsilon
            these = [r for r in results["real"] if (r["source"], r["epsilon"]) == wanted]
            title = f"{facts['name']}, epsilon {epsilon}"
            if given := {r["competitor"]: r for r in these if r["form"] == "along"}:
                along.append([title, *_along(given, methods)])
            whole += _attempts(results, [r for r in these if r["form"] == "whole"], title)
    return f"""## Real tables that ship inside packages

Columns are centred and divided by their own standard deviations, to the peers' advantage; constant
ones are left out; each row counts as a person. The truth is the table itself: its three largest
eigenvalues. Errors are total errors in parts of the root of their summed squares, so that answers
of zero have 1. Runs differ in their noise alone.

{table(["table", "rows", "size", "eigenvalues"], [_shape(facts) for facts in results["tables"]])}
Eigenvalues along the table's own directions, given:

{table(["table", *(f"`{name}`" for name in methods)], along)}
Private directions and eigenvalues together, as above:

{table(["table", "release", "runs", "error", "sine of the angle", "CPU seconds"], whole)}"""


def _shape(facts: Record) -> list[str]:
    if "problem" in facts:
        return [facts["name"], facts["says"], plain(facts["problem"]), ""]
    size = f"{facts['rows']:,} x {facts['columns']}"
    eigenvalues = ", ".join(f"{value:.2f}" for value in facts["eigenvalues"])
    return [facts["name"], facts["says"], size, eigenvalues]


def _attempts(results: Record, group: list[Record], title: str) -> list[list[str]]:
    done = {record["competitor"]: record for record in group if record["done"]}
    best = least({name: record["eigenvalues"] for name, record in done.items()}, "rmse")
    nearest = least({name: record["sine"] for name, record in done.items()}, "mean")
    rows = []
    for record in group:
        name = record["competitor"]
        shown = _shown(results, record)
        problem = plain(record["problem"]) if record["problem"] else ""
        if name not in done:
            rows.append([title, shown, "0", problem, "", ""])
            continue
        error = measured(record["eigenvalues"]["rmse"], record["eigenvalues"]["error"])
        sine = measured(record["sine"]["mean"], record["sine"]["error"])
        rows.append(
            [
                title,
                shown,
                f"{record['done']}" + (f", then {problem}" if problem else ""),
                bold(error, where=name in best),
                bold(sine, where=name in nearest),
                number(record["cpu"], digits=2),
            ]
        )
    return rows


def _along(given: dict[str, Record], methods: list[str]) -> list[str]:
    done = {name: record["eigenvalues"] for name, record in given.items() if record["done"]}
    best = least(done, "rmse")
    texts = []
    for name in methods:
        text = "not reached"
        if name in done:
            text = measured(done[name]["rmse"], done[name]["error"])
            text = bold(text, where=name in best)
        elif name in given:
            text = plain(given[name]["problem"])
        texts.append(text)
    return texts
