"""The head of a ledger, to be published: whoever has it sees when the end is cut off later.

The signature is Ed25519 over a fixed prefix and the canonical JSON of the head.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from accountant.entries import Entry, canonical_json
from accountant.errors import InvalidValue
from accountant.facts import Count, Fact, read_file

_PREFIX = b"head of a privacy budget ledger\n"


class Head(Fact):
    """How many entries there were, and the hash of the last: it stands for all before it."""

    entries: Count
    hash: str
    signature: str = ""

    @classmethod
    def read(cls, path: Path) -> Head:
        """A head from its file."""
        return read_file(cls, path, "head must be a readable file", InvalidValue)

    def signed(self, key_file: Path) -> Head:
        """The head with a signature by the private key in this PEM file."""
        with _told_if_missing():
            from accountant.signatures import sign
        return self.model_copy(update={"signature": sign(self._message(), key_file)})

    def problems(self, found: str | None, count: int, key_file: Path | None) -> Iterator[str]:
        """What is wrong with a ledger of `count` entries, where `found` is the hash at the head.

        With a key file, the head must be signed by its key.
        """
        if key_file and not self.is_signed_by(key_file):
            yield "the head's signature is not that key's"
        if count < self.entries:
            yield (
                f"the published head counts {self.entries} entries, the ledger {count}: its end "
                "was cut off, or an old copy was restored"
            )
        elif found != self.hash:
            yield (
                "the entry is not that of the published head: the entries up to it were rewritten"
            )

    def is_signed_by(self, key_file: Path) -> bool:
        """Whether the signature is that of the public key in this PEM file."""
        with _told_if_missing():
            from accountant.signatures import is_signed
        return is_signed(self._message(), self.signature, key_file)

    def _message(self) -> bytes:
        return _PREFIX + canonical_json({"entries": self.entries, "hash": self.hash}).encode()


def head_of(last: Entry | None) -> Head:
    """The head of a ledger that ends with this entry."""
    if last is None:
        raise InvalidValue("ledger must hold an entry to have a head; got none. Grant first.")
    return Head(entries=last.sequence, hash=last.hash)


@contextmanager
def _told_if_missing() -> Iterator[None]:
    """The package that signs is imported only where it is needed, and named if it is not there."""
    try:
        yield
    except ModuleNotFoundError:
        raise InvalidValue(
            'cryptography must be installed to sign; got none. Type: pip install "dppca-odp[sign]"'
        ) from None
