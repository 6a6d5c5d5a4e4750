"""Ed25519 signatures with keys in PEM files, by the package cryptography."""

from __future__ import annotations

from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from accountant.errors import InvalidValue


def sign(message: bytes, key_file: Path) -> str:
    """The signature by the private key in this file, in hexadecimal digits."""
    try:
        key = load_pem_private_key(key_file.read_bytes(), password=None)
    except (OSError, ValueError, TypeError):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise InvalidValue(
            f"key must be a PEM file with an Ed25519 private key, without a password; got "
            f"{key_file}. Make one: openssl genpkey -algorithm ed25519 -out KEY.pem"
        )
    return key.sign(message).hex()


def is_signed(message: bytes, signature: str, key_file: Path) -> bool:
    """Whether the signature is that of the public key in this file."""
    try:
        key = load_pem_public_key(key_file.read_bytes())
    except (OSError, ValueError, TypeError):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise InvalidValue(
            f"public_key must be a PEM file with an Ed25519 public key; got {key_file}. "
            "Make it: openssl pkey -in KEY.pem -pubout -out PUBLIC.pem"
        )
    try:
        key.verify(bytes.fromhex(signature), message)
    except (ValueError, InvalidSignature):
        return False
    return True
