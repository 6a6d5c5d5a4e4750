"""Tests run as root in many places, and root may write everywhere: these run as somebody else."""

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def as_somebody() -> Iterator[None]:
    """Without the rights of an administrator."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
