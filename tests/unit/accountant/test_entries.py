import hashlib
import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from accountant.entries import GENESIS, Entry, Rejection, canonical_json, draft, seal
from accountant.errors import InvalidValue

BODY = Rejection(reason="no rows", actor="ana")
BALANCE = '{"free":"all of it"}'


def sealed(previous: Entry | None, key: str | None = None) -> Entry:
    made = draft(previous, data_set="d", kind="rejection", body=BODY, release_key=key)
    return seal(made, BALANCE)


def test_the_hash_can_be_recomputed_with_the_standard_library_alone() -> None:
    entry = sealed(None)
    fields = {
        "sequence": 1,
        "data_set": "d",
        "kind": "rejection",
        "release_key": None,
        "time": entry.time,
        "body": '{"actor":"ana","reason":"no rows"}',
        "balance": BALANCE,
        "previous_hash": "0" * 64,
    }
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    assert hashlib.sha256(text.encode()).hexdigest() == entry.hash == entry.digest()


def test_an_entry_follows_the_one_before() -> None:
    first = sealed(None)
    second = sealed(first, "k")
    assert (GENESIS, first.hash) == (first.previous_hash, second.previous_hash)
    assert (first.sequence, second.sequence) == (1, 2)
    assert second.release_key == "k"


def test_time_is_utc_and_never_runs_backwards() -> None:
    first = sealed(None)
    assert datetime.fromisoformat(first.time).tzinfo == UTC
    future = type(first)(**(first.fields() | {"time": "2999-01-01T00:00:00.000000+00:00"}))
    assert future.time == sealed(future).time


def test_an_entry_of_format_1_has_the_hash_that_it_had() -> None:
    entry = replace(sealed(None), balance=None)
    fields = entry.fields()
    for name in ("allocation", "balance", "hash"):
        del fields[name]
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    assert hashlib.sha256(text.encode()).hexdigest() == entry.digest()


@pytest.mark.parametrize("document", [{"a": float("nan")}, {"a": {1}}, {"a": 1, 2: 3}])
def test_what_is_not_plain_json_is_refused(document: object) -> None:
    with pytest.raises(InvalidValue, match=r"^document must be plain JSON; got "):
        canonical_json(document)


def test_a_document_without_end_is_refused() -> None:
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(InvalidValue, match=r"^document must be plain JSON; got "):
        canonical_json(endless)
