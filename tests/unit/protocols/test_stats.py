"""A stat in a queue is the stat that was taken; a token is the HMAC of a key."""

from __future__ import annotations

import hashlib
import hmac

import pytest

from app.errors import InvalidInput
from app.protocols.prometheus_text import KERNEL_BYTES
from app.protocols.stat_tokens import is_token_of, vm_token
from app.protocols.stats import Stat, decode_stat, encode_stat

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
