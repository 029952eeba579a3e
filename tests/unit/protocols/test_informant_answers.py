"""An informant's answers, as whoever has asked reads them."""

from __future__ import annotations

import pytest

from app.errors import InvalidInput
from app.protocols.informant import (
    decode_downscale_result,
    decode_unregistered,
    encode_downscale_result,
    encode_unregistered,
)


@pytest.mark.parametrize("is_yes", [True, False])
def test_answers_come_back_as_they_were_sent(is_yes: bool) -> None:
    assert decode_unregistered(encode_unregistered(was_active=is_yes)) is is_yes
    result = encode_downscale_result(is_allowed=is_yes, status="because")
    assert decode_downscale_result(result) == (is_yes, "because")


def test_a_missing_word_is_no() -> None:
    assert decode_unregistered(b"{}") is False
    assert decode_downscale_result(b'{"Ok": null}') == (False, "")


@pytest.mark.parametrize("body", [b"[]", b"", b"yes", b'{"Ok": 1, "wasActive": "true"}'])
def test_other_shapes_are_refused(body: bytes) -> None:
    with pytest.raises(InvalidInput):
        decode_unregistered(body)
    with pytest.raises(InvalidInput):
        decode_downscale_result(body)
