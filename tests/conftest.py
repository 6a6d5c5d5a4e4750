from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from .postgresql import PostgresqlServer, running_server

settings.register_profile(  # a busy machine is no failure
    "unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("unhurried")


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[PostgresqlServer]:
    """A real server, shared by the tests of one process (pytest, or one worker of xdist)."""
    with running_server() as server:
        yield server


@pytest.fixture
def postgresql_url(postgresql_server: PostgresqlServer) -> Iterator[str]:
    """The SQLAlchemy url of a fresh empty database."""
    with postgresql_server.fresh_database() as url:
        yield url


@pytest.fixture
def own_postgresql() -> Iterator[PostgresqlServer]:
    """A server for one test alone, which may `kill` it and `start` it again."""
    with running_server() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place for a ledger, on each database in turn."""
    if request.param == "sqlite":
        return str(tmp_path / "ledger.db")
    return str(request.getfixturevalue("postgresql_url"))


@pytest.fixture
def file_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Methods draw pairs in the order of the file instead of a random one."""
    import numpy as np

    from dppca_odp.primitives.pairs import Pairing

    monkeypatch.setattr(
        "dppca_odp.eigenvalues.method.draw_pairing",
        lambda rows, degree: Pairing(rows, degree, np.arange(rows)),
    )
