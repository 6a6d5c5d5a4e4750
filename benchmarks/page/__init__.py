"""The page, from results alone: no figure on it comes from a hand."""

from __future__ import annotations

from benchmarks.page.accuracy import by_components, by_law
from benchmarks.page.markdown import paragraph, plain, table
from benchmarks.page.speed import speed
from benchmarks.page.together import on_laws, on_real_tables
from benchmarks.summary import Record


def page(results: Record) -> str:
    """The whole document."""
    sections = (head, knowledge, by_law, by_components, on_laws, on_real_tables, speed)
    return "\n".join(section(results) for section in sections)


def head(results: Record) -> str:
    """How the page was made, and how to read it."""
    machine = results["machine"]
    versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items())
    made = (
        f"This page is of the **{results['form']}** form: {results['minutes']:g} minutes on "
        f"{machine['cores']} cores ({machine['architecture']}) with {machine['gibibytes']} GiB; "
        f"{versions}."
    )
    return f"""# Benchmarks: accuracy, speed and memory

`make benchmarks` (`python -m benchmarks`) measures everything on this page in an hour, or in
`--minutes`, and writes it with its pictures and [results.json](../benchmarks/results.json), from
which `--redraw` writes it again. `--quick` takes the same roads with few runs, in three minutes.
Peers get environments of their own, built the first time. Tables come from fixed seeds; the noise
of a private release has none.

{paragraph(made)}

- Every estimate of ours is the OpenDP measurement that a plan makes, one row a person, with the
  plan's post-processing. A row of a table compares at the same epsilon and on the same tables.
- *Total error*: the errors of the eigenvalues are squared, summed, averaged over runs, and the root
  is taken. *Relative*: each error is divided by its eigenvalue first, so that answers of zero have
  the root of the number of components. ± is one Monte Carlo error, missing where there was one run.
- **Bold**: the least of its kind in its row, and what is within two of its Monte Carlo errors.
- A percentage in brackets: the runs whose release carried a warning.
"""


def knowledge(results: Record) -> str:
    """What each competitor is told."""
    rows = [[f"`{each['name']}`", each["needs"]] for each in results["methods"]]
    rows += [[each["name"], each["needs"]] for each in results["peers"]]
    rows += [
        ["best constant in hindsight", "the truth: an oracle, not a release"],
        ["no privacy", "sample variances"],
    ]
    environments = "; ".join(map(_environment, results["libraries"].values()))
    return f"""## What each must know in advance

{table(["", "must know in public; what it is told here"], rows)}
What a method is told of the largest eigenvalue is right: a lucky guess. On real tables it is the
number of columns, which no eigenvalue of standardised columns exceeds. *Best constant in hindsight*
is the clipped mean over a ring of degree 16 with all of mu on its noise, and the one constant C for
all components that proved best on the same runs.

The peers' privacy is pure, so that delta goes unused, and is taken at their word. OpenDP's epsilon
is set so that the map of its measurement for one replaced row (distance 2) says ours; a third each
goes to the mean, the eigenvalues and the directions, and rows are cut at the norm. diffprivlib
gives half of epsilon to the mean unless the centre is known, and the rest in equal parts to the
eigenvalues and to each direction; its warning that it reads a bound off the table is an error here.

{paragraph(f"Environments of the peers: {environments}.")}
"""


def _environment(library: Record) -> str:
    problem = f" ({plain(library['problem'])})" if library["problem"] else ""
    return ", ".join(library["pins"]) + problem
