"""The head of a ledger, to be published: whoever has it sees when the end is cut off later.

The signature is Ed25519 over a fixed prefix and the canonical JSON of the head.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from accountant.entries import Entry, canonical_json
from accountant.errors import InvalidValue
from accountant.facts import Count, Fact, first_problem

_PREFIX = b"head of a privacy budget ledger\n"


class Head(Fact):
    """How many entries there were, and the hash of the last: it stands for all before it."""

    entries: Count
    hash: str
    signature: str = ""

    @classmethod
    def read(cls, path: Path) -> Head:
        """A head from its file."""
        try:
            return cls.model_validate_json(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError):
            raise InvalidValue(
                f"head must be a readable file; got {path}. Check the path."
            ) from None
        except ValidationError as error:
            raise InvalidValue(f"{path.name}: {first_problem(error)}") from None

    def signed(self, key_file: Path) -> Head:
        """The head with a signature by the private key in this PEM file."""
        keys = _cryptography()
        try:
            key = keys.load_pem_private_key(key_file.read_bytes(), password=None)
        except (OSError, ValueError, TypeError):
            key = None
        if not isinstance(key, keys.Ed25519PrivateKey):
            raise InvalidValue(
                f"key must be a PEM file with an Ed25519 private key, without a password; got "
                f"{key_file}. Make one: openssl genpkey -algorithm ed25519 -out KEY.pem"
            )
        return self.model_copy(update={"signature": key.sign(self._message()).hex()})

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
        keys = _cryptography()
        try:
            key = keys.load_pem_public_key(key_file.read_bytes())
        except (OSError, ValueError, TypeError):
            key = None
        if not isinstance(key, keys.Ed25519PublicKey):
            raise InvalidValue(
                f"public_key must be a PEM file with an Ed25519 public key; got {key_file}. "
                "Make it: openssl pkey -in KEY.pem -pubout -out PUBLIC.pem"
            )
        try:
            key.verify(bytes.fromhex(self.signature), self._message())
        except (ValueError, keys.InvalidSignature):
            return False
        return True

    def _message(self) -> bytes:
        return _PREFIX + canonical_json({"entries": self.entries, "hash": self.hash}).encode()


def head_of(last: Entry | None) -> Head:
    """The head of a ledger that ends with this entry."""
    if last is None:
        raise InvalidValue("ledger must hold an entry to have a head; got none. Grant first.")
    return Head(entries=last.sequence, hash=last.hash)


def _cryptography() -> Any:
    """The names of the package that signs; it is asked for only here."""
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric import ed25519
        from cryptography.hazmat.primitives.serialization import (
            load_pem_private_key,
            load_pem_public_key,
        )
    except ModuleNotFoundError:
        raise InvalidValue(
            'cryptography must be installed to sign; got none. Type: pip install "dppca-odp[sign]"'
        ) from None
    from types import SimpleNamespace

    return SimpleNamespace(
        InvalidSignature=InvalidSignature,
        Ed25519PrivateKey=ed25519.Ed25519PrivateKey,
        Ed25519PublicKey=ed25519.Ed25519PublicKey,
        load_pem_private_key=load_pem_private_key,
        load_pem_public_key=load_pem_public_key,
    )
