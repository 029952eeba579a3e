"""A stat in a queue is the stat that was taken; a token is the HMAC of a key."""

from __future__ import annotations

import hashlib
import hmac
import json

import pytest

from app.errors import InvalidInput
from app.protocols.prometheus_text import KERNEL_BYTES
from app.protocols.stat_tokens import is_token_of, vm_token
from app.protocols.stats import (
    LARGEST,
    MAX_AHEAD_MS,
    Stat,
    decode_stat,
    encode_stat,
    key_of,
    read_entries,
    read_stat,
)

NOW_MS = 1_700_000_000_000
ENTRY: dict[str, object] = {
    "key": "default/db",
    "load1": 0.25,
    "load5": 1,
    "memTotalBytes": 17179869184,
    "memAvailableBytes": 3.5,
    "timestamp": NOW_MS,
}
STAT = Stat("default/db", 0.25, 1, 17179869184, 3.5, 1_700_000_000_123)


def test_a_stat_comes_out_of_the_queue_as_it_went_in() -> None:
    assert decode_stat(encode_stat(STAT)) == STAT


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", encode_stat(STAT)[:-1], b" " * 5000])
def test_what_is_no_stat_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidInput):
        decode_stat(data)


def test_memory_in_use_counts_the_kernels_share_as_polling_does() -> None:
    assert STAT.metrics().mem_bytes == 17179869184 - 3.5 + KERNEL_BYTES


def test_a_token_is_the_hmac_of_the_key_and_good_for_no_other() -> None:
    token = vm_token("secret", "default/db")
    assert token == hmac.new(b"secret", b"default/db", hashlib.sha256).hexdigest()
    assert is_token_of("secret", "default/db", token)
    assert not is_token_of("secret", "default/db2", token)
    assert not is_token_of("Secret", "default/db", token)
    assert not is_token_of("secret", "default/db", token.upper())
    assert not is_token_of("secret", "default/db", "")


def body(*entries: object) -> bytes:
    return json.dumps(list(entries)).encode()


def test_a_list_is_read_entry_by_entry() -> None:
    (entry,) = read_entries(body(ENTRY), max_bytes=1000)
    assert key_of(entry) == "default/db"
    assert read_stat(entry, "[0]", now_ms=NOW_MS) == Stat("default/db", 0.25, 1, 17179869184, 3.5, NOW_MS)


@pytest.mark.parametrize("data", [b"{}", b"1", b"null", b"[", body(*[1] * 600)])
def test_what_is_no_list_or_too_long_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidInput, match="body"):
        read_entries(data, max_bytes=1000)


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"load1": None}, "load1"),
        ({"load5": "1"}, "load5"),
        ({"load1": True}, "load1"),
        ({"load1": -0.1}, "load1"),
        ({"load5": float(LARGEST)}, "load5"),
        ({"memTotalBytes": 0}, "memTotalBytes"),
        ({"memAvailableBytes": 17179869185}, "memAvailableBytes"),
        ({"timestamp": 1.5}, "timestamp"),
        ({"timestamp": True}, "timestamp"),
        ({"timestamp": 0}, "timestamp"),
        ({"timestamp": LARGEST}, "timestamp"),
        ({"timestamp": NOW_MS + MAX_AHEAD_MS + 1}, "timestamp"),
        ({"key": "no-namespace"}, "key"),
        ({"key": 5}, "key"),
        ({"more": 1}, "more"),
    ],
)
def test_a_field_that_is_wrong_is_named(change: dict[str, object], where: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_stat(ENTRY | change, "[3]", now_ms=NOW_MS)
    assert caught.value.where == f"[3].{where}"


@pytest.mark.parametrize("name", ENTRY)
def test_a_field_that_is_missing_is_named(name: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_stat({key: value for key, value in ENTRY.items() if key != name}, "[3]", now_ms=NOW_MS)
    assert caught.value.where == f"[3].{name}"


@pytest.mark.parametrize("entry", [None, [], "x", 5])
def test_an_entry_that_is_no_object_has_no_key_and_is_refused(entry: object) -> None:
    assert key_of(entry) is None
    with pytest.raises(InvalidInput, match="not a JSON object"):
        read_stat(entry, "[3]", now_ms=NOW_MS)


def test_the_first_name_that_stands_twice_is_named() -> None:
    (entry,) = read_entries(b'[{"load1": 1, "key": "a/b", "key": "a/c", "load1": 2}]', max_bytes=1000)
    with pytest.raises(InvalidInput) as caught:
        read_stat(entry, "[0]", now_ms=NOW_MS)
    assert (caught.value.where, caught.value.problem) == ("[0].key", "stands there twice")


def test_a_vm_whose_clock_is_a_little_ahead_is_believed() -> None:
    assert read_stat(ENTRY | {"timestamp": NOW_MS + MAX_AHEAD_MS}, "", now_ms=NOW_MS).timestamp > NOW_MS


def test_no_load_is_minus_zero() -> None:
    assert str(read_stat(ENTRY | {"load1": -0.0}, "", now_ms=NOW_MS).load1) == "0.0"
