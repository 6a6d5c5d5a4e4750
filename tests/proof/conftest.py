"""Noise that draws what a test writes down."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import opendp.prelude as dp
import pytest


@pytest.fixture
def script(monkeypatch) -> dict[float, Iterator[int]]:
    """Integer Laplace noise that draws what a test writes down for its scale."""
    noises: dict[float, Iterator[int]] = {}
    monkeypatch.setattr(
        dp.m,
        "make_laplace",
        lambda *space, scale: lambda zeros: list(islice(noises[scale], len(zeros))),
    )
    return noises
