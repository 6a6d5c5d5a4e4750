"""What a ledger asks of a database: to read one state of it, and to be its only writer."""

from __future__ import annotations

import getpass
import re
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager

from sqlalchemy import Connection

from accountant.databases.schema import FORMAT
from accountant.errors import InvalidValue, LedgerUnreadable
from accountant.facts import check_name

BUSY_SECONDS = 30  # how long a writer waits for its turn


class Database(ABC):
    """A place for entries. All errors of the database and of the disk are LedgerUnreadable."""

    @property
    @abstractmethod
    def address(self) -> str:
        """Where it is, as people may see it: without a password."""

    @abstractmethod
    def create(self) -> None:
        """Make an empty ledger, at once and whole, unless something is there already."""

    @abstractmethod
    def check(self) -> None:
        """Refuse what is no ledger of this format."""

    @abstractmethod
    def check_storage(self) -> None:
        """Refuse damage that reading the entries may not meet. It reads everything."""

    @abstractmethod
    def upgrade(self) -> str:
        """Bring an older ledger to this format, and tell the one that it had."""

    @abstractmethod
    def reading(self) -> AbstractContextManager[Connection]:
        """One state of the ledger."""

    @abstractmethod
    def writing(self) -> AbstractContextManager[Connection]:
        """The only writer. What it wrote is durable when this ends, and undone on an exception."""

    def user(self, connection: Connection) -> str:
        """Who is at work, as the database or else the machine names them."""
        try:
            return check_name(getpass.getuser(), "user")
        except (ImportError, KeyError, OSError, InvalidValue):
            return "unknown"

    def unusable(self, why: str, advice: str) -> LedgerUnreadable:
        """The error for a ledger that cannot be used."""
        return LedgerUnreadable(
            f"ledger must be a usable ledger; got {self.address}: {why}. {advice}."
        )

    def check_format(self, found: str | None) -> None:
        """Refuse another format than this package's; None is a database without one."""
        if self.known_format(found) != FORMAT:
            raise self.unusable(
                f"its format is {found}, not {FORMAT}", "Type: accountant upgrade LEDGER"
            )

    def known_format(self, found: str | None) -> str:
        """The format, if it is one that this package knows."""
        if found is None:
            raise self.unusable("it is a database but no ledger", "Choose another one")
        if not re.fullmatch("[0-9]{1,6}", found) or int(found) > int(FORMAT):
            raise self.unusable(f"its format is {found}, not {FORMAT}", "Use a matching version")
        return found
