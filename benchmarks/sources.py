"""Where a table comes from, and what is true of it: a law, or a real table inside a package."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.environments import OPENDP, SCRIPTS, PeerFailed, cache
from benchmarks.families import FAMILIES, Known
from dppca_odp.values import Floats


@dataclass(frozen=True)
class Task:
    """A table, what is to be found in it, and what may be known about it."""

    table: Floats
    eigenvalues: Floats
    """All of them, from the largest."""
    directions: Floats
    """Their directions, a column for each."""
    size: float
    """What errors are divided by."""
    delta: str
    known: Known
    row_norm: float | None
    """A round public bound of the rows' norm, if there is one."""


@dataclass(frozen=True)
class RealTable:
    """A table inside a package; its columns are centred and divided by their standard deviations.

    That is for the comparison: a real plan has public scales, and our plans need no centre.
    """

    name: str
    says: str
    load: Callable[[], Floats]

    def task(self, components: int) -> Task:
        """The sample's own eigenvalues are to be found; errors are in parts of their norm."""
        table = self.standardised()
        values, vectors = np.linalg.eigh(np.cov(table, rowvar=False))
        values, vectors = values[::-1], vectors[:, ::-1]
        return Task(
            table=table,
            eigenvalues=values,
            directions=vectors,
            size=float(np.linalg.norm(values[:components])),
            delta="1e-5",
            known=Known(float(table.shape[1])),  # no eigenvalue of a correlation matrix is larger
            row_norm=None,
        )

    def standardised(self) -> Floats:
        """The table, without constant columns."""
        path = cache() / "tables" / f"{self.name}.npy"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            table = np.asarray(self.load(), dtype=float)
            table = table[:, table.std(axis=0) > 0]
            np.save(path, (table - table.mean(axis=0)) / table.std(axis=0, ddof=1))
        loaded: Floats = np.load(path)
        return loaded

    def facts(self) -> dict[str, Any]:
        """Its size and its three largest eigenvalues, or why it could not be had."""
        facts: dict[str, Any] = {"name": self.name, "says": self.says}
        try:
            given = self.task(components=3)
        except PeerFailed as failure:
            return facts | {"problem": str(failure)}
        rows, columns = given.table.shape
        eigenvalues = [round(value, 2) for value in given.eigenvalues[:3].tolist()]
        return facts | {"rows": rows, "columns": columns, "eigenvalues": eigenvalues}


def _randhie() -> Floats:
    from statsmodels.datasets import randhie

    from dppca_odp.demo import COLUMNS

    frame = randhie.load_pandas().data
    rows: Floats = frame[[column.name for column in COLUMNS]].to_numpy()
    return rows


def _fair() -> Floats:
    from statsmodels.datasets import fair

    rows: Floats = fair.load_pandas().data.to_numpy()
    return rows


def _scikit_learn(name: str) -> Callable[[], Floats]:
    def load() -> Floats:
        path = cache() / "tables" / f"{name}-as-shipped.npy"
        command = [str(OPENDP.python), str(SCRIPTS / "tables.py"), name, str(path)]
        try:
            subprocess.run(command, capture_output=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            raise PeerFailed("the table needs scikit-learn, which did not install") from None
        loaded: Floats = np.load(path)
        return loaded

    return load


REAL_TABLES = {
    table.name: table
    for table in (
        RealTable("randhie", "RAND health insurance (statsmodels): the demo's columns", _randhie),
        RealTable("fair", "Fair's survey of extramarital affairs (statsmodels)", _fair),
        RealTable("digits", "pixels of digits (scikit-learn)", _scikit_learn("digits")),
        RealTable(
            "breast_cancer",
            "cells of breast tumours (scikit-learn)",
            _scikit_learn("breast_cancer"),
        ),
    )
}


def task(source: str, *, rows: int, columns: int, components: int, run: int) -> Task:
    """The table of a run: drawn anew for a law, always the same for a real table."""
    if source in REAL_TABLES:
        return REAL_TABLES[source].task(components)
    family = FAMILIES[source]
    return Task(
        table=family.table(rows, columns, run),
        eigenvalues=family.eigenvalues(columns),
        directions=np.eye(columns),
        size=1.0,
        delta=family.delta,
        known=family.known(columns),
        row_norm=family.row_norm,
    )
